"""state.db: one SQLite file with one owner, opened through its migrations."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

from nanoclaw.atomic_write import drafted
from nanoclaw.core.errors import StoreBusy, StoreError
from nanoclaw.plugins.backup.rescue import is_damage, is_whole, rescue, version_in_header

MIGRATIONS = Path(__file__).with_name("migrations")
"""NNN.sql brings a store of format NNN - 1 to format NNN. A file that was released is never changed."""

PAGE_BYTES = 2048
"""Of a new file. Each step of a turn writes every page that it touches into the journal, mostly for one short row."""

FULL_BYTES = 1_000_000
"""With less room than this a disk counts as full."""

_ASIDE = "Nothing was changed. The next chat keeps the damaged file aside and goes on with what can be read of it."


class Store:
    """The open database. Whoever opens it for writing owns it until `close`."""

    def __init__(self, path: Path, *, read_only: bool = False, beside: bool = False) -> None:
        """The owner keeps a damaged file aside, goes on with what can be read of it, and a warning says so.

        One opened `beside` is no owner where there is another: it may write only what no owner keeps in memory.

        Raises StoreBusy naming the owner's pid, StoreError for a newer file, which stays as it is, and to a reader of
        a damaged one.
        """
        self.path = path
        self._lock = None if read_only else _own_if_free(path) if beside else own(path)
        try:
            self.db = _connect(path, read_only, is_owner=self._lock is not None)
            if self._lock:
                _migrate(self.db, path)
        except BaseException:
            if self._lock:
                self._lock.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing, on disk when the block ends. Raises StoreError, for example when the disk is full."""
        try:
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield self.db
            except BaseException:
                if self.db.in_transaction:  # a full disk has rolled it back already
                    self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")
        except sqlite3.Error as error:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise StoreError(
                f"this step could not be saved in {self.path}: {_reason(self.path, error)}. "
                "What was saved before is whole, and what commands did stays done."
            ) from error

    def rows(self, sql: str, *values: object) -> list[Any]:
        """What a query finds. Raises StoreError when the file is damaged."""
        try:
            return self.db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"cannot read {self.path}: {_reason(self.path, error)}. {_advice(error)}") from error

    def close(self) -> None:
        self.db.close()
        if self._lock:
            self._lock.close()


def owner(path: Path) -> int | None:
    """The pid of the process that owns the store, or None."""
    try:
        with path.with_suffix(".lock").open("r") as lock:
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
        raise StoreError(f"cannot write in {path.parent}: {_reason(path, error)}. Nothing was changed.") from error
    return lock


def _own_if_free(path: Path) -> IO[str] | None:
    try:
        return own(path)
    except StoreBusy:
        return None


def _connect(path: Path, read_only: bool, *, is_owner: bool) -> sqlite3.Connection:
    try:
        if read_only:
            if not path.stat().st_size:
                raise StoreError(f"{path} is empty, as something has emptied it. {_ASIDE}")
            return _connect_to_read(path)
        if not is_owner:
            _check_version(path, version_in_header(path))
        elif not path.exists():
            _make(path)
        elif not _is_whole(path):
            from nanoclaw.core.log import logger

            logger.warning(rescue(path, [_migration(number) for number in range(1, newest_format() + 1)]))
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA user_version")  # the first look opens the journal, for which there may be no room
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot open {path}: {_reason(path, error)}. {_advice(error)}") from error
    return db


def _make(path: Path) -> None:
    """A new file. It is never empty, however this ends, so that an empty one is known to have been emptied."""
    with drafted(path) as draft:
        with closing(sqlite3.connect(draft, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")  # the finished draft is synced as a whole
            db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            db.execute("PRAGMA journal_mode = WAL")
        for suffix in ("-wal", "-shm"):  # a journal without its file would be played into the new one
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def _reason(path: Path, error: sqlite3.Error | OSError) -> str:
    """What is wrong, in words; SQLite calls a full disk an input or output error."""
    try:
        room = os.statvfs(path.parent)
        if room.f_bavail * room.f_frsize < FULL_BYTES:
            return "the disk is full"
    except OSError:
        pass
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _advice(error: Exception) -> str:
    return (
        _ASIDE
        if is_damage(error)
        else "Nothing was changed; free some space, or check its permissions, and start again."
    )


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """Raises StoreError for a format that this program does not know."""
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        _check_version(path, db.execute("PRAGMA user_version").fetchone()[0])
    except BaseException:
        db.close()
        raise
    return db


def _is_whole(path: Path) -> bool:
    """Looks without writing: opened for writing, even a file that is refused would change."""
    _check_version(path, version_in_header(path))
    if not path.stat().st_size:  # it has been emptied, and SQLite would throw its journal away
        return False
    try:
        with closing(_connect_to_read(path)) as db:
            return is_whole(db)
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            return False
        if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:  # a write was cut off: opening it takes it back
            return True
        raise


def _check_version(path: Path, version: int) -> None:
    if version > newest_format():
        raise StoreError(f"{path} was written by a newer nanoclaw (format {version}): update nanoclaw.")


def newest_format() -> int:
    """The format that this program writes."""
    return max(int(path.stem) for path in MIGRATIONS.glob("*.sql"))


def _migration(number: int) -> str:
    return (MIGRATIONS / f"{number:03}.sql").read_text(encoding="utf-8")


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    version, newest = db.execute("PRAGMA user_version").fetchone()[0], newest_format()
    if version == newest:
        return
    if version:
        _keep_copy(db, path, version)
    steps = "\n".join(_migration(number) for number in range(version + 1, newest + 1))
    try:
        db.executescript(f"BEGIN;\n{steps}\nPRAGMA user_version = {newest};\nCOMMIT;")
    except sqlite3.Error as error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise StoreError(f"cannot bring {path} to format {newest}: {error}. It is as it was.") from error


def _keep_copy(db: sqlite3.Connection, path: Path, version: int) -> None:
    """The whole database as it is, checked, as one file beside it."""
    try:
        copy_database(db, path.with_name(f"{path.name}.v{version}"))
    except (sqlite3.Error, OSError) as error:
        raise StoreError(
            f"{path} has format {version}, and no copy of it could be kept before it is brought to format "
            f"{newest_format()}: {_reason(path, error)}. It is as it was; free some space and start again."
        ) from error


def copy_database(db: sqlite3.Connection, path: Path) -> None:
    """What is in the database at this moment, checked, as one new file. Raises sqlite3.Error and OSError."""
    with drafted(path) as draft, closing(sqlite3.connect(draft, isolation_level=None)) as target:
        target.execute("PRAGMA synchronous = OFF")  # the finished draft is synced as a whole
        db.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
        if not is_whole(target):
            raise sqlite3.DatabaseError("the copy is damaged")
