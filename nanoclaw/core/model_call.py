"""Model calls: every request goes through here, and its usage is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Protocol, runtime_checkable

from nanoclaw.core.chain import Chain
from nanoclaw.core.errors import ContextTooLong, CutOff, ProviderError
from nanoclaw.core.events import Event, Notice, TextDelta
from nanoclaw.core.messages import AssistantMessage, ModelRequest, Usage
from nanoclaw.core.plugin import AskedModel, KnownModels, Profile, Turn
from nanoclaw.core.provider import MESSAGE, Embedded, EmbeddingModel, Provider, estimate_message, estimate_request
from nanoclaw.core.store.sessions import Call
from nanoclaw.tokens import Calibration, estimate

MOST_TOKENS = 1_000_000_000
"""Most tokens that one request can report, far beyond what any model takes."""

LONGEST_ANSWER = 400_000
"""Most characters of one answer that are shown and kept."""


@runtime_checkable
class Models(KnownModels, Protocol):
    """Models, and what is learned of them from being asked."""

    def troubles(self) -> Mapping[str, str]: ...  # by purpose, why its own model cannot answer at present
    def learned_window(self, model: str, tokens: int) -> None: ...  # the size that an overflow revealed
    def has_own(self, purpose: str) -> bool: ...  # a model or an effort of its own. Raises NanoclawError
    def effort_of(self, purpose: str) -> str: ...  # how much is reasoned for it; '' as the model does by itself
    # Vectors of texts, or of a question about such. Raises NanoclawError.
    async def embed(self, model: EmbeddingModel, texts: Sequence[str], is_query: bool, seconds: float) -> Embedded: ...
    async def aclose(self) -> None: ...


class UsageLog(Protocol):
    """Records the usage of a request."""

    def called(self, call: Call) -> None: ...


def silence(event: Event) -> None:
    """Shows nothing: for an answer that is not for the person."""


class ModelCalls:
    """Makes the model calls of this run; `calibration` learns from each how models count."""

    def __init__(self, models: Models, chain: Chain, calibration: Calibration) -> None:
        self.models, self.chain, self.calibration = models, chain, calibration

    def of(self, purpose: str, log: UsageLog, model: str = "") -> ModelCall:
        """Calls for one purpose, or to one model, that belong to no turn. Raises ConfigError."""
        return ModelCall(self, lambda: self.models.of(model, purpose), log, None, purpose)

    def of_turn(self, profile: Profile, chosen: str, log: UsageLog, turn: Turn) -> ModelCall:
        """The calls of a turn in a conversation that has `chosen` a model, '' for none."""
        return ModelCall(self, lambda: self.provider(profile, chosen), log, turn, profile.purpose, chosen)

    def provider(self, profile: Profile, chosen: str) -> Provider:
        """The model that answers a turn with this profile. Raises ConfigError."""
        return self.models.of(profile.model or chosen, "" if profile.model else profile.purpose, profile.wait)

    def refused(self, request: ModelRequest, model: str, error: ContextTooLong) -> None:
        """Learn from a request that was too long: the window that the provider named, or that follows from the size,
        and how the model counts."""
        known = self.models.window_of(model)
        counted = round(estimate_request(request, model) * self.calibration.factor(model))
        window = error.window or min(counted, known or counted)
        if window != known:
            self.models.learned_window(model, window)
        self.calibration.refused(model, counted, window)


class ModelCall:
    """The requests of one conversation to its model for one purpose: a turn, or compaction by hand.

    `model` is the one that answered last; `said` is what came of the answer under way, `usage` the sum of all.
    """

    def __init__(
        self,
        model_calls: ModelCalls,
        choose: Callable[[], Provider],
        log: UsageLog,
        turn: Turn | None,
        purpose: str = "",
        chosen: str = "",
    ) -> None:
        """`chosen` is the model of the conversation, which answers where that of the purpose cannot."""
        self._model_calls, self._choose, self._log, self._turn = model_calls, choose, log, turn
        self.purpose, self._chosen = purpose, chosen
        self.model, self.said, self.usage = "", "", Usage()

    @cached_property
    def provider(self) -> Provider:
        """Its model, chosen when it is first needed. Raises ConfigError."""
        provider = self._choose()
        self.model = self.model or provider.model
        return provider

    def for_purpose(self, purpose: str) -> ModelCall:
        """Calls of the same turn for another purpose; the same object if that has no settings of its own. Raises
        ConfigError, and NanoclawError for an unknown purpose."""
        if not self._model_calls.models.has_own(purpose):
            return self
        choose = partial(self._model_calls.models.of, self._chosen, purpose)
        return ModelCall(self._model_calls, choose, self._log, self._turn, purpose, self._chosen)

    def factor(self) -> float:
        """The factor between the model's own count and our estimate."""
        return self._model_calls.calibration.factor(self.provider.model)

    def asked(self) -> AskedModel:
        """Its model, with what is known of it."""
        provider, models = self.provider, self._model_calls.models
        window = models.window_of(provider.model)
        cuts = getattr(provider, "cuts_history", False)
        return AskedModel(provider.model, window, self.factor(), cuts, provider.supports_vision)

    async def complete(self, request: ModelRequest, show: Callable[[Event], None] = silence) -> AssistantMessage:
        """The model's answer, accounted for, also when it was interrupted. Raises ProviderError."""
        chain, self.said = self._model_calls.chain, ""
        is_received = True

        def listen(event: Event) -> None:
            nonlocal is_received
            is_received = not isinstance(event, Notice) or event.fraction is not None or bool(event.stays)
            if isinstance(event, TextDelta):
                event = TextDelta(event.text[: max(0, LONGEST_ANSWER - len(self.said))])
                self.said += event.text
            if not isinstance(event, TextDelta | Notice) or event.text:
                show(event)

        effort = self._model_calls.models.effort_of(self.purpose)
        request = request._replace(effort=effort, purpose=self.purpose, model=self.provider.model, factor=self.factor())
        request = request._replace(others=getattr(self.provider, "others", lambda request: ())(request))
        limits = await chain.before_model(request, self._turn)
        if isinstance(limits, AssistantMessage):
            return limits
        request = request._replace(limits=limits)
        answer: AssistantMessage | None = None
        try:
            answer = _bounded(await self.provider.complete(request, listen))
        except BaseException as error:
            if (isinstance(error, asyncio.CancelledError | CutOff) and is_received) or (
                self.said and isinstance(error, ProviderError)
            ):
                self._account(request, None)  # it is paid all the same
            if isinstance(error, ContextTooLong):
                self._model_calls.refused(request, self.provider.model, error)
            raise
        else:
            self._account(request, answer)
        finally:
            chain.after_model(request, answer, self._turn)
        self.said = ""
        if answer.usage:
            self.usage = Usage(*map(sum, zip(self.usage, answer.usage, strict=True)))
        return answer

    def _account(self, request: ModelRequest, answer: AssistantMessage | None) -> None:
        """Record the usage of a request. If the provider reported none (no `answer`: it was cut off) it is estimated;
        if it did, the first one of a turn calibrates the estimate."""
        is_first, calibration = self.usage == Usage(), self._model_calls.calibration
        self.model = (answer.model if answer else "") or self.model
        if answer and answer.usage and not is_first:
            call = Call(self.model, answer.usage)
        else:
            call = counted(calibration, request, self.model, answer, self.said)
        self._log.called(call._replace(is_local=self._model_calls.models.is_local(self.model)))


def _bounded(answer: AssistantMessage) -> AssistantMessage:
    """Shortens an endless answer, which would be too long for screens and for the model that reads it again. Token
    counts that no request can have are dropped: then they are estimated."""
    if (used := answer.usage) and not all(0 <= tokens < MOST_TOKENS for tokens in used):
        answer = answer._replace(usage=None)
    if len(answer.text) <= LONGEST_ANSWER:
        return answer
    cut = f"\n\n(Cut off here: this answer has {len(answer.text):,} characters.)"
    return answer._replace(text=answer.text[:LONGEST_ANSWER] + cut)


def counted(
    calibration: Calibration, request: ModelRequest, model: str, answer: AssistantMessage | None, said: str
) -> Call:
    """The usage of a request beside our own count of it, which learns from the provider's, or stands in its place: for
    an answer without one, and for what was `said` when it was cut off."""
    estimated, usage = estimate_request(request, model), answer.usage if answer else None
    if usage:
        calibration.learn(model, estimated, usage.input_tokens)
        return Call(model, usage, estimated)
    factor = calibration.factor(model)
    out = estimate_message(answer) - MESSAGE if answer else estimate(said)
    return Call(model, Usage(round(estimated * factor), round(out * factor)), is_reported=False)
