"""Outgoing messages: rows that stay until the platform has given them an id."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from nanoclaw.core.messages import Address, Button, Outbound
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.tx import Transactions

RETRY_SECONDS = (5, 25, 120, 600)
"""Pauses after the first, second … failed attempt; after the last one the row has failed for good."""


QUOTABLE = 20_000
"""Number of newest rows among which a message is searched by the platform's id."""


class Row(NamedTuple):
    """`sent` are the platform's ids of the parts that were sent."""

    id: int
    outbound: Outbound
    attempts: int
    due: datetime
    is_reply: bool
    sent: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """The reason by which plugins judge it."""
        found = {"answer": self.is_reply, "reminder": self.outbound.at, "question": self.outbound.buttons}
        return next((why for why, is_so in found.items() if is_so), "notice")


_READ = """SELECT DISTINCT messages.body ->> 'outside' FROM turns JOIN sessions ON sessions.id = turns.session
    JOIN messages ON messages.session = sessions.id AND messages.turn = turns.id
    WHERE (turns.inbox = ?1 OR turns.inbox = (SELECT id FROM inbox WHERE channel = 'program' AND external_id = ?2))
    AND NOT (sessions.key = ?3 AND messages.context = sessions.context)
    AND json_valid(messages.body) AND messages.body ->> 'outside' <> ''"""


def _around_one() -> float:
    from random import uniform

    return uniform(0.8, 1.2)


class Outbox:
    def __init__(self, transactions: Transactions, jitter: Callable[[], float] = _around_one) -> None:
        """`jitter` returns a factor around 1 for each pause, so that many rows don't come due together."""
        self._transactions, self._store, self._jitter = transactions, transactions.store, jitter
        self._clock = transactions.clock

    def chats(self, channel: str) -> list[Address]:
        """Chats with waiting messages, ordered by the oldest message."""
        sql = "SELECT chat FROM outbox WHERE channel = ? AND state = 'pending' GROUP BY chat ORDER BY min(id)"
        return [Address(channel, chat) for (chat,) in self._store.rows(sql, channel)]

    def waiting(self, channel: str) -> int:
        """Number of rows that a channel still has to deliver."""
        sql = "SELECT count(*) FROM outbox WHERE channel = ? AND state = 'pending'"
        return int(self._store.rows(sql, channel)[0][0])

    def pending(self, channel: str) -> list[Row]:
        """Rows that a channel still has to deliver, in order."""
        sql = f"SELECT {_COLUMNS} FROM outbox WHERE channel = ? AND state = 'pending' ORDER BY id"
        return [_row(*columns) for columns in self._store.rows(sql, channel)]

    def pending_for(self, address: Address) -> Iterator[Row]:
        """Rows that one chat still has to get. Most readers take only the first, so the others are read later."""
        sql = (
            f"SELECT {_COLUMNS} FROM outbox"
            " WHERE channel = ? AND chat = ? AND state = 'pending' AND id > ? ORDER BY id LIMIT ?"
        )
        last, most = 0, 1
        while found := self._store.rows(sql, address.channel, address.chat, last, most):
            yield from (_row(*columns) for columns in found)
            last, most = found[-1][0], 100

    def last(self) -> int:
        """The number of the newest row, 0 when there is none."""
        return int(self._store.rows("SELECT coalesce(max(id), 0) FROM outbox")[0][0])

    def sent(self, address: Address, platform_id: str, conversation: Address) -> tuple[str, str]:
        """The text of a message sent to a chat, by the platform's id of it or of a part; '' if unknown. Then the
        sources of others' text that had been read for it, where they differ from those of the conversation now."""
        place = address.chat.partition("/")[0]  # whichever thread or person of the chat it was for
        sql = (
            "SELECT id, inbox, text FROM outbox WHERE id > (SELECT max(id) FROM outbox) - ?1 AND channel = ?2"
            " AND (chat = ?3 OR substr(chat, 1, ?4) = ?3 || '/')"
            " AND (instr(' ' || platform_id || ' ', ' ' || ?5 || ' ') OR instr(parts, ?6)) ORDER BY id DESC LIMIT 1"
        )
        values = (QUOTABLE, address.channel, place, len(place) + 1, platform_id, json.dumps(platform_id))
        found = self._store.rows(sql, *values) if platform_id else []
        if not found:
            return "", ""
        row, inbox, text = found[0]
        sources = self._store.rows(_READ, inbox, f"sent/{row}", str(conversation))
        return str(text), ", ".join(source for (source,) in sources)

    async def partly(self, row: Row, sent: Sequence[str]) -> Row:
        """Record which parts of a row were sent; its attempts start over."""
        await self._note("UPDATE outbox SET parts = ?, attempts = 0 WHERE id = ?", json.dumps(list(sent)), row.id)
        return row._replace(sent=tuple(sent), attempts=0)

    async def delivered(self, row: Row, platform_id: str) -> None:
        """Record that all was sent; `platform_id` has the id of each part, separated by spaces."""
        await self._note("UPDATE outbox SET state = 'delivered', platform_id = ? WHERE id = ?", platform_id, row.id)

    async def try_again(self, row: Row, error: str) -> bool:
        """Record a failed attempt and when the next one is due; False if it was the last."""
        last = row.attempts >= len(RETRY_SECONDS)
        pause = 0 if last else RETRY_SECONDS[row.attempts] * self._jitter()
        await self._failed(row, error, self._clock() + timedelta(seconds=pause), is_last=last)
        return not last

    async def postpone(self, row: Row, error: str, until: datetime) -> None:
        """Record why a row waits. It was not an attempt: the platform has not judged it."""
        await self._note("UPDATE outbox SET due = ?, error = ? WHERE id = ?", until.isoformat(), _whole(error), row.id)

    async def hasten(self, channel: str) -> None:
        """Make all waiting rows due now, as the channel is back."""
        sql = "UPDATE outbox SET due = ? WHERE channel = ? AND state = 'pending'"
        await self._note(sql, self._clock().isoformat(), channel)

    async def give_up(self, row: Row, error: str) -> None:
        """Mark a row as failed for good: trying again cannot help."""
        await self._failed(row, error, self._clock(), is_last=True)

    async def _failed(self, row: Row, error: str, due: datetime, *, is_last: bool) -> None:
        sql = "UPDATE outbox SET attempts = attempts + 1, due = ?, error = ?, state = ? WHERE id = ?"
        await self._note(sql, due.isoformat(), _whole(error), "failed" if is_last else "pending", row.id)

    async def _note(self, sql: str, *values: object) -> None:
        await self._transactions.write(lambda tx: tx.execute(sql, *values))


