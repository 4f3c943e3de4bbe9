"""Ways to break a promise on purpose, each taking out one thing: they show that the harness can fail."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from stat import S_ISDIR
from typing import Any

from nanoclaw.core.store import db
from nanoclaw.core.store.db import Transaction


def without_file_syncs() -> None:
    """Files of the workspace are put in place without being on the disk."""
    _without_syncs(lambda descriptor: not S_ISDIR(os.fstat(descriptor).st_mode))


def without_folder_syncs() -> None:
    """Files of the workspace are put in place, and the place is not on the disk."""
    _without_syncs(lambda descriptor: S_ISDIR(os.fstat(descriptor).st_mode))


def without_store_syncs() -> None:
    """The store says "committed" before the disk does."""
    begin = db.Store.begin

    def hasty(self: db.Store, **how: Any) -> None:
        begin(self, **how)
        self.db.execute("COMMIT")
        self.db.execute("PRAGMA synchronous = OFF")
        self.db.execute("BEGIN IMMEDIATE")

    db.Store.begin = hasty  # type: ignore[method-assign]


def without_transactions() -> None:
    """Each statement of a transaction of the store is its own."""

    @contextmanager
    def transaction(self: db.Store) -> Iterator[sqlite3.Connection]:
        yield self.db

    def part(self: Transaction) -> AbstractContextManager[None]:
        return nullcontext()

    def nothing(self: db.Store, **how: Any) -> None:
        pass

    db.Store.transaction = transaction  # type: ignore[method-assign]
    db.Store.begin = db.Store._commit = nothing  # type: ignore[method-assign]
    Transaction.part = part  # type: ignore[method-assign, assignment]


SABOTAGES: dict[str, Callable[[], None]] = {
    "no sync of files": without_file_syncs,
    "no sync of folders": without_folder_syncs,
    "no sync of the store": without_store_syncs,
    "no transactions": without_transactions,
}


def _without_syncs(is_left_out: Callable[[int], bool]) -> None:
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        if not is_left_out(descriptor):
            sync(descriptor)

    os.fsync = fsync  # type: ignore[assignment]
