"""A bot at a platform's HTTP API: what channels of that kind have in common."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from nanoclaw.beneath.paths import open_again
from nanoclaw.channels.live import LiveAnswers
from nanoclaw.core.channel import Hints
from nanoclaw.core.errors import Undeliverable
from nanoclaw.core.messages import Attachment, Outbound
from nanoclaw.log import logger

PAUSE_SECONDS = 1.0
"""Between two changes of what is shown, where a platform does not ask for a longer one."""

WITHDRAW_SECONDS = 3.0
"""For erasing what is shown of turns that run, at the end of a program."""


class BotChannel:
    """One bot; `api` makes its requests. A channel of it is a `LiveScreen`. `sign` stands before its name."""

    sign = "@"

    def __init__(self, api: Any, hints: Hints) -> None:
        self._api, self.hints = api, hints
        self._live = LiveAnswers(self, hints)  # type: ignore[arg-type]  # which its kinds are

    async def login(self) -> str:
        """The name that the platform knows it by. Raises ChannelError."""
        raise NotImplementedError

    async def check(self) -> str:
        """The name of the bot whose token it is. Raises ChannelError."""
        try:
            return self.sign + await self.login()
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

    def pause_seconds(self, chat: str) -> float:
        return PAUSE_SECONDS

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


class Untried(BotChannel):
    """A number at a platform that nobody could try it on: a finding of doctor says so."""

    sign = ""

    @property
    def proof(self) -> tuple[bool, str]:
        return True, "made and tested by its documentation; not tried on the real service"

    async def prove(self, *, anew: bool = False) -> tuple[bool, str]:
        return self.proof


def file_to_send(path: Path) -> tuple[bytes, str]:
    """The content of a file, and its kind. Raises Undeliverable for one that cannot be read."""
    try:
        with open_again(path) as file:
            return file.read(), guess_type(path.name)[0] or "application/octet-stream"
    except OSError as error:
        raise Undeliverable(f"the file {path.name} cannot be read: {error.strerror}.") from error


def log_skipped(platform: str, why: object) -> None:
    logger.warning("something from {} cannot be read and is left out: {}", platform, why)
