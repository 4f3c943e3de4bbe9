"""The browser sessions: one for each conversation, few at once, none for longer than it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Host

if TYPE_CHECKING:
    from nanoclaw.plugins.browse.session import BrowserSession

LOOK_SECONDS = 30.0
"""Pause between two looks at which sessions are over."""
IDLE, MOST = timedelta(minutes=10), 4
"""Without use a page is closed after so long; and the most conversations with one at once."""


class _Kept:
    def __init__(self, session: BrowserSession, used: datetime, context: int) -> None:
        self.session, self.used, self.context = session, used, context


class BrowserSessions:
    """A session is closed when it was not used for long, when its conversation has begun anew, and when another needs
    its place; a later call gets the reason (`why_closed`)."""

    def __init__(
        self, host: Host, make: Callable[[], Awaitable[BrowserSession]], all_closed: Callable[[], Awaitable[None]]
    ) -> None:
        self._host, self._make, self._all_closed = host, make, all_closed
        self._kept: dict[Address, _Kept] = {}
        self._why: dict[Address, str] = {}
        self._making = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def open_one(self, conversation: Address) -> BrowserSession | None:
        """The session that a conversation has open, as it was when it was last looked at."""
        kept = self._kept.get(conversation)
        return kept.session if kept else None

    async def get(self, conversation: Address) -> BrowserSession | None:
        """The session of a conversation, if it has one."""
        await self.close_unused()
        kept = self._kept.get(conversation)
        if kept and not kept.session.is_alive:
            await self.close(conversation, "the browser has crashed")
            return None
        if kept:
            kept.used = self._host.now()
        return kept.session if kept else None

    async def opened(self, conversation: Address) -> BrowserSession:
        """The same, made where there is none."""
        async with self._making:
            if found := await self.get(conversation):
                return found
            while len(self._kept) >= MOST:
                others = [(one.session.is_busy, one.used, key) for key, one in self._kept.items()]
                await self.close(min(others)[2], "another conversation needed its place")
            session = await self._make()
            now, context = self._host.now(), self._host.records.context(conversation)
            self._kept[conversation] = _Kept(session, now, context)
            self._why.pop(conversation, None)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._watch())
        return session

    def why_closed(self, conversation: Address) -> str:
        """Why a conversation has no session any more, '' where it had none."""
        return self._why.get(conversation, "")

    async def close(self, conversation: Address, why: str) -> None:
        if kept := self._kept.pop(conversation, None):
            self._why[conversation] = why
            while len(self._why) > 100:
                self._why.pop(next(iter(self._why)))
            await kept.session.aclose()
            if not self._kept:
                await self._all_closed()

    async def close_unused(self) -> None:
        now, minutes = self._host.now(), IDLE.total_seconds() / 60
        for key, one in list(self._kept.items()):
            if self._host.records.context(key) != one.context:
                await self.close(key, "the conversation began anew")
            elif now - one.used >= IDLE and not one.session.is_busy:
                await self.close(key, f"it was not used for {minutes:g} minutes")

    async def aclose(self) -> None:
        if self._watching:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        for key in list(self._kept):
            await self.close(key, "the program ended")

    async def _watch(self) -> None:
        while self._kept:
            await asyncio.sleep(LOOK_SECONDS)
            await self.close_unused()
