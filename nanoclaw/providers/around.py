"""Providers around another one, which answers: their base, one with another model for pictures, and one whose asker
waits only so long for a sign of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

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
