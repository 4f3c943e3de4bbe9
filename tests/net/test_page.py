"""Pages of the net: public ones only, bounded, and of HTML only what is to be read."""

import asyncio
import socket

import pytest

from nanoclaw.net.page import fetch
from nanoclaw.net.public import NetError, NotPublic, is_allowed, public_addresses
from tests.net.web_server import opened, reply, serving


async def test_a_page_is_asked_for_plainly_and_read() -> None:
    html = (
        b"<html><head><title>Shop</title><style>a{}</style></head><body><h1>Lamp</h1><p>10 &euro;<script>t=1</script>"
    )
    async with serving(reply(html, "text/html; charset=utf-8")) as (address, asked):
        assert (await fetch(f"{address}/a b?c=ä", 10_000, allow=opened(address))).text == "Shop\nLamp\n10 €"
        head = asked[0].decode().split("\r\n")
        assert head[0] == "GET /a%20b?c=%C3%A4 HTTP/1.1"
        assert not any(line.lower().startswith(("cookie", "authorization")) for line in head)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (reply(b"", status="404 Not Found"), "answered 404"),
        (reply(b"", status="302 Found", more="Location: http://169.254.169.254/latest\r\n"), "at another address"),
        (b"SSH-2.0-x\r\n", "not a web server"),
        (b"SSH-2.0-x\r\n\r\n", "not a web server"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, "not a web server"),
    ],
)
async def test_what_is_no_page_is_said(answer: bytes, said: str) -> None:
    async with serving(answer) as (address, asked):
        with pytest.raises(NetError) as failed:
            await fetch(address, 10_000, allow=opened(address))
        assert said in str(failed.value)
        assert len(asked) == 1  # no redirect is followed


async def test_a_private_place_is_read_where_it_is_allowed_by_its_name() -> None:
    async with serving(*[reply(b"hello")] * 2) as (address, _):
        port = address.rpartition(":")[2]
        for allow in (["127.0.0.1"], [f"127.0.0.1:{port}"]):
            assert (await fetch(address, 100, allow=allow)).text == "hello"
        for other in ("localhost", f"localhost:{port}", "127.0.0.1:1", "127.0.0.2", ""):
            with pytest.raises(NotPublic, match="this machine"):
                await fetch(address, 100, allow=[other] if other else [])


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        *(("Intranet.LAN", "intranet.lan", 443), ("intranet.lan:81", "intranet.lan", 81), ("::1", "::1", 80)),
        *(("[::1]:80", "::1", 80), ("[0:0::1]", "::1", 80), ("bücher.lan", "xn--bcher-kva.lan", 80)),
    ],
)
def test_a_name_is_compared_as_it_is_meant(entry: str, host: str, port: int) -> None:
    assert is_allowed(host, port, [entry])
    assert not is_allowed(host + "0", port, [entry])


async def test_a_name_that_leads_to_an_allowed_place_is_not_allowed_by_that(monkeypatch: pytest.MonkeyPatch) -> None:
    async def here(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, 1, 6, "", ("127.0.0.1", 9))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", here)
    with pytest.raises(NotPublic, match="this machine"):
        await public_addresses("rebinding.example", 9, allow=["127.0.0.1:9"])


async def test_an_endless_page_is_cut() -> None:
    async with serving(reply(b"x" * 3_000_000)) as (address, _):
        assert len((await fetch(address, 100_000, allow=opened(address))).body) == 100_000


async def test_chunks_that_nobody_asked_for_are_joined() -> None:
    chunked = reply(b"5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n", more="Transfer-Encoding: chunked\r\n")
    async with serving(chunked) as (address, _):
        assert (await fetch(address, 10_000, allow=opened(address))).text == "hello!"
