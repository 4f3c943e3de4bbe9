"""state.db: one SQLite file with one owner.

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
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import IO, Any

from nanoclaw.core.errors import StoreError
from nanoclaw.sqlite_salvage.copies import all_copies, is_damage

PANIC = "panic"
"""On while everything is frozen; its value is the last outbox row before it."""

FULL_BYTES = 1_000_000
"""Free bytes below which a disk counts as full."""

READ_ONLY = "{}?mode=ro"

ASIDE = "Nothing was changed. The next chat keeps the damaged file aside and continues with what can be read."


class Store:
    """The open database, as `start.opening` opens it. Whoever opens it for writing owns it until `close`."""

    def __init__(self, path: Path, db: sqlite3.Connection, lock: IO[str] | None = None) -> None:
        """`lock` is held by who owns the file."""
        self.path, self.db, self._lock = path, db, lock
        self._committing: Commit | None = None
        self.committer: Executor = ThreadPoolExecutor(1, "commit")
        """Runs every `commit` in its thread."""
        self._beside: sqlite3.Connection | None = None

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
            f"this step could not be saved in {self.path}: {reason_of(self.path, error)}. "
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
            raise StoreError(
                f"cannot read {self.path}: {reason_of(self.path, error)}. {advice_about(error)}"
            ) from error
        except UnicodeDecodeError as error:  # in what SQLite says of a damaged list of tables
            damage = sqlite3.DatabaseError("its list of tables is damaged")
            raise StoreError(f"cannot read {self.path}: {damage}. {advice_about(damage)}") from error

    @property
    def _readable(self) -> sqlite3.Connection:
        if self._committing is None or self._committing.is_over:
            return self.db
        if self._beside is None:
            self._beside = sqlite3.connect(READ_ONLY.format(self.path.absolute().as_uri()), uri=True)
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


def reason_of(path: Path, error: Exception) -> str:
    """The reason in words; SQLite calls a full disk an input or output error."""
    try:
        room = os.statvfs(path.parent)
        if room.f_bavail * room.f_frsize < FULL_BYTES:
            return "the disk is full"
    except OSError:
        pass
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def advice_about(error: Exception) -> str:
    return (
        ASIDE
        if is_damage(error)
        else "Nothing was changed; free some space, or check its permissions, and start again."
    )
