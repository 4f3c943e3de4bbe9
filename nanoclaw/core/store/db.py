"""state.db: one SQLite file with one owner, opened through its migrations.

COMMIT leaves the event loop. It waits for the disk (synchronous = FULL), a hundred milliseconds on a slow one, and on
the loop every other chat would wait with it. So what a message's way writes is collected: all changes that come while a
COMMIT runs in its thread are the next transaction (`Transactions.write`), which waits for the disk once, however many
chats they are of. There is one connection that writes, so that changes follow each other and each sees all before it.
While its COMMIT runs, queries see through a second connection what is on disk: the state that everybody was told of.
What is rare, or happens while the program starts or ends, is written on the loop (`Transactions.open`), and waits for a
COMMIT under way.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from nanoclaw.atomic_write import drafted
from nanoclaw.core.errors import StoreError
from nanoclaw.core.store.format import bring_up, can_be_written, format_in_header, format_of, newest_format
from nanoclaw.core.store.lock import own, own_if_free
from nanoclaw.sqlite_salvage.copies import all_copies, copy_database, daily_copies, is_damage, is_whole
from nanoclaw.sqlite_salvage.wal import WriteAheadLog

if TYPE_CHECKING:
    from nanoclaw.core.plugin import Plugin

PAGE_BYTES = 2048
"""Page size of a new file: each step of a turn writes whole pages into the journal, mostly for one short row."""

PANIC = "panic"
"""On while everything is frozen; its value is the last outbox row before it."""

FULL_BYTES = 1_000_000
"""Free bytes below which a disk counts as full."""

_READ_ONLY = "{}?mode=ro"
_NO_FORMAT = 1000
"""Format numbers from here on are damage."""

_ASIDE = "Nothing was changed. The next chat keeps the damaged file aside and continues with what can be read."


class Store:
    """The open database. Whoever opens it for writing owns it until `close`."""

    def __init__(
        self, path: Path, *, read_only: bool = False, beside: bool = False, plugins: Sequence[type[Plugin]] = ()
    ) -> None:
        """The owner keeps a damaged file aside, continues with what can be read of it, tables of these plugins too, and
        a warning says so.

        One opened `beside` is not an owner where there is another: it may write only what no owner keeps in memory.

        Raises StoreBusy naming the owner's pid, StoreError for a newer file, which stays as it is, and to a reader of
        a damaged one.
        """
        self.path = path
        self._committing: Commit | None = None
        self.committer: Executor = ThreadPoolExecutor(1, "commit")
        """Runs every `commit` in its thread."""
        self._beside: sqlite3.Connection | None = None
        self._lock = None if read_only else own_if_free(path) if beside else own(path)
        try:
            if self._lock:
                _put_right(path, plugins)
            self.db = _connect(path, read_only, is_owner=self._lock is not None)
            if self._lock:
                _bring_up(self.db, path)
        except BaseException:
            if self._lock:
                self._lock.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing, on disk when the block ends; inside another one it is a part of that. Raises
        StoreError, for example if the disk is full."""
        self.wait()
        if self.db.in_transaction:
            yield self.db
            return
        try:
            self.begin()
            yield self.db
            self.db.execute("COMMIT")
        except BaseException as error:
            self.roll_back()
            if isinstance(error, sqlite3.Error):
                raise self.unsaved(error) from error
            raise

    def begin(self, *, is_synced: bool = True) -> None:
        """Begin a transaction. One that is not synced is safe from a kill at once, and from a power cut with the next
        one that is."""
        self.db.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
        self.db.execute("BEGIN IMMEDIATE")

    def roll_back(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # it is closed
            if self.db.in_transaction:  # a full disk has rolled it back already
                self.db.execute("ROLLBACK")

    def unsaved(self, error: Exception) -> StoreError:
        return StoreError(
            f"this step could not be saved in {self.path}: {_reason(self.path, error)}. "
            "What was saved before is intact, and what commands did is not undone."
        )

    def commit(self) -> Commit:
        """The COMMIT of the open transaction, for the `committer` to call. Until it has ended, queries see the state
        before it."""
        self._committing = Commit(self.db)
        return self._committing

    def wait(self) -> None:
        """Wait for a COMMIT under way, however it ends."""
        if self._committing:
            self._committing.wait()

    def rows(self, sql: str, *values: object) -> list[Any]:
        """The rows of a query. Raises StoreError if the file is damaged."""
        try:
            return self._readable.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"cannot read {self.path}: {_reason(self.path, error)}. {_advice(error)}") from error
        except UnicodeDecodeError as error:  # in what SQLite says of a damaged list of tables
            damage = sqlite3.DatabaseError("its list of tables is damaged")
            raise StoreError(f"cannot read {self.path}: {damage}. {_advice(damage)}") from error

    @property
    def _readable(self) -> sqlite3.Connection:
        if self._committing is None or self._committing.is_over:
            return self.db
        if self._beside is None:
            self._beside = sqlite3.connect(_READ_ONLY.format(self.path.absolute().as_uri()), uri=True)
        return self._beside

    def drop_bytes(self) -> None:
        """Build the file again without what was deleted or overwritten in it, and empty its journal."""
        self.wait()
        try:
            self.db.execute("PRAGMA secure_delete = ON")  # or the free part of a new page holds old text
            self.db.execute("VACUUM")
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise StoreError(
                f"the text was deleted from {self.path}, but its free space still has it ({error}): "
                "free some disk space and do it again."
            ) from error

    def copies(self) -> list[Path]:
        """Its whole copies: the daily ones, and those kept before migrations."""
        return all_copies(self.path)

    def close(self) -> None:
        self.committer.shutdown()
        if self._beside:
            self._beside.close()
        self.db.close()
        if self._lock:
            self._lock.close()


