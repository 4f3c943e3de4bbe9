"""Providers around another one, which answers: their base, one with another model for pictures, and one whose asker
waits only so long for a sign of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from nanoclaw.clock import pause
from nanoclaw.core.errors import CannotSee, CutOff, ProviderUnavailable
from nanoclaw.core.events import Event, Notice, TextDelta
from nanoclaw.core.messages import AssistantMessage, Message, ModelRequest
from nanoclaw.core.provider import OnEvent, Provider


class Around:
    def __init__(self, inner: Provider) -> None:
        self.inner = inner

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def supports_vision(self) -> bool:
        return self.inner.supports_vision

    @property
    def cuts_history(self) -> bool:
        return bool(getattr(self.inner, "cuts_history", False))

    def others(self, request: ModelRequest) -> tuple[str, ...]:
        """The models that may answer in place of this one."""
        return tuple(getattr(self.inner, "others", lambda request: ())(request))

    async def aclose(self) -> None:
        await self.inner.aclose()


class Eyes(Around):
    """The model of one turn. Once there is a new picture that it cannot see, the one for `pictures` is asked."""

    def __init__(
        self, inner: Provider, pictures: Callable[[], Provider], is_blind: Callable[[Provider], bool], effort: str
    ) -> None:
        """`is_blind` says of a model that it is known to see none; `effort` is that of the one for pictures."""
        super().__init__(inner)
        self._pictures, self._is_blind, self._effort, self._has_changed = pictures, is_blind, effort, False

    def others(self, request: ModelRequest) -> tuple[str, ...]:
        eyes = () if self._has_changed or not _has_new_images(request.history) else (self._pictures().model,)
        return (*eyes, *super().others(request))

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        if not self._change(request, on_event):
            try:
                return await self.inner.complete(request._replace(must_see=True), on_event)
            except CannotSee:
                self._change(request, on_event, is_blind=True)
        if self._has_changed:
            request = request._replace(effort=self._effort, purpose="pictures")
        return await self.inner.complete(request, on_event)

    def _change(self, request: ModelRequest, on_event: OnEvent, *, is_blind: bool = False) -> bool:
        """Change to the model for pictures if there are new ones that this one cannot see. True if it has changed."""
        if not self._has_changed and _has_new_images(request.history):
            pictures = self._pictures()
            if pictures is not self.inner and (is_blind or self._is_blind(self.inner)):
                on_event(Notice(f"{self.model} cannot see images, so {pictures.model} is asked", stays="here"))
                self.inner, self._has_changed = pictures, True
        return self._has_changed


def _has_new_images(history: Sequence[Message]) -> bool:
    """True if images came since the last answer."""
    for message in reversed(history):
        if isinstance(message, AssistantMessage):
            if not message.tool_calls:
                break
        elif message.images:
            return True
    return False


TOLD_SECONDS, ASKED_AGAIN_SECONDS = 10.0, 5.0
"""Seconds until somebody who waits for an answer is told so, and until a model that is down is asked again."""


class Patient(Around):
    """A model for somebody who waits: one that is down is asked again, and after so many seconds without a sign of it
    that ends."""

    def __init__(self, inner: Provider, limit: float) -> None:
        super().__init__(inner)
        self._limit = limit

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        loop, trouble, last = asyncio.get_running_loop(), "", ""
        ends = loop.time() + self._limit

        def tell() -> None:
            on_event(Notice(f"waiting for the model, for at most {self._limit:g} s"))
            on_event(Notice("") if last else TextDelta(""))  # a sign of it, as far as is known

        def listen(event: Event) -> None:
            nonlocal last
            if not isinstance(event, Notice) or event.fraction is not None:
                waiting.cancel()
                clock.reschedule(loop.time() + self._limit)
                last = ""
            elif not event.stays:  # about a try, of which there are several
                last, event = event.text, Notice("")
            on_event(event)

        waiting = loop.call_later(TOLD_SECONDS, tell)
        try:
            async with asyncio.timeout_at(ends) as clock:
                while True:
                    try:
                        return await self.inner.complete(request, listen)
                    except ProviderUnavailable as error:
                        seconds = max(ASKED_AGAIN_SECONDS, error.retry_after or 0.0)
                        again = f"{error} It is asked again in {seconds:.0f} s." if str(error) != trouble else ""
                        trouble = last = str(error)
                    on_event(Notice(again))
                    clock.reschedule(ends)
                    await pause(seconds)
                    on_event(TextDelta(""))
        except TimeoutError:
            why = f" ({last})" if last else ""
            nothing = f"{self.model} has sent nothing for {self._limit:g} s{why}. Try again later, or raise --timeout."
            raise CutOff(trouble or nothing) from None
        finally:
            waiting.cancel()


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
            if not begun.cancelled() and self._before(waiting) is None:
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
