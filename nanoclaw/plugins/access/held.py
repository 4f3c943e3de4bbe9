"""Messages that say they are from somebody who is let in, where the platform's word on that is not known to hold: they
wait for the owner's yes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from nanoclaw.core.channel import UNPROVEN, Place
from nanoclaw.core.messages import Address, Attachment, Inbound, Outbound, UserMessage
from nanoclaw.core.plugin import Host, Tx
from nanoclaw.escapes import one_line

MOST, KEPT = 50, timedelta(days=7)
"""So many wait at most, and so long."""
TOLD = timedelta(hours=1)
"""Between two questions to the owner: anybody can send what is asked about."""


class HeldMessage(NamedTuple):
    id: int
    sender: str
    """The account that it says it is from."""
    inbound: Inbound


class HeldMessages:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._told: datetime | None = None

    def hold(self, tx: Tx, inbound: Inbound, ask: Address) -> bool:
        """Keep a message, and ask the owner there; False when too many wait already."""
        waiting, now = self.all(), self._host.now()
        tx.execute("DELETE FROM held WHERE at <= ?", _stamp(now - KEPT))
        if len(waiting) >= MOST:
            return False
        sql = (
            "INSERT INTO held (channel, external_id, sender, body, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
            " RETURNING id"
        )
        sender, channel = inbound.sender.removeprefix(UNPROVEN), inbound.address.channel
        rows = tx.execute(sql, channel, inbound.external_id, sender, _dump(inbound), _stamp(now))
        if rows and (self._told is None or now - self._told >= TOLD):
            number = rows[0][0]
            text = (
                f"A message on {channel} says that it is from {sender}, and I can't be sure: “{_begin(inbound)}”. "
                f"/held yes {number} if you sent it, /held no {number} to throw it away, /held for all that wait."
            )
            tx.send(Outbound(ask, text), is_news=False)
            tx.after(lambda: self._note(now))
        return True

    def all(self) -> list[HeldMessage]:
        """The messages that wait, the oldest first."""
        sql = "SELECT id, sender, channel, external_id, body FROM held WHERE at > ? ORDER BY id"
        rows = self._host.read(sql, _stamp(self._host.now() - KEPT))
        return [HeldMessage(id, sender, _load(channel, external, body)) for id, sender, channel, external, body in rows]

    def take(self, tx: Tx, number: int) -> HeldMessage | None:
        """One that waited, and waits no more."""
        found = next((one for one in self.all() if one.id == number), None)
        tx.execute("DELETE FROM held WHERE id = ?", number)
        return found

    def listed(self) -> str:
        lines = [
            f"- {one.id}: {one.inbound.address.channel}, says it is from {one.sender}, "
            f"{one.inbound.message.at.astimezone(self._host.now().tzinfo):%Y-%m-%d %H:%M}: {_begin(one.inbound)}"
            for one in self.all()
        ]
        return "\n".join(lines) or "No message waits for your word that you sent it."

    def _note(self, now: datetime) -> None:
        self._told = now


def released(held: HeldMessage) -> Inbound:
    """The message as its sender's own, who was vouched for by the owner."""
    place = Place.of(held.inbound.address.chat)._replace(person="")
    address = held.inbound.address._replace(chat=str(place))
    return held.inbound._replace(sender=held.sender, address=address)


def _begin(inbound: Inbound) -> str:
    return one_line(inbound.message.text or inbound.quote, 80) or "files alone"


def _dump(inbound: Inbound) -> str:
    files = [[one.name, one.mime, one.ref, one.size] for one in inbound.attachments]
    kept = {"chat": inbound.address.chat, "text": inbound.message.text, "at": inbound.message.at.isoformat()}
    rest = {name: getattr(inbound, name) for name in _TEXTS}
    return json.dumps({**kept, **rest, "files": files})


def _load(channel: str, external_id: str, body: str) -> Inbound:
    kept = json.loads(body)
    message = UserMessage(kept["text"], datetime.fromisoformat(kept["at"]))
    files = tuple(Attachment("", *one) for one in kept["files"])
    texts = {name: kept[name] for name in _TEXTS}
    return Inbound(Address(channel, kept["chat"]), "", external_id, message, files)._replace(**texts)


def _stamp(when: datetime) -> str:
    return when.astimezone(UTC).isoformat()


_TEXTS = ("quoted", "quote", "quote_from", "name")
