"""Checked copies of a database: one a day, and one before each change of its format."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import date, datetime
from pathlib import Path

from nanoclaw.atomic_write import drafted, reason
from nanoclaw.log import logger

COPIES = "copies"
"""A folder beside the store."""
KEPT = 7
LOOK_SECONDS = 600


def is_damage(error: BaseException) -> bool:
    """Tells damage of the file itself from a disk or a lock in the way."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return isinstance(error, sqlite3.Error) and str(error).startswith("Could not decode to UTF-8")
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_whole(db: sqlite3.Connection, table: str = "") -> bool:
    """Check that all of a database, or of one table, can be read, texts included, and is as it should be. Raises
    sqlite3.Error for other trouble."""
    try:
        if db.execute(f"PRAGMA integrity_check({table or 1!r})").fetchone()[0] != "ok":
            return False
        for name, sql, columns in db.execute(_TEXTS, (table,)).fetchall():
            deque(db.execute(f'SELECT {columns} FROM "{name}"'), maxlen=0)
            if f'"{JSON}"' in columns and db.execute(_NO_JSON.format(name)).fetchone():
                return False
            for check in CHECK.findall(sql):  # which SQLite itself passes over where it only reads
                if db.execute(f'SELECT 1 FROM "{name}" WHERE NOT ({check}) LIMIT 1').fetchone():
                    return False
    except UnicodeDecodeError:  # in what SQLite says of it
        return False
    except sqlite3.DatabaseError as error:
        if is_damage(error) or error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # such as "unsupported file format"
            return False
        raise
    return True


JSON = "body"
"""A column of this name holds JSON."""
_NO_JSON = f'SELECT 1 FROM "{{}}" WHERE NOT json_valid({JSON}) LIMIT 1'
CHECK = re.compile(r"CHECK \((\w+ IN \([^)]*\))\)")
_TEXTS = """
    SELECT every.name, every.sql, group_concat('"' || its.name || '"', ', ')
    FROM sqlite_schema AS every JOIN pragma_table_info(every.name) AS its
    WHERE every.type = 'table' AND its.type = 'TEXT' AND ?1 IN ('', every.name) GROUP BY every.name
"""


def copy_database(db: sqlite3.Connection, path: Path) -> None:
    """Write the database as it is at this moment, checked, as one new file. Raises sqlite3.Error and OSError."""
    with drafted(path) as draft, closing(sqlite3.connect(draft, isolation_level=None)) as target:
        target.executescript("PRAGMA synchronous = OFF; PRAGMA cache_size = -200")  # the draft is synced as a whole
        db.backup(target)
        try:
            target.execute("PRAGMA journal_mode = DELETE")
        except UnicodeDecodeError:  # in what SQLite says of it
            raise sqlite3.DatabaseError("its list of tables is damaged") from None
        if not is_whole(target):
            raise sqlite3.DatabaseError("the copy is damaged")


def keep_daily_copy(path: Path, today: date) -> str:
    """Keep a checked copy of the database unless there is one of today; the oldest beyond seven goes. It may run in a
    thread beside the owner. Returns a sentence where there can be none, which is logged."""
    copy = path.parent / COPIES / f"{path.stem}-{today}{path.suffix}"
    if copy.exists():
        return ""
    try:
        copy.parent.mkdir(mode=0o700, exist_ok=True)
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.execute("PRAGMA cache_size = 0")  # each page is read once
            copy_database(db, copy)
        for old in daily_copies(path)[KEPT:]:
            old.unlink(missing_ok=True)
    except (sqlite3.Error, OSError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        said = f"no copy of {path} could be kept today: {why.rstrip('.')}."
        logger.warning(said)
        return said
    return ""


async def keep_copies(path: Path, now: Callable[[], datetime], idle: Callable[[], Awaitable[object]]) -> None:
    """Keep the copy of each day while a process runs, when it has nothing else to do."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        await idle()
        await asyncio.to_thread(keep_daily_copy, path, now().date())


def daily_copies(path: Path) -> list[Path]:
    """The newest first."""
    return sorted((path.parent / COPIES).glob(f"{path.stem}-*-*-*{path.suffix}"), reverse=True)


def all_copies(path: Path) -> list[Path]:
    """Every whole copy: the daily ones, and those kept before migrations."""
    return [*daily_copies(path), *sorted(path.parent.glob(f"{path.name}.v*"))]
