"""What a channel promises: one class per platform, made known in app.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from nanoclaw.events import Event
from nanoclaw.messages import Address, Inbound, Outbound

Deliver = Callable[[Inbound], Awaitable[None]]
"""Hands a message in; returns once it is stored, so that the platform may be told "received"."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What the platform can show; the prompt and the splitter read it. `length` counts characters, 0 = no limit.

    `stays` is False where an answer that comes much later finds nobody: one question, one answer.
    """

    length: int = 0
    markup: Literal["plain", "markdown"] = "plain"
    stays: bool = True


class Channel(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def hints(self) -> Hints: ...

    @property
    def alive(self) -> datetime | None:
        """The last sign of life of the other side, such as a completed poll; None before the first."""
        ...

    async def run(self, deliver: Deliver) -> None:
        """Receive until cancelled or until the person leaves."""
        ...

    def serves(self, outbound: Outbound) -> bool:
        """Whether somebody is there now whom it would reach; if not, it waits without being tried."""
        ...

    async def send(self, outbound: Outbound) -> str:
        """Deliver and return the platform's message id. Raises any exception to have it tried again later."""
        ...

    def show(self, address: Address, event: Event) -> None:
        """Show what a turn is doing. Must not raise and must not block."""
        ...
