"""The one stream of events that each browser reads: every event has an id, so that none is missed or shown twice."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import takewhile
from typing import Any

KEPT, KEPT_BYTES = 5_000, 8_000_000
"""Events that a browser which lost its connection can still get; one that missed more loads afresh."""
QUIET_SECONDS = 15.0  # after which a line without meaning is sent, so that a connection that is gone is noticed


class EventStream:
    """Events in the order in which they happened. An id is the life of this process and a number: "k3f9-17"."""

    def __init__(self) -> None:
        self.life = secrets.token_hex(4)
        self._kept: deque[tuple[int, str, bytes]] = deque()  # number, conversation and line
        self._news = asyncio.Event()  # set, and another one, whenever there is something for readers
        self._is_closed, self._woken, self._last, self._bytes = False, 0, 0, 0
        self._joined = ((0, 0, ""), b"")  # lines that were read last, from where to where and of which conversation

    @property
    def at(self) -> str:
        """The id of the newest event."""
        return f"{self.life}-{self._last}"

    def publish(self, event: Mapping[str, Any]) -> None:
        self._last += 1
        data = json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")
        line = b"id: %s\ndata: %s\n\n" % (self.at.encode(), data)
        self._kept.append((self._last, event.get("c", ""), line))
        self._bytes += len(line)
        while len(self._kept) > KEPT or (self._bytes > KEPT_BYTES and len(self._kept) > 1):
            self._bytes -= len(self._kept.popleft()[2])
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def read(self, last: str, is_open: Callable[[], bool], only: str = "") -> AsyncIterator[bytes]:
        """Lines for one browser, of one conversation or all, from the event after `last` on; it is told to load afresh
        where that is not known any more. Ends when it `is_open` no longer, or all is closed."""
        loop = asyncio.get_running_loop()
        look_at, woken = 0.0, self._woken  # when it is looked again if the browser may still read, which costs a query
        if (sent := self._number(last)) is None:
            sent = self._last
            yield b"retry: 1000\nid: %s\nevent: afresh\ndata: {}\n\n" % self.at.encode()
        else:
            yield b"retry: 1000\n\n"
        while not self._is_closed:
            if woken != self._woken or loop.time() >= look_at:
                look_at, woken = loop.time() + QUIET_SECONDS, self._woken
                if not is_open():
                    return
            news = self._news
            if self._kept and self._kept[0][0] > sent + 1:  # it was too slow
                sent = self._last
                yield b"id: %s\nevent: afresh\ndata: {}\n\n" % self.at.encode()
            elif self._last > sent:
                lines, sent = self._after(sent, only), self._last
                yield lines
                continue
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    await news.wait()
            except TimeoutError:
                yield b": still here\n\n"

    def close(self) -> None:
        self._is_closed = True
        self.wake()

    def wake(self) -> None:
        """Let every reader look whether it is still open."""
        self._woken += 1
        self._tell()

    def _after(self, sent: int, only: str) -> bytes:
        """Joined lines; many browsers want the same ones."""
        wanted = sent, self._last, only
        if self._joined[0] != wanted:
            news = list(takewhile(lambda one: one[0] > sent, reversed(self._kept)))[::-1]
            self._joined = wanted, b"".join(line for _, key, line in news if not only or key == only)
        return self._joined[1]

    def _number(self, last: str) -> int | None:
        """The number of an id of this life, if all after it is still kept."""
        life, _, number = last.partition("-")
        if life != self.life or not (number.isascii() and number.isdigit()) or int(number) > self._last:
            return None
        oldest = self._kept[0][0] if self._kept else self._last + 1
        return int(number) if int(number) >= oldest - 1 else None
