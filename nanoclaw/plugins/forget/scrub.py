"""Takes words out of every text in the store, so that no byte of them is left in its files."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from nanoclaw.core.errors import StoreError
from nanoclaw.core.store.copies import all_copies
from nanoclaw.core.store.db import Store


class Words(Protocol):
    """What is to be taken out."""

    def without_any(self, text: str, *, closely: bool = False) -> str: ...


class Cell(NamedTuple):
    """One text that was changed, for as long as that can be undone."""

    table: str
    row: int
    column: str
    before: str
    after: str


def scrub(store: Store, words: Words, running: str = "") -> list[Cell]:
    """Change every text that has the words. What was said in a turn that has them, or that runs the tool `running`,
    is looked at closely. Raises StoreError; then nothing was changed."""
    close = _turns(store.db, words, running)
    cells = list(_changes(store.db, words, close))
    if cells:
        with store.transaction() as db:
            _write(db, ((cell, cell.after) for cell in cells))
    drop_bytes(store)
    return cells


def restore(store: Store, cells: Iterable[Cell]) -> int:
    """Put texts back that nobody has changed since; how many."""
    with store.transaction() as db:
        return _write(db, ((cell, cell.before) for cell in cells))


def mentions(store: Store, has_words: Callable[[str], bool]) -> int:
    """How many messages of ended turns have words in them."""
    sql = "SELECT body FROM messages JOIN turns ON turns.id = messages.turn WHERE ended IS NOT NULL"
    return sum(1 for (body,) in store.rows(sql) if has_words(body))


def drop_bytes(store: Store) -> None:
    """Build the file anew without what was deleted or overwritten in it, and empty its journal."""
    try:
        store.db.execute("PRAGMA secure_delete = ON")  # or the free part of a new page holds old text
        store.db.execute("VACUUM")
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise StoreError(
            f"the words were taken out of {store.path}, but its free space still holds them ({error}): "
            "free some disk space and forget them again."
        ) from error


def scrub_copies(path: Path, words: Words) -> None:
    """The same for the copies that were kept, one a day and one before each change of format. One that cannot be
    changed is deleted."""
    for copy in all_copies(path):
        try:
            with closing(sqlite3.connect(copy, isolation_level=None)) as db:
                cells = list(_changes(db, words, _turns(db, words, "")))
                if cells:
                    db.execute("PRAGMA secure_delete = ON")
                    db.execute("BEGIN IMMEDIATE")
                    _write(db, ((cell, cell.after) for cell in cells))
                    db.execute("COMMIT")
                    db.execute("VACUUM")
                    db.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error:
            copy.unlink(missing_ok=True)
        for rest in ("-wal", "-shm", "-journal"):
            copy.with_name(copy.name + rest).unlink(missing_ok=True)


_TURN_OF = {
    "messages": "turn",
    "turns": "id",
    "ledger": "turn",
    "inbox": "id",
    "outbox": "inbox",
    "compactions": "session",
}
"""The column that says to which turn (or inbox row, or session) a row belongs."""

_MARK_NAMES = (
    "at channel chat day due ended external_id key kind model origin parts platform_id reason received reply_to"
)
_JOB_MARKS = "again anchor creator fired next_due on_miss rule schedule zone"
_MARKS = frozenset([*_MARK_NAMES.split(), *_JOB_MARKS.split(), "address", "after", "before", "state", "tool"])
"""Columns that hold names, states and times: no one's words, and nothing works without them."""


class _Close(NamedTuple):
    turns: frozenset[Any] = frozenset()
    inbox: frozenset[Any] = frozenset()
    sessions: frozenset[Any] = frozenset()

    def has(self, table: str, key: Any) -> bool:
        if table == "compactions":
            return key in self.sessions
        return key in (self.turns if table in ("messages", "turns", "ledger") else self.inbox)


def _turns(db: sqlite3.Connection, words: Words, running: str) -> _Close:
    """Turns in which the words stand, with the inbox rows that began them."""
    with suppress(sqlite3.OperationalError):  # an older format may lack these tables
        turns = {turn for turn, body in db.execute("SELECT turn, body FROM messages") if _has(words, body)}
        if running:
            sql = "SELECT id FROM turns WHERE ended IS NULL AND instr(running, ?)"
            turns.update(id_ for (id_,) in db.execute(sql, (running,)))
        rows = [row for row in db.execute("SELECT id, inbox, session FROM turns") if row[0] in turns]
        return _Close(
            frozenset(turns), frozenset(inbox for _, inbox, _ in rows), frozenset(session for *_, session in rows)
        )
    return _Close()


def _has(words: Words, text: str) -> bool:
    return words.without_any(text) != text


def _changes(db: sqlite3.Connection, words: Words, close: _Close) -> Iterator[Cell]:
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()]
    for table in tables:
        if table.startswith("sqlite_"):
            continue
        columns = _text_columns(db, table)
        owner = _TURN_OF.get(table, "rowid")
        if not columns:
            continue
        chosen = ", ".join(f'"{name}"' for name in ("rowid", owner, *columns)).replace('"rowid"', "rowid")
        for row, key, *texts in db.execute(f'SELECT {chosen} FROM "{table}"').fetchall():
            closely = table in _TURN_OF and close.has(table, key)
            for column, text in zip(columns, texts, strict=True):
                if isinstance(text, str) and (after := words.without_any(text, closely=closely)) != text:
                    yield Cell(table, row, column, text, after)


def _text_columns(db: sqlite3.Connection, table: str) -> list[str]:
    """Those that hold free text, not keys."""
    indexes = db.execute(f'PRAGMA index_list("{table}")').fetchall()
    keys = {
        column[2]
        for index in indexes
        if index[2]  # unique
        for column in db.execute(f'PRAGMA index_info("{index[1]}")').fetchall()
    }
    columns = db.execute(f'PRAGMA table_info("{table}")').fetchall()
    texts = [name for _, name, kind, _, _, key in columns if kind.upper() == "TEXT" and not key]
    return [name for name in texts if name not in keys and name not in _MARKS]


def _write(db: sqlite3.Connection, values: Iterable[tuple[Cell, str]]) -> int:
    """Only where the text is still the other one; how many."""
    written = 0
    for cell, text in values:
        other = cell.before if text == cell.after else cell.after
        sql = f'UPDATE "{cell.table}" SET "{cell.column}" = ? WHERE rowid = ? AND "{cell.column}" = ?'
        written += db.execute(sql, (text, cell.row, other)).rowcount
    return written
