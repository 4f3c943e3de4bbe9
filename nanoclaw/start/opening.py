"""Opening of state.db: through its migrations, a damaged one through its rescue, and only to be read."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import IO, TYPE_CHECKING

from nanoclaw.atomic_write import drafted, reason
from nanoclaw.core.errors import StoreBusy, StoreError
from nanoclaw.core.store.db import ASIDE, READ_ONLY, Store, advice_about, reason_of
from nanoclaw.log import logger
from nanoclaw.sqlite_salvage.copies import copy_database, daily_copies, is_damage, is_whole

if TYPE_CHECKING:
    from nanoclaw.core.plugin import Plugin


def owner(path: Path) -> int | None:
    """The pid of the process that owns the store, or None."""
    try:
        with open(os.open(path.with_suffix(".lock"), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)) as lock:  # noqa: PTH123
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(lock.read().strip() or 0)
    except (OSError, ValueError):
        pass
    return None


def own(path: Path) -> IO[str]:
    """An OS lock, held until it is closed or the process ends, however it ends. Raises StoreBusy and StoreError."""
    try:
        descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"cannot write in {path.parent}: {error.strerror}. Check its permissions.") from error
    lock = os.fdopen(descriptor, "r+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = lock.read().strip()
        lock.close()
        raise StoreBusy(
            f"another nanoclaw (process {pid or 'unknown'}) is using {path.parent}. "
            "Talk to it there or end it first; NANOCLAW_HOME chooses another home."
        ) from None
    try:
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
    except OSError as error:
        raise StoreError(f"cannot write in {path.parent}: {reason(error)}. Nothing was changed.") from error
    return lock


def own_if_free(path: Path) -> IO[str] | None:
    try:
        return own(path)
    except StoreBusy:
        return None


MIGRATIONS = Path(__file__).parents[1] / "core/store/migrations"
"""NNN.sql brings the core's tables from format NNN - 1 to format NNN. What a released one makes never changes."""

_MAGIC = b"SQLite format 3\0"


def newest_format() -> int:
    """The format that this program writes."""
    return max(int(path.stem) for path in MIGRATIONS.glob("*.sql"))


def format_of(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def format_in_header(path: Path) -> int:
    """The format by the first bytes of a file that SQLite may refuse; 0 if they don't tell."""
    return int.from_bytes(header[60:64], "big") if (header := _header(path)) else 0


def can_be_written(path: Path) -> bool:
    """True for a file that this SQLite can write; one of a far later version it would only read."""
    return max(_header(path)[18:20], default=3) < 3


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        header = file.read(100)
    return header if len(header) == 100 and header.startswith(_MAGIC) else b""


def bring_up(db: sqlite3.Connection) -> None:
    """Run the migrations that a database lacks, all of them or none. Raises sqlite3.Error."""
    newest = newest_format()
    steps = [(MIGRATIONS / f"{number:03}.sql").read_text("utf-8") for number in range(format_of(db) + 1, newest + 1)]
    if not steps:
        return
    try:
        db.executescript(f"BEGIN;\n{''.join(steps)}\nPRAGMA user_version = {newest};\nCOMMIT;")
    except sqlite3.Error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def version_of(db: sqlite3.Connection, plugin: str) -> int:
    """The version of a plugin's own tables."""
    return int(next(iter(db.execute("SELECT version FROM plugins WHERE name = ?", (plugin,)).fetchone() or (0,))))


def note_version(db: sqlite3.Connection, plugin: str, version: int) -> None:
    sql = "INSERT INTO plugins (name, version) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET version = ?2"
    db.execute(sql, (plugin, version))


PAGE_BYTES = 2048
"""Page size of a new file: each step of a turn writes whole pages into the journal, mostly for one short row."""

_NO_FORMAT = 1000
"""Format numbers from here on are damage."""


def open_store(path: Path, *, beside: bool = False, plugins: Sequence[type[Plugin]] = ()) -> Store:
    """The store, with this process as its owner. It keeps a damaged file aside, continues with what can be read of it,
    tables of these plugins too, and a warning says so.

    One opened `beside` is not an owner where there is another: it may write only what no owner keeps in memory.

    Raises StoreBusy naming the owner's pid, and StoreError for a newer file, which stays as it is.
    """
    lock = own_if_free(path) if beside else own(path)
    try:
        if lock:
            _put_right(path, plugins)
        db = _connect(path, is_owner=lock is not None)
        if lock:
            _bring_up(db, path)
        return Store(path, db, lock)
    except BaseException:
        if lock:
            lock.close()
        raise


def read_store(path: Path) -> Store:
    """The store, only to be read. Raises StoreError for a damaged file and for a newer one."""
    try:
        if not path.stat().st_size:
            raise StoreError(f"{path} is empty, as something has emptied it. {ASIDE}")
        return Store(path, _connect_to_read(path))
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot open {path}: {reason_of(path, error)}. {advice_about(error)}") from error


def _connect(path: Path, *, is_owner: bool) -> sqlite3.Connection:
    try:
        if not is_owner:
            _check_format(path, format_in_header(path))
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)  # a thread commits
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA user_version")  # the first look opens the journal, for which there may be no room
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot open {path}: {reason_of(path, error)}. {advice_about(error)}") from error
    return db


