"""state.db: one SQLite file with one owner, opened through its migrations."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from nanoclaw.errors import StoreBusy, StoreError

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,              -- channel:chat
        context INTEGER NOT NULL DEFAULT 1,    -- counts up with /new; only the newest one's messages are sent
        memory TEXT,                           -- what this context began with: see agent/opening.py
        model TEXT NOT NULL DEFAULT ''         -- chosen with /model, '' = as configured
    ) STRICT;
    CREATE TABLE inbox (
        id INTEGER PRIMARY KEY,
        channel TEXT NOT NULL,
        chat TEXT NOT NULL,
        external_id TEXT NOT NULL,
        body TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('new', 'running', 'done')),
        received TEXT NOT NULL,
        UNIQUE (channel, external_id)
    ) STRICT;
    CREATE INDEX inbox_open ON inbox (id) WHERE state <> 'done';
    CREATE TABLE turns (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions,
        inbox INTEGER NOT NULL REFERENCES inbox,
        started TEXT NOT NULL,
        ended TEXT,
        reason TEXT,
        running TEXT NOT NULL DEFAULT '[]',    -- the calls under way, so that a crash can be told
        manifest TEXT NOT NULL DEFAULT '',     -- what its requests were made of, without the text
        model TEXT NOT NULL DEFAULT '',
        input_tokens INTEGER NOT NULL DEFAULT 0,
        output_tokens INTEGER NOT NULL DEFAULT 0,
        cached_tokens INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions,
        context INTEGER NOT NULL,
        turn INTEGER NOT NULL REFERENCES turns,
        body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX messages_of_context ON messages (session, context, id);
    CREATE TABLE images (
        sha256 TEXT PRIMARY KEY,
        mime TEXT NOT NULL,
        data BLOB NOT NULL
    ) STRICT;
    CREATE TABLE outbox (
        id INTEGER PRIMARY KEY,
        inbox INTEGER REFERENCES inbox,
        channel TEXT NOT NULL,
        chat TEXT NOT NULL,
        text TEXT NOT NULL,
        files TEXT NOT NULL DEFAULT '[]',
        reply_to TEXT NOT NULL DEFAULT '',
        state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
        attempts INTEGER NOT NULL DEFAULT 0,
        due TEXT NOT NULL,
        platform_id TEXT NOT NULL DEFAULT '',
        error TEXT NOT NULL DEFAULT ''
    ) STRICT;
    CREATE INDEX outbox_pending ON outbox (channel, id) WHERE state = 'pending';
    CREATE TABLE usage (                       -- one row for each request to a model
        id INTEGER PRIMARY KEY,
        at TEXT NOT NULL,                      -- as the person's clock showed it, with its offset
        session INTEGER REFERENCES sessions,
        turn INTEGER REFERENCES turns,
        origin TEXT NOT NULL,
        model TEXT NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL,        -- a part of input_tokens
        estimated INTEGER NOT NULL,            -- input_tokens by our own count, 0 where none was made
        is_reported INTEGER NOT NULL           -- 0: the provider told nothing, all of it is our own count
    ) STRICT;
    CREATE INDEX usage_of_model ON usage (model, id);
    """,
)


FULL_BYTES = 1_000_000
"""With less room than this a disk counts as full."""

_ASIDE = "Move it aside to start anew, or put a copy in its place; nothing was changed."


class Store:
    """The open database. Whoever opens it for writing owns it until `close`."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Raises StoreBusy naming the owner's pid, and StoreError for a damaged or newer file, which stays as it is."""
        self.path = path
        self._lock = None if read_only else _own(path)
        try:
            self.db = _connect(path, read_only)
            if not read_only:
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


def _own(path: Path) -> IO[str]:
    """An OS lock: it ends with the process, however the process ends."""
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
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def _connect(path: Path, read_only: bool) -> sqlite3.Connection:
    try:
        if read_only:
            return _connect_to_read(path)
        if path.exists():
            _connect_to_read(path).close()  # opened for writing, even a file that is refused would change
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot open {path}: {_reason(path, error)}. {_advice(error)}") from error
    return db


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
    damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
    return _ASIDE if damaged else "Nothing was changed; free some space, or check its permissions, and start again."


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """Raises StoreError for a format that this program does not know."""
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        db.close()
        raise StoreError(f"{path} was written by a newer nanoclaw (format {version}): update nanoclaw.")
    return db


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    for number in range(version, len(MIGRATIONS)):
        if number:
            _keep_copy(db, path.with_name(f"{path.name}.v{number}"))
        try:
            db.executescript(f"BEGIN;\n{MIGRATIONS[number]};\nPRAGMA user_version = {number + 1};\nCOMMIT;")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise StoreError(f"cannot bring {path} to format {number + 1}: {error}. It is as it was.") from error


def _keep_copy(db: sqlite3.Connection, copy: Path) -> None:
    copy.unlink(missing_ok=True)
    with sqlite3.connect(copy) as target:
        db.backup(target)
    target.close()
    copy.chmod(0o600)
