"""Transactions: the one way in which anything is written, and what follows once it is on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol, TypeVar

from nanoclaw.core import profiles
from nanoclaw.core.messages import Inbound, Outbound
from nanoclaw.core.plugin import Profile
from nanoclaw.core.store import inbox, outbox
from nanoclaw.core.store.db import Store

T = TypeVar("T")


class Transaction:
    """The seam's `Tx` over one transaction of the store. `delivered` and `sent` are told of when it is committed."""

    def __init__(self, db: sqlite3.Connection, now: datetime, histories: Histories | None = None) -> None:
        self.db, self.now, self._histories = db, now, histories
        self.delivered: list[tuple[int, Inbound]] = []
        self.sent: list[Outbound] = []
        self._after: list[Callable[[], object]] = []
        self._undo: list[Callable[[], object]] = []

    def execute(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        return self.db.execute(sql, values).fetchall()

    def send(self, outbound: Outbound, remark: str = "", inbox: int | None = None, *, is_news: bool = True) -> int:
        """`inbox` is the row of the message that it answers; then it is no news to that chat's history, unless there is
        a `remark`."""
        row = outbox.insert(self.db, outbound, self.now.isoformat(), inbox)
        self.sent.append(outbound)
        is_news = is_news and (inbox is None or bool(remark))
        if is_news and self._histories and (outbound.text.strip() or outbound.files):
            self._histories.enter(self, row, outbound, remark)
        return row

    def deliver(self, inbound: Inbound, profile: Profile | None = None) -> int | None:
        if profile:
            inbound = inbound._replace(profile=profiles.dump(profile))
        row = inbox.put(self.db, inbound, self.now)
        if row is not None:
            self.delivered.append((row, inbound))
        return row

    def after(self, call: Callable[[], object]) -> None:
        self._after.append(call)

    def on_rollback(self, call: Callable[[], object]) -> None:
        self._undo.append(call)

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part that is taken back alone when it raises."""
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
        """Take back what was kept in memory only because of what is not written after all."""
        while len(self._undo) > count:
            self._undo.pop()()

    def finish(self) -> None:
        """Call what was to be called once all is on disk. One that raises is logged and keeps no other from it."""
        for call in self._after:
            try:
                call()
            except Exception:
                from nanoclaw.core.log import logger

                logger.exception("something after a transaction failed")


class Histories(Protocol):
    """Puts what was sent into the history of the chat that it went to."""

    def enter(self, tx: Transaction, row: int, outbound: Outbound, remark: str) -> None: ...


class Listener(Protocol):
    """Hears of what transactions put into the inbox and the outbox."""

    def committed(self, tx: Transaction) -> None: ...


class Transactions:
    """Makes every transaction of the store. `listener` takes up what they bring about."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self.store, self.clock = store, clock
        self.listener: Listener | None = None
        self.histories: Histories | None = None
        self._open: Transaction | None = None

    @contextmanager
    def open(self) -> Iterator[Transaction]:
        """One transaction; all of it is on disk when the block ends. Inside another one it is a part of that. Raises
        StoreError when it cannot be kept."""
        if self._open:
            with self._open.part():
                yield self._open
            return
        tx: Transaction | None = None
        try:
            with self.store.transaction() as db:
                tx = self._open = Transaction(db, self.clock(), self.histories)
                yield tx
        except BaseException:
            if tx:
                tx.undo()
            raise
        finally:
            self._open = None
        tx.finish()
        if self.listener and (tx.delivered or tx.sent):
            self.listener.committed(tx)

    def write(self, change: Callable[[Transaction], T]) -> T:
        """The result of a change that is on disk."""
        with self.open() as tx:
            return change(tx)
