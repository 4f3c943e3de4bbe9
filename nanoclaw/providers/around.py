"""The base of a provider around another one, which answers."""

from __future__ import annotations

from nanoclaw.core.messages import ModelRequest
from nanoclaw.core.provider import Provider


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
