"""A Telegram channel at its test server: what it delivers, and a person to talk to it."""

from __future__ import annotations

import asyncio
import inspect
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from PIL import Image

from nanoclaw.channels.telegram.channel import Telegram
from nanoclaw.channels.telegram.settings import TelegramSettings
from nanoclaw.core.channel import ChannelAccess, ChannelHost
from nanoclaw.core.messages import Address, Inbound, Outbound
from tests.live.telegram_chats import Chat, Person
from tests.live.telegram_server import TelegramServer

ANNA, GROUP = 1001, -1005000


class Talk:
    """`heard` is what was delivered; with `refuse` a delivery raises instead, as when nothing can be stored."""

    def __init__(self, server: TelegramServer, channel: Telegram) -> None:
        self.server, self.channel = server, channel
        self.anna = server.person(ANNA, "Anna", "anna")
        self.heard: asyncio.Queue[Inbound] = asyncio.Queue()
        self.refuse: Exception | None = None

    async def deliver(self, inbound: Inbound) -> None:
        if self.refuse:
            raise self.refuse
        self.heard.put_nowait(inbound)

    async def next(self) -> Inbound:
        return await self.heard.get()

    async def run(self) -> BaseException:
        """Until the channel breaks off, and with what."""
        try:
            await self.channel.run(self.deliver)
        except Exception as error:
            return error
        raise AssertionError("it never ends by itself")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Talk]:
        task = asyncio.create_task(self.channel.run(self.deliver))
        try:
            yield self
            if task.done():
                task.result()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task

    async def said(self, text: str, **more: Any) -> Inbound:
        """Anna says it, and this is what was delivered."""
        self.server.say(self.anna, text, **more)
        return await self.next()

    async def after(self, update: dict[str, Any]) -> None:
        """An update comes from which nothing is delivered, and the next message is."""
        self.server.raw(update)
        assert (await self.said("still there?")).message.text == "still there?"

    async def send(self, text: str = "", to: Chat | Person | None = None, **more: Any) -> str:
        chat = str((to or self.anna).id)
        return await self.channel.send(Outbound(Address("telegram", chat), text, **more))


@asynccontextmanager
async def opened(
    token: str = "",
    menu: dict[str, str] | None = None,
    api_base: str = "",
    access: ChannelAccess | None = None,
    folder: Path = Path(),
) -> AsyncIterator[Talk]:
    """A server and a channel for it, or for what is at `api_base`; it is not running yet."""
    async with TelegramServer() as server:
        channel = Telegram(
            TelegramSettings(token or server.token, api_base or server.api_base),
            ChannelHost(
                folder,
                lambda: datetime.now(UTC),
                menu={"help": "what there is"} if menu is None else menu,
                access=access or ChannelAccess(),
            ),
        )
        try:
            yield Talk(server, channel)
        finally:
            await channel.aclose()


def talking(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test in a loop of its own, with a channel that runs as its first argument; the others are pytest's."""

    def run(**more: Any) -> None:
        async def whole() -> None:
            async with asyncio.timeout(100), opened() as talked, talked.running():
                await test(talked, **more)

        asyncio.run(whole())

    signature = inspect.signature(test)
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    run.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return run


def picture(width: int = 64, height: int = 48) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(out, "JPEG")
    return out.getvalue()
