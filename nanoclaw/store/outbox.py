"""What goes out: a row until the platform has given it an id."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from nanoclaw.messages import Address, Button, Outbound
from nanoclaw.store.db import Store

RETRY_SECONDS = (5, 25, 120, 600)
"""Pauses after the first, second … failed attempt; after the last one the row has failed for good."""


@dataclass(frozen=True, slots=True)
class Row:
    id: int
    outbound: Outbound
    attempts: int
    due: datetime
    is_reply: bool


class Outbox:
    def __init__(self, store: Store, clock: Callable[[], datetime], jitter: Callable[[], float]) -> None:
        """`jitter` returns a factor around 1 for each pause, so that many rows don't come due together."""
        self._store, self._clock, self._jitter = store, clock, jitter

    def add(self, outbound: Outbound) -> None:
        with self._store.transaction() as db:
            insert(db, outbound, self._clock().isoformat(), None)

    def pending(self, channel: str) -> list[Row]:
        """What a channel still has to deliver, in order."""
        sql = (
            "SELECT id, chat, text, files, reply_to, attempts, due, inbox IS NOT NULL, buttons FROM outbox"
            " WHERE channel = ? AND state = 'pending' ORDER BY id"
        )
        return [
            Row(
                id_,
                Outbound(
                    Address(channel, chat),
                    text,
                    tuple(json.loads(files)),
                    reply_to,
                    str(id_),
                    tuple(Button(*button) for button in json.loads(buttons)),
                ),
                attempts,
                datetime.fromisoformat(due),
                bool(is_reply),
            )
            for id_, chat, text, files, reply_to, attempts, due, is_reply, buttons in self._store.rows(sql, channel)
        ]

    def last(self) -> int:
        """The number of the newest row, 0 when there is none."""
        return int(self._store.rows("SELECT coalesce(max(id), 0) FROM outbox")[0][0])

    def delivered(self, row: Row, platform_id: str) -> None:
        with self._store.transaction() as db:
            db.execute("UPDATE outbox SET state = 'delivered', platform_id = ? WHERE id = ?", (platform_id, row.id))

    def try_again(self, row: Row, error: str) -> None:
        """Note a failed attempt and when the next one is due, or that it was the last."""
        last = row.attempts >= len(RETRY_SECONDS)
        pause = 0 if last else RETRY_SECONDS[row.attempts] * self._jitter()
        due = (self._clock() + timedelta(seconds=pause)).isoformat()
        with self._store.transaction() as db:
            db.execute(
                "UPDATE outbox SET attempts = attempts + 1, due = ?, error = ?, state = ? WHERE id = ?",
                (due, _whole(error), "failed" if last else "pending", row.id),
            )


def counts(store: Store) -> dict[str, int]:
    """How many rows are in each state."""
    return dict(store.rows("SELECT state, count(*) FROM outbox GROUP BY state"))


def insert(db: sqlite3.Connection, outbound: Outbound, due: str, inbox: int | None) -> int:
    """Add a row inside the caller's transaction; its number."""
    row = db.execute(
        "INSERT INTO outbox (inbox, channel, chat, text, files, reply_to, due, buttons)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            inbox,
            outbound.address.channel,
            outbound.address.chat,
            _whole(outbound.text),
            json.dumps(outbound.files),
            outbound.reply_to,
            due,
            json.dumps([[button.label, button.text] for button in outbound.buttons]),
        ),
    ).lastrowid
    assert row is not None
    return row


def _whole(text: str) -> str:
    """SQLite takes no halves of characters (lone surrogates), which names of files and models' words may have."""
    return text.encode("utf-8", "replace").decode()
