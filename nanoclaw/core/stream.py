"""The stream of a turn: what is shown of it while it runs, without what no person is to see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nanoclaw.core.errors import FAULTS
from nanoclaw.core.events import Event, TextDelta, ToolStarted
from nanoclaw.core.plugin import Filter

if TYPE_CHECKING:
    from nanoclaw.core.chain import Chain
    from nanoclaw.core.turn import RunningTurn


class Stream:
    """Passes the events of a turn on, without what no person is to see of its text."""

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
        """One answer has ended: show what was held back of it."""
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
    """A plugin's filter; one that raises lets everything through from then on."""

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
