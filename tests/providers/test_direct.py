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


def reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Server:
    """Answers each request of few bytes at once; `writers` are of the connections in order."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.url, self.answer = "", ANSWER

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        while head := await reader.read(4096):
            writer.write(self.answer)
            if len(head) == 4096:  # it has heard enough
                for _ in range(5):  # the answer arrives before the connection breaks
                    await asyncio.sleep(0)
                reset(writer)


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


@pytest.mark.parametrize("is_with_it", [True, False])
async def test_what_a_server_says_unasked_is_nobodys_answer(is_with_it: bool) -> None:
    async with asking() as (server, client):
        server.answer = ANSWER * 2 if is_with_it else ANSWER
        await client.get(server.url)
        if not is_with_it:
            server.writers[0].write(ANSWER)
        server.answer = ANSWER.replace(b"{}", b"[]")
        assert (await client.get(server.url)).text == "[]"


async def test_an_answer_without_a_length_that_breaks_is_not_whole() -> None:
    async with asking() as (server, client):
        server.answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhalf"
        async with client.stream("GET", server.url) as answer:
            body = answer.aiter_bytes()
            assert await anext(body) == b"half"
            reset(server.writers[0])
            with pytest.raises(httpx.ReadError):
                await anext(body)


async def test_a_long_head_comes_in_pieces() -> None:
    async with asking() as (server, client):
        server.answer = ANSWER.replace(b"\r\n", b"\r\nx: " + b"y" * 90_000 + b"\r\n", 1)
        assert (await client.get(server.url)).text == "{}"


async def test_an_impossible_port_is_no_connection() -> None:
    async with asking() as (_, client):
        with pytest.raises(httpx.ConnectError):
            await client.get("http://127.0.0.1:99999")
