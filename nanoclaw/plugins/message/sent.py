"""What a tool sends in the midst of a turn: its row in the outbox, the mark of the call that sent it, and its place in
another conversation's history, all in one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from nanoclaw.core.messages import Address, Attachment, Inbound, Message, Outbound, UserMessage
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.inbox import put, sent_mark
from nanoclaw.core.store.outbox import insert
from nanoclaw.core.store.sessions import Sessions


class SendStatus(NamedTuple):
    """How far a row of the outbox has come: pending, delivered or failed, after so many attempts."""

    state: str
    attempts: int = 0
    platform_id: str = ""
    error: str = ""


class Sent:
    def __init__(self, store: Store, sessions: Sessions, clock: Callable[[], datetime]) -> None:
        self._store, self._sessions, self._clock = store, sessions, clock

    def send(self, outbound: Outbound, turn: int, call: str, messages: Sequence[Message]) -> int:
        """Put it into the outbox; the row's number. `messages` tell of it in the history of the conversation that it
        goes to, if that is another than the turn's own."""
        session, now, target = self._sessions.of(outbound.address), self._clock(), outbound.address
        files = tuple(Attachment(path, path.rpartition("/")[2]) for path in outbound.files)
        own = self._store.rows("SELECT key FROM sessions JOIN turns ON sessions.id = session WHERE turns.id = ?", turn)
        if own == [(session.key,)]:
            messages = ()
        with self._store.transaction() as db:
            row = insert(db, outbound, now.isoformat(), None)
            said = UserMessage(outbound.text, now, "runtime")
            inbox = put(db, Inbound(target, call, f"{sent_mark(db, turn)}{row}", said, files), now, "done")
            assert inbox is not None
            if messages:
                session.tell(db, inbox, messages)
        session.history.extend(messages)
        return row

    def of_turn(self, turn: int, address: Address) -> list[Outbound]:
        """What a turn has sent to a conversation so far."""
        sql = "SELECT body FROM inbox WHERE id > ? AND channel = ? AND chat = ? AND external_id GLOB ? ORDER BY id"
        bodies = self._store.rows(sql, self._begin(turn), address.channel, address.chat, f"message/{turn}/*")
        found = [json.loads(body) for (body,) in bodies]
        return [Outbound(address, body["text"], tuple(file[0] for file in body["attachments"])) for body in found]

    def count(self, turn: int) -> int:
        """How many messages a turn has sent, wherever to."""
        sql = "SELECT count(*) FROM inbox WHERE id > ? AND external_id GLOB ?"
        return int(self._store.rows(sql, self._begin(turn), f"message/{turn}/*")[0][0])

    def progress(self, row: int) -> SendStatus:
        sql = "SELECT state, attempts, platform_id, error FROM outbox WHERE id = ?"
        return SendStatus(*self._store.rows(sql, row)[0])

    def knows(self, address: Address) -> bool:
        """Whether there was ever a conversation at an address."""
        return bool(self._store.rows("SELECT 1 FROM sessions WHERE key = ?", str(address)))

    def answers(self, turn: int) -> str:
        """The platform's id of the message that a turn answers."""
        sql = "SELECT external_id FROM inbox JOIN turns ON turns.inbox = inbox.id WHERE turns.id = ?"
        found = self._store.rows(sql, turn)
        return str(found[0][0]) if found else ""

    def _begin(self, turn: int) -> int:
        """The row of the message that began a turn: what it sends is marked after it."""
        found = self._store.rows("SELECT inbox FROM turns WHERE id = ?", turn)
        return int(found[0][0]) if found else 0
