"""The model that writes summaries: that of [models], as long as it takes in enough, else the conversation's own."""

from __future__ import annotations

from collections.abc import Callable

from nanoclaw.core.errors import ContextTooLong
from nanoclaw.core.events import Event, Notice
from nanoclaw.core.messages import AssistantMessage, ModelRequest
from nanoclaw.core.model_call import ModelCall, Models
from nanoclaw.core.token_estimate import estimate_request

LEAST_SHARE = 1 / 6
"""The share of what is to be summed up that a window must hold: so many requests may be made one after the other."""


class SummaryModel:
    """Writes the summaries of one turn."""

    def __init__(self, model_call: ModelCall, models: Models, show: Callable[[Event], None]) -> None:
        self._main, self._models, self._show = model_call, models, show
        self._asked = model_call.for_purpose("summaries")

    @property
    def is_another(self) -> bool:
        """True where it is another one than the conversation's."""
        return self._asked is not self._main and self._asked.provider is not self._main.provider

    def room(self, taken: float, wanted: float) -> float:
        """Tokens of a conversation that it takes in at once beside what else is `taken`, infinite where nobody knows.
        A model that takes too little of the tokens `wanted` is not asked any more."""
        window = self._models.window_of(self._asked.provider.model) if self.is_another else None
        if window is None:
            return float("inf")
        if window - taken >= wanted * LEAST_SHARE:
            return window - taken
        self._give_up(f"a window of {window:,} tokens")
        return float("inf")

    async def complete(self, request: ModelRequest) -> AssistantMessage:
        """Raises ProviderError."""
        try:
            return await self._asked.complete(request, self._show)
        except ContextTooLong as error:
            if not self.is_another:
                raise
            tokens = error.window or estimate_request(request, self._asked.provider.model)
            self._models.learned_window(self._asked.provider.model, round(tokens))
            self._give_up("a smaller window")
            return await self._main.complete(request, self._show)

    def _give_up(self, why: str) -> None:
        self._show(Notice(f"{self._asked.provider.model} has {why}, so {self._main.provider.model} writes the summary"))
        self._asked = self._main
