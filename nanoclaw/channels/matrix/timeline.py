"""Reads a sync as messages in their order: gaps are filled, late keys awaited, quotes looked up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from nanoclaw.channels.fields import name_of, table
from nanoclaw.channels.matrix import events
from nanoclaw.channels.matrix.account import MOST_WAITING
from nanoclaw.channels.newest import remember
from nanoclaw.core.channel import Place
from nanoclaw.core.errors import ChannelError, Undeliverable
from nanoclaw.core.messages import Address, Inbound, UserMessage

if TYPE_CHECKING:
    from nanoclaw.channels.matrix.client import Client

GAP_EVENTS = 500
"""Messages of one room that are read after the program was down; older ones are left out."""

MOST_REMEMBERED = 300
MOST_CHANGEABLE = 50
KEY_DAYS = 7
"""Days that a key may come late; messages from before the assistant's device never get theirs."""


class Timeline:
    """Knows what was said last, for quotes, and which messages wait for their keys."""

    def __init__(
        self, channel: str, user: str, clock: Callable[[], datetime], remark: Callable[[str, str], None]
    ) -> None:
        """`remark` takes a kind and a line for the log."""
        self._channel, self._user, self._clock, self._remark = channel, user, clock, remark
        self._undecrypted: dict[str, tuple[str, Any]] = {}
        self._said: dict[str, tuple[str, str]] = {}
        self._threads: dict[str, str] = {}
        self._heard: dict[str, Inbound] = {}

    @property
    def undecrypted(self) -> tuple[tuple[str, str], ...]:
        """Room and event of each message whose key has not come."""
        return tuple((room_id, event_id) for event_id, (room_id, _) in self._undecrypted.items())

    async def left_over(self, client: Client, undecrypted: Sequence[tuple[str, str]]) -> AsyncIterator[Inbound]:
        """Messages that could not be decrypted before the restart."""
        self._undecrypted.clear()
        for room_id, event_id in undecrypted:
            try:
                event = await client.event(room_id, event_id)
            except Undeliverable:  # deleted since, or the assistant is not in the room any more
                continue
            if inbound := await self._read(client, room_id, event):
                yield inbound

    async def new(self, client: Client, news: Any, since: str) -> AsyncIterator[Inbound]:
        """The messages of a sync, and earlier ones whose keys came with it."""
        for room_id, info in news.rooms.join.items():
            for event in await self._between(client, room_id, info.timeline, since):
                if inbound := await self._read(client, room_id, event):
                    yield inbound
        for event_id, (room_id, encrypted) in list(self._undecrypted.items()):
            event = client.decrypted(encrypted)
            if event is None and room_id in client.rooms:
                continue
            del self._undecrypted[event_id]
            if event is not None and (inbound := await self._read(client, room_id, event)):
                yield inbound

    def remember(self, event_id: str, sender: str, text: str) -> None:
        """Remember the text of an event for quotes of it."""
        remember(self._said, event_id, (sender, text[: events.QUOTE_CHARACTERS]), MOST_REMEMBERED)

    async def _between(self, client: Client, room_id: str, timeline: Any, since: str) -> list[Any]:
        """The events of a room that have not been seen: its timeline, and what lies between it and the sync before.

        In a room that has just been joined they begin with the invitation, as who invites writes at once.
        """
        found, me = list(timeline.events), self._user
        arrivals = [number for number, event in enumerate(found) if _is_membership(event, me, "join")]
        if not arrivals and timeline.limited:
            return [*await self._earlier(client, room_id, timeline.prev_batch, since), *found]
        if not arrivals:
            return found
        earlier = reversed(range(arrivals[-1]))
        invited = next((number for number in earlier if _is_membership(found[number], me, "invite")), None)
        if invited is None and timeline.limited:
            before = await self._earlier(client, room_id, timeline.prev_batch, "")
            return [*before, *(found if before else found[arrivals[-1] :])]
        return found[arrivals[-1] if invited is None else invited :]

    async def _earlier(self, client: Client, room_id: str, start: str, end: str) -> list[Any]:
        """Events before a place in a room's history, back to `end` or, where that is '', to the assistant's
        invitation. Nothing where the server does not show it."""
        found: list[Any] = []
        while start and len(found) < GAP_EVENTS:
            try:
                answer = await client.earlier(room_id, start, end)
            except Undeliverable as error:
                self._remark("gap", f"what was said in {room_id} while it was away cannot be read: {error}")
                break
            for event in answer.chunk:
                found.append(event)
                if not end and _is_membership(event, self._user, "invite"):
                    return found[::-1]
            start = answer.end if answer.chunk else ""
        if start and end:
            self._remark("gap", f"more than {GAP_EVENTS} messages came while it was away; older ones are left out.")
        return found[::-1] if end else []

    async def _read(self, client: Client, room_id: str, event: Any) -> Inbound | None:
        """The event as a message; None for any other event, or one that cannot be read."""
        from nio import MegolmEvent

        if isinstance(event, MegolmEvent):
            age = self._clock() - events.when(table(event.source), self._clock())
            if event.sender != self._user and age < timedelta(days=KEY_DAYS):
                remember(self._undecrypted, event.event_id, (room_id, event), MOST_WAITING)
                self._remark("keys", f"a message in {room_id} cannot be decrypted; it is read when its key arrives.")
            return None
        try:
            source = event.source
            if source["type"] != "m.room.message":
                return None
            return await self._inbound(client, client.rooms[room_id], source)
        except ChannelError:
            raise
        except Exception as error:  # whatever somebody sent, the messages after it are read
            self._remark("bad", f"skipped a message in {room_id} that cannot be read: {type(error).__name__}.")
            return None

    async def _inbound(self, client: Client, room: Any, source: Mapping[str, Any]) -> Inbound | None:
        sender, event_id = str(source["sender"]), str(source["event_id"])
        content = source["content"]
        if before := self._heard.get(events.edited(content)):
            return self._changed(room, before, sender, content)
        self.remember(event_id, sender, events.text_of(content))
        if sender == self._user or "redacted_because" in table(source.get("unsigned")):
            return None
        said = events.said(content)
        if said is None:
            return None
        if not said.text.strip() and not said.attachment:
            return None
        is_group = room.joined_count > 2
        quoted_sender, quote = await self._quoted(client, room.room_id, said.quoted)
        text, is_mention = said.text, False
        if is_group:
            named, rest = events.addressed(text, self._names(room))
            text = rest or text
            is_mention = named or self._user in said.mentions or quoted_sender == self._user
        member = room.users.get(sender)
        place = str(Place(room.room_id, said.thread, sender if is_group else ""))
        if said.thread and self._is_first_of(place, event_id) and not said.quoted:
            quoted_sender, quote = await self._quoted(client, room.room_id, said.thread)
        inbound = Inbound(
            Address(self._channel, place),
            sender,
            event_id,
            UserMessage(text, events.when(source, self._clock())),
            (said.attachment,) if said.attachment else (),
            said.quoted,
            quote,
            name_of(member.display_name if member else "") or sender[:64],
            is_group,
            is_mention,
            quote_from=f"a message ({self._channel}:{quoted_sender})" * (quoted_sender not in ("", sender, self._user)),
        )
        remember(self._heard, event_id, inbound, MOST_CHANGEABLE)
        return inbound

    def _changed(self, room: Any, before: Inbound, sender: str, content: Mapping[str, Any]) -> Inbound | None:
        """A message as its author has changed it; None when it was somebody else."""
        said = events.said(table(content.get("m.new_content")))
        if said is None or sender != before.sender:
            return None
        named, text = events.addressed(said.text, self._names(room)) if before.is_group else (False, said.text)
        return before._replace(
            message=before.message._replace(text=text or said.text),
            attachments=(said.attachment,) if said.attachment else (),
            is_mention=before.is_mention or (before.is_group and (named or self._user in said.mentions)),
            is_edit=True,
        )

    def _is_first_of(self, place: str, event_id: str) -> bool:
        """True for the first message of somebody in a thread since the start, also when it is read again."""
        first = self._threads.get(place, event_id)
        remember(self._threads, place, first)
        return first == event_id

    def _names(self, room: Any) -> tuple[str, ...]:
        """Names of the assistant in a room."""
        own = room.users.get(self._user)
        shown = name_of(own.display_name) if own else ""
        return (self._user, self._user[1:].partition(":")[0], shown)

    async def _quoted(self, client: Client, room_id: str, event_id: str) -> tuple[str, str]:
        """Sender and text of the message that is answered; '' if they cannot be found out."""
        if event_id and event_id not in self._said:
            try:
                source = (await client.event(room_id, event_id)).source
                self.remember(event_id, str(source["sender"]), events.text_of(source["content"]))
            except (ChannelError, AttributeError, KeyError, TypeError):  # gone, or not a message
                return "", ""
        return self._said.get(event_id, ("", ""))


def _is_membership(event: Any, user: str, membership: str) -> bool:
    """True when the event is the invitation or arrival of a user; a new name of one who is there is neither."""
    source = table(event.source)
    if source.get("type") != "m.room.member" or source.get("state_key") != user:
        return False
    before = table(table(source.get("unsigned")).get("prev_content"))
    return table(source.get("content")).get("membership") == membership != before.get("membership")
