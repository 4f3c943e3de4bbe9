"""A model whose asker waits only so long for a sign of it."""

from __future__ import annotations

import asyncio

from nanoclaw.clock import pause
from nanoclaw.core.errors import CutOff, ProviderUnavailable
from nanoclaw.core.events import Event, Notice, TextDelta
from nanoclaw.core.messages import AssistantMessage, ModelRequest
from nanoclaw.core.provider import OnEvent, Provider
from nanoclaw.providers.around import Around

TOLD_SECONDS, ASKED_AGAIN_SECONDS = 10.0, 5.0
"""Seconds until somebody who waits for an answer is told so, and until a model that is down is asked again."""


class Patient(Around):
    """A model for somebody who waits: they are told so, one that is down is asked again, and after so many seconds
    without a sign of it that ends."""

    def __init__(self, inner: Provider, limit: float) -> None:
        super().__init__(inner)
        self._limit = limit

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        return await _Wait(self.inner, request, on_event, self._limit).answer()


class _Wait:
    """The wait for one answer."""

    def __init__(self, model: Provider, request: ModelRequest, show: OnEvent, limit: float) -> None:
        self._model, self._request, self._show, self._limit = model, request, show, limit
        self._time = asyncio.get_running_loop().time
        self._began = self._sign = self._time()  # the last sign of the model's life
        self._trouble: ProviderUnavailable | None = None
        self._told = ""  # about a try that failed, since then
        self._last_told = -1.0  # which ten seconds

    async def answer(self) -> AssistantMessage:
        asking = asyncio.ensure_future(self._asked())
        try:
            while (silent := self._time() - self._sign) < self._limit:
                await asyncio.wait([asking], timeout=min(self._limit - silent, TOLD_SECONDS - silent % TOLD_SECONDS))
                if asking.done():
                    return asking.result()
                if (now := self._time() - self._sign) // TOLD_SECONDS > silent // TOLD_SECONDS:
                    self._tell(f"waiting for the model: {now:.0f} s of {self._limit:g} s{self._why}")
        finally:
            asking.cancel()
            await asyncio.wait([asking])
        nothing = f"{self._model.model} has sent nothing for {self._limit:g} s{self._why}."
        raise CutOff(str(self._trouble or f"{nothing} Try again later, or raise --timeout."))

    @property
    def _why(self) -> str:
        return f" ({self._told})" if self._told else ""

    async def _asked(self) -> AssistantMessage:
        while True:
            try:
                return await self._model.complete(self._request, self._listen)
            except ProviderUnavailable as error:
                self._trouble = error
                seconds = max(ASKED_AGAIN_SECONDS, error.retry_after or 0.0)
                left = self._began + self._limit - self._time()
                if seconds >= left:
                    await pause(left)
                    raise
                self._told = str(error)
                self._tell(f"{error} It is asked again in {seconds:.0f} s.")
            await pause(seconds)
            self._show(TextDelta(""))  # as far as is known

    def _listen(self, event: Event) -> None:
        if not isinstance(event, Notice) or event.fraction is not None:
            self._sign, self._told = self._time(), ""
        elif not event.stays:
            self._told, event = event.text, Notice("")  # told with the next line about the wait
        self._show(event)

    def _tell(self, text: str) -> None:
        """Show a line about the wait, one each 10 seconds."""
        if (now := (self._time() - self._began) // TOLD_SECONDS) > self._last_told:
            self._last_told = now
            self._show(Notice(text))
        self._show(Notice("") if self._told else TextDelta(""))
