"""The heartbeat in the store: when each item came up, what it watches was like, and what is to be told."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from nanoclaw.core.messages import Address, Inbound, Message, Outbound, UserMessage
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.inbox import put
from nanoclaw.core.store.outbox import insert
from nanoclaw.core.store.sessions import Sessions

CHANNEL = "heartbeat"
"""The channel of the conversation in which heartbeats run."""

SAME_FOR = timedelta(hours=24)
"""So long the same words are not told again."""

Urgency = Literal["low", "normal", "high"]


class State(NamedTuple):
    """Of an item: when it came up or was looked at last; the hash of what it watches, and the beginning of that."""

    at: datetime
    sha256: str = ""
    seen: str = ""


class Alert(NamedTuple):
    """A text that waits to be told."""

    id: int
    at: datetime
    text: str
    urgency: Urgency


class Beats:
    def __init__(self, store: Store, sessions: Sessions | None, clock: Callable[[], datetime]) -> None:
        """Without `sessions` it is only to be read."""
        self._store, self._sessions, self._clock = store, sessions, clock

    # --- items -------------------------------------------------------------------------------------------------------

    def states(self) -> dict[str, State]:
        """By the key of the item."""
        rows = self._store.rows("SELECT key, at, sha256, seen FROM checklist")
        return {key: State(datetime.fromisoformat(at), sha256, seen) for key, at, sha256, seen in rows}

    def keep(self, states: Mapping[str, State], keys: Collection[str]) -> None:
        """New states; items that are not among the `keys` are gone."""
        with self._store.transaction() as db:
            write_states(db, states, keys)

    # --- beats -------------------------------------------------------------------------------------------------------

    def is_running(self) -> bool:
        """Whether a beat waits for the model, or for its answer."""
        sql = "SELECT 1 FROM inbox WHERE state <> 'done' AND channel = ? LIMIT 1"
        return bool(self._store.rows(sql, CHANNEL))

    def begin(self, text: str) -> tuple[int, Inbound]:
        """The message of a beat to the model, on disk, with its row."""
        now = self._clock()
        name = f"{_stamp(now)} {os.urandom(4).hex()}"
        inbound = Inbound(Address(CHANNEL, "main"), CHANNEL, name, UserMessage(text, now, "heartbeat"))
        with self._store.transaction() as db:
            row = put(db, inbound, now)
        assert row is not None
        return row, inbound

    def last_talk(self) -> list[Address]:
        """Conversations in which the owner, alone with the assistant, said something, the newest first."""
        sql = (
            "SELECT channel, chat FROM inbox WHERE json_extract(body, '$.origin') = 'person' AND (channel = 'terminal'"
            " OR (channel, chat) IN (SELECT channel, chat FROM chats JOIN people USING (channel, sender)"
            " WHERE role = 'owner')) GROUP BY channel, chat ORDER BY max(id) DESC LIMIT 20"
        )
        return [Address(*row) for row in self._store.rows(sql)]

    # --- what is to be told ------------------------------------------------------------------------------------------

    def waiting(self) -> list[Alert]:
        rows = self._store.rows("SELECT id, at, text, kind FROM alerts WHERE fired IS NULL ORDER BY id")
        return [Alert(id_, datetime.fromisoformat(at), text, urgency) for id_, at, text, urgency in rows]

    def tell(self, alerts: Sequence[Alert], target: Address, text: str, messages: Sequence[Message]) -> None:
        """One message for these alerts, in the outbox and in the history of the conversation."""
        assert self._sessions is not None
        session = self._sessions.of(target)
        with self._store.transaction() as db:
            now = self._clock()
            outbox = insert(db, Outbound(target, text), now.isoformat(), None)
            said = Inbound(target, CHANNEL, f"{CHANNEL}:{outbox}", UserMessage(text, now, "heartbeat"))
            inbox = put(db, said, now, "done")
            assert inbox is not None
            session.tell(db, inbox, messages)
            rows = [(_stamp(now), alert.id) for alert in alerts]
            db.executemany("UPDATE alerts SET fired = ?, text = '' WHERE id = ?", rows)
        session.history.extend(messages)


def write_states(db: sqlite3.Connection, states: Mapping[str, State], keys: Collection[str]) -> None:
    """Inside the caller's transaction."""
    for (key,) in db.execute("SELECT key FROM checklist").fetchall():
        if key not in keys:
            db.execute("DELETE FROM checklist WHERE key = ?", (key,))
    rows = [(key, _stamp(state.at), state.sha256, state.seen) for key, state in states.items()]
    db.executemany("INSERT OR REPLACE INTO checklist (key, at, sha256, seen) VALUES (?, ?, ?, ?)", rows)


def write_alert(db: sqlite3.Connection, text: str, sha256: str, urgency: Urgency, now: datetime) -> bool:
    """Keep a text to be told, inside the caller's transaction. False when the same waits or was told within a day."""
    db.execute("DELETE FROM alerts WHERE fired <= ?", (_stamp(now - SAME_FOR),))
    if db.execute("SELECT 1 FROM alerts WHERE sha256 = ?", (sha256,)).fetchone():
        return False
    sql = "INSERT INTO alerts (at, text, sha256, kind) VALUES (?, ?, ?, ?)"
    db.execute(sql, (_stamp(now), text, sha256, urgency))
    return True


def _stamp(when: datetime) -> str:
    """In UTC and to the second, so that its text sorts as it does."""
    return when.astimezone(UTC).isoformat(timespec="seconds")
