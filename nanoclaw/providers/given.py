"""Providers that are given, in place of those that a configuration names."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Usage
from nanoclaw.core.plugin import Reply
from nanoclaw.core.provider import Embedded, EmbeddingModel, Provider
from nanoclaw.dollars import dollars
from nanoclaw.providers import prices
from nanoclaw.providers.failover import Failover

if TYPE_CHECKING:
    from nanoclaw.core.purposes import Purposes
    from nanoclaw.core.store.models import ModelFacts


class GivenModels:
    """The first is the usual one; the others are found by name."""

    def __init__(self, providers: Sequence[Provider], facts: ModelFacts, purposes: Purposes) -> None:
        self._providers, self._facts, self._purposes = tuple(providers), facts, purposes
        self._failovers: dict[tuple[str, str], Failover] = {}

    def of(self, model: str, purpose: str = "") -> Provider:
        own = self._purposes.of(purpose)
        if not own.name:
            return self._named(model)
        if (purpose, model) not in self._failovers:
            names = dict.fromkeys((own.name, *own.fallback, model))
            candidates = [(name or self._named("").model, partial(self._named, name)) for name in names]
            self._failovers[purpose, model] = Failover(candidates, about=self._purposes.in_words(purpose))
        return self._failovers[purpose, model]

    def _named(self, model: str) -> Provider:
        model = self._purposes.resolve(model)
        if not model and self._providers:
            return self._providers[0]
        found = next((one for one in self._providers if one.model == model), None)
        if found is None:
            raise ConfigError(f"there is no model {model!r}" if model else "no model is configured.")
        return found

    def troubles(self) -> dict[str, str]:
        return {}

    def listing(self, chosen: str) -> Reply:
        model = self.of(chosen).model
        window = f" ({words})" if (words := self.window_in_words(model)) else ""
        return Reply(f"Model: {model}{window}. Choose another with /model provider/name.", {"model": model})

    def choose(self, wanted: str) -> tuple[str, str]:
        return self._named(wanted).model, ""

    def window_of(self, model: str) -> int | None:
        return self._facts.window(model)

    def learned_window(self, model: str, tokens: int) -> None:
        self._facts.learned_window(model, tokens)

    def forget_window(self, model: str) -> bool:
        return self._facts.forget_window(model)

    def window_in_words(self, model: str) -> str:
        tokens = self.window_of(model)
        return f"window: {tokens:,} tokens, learned from an error" if tokens else ""

    def cost_in_words(self, model: str, usage: Usage) -> str:
        cost = self.cost(model, usage)
        return "price unknown" if cost is None else dollars(cost)

    def cost(self, model: str, usage: Usage) -> float | None:
        return prices.cost(model, usage)

    def is_blind(self, provider: Provider) -> bool:
        return not provider.supports_vision

    def is_local(self, model: str) -> bool:
        return False

    async def transcribe(self, model: str, name: str, sound: bytes) -> str:
        """By a provider that has this method."""
        found = self._named(model or self._purposes.of("transcription").name)
        return str(await found.transcribe(name, sound))  # type: ignore[attr-defined]

    async def embed(self, model: EmbeddingModel, texts: Sequence[str], is_query: bool, seconds: float) -> Embedded:
        """By a provider that has this method."""
        for one in self._providers:
            if make := getattr(one, "embed", None):
                return await make(model, texts, is_query, seconds)  # type: ignore[no-any-return]
        raise ConfigError(f"there is no model {model.name!r} for embeddings.")

    async def aclose(self) -> None:
        await asyncio.gather(*(provider.aclose() for provider in self._providers))
