"""Discord's gateway: a session whose events come in order, resumed where a connection broke off."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from nanoclaw.channels.discord.api import UNKNOWN_TOKEN
from nanoclaw.channels.fields import string, table
from nanoclaw.channels.web_api import UnknownToken
from nanoclaw.channels.web_socket import Closed, WebSocket, opened
from nanoclaw.core.errors import ChannelError, ChannelUnavailable
from nanoclaw.log import logger

Take = Callable[[str, Any], Awaitable[None]]
"""Takes an event in by its name; the session goes on behind it only once this returned."""

MESSAGE_CONTENT = 1 << 15
"""The right to read what is said in servers without naming the bot. Its owner must switch it on at Discord."""
INTENTS = 1 << 0 | 1 << 9 | 1 << 12 | MESSAGE_CONTENT
"""Servers, messages in them, private messages, and their words."""

HELLO_SECONDS = 20.0
BEATS = 2
"""After so many beats of the heart without any word from Discord the connection is dead."""

_DISPATCH, _BEAT, _IDENTIFY, _RESUME, _RECONNECT, _INVALID, _HELLO = 0, 1, 2, 6, 7, 9, 10
_UNKNOWN_TOKEN, _FORGOTTEN, _MAY_NOT, _NEVER = 4004, (4003, 4007, 4009), 4014, (4010, 4011, 4012, 4013)


class Gateway:
    """`intents` lose MESSAGE_CONTENT where the bot may not have it."""

    def __init__(self, token: str, heard: Callable[[], None]) -> None:
        """`heard` is called at each sign of life."""
        self._token, self._heard = token, heard
        self.intents = INTENTS
        self._session, self._url, self._last = "", "", 0

    async def follow(self, url: str, take: Take) -> None:
        """Take events in until Discord wants another connection, which is then to be made at once. Raises ChannelError
        for one that cannot be had, and whatever `take` raises: that event comes again."""
        try:
            async with opened("Discord", f"{self._url or url}/?v=10&encoding=json", self._token) as socket:
                hello = table(await socket.receive(HELLO_SECONDS))
                pause = table(hello.get("d")).get("heartbeat_interval")
                if hello.get("op") != _HELLO or not isinstance(pause, int) or pause <= 0:
                    raise ChannelUnavailable("what answers is not Discord's gateway.")
                await socket.send(self._greeting())
                beating = asyncio.create_task(self._beat(socket, pause / 1000))
                try:
                    await self._listen(socket, pause / 1000, take)
                finally:
                    beating.cancel()
        except Closed as closed:
            self._judge(closed)

    def forget(self) -> None:
        """Begin anew with the next connection."""
        self._session, self._url, self._last = "", "", 0

    def _greeting(self) -> dict[str, Any]:
        if self._session:
            return {"op": _RESUME, "d": {"token": self._token, "session_id": self._session, "seq": self._last}}
        about = dict.fromkeys(("os", "browser", "device"), "nanoclaw")
        return {"op": _IDENTIFY, "d": {"token": self._token, "intents": self.intents, "properties": about}}

    async def _beat(self, socket: WebSocket, pause: float) -> None:
        wait = pause * random.random()  # as Discord asks, so that not all come at once
        try:
            while True:
                await asyncio.sleep(wait)
                await socket.send({"op": _BEAT, "d": self._last or None})
                wait = pause
        except Closed:
            pass  # the listener knows it, too

    async def _listen(self, socket: WebSocket, pause: float, take: Take) -> None:
        while True:
            event = table(await socket.receive(pause * BEATS))
            self._heard()
            kind, data = event.get("op"), event.get("d")
            if kind == _BEAT:
                await socket.send({"op": _BEAT, "d": self._last or None})
            elif kind == _RECONNECT:
                await socket.close(4000)  # any other code than 1000 keeps the session
                return
            elif kind == _INVALID:
                if data is not True:
                    self.forget()
                raise ChannelUnavailable("Discord begins a new session.")
            elif kind == _DISPATCH:
                name = string(event.get("t"))
                await take(name, data)
                if name == "READY":
                    ready = table(data)
                    self._session, self._url = string(ready.get("session_id")), string(ready.get("resume_gateway_url"))
                if isinstance(number := event.get("s"), int):
                    self._last = number

    def _judge(self, closed: Closed) -> None:
        """Say whether the session goes on. Raises ChannelError where no connection is to be made at once."""
        if closed.code == _UNKNOWN_TOKEN:
            raise UnknownToken(UNKNOWN_TOKEN)
        if closed.code == _MAY_NOT and self.intents & MESSAGE_CONTENT:
            self.intents &= ~MESSAGE_CONTENT
            logger.warning(
                "this Discord bot may not read what does not name it: switch on Message Content Intent under Bot at "
                "https://discord.com/developers/applications, if it is to follow what is said in servers"
            )
            return
        if closed.code in _NEVER or closed.code == _MAY_NOT:
            raise ChannelError(f"Discord takes no connection of this bot: {closed}", 60)
        if closed.code in _FORGOTTEN:
            self.forget()
        raise closed
