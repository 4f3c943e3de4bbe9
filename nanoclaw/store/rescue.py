"""A damaged state.db: kept aside under a name that says so, and what can still be read of it in a new one."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from nanoclaw.drafts import drafted, reason, sync_folder
from nanoclaw.errors import StoreError, WorkspaceError

_LAST = 2**63 - 1


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
    return int.from_bytes(header[60:64], "big") if len(header) == 100 and header.startswith(b"SQLite format 3") else 0


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
    except (OSError, WorkspaceError, sqlite3.Error) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise StoreError(
            f"{path} is damaged, and it could not be put aside to start anew: {why.rstrip('.')}. Nothing was changed; "
            "free some space, or move it aside yourself."
        ) from error
    what = f"what could be read of it ({saved:,} rows) goes on" if saved else "nothing of it could be read"
    return f"{path} was damaged: {what}; the damaged file is kept as {aside.name}."


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


def _save_rows(damaged: Path, draft: Path, migrations: Sequence[str]) -> int:
    """Make the draft a database of the damaged one's format with its readable rows; how many."""
    saved = 0
    if not _size(damaged):  # SQLite would delete the journal beside it
        return saved
    with closing(sqlite3.connect(draft, isolation_level=None)) as new:
        new.execute("PRAGMA journal_mode = MEMORY")  # it is a draft
        with closing(sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True)) as old:
            old.execute("PRAGMA writable_schema = ON")  # or a file that was cut is refused as a whole
            version = _version(old) or version_in_header(damaged)
            new.executescript("\n".join(migrations[:version]) + f"\nPRAGMA user_version = {version};")
            new.execute("PRAGMA foreign_keys = OFF")
            new.execute("BEGIN")
            for (table,) in new.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
                saved += _copy(old, new, table)
            saved -= _drop_loose_ends(new)
            new.execute("COMMIT")
        _clean_up(damaged)
        if not is_whole(new):
            raise StoreError(f"what was read of {damaged} makes no whole database; move it aside yourself.")
    return saved


def _clean_up(damaged: Path) -> None:
    """Reading leaves an index of the journal, and an empty journal where there was none."""
    with suppress(OSError):
        damaged.with_name(damaged.name + "-shm").unlink()
    wal = damaged.with_name(damaged.name + "-wal")
    if wal.exists() and not _size(wal):
        wal.unlink()


def _version(db: sqlite3.Connection) -> int:
    try:
        return int(db.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError:
        return 0


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> int:
    columns = [row[1] for row in new.execute(f'PRAGMA table_info("{table}")')]
    names = ", ".join(f'"{name}"' for name in columns)
    marks = ", ".join("?" * (len(columns) + 1))
    copied = 0
    for row in _readable(old, f'SELECT rowid, {names} FROM "{table}"'):
        if not _makes_sense(row, columns):
            continue
        with suppress(sqlite3.IntegrityError):  # values that this table cannot have
            new.execute(f'INSERT INTO "{table}" (rowid, {names}) VALUES ({marks})', row)
            copied += 1
    return copied


def _makes_sense(row: Sequence[Any], columns: Sequence[str]) -> bool:
    """Not so where half a page was lost: SQLite reads zeros there."""
    for name, value in zip(columns, row[1:], strict=True):
        if isinstance(value, str) and "\0" in value:
            return False
        if name == "body":
            try:
                json.loads(value)
            except (TypeError, ValueError):
                return False
    return True


def _readable(db: sqlite3.Connection, select: str) -> Iterator[tuple[Any, ...]]:
    """All rows but those on damaged pages, in the order of their numbers."""
    start = 0
    while start <= _LAST:
        try:
            for row in db.execute(f"{select} WHERE rowid >= ? ORDER BY rowid", (start,)):
                if row[0] < start:
                    raise sqlite3.DatabaseError("a damaged page leads back")
                start = row[0] + 1
                yield row
            return
        except sqlite3.DatabaseError:
            found = _next_readable(db, select, start + 1)
            if found is None:
                return
            start = found


def _next_readable(db: sqlite3.Connection, select: str, start: int) -> int | None:
    """The lowest number from which rows can be read again: by steps that double, then by halving the last one."""
    step = 1
    while not _reads(db, select, start + step - 1):
        step *= 2
        if start + step > _LAST:
            return None
    low, high = start + step // 2, start + step - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _reads(db, select, middle) else (middle + 1, high)
    return high


def _reads(db: sqlite3.Connection, select: str, start: int) -> bool:
    try:
        row = db.execute(f"{select} WHERE rowid >= ? ORDER BY rowid LIMIT 1", (start,)).fetchone()
    except sqlite3.DatabaseError:
        return False
    return row is None or row[0] >= start


def _drop_loose_ends(db: sqlite3.Connection) -> int:
    """Rows whose other half is lost: the link is emptied where it may be, else the row goes; how many went."""
    dropped = 0
    while broken := db.execute("PRAGMA foreign_key_check").fetchall():
        for table, row, _, key in broken:
            column = next(each[3] for each in db.execute(f'PRAGMA foreign_key_list("{table}")') if each[0] == key)
            required = next(each[3] for each in db.execute(f'PRAGMA table_info("{table}")') if each[1] == column)
            if required:
                dropped += db.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (row,)).rowcount
            else:
                db.execute(f'UPDATE "{table}" SET "{column}" = NULL WHERE rowid = ?', (row,))
    return dropped
