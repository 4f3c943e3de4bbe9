"""The one way out: takes outbox rows to their channels until each has the platform's id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

from nanoclaw.channels.base import Channel
from nanoclaw.messages import Address, Outbound
from nanoclaw.store.outbox import Outbox, Row


class Delivery:
    """One task per channel, so that a slow or failing channel delays no other."""

    def __init__(
        self,
        outbox: Outbox,
        channels: Iterable[Channel],
        clock: Callable[[], datetime],
        is_served: Callable[[Outbound], bool],
        frozen_at: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`is_served` tells whom the channels reach now; rows for others stay. While `frozen_at()` is the
        number of a row, only replies to what was said since then go out."""
        self._outbox, self._clock, self._is_served, self._frozen_at = outbox, clock, is_served, frozen_at
        self._channels = {channel.name: channel for channel in channels}
        self._news = {name: asyncio.Event() for name in self._channels}

    def wake(self, channel: str) -> None:
        """There is a new row for the channel."""
        if channel in self._news:
            self._news[channel].set()

    def wake_all(self) -> None:
        """What was frozen may go out."""
        for news in self._news.values():
            news.set()

    async def run(self) -> None:
        """Until cancelled. Raises StoreError when a delivery cannot be noted: it would be sent again and again."""
        try:
            async with asyncio.TaskGroup() as group:
                for channel in self._channels.values():
                    group.create_task(self._serve(channel))
        except ExceptionGroup as several:
            raise several.exceptions[0] from several

    async def flush(self, channel: str) -> None:
        """Try once to deliver all that is due on a channel now. Within a chat nothing overtakes what waits."""
        waiting: set[Address] = set()
        for row in self._pending(channel):
            address = row.outbound.address
            if address in waiting or row.due > self._clock() or not await self._send(self._channels[channel], row):
                waiting.add(address)

    async def _serve(self, channel: Channel) -> None:
        news = self._news[channel.name]
        while True:
            news.clear()
            await self.flush(channel.name)
            due = self._next_due(channel.name)
            pause = None if due is None else max(0.0, (due - self._clock()).total_seconds())
            try:
                async with asyncio.timeout(pause):
                    await news.wait()
            except TimeoutError:
                pass

    def _next_due(self, channel: str) -> datetime | None:
        """When the first row of some chat is due; the others of that chat wait for it."""
        first: dict[Address, datetime] = {}
        for row in self._pending(channel):
            first.setdefault(row.outbound.address, row.due)
        return min(first.values(), default=None)

    def _pending(self, channel: str) -> list[Row]:
        frozen = self._frozen_at()
        return [
            row
            for row in self._outbox.pending(channel)
            if self._is_served(row.outbound) and (frozen is None or (row.is_reply and row.id > frozen))
        ]

    async def _send(self, channel: Channel, row: Row) -> bool:
        try:
            platform_id = await channel.send(row.outbound)
        except Exception as error:  # whatever a platform does, its message is kept
            if not self._is_served(row.outbound):  # who was there has left: it waits for them
                return False
            from nanoclaw.log import logger

            logger.warning("could not deliver a message to {}: {}", row.outbound.address, error)
            self._outbox.try_again(row, str(error))
            return False
        self._outbox.delivered(row, platform_id)
        return True
