"""One queue per conversation: messages are answered in order, and a slow chat delays no other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from itertools import takewhile
from typing import Generic, TypeVar

from nanoclaw.core.messages import Address

Item = TypeVar("Item")


class Lane(Generic[Item]):
    """Handles one item at a time. The second of the three places that catch everything."""

    def __init__(self, handle: Callable[[Item], Awaitable[None]], on_error: Callable[[Item, Exception], None]) -> None:
        self._handle, self._on_error = handle, on_error
        self._queue: deque[Item] = deque()
        self._runner: asyncio.Task[None] | None = None
        self._item: Item | None = None

    def put(self, item: Item) -> None:
        self._queue.append(item)
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run())

    def drain(self) -> list[Item]:
        """Take back what waits."""
        waiting = list(self._queue)
        self._queue.clear()
        return waiting

    def next_ones(self, wanted: Callable[[Item], bool]) -> list[Item]:
        """What waits, from the first on, as long as it is wanted. It stays in the queue until `remove`."""
        return list(takewhile(wanted, self._queue))

    def remove(self, items: Iterable[Item]) -> None:
        for item in items:
            self._queue.remove(item)

    @property
    def working(self) -> bool:
        return self._item is not None

    @property
    def at_work_on(self) -> Item | None:
        """The item being handled, unless that was cancelled."""
        return self._item if self._runner and not self._runner.cancelling() else None

    def cancel(self) -> bool:
        """Cancel the item being handled; False when there is none. A handler may end well all the same."""
        if self.working and self._runner:
            self._runner.cancel()
        return self.working

    async def idle(self) -> None:
        if self._runner:
            await asyncio.wait([self._runner])

    async def _run(self) -> None:
        me = asyncio.current_task()
        while self._queue:
            item = self._item = self._queue.popleft()
            try:
                await self._handle(item)
            except Exception as error:
                self._on_error(item, error)
            finally:
                self._item = None
            while me and me.cancelling():  # the handler made its peace with it
                me.uncancel()


class Lanes(Generic[Item]):
    """The lanes of all conversations."""

    def __init__(self, handle: Callable[[Item], Awaitable[None]], on_error: Callable[[Item, Exception], None]) -> None:
        """`on_error` hears of whatever a handler raised; the lane goes on with the next item."""
        self._handle, self._on_error = handle, on_error
        self._lanes: dict[Address, Lane[Item]] = {}

    def of(self, address: Address) -> Lane[Item]:
        if address not in self._lanes:
            self._lanes[address] = Lane(self._handle, self._on_error)
        return self._lanes[address]

    def addresses(self) -> list[Address]:
        return list(self._lanes)

    async def idle(self) -> None:
        """Wait until no lane has work."""
        await asyncio.gather(*(lane.idle() for lane in self._lanes.values()))

    async def close(self) -> None:
        """Cancel what runs and keep what waits for another time."""
        for lane in self._lanes.values():
            lane.drain()
            lane.cancel()
        await self.idle()
