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
        running TEXT NOT NULL DEFAULT '[]',    -- the answer whose calls are under way, as JSON
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
    """
    ALTER TABLE inbox ADD COLUMN turn INTEGER REFERENCES turns;       -- the turn that took it up
    ALTER TABLE inbox ADD COLUMN told TEXT NOT NULL DEFAULT '';       -- since when it waits for a model, as was said
    ALTER TABLE turns ADD COLUMN resumed INTEGER NOT NULL DEFAULT 0;  -- how often it went on after a crash
    CREATE INDEX turns_open ON turns (id) WHERE ended IS NULL;
    CREATE TABLE compactions (                 -- what a model is shown in place of a context's older messages
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions,
        context INTEGER NOT NULL,
        at TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('summary', 'short')),
        upto INTEGER NOT NULL REFERENCES messages,  -- the last message that it stands for, or that is shown shortened
        summary TEXT NOT NULL DEFAULT ''
    ) STRICT;
    CREATE TABLE pins (                        -- standing rules
        id INTEGER PRIMARY KEY,
        at TEXT NOT NULL,
        text TEXT NOT NULL
    ) STRICT;
    CREATE TABLE ledger (                      -- what tools did
        id INTEGER PRIMARY KEY,
        at TEXT NOT NULL,
        address TEXT NOT NULL,                 -- channel:chat
        turn INTEGER REFERENCES turns,
        tool TEXT NOT NULL,
        kind TEXT NOT NULL,                    -- file, note, fact, command …
        target TEXT NOT NULL,                  -- a path in the workspace, a command
        text TEXT NOT NULL,                    -- in words
        state TEXT NOT NULL CHECK (state IN ('begun', 'done', 'failed', 'undone')),
        before TEXT,                           -- SHA-256 of what was there, '' for nothing, NULL: not undoable
        after TEXT,
        told INTEGER NOT NULL DEFAULT 0        -- 1: the model knows that it was undone
    ) STRICT;
    CREATE INDEX ledger_untold ON ledger (id) WHERE state = 'undone' AND told = 0;
    CREATE TABLE flags (                       -- switches that outlive the process
        name TEXT PRIMARY KEY,
        value TEXT NOT NULL,
        at TEXT NOT NULL
    ) STRICT;
    CREATE TABLE models (                      -- what was learned of each
        name TEXT PRIMARY KEY,
        window_tokens INTEGER,
        sees_images INTEGER
    ) STRICT;
    ALTER TABLE usage ADD COLUMN is_local INTEGER NOT NULL DEFAULT 0;  -- 1: answered on the person's own machine
    DROP INDEX usage_of_model;                 -- a page of the journal for each request, and nothing that needs it
    CREATE TABLE reservations (                -- the most that requests under way may cost
        id INTEGER PRIMARY KEY,
        at TEXT NOT NULL,
        origin TEXT NOT NULL,
        usd REAL NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE jobs (                        -- what is to happen later; times are UTC
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('reminder', 'task')),
        text TEXT NOT NULL,
        words TEXT NOT NULL,                   -- how the time was asked for
        schedule TEXT NOT NULL CHECK (schedule IN ('at', 'every', 'cron')),
        rule TEXT NOT NULL,                    -- a time, seconds, or a cron expression
        zone TEXT NOT NULL,
        anchor TEXT NOT NULL,                  -- "every" counts from here
        channel TEXT NOT NULL,                 -- the conversation that hears of it
        chat TEXT NOT NULL,
        creator TEXT NOT NULL,
        on_miss TEXT NOT NULL CHECK (on_miss IN ('once', 'skip')),
        state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'done', 'removed')),
        next_due TEXT,                         -- NULL: not again
        nag_seconds INTEGER NOT NULL DEFAULT 0,
        nag_times INTEGER NOT NULL DEFAULT 0,
        may_schedule INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0    -- since it last worked
    ) STRICT;
    CREATE INDEX jobs_due ON jobs (next_due) WHERE state = 'active' AND next_due IS NOT NULL;
    CREATE TABLE occurrences (
        id INTEGER PRIMARY KEY,
        job INTEGER NOT NULL REFERENCES jobs,
        due TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('planned', 'firing', 'sent', 'acknowledged', 'missed', 'failed')),
        number INTEGER,                        -- what the person calls it while it is open
        fired TEXT,
        late INTEGER NOT NULL DEFAULT 0,       -- seconds
        error TEXT NOT NULL DEFAULT '',
        again TEXT,                            -- when it is sent or tried again
        nags_left INTEGER NOT NULL DEFAULT 0,
        tries INTEGER NOT NULL DEFAULT 0,
        inbox INTEGER REFERENCES inbox,        -- the message to the model that a task is
        outbox INTEGER REFERENCES outbox,      -- the newest message to the person
        UNIQUE (job, due)
    ) STRICT;
    CREATE INDEX occurrences_again ON occurrences (again) WHERE again IS NOT NULL;
    CREATE INDEX occurrences_open ON occurrences (number) WHERE number IS NOT NULL;
    CREATE INDEX occurrences_of_inbox ON occurrences (inbox) WHERE inbox IS NOT NULL;
    CREATE INDEX occurrences_firing ON occurrences (job) WHERE state = 'firing';
    CREATE TABLE checklist (                   -- items of HEARTBEAT.md
        key TEXT PRIMARY KEY,                  -- SHA-256 of the item's text
        at TEXT NOT NULL,                      -- when it came up, or was looked at last; UTC
        sha256 TEXT NOT NULL,                  -- of what it watches
        seen TEXT NOT NULL                     -- the beginning of that
    ) STRICT;
    CREATE TABLE alerts (                      -- what heartbeats had to tell
        id INTEGER PRIMARY KEY,
        at TEXT NOT NULL,
        text TEXT NOT NULL,                    -- '' once it is told
        sha256 TEXT NOT NULL,                  -- of its words
        kind TEXT NOT NULL CHECK (kind IN ('low', 'normal', 'high')),
        fired TEXT                             -- when it was told; NULL: it waits
    ) STRICT;
    """,
    """
    ALTER TABLE outbox ADD COLUMN buttons TEXT NOT NULL DEFAULT '[]';  -- below it, as JSON: [label, text]
    ALTER TABLE outbox ADD COLUMN parts TEXT NOT NULL DEFAULT '[]';    -- the platform's ids of what is sent of it
    CREATE TABLE people (                      -- accounts that were linked or let in
        id INTEGER PRIMARY KEY,
        channel TEXT NOT NULL,
        sender TEXT NOT NULL,                  -- the platform's stable id
        role TEXT NOT NULL CHECK (role IN ('owner', 'guest')),
        name TEXT NOT NULL,                    -- how they called themselves then
        at TEXT NOT NULL,
        UNIQUE (channel, sender)
    ) STRICT;
    CREATE TABLE chats (                       -- that an owner has alone with the assistant
        id INTEGER PRIMARY KEY,
        channel TEXT NOT NULL,
        chat TEXT NOT NULL,
        sender TEXT NOT NULL,
        UNIQUE (channel, chat)
    ) STRICT;
    CREATE TABLE links (                       -- the code that makes an account the owner's
        id INTEGER PRIMARY KEY,
        channel TEXT NOT NULL UNIQUE,
        salt TEXT NOT NULL,
        sha256 TEXT NOT NULL,                  -- of code and salt, many times over
        until TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'used', 'exposed')),
        sender TEXT NOT NULL DEFAULT '',       -- whom it has linked
        name TEXT NOT NULL DEFAULT '',
        wrong INTEGER NOT NULL DEFAULT 0,      -- codes that came
        wrong_until TEXT NOT NULL DEFAULT ''   -- so long they count
    ) STRICT;
    CREATE TABLE asking (                      -- strangers who wait to be let in
        id INTEGER PRIMARY KEY,
        channel TEXT NOT NULL,
        sender TEXT NOT NULL,
        name TEXT NOT NULL,
        chat TEXT NOT NULL,
        code TEXT NOT NULL,                    -- no secret: it says which of them is meant
        at TEXT NOT NULL,
        UNIQUE (channel, sender)
    ) STRICT;
    """,
)


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

            logger.warning(rescue(path, MIGRATIONS))
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
    if version > len(MIGRATIONS):
        raise StoreError(f"{path} was written by a newer nanoclaw (format {version}): update nanoclaw.")


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if 0 < version < len(MIGRATIONS):
        _keep_copy(db, path, version)
    for number in range(version, len(MIGRATIONS)):
        try:
            db.executescript(f"BEGIN;\n{MIGRATIONS[number]};\nPRAGMA user_version = {number + 1};\nCOMMIT;")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise StoreError(f"cannot bring {path} to format {number + 1}: {error}. It is as it was.") from error


def _keep_copy(db: sqlite3.Connection, path: Path, version: int) -> None:
    """The whole database as it is, checked, as one file beside it."""
    try:
        copy_database(db, path.with_name(f"{path.name}.v{version}"))
    except (sqlite3.Error, OSError) as error:
        raise StoreError(
            f"{path} has format {version}, and no copy of it could be kept before it is brought to format "
            f"{len(MIGRATIONS)}: {_reason(path, error)}. It is as it was; free some space and start again."
        ) from error


def copy_database(db: sqlite3.Connection, path: Path) -> None:
    """What is in the database at this moment, checked, as one new file. Raises sqlite3.Error and OSError."""
    with drafted(path) as draft, closing(sqlite3.connect(draft, isolation_level=None)) as target:
        target.execute("PRAGMA synchronous = OFF")  # the finished draft is synced as a whole
        db.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
        if not is_whole(target):
            raise sqlite3.DatabaseError("the copy is damaged")
