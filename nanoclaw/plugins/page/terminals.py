"""Terminals of other machines (`nanoclaw attach`): each message of a web socket is a frame of the home's own socket."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.responses import JSONResponse
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from nanoclaw.home_socket import LONGEST, in_reach
from nanoclaw.net.loopback import is_loopback
from nanoclaw.plugins.page.tokens import ApiTokens, TokenRefused

NO_FILES = "files of another machine are not taken here; the page takes them"


def routes(home: Path, tokens: ApiTokens) -> list[WebSocketRoute]:
    """The route that leads to the terminals of a home, for who has a token."""

    async def attached(far: WebSocket) -> None:
        try:
            if far.url.scheme != "wss" and not is_loopback(far.client.host if far.client else ""):
                raise TokenRefused("This needs TLS: a proxy with it says so by X-Forwarded-Proto: https.", 403)
            await tokens.name_in(header := far.headers.get("authorization", ""))
            near = socket.socket(socket.AF_UNIX)
            in_reach(str(home), near.connect)  # it listens in this process: nothing is waited for
            reader, writer = await asyncio.open_unix_connection(sock=near, limit=2 * LONGEST)
        except TokenRefused as refusal:
            await far.send_denial_response(JSONResponse({"error": str(refusal)}, refusal.status))
            return
        except OSError as error:
            await far.send_denial_response(JSONResponse({"error": f"No terminal can attach: {error.strerror}."}, 503))
            return
        await far.accept()

        async def holds() -> None:
            await tokens.name_in(header)  # it may have been revoked

        ways = {asyncio.create_task(_in(far, writer, holds)), asyncio.create_task(_out(reader, far, holds))}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            writer.close()
            for one in ways:
                one.cancel()
            await asyncio.gather(*ways, return_exceptions=True)  # whatever ended one way ends the line

    return [WebSocketRoute("/attach", attached)]


async def _in(far: WebSocket, writer: asyncio.StreamWriter, holds: Callable[[], Awaitable[None]]) -> None:
    """Whoever attaches may talk, and no more: files would be those of this machine."""
    while isinstance(frame := json.loads(await far.receive_text()), dict) and frame.get("want", "chat") == "chat":
        await holds()
        if frame.get("files"):
            await far.send_text(json.dumps({"rejected": frame.get("id"), "why": NO_FILES}))
        else:
            writer.write(json.dumps(frame).encode() + b"\n")
            await writer.drain()


async def _out(reader: asyncio.StreamReader, far: WebSocket, holds: Callable[[], Awaitable[None]]) -> None:
    while line := await reader.readline():
        await holds()
        await far.send_text(line.decode().rstrip("\n"))
    await far.close()
