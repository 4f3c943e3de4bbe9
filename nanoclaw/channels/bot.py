"""A bot at a platform's HTTP API: what channels of that kind have in common."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from nanoclaw.channels.live import LiveAnswers
from nanoclaw.core.channel import Hints
from nanoclaw.core.messages import Attachment, Outbound

WITHDRAW_SECONDS = 3.0
"""For erasing what is shown of turns that run, at the end of a program."""


class BotChannel:
    """One bot; `api` makes its requests. A channel of it is a `LiveScreen`."""

    def __init__(self, api: Any, hints: Hints) -> None:
        self._api, self.hints = api, hints
        self._live = LiveAnswers(self, hints)  # type: ignore[arg-type]  # which its kinds are

    async def login(self) -> str:
        """The name that the platform knows it by. Raises ChannelError."""
        raise NotImplementedError

    async def check(self) -> str:
        """The name of the bot whose token it is. Raises ChannelError."""
        try:
            return f"@{await self.login()}"
        finally:
            await self.aclose()

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        data: bytes = await self._api.download(attachment.ref, most)
        return data

    async def aclose(self) -> None:
        """Close the connections, for good or until the next request."""
        await self._api.aclose()

    def serves(self, outbound: Outbound) -> bool:
        return True

    async def stay(self, chat: str, id: str, text: str) -> None:
        """Nothing to do: what is shown is a message already."""

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        """While it listens. When that is cancelled, what is shown of turns that run is erased."""
        try:
            yield
        except asyncio.CancelledError:
            with suppress(TimeoutError):
                async with asyncio.timeout(WITHDRAW_SECONDS):
                    await self._live.withdraw()
            raise
        finally:
            await self._live.aclose()


def log_skipped(platform: str, why: object) -> None:
    from nanoclaw.log import logger

    logger.warning("something from {} cannot be read and is left out: {}", platform, why)
