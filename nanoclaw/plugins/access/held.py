"""Messages that say they are from somebody who is let in, where the platform's word on that is not known to hold: they
wait for the owner's yes."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from nanoclaw.core.channel import UNPROVEN, Place
from nanoclaw.core.messages import Address, Attachment, Inbound, Outbound, UserMessage
from nanoclaw.core.plugin import Host, Tx
from nanoclaw.escapes import one_line
from nanoclaw.exact_text import exactly
from nanoclaw.plugins.access.accounts import stamp

OF_ONE, OF_GUESTS, KEPT = 20, 30, timedelta(days=7)
"""So many wait that say they are from one account of the owner's, or from guests, and so long. Those that answer a
message of ours, whose id strangers don't know, are counted by themselves."""
TOLD = timedelta(hours=1)
"""Between two questions to the owner: anybody can send what is asked about."""
SHOWN = 3_000
"""Characters of a message that is shown whole."""


class HeldMessage(NamedTuple):
    id: int
    sender: str
    """The account that it says it is from."""
    inbound: Inbound
    at: datetime
    is_owners: bool
    is_answer: bool


class HeldMessages:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._full = set[str]()
        """Accounts of whom the owner was told that no more are kept."""

    def hold(self, tx: Tx, inbound: Inbound, ask: Address, *, is_owners: bool) -> bool:
        """Keep a message, and ask the owner there; False when too many wait already."""
        waiting, now = self.all(), self._host.now()
        tx.execute("DELETE FROM held WHERE at <= ?", stamp(now - KEPT))
        sender, channel = inbound.sender.removeprefix(UNPROVEN), inbound.address.channel
        alike = [one for one in waiting if (one.sender == sender if is_owners else not one.is_owners)]
        is_answer = self._is_answer(inbound)
        if sum(one.is_answer == is_answer for one in alike) >= (OF_ONE if is_owners else OF_GUESTS):
            self._tell_full(tx, sender if is_owners else "guests", ask)
            return False
        sql = (
            "INSERT INTO held (channel, external_id, sender, body, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
            " RETURNING id"
        )
        body = json.dumps({**_dump(inbound), "is_owners": is_owners, "is_answer": is_answer})
        rows = tx.execute(sql, channel, inbound.external_id, sender, body, stamp(now))
        if rows and not any(now - one.at < TOLD for one in alike):
            number = rows[0][0]
            text = (
                f"A message on {channel} claims to be from {sender}, and I can't be sure: “{_begin(inbound)}”. "
                f"/held yes {number} if you sent it, /held no {number} to discard it, /held for all that wait."
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
        gone = tx.execute("DELETE FROM held WHERE ?1 IS NULL OR id = ?1 RETURNING id", number)
        tx.after(self._full.clear)
        return len(gone)

    def listed(self) -> str:
        lines = [f"- {one.id}: {self._from(one)}: {_begin(one.inbound)}" for one in self.all()]
        return "\n".join(lines) or "No message waits for you to confirm that you sent it."

    def shown(self, number: int) -> str:
        """One of them whole, '' for none."""
        found = self.find(number)
        if found is None:
            return ""
        text = found.inbound.message.text
        cut = f"\n[{len(text) - SHOWN} characters more]" if len(text) > SHOWN else ""
        files = ", ".join(one.name for one in found.inbound.attachments)
        parts = [f"Message {number} on {self._from(found)}:", exactly(text[:SHOWN]) + cut if text.strip() else ""]
        if quote := found.inbound.quote.strip():
            cut = f"\n[{len(quote) - SHOWN} characters more]" if len(quote) > SHOWN else ""
            parts += [
                f"With {found.inbound.quote_from or 'the message that it answers'}:",
                exactly(quote[:SHOWN]) + cut,
            ]
        return "\n\n".join(filter(None, [*parts, f"Files: {files}" if files else ""]))

    def _from(self, one: HeldMessage) -> str:
        at = one.inbound.message.at.astimezone(self._host.now().tzinfo)
        return f"{one.inbound.address.channel}, says it is from {one.sender}, {at:%Y-%m-%d %H:%M}"

    def _is_answer(self, inbound: Inbound) -> bool:
        """True for a message that answers one of ours."""
        return bool(inbound.quoted and self._host.records.sent_as(inbound.address.channel, inbound.quoted))

    def _tell_full(self, tx: Tx, whose: str, ask: Address) -> None:
        if whose in self._full:
            return
        tx.after(lambda: self._full.add(whose))
        text = (
            f"So many messages claim to be from {whose} that no more are kept until you look: /held "
            "lists them, /held no all discards them."
        )
        tx.send(Outbound(ask, text), is_news=False)


def released(held: HeldMessage) -> Inbound:
    """The message as its sender's own, who was vouched for by the owner."""
    place = Place.of(held.inbound.address.chat)._replace(person="")
    address = held.inbound.address._replace(chat=str(place))
    return held.inbound._replace(sender=held.sender, address=address)


def _begin(inbound: Inbound) -> str:
    return one_line(inbound.message.text or inbound.quote, 80) or "files alone"


def _held(id: int, sender: str, channel: str, external_id: str, body: str, at: str) -> HeldMessage:
    kept = json.loads(body)
    inbound = _load(channel, external_id, kept)
    is_owners, is_answer = (bool(kept.get(name)) for name in ("is_owners", "is_answer"))
    return HeldMessage(id, sender, inbound, datetime.fromisoformat(at), is_owners, is_answer)


def _dump(inbound: Inbound) -> dict[str, Any]:
    files = [[one.name, one.mime, one.ref, one.size] for one in inbound.attachments]
    kept = {"chat": inbound.address.chat, "text": inbound.message.text, "at": inbound.message.at.isoformat()}
    rest = {name: getattr(inbound, name) for name in _TEXTS}
    return {**kept, **rest, "files": files}


def _load(channel: str, external_id: str, kept: dict[str, Any]) -> Inbound:
    message = UserMessage(kept["text"], datetime.fromisoformat(kept["at"]))
    files = tuple(Attachment("", *one) for one in kept["files"])
    texts = {name: kept[name] for name in _TEXTS}
    return Inbound(Address(channel, kept["chat"]), "", external_id, message, files)._replace(**texts)


_TEXTS = ("quoted", "quote", "quote_from", "name")
