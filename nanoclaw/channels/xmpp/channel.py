"""The XMPP channel: a session for what comes, and stanzas whose arrival is confirmed for what goes out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from pathlib import Path
from xml.etree.ElementTree import Element

from nanoclaw.channels.bot import BotChannel, file_to_send, log_skipped
from nanoclaw.channels.fields import Malformed
from nanoclaw.channels.newest import Newest, mark_of, remember
from nanoclaw.channels.styled import styled
from nanoclaw.channels.web_api import UPLOAD_SECONDS, PrivateAddress, WebApi, fetch_public
from nanoclaw.channels.xmpp import events
from nanoclaw.channels.xmpp.events import CLIENT, REPLY, ROOM
from nanoclaw.channels.xmpp.settings import XmppSettings
from nanoclaw.channels.xmpp.stream import RESOURCE, XmppStream, below, stanza
from nanoclaw.core.channel import ChannelHost, Deliver, Hints, Place
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, Undeliverable, Unreachable
from nanoclaw.core.events import Event, Queued, TurnEnded, TurnPaused
from nanoclaw.core.messages import Address, Attachment, Outbound

LENGTH = 10_000
READY_SECONDS = 20.0
"""For which a message waits for a connection; a broken one is tried again after 3 s."""

ECHO_SECONDS = 10.0
"""Within which a room repeats what was said in it."""

ROOMS = 100
NO_TABLES = "XMPP shows no tables: write lists."
SEEN = "👀"
ENCRYPTED = "I cannot read encrypted messages (OMEMO). Please switch encryption off for this chat and write it again."

_MUC, _UPLOAD = "{http://jabber.org/protocol/muc}", "{urn:xmpp:http:upload:0}"
_HEADERS = ("authorization", "cookie", "expires")  # that a store may ask for
_SELF, _SHUTDOWN = "110", "332"
_WAIT = ("not-acceptable", "remote-server-timeout", "remote-server-not-found", "resource-constraint")
_GONE = ("forbidden", "registration-required", "not-authorized", "item-not-found", "gone", "not-allowed")
"""Reasons after which a message may still get there, and those of a room to let nobody in again."""


class Xmpp(BotChannel):
    """One account. A message that is sent again has the same id, by which clients know it."""

    def __init__(self, settings: XmppSettings, host: ChannelHost) -> None:
        self.name = events.NAME
        self.alive: datetime | None = None
        super().__init__(None, Hints(LENGTH, markup="markdown", file_bytes=host.most_bytes, remark=NO_TABLES))
        self._settings, self._clock, self._access = settings, host.clock, host.access
        self._stream: XmppStream | None = None
        self._ready = asyncio.Event()
        self._newest = Newest("XMPP", host.folder / "newest.json")
        self._nick, _, self._domain = settings.jid.lower().partition("@")
        self._rooms: dict[str, dict[str, str]] = {}  # with the address of each person, '' where it is hidden
        self._own: dict[str, str] = {}  # ids of own messages, by those that rooms gave them
        self._told: dict[str, tuple[str, str]] = {}  # by external id: the id by which others answer it, and its author
        self._sending: dict[tuple[str, str], asyncio.Future[None]] = {}
        self._upload = ""  # the service of the server

    # --- in ----------------------------------------------------------------------------------------------------------

    async def run(self, deliver: Deliver) -> None:
        """Listen until cancelled. What was delivered is acknowledged after that, never before."""
        stream = self._stream = XmppStream(self._settings, self._lives, RESOURCE)
        try:
            await stream.open()
            self._rooms.clear()
            stream.send(stanza("presence", ""))
            for room, (_, last) in self._newest.last(ROOMS):
                self._enter(stream, room, last)
            self._ready.set()
            async with self._listening():
                async for one in stream.stanzas():
                    try:
                        if one.tag.endswith("}presence"):
                            await self._presence(stream, one)
                        else:
                            await self._take(one, deliver)
                    except (Malformed, Undeliverable) as error:  # whatever is wrong with it, the others are delivered
                        log_skipped("XMPP", error)
        finally:
            self._ready.clear()
            self._newest.save()
            await stream.close()

    async def check(self) -> str:
        """The account, if it can be logged in to. Raises ChannelError."""
        stream = XmppStream(self._settings, self._lives)
        try:
            await stream.open()
        finally:
            await stream.close()
        return self._settings.jid

    def _lives(self) -> None:
        self.alive = self._clock()

    async def _take(self, xml: Element, deliver: Deliver) -> None:
        """Deliver what a message says."""
        source, id = xml.get("from", ""), xml.get("id", "")
        chat, _, nick = source.partition("/")
        room = self._rooms.get(chat := chat.lower())
        if xml.get("type") == "error":
            self._refused(chat, id, _condition(xml))
        elif room is not None and xml.get("type") == "groupchat" and nick == self._nick:
            remember(self._own, events.stanza_id(xml, chat), id)
            self._settle(chat, id)
        elif found := events.invitation(xml, self._domain):
            await self._invited(*found)
        elif events.is_encrypted(xml) and self._access.is_known(chat):
            self._say(stanza("message", chat, "chat"), ENCRYPTED)
        elif inbound := events.message(xml, room, self._nick, self._own, self._clock()):
            given = events.stanza_id(xml, chat) if room is not None else id
            remember(self._told, inbound.external_id, (given or id, source))
            await deliver(inbound)
            if room is not None:
                self._newest.note(chat, "", events.since(xml) or _stamp(self._clock()))

    async def _presence(self, stream: XmppStream, xml: Element) -> None:
        """People come and go in rooms, and ask to see whether the assistant is there."""
        chat, _, nick = xml.get("from", "").partition("/")
        kind, about, room = xml.get("type", ""), xml.find(f"{ROOM}x"), self._rooms.get(chat := chat.lower())
        if kind == "subscribe" and (self._access.is_known(chat) or self._access.awaits_code()):
            stream.send(stanza("presence", chat, "subscribed"))
        elif kind == "subscribe":
            await self._access.invited_by(chat)
        elif kind == "error" and room is not None:
            log_skipped("XMPP", f"the room {chat} refuses: {_condition(xml)}")
            if _condition(xml) in _GONE:
                self._leave(chat)
        elif room is not None and about is not None:
            codes = {one.get("code") for one in about.iterfind(f"{ROOM}status")}
            jids = [one.get("jid", "").partition("/")[0].lower() for one in about.iterfind(f"{ROOM}item")]
            if _SELF not in codes:
                room[nick] = jids[0] if jids and kind != "unavailable" else ""
            elif kind != "unavailable":
                self._newest.note(chat, "", self._newest.of(chat) or _stamp(self._clock()))
            elif _SHUTDOWN not in codes:
                self._leave(chat)

    async def _invited(self, room: str, by: str) -> None:
        """Enter a room to which somebody known invites."""
        if not self._access.is_known(by):
            await self._access.invited_by(by)
        elif room not in self._rooms:
            self._enter(self._connection, room, "")

    def _enter(self, stream: XmppStream, room: str, since: str) -> None:
        """Ask to be let in, and for what was said there since; the room answers by presences."""
        self._rooms[room] = {}
        asks = stanza("presence", f"{room}/{self._nick}")
        below(below(asks, f"{_MUC}x"), f"{_MUC}history", **({"since": since} if since else {"maxstanzas": "0"}))
        stream.send(asks)

    def _leave(self, room: str) -> None:
        self._rooms.pop(room, None)
        self._newest.drop(room)

    # --- files -------------------------------------------------------------------------------------------------------

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """A file by the address that its sender wrote, which is a public one, or on the own server's store."""
        try:
            return await fetch_public(attachment.ref, most)
        except PrivateAddress:
            _, store, _ = await self._slot("file", 1, "text/plain")
            return await fetch_public(attachment.ref, most, store)

    async def _store(self, path: Path) -> str:
        """Put a file on the server; its address. Raises Undeliverable for one that cannot be read or is not taken."""
        content, kind = file_to_send(path)
        put, get, headers = await self._slot(path.name, len(content), kind)
        async with aclosing(WebApi("the XMPP server's store", put, "")) as web:
            reply = await web.ask("PUT", put, seconds=UPLOAD_SECONDS, content=content, headers=headers)
        if reply.status not in (200, 201):
            raise ChannelUnavailable(f"the XMPP server did not take the file (status {reply.status}).")
        return get

    async def _slot(self, name: str, size: int, kind: str) -> tuple[str, str, Mapping[str, str]]:
        """The addresses where a file is put and where it is got, and headers for that."""
        asked = Element(f"{_UPLOAD}request", {"filename": name, "size": str(size), "content-type": kind})
        slot = await self._connection.ask(await self._service(), asked)
        put, get = (events.attribute(slot, f"{_UPLOAD}{one}", "url") for one in ("put", "get"))
        given = {one.get("name", ""): one.text or "" for one in slot.iterfind(f"{_UPLOAD}put/{_UPLOAD}header")}
        headers = {name: text for name, text in given.items() if name.lower() in _HEADERS}
        return put, get, {"content-type": kind, **headers}

    async def _service(self) -> str:
        """The service of the server that takes files."""
        items, info = (f"{{http://jabber.org/protocol/disco#{what}}}" for what in ("items", "info"))
        found = Element("none") if self._upload else await self._connection.ask(self._domain, Element(f"{items}query"))
        for jid in (one.get("jid", "") for one in found):
            with suppress(Undeliverable):
                about = await self._connection.ask(jid, Element(f"{info}query"))
                if any(one.get("var") == _UPLOAD.strip("{}") for one in about.iterfind(f"{info}feature")):
                    self._upload = jid
        if not self._upload:
            raise Undeliverable("this XMPP server takes no files: it has no HTTP upload (XEP-0363).")
        return self._upload

    # --- out ---------------------------------------------------------------------------------------------------------

    async def send(self, outbound: Outbound) -> str:
        place, id = Place.of(outbound.address.chat), mark_of(outbound)[:32]
        stream = await self._connected()
        await self._live.hand_over(outbound)
        said = stanza("message", place.chat, "groupchat" if place.person else "chat", id)
        below(said, "{urn:xmpp:sid:0}origin-id", id=id)
        text = styled(outbound.text)
        if outbound.files:
            text = await self._store(Path(outbound.files[0]))
            below(below(said, "{jabber:x:oob}x"), "{jabber:x:oob}url", text)
        elif place.person and outbound.reply_to in self._told:
            answered, author = self._told[outbound.reply_to]
            below(said, f"{REPLY}reply", id=answered, to=author)
        waiting = self._sending[place.chat, id] = asyncio.get_running_loop().create_future()
        try:
            self._say(said, text)
            await stream.settled()
            if place.person:
                await asyncio.wait({waiting}, timeout=ECHO_SECONDS)
            if waiting.done():
                waiting.result()
            elif place.person:
                raise ChannelUnavailable(f"the room {place.chat} did not repeat what was said.")
        finally:
            del self._sending[place.chat, id]
        return id

    def show(self, address: Address, event: Event) -> None:
        match event:
            case Queued(id) if id in self._told:
                self._live.beside(address.chat, self._react(Place.of(address.chat), self._told[id][0]))
            case TurnEnded() | TurnPaused():
                self._live.beside(address.chat, self.typing(address.chat, "paused"))
        self._live.show(address, event)

    async def typing(self, chat: str, state: str = "composing") -> None:
        if not Place.of(chat).person:  # a room has enough of it with its people
            self._sign(Place.of(chat), Element(f"{{http://jabber.org/protocol/chatstates}}{state}"), "no-store")

    async def _react(self, place: Place, id: str) -> None:
        reactions = Element("{urn:xmpp:reactions:0}reactions", id=id)
        below(reactions, "{urn:xmpp:reactions:0}reaction", SEEN)
        self._sign(place, reactions, "store")

    def _sign(self, place: Place, sign: Element, keep: str) -> None:
        """Send something without words, which archives `keep`."""
        said = stanza("message", place.chat, "groupchat" if place.person else "chat")
        said.extend([sign, Element(f"{{urn:xmpp:hints}}{keep}")])
        self._connection.send(said)

    def _say(self, said: Element, text: str) -> None:
        below(said, f"{CLIENT}body", text)
        self._connection.send(said)

    def _settle(self, chat: str, id: str, error: ChannelError | None = None) -> None:
        if (waiting := self._sending.get((chat, id))) and not waiting.done():
            waiting.set_exception(error) if error else waiting.set_result(None)

    def _refused(self, chat: str, id: str, condition: str) -> None:
        """A message came back."""
        said = f"{chat} takes no message: {condition}."
        if (chat, id) not in self._sending:
            log_skipped("XMPP", said)
        if chat in self._rooms and condition == "not-acceptable":  # it has forgotten who is in it
            self._enter(self._connection, chat, self._newest.of(chat))
        self._settle(chat, id, (ChannelUnavailable if condition in _WAIT else Undeliverable)(said))

    async def _connected(self) -> XmppStream:
        """The session, once there is one. Raises Unreachable if that takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_SECONDS):
                await self._ready.wait()
        return self._connection

    @property
    def _connection(self) -> XmppStream:
        if self._stream is None or not self._ready.is_set():
            raise Unreachable("there is no connection to XMPP at the moment.")
        return self._stream


def _condition(xml: Element) -> str:
    """The reason that an error gives, in XMPP's own word."""
    tags = [one.tag.split("xmpp-stanzas}")[-1] for error in xml.iterfind(f"{CLIENT}error") for one in error]
    return next((tag for tag in tags if tag.isprintable() and "}" not in tag and tag != "text"), "no reason is given")


def _stamp(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
