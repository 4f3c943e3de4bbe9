"""The checker of addresses: private ones in every spelling are refused, public ones allowed."""

import asyncio
import ipaddress
import socket
from contextlib import suppress

import pytest

from nanoclaw.net.page import fetch
from nanoclaw.net.proxy import JudgingProxy
from nanoclaw.net.public import NetError, NotPublic, NotReached, WebHost, host_of, is_public, public_addresses, shown
from tests.examples import examples
from tests.net.web_server import opened, reply, serving

NAMES = {
    "ours.test": ["127.0.0.1"],
    "localhost": ["127.0.0.1", "::1"],
    "router.test": ["192.168.1.1"],
    "metadata.google.internal": ["169.254.169.254"],
    "six.test": ["fd00:ec2::254"],
    "zone.test": ["fe80::1%eth0"],
    "mapped.test": ["::ffff:10.0.0.1"],
    "both.test": ["93.184.215.14", "10.0.0.1"],
    "10.0.0.1.test": ["10.0.0.1"],
    "xn--mnchen-3ya.test": ["192.168.0.7"],
    "shop.test": ["93.184.215.14"],
    "shops.test": ["93.184.215.14", "2606:2800:220:1::1"],
    "xn--bcher-kva.test": ["93.184.215.14"],
    "xn--strae-oqa.test": ["93.184.215.14"],
    "nat64.test": ["64:ff9b::5db8:d70e"],
}


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A name service that knows these names alone; the names that it was asked for."""
    asked: list[str] = []

    async def look_up(_: object, host: str, port: int, **more: object) -> list[tuple[object, ...]]:
        asked.append(host)
        if host == "down.test":
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        if host not in NAMES:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, 1, 6, "", (one, port)) for one in NAMES[host]]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", look_up)
    return asked


ADDRESSES = examples(__file__, "addresses.jsonl")
PUBLIC: dict[str, str] = dict(ADDRESSES["public"])
PRIVATE = [
    *(f"http://{host}/" for kind in ("this machine", "private", "names that lead there") for host in ADDRESSES[kind]),
    *(f"https://{host}:8443/x" for host in ADDRESSES["this machine"][:3]),
    *(one for one in ADDRESSES["odd"] if one != "http://8.8.8.8#@127.0.0.1/@"),
]


async def judged(url: str) -> list[str]:
    place = host_of(url)
    return await public_addresses(place.host, place.port)


def test_there_are_enough_of_both() -> None:
    assert len(set(PRIVATE)) == len(PRIVATE) >= 119
    assert len(PUBLIC) >= 24


async def test_no_private_address_is_reached_however_it_is_written(resolver: list[str]) -> None:
    reached = []
    for url in PRIVATE:
        with suppress(NotPublic):
            reached.append((url, await judged(url)))
    assert reached == []


async def test_a_public_address_is_allowed_however_it_is_written(resolver: list[str]) -> None:
    found = {}
    for url in PUBLIC:
        try:
            found[url] = (await judged(url))[0]
        except NetError as error:
            found[url] = str(error)
    assert {url: str(ipaddress.ip_address(one)) for url, one in found.items()} == {
        url: str(ipaddress.ip_address(one)) for url, one in PUBLIC.items()
    }


async def test_each_of_them_is_judged_alike_by_the_proxy_of_browser_and_sandbox(resolver: list[str]) -> None:
    proxy = JudgingProxy()
    for url in PRIVATE[::7]:
        with pytest.raises(NotPublic):
            place = host_of(url)
            await proxy.check(place.host, place.port)
    assert proxy.refusals


def test_whatever_python_knows_to_be_private_is_private_here_too() -> None:
    """But for what carries an address within, which is judged by that, and for addresses of public services."""
    from ipaddress import _IPv4Constants, _IPv6Constants  # type: ignore[attr-defined]

    for net in (*_IPv4Constants._private_networks, *_IPv6Constants._private_networks):
        if net.network_address.packed.endswith(b"\xff\xff" + bytes(4)):  # ::ffff:0:0/96
            continue
        for number in (net[0], net[-1], net[net.num_addresses // 2]):
            assert not is_public(number), number


async def test_a_page_is_asked_for_past_every_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(reply(b"page")) as (address, _), serving(reply(b"a proxy's")) as (proxy, asked):
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        monkeypatch.setenv("no_proxy", "")
        assert (await fetch(address, 100, allow=opened(address))).text == "page"
        with pytest.raises(NotPublic):
            await fetch("http://10.0.0.1/", 100)
        assert asked == []


async def test_a_name_service_that_is_down_is_said_to_be_down(
    resolver: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotReached, match=r"down.test cannot be looked up: the name service \(DNS\) does not answer"):
        await judged("http://down.test/")
    with pytest.raises(NotReached, match=r"nowhere\.test has no address: Name or service not known"):
        await judged("http://nowhere.test/")

    async def mute(*_: object, **more: object) -> list[tuple[object, ...]]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", mute)
    monkeypatch.setattr("nanoclaw.net.public.RESOLVE_SECONDS", 0)
    with pytest.raises(NotReached, match="name service"):
        await judged("http://shop.test/")


@pytest.mark.parametrize(("url", "told"), ADDRESSES["a url is told without its name and password"])
def test_a_url_is_told_without_its_name_and_password(url: str, told: str) -> None:
    assert shown(url) == told


async def test_where_a_page_leads_is_told_without_name_and_password() -> None:
    for more, redirects in (("http://me:hidden@127.0.0.1/", 0), ("http://me:hidden@127.0.0.1/", 2)):
        moved = reply(b"", status="302 Found", more=f"Location: {more}\r\n")
        async with serving(*[moved] * 2) as (address, _):
            with pytest.raises(NetError) as error:
                await fetch(address, 100, allow=opened(address), redirects=redirects)
            assert "hidden" not in str(error.value)
            assert "127.0.0.1" in str(error.value)


def test_a_server_is_named_in_one_spelling() -> None:
    assert host_of("HTTPS://0x7F.1:443/") == WebHost("https", "127.0.0.1", 443)
    assert host_of("http://BÜCHER。test.:81/") == WebHost("http", "xn--bcher-kva.test", 81)
    assert host_of("http://[2606:4700:0:0::1]/").named == "[2606:4700::1]"
