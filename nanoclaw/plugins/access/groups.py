"""Group talk: lines that were said to others, kept in memory as background for the next one who asks."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from datetime import datetime
from typing import NamedTuple, TypeVar

from nanoclaw.core.channel import Place
from nanoclaw.core.messages import Address, Inbound
from nanoclaw.escapes import one_line

KEPT, SHOWN_CHARACTERS, KEPT_CHARACTERS = 50, 8_000, 500
"""Of what is said in a group: so many messages are kept, and so many characters of all and of each."""
GROUPS, LISTENERS = 100, 1_000
"""Groups that are listened to; conversations of which is known what they were told. The least active ones go."""

_COMMAND = re.compile(r"/[A-Za-z][\w-]*(@\S+)?(\s|$)")


class Overheard(NamedTuple):
    """A line said in a group; `number` counts up, `chat` is the conversation of who said it. `is_told`: it was said
    to the assistant."""

    number: int
    id: str
    chat: str
    is_told: bool
    line: str


class GroupTalk:
    """The latest lines of each group, and up to where each conversation there was told of them."""

    def __init__(self) -> None:
        self._groups: OrderedDict[tuple[str, str, str], deque[Overheard]] = OrderedDict()
        self._heard: OrderedDict[Address, int] = OrderedDict()
        self._count = 0

    def overhear(self, inbound: Inbound, now: datetime, *, is_told: bool) -> None:
        if not one_line(inbound.message.text):
            return
        key = _group(inbound)
        kept = self._groups.get(key) or deque[Overheard](maxlen=KEPT)
        if any(one.id == inbound.external_id for one in kept):
            return
        self._count += 1
        kept.append(Overheard(self._count, inbound.external_id, inbound.address.chat, is_told, _line(inbound, now)))
        remember(self._groups, key, kept, GROUPS)

    def change(self, inbound: Inbound, now: datetime) -> Overheard | None:
        """Note what a message says now; returns it as it was overheard before."""
        kept = self._groups.get(_group(inbound), deque[Overheard]())
        found = next((one for one in kept if one.id == inbound.external_id), None)
        if found:
            kept[kept.index(found)] = found._replace(line=_line(inbound, now))
        return found

    def drop(self, inbound: Inbound) -> None:
        """Forget a message that is passed on after all."""
        kept = self._groups.get(_group(inbound), deque[Overheard]())
        for one in [one for one in kept if one.id == inbound.external_id]:
            kept.remove(one)

    def background(self, inbound: Inbound) -> str:
        """Lines that its conversation has not been told yet; what it was asked itself is in its history."""
        if _COMMAND.match(inbound.message.text.strip()):
            return ""
        heard, own = self._heard.get(inbound.address, 0), inbound.address.chat
        kept = self._groups.get(_group(inbound), ())
        lines = [one.line for one in kept if one.number > heard and not (one.is_told and one.chat == own)]
        fitting = list[str]()
        room = SHOWN_CHARACTERS
        for line in reversed(lines):
            room -= len(line) + 1
            if room < 0:
                break
            fitting.insert(0, line)
        return "\n".join(fitting)

    def mark_read(self, address: Address) -> None:
        """Note that a conversation knows all that was overheard so far."""
        remember(self._heard, address, self._count, LISTENERS)


def _group(inbound: Inbound) -> tuple[str, str, str]:
    place = Place.of(inbound.address.chat)
    return inbound.address.channel, place.chat, place.thread


def _line(inbound: Inbound, now: datetime) -> str:
    """On one line, so that nobody can end what is marked as said by others."""
    at = inbound.message.at.astimezone(now.tzinfo)
    name = one_line(inbound.name, 64) or one_line(inbound.sender, 64)
    return f"- {at:%H:%M} {name}: {one_line(inbound.message.text, KEPT_CHARACTERS)}"


Key = TypeVar("Key")
Value = TypeVar("Value")


def remember(table: OrderedDict[Key, Value], key: Key, value: Value, most: int) -> None:
    """Keep it as the newest, and no more than so many."""
    table[key] = value
    table.move_to_end(key)
    while len(table) > most:
        table.popitem(last=False)
