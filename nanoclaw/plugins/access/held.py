"""Messages that say they are from somebody who is let in, where the platform does not vouch for it: they wait for the
owner's yes."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from nanoclaw.core.channel import UNVERIFIED, Place
from nanoclaw.core.messages import Address, Attachment, Inbound, Outbound, UserMessage
from nanoclaw.core.plugin import Host, Tx
from nanoclaw.escapes import one_line
from nanoclaw.exact_text import exactly
from nanoclaw.plugins.access.accounts import stamp

MOST, KEPT = 20, timedelta(days=7)
"""So many wait that say they are from one account, and so long."""
TOLD = timedelta(hours=1)
"""Between two questions to the owner about one account: anybody can send what is asked about."""


class HeldMessage(NamedTuple):
    id: int
    sender: str
    """The account that it says it is from."""
    inbound: Inbound
    at: datetime


class HeldMessages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def hold(self, tx: Tx, inbound: Inbound, ask: Address) -> bool:
        """Keep a message, and ask the owner there; False when too many wait already."""
        now, sender, channel = self._host.now(), inbound.sender.removeprefix(UNVERIFIED), inbound.address.channel
        alike = [one for one in self.all() if (one.inbound.address.channel, one.sender) == (channel, sender)]
        tx.execute("DELETE FROM held WHERE at <= ?", stamp(now - KEPT))
        if len(alike) >= MOST:
            return False
        sql = (
            "INSERT INTO held (channel, external_id, sender, body, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
            " RETURNING id"
        )
        rows = tx.execute(sql, channel, inbound.external_id, sender, json.dumps(_dump(inbound)), stamp(now))
        if rows and not any(now - one.at < TOLD for one in alike):
            number = rows[0][0]
            text = (
                f"A message on {channel} claims to be from {sender}, and I can't be sure: “{_begin(inbound)}”. "
                f"/held yes {number} if you know that it is, /held no {number} to discard it, /held for all that wait "
                f"(at most {MOST} of each account)."
            )
            tx.send(Outbound(ask, text), is_news=False)
        return True

    def all(self) -> list[HeldMessage]:
        """The messages that wait, the oldest first."""
        sql = "SELECT id, sender, channel, external_id, body, at FROM held WHERE at > ? ORDER BY id"
        return [_held(*row) for row in self._host.read(sql, stamp(self._host.now() - KEPT))]

    def find(self, number: int) -> HeldMessage | None:
        return next((one for one in self.all() if one.id == number), None)

    def drop(self, tx: Tx, number: int | None) -> int:
        """Throw one away, or all; how many that were."""
        return len(tx.execute("DELETE FROM held WHERE ?1 IS NULL OR id = ?1 RETURNING id", number))

    def listed(self) -> str:
        lines = [f"- {one.id}: {self._from(one)}: {_begin(one.inbound)}" for one in self.all()]
        return "\n".join(lines) or "No message waits for you to confirm that you sent it."

    def shown(self, found: HeldMessage) -> str:
        """One of them whole."""
        files = ", ".join(one.name for one in found.inbound.attachments)
        parts = [f"Message {found.id} on {self._from(found)}:", _whole(found.inbound.message.text)]
        if quote := _whole(found.inbound.quote):
            parts += [f"With {found.inbound.quote_from or 'the message that it answers'}:", quote]
        return "\n\n".join(filter(None, [*parts, f"Files: {files}" if files else ""]))

    def _from(self, one: HeldMessage) -> str:
        at = one.inbound.message.at.astimezone(self._host.now().tzinfo)
        return f"{one.inbound.address.channel}, says it is from {one.sender}, {at:%Y-%m-%d %H:%M}"


def released(held: HeldMessage) -> Inbound:
    """The message as its sender's own, who was vouched for by the owner."""
    place = Place.of(held.inbound.address.chat)._replace(person="")
    address = held.inbound.address._replace(chat=str(place))
    return held.inbound._replace(sender=held.sender, address=address)


def _begin(inbound: Inbound) -> str:
    return one_line(inbound.message.text or inbound.quote, 80) or "files alone"


def _whole(text: str) -> str:
    """A text that steers no screen, '' for none."""
    return exactly(text) if text.strip() else ""


def _held(id: int, sender: str, channel: str, external_id: str, body: str, at: str) -> HeldMessage:
    kept = json.loads(body)
    message = UserMessage(kept["text"], datetime.fromisoformat(kept["at"]))
    files = tuple(Attachment("", *one) for one in kept["files"])
    inbound = Inbound(Address(channel, kept["chat"]), "", external_id, message, files)
    texts = {name: kept[name] for name in _TEXTS}
    return HeldMessage(id, sender, inbound._replace(**texts), datetime.fromisoformat(at))


def _dump(inbound: Inbound) -> dict[str, Any]:
    files = [[one.name, one.mime, one.ref, one.size] for one in inbound.attachments]
    kept = {"chat": inbound.address.chat, "text": inbound.message.text, "at": inbound.message.at.isoformat()}
    rest = {name: getattr(inbound, name) for name in _TEXTS}
    return {**kept, **rest, "files": files}


_TEXTS = ("quoted", "quote", "quote_from", "name")
