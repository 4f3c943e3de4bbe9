"""A web server on loopback that says exactly what a test gives it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def serving(*replies: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server on loopback that gives these replies one after the other: its address, and what it was asked."""
    asked: list[bytes] = []
    left = list(replies)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(left.pop(0))
        with suppress(OSError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()


def opened(address: str) -> tuple[str]:
    """The setting net.allow that lets a server be reached."""
    return (address.partition("//")[2],)


def reply(body: bytes, kind: str = "text/plain", status: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}\r\n".encode() + body
