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

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from nanoclaw.core.errors import StoreError
from nanoclaw.core.messages import Inbound, Outbound
from nanoclaw.core.plugin import NamedTuple, Profile, dump_profile
from nanoclaw.log import logger
from nanoclaw.sqlite_salvage import UNSYNCED
from nanoclaw.sqlite_salvage.copies import is_damage

PANIC = "panic"  # on while everything is frozen; its value is the last outbox row before it
FULL_BYTES = 1_000_000  # free ones below which a disk counts as full
READ_ONLY = "{}?mode=ro"

ASIDE = "Nothing was changed. The next chat keeps the damaged file aside and continues with what can be read."


class Store:
    """The open database, as `start.opening` opens it. Whoever opens it for writing owns it until `close`."""

    def __init__(self, path: Path, db: sqlite3.Connection, lock: IO[str] | None = None) -> None:
        """`lock` is held by who owns the file."""
        self.path, self.db, self._lock = path, db, lock
        self._committing: Future[None] | None = None
        self._is_synced, self._unsynced = True, 0  # the transaction; how many since the last that is surely on disk
        self.committer: Executor = ThreadPoolExecutor(1, "commit")
        """Carries out every COMMIT in its thread."""
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
            self._commit()
        except BaseException as error:
            self.roll_back()
            if isinstance(error, sqlite3.Error):
                raise self.unsaved(error) from error
            raise

    def begin(self, *, is_synced: bool = True) -> None:
        """Begin a transaction. One that is not synced is safe from a kill at once, and from a power cut with the next
        one that is, which is one of the next few."""
        self._is_synced = is_synced or self._unsynced == UNSYNCED
        self._unsynced += not self._is_synced
        self.db.execute(f"PRAGMA synchronous = {'FULL' if self._is_synced else 'NORMAL'}")
        self.db.execute("BEGIN IMMEDIATE")

    def roll_back(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # it is closed
            if self.db.in_transaction:  # a full disk has rolled it back already
                self.db.execute("ROLLBACK")

    def unsaved(self, error: BaseException) -> StoreError:
        return StoreError(
            f"this step could not be saved in {self.path}: {reason_of(self.path, error)}. "
            "What was saved before is intact, and what commands did is not undone."
        )

    def commit(self) -> Future[None]:
        """Commit the open transaction in the thread of the `committer`. Until that has ended, queries see the state
        before it."""
        self._committing = self.committer.submit(self._commit)
        return self._committing

    def _commit(self) -> None:
        try:
            self.db.execute("COMMIT")
            self._unsynced = 0 if self._is_synced else self._unsynced
        except BaseException:
            self.roll_back()
            raise

    def wait(self) -> None:
        """Wait for a COMMIT under way, however it ends."""
        if self._committing:
            self._committing.exception()

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
        if self._committing is None or self._committing.done():
            return self.db
        if self._beside is None:
            self._beside = sqlite3.connect(READ_ONLY.format(self.path.absolute().as_uri()), uri=True)
        return self._beside

    def close(self) -> None:
        self.committer.shutdown()
        if self._beside:
            self._beside.close()
        self.db.close()
        if self._lock:
            self._lock.close()


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


def reason_of(path: Path, error: BaseException) -> str:
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


T = TypeVar("T")


class Transaction:
    """Implements `Tx` by one transaction of the store. `follower` is told of what is sent, and of the end."""

    def __init__(self, db: sqlite3.Connection, now: datetime, follower: Follower | None = None) -> None:
        self.db, self.now, self._follower = db, now, follower
        self.delivered: list[tuple[int, Inbound]] = []
        self.sent: list[tuple[Outbound, bool]] = []
        self._after: list[Callable[[], object]] = []
        self._undo: list[Callable[[], object]] = []

    def execute(self, sql: str, *values: object) -> list[Any]:
        return self.db.execute(sql, values).fetchall()

    def send(self, outbound: Outbound, remark: str = "", inbox: int | None = None, *, is_news: bool = True) -> int:
        """Send a message. `inbox` is the row of the message that it answers; then the history of that chat has it
        already, unless there is a `remark`."""
        text = outbound.text.encode("utf-8", "replace").decode()  # SQLite refuses lone surrogates
        buttons = json.dumps([button._asdict() for button in outbound.buttons])
        sql = "INSERT INTO outbox (inbox, channel, chat, text, files, reply_to, due, buttons, at, came)"
        values = (inbox, *outbound.address, text, json.dumps(outbound.files), outbound.reply_to, self.now.isoformat())
        at = outbound.at.isoformat() if outbound.at else ""
        came = outbound.came.isoformat() if outbound.came else ""
        rows = self.execute(f"{sql} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id", *values, buttons, at, came)
        row = int(rows[0][0])
        kept = outbound._replace(text=text, files=tuple(outbound.files), key=str(row), outside="")
        self.sent.append((kept, inbox is not None))
        is_news = is_news and (inbox is None or bool(remark))
        if is_news and self._follower and (outbound.text.strip() or outbound.files):
            self._follower.enter(self, row, outbound, remark)
        return row

    def deliver(self, inbound: Inbound, profile: Profile | None = None) -> int | None:
        if profile:
            inbound = inbound._replace(profile=dump_profile(profile))
        row = self.accept(inbound)
        if row is not None:
            self.delivered.append((row, inbound))
        return row

    def accept(self, inbound: Inbound, state: str = "new") -> int | None:
        """Add a message to the inbox; its row, None for one that was accepted before."""
        message = inbound.message
        body = {
            "sender": inbound.sender,
            "text": message.text,
            "origin": message.origin,
            "at": message.at.isoformat(),
            "outside": message.outside,
            "attachments": inbound.attachments,
            "quoted": inbound.quoted,
            "quote": inbound.quote,
            "quote_from": inbound.quote_from,
            "name": inbound.name,
            "group": [inbound.is_group, inbound.is_mention, inbound.overheard],
            "role": inbound.role,
            "conversation": inbound.conversation,
            "profile": inbound.profile,
        }
        sql = "INSERT INTO inbox (channel, chat, external_id, body, state, received) VALUES (?, ?, ?, ?, ?, ?)"
        values = (*inbound.address, inbound.external_id, json.dumps(body), state, self.now.isoformat())
        rows = self.execute(f"{sql} ON CONFLICT DO NOTHING RETURNING id", *values)
        return rows[0][0] if rows else None

    def after(self, call: Callable[[], object]) -> None:
        self._after.append(call)

    def on_rollback(self, call: Callable[[], object]) -> None:
        self._undo.append(call)

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part of the transaction: if it raises, only its writes are rolled back."""
        counts, undo = (len(self.delivered), len(self.sent), len(self._after)), len(self._undo)
        self.db.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            if self.db.in_transaction:  # a full disk has rolled all of it back already
                self.db.execute("ROLLBACK TO part")
            for rows, count in zip((self.delivered, self.sent, self._after), counts, strict=True):
                del rows[count:]  # type: ignore[attr-defined]
            self.undo(undo)
            raise
        finally:
            if self.db.in_transaction:
                self.db.execute("RELEASE part")

    def undo(self, count: int = 0) -> None:
        """Undo changes in memory whose writes were rolled back."""
        while len(self._undo) > count:
            self._undo.pop()()

    def finish(self) -> None:
        """Call everything that waits for the commit. One that raises is logged, and the others are still called."""
        if self._follower and (self.delivered or self.sent):
            self._after.append(partial(self._follower.committed, self))
        for call in self._after:
            try:
                call()
            except Exception:
                logger.exception("something after a transaction failed")


class Follower(Protocol):
    """Adds what is sent to the history of its chat, and is told of new rows of the inbox and the outbox."""

    def enter(self, tx: Transaction, row: int, outbound: Outbound, remark: str) -> None: ...
    def committed(self, tx: Transaction) -> None: ...


class _Wanted(NamedTuple):
    """A change to be made, and who waits for it."""

    change: Callable[[Transaction], Any]
    done: asyncio.Future[Any]
    is_synced: bool


class _Made(NamedTuple):
    """A change that is part of a transaction whose COMMIT runs, and who waits for it."""

    tx: Transaction
    result: Any
    done: asyncio.Future[Any]


class Transactions:
    """Makes every transaction of the store."""

    def __init__(self, store: Store, clock: Callable[[], datetime], follower: Follower | None = None) -> None:
        self.store, self.clock, self._follower = store, clock, follower
        self._open: Transaction | None = None
        self._waiting: list[_Wanted] = []
        self._committing: tuple[list[_Made], Future[None]] | None = None
        self._is_telling = False

    @contextmanager
    def open(self) -> Iterator[Transaction]:
        """One transaction; all of it is on disk when the block ends. Inside another one it is a part of that. Raises
        StoreError if it cannot be kept."""
        if self._open:
            with self._open.part():
                yield self._open
            return
        self._end_commit()
        tx: Transaction | None = None
        try:
            with self.store.transaction() as db:
                tx = self._open = Transaction(db, self.clock(), self._follower)
                yield tx
        except BaseException:
            if tx:
                tx.undo()
            raise
        finally:
            self._open = None
            self._begin_commit()
        tx.finish()

    def write_now(self, change: Callable[[Transaction], T]) -> T:
        """Make a change and return its result when it is on disk. All chats wait for it."""
        with self.open() as tx:
            return change(tx)

    async def write(self, change: Callable[[Transaction], T], *, is_synced: bool = True) -> T:
        """Make a change and return its result when it is on disk; nobody else waits for it. Changes that come while a
        COMMIT runs share the next one. One that is not synced survives the process; a power cut may lose it, but
        nothing before it. Raises StoreError. A caller cancelled meanwhile gets that at its next await."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Wanted(change, done, is_synced))
        self._begin_commit()
        return await _unbroken(done)

    def _begin_commit(self) -> None:
        """Make all waiting changes, each completely or not at all, and commit them together."""
        if self._committing or self._open or self._is_telling or not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        made: list[_Made] = []
        try:
            self.store.begin(is_synced=any(one.is_synced for one in waiting))
            for one in waiting:
                self._make(one.change, one.done, made)
            if not made:
                self.store.roll_back()
                return
            commit = self.store.commit()
        except sqlite3.Error as error:
            self.store.roll_back()
            for kept in reversed(made):
                kept.tx.undo()
            for one in waiting:
                if not one.done.done():
                    one.done.set_exception(self.store.unsaved(error))
            return
        self._committing = (made, commit)
        if commit.done():
            self._go_on(commit)
        else:
            loop = asyncio.get_running_loop()
            commit.add_done_callback(lambda ended: loop.call_soon_threadsafe(self._go_on, ended))

    def _make(self, change: Callable[[Transaction], Any], done: asyncio.Future[Any], made: list[_Made]) -> None:
        """Make one change. Raises sqlite3.Error if the whole transaction is lost."""
        tx = self._open = Transaction(self.store.db, self.clock(), self._follower)
        try:
            with tx.part():
                result = change(tx)
            made.append(_Made(tx, result, done))
        except Exception as error:
            if not self.store.db.in_transaction:
                raise error if isinstance(error, sqlite3.Error) else sqlite3.OperationalError(str(error)) from error
            done.set_exception(self.store.unsaved(error) if isinstance(error, sqlite3.Error) else error)
        finally:
            self._open = None

    def _go_on(self, commit: Future[None]) -> None:
        """Handle the end of a COMMIT, unless somebody has waited for it."""
        if self._committing and self._committing[1] is commit:
            self._end_commit()
            self._begin_commit()

    def _end_commit(self) -> None:
        """Wait for the COMMIT under way, and let all who wait for it continue."""
        if self._committing is None:
            return
        made, commit = self._committing
        error = commit.exception()
        self._committing, self._is_telling = None, True  # what is written from here on comes after all of this
        for tx, result, done in reversed(made) if error else made:  # the last change is taken back first
            if error:
                tx.undo()
                done.set_exception(self.store.unsaved(error))
            else:
                tx.finish()
                done.set_result(result)
        self._is_telling = False


async def _unbroken(done: asyncio.Future[T]) -> T:
    """Wait until it is written, as that can't be interrupted. A cancellation is raised after it."""
    was_cancelled = False
    while not done.done():
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError:
            was_cancelled = True
    task = asyncio.current_task()
    if was_cancelled and task:
        asyncio.get_running_loop().call_soon(_cancel_again, task)
    return done.result()


def _cancel_again(task: asyncio.Task[object]) -> None:
    """Set the result, unless the caller is gone, as after a time limit."""
    if task.cancelling():
        task.uncancel()
        task.cancel()
