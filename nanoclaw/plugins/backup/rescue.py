"""A damaged state.db: kept aside under a name that says so, and what can still be read of it in a new one."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from nanoclaw.atomic_write import drafted, reason, sync_folder
from nanoclaw.core.errors import StoreError
from nanoclaw.plugins.backup.pages import MAGIC, Pages, Row, Value

_TOLD = {"messages": "messages of conversations", "jobs": "reminders and tasks", "pins": "standing rules"}
"""What the person is told of."""

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "TEXT": (str,), "BLOB": (bytes,), "REAL": (float, int)}


def is_damage(error: BaseException) -> bool:
    """Whether SQLite says that the file itself is damaged or no database, not that a disk or a lock is in the way."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_whole(db: sqlite3.Connection) -> bool:
    """Whether all of the file can be read and is as it should be. Raises sqlite3.OperationalError for other trouble."""
    try:
        return bool(db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            return False
        raise


def version_in_header(path: Path) -> int:
    """The format by the first bytes of a file that SQLite may refuse; 0 where they say nothing."""
    with path.open("rb") as file:
        header = file.read(100)
    return int.from_bytes(header[60:64], "big") if len(header) == 100 and header.startswith(MAGIC) else 0


def rescue(path: Path, migrations: Sequence[str]) -> str:
    """Keep the damaged file aside and put a new one in its place, with every row that can be read.

    Only for the owner. Returns what happened as a sentence. Raises StoreError, and leaves all as it was, when there is
    no room. Whenever it is interrupted, the next one goes on with the same file and its journal.
    """
    try:
        aside = _keep_aside(path)
        with drafted(path) as draft:
            saved = _save_rows(aside, draft, migrations)
            for suffix in ("-wal", "-shm"):  # a journal would be played into the new file
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            sync_folder(path.parent)
    except (OSError, sqlite3.Error) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise StoreError(
            f"{path} is damaged, and it could not be put aside to start anew: {why.rstrip('.')}. Nothing was changed; "
            "free some space, or move it aside yourself."
        ) from error
    return (
        f"{path} was damaged: {_in_words(saved)} The damaged file is kept as {aside.name}. "
        "A backup brings back what it has: nanoclaw restore FILE."
    )


def _in_words(saved: _Saved) -> str:
    """What goes on, and what may be lost, by kind."""
    if not any(saved.rows.values()):
        return "nothing of it could be read, so that conversations, reminders and standing rules are lost."
    told = [f"{_number(saved.rows.get(table, 0))} {name}" for table, name in _TOLD.items()]
    said = f"what could be read of it goes on: {', '.join(told)}. What stood in its damaged parts is lost."
    if saved.unnamed:
        said += (
            f" Conversations that lost their names: {saved.unnamed}; `nanoclaw sessions list` shows what they are now."
        )
    return said


def _number(count: int) -> str:
    return f"{count:,}" if count else "no"


def _keep_aside(path: Path) -> Path:
    """A second name for the file, and for its journal, before anything is done."""
    earlier = (other for other in path.parent.glob(f"{path.name}.damaged-*") if other.samefile(path))
    if (aside := next(earlier, None)) is None:
        aside = _free_name(path)
        os.link(path, aside)
    wal, aside_wal = (each.with_name(each.name + "-wal") for each in (path, aside))
    if _size(wal) and not aside_wal.exists():
        os.link(wal, aside_wal)
    sync_folder(path.parent)
    return aside


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _free_name(path: Path) -> Path:
    stamp = f"{path.name}.damaged-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    names = (stamp if not number else f"{stamp}-{number}" for number in range(1000))
    return path.with_name(next(name for name in names if not path.with_name(name).exists()))


class _Saved(NamedTuple):
    """Rows by table, and how many conversations lost their name."""

    rows: Mapping[str, int]
    unnamed: int


class _Column(NamedTuple):
    name: str
    type: str
    is_required: bool
    has_default: bool
    is_number: bool
    """Another name of the row's number."""

    def takes(self, value: Value) -> bool:
        if value is None:
            return self.is_number or not self.is_required
        if self.is_number or not isinstance(value, _PYTHON_TYPES[self.type]):
            return False
        if isinstance(value, str) and "\0" in value:  # half of it was lost
            return False
        return self.name != "body" or _is_json(value)


def _save_rows(damaged: Path, draft: Path, migrations: Sequence[str]) -> _Saved:
    """Make the draft a database of the damaged one's format with its readable rows."""
    pages = Pages(damaged)
    version = pages.version if 0 < pages.version <= len(migrations) else len(migrations)
    with closing(sqlite3.connect(draft, isolation_level=None)) as new:
        new.execute("PRAGMA journal_mode = MEMORY")  # it is a draft
        new.executescript("\n".join(migrations[:version]) + f"\nPRAGMA user_version = {version};")
        new.execute("PRAGMA foreign_keys = OFF")
        new.execute("BEGIN")
        tables = _tables(new)
        for row in pages.rows():
            fitting = [table for table, columns in tables.items() if _fits(row, columns)]
            if len(fitting) > 1:
                fitting = [table for table in fitting if _is_allowed(new, table, tables[table], row)]
            if len(fitting) == 1:
                _insert(new, fitting[0], tables[fitting[0]], row)
        unnamed = _stand_in(new)
        _drop_loose_ends(new)
        new.execute("COMMIT")
        if not is_whole(new):
            raise StoreError(f"what was read of {damaged} makes no whole database; move it aside yourself.")
        saved = {table: int(new.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]) for table in tables}
    return _Saved(saved, unnamed)


