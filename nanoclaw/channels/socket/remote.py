"""A line to a gateway on another machine, through a web socket of its page: each message is a frame."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from nanoclaw.channels.attach import HELLO_SECONDS, VERSION, Link
from nanoclaw.channels.web_socket import Closed, WebSocket, opened
from nanoclaw.core.errors import ChannelUnavailable, ConfigError, StoreBusy
from nanoclaw.home_socket import LONGEST
from nanoclaw.net import is_loopback

_PING_SECONDS = 20.0


def checked(url: str) -> str:
    """The address of the web socket of a page. Raises ConfigError."""
    try:
        parts = urlsplit(url)
        host, is_whole = parts.hostname or "", parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        host = ""
    if not host or not is_whole or parts.username or parts.query or parts.path.strip("/"):
        raise ConfigError(f"{url!r} is no address of a page, such as https://home.example.")
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigError(f"{url} has no TLS, so anybody between could read all: use https, or ssh -L as docs/page.md.")
    return f"ws{parts.scheme.removeprefix('http')}://{parts.netloc}/attach"


@asynccontextmanager
async def attached(url: str, token: str, session: str, seen: int) -> AsyncIterator[Link]:
    """A line to the gateway with the page at `url`, for a chat that has `seen` so much. Raises ConfigError for a wrong
    address, Unreachable where nobody answers, ChannelUnavailable or StoreBusy for who refuses."""
    headers = {"Authorization": f"Bearer {token}"}
    async with opened("nanoclaw", checked(url), token, _PING_SECONDS, headers) as far:
        await far.send({"nanoclaw": VERSION, "want": "chat", "session": session, "seen": seen})
        hello = await far.receive(HELLO_SECONDS)
        if not isinstance(hello, dict) or not ("refused" in hello or {"pid", "model"} <= hello.keys()):
            raise ChannelUnavailable(f"what answers at {url} is not nanoclaw.")
        if "refused" in hello:
            raise StoreBusy(str(hello["refused"]))
        near, own = socket.socketpair()
        link = Link(near)
        link.hello = {**hello, "lost": f"the connection to {urlsplit(url).netloc} was lost"}
        reader, writer = await asyncio.open_unix_connection(sock=own, limit=2 * LONGEST)
        ways = [asyncio.create_task(_up(reader, far)), asyncio.create_task(_down(far, writer))]
        try:
            yield link
        finally:
            for one in ways:
                one.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.close()


async def _up(reader: asyncio.StreamReader, far: WebSocket) -> None:
    while line := await reader.readline():
        await far.send(json.loads(line))


async def _down(far: WebSocket, writer: asyncio.StreamWriter) -> None:
    """Its end ends the line."""
    try:
        while True:
            writer.write(json.dumps(await far.receive()).encode() + b"\n")
            await writer.drain()
    except (Closed, ConnectionError):
        writer.close()
