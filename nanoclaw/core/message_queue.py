"""The queue of one conversation: messages that wait, in order; a burst of them is collected into one turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from nanoclaw.core.channel import is_stop
from nanoclaw.core.commands import is_talk
from nanoclaw.core.messages import Address, Inbound
from nanoclaw.core.profiles import profile_of
from nanoclaw.core.store.inbox import Inbox, OpenTurn

BURST_SECONDS, BURST_MOST_SECONDS = 0.8, 5.0
"""A burst ends after 0.8 s without a message, and after 5 s in any case. Channels opt out by Hints(bursts=False), as
the terminal does."""

RETRY_SECONDS = (30, 60, 120, 300)
"""Pauses before a model that cannot be reached is asked again; the last one for ever."""


class QueuePolicy(NamedTuple):
    """The same for all conversations. `queue` is from config.toml: messages that come while a turn runs join it
    ("steer") or wait ("followup"). The seconds are changed by tests alone."""

    queue: Literal["steer", "followup"] = "steer"
    burst_seconds: float = BURST_SECONDS
    burst_most_seconds: float = BURST_MOST_SECONDS
    retry_seconds: Sequence[float] = RETRY_SECONDS


class Accepted(NamedTuple):
    """A message and its row in the inbox. `is_left_over`: an earlier process accepted it."""

    row: int
    inbound: Inbound
    is_left_over: bool = False

    @property
    def address(self) -> Address:
        return self.inbound.address


class Resumed(NamedTuple):
    """An open turn that is to be resumed."""

    turn: OpenTurn

    @property
    def address(self) -> Address:
        return self.turn.address

    @property
    def inbound(self) -> Inbound:
        return self.turn.inbound

    @property
    def row(self) -> int:
        return self.turn.inbox


Item = Accepted | Resumed


class PausedTurn(NamedTuple):
    """A turn that waits: for a model that cannot be reached (asked `tries` times), or for the owner's yes. `behind`
    came meanwhile, and is answered after it."""

    turn: OpenTurn
    tries: int = 0
    timer: asyncio.TimerHandle | None = None
    behind: tuple[Accepted, ...] = ()

    def alone(self) -> PausedTurn:
        """The turn itself, without its timer."""
        if self.timer:
            self.timer.cancel()
        return self._replace(behind=(), timer=None)


class MessageQueue:
    """The items of one conversation that wait. `has_news`: something came since that was last set to False."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._items: deque[Item] = deque()
        self._news = asyncio.Event()
        self.has_news = False

    def __bool__(self) -> bool:
        return bool(self._items)

    def push(self, item: Item) -> None:
        self._items.append(item)
        self.has_news = True
        self._news.set()

    def pop(self) -> Item:
        return self._items.popleft()

    def drop(self, count: int) -> None:
        for _ in range(count):
            self._items.popleft()

    def clear(self) -> list[Item]:
        """Remove and return everything that waited."""
        items, self._items = list(self._items), deque()
        return items

    def as_it_reads_now(self, item: Accepted) -> Accepted:
        """A waiting message may have been edited; once begun, its first text counts."""
        return item._replace(inbound=self._inbox.read(item.row)._replace(wait_limit=item.inbound.wait_limit))

    def more_of(self, first: Inbound, since: datetime | None = None, until: datetime | None = None) -> list[Accepted]:
        """Messages next in the queue that can be answered together with the first: talk from the same address, under
        the same profile, said `since` and `until` then. A message that an earlier process left gets an answer of its
        own, and so does each of `nanoclaw -m`, which may be a script's."""
        found = list[Accepted]()
        for item in self._items if not first.wait_limit else ():
            if not isinstance(item, Accepted) or item.is_left_over or item.address != first.address:
                break
            inbound = (item := self.as_it_reads_now(item)).inbound
            if not is_talk(inbound) or profile_of(inbound) != profile_of(first):
                break
            if (since and inbound.message.at < since) or (until and inbound.message.at > until):
                break
            found.append(item)
        return found

    async def calm(self, policy: QueuePolicy) -> None:
        """Wait until nothing has come for a moment."""
        loop = asyncio.get_running_loop()
        until = loop.time() + policy.burst_most_seconds
        while (left := min(policy.burst_seconds, until - loop.time())) > 0:
            self._news.clear()
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                return

    def words_of(self, item: Accepted) -> str:
        """Words that name a message in the reply to /stop; '' if it was a stop itself."""
        text = self._inbox.read(item.row).message.text
        return "" if is_stop(text) else text
