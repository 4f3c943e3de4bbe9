"""Showing a turn while it runs: its text, without what must not be seen, and the progress of its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from nanoclaw.core.errors import FAULTS
from nanoclaw.core.events import Event, TextDelta, ToolProgress, ToolStarted
from nanoclaw.core.messages import ToolCall
from nanoclaw.core.plugin import Filter
from nanoclaw.core.tool import Shown
from nanoclaw.escapes import plain

if TYPE_CHECKING:
    from nanoclaw.core.chain import Chain
    from nanoclaw.core.turn import RunningTurn


PAUSE_SECONDS = 0.1
"""Seconds between two progress events of one call."""

LINES, CHARACTERS = 5, 200
"""Number of lines that are shown, and characters of each."""

_READ = 10_000
"""Characters at the end of a text that are looked at; only the second half is shown, as no secret begins before it."""


class Stream:
    """Passes on the events of a turn, without parts of its text that must not be seen."""

    def __init__(self, turn: RunningTurn, chain: Chain) -> None:
        self._turn, self._chain = turn, chain
        self._filter: Filter | None = None
        self._is_open = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            if not self._is_open:
                self._filter, self._is_open = self._chain.filters(self._turn), True
            self._pass(self._filter.feed(event.text) if self._filter else event.text)
            return
        if isinstance(event, ToolStarted):
            self.end()
        self._turn.show(event)

    def end(self) -> None:
        """The answer has ended: show text that was held back."""
        if self._is_open and self._filter:
            self._pass(self._filter.end())
        self._filter, self._is_open = None, False

    def _pass(self, text: str) -> None:
        if text:
            self._turn.has_begun = True
            self._turn.show(TextDelta(text))


class Filters:
    """Several filters of a stream, one behind the other."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._filters = filters

    def feed(self, text: str) -> str:
        for one in self._filters:
            text = one.feed(text) if text else ""
        return text

    def end(self) -> str:
        text = ""
        for one in self._filters:
            text = (one.feed(text) if text else "") + one.end()
        return text


class SafeFilter:
    """A plugin's filter; if it raises, it passes everything through from then on."""

    def __init__(self, inner: Filter, fault: Callable[[BaseException], None]) -> None:
        self._inner: Filter | None = inner
        self._fault = fault

    def feed(self, text: str) -> str:
        return self._try(lambda inner: inner.feed(text), text)

    def end(self) -> str:
        return self._try(lambda inner: inner.end(), "")

    def _try(self, step: Callable[[Filter], str], otherwise: str) -> str:
        if self._inner is None:
            return otherwise
        try:
            return step(self._inner)
        except FAULTS as error:
            self._inner = None
            self._fault(error)
            return otherwise


class Progress:
    """Receives what a tool shows, from any thread, and passes the newest on as an event until it is closed."""

    def __init__(self, call: ToolCall, turn: RunningTurn, chain: Chain) -> None:
        self._call, self._turn, self._chain = call, turn, chain
        self._loop = asyncio.get_running_loop()
        self._newest: tuple[Shown, float | None] | None = None
        self._next = 0.0  # not before
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def show(self, text: Shown, fraction: float | None = None) -> None:
        is_on_its_way, self._newest = self._newest is not None, (text, fraction)
        if not is_on_its_way:
            with suppress(RuntimeError):  # a thread that outlives the program
                self._loop.call_soon_threadsafe(self._wait)

    def close(self) -> None:
        self._is_closed = True
        if self._timer:
            self._timer.cancel()

    def _wait(self) -> None:
        if self._loop.time() >= self._next:
            self._pass()
        elif not self._is_closed:
            self._timer = self._loop.call_at(self._next, self._pass)

    def _pass(self) -> None:
        newest, self._newest = self._newest, None
        if newest is None or self._is_closed:
            return
        self._next = self._loop.time() + PAUSE_SECONDS
        text = newest[0] if isinstance(newest[0], str) else newest[0]()
        text = _bounded(self._chain.on_progress(text[-_READ:], self._turn)[-_READ // 2 :])
        self._turn.show(ToolProgress(self._call, text, _part(newest[1])))


def _bounded(text: str) -> str:
    lines = [line.rstrip() for line in plain(text).splitlines() if line.strip()][-LINES:]
    return "\n".join(line if len(line) <= CHARACTERS else f"{line[: CHARACTERS - 1]}…" for line in lines)


def _part(fraction: float | None) -> float | None:
    """A fraction from 0 to 1; None if it is no number, as from some servers."""
    return None if fraction is None or fraction != fraction else min(1.0, max(0.0, fraction))
