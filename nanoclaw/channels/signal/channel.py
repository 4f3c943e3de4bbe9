"""The Signal channel: signal-cli's events for what comes, one call for each thing that goes out."""

from __future__ import annotations

import base64
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nanoclaw.channels.bot import Untried, file_to_send, log_skipped
from nanoclaw.channels.fields import Malformed, string, table, tables
from nanoclaw.channels.newest import Newest, remember
from nanoclaw.channels.signal import events
from nanoclaw.channels.signal.api import UNKNOWN_ACCOUNT, SignalApi
from nanoclaw.channels.signal.settings import SignalSettings
from nanoclaw.channels.web_api import UPLOAD_SECONDS, UnknownToken, too_large
from nanoclaw.core.channel import ChannelHost, Deliver, Hints, Place
from nanoclaw.core.errors import ChannelError, Undeliverable
from nanoclaw.core.events import Event, Queued, TurnEnded, TurnPaused
from nanoclaw.core.messages import Address, Attachment, Outbound
from nanoclaw.markdown.text import to_plain, to_telegram

LENGTH = 2_000
"""Bytes of a message; what is longer Signal sends as a file."""

SEEN = "👀"
NO_TABLES = "Signal shows no tables: write lists."
_STYLES = {"bold": "BOLD", "italic": "ITALIC", "strikethrough": "STRIKETHROUGH", "code": "MONOSPACE"}


class Signal(Untried):
    """One account. A message that is sent again because nobody knows whether it arrived may be there twice."""

    _api: SignalApi

    def __init__(self, settings: SignalSettings, host: ChannelHost) -> None:
        self.name = events.NAME
        self.alive: datetime | None = None
        most = host.most_bytes
        hints = Hints(LENGTH, "bytes", markup="markdown", caption=LENGTH, file_bytes=most, remark=NO_TABLES)
        super().__init__(SignalApi(settings.account, settings.api_base), hints)
        self._clock = host.clock
        self._newest = Newest("Signal", host.folder / "newest.json")
        self._first: dict[str, str] = {}  # the first timestamp of an edited message, by the latest

    # --- in ----------------------------------------------------------------------------------------------------------

    async def run(self, deliver: Deliver) -> None:
        """Listen until cancelled. After a break signal-cli tells again what came since the last event that is known."""
        me = await self._who()
        try:
            async with self._listening():
                async for id, event in self._api.events(self._newest.of("events")):
                    self.alive = self._clock()
                    if event:
                        await self._take(table(event.get("envelope")), string(event.get("account")), me, deliver)
                    if id:
                        self._newest.note("events", "", id)
        finally:
            self._newest.save()

    async def login(self) -> str:
        return (await self._who())[0]

    async def _who(self) -> list[str]:
        """The number and the id of the account."""
        account = self._api.account
        for one in tables(await self._api.call("listAccounts")):
            names = [string(one.get(key)) for key in ("number", "aci", "uuid")]
            if account in names:
                return list(filter(None, (account, *names)))
        raise UnknownToken(UNKNOWN_ACCOUNT)

    async def _take(self, envelope: Any, account: str, me: list[str], deliver: Deliver) -> None:
        """Deliver what an event says."""
        if account not in ("", *me):
            return
        try:
            inbound = events.message(envelope, me, self._first, self._clock())
        except Malformed as error:  # whatever is wrong with it, the others are delivered
            log_skipped("Signal", error)
            return
        if inbound is None:
            return
        if inbound.is_edit:
            latest = table(table(envelope.get("editMessage")).get("dataMessage")).get("timestamp")
            remember(self._first, str(latest), inbound.external_id.rpartition("/")[2])
        await deliver(inbound)

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """A file that signal-cli holds. Raises Undeliverable, ChannelError."""
        if (attachment.size or 0) > most:
            raise too_large(most)
        id, _, where = attachment.ref.partition(" ")
        found = await self._api.call("getAttachment", seconds=UPLOAD_SECONDS, id=id, **_to(where))
        try:
            data = base64.b64decode(string(table(found).get("data") if isinstance(found, dict) else found))
        except ValueError:
            raise Undeliverable("signal-cli gave something that is no file.") from None
        if len(data) > most:
            raise too_large(most)
        return data

    # --- out ---------------------------------------------------------------------------------------------------------

    async def send(self, outbound: Outbound) -> str:
        place = Place.of(outbound.address.chat)
        await self._live.hand_over(outbound)
        text, styles = _styled(outbound.text)
        more: dict[str, Any] = {"message": text, "textStyle": styles}
        if outbound.files:
            path = Path(outbound.files[0])
            content, kind = file_to_send(path)
            encoded = base64.b64encode(content).decode()
            more["attachments"] = [f"data:{kind};filename={quote(path.name)};base64,{encoded}"]
        author, _, stamp = outbound.reply_to.rpartition("/")
        if place.person and stamp.isdecimal():
            more |= {"quoteTimestamp": int(stamp), "quoteAuthor": author}
        seconds = UPLOAD_SECONDS if outbound.files else 30.0
        sent = table(await self._api.call("send", seconds=seconds, **_to(place.chat), **more))
        failed = [string(one.get("type")) for one in tables(sent.get("results")) if one.get("type") != "SUCCESS"]
        if failed and len(failed) == len(tables(sent.get("results"))):
            raise (Undeliverable if "UNREGISTERED_FAILURE" in failed else ChannelError)(
                f"Signal did not deliver it: {failed[0].lower().replace('_', ' ')}."
            )
        return events.timestamp(sent, "timestamp")

    def show(self, address: Address, event: Event) -> None:
        match event:
            case Queued(id) if "/" in id:
                author, _, stamp = id.rpartition("/")
                target: dict[str, Any] = {"targetAuthor": author, "targetTimestamp": int(stamp)}
                sign = self._api.call("sendReaction", emoji=SEEN, **target, **_to(Place.of(address.chat).chat))
                self._live.beside(address.chat, sign)
            case TurnEnded() | TurnPaused():
                stop = self._api.call("sendTyping", stop=True, **_to(Place.of(address.chat).chat))
                self._live.beside(address.chat, stop)
        self._live.show(address, event)

    async def typing(self, chat: str) -> None:
        await self._api.call("sendTyping", **_to(Place.of(chat).chat))


def _to(chat: str) -> dict[str, Any]:
    """The parameter that names a person, or a group."""
    if chat.startswith(events.GROUP):
        return {"groupId": chat.removeprefix(events.GROUP)}
    return {"recipient": [chat]}


def _styled(markdown: str) -> tuple[str, list[str]]:
    """The words, and which of them stand out; plain ones where there is what Signal's styles cannot show."""
    text, entities = to_telegram(markdown)
    if any(one["type"] not in _STYLES for one in entities):
        return to_plain(markdown), []
    return text, [f"{one['offset']}:{one['length']}:{_STYLES[one['type']]}" for one in entities]
