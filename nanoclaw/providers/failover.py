"""Several models in the order of the person's wish: where one cannot answer, the next is asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from nanoclaw.core.errors import CannotSee, ContextTooLong, NanoclawError, ProviderError, ProviderUnavailable
from nanoclaw.core.events import Event, Notice, ReasoningDelta, TextDelta
from nanoclaw.core.messages import AssistantMessage, ModelRequest
from nanoclaw.core.provider import OnEvent, Provider
from nanoclaw.providers.failures import BadRequest, reason_of

REST_SECONDS = 300.0
"""The time that a model which failed is not asked again while another one answers."""

LONGEST_REST = 86_400.0
"""The most that a provider can ask for by its Retry-After."""

Factory = Callable[[], Provider]


@dataclass(slots=True, eq=False)
class _Candidate:
    name: str
    make: Factory
    provider: Provider | None = None
    rests_until: float = float("-inf")
    is_told: bool = False
    trouble: str = ""

    def made(self) -> Provider:
        if self.provider is None:
            self.provider = self.make()
        return self.provider


class Failover:
    """Asks the first of `candidates` (a model's name, and what makes its provider) that is not known to be down.

    Each provider has its own tries; one that has given up rests for some minutes, so that the models after it are asked
    at once. Those at rest are the last resort. A conversation that is too long is not handed on: it is to be shrunk.
    """

    def __init__(
        self, candidates: Sequence[tuple[str, Factory]], clock: Callable[[], float] = time.monotonic, about: str = ""
    ) -> None:
        """`clock` counts seconds; `about` says what the models are for. Nothing is made yet: a model that is never
        needed costs nothing."""
        if not candidates:
            raise ValueError("no model to ask")
        self._candidates = [_Candidate(name, make) for name, make in candidates]
        self._clock, self._about = clock, f"{about}: " if about else ""
        self._asked = self._candidates[0]

    @property
    def model(self) -> str:
        """The model asked last. With several chats at once only an answer's own `model` says which one gave it."""
        return self._asked.name

    def others(self, request: ModelRequest) -> tuple[str, ...]:
        """The models that may answer in place of the one asked last."""
        return tuple(one.name for one in self._candidates if one is not self._asked)

    @property
    def troubles(self) -> dict[str, str]:
        """By model that gave no answer when it was last asked, why."""
        return {one.name: one.trouble for one in self._candidates if one.trouble}

    @property
    def supports_vision(self) -> bool:
        """Of the model that the next request goes to."""
        for candidate in self._in_order():
            try:
                return candidate.made().supports_vision
            except NanoclawError:
                continue
        return False

    @property
    def cuts_history(self) -> bool:
        """Of the first model that can be used."""
        for candidate in self._in_order():
            with suppress(NanoclawError):
                return bool(getattr(candidate.made(), "cuts_history", False))
        return False

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        """The answer of the first model that gives one; its `model` is the one that answered."""
        failed: list[tuple[_Candidate, NanoclawError]] = []
        shown = False

        def show(event: Event) -> None:
            nonlocal shown
            shown = shown or isinstance(event, TextDelta | ReasoningDelta)
            on_event(event)

        for candidate in self._in_order():
            try:
                provider = candidate.made()
                self._tell(failed, candidate, shown, on_event)
                self._asked, shown = candidate, False
                answer = await provider.complete(request, show)
            except (ContextTooLong, CannotSee):
                raise
            except NanoclawError as error:
                failed.append((candidate, error))
                self._let_rest(candidate, error)
            else:
                candidate.rests_until, candidate.is_told, candidate.trouble = float("-inf"), False, ""
                return answer
        raise _none_answered(failed)

    async def aclose(self) -> None:
        for candidate in self._candidates:
            if candidate.provider is not None:
                await candidate.provider.aclose()

    def _in_order(self) -> Iterator[_Candidate]:
        now = self._clock()
        return iter(sorted(self._candidates, key=lambda candidate: candidate.rests_until > now))

    def _let_rest(self, candidate: _Candidate, error: NanoclawError) -> None:
        candidate.trouble = reason_of(error)
        if isinstance(error, BadRequest):
            return  # it was this request that it did not like; the next may be another chat's
        asked = error.retry_after if isinstance(error, ProviderUnavailable) else None
        seconds = min(max(REST_SECONDS, asked or 0.0), LONGEST_REST)
        candidate.rests_until = self._clock() + seconds

    def _tell(
        self, failed: Sequence[tuple[_Candidate, NanoclawError]], now: _Candidate, shown: bool, on_event: OnEvent
    ) -> None:
        """Once for each time that a model goes down; always where a part of its answer has been shown."""
        news = [error for candidate, error in failed if not candidate.is_told]
        if news or shown:
            reasons = "; ".join(map(reason_of, news or [failed[-1][1]]))
            again = ", whose answer starts again" if shown else ""
            on_event(Notice(f"{self._about}{reasons}; asking {now.name} instead{again}", stays="owner" if news else ""))
        for candidate, _ in failed:
            candidate.is_told = True


def _none_answered(failed: Sequence[tuple[_Candidate, NanoclawError]]) -> ProviderError:
    """One sentence for all; worth another try when one of them is."""
    errors = [error for _, error in failed]
    if len(errors) == 1:
        return errors[0] if isinstance(errors[0], ProviderError) else ProviderError(str(errors[0]))
    text = f"No model answered: {'; '.join(map(reason_of, errors))}. Try again later, or choose another with /model."
    return ProviderUnavailable(text) if any(isinstance(e, ProviderUnavailable) for e in errors) else ProviderError(text)
