"""The queue before a model on this machine: whoever waits for another's answer is told, and a person goes first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nanoclaw.core.events import Event, Notice
from nanoclaw.core.messages import AssistantMessage, ModelRequest
from nanoclaw.core.provider import OnEvent, Provider
from nanoclaw.providers.around import Around

SILENT_SECONDS = 1.0
"""The time without a sign of a server after which a person is told whose answer it may be at."""

_PERSONS = ("", "pictures")
_WHOSE = {
    "tasks": "a task's answer",
    "heartbeat": "the heartbeat's answer",
    "summaries": "a summary",
    "helpers": "a helper's answer",
    "titles": "a title",
}


class LocalQueue:
    """With `one_at_a_time` the model has one request at a time, a person's before others that wait. A server may have
    more: a person's go to it at once, and others wait while one of a person's is under way."""

    def __init__(self, *, one_at_a_time: bool) -> None:
        self._one_at_a_time = one_at_a_time
        self._running: list[str] = []  # purposes of the requests under way
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []  # a person's before the others

    @asynccontextmanager
    async def place(self, purpose: str, on_event: OnEvent) -> AsyncIterator[OnEvent]:
        """Wait for one's turn, and hold it. Events of the answer are to be shown to what this yields."""
        await self._turn(purpose, on_event)
        others = [one for one in self._running if one not in _PERSONS]
        telling = None
        if others and purpose in _PERSONS:
            loop = asyncio.get_running_loop()
            telling = loop.call_later(SILENT_SECONDS, on_event, Notice(f"waits for {_whose(others[0])}"))

        def show(event: Event) -> None:
            if telling:
                telling.cancel()
            on_event(event)

        try:
            yield show
        finally:
            if telling:
                telling.cancel()
            self._end(purpose)

    async def _turn(self, purpose: str, on_event: OnEvent) -> None:
        """Wait until a request of that purpose may begin, telling for what."""
        before = self._before(purpose)
        if before is None:
            self._running.append(purpose)
            return
        on_event(Notice(f"waits for {_whose(before)}"))
        begun = asyncio.get_running_loop().create_future()
        place, persons = (purpose, begun), sum(one in _PERSONS for one, _ in self._waiting)
        self._waiting.insert(persons if purpose in _PERSONS else len(self._waiting), place)
        try:
            await begun
        except asyncio.CancelledError:
            if place in self._waiting:
                self._waiting.remove(place)
            else:  # it had begun at the same moment
                self._end(purpose)
            raise

    def _end(self, purpose: str) -> None:
        """Remove a request, and start those that may begin, in the order in which they wait."""
        self._running.remove(purpose)
        for place in list(self._waiting):
            waiting, begun = place
            if self._before(waiting) is None:
                self._waiting.remove(place)
                self._running.append(waiting)
                begun.set_result(None)

    def _before(self, purpose: str) -> str | None:
        """The purpose of a request under way that one of this purpose has to wait for."""
        found = self._running
        if not self._one_at_a_time:
            found = [one for one in found if one in _PERSONS and purpose not in _PERSONS]
        return next(iter(found), None)


def _whose(purpose: str) -> str:
    return _WHOSE.get(purpose, "the answer of another conversation")


class OnThisMachine(Around):
    """A provider whose server is on this machine, behind its queue."""

    def __init__(self, inner: Provider, queue: LocalQueue) -> None:
        super().__init__(inner)
        self._queue = queue

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        async with self._queue.place(request.purpose, on_event) as show:
            return await self.inner.complete(request, show)
