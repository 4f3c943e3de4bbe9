"""Asking a model: the one place that every request goes through, and where what it took is written down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nanoclaw.core.errors import ProviderError
from nanoclaw.core.events import Event, Notice, TextDelta
from nanoclaw.core.messages import AssistantMessage, ModelRequest, Origin, Usage
from nanoclaw.core.provider import Provider
from nanoclaw.core.store.usage import Call
from nanoclaw.core.token_estimate import Calibration, estimate_request
from nanoclaw.plugins.budget.budget import Budget, Reservation


def silence(event: Event) -> None:
    """Shows nothing of an answer that is not for the person."""


@dataclass(slots=True)
class Asking:
    """What one conversation asks of its model for one purpose: a turn, or making room by hand.

    `model` is the one that answered last. `book` takes each request that was made; `said` is what came of the answer
    under way, `usage` the sum of all. `budget` holds the money for each request of this `origin`, and may refuse it.
    """

    provider: Provider
    calibration: Calibration
    book: Callable[[Call], None]
    budget: Budget | None = None
    origin: Origin = "person"
    said: str = ""
    usage: Usage = Usage()
    model: str = field(init=False)

    def __post_init__(self) -> None:
        self.model = self.provider.model

    async def complete(self, request: ModelRequest, show: Callable[[Event], None] = silence) -> AssistantMessage:
        """The model's answer, accounted for, also when it broke off. Raises ProviderError."""
        self.said = ""

        def listen(event: Event) -> None:
            if isinstance(event, TextDelta):
                self.said += event.text
            show(event)

        held = self._reserve(request, show)
        request = replace(request, limits=replace(request.limits, output_tokens=held.output_tokens))
        try:
            answer = await self.provider.complete(request, listen)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) or (self.said and isinstance(error, ProviderError)):
                self._account(request, None, held)  # it is paid all the same
            elif self.budget:
                self.budget.release(held)
            raise
        self._account(request, answer, held)
        self.said = ""
        if answer.usage:
            self.usage = _sum(self.usage, answer.usage)
        return answer

    def _reserve(self, request: ModelRequest, show: Callable[[Event], None]) -> Reservation:
        model, most = self.provider.model, request.limits.output_tokens

        def count() -> int:
            estimated = estimate_request(request.system.text, request.tools, request.history, model)
            return round(estimated * self.calibration.factor(model))

        def tell(line: str) -> None:
            show(Notice(line))

        return self.budget.reserve(model, count, most, self.origin, tell) if self.budget else Reservation(most)

    def _account(self, request: ModelRequest, answer: AssistantMessage | None, held: Reservation) -> None:
        is_first = self.usage == Usage()
        if answer and answer.model:
            self.model = answer.model
        call = self.calibration.call(request, self.model, answer, self.said, is_first)
        self.book(self.budget.settled(held, call) if self.budget else call)


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cached_tokens + other.cached_tokens,
    )
