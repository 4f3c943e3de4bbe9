"""What came in: on disk before anything is done with it, and never answered twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from nanoclaw.messages import Address, Attachment, Inbound, Outbound, UserMessage
from nanoclaw.store.db import Store
from nanoclaw.store.outbox import insert


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A turn that the end of the process cut off; `calls` were under way or done when it happened."""

    inbox: int
    turn: int
    address: Address
    external_id: str
    text: str
    calls: tuple[str, ...]


class Inbox:
    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store, self._clock = store, clock

    def accept(self, inbound: Inbound) -> int | None:
        """The row's id once it is on disk, None for a message that was accepted before."""
        address, message = inbound.address, inbound.message
        body = {
            "sender": inbound.sender,
            "text": message.text,
            "origin": message.origin,
            "at": message.at.isoformat(),
            "attachments": [[file.path, file.name, file.mime] for file in inbound.attachments],
        }
        row = (address.channel, address.chat, inbound.external_id, json.dumps(body), self._clock().isoformat())
        with self._store.transaction() as db:
            sql = (
                "INSERT INTO inbox (channel, chat, external_id, body, state, received)"
                " VALUES (?, ?, ?, ?, 'new', ?) ON CONFLICT DO NOTHING"
            )
            cursor = db.execute(sql, row)
            return cursor.lastrowid if cursor.rowcount else None

    def done(self, row: int, outbound: Outbound | None = None) -> None:
        """End a row that needed no turn, with its reply, in one transaction."""
        with self._store.transaction() as db:
            db.execute("UPDATE inbox SET state = 'done' WHERE id = ?", (row,))
            if outbound:
                insert(db, outbound, self._clock().isoformat(), row)

    def waiting(self) -> list[tuple[int, Inbound]]:
        """Accepted but not begun, in order: what an earlier process left."""
        sql = "SELECT id, channel, chat, external_id, body FROM inbox WHERE state = 'new' ORDER BY id"
        return [(row[0], _inbound(*row[1:])) for row in self._store.rows(sql)]

    def interrupted(self) -> list[Interrupted]:
        """Begun but not ended, in order: what an earlier process was doing when it ended."""
        sql = (
            "SELECT inbox.id, turns.id, channel, chat, external_id, body, running FROM inbox"
            " JOIN turns ON turns.inbox = inbox.id WHERE state = 'running' AND ended IS NULL ORDER BY inbox.id"
        )
        found = []
        for inbox, turn, channel, chat, external_id, body, running in self._store.rows(sql):
            inbound = _inbound(channel, chat, external_id, body)
            calls = tuple(f"{name} {arguments}" for name, arguments in json.loads(running))
            found.append(Interrupted(inbox, turn, inbound.address, external_id, inbound.message.text, calls))
        return found

    def close(self, interrupted: Interrupted, outbound: Outbound) -> None:
        """End an interrupted turn and tell the person, in one transaction."""
        now = self._clock().isoformat()
        with self._store.transaction() as db:
            db.execute("UPDATE turns SET ended = ?, reason = 'failed' WHERE id = ?", (now, interrupted.turn))
            db.execute("UPDATE inbox SET state = 'done' WHERE id = ?", (interrupted.inbox,))
            insert(db, outbound, now, interrupted.inbox)


def _inbound(channel: str, chat: str, external_id: str, text: str) -> Inbound:
    body = json.loads(text)
    message = UserMessage(body["text"], datetime.fromisoformat(body["at"]), body["origin"])
    attachments = tuple(Attachment(*file) for file in body["attachments"])
    return Inbound(Address(channel, chat), body["sender"], external_id, message, attachments)
