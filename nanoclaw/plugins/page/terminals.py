"""Terminals of other machines (`nanoclaw attach`): each message of a web socket is a frame of the home's own socket."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from nanoclaw.home_socket import LONGEST, in_reach
from nanoclaw.net import is_loopback
from nanoclaw.plugins.page.tokens import ApiTokens, RequestRefused


def routes(home: Path, tokens: ApiTokens) -> list[BaseRoute]:
    """The route that leads to the terminals of a home, for who has a token."""

    async def attached(far: WebSocket) -> None:
        try:
            if far.url.scheme != "wss" and not is_loopback(far.client.host if far.client else ""):
                raise RequestRefused(403, "This needs TLS: a proxy with it says so by X-Forwarded-Proto: https.")
            await tokens.name_in(header := far.headers.get("authorization", ""))
            near = socket.socket(socket.AF_UNIX)
            in_reach(str(home), near.connect)  # it listens in this process: nothing is waited for
            reader, writer = await asyncio.open_unix_connection(sock=near, limit=2 * LONGEST)
        except (RequestRefused, OSError) as error:
            await far.send_denial_response(JSONResponse({"error": str(error)}, getattr(error, "status", 503)))
            return
        await far.accept()

        async def revoked() -> None:
            while await tokens.revoked.wait():
                await tokens.name_in(header)

        ways = {asyncio.create_task(one) for one in (_in(far, writer), _out(reader, far), revoked())}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            writer.close()
            for one in ways:
                one.cancel()
            await asyncio.gather(*ways, return_exceptions=True)  # whatever ended one way ends the line

    return [WebSocketRoute("/attach", attached)]


async def _in(far: WebSocket, writer: asyncio.StreamWriter) -> None:
    """Whoever attaches may talk, and no more: files would be those of this machine."""
    while isinstance(frame := json.loads(await far.receive_text()), dict) and frame.get("want", "chat") == "chat":
        if frame.get("files"):
            await far.send_json({"rejected": frame.get("id"), "why": "files don't come this way; the page takes them"})
        else:
            writer.write(json.dumps(frame).encode() + b"\n")
            await writer.drain()


async def _out(reader: asyncio.StreamReader, far: WebSocket) -> None:
    while line := await reader.readline():
        await far.send_text(line.decode().rstrip("\n"))
    await far.close()
