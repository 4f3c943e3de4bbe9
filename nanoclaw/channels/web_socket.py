"""A web socket that brings a platform's events as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from nanoclaw.channels.web_api import CONNECT_SECONDS, UnknownToken, WebReply, host_of, reason_of
from nanoclaw.core.errors import ChannelUnavailable, Unreachable
from nanoclaw.escapes import one_line
from nanoclaw.net import leads_to_loopback

MOST_BYTES = 16_000_000
"""Of one event: a large server introduces itself with some megabytes."""


class Closed(ChannelUnavailable):
    """The other side closed the connection, or it broke; `code` says why, 1006 for a break."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class WebSocket:
    """An open connection. Its methods raise Closed."""

    def __init__(self, platform: str, connection: ClientConnection) -> None:
        self._platform, self._connection = platform, connection

    async def receive(self, seconds: float | None = None) -> Any:
        """The next event, None for what is no JSON. After so many seconds without one it counts as broken."""
        try:
            async with asyncio.timeout(seconds):
                text = await self._connection.recv()
        except ConnectionClosed as error:
            raise self._closed(error) from None
        except TimeoutError:
            raise Closed(f"{self._platform} said nothing for {seconds:.0f} s.", 1006) from None
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None

    async def send(self, event: Any) -> None:
        try:
            await self._connection.send(json.dumps(event))
        except ConnectionClosed as error:
            raise self._closed(error) from None

    async def close(self, code: int = 1000) -> None:
        await self._connection.close(code)

    def _closed(self, error: ConnectionClosed) -> Closed:
        code, reason = (error.rcvd.code, error.rcvd.reason) if error.rcvd else (1006, "it broke off")
        return Closed(f"{self._platform} closed the connection: {reason or code}.", code)


@asynccontextmanager
async def opened(
    platform: str, url: str, secret: str, ping: float | None = None, headers: Mapping[str, str] | None = None
) -> AsyncIterator[WebSocket]:
    """A connection, which with `ping` is asked for a sign of life each so many seconds. Raises Unreachable where there
    is nobody, ChannelUnavailable for who refuses."""
    own: dict[str, Any] = {"additional_headers": headers} | ({"proxy": None} if leads_to_loopback(url) else {})
    try:
        connection = await connect(
            url, max_size=MOST_BYTES, open_timeout=CONNECT_SECONDS, close_timeout=1, ping_interval=ping, **own
        )
    except (OSError, TimeoutError) as error:
        raise Unreachable(f"{platform} at {host_of(url)} cannot be reached: {reason_of(error, secret)}.") from None
    except InvalidStatus as error:
        said = WebReply.of(error.response.status_code, {}, bytes(error.response.body or b"")).said
        told = said.get("error") if isinstance(said, dict) else None
        refused = UnknownToken if error.response.status_code == 401 else ChannelUnavailable
        told = told if isinstance(told, str) else f"it answers with the status {error.response.status_code}"
        raise refused(f"{platform} takes no connection: {one_line(told, 300)}") from None
    except (InvalidHandshake, InvalidURI, ValueError) as error:
        raise ChannelUnavailable(f"{platform} takes no connection now: {reason_of(error, secret)}.") from None
    try:
        yield WebSocket(platform, connection)
    finally:
        await connection.close()
