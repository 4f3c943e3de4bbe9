"""Takes words out of every text in the store, so that no byte of them is left in its files."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from nanoclaw.core.plugin import Host, Plugin
from nanoclaw.plugins.forget.words import Words

if TYPE_CHECKING:
    from nanoclaw.core.records import Records

Read = Callable[..., list[Any]]
"""The rows of a statement."""


class Cell(NamedTuple):
    """One text that was changed."""

    table: str
    row: int
    column: str
    before: str
    after: str


class Marks(NamedTuple):
    """Columns with nobody's words. Of a `declared` table only those that its plugin names as `columns`."""

    declared: Set[str] = frozenset()
    columns: Set[str] = frozenset()

    def has(self, table: str, column: str) -> bool:
        return f"{table}.{column}" in self.columns if table in self.declared else column in _NAMES


def scrub(host: Host, words: Words, running: str = "") -> list[Cell]:
    """Change every text of the store that has the words. Texts of a turn that has them, or that runs the tool
    `running`, are looked at closely. Raises StoreError; then nothing was changed."""
    cells = list(_changes(host.read, words, _turns(host.records, words, running), marks_of(host.plugins())))
    if cells:
        host.write_now(lambda tx: _write(tx.execute, cells))
    host.drop_bytes()
    return cells


def mentions(records: Records, has_words: Callable[[str], bool]) -> int:
    """Count the messages of ended turns that have the words."""
    return sum(ended and has_words(body) for _, body, ended in records.messages())


def scrub_copies(host: Host, words: Words) -> None:
    """Scrub the copies of the store, one a day and one before each change of format. One that cannot be changed is
    deleted."""
    for copy in host.copies():
        try:
            with closing(sqlite3.connect(copy, isolation_level=None)) as db:
                read: Read = lambda sql, *values, db=db: db.execute(sql, values).fetchall()  # noqa: E731
                close = _turns(host.records._replace(read=read), words)
                cells = list(_changes(read, words, close, marks_of(host.plugins())))
                if cells:
                    db.execute("PRAGMA secure_delete = ON")
                    db.execute("BEGIN IMMEDIATE")
                    _write(read, cells)
                    db.execute("COMMIT")
                    db.execute("VACUUM")
                    db.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error:
            copy.unlink(missing_ok=True)
        for rest in ("-wal", "-shm", "-journal"):
            copy.with_name(copy.name + rest).unlink(missing_ok=True)


def marks_of(plugins: Iterable[Plugin]) -> Marks:
    """The marks of the plugins that run."""
    running = list(plugins)
    made = "\n".join(sql for plugin in running for sql in plugin.migrations)
    declared = frozenset(re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", made))
    return Marks(declared, frozenset(column for plugin in running for column in plugin.marks))


_OWNERS = {
    "messages": ("turn", 0),
    "turns": ("id", 0),
    "ledger": ("turn", 0),
    "inbox": ("id", 1),
    "outbox": ("inbox", 1),
    "compactions": ("session", 2),
}
"""By table the column with what a row belongs to: a turn (0), an inbox row (1) or a session (2)."""

_CORE = "at channel chat day due ended external_id key kind model origin parts platform_id reason received reply_to"
_JOBS = "again anchor creator fired next_due on_miss rule schedule zone"
_ASKS = "asked by expires"
_NAMES = frozenset(
    [*_CORE.split(), *_JOBS.split(), *_ASKS.split(), "address", "after", "before", "state", "tool", "profile"]
)
"""Columns of the core's tables, and of plugins' that don't run, which hold names, states and times: nobody's words, and
nothing works without them."""


def _turns(records: Records, words: Words, running: str = "") -> list[Set[Any]]:
    """Turns that contain the words, the inbox rows that began them, and their sessions."""
    rows = list[Any]()
    with suppress(sqlite3.OperationalError):  # an older format may lack these tables
        turns = {turn for turn, body, _ in records.messages() if _has(words, body)}
        rows = [row for row in records.turns() if row[0] in turns or (running and running in row[3])]
    return [{row[place] for row in rows} for place in range(3)]


def _has(words: Words, text: str) -> bool:
    return words.without_any(text) != text


def _changes(read: Read, words: Words, close: list[Set[Any]], marks: Marks) -> Iterator[Cell]:
    tables = [name for (name,) in read("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    for table in tables:
        if table.startswith("sqlite_"):
            continue
        columns = [name for name in _text_columns(read, table) if not marks.has(table, name)]
        owner, place = _OWNERS.get(table, ("rowid", None))
        if not columns:
            continue
        chosen = ", ".join(f'"{name}"' for name in ("rowid", owner, *columns)).replace('"rowid"', "rowid")
        for row, key, *texts in read(f'SELECT {chosen} FROM "{table}"'):
            closely = place is not None and key in close[place]
            for column, text in zip(columns, texts, strict=True):
                if isinstance(text, str) and (after := words.without_any(text, closely=closely)) != text:
                    yield Cell(table, row, column, text, after)


def _text_columns(read: Read, table: str) -> list[str]:
    """Columns of text that are no keys."""
    indexes = read(f'PRAGMA index_list("{table}")')
    keys = {
        column[2]
        for index in indexes
        if index[2]  # unique
        for column in read(f'PRAGMA index_info("{index[1]}")')
    }
    columns = read(f'PRAGMA table_info("{table}")')
    texts = [name for _, name, kind, _, _, key in columns if kind.upper() == "TEXT" and not key]
    return [name for name in texts if name not in keys]


def _write(execute: Callable[..., list[Any]], cells: Iterable[Cell]) -> None:
    """Write texts over those that are still as they were."""
    for cell in cells:
        sql = f'UPDATE "{cell.table}" SET "{cell.column}" = ? WHERE rowid = ? AND "{cell.column}" = ?'
        execute(sql, cell.after, cell.row, cell.before)
