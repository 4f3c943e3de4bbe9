"""The Slack channel: a socket for what comes, one request for each thing that goes out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from nanoclaw.channels.bot import BotChannel, log_skipped
from nanoclaw.channels.fields import Fields, Malformed, name_of, string, table, tables
from nanoclaw.channels.newest import Newest, remember
from nanoclaw.channels.slack import events
from nanoclaw.channels.slack.api import SlackApi, SlackRefusal
from nanoclaw.channels.slack.settings import SlackSettings
from nanoclaw.channels.web_socket import WebSocket, opened
from nanoclaw.core.channel import ChannelHost, Deliver, Hints, Place
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, Undeliverable
from nanoclaw.core.events import Event, Queued, Settled
from nanoclaw.core.messages import Address, Button, Inbound, Outbound
from nanoclaw.markdown.text import to_plain

LENGTH = 4_000
FILE_BYTES = 50_000_000
PAUSE_SECONDS = 3.0
"""Between two changes of an answer that grows: Slack takes some fifty in a minute."""

HELLO_SECONDS, PING_SECONDS = 20.0, 30.0
CAUGHT_UP = 20
"""Chats, those where something was said last, that are asked what was said while nobody listened."""

SEEN = "eyes"
_BUTTONS, _LABEL, _VALUE = 25, 75, 2_000


class Slack(BotChannel):
    """One app in one workspace. What other bots say is not delivered. A message that is sent again because nobody
    knows whether it arrived may be there twice."""

    _api: SlackApi

    def __init__(self, settings: SlackSettings, host: ChannelHost) -> None:
        self.name = events.NAME
        hints = Hints(
            length=LENGTH,
            markup="markdown",
            caption=LENGTH,
            file_bytes=FILE_BYTES,
            edits=True,
            threads=True,
            buttons=True,
        )
        self.alive: datetime | None = None
        super().__init__(SlackApi(settings.token), hints)
        self._clock = host.clock
        self._app_token = settings.app_token.strip()
        self._newest = Newest("Slack", host.folder / "newest.json")
        self._names: dict[str, str] = {}
        self._quotes: dict[str, str] = {}  # by place: what began a thread
        self._asked: dict[str, tuple[str, str]] = {}  # by the id of a message with buttons: for whom, and its text

    # --- in ----------------------------------------------------------------------------------------------------------

    async def run(self, deliver: Deliver) -> None:
        """Listen until cancelled. What was delivered is acknowledged after that, never before."""
        bot = events.identity(await self._who(), "user_id")
        try:
            async with self._listening():
                while True:
                    place = await self._api.call("apps.connections.open", token=self._app_token)
                    async with opened("Slack", string(place.get("url")), self._app_token, PING_SECONDS) as socket:
                        await self._listen(socket, bot, deliver)
        finally:
            self._newest.save()

    async def login(self) -> str:
        await self._api.call("apps.connections.open", token=self._app_token)
        return string((await self._who()).get("user"))

    async def _who(self) -> Fields:
        me = await self._api.call("auth.test")
        if not string(me.get("user_id")):
            raise ChannelError("what answers is not Slack's API.")
        return me

    async def _listen(self, socket: WebSocket, bot: str, deliver: Deliver) -> None:
        """Receive events until Slack asks for another connection."""
        hello = table(await socket.receive(HELLO_SECONDS))
        if hello.get("type") != "hello":
            raise ChannelUnavailable("what answers is not Slack's socket.")
        self.alive = self._clock()
        await self._catch_up(bot, deliver)
        while True:
            envelope = table(await socket.receive())
            self.alive = self._clock()
            kind, payload = envelope.get("type"), table(envelope.get("payload"))
            if kind == "disconnect":
                return
            if kind == "events_api":
                await self._take(table(payload.get("event")), bot, deliver)
            elif kind == "interactive":
                await self._press(payload, deliver)
            if id := string(envelope.get("envelope_id")):
                await socket.send({"envelope_id": id})

    async def _take(self, event: Fields, bot: str, deliver: Deliver) -> None:
        """Deliver what an event says."""
        if event.get("type") not in ("message", "app_mention"):
            return
        now_says = events.changed(event)
        try:
            inbound = events.message(now_says or event, bot, self._clock())
        except Malformed as error:  # whatever is wrong with it, the others are delivered
            log_skipped("Slack", error)
            return
        if inbound is None:
            return
        named = inbound._replace(name=await self._name(inbound.sender), is_edit=now_says is not None)
        await deliver(named._replace(quote=await self._quote(inbound)) if inbound.quoted else named)
        if not named.is_edit:
            channel, _, stamp = inbound.external_id.partition(":")
            self._newest.note(channel, "" if inbound.is_group else "im", stamp)

    async def _press(self, payload: Fields, deliver: Deliver) -> None:
        """The buttons go: what one said need not be said twice. In a channel they stay for the person whom they are for
        when somebody else presses one."""
        try:
            inbound = events.press(payload, self._clock())
        except Malformed as error:
            log_skipped("Slack", error)
            return
        if inbound is None:
            return
        await deliver(inbound._replace(name=await self._name(inbound.sender)))
        asked = self._asked.get(inbound.quoted, ("", inbound.quote))
        if not inbound.is_group or asked[0] == inbound.sender:
            with suppress(ChannelError):  # they are gone already, or their message is
                await self._change(inbound.quoted, asked[1])

    async def _catch_up(self, bot: str, deliver: Deliver) -> None:
        """Deliver what was said while nobody listened, in chats that are known. What was delivered before comes with
        the same id."""
        for channel, (kind, newest) in self._newest.last(CAUGHT_UP):
            try:
                found = await self._api.call("conversations.history", channel=channel, oldest=newest, limit=100)
            except SlackRefusal:
                self._newest.drop(channel)
                continue
            except ChannelError as error:
                log_skipped("Slack", error)
                return
            for one in sorted(tables(found.get("messages")), key=lambda one: string(one.get("ts"))):
                await self._take({**one, "channel": channel, "channel_type": kind}, bot, deliver)

    async def _name(self, sender: str) -> str:
        """The name that somebody gave themselves; '' where Slack does not say."""
        if sender not in self._names:
            with suppress(ChannelError):
                user = table((await self._api.call("users.info", user=sender)).get("user"))
                profile = table(user.get("profile"))
                names = map(string, (profile.get("display_name"), user.get("real_name"), user.get("name")))
                remember(self._names, sender, name_of(next(filter(None, names), "")))
        return self._names.get(sender, "")

    async def _quote(self, inbound: Inbound) -> str:
        """The message that began a thread, told with the first that was said in it."""
        place = Place.of(inbound.address.chat)
        if inbound.address.chat in self._quotes:
            return ""
        with suppress(ChannelError):
            found = await self._api.call("conversations.replies", channel=place.chat, ts=place.thread, limit=1)
            began = next(iter(tables(found.get("messages"))), {})
            remember(self._quotes, inbound.address.chat, events.words(string(began.get("text")))[:LENGTH])
        return self._quotes.get(inbound.address.chat, "")

    # --- out ---------------------------------------------------------------------------------------------------------

    async def send(self, outbound: Outbound) -> str:
        """Returns CHANNEL:STAMP, the form in which messages that come are numbered, too."""
        place = Place.of(outbound.address.chat)
        shown = await self._live.hand_over(outbound)
        if outbound.files:
            where = {"channel_id": place.chat, "thread_ts": place.thread, "initial_comment": outbound.text}
            return f"{place.chat}:file-{await self._api.upload(Path(outbound.files[0]), **where)}"
        sent = await self._changed(shown, outbound.text, outbound.buttons) if shown else ""
        sent = sent or await self._post(place, outbound.text, outbound.buttons)
        if outbound.buttons:
            remember(self._asked, sent, (place.person, outbound.text))
        return sent

    def show(self, address: Address, event: Event) -> None:
        match event:
            case Queued(id) if ":" in id:
                channel, _, stamp = id.partition(":")
                sign = self._api.call("reactions.add", channel=channel, timestamp=stamp, name=SEEN)
                self._live.beside(address.chat, sign)
            case Settled(id) if id in self._asked:
                self._live.beside(address.chat, self._changed(id, self._asked[id][1]))
        self._live.show(address, event)

    def pause_seconds(self, chat: str) -> float:
        return PAUSE_SECONDS

    async def typing(self, chat: str) -> None:
        """Nothing to do: Slack knows no such sign of bots."""

    async def write(self, chat: str, text: str, before: str) -> str:
        return (before and await self._changed(before, text)) or await self._post(Place.of(chat), text)

    async def erase(self, chat: str, id: str) -> None:
        channel, _, stamp = id.partition(":")
        await self._api.call("chat.delete", channel=channel, ts=stamp)

    async def _post(self, place: Place, text: str, buttons: Sequence[Button] = ()) -> str:
        more: Fields = {"thread_ts": place.thread, "unfurl_links": False, "unfurl_media": False}
        said = await self._api.call("chat.postMessage", channel=place.chat, **more, **_shown(text, buttons))
        if not (stamp := string(said.get("ts"))):
            raise ChannelError("Slack accepted a message without giving its number.")
        return f"{place.chat}:{stamp}"

    async def _change(self, id: str, text: str, buttons: Sequence[Button] = ()) -> None:
        channel, _, stamp = id.partition(":")
        await self._api.call("chat.update", channel=channel, ts=stamp, **_shown(text, buttons))

    async def _changed(self, id: str, text: str, buttons: Sequence[Button] = ()) -> str:
        """The id of a message that says this now; '' for one that cannot be changed."""
        try:
            await self._change(id, text, buttons)
        except Undeliverable:
            return ""
        return id


def _shown(text: str, buttons: Sequence[Button]) -> dict[str, Any]:
    """Markdown, and plain words for where no blocks are shown. Nobody's telephone rings for what a model wrote: `<!` is
    how Slack begins the name of all."""
    safe = text.replace("<!", "< !").replace("<@", "< @")
    rows: list[Fields] = [{"type": "markdown", "text": safe}]
    made = [
        {
            "type": "button",
            "action_id": f"press-{number}",
            "text": {"type": "plain_text", "text": one.label[:_LABEL]},
            "value": one.text,
        }
        for number, one in enumerate(buttons)
        if 0 < len(one.text) <= _VALUE
    ][:_BUTTONS]
    if made:
        rows.append({"type": "actions", "elements": made})
    return {"text": to_plain(safe), "blocks": rows}