class Commit:
    """A COMMIT that a thread carries out."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db, self._over = db, Event()
        self._error: Exception | None = None

    def __call__(self) -> None:
        try:
            self._db.execute("COMMIT")
        except Exception as error:
            self._error = error
            if self._db.in_transaction:  # a full disk has rolled it back already
                self._db.execute("ROLLBACK")
        finally:
            self._over.set()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def wait(self) -> Exception | None:
        """Wait for the end. Returns the error if it failed."""
        self._over.wait()
        return self._error


class Flags:
    """Switches that outlive the process."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store, self._clock = store, clock
        self._on: dict[str, str] = dict(store.rows("SELECT name, value FROM flags"))

    def get(self, name: str) -> str | None:
        """The value of a switch that is on, None when it is off."""
        return self._on.get(name)

    def set(self, name: str, value: str) -> None:
        with self._store.transaction() as db:
            sql = "INSERT INTO flags (name, value, at) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET value = ?2"
            db.execute(sql, (name, value, self._clock().isoformat()))
        self._on[name] = value

    def clear(self, name: str) -> None:
        with self._store.transaction() as db:
            db.execute("DELETE FROM flags WHERE name = ?", (name,))
        self._on.pop(name, None)


def _connect(path: Path, read_only: bool, *, is_owner: bool) -> sqlite3.Connection:
    try:
        if read_only:
            if not path.stat().st_size:
                raise StoreError(f"{path} is empty, as something has emptied it. {_ASIDE}")
            return _connect_to_read(path)
        if not is_owner:
            _check_format(path, format_in_header(path))
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)  # a thread commits
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA user_version")  # the first look opens the journal, for which there may be no room
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot open {path}: {_reason(path, error)}. {_advice(error)}") from error
    return db


def _put_right(path: Path, plugins: Sequence[type[Plugin]]) -> None:
    """Make a file where there is none, or rescue a damaged one."""
    try:
        if not path.exists():
            _make(path)
        elif not is_undamaged(path):
            from nanoclaw.core.store.recovery import recover
            from nanoclaw.log import logger

            logger.warning(recover(path, plugins))
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot open {path}: {_reason(path, error)}. {_advice(error)}") from error


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


def _reason(path: Path, error: Exception) -> str:
    """The reason in words; SQLite calls a full disk an input or output error."""
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
    db = _opened_to_read(path)
    try:
        _check_format(path, format_of(db))
    except BaseException:
        db.close()
        raise
    return db


def _opened_to_read(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(_READ_ONLY.format(path.absolute().as_uri()), uri=True, isolation_level=None)
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
    content = WriteAheadLog(path.with_name(path.name + "-wal")).played_into(path.read_bytes())
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(content[:18] + b"\1\1" + content[20:])  # as a file without a journal
    return db


def is_undamaged(path: Path) -> bool:
    """Look at every row and at the journal, without writing: opened for writing, even a file that is refused would
    change. Only while no process owns it. Raises StoreError for a newer format."""
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
            f"{_reason(path, error)}. It is as it was; free some space and start again."
        ) from error
    try:
        bring_up(db)
    except sqlite3.Error as error:
        raise StoreError(f"cannot bring {path} to format {newest}: {error}. It is as it was.") from error