def _put_right(path: Path, plugins: Sequence[type[Plugin]]) -> None:
    """Make a file where there is none, or rescue a damaged one."""
    try:
        if not path.exists():
            _make(path)
        elif not is_undamaged(path):
            from nanoclaw.start.recovery import recover

            logger.warning(recover(path, plugins))
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot open {path}: {reason_of(path, error)}. {advice_about(error)}") from error


def _make(path: Path) -> None:
    """Make a new file. It is never empty, however this ends, so that an empty one is known to have been emptied."""
    with drafted(path) as draft:
        with closing(sqlite3.connect(draft, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")  # the finished draft is synced as a whole
            db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            bring_up(db)
            db.execute("PRAGMA journal_mode = WAL")
        for suffix in ("-wal", "-shm"):  # a journal without its file would be played into the new one
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """Raises StoreError for a format that this program does not know."""
    db = _opened_to_read(path)
    try:
        _check_format(path, format_of(db))
    except BaseException:
        db.close()
        raise
    return db


def _opened_to_read(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(READ_ONLY.format(path.absolute().as_uri()), uri=True, isolation_level=None)
    try:
        format_of(db)
    except sqlite3.DatabaseError as error:
        db.close()
        takes_back = error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK
        if takes_back or error.sqlite_errorcode & 0xFF not in _NO_ROOM:  # for a file of its own, beside this one
            raise
        return _in_memory(path)
    return db


_NO_ROOM = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL)


def _in_memory(path: Path) -> sqlite3.Connection:
    """The current store, read into memory: for a full disk, or where nothing may be written."""
    from nanoclaw.sqlite_salvage.wal import WriteAheadLog

    content = WriteAheadLog(path.with_name(path.name + "-wal")).played_into(path.read_bytes())
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(content[:18] + b"\1\1" + content[20:])  # as a file without a journal
    return db


def is_undamaged(path: Path) -> bool:
    """Look at every row and at the journal, without writing: opened for writing, even a file that is refused would
    change. Only while no process owns it. Raises StoreError for a newer format."""
    from nanoclaw.sqlite_salvage.wal import WriteAheadLog

    number, whole = format_in_header(path), False
    if can_be_written(path):
        try:
            with closing(_opened_to_read(path)) as db:
                number, whole = max(number, format_of(db)), is_whole(db)
        except sqlite3.DatabaseError as error:
            whole = error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK  # opening it takes a cut-off write back
            if not (whole or is_damage(error)):
                raise
    whole = whole and number < _NO_FORMAT and not WriteAheadLog(path.with_name(path.name + "-wal")).lost
    copies = daily_copies(path)
    if whole or not copies or format_in_header(copies[0]) > newest_format():
        _check_format(path, number)  # where the copies know nothing of a newer format, it is a part of the damage
    return whole


def _check_format(path: Path, number: int) -> None:
    if newest_format() < number < _NO_FORMAT:
        raise StoreError(f"{path} was written by a newer nanoclaw (format {number}): update nanoclaw.")


def _bring_up(db: sqlite3.Connection, path: Path) -> None:
    number, newest = format_of(db), newest_format()
    if number == newest:
        return
    try:
        copy_database(db, path.with_name(f"{path.name}.v{number}"))
    except (sqlite3.Error, OSError) as error:
        raise StoreError(
            f"{path} has format {number}, and no copy of it could be kept before it is brought to format {newest}: "
            f"{reason_of(path, error)}. It is as it was; free some space and start again."
        ) from error
    try:
        bring_up(db)
    except sqlite3.Error as error:
        raise StoreError(f"cannot bring {path} to format {newest}: {error}. It is as it was.") from error


def drop_bytes(store: Store) -> None:
    """Build the file again without what was deleted or overwritten in it, and empty its journal."""
    store.wait()
    try:
        store.db.execute("PRAGMA secure_delete = ON")  # or the free part of a new page holds old text
        store.db.execute("VACUUM")
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise StoreError(
            f"the text was deleted from {store.path}, but its free space still has it ({error}): "
            "free some disk space and do it again."
        ) from error
