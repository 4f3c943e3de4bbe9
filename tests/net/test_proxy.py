"""The browser's only way to the net: each request judged, none to a private place that isn't allowed."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from nanoclaw.net.proxy import JudgingProxy
from tests.examples import examples
from tests.net.web_server import reply, serving

REQUESTS = examples(__file__, "requests.jsonl")


@asynccontextmanager
async def proxied(*allow: str) -> AsyncIterator[tuple[JudgingProxy, int]]:
    proxy = JudgingProxy(allow)
    try:
        yield proxy, urlsplit(await proxy.start()).port or 0
    finally:
        await proxy.aclose()


async def said(port: int, *requests: str) -> str:
    """All that the proxy answers to what is written at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write("".join(requests).encode())
        return (await reader.read()).decode()
    finally:
        writer.close()


async def test_a_request_is_passed_on_in_its_own_words_without_those_for_the_proxy() -> None:
    async with serving(reply(b"hello")) as (address, asked), proxied(place := urlsplit(address).netloc) as (_, port):
        head = f"Host: {place}\r\nProxy-Connection: keep-alive\r\nCookie: a=1\r\nContent-Length: 4\r\n\r\n"
        answer = await said(
            port, f"POST {address}/a%20b?c=1 HTTP/1.1\r\n{head}", "body", "GET http://10.0.0.1/ HTTP/1.1"
        )
        assert answer.endswith("hello") and "Connection: close" in answer
        first, *headers = asked[0].decode().split("\r\n")
        assert first == "POST /a%20b?c=1 HTTP/1.1"
        assert "Cookie: a=1" in headers and "Connection: close" in headers
        assert not any(line.startswith("Proxy-") for line in headers)
        assert b"10.0.0.1" not in b"".join(asked)  # what follows a request goes nowhere


@pytest.mark.parametrize("request_line", REQUESTS["a private place gets nothing however it is written"])
async def test_a_private_place_gets_nothing_however_it_is_written(request_line: str) -> None:
    async with serving(reply(b"secret")) as (address, asked), proxied("127.0.0.1:1") as (_, port):
        place = urlsplit(address)
        line = request_line.format(place=place.netloc, port=place.port)
        answer = await said(port, f"{line}\r\nHost: x\r\n\r\n")
        assert answer.startswith("HTTP/1.1 403"), answer
        assert "secret" not in answer and asked == []


@pytest.mark.parametrize("bytes_", REQUESTS["where hosts are named no other is reached"])
async def test_where_hosts_are_named_no_other_is_reached(bytes_: str) -> None:
    async with serving(reply(b"secret")) as (address, asked):
        place = urlsplit(address).netloc
        proxy = JudgingProxy([place], [place])
        port = urlsplit(await proxy.start()).port or 0
        try:
            assert "200" not in (await said(port, bytes_.format(place=place))).partition("\r\n")[0]
            assert asked == []
        finally:
            await proxy.aclose()


async def test_a_request_names_the_server_that_was_judged() -> None:
    async with serving(reply(b"hello")) as (address, asked), proxied(place := urlsplit(address).netloc) as (_, port):
        await said(port, f"GET {address}/ HTTP/1.1\r\nHost: other\r\nhost : third\r\n\r\n")
        assert [line for line in asked[0].lower().split(b"\r\n") if b"host" in line] == [f"host: {place}".encode()]


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanoclaw.net.proxy.AT_ONCE", 2)
    async with serving(reply(b"hello")) as (address, _), proxied(urlsplit(address).netloc) as (_, port):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        with pytest.raises((ConnectionError, EOFError)):
            await (await asyncio.open_connection("127.0.0.1", port))[0].readexactly(1)
        held[0][1].close()
        answer = ""
        while not answer:
            with suppress(ConnectionError):
                answer = await said(port, f"GET {address}/ HTTP/1.1\r\n\r\n")
        assert answer.endswith("hello")
        held[1][1].close()


async def test_a_refusal_says_how_the_owner_opens_the_place() -> None:
    async with proxied() as (proxy, port):
        await said(port, "CONNECT localhost:8080 HTTP/1.1\r\n\r\n")
        (told,) = proxy.refusals
        assert "this machine" in told and '[net] allow = ["localhost:8080"]' in told


async def test_a_tunnel_carries_both_ways_until_one_of_the_two_is_done() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, proxied(place) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\nhello\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await reader.readline() == b"HELLO\n"
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()


async def test_a_name_is_looked_up_once_and_what_was_judged_is_what_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up, look_up = list[Any](), socket.getaddrinfo

    def counted(host: Any, *more: Any, **named: Any) -> Any:
        looked_up.append(host)
        return look_up("127.0.0.1" if host == "localhost" else host, *more, **named)

    async with serving(reply(b"hello")) as (address, _), proxied("localhost") as (_, port):
        monkeypatch.setattr(socket, "getaddrinfo", counted)
        where = f"localhost:{urlsplit(address).port}"
        assert (await said(port, f"GET http://{where}/ HTTP/1.1\r\nHost: {where}\r\n\r\n")).endswith("hello")
        assert [host for host in looked_up if host != "127.0.0.1"] == ["localhost"]


async def test_a_server_that_is_not_there_and_one_that_is_none_are_told_apart_from_a_refusal() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
        async with proxied("127.0.0.1") as (proxy, port):
            answer = await said(port, f"GET http://{place}/ HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answer.startswith("HTTP/1.1 502") and "refused" in proxy.failures["127.0.0.1"]
            assert proxy.refusals == {}


@pytest.mark.parametrize("bytes_", [b"", b"\0\1\2\3\r\n\r\n", b"GET\r\n\r\n", b"G" * 300_000, b"GET x y z\r\n\r\n"])
async def test_what_speaks_no_http_is_let_go(bytes_: bytes) -> None:
    async with proxied() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(bytes_)
        writer.write_eof()
        with suppress(ConnectionError):
            assert b"200" not in await reader.read()
        writer.close()


async def test_its_end_ends_what_it_carries() -> None:
    held = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        async with proxied(place) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"CONNECT {place} HTTP/1.1\r\n\r\n".encode())
            await held.wait()
        assert (await reader.read()).endswith(b"\r\n\r\n")  # and then nothing more
        writer.close()
