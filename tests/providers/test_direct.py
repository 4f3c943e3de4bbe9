"""Connections to a model's server: kept, given up, and heard to their end."""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from socket import SO_LINGER, SOL_SOCKET

import pytest

from nanoclaw.net.slim_httpx import httpx
from nanoclaw.providers.direct import Direct

ANSWER = b"HTTP/1.1 413 Too much\r\ncontent-length: 2\r\n\r\n{}"


class Server:
    """Answers each request of few bytes at once; `writers` are of the connections in order."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        while head := await reader.read(4096):
            writer.write(ANSWER)
            if len(head) == 4096:  # it has heard enough
                writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
                for _ in range(5):  # the answer arrives before the connection breaks
                    await asyncio.sleep(0)
                writer.transport.abort()


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    one = Server()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with httpx.AsyncClient(transport=Direct(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))) as client:
        yield one, client
    server.close()


async def test_a_connection_is_kept_until_its_server_closes_it() -> None:
    async with asking() as (server, client):
        for _ in range(3):
            assert (await client.post(server.url, content=b"x")).text == "{}"
        assert len(server.writers) == 1
        server.writers[0].close()
        await server.writers[0].wait_closed()
        assert (await client.post(server.url, content=b"x")).status_code == 413
        assert len(server.writers) == 2


async def test_requests_at_once_have_a_connection_each() -> None:
    async with asking() as (server, client):
        await asyncio.gather(*(client.get(server.url) for _ in range(3)))
        assert len(server.writers) == 3


async def test_a_server_that_has_heard_enough_is_heard() -> None:
    async with asking() as (server, client):
        answer = await client.post(server.url, content=bytes(30_000_000))
        assert (answer.status_code, answer.text) == (413, "{}")


async def test_an_impossible_port_is_no_connection() -> None:
    async with asking() as (_, client):
        with pytest.raises(httpx.ConnectError):
            await client.get("http://127.0.0.1:99999")