def _tables(db: sqlite3.Connection) -> dict[str, list[_Column]]:
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {name: list(_columns(db, name)) for name in names}


def _columns(db: sqlite3.Connection, table: str) -> Iterator[_Column]:
    for _, name, type_, required, default, key in db.execute(f'PRAGMA table_info("{table}")'):
        yield _Column(name, type_, bool(required or key), default is not None, bool(key) and type_ == "INTEGER")


def _fits(row: Row, columns: Sequence[_Column]) -> bool:
    """Whether it can be a row of a table; one from before a column was added is shorter."""
    fields, missing = row[1], columns[len(row[1]) :]
    return (
        len(fields) <= len(columns)
        and all(column.has_default or not column.is_required for column in missing)
        and all(column.takes(value) for column, value in zip(columns, fields, strict=False))
    )


def _is_allowed(db: sqlite3.Connection, table: str, columns: Sequence[_Column], row: Row) -> bool:
    """Whether a table takes the values of a row, such as the names of its states."""
    db.execute("SAVEPOINT trial")
    try:
        _insert(db, table, columns, row, "ABORT")
    except sqlite3.IntegrityError as error:
        return "CHECK" not in str(error)
    finally:
        db.execute("ROLLBACK TO trial")
        db.execute("RELEASE trial")
    return True


def _insert(db: sqlite3.Connection, table: str, columns: Sequence[_Column], row: Row, or_: str = "IGNORE") -> None:
    number, fields = row
    names = [column.name for column in columns[: len(fields)]]
    values = [number if column.is_number else value for column, value in zip(columns, fields, strict=False)]
    if not columns[0].is_number:
        names, values = ["rowid", *names], [number, *values]
    listed, marks = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
    db.execute(f'INSERT OR {or_} INTO "{table}" ({listed}) VALUES ({marks})', values)


def _is_json(value: Value) -> bool:
    try:
        json.loads(str(value))
    except (ValueError, RecursionError):
        return False
    return True


def _stand_in(db: sqlite3.Connection) -> int:
    """Rows in place of lost ones, without which messages would be lost too; how many conversations lost their name."""
    unnamed = 0
    for session, context in db.execute(_LOST_SESSIONS).fetchall():
        found = db.execute(_NAME_OF_SESSION, (session,)).fetchone()
        is_first = not unnamed and not db.execute("SELECT 1 FROM sessions WHERE key = ?", (_MAIN,)).fetchone()
        key = found[0] if found else _MAIN if is_first else f"rescued:{session}"
        unnamed += not found
        db.execute("INSERT INTO sessions (id, key, context) VALUES (?, ?, ?)", (session, key, context))
    for turn, session, at in db.execute(_LOST_TURNS).fetchall():
        ((row,),) = db.execute(
            "SELECT 1 + max(ifnull((SELECT max(id) FROM inbox), 0), ifnull(max(inbox), 0)) FROM turns"
        )
        sql = "INSERT INTO turns (id, session, inbox, started, ended, reason) VALUES (?, ?, ?, ?, ?, 'failed')"
        db.execute(sql, (turn, session, row, at, at))
    for row, turn, at, key in db.execute(_LOST_INBOX).fetchall():
        channel, _, chat = key.partition(":")
        body = {"sender": "", "text": "", "origin": "person", "at": at, "attachments": []}
        sql = (
            "INSERT INTO inbox (id, channel, chat, external_id, body, state, received)"
            " VALUES (?, ?, ?, ?, ?, 'done', ?)"
        )
        db.execute(sql, (row, channel, chat, f"rescued-{row}", json.dumps(body), at))
        db.execute("UPDATE turns SET ended = started, reason = 'failed' WHERE id = ? AND ended IS NULL", (turn,))
    return unnamed


_MAIN = "terminal:main"
"""Where the longest conversation that lost its name goes on, if that place is free."""
_LOST_SESSIONS = """
    SELECT session, max(context) FROM
    (SELECT session, context FROM messages UNION ALL SELECT session, 1 FROM turns)
    WHERE session NOT IN (SELECT id FROM sessions) GROUP BY session ORDER BY count(*) DESC
"""
_NAME_OF_SESSION = """
    SELECT name FROM (
        SELECT channel || ':' || chat AS name FROM turns JOIN inbox ON inbox.id = turns.inbox WHERE session = ?1
        UNION SELECT channel || ':' || chat FROM turns JOIN outbox ON outbox.inbox = turns.inbox WHERE session = ?1
    ) WHERE name NOT IN (SELECT key FROM sessions) LIMIT 1
"""
_LOST_TURNS = """
    SELECT turn, min(session), min(ifnull(json_extract(body, '$.at'), '')) FROM messages
    WHERE turn NOT IN (SELECT id FROM turns) GROUP BY turn
"""
_LOST_INBOX = """
    SELECT inbox, min(turns.id), started, key FROM turns JOIN sessions ON sessions.id = turns.session
    WHERE inbox NOT IN (SELECT id FROM inbox) GROUP BY inbox
"""


def _drop_loose_ends(db: sqlite3.Connection) -> None:
    """Rows whose other half is lost: the link is emptied where it may be, else the row goes."""
    while broken := db.execute("PRAGMA foreign_key_check").fetchall():
        for table, row, _, key in broken:
            column = next(each[3] for each in db.execute(f'PRAGMA foreign_key_list("{table}")') if each[0] == key)
            required = next(each[3] for each in db.execute(f'PRAGMA table_info("{table}")') if each[1] == column)
            if required:
                db.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (row,))
            else:
                db.execute(f'UPDATE "{table}" SET "{column}" = NULL WHERE rowid = ?', (row,))