_COLUMNS = "id, channel, chat, text, files, reply_to, attempts, due, inbox IS NOT NULL, buttons, parts, at"


def _row(
    id_: int,
    channel: str,
    chat: str,
    text: str,
    files: str,
    reply_to: str,
    attempts: int,
    due: str,
    is_reply: int,
    buttons: str,
    parts: str,
    at: str,
) -> Row:
    # each was [label, text] once: of a list like that the last is the only one with words, for who forgets some
    shown = tuple(Button(**one) if isinstance(one, dict) else Button(*one) for one in json.loads(buttons))
    time = datetime.fromisoformat(at) if at else None
    outbound = Outbound(Address(channel, chat), text, tuple(json.loads(files)), reply_to, str(id_), shown, time)
    return Row(id_, outbound, attempts, datetime.fromisoformat(due), bool(is_reply), tuple(json.loads(parts)))


def counts(store: Store) -> dict[str, int]:
    """Number of rows in each state."""
    return dict(store.rows("SELECT state, count(*) FROM outbox GROUP BY state"))


def failures(store: Store, most: int = 5) -> list[tuple[str, str, str]]:
    """Rows that failed for good, the newest first: address, text and reason."""
    sql = "SELECT channel || ':' || chat, text, error FROM outbox WHERE state = 'failed' ORDER BY id DESC LIMIT ?"
    return store.rows(sql, most)


def pop_sent_meanwhile(db: sqlite3.Connection, conversation: str) -> list[tuple[str, str, str]]:
    """Remark, text and sources of messages sent during a turn there, in order; they are removed from the list."""
    sql = (
        "SELECT remark, text, json_array_length(files), outside FROM untold JOIN outbox ON outbox.id = outbox"
        " WHERE conversation = ? ORDER BY outbox"
    )
    rows = db.execute(sql, (conversation,)).fetchall()
    found = [(remark, history_text(text, files), outside) for remark, text, files, outside in rows]
    if found:
        db.execute("DELETE FROM untold WHERE conversation = ?", (conversation,))
    return found


def history_text(text: str, files: int) -> str:
    """The text about a sent message for the history."""
    return text if text.strip() else f"({files} file{'s' if files > 1 else ''} without words)"


def _whole(text: str) -> str:
    """Replaces lone surrogates, which SQLite refuses; file names and models' answers may have them."""
    return text.encode("utf-8", "replace").decode()
