"""The Discord channel: its gateway for what comes, one request for each thing that goes out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nanoclaw.channels.bot import BotChannel, file_to_send, log_skipped
from nanoclaw.channels.discord import events
from nanoclaw.channels.discord.api import UNKNOWN_TOKEN, DiscordApi, DiscordRefusal
from nanoclaw.channels.discord.gateway import Gateway
from nanoclaw.channels.discord.settings import DiscordSettings
from nanoclaw.channels.fields import Fields, Malformed, string, table, tables
from nanoclaw.channels.newest import Newest, mark_of, remember
from nanoclaw.channels.web_api import UnknownToken
from nanoclaw.core.channel import ChannelHost, Deliver, Hints, Place
from nanoclaw.core.errors import ChannelError, Undeliverable
from nanoclaw.core.events import Event, Queued, Settled
from nanoclaw.core.messages import Address, Button, Outbound

LENGTH = 2_000
FILE_BYTES = 10_000_000
PAUSE_SECONDS = 1.5
"""Between two edits of an answer that grows: Discord takes five in five seconds in one channel."""

ACKNOWLEDGE_SECONDS = 3.0
"""Within which Discord wants to hear that a button was pressed."""

SEEN = "👀"
"""The reaction to a message that has to wait."""

CAUGHT_UP = 100
"""Channels, those where something was said last, that are asked what was said while nobody listened."""

NO_PREVIEW = 1 << 2
"""The flag of a message whose links are shown without what is behind them: to fetch a preview tells its host what a
model wrote into the link."""

_THREADS = (10, 11, 12)
_IN_A_ROW, _ROWS = 5, 5
_BUTTON, _LABEL = 100, 80


class Discord(BotChannel):
    """One bot. What other bots say is not delivered."""

    _api: DiscordApi

    def __init__(self, settings: DiscordSettings, host: ChannelHost) -> None:
        self.name = events.NAME
        hints = Hints(
            length=LENGTH,
            units="utf-16",
            markup="markdown",
            caption=LENGTH,
            file_bytes=FILE_BYTES,
            edits=True,
            threads=True,
            buttons=True,
            remark="Discord shows no tables: write lists.",
        )
        self.alive: datetime | None = None
        super().__init__(DiscordApi(settings.token), hints)
        self._clock = host.clock
        self._gateway = Gateway(self._api.token, self._lives)
        self._newest = Newest("Discord", host.folder / "newest.json")
        self._parents: dict[str, str] = {}  # of threads, '' for channels that are none
        self._asked: dict[str, str] = {}  # in servers, by the id of a message with buttons, for whom they are

    # --- in ----------------------------------------------------------------------------------------------------------

    async def run(self, deliver: Deliver) -> None:
        """Listen until cancelled. What was delivered is acknowledged by what follows, never before."""
        bot = events.snowflake(await self._who(), "id")
        found = table(await self._api.call("GET", "/gateway/bot"))
        url = string(found.get("url"))
        try:
            async with self._listening():
                while True:
                    await self._gateway.follow(url, lambda name, data: self._take(name, data, bot, deliver))
        finally:
            self._newest.save()

    async def login(self) -> str:
        return string((await self._who()).get("username"))

    async def _who(self) -> Fields:
        try:
            me = table(await self._api.call("GET", "/users/@me"))
        except DiscordRefusal:
            raise UnknownToken(UNKNOWN_TOKEN) from None
        if not string(me.get("id")).isdecimal():
            raise ChannelError("what answers is not Discord's API.")
        return me

    def _lives(self) -> None:
        self.alive = self._clock()

    async def _take(self, name: str, data: Any, bot: str, deliver: Deliver) -> None:
        """Deliver what an event of the gateway says."""
        event = table(data)
        if name == "READY":
            await self._catch_up(bot, deliver)
        elif name == "MESSAGE_CREATE" or (name == "MESSAGE_UPDATE" and event.get("edited_timestamp")):
            await self._message(event, bot, deliver, is_edit=name == "MESSAGE_UPDATE")
        elif name == "INTERACTION_CREATE":
            await self._press(event, deliver)

    async def _message(self, event: Fields, bot: str, deliver: Deliver, *, is_edit: bool) -> None:
        try:
            parent = await self._parent(event)
            inbound = events.message(event, bot, parent, self._clock())
        except (Malformed, Undeliverable) as error:  # whatever is wrong with it, the others are delivered
            log_skipped("Discord", error)
            return
        if inbound is None:
            return
        await deliver(inbound._replace(is_edit=is_edit))
        if not is_edit:
            self._newest.note(events.snowflake(event, "channel_id"), string(event.get("guild_id")), inbound.external_id)

    async def _press(self, event: Fields, deliver: Deliver) -> None:
        """The button goes with those beside it: what it said need not be said twice. In a server it stays for the
        person whom it is for when somebody else presses it."""
        try:
            inbound = events.press(event, await self._parent(event), self._clock())
            answer_to = f"/interactions/{events.snowflake(event, 'id')}/{quote(string(event.get('token')), safe='')}"
        except (Malformed, Undeliverable) as error:
            log_skipped("Discord", error)
            return
        if inbound is None:
            return
        await deliver(inbound)
        is_theirs = not inbound.is_group or self._asked.get(inbound.quoted) == inbound.sender
        body: Fields = {"type": 7, "data": {"components": []}} if is_theirs else {"type": 6}
        with suppress(ChannelError):  # they are gone already, or their message is
            await self._api.call("POST", f"{answer_to}/callback", body, seconds=ACKNOWLEDGE_SECONDS)

    async def _catch_up(self, bot: str, deliver: Deliver) -> None:
        """Deliver what was said while nobody listened, in the channels that are known. What was delivered before comes
        with the same id. Raises ChannelError."""
        for channel, (server, newest) in self._newest.last(CAUGHT_UP):
            path = f"/channels/{quote(channel)}/messages?limit=100&after={quote(newest)}"
            try:
                said = tables(await self._api.call("GET", path))
            except Undeliverable:
                self._newest.drop(channel)
                continue
            for one in sorted(said, key=lambda one: string(one.get("id")).zfill(20)):
                await self._message({**one, "guild_id": server} if server else one, bot, deliver, is_edit=False)

    async def _parent(self, event: Fields) -> str:
        """The channel to which a thread belongs; '' for what was not said in a thread."""
        if not event.get("guild_id"):
            return ""
        channel = events.snowflake(event, "channel_id")
        if channel not in self._parents:
            found = table(await self._api.call("GET", f"/channels/{channel}"))
            is_thread = found.get("type") in _THREADS
            remember(self._parents, channel, events.snowflake(found, "parent_id") if is_thread else "")
        return self._parents[channel]

    # --- out ---------------------------------------------------------------------------------------------------------

    async def send(self, outbound: Outbound) -> str:
        place = Place.of(outbound.address.chat)
        shown = await self._live.hand_over(outbound)
        body = {**_words(outbound.text), "components": _rows(outbound.buttons)}
        sent = await self._changed(place, shown, body) if shown and not outbound.files else ""
        if not sent:
            body |= self._answering(place, outbound.reply_to) | {"nonce": mark_of(outbound)[:25], "enforce_nonce": True}
            file = Path(outbound.files[0]) if outbound.files else None
            note = await asyncio.to_thread(_voice_note, file) if file else {}
            if outbound.text or not note:
                sent = await self._post(place, body, None if note else file)
            if note:  # which has no words of its own
                spoken = await self._post(place, body | note | {"nonce": f"voice{body['nonce'][:20]}"}, file)
                sent = sent or spoken
        if outbound.buttons and place.person:
            remember(self._asked, sent, place.person)
        return sent

    def show(self, address: Address, event: Event) -> None:
        place = Place.of(address.chat)
        match event:
            case Queued(id) if id.isdecimal():
                path = f"/channels/{_channel(place)}/messages/{id}/reactions/{quote(SEEN)}/@me"
                self._live.beside(address.chat, self._api.call("PUT", path))
            case Settled(id) if id.isdecimal():
                self._live.beside(address.chat, self._changed(place, id, {"components": []}))
        self._live.show(address, event)

    def pause_seconds(self, chat: str) -> float:
        return PAUSE_SECONDS

    async def typing(self, chat: str) -> None:
        await self._api.call("POST", f"/channels/{_channel(Place.of(chat))}/typing")

    async def write(self, chat: str, text: str, before: str) -> str:
        place = Place.of(chat)
        return (before and await self._changed(place, before, _words(text))) or await self._post(place, _words(text))

    async def erase(self, chat: str, id: str) -> None:
        await self._api.call("DELETE", f"/channels/{_channel(Place.of(chat))}/messages/{id}")

    async def _post(self, place: Place, body: Fields, file: Path | None = None) -> str:
        try:
            sent = await self._api.call("POST", f"/channels/{_channel(place)}/messages", body, file=file)
        except OSError as error:
            name = file.name if file else ""
            raise Undeliverable(f"the file {name} cannot be read: {error.strerror}.") from error
        if not (id := string(table(sent).get("id"))):
            raise ChannelError("Discord accepted a message without giving its number.")
        return id

    async def _changed(self, place: Place, id: str, body: Fields) -> str:
        """The id of a message that says this now; '' for one that cannot be changed."""
        try:
            await self._api.call("PATCH", f"/channels/{_channel(place)}/messages/{id}", body)
        except Undeliverable:
            return ""
        return id

    def _answering(self, place: Place, reply_to: str) -> Fields:
        """A reference to the message that it answers, where that might otherwise be unclear."""
        is_far = place.person or self._newest.of(_channel(place)) != reply_to
        if not reply_to.isdecimal() or not is_far:
            return {}
        return {"message_reference": {"message_id": reply_to, "fail_if_not_exists": False}}


def _channel(place: Place) -> str:
    """The channel, or thread, of a place in an address. Raises Undeliverable."""
    channel = place.thread or place.chat
    if not channel.isascii() or not channel.isdecimal():
        raise Undeliverable(f"{channel!r} is not a Discord channel: their ids are numbers.")
    return channel


def _words(text: str) -> Fields:
    """Nobody's telephone rings for a name that a model wrote."""
    return {"content": text, "flags": NO_PREVIEW, "allowed_mentions": {"parse": [], "replied_user": True}}


def _voice_note(file: Path) -> Fields:
    """The fields of a voice message, whose waveform is flat; none for a file of another kind."""
    sound = file_to_send(file)[0] if file.suffix in (".ogg", ".oga", ".opus") else b""
    if sound[28:36] != b"OpusHead":
        return {}
    end = sound.rfind(b"OggS") + 6  # the last page tells how many samples there were by then
    seconds = int.from_bytes(sound[end : end + 8], "little") / 48_000
    told = {"id": 0, "filename": file.name, "duration_secs": seconds, "waveform": "gICA" * 16}
    return {"content": "", "components": [], "flags": events.VOICE, "attachments": [told]}


def _rows(buttons: Sequence[Button]) -> list[Fields]:
    """Five in a row. Buttons are left out if their text is too long for Discord or there is no row left."""
    shown = [one for one in buttons if 0 < len(one.text) <= _BUTTON][: _IN_A_ROW * _ROWS]
    made = [{"type": 2, "style": 2, "label": one.label[:_LABEL], "custom_id": one.text} for one in shown]
    rows = [made[at : at + _IN_A_ROW] for at in range(0, len(made), _IN_A_ROW)]
    return [{"type": 1, "components": row} for row in rows]
