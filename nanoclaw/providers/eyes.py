"""A model behind which there is another one for pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nanoclaw.core.errors import CannotSee
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import AssistantMessage, Message, ModelRequest
from nanoclaw.core.provider import OnEvent, Provider
from nanoclaw.providers.around import Around


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
