"""The checker of addresses: private ones in every spelling are refused, public ones allowed."""

import asyncio
import ipaddress
import socket
from contextlib import suppress

import pytest

from nanoclaw.net.page import fetch
from nanoclaw.net.proxy import JudgingProxy
from nanoclaw.net.public import NetError, NotPublic, NotReached, WebHost, host_of, is_public, public_addresses, shown
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


LOOPBACK = (
    *("127.0.0.1", "127.1", "127.0.1", "127.0.0.1.", "127.255.255.254", "2130706433", "0x7f000001", "0x7F.1"),
    *("017700000001", "0177.0.0.1", "0177.0.0.01", "0x7f.0.0.0x1", "0x7f.0x0.0x0.0x1", "127.0x0.0.1", "0177.1"),
    *("00000177.0.0.1", "0x0000007f.1", "127.00.0.1", "127.0.0x1", "127.65530", "0x7f.0377.0377.1", "2130706433."),
    *("１２７.0.0.1", "１２７。０。０。１", "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "①②⑦.⓪.⓪.①", "𝟏𝟐𝟕.𝟎.𝟎.𝟏"),
    *("%31%32%37.0.0.1", "127%2e0%2e0%2e1", "0%78%37f.1", "0Ⅹ7f.1", "１２７.1", "0ｘ7f.1"),
    *("[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:1]"),
    *("[::127.0.0.1]", "[::7f00:1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::1%lo]"),
    *("[2001:0:4136:e378:8000:63bf:80ff:fffe]", "[2606:4700::5efe:127.0.0.1]", "[2606:4700::200:5efe:7f00:1]"),
)
INNER = (
    *("0.0.0.0", "0", "0.0.0.1", "0.1.2.3", "00", "0x0", "[::]", "[::0]", "[::ffff:0.0.0.0]", "10.0.0.1", "10.1"),
    *(
        "012.0.0.1",
        "0xa.1.2.3",
        "167772161",
        "10.255.255.255",
        "172.16.0.1",
        "172.31.255.254",
        "0254.16.0.1",
        "192.168.1",
    ),
    *(
        "192.168.0.1",
        "0xc0a80001",
        "3232235521",
        "030052000001",
        "0300.0250.0.1",
        "１９２.１６８.1.1",
        "169.254.169.254",
    ),
    *("2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "[::ffff:169.254.169.254]", "169.254.0.23"),
    *(
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "0x64646464c8",
        "1684301000",
    ),
    *("168.63.129.16", "0xa83f8110", "192.0.0.192", "192.0.0.1", "192.0.0.170", "100.64.0.1", "100.127.255.255"),
    *("192.0.2.1", "198.51.100.7", "203.0.113.9", "198.18.0.1", "198.19.255.255", "192.88.99.1", "224.0.0.1"),
    *("239.255.255.250", "240.0.0.1", "255.255.255.255", "4294967295", "0xffffffff", "[ff02::1]", "[ff0e::1]"),
    *("[fc00::1]", "[fdff::1]", "[fe80::1]", "[fe80::1%25eth0]", "[febf::1]", "[fec0::1]", "[feff::1]", "[100::1]"),
    *("[64:ff9b:1::1]", "[64:ff9b:1::808:808]", "[5f00::1]", "[2001:db8::1]", "[3fff::1]", "[2001::1]", "[2001:2::1]"),
    *("[2001:10::1]", "[2001:20::1]", "[2001:1ff::1]", "[2002::1]", "[2002:808:808::1]", "[::8.8.8.8]", "[::2]"),
    *("[64:ff9b::10.0.0.1]", "[::ffff:a00:1]", "[::ffff:0:127.0.0.1]", "[4000::1]", "[e000::1]", "[1000::1]"),
    *("[2606:4700::5efe:10.0.0.1]", "[2606:4700::5efe:c0a8:1]", "[100:0:0:1::1]", "[::ffff:100.64.0.1]"),
)
LED = (
    *(
        "localhost",
        "LOCALHOST",
        "localhost.",
        "ｌｏｃａｌｈｏｓｔ",
        "loc%61lhost",
        "ours.test",
        "ours。test",
        "router.test",
    ),
    *("metadata.google.internal", "metadata.google.internal.", "six.test", "zone.test", "mapped.test", "both.test"),
    *("10.0.0.1.test", "münchen.test", "MÜNCHEN.test", "xn--mnchen-3ya.test", "m%C3%BCnchen.test"),
)
ODD = (
    *(
        "http://127.0.0.1:80\\@8.8.8.8/",
        "http://8.8.8.8\\@127.0.0.1/",
        "http://8.8.8.8@127.0.0.1/",
        "http://@127.0.0.1/",
    ),
    *("http://8.8.8.8:80@10.0.0.1/", "http://user:word@8.8.8.8/", "http://:@8.8.8.8/", "http://8.8.8.8#@127.0.0.1/@"),
    *(
        "ht\ntp://127.0.0.1/",
        "http://127.0\t.0.1/",
        "http://127.0.0.\r\n1/",
        "\x00http://127.0.0.1/",
        " http://127.0.0.1/",
    ),
    *(
        "http:127.0.0.1",
        "http:/127.0.0.1",
        "http:///127.0.0.1",
        "http:\\\\127.0.0.1",
        "//127.0.0.1",
        "http://[127.0.0.1]",
    ),
    *("http://[::1", "http://::1/", "http://[::1].test/", "http://[v1.a]/", "http://1.2.3.4.5/", "http://256.1.1.1/"),
    *("http://8.8.8.08/", "http://8.8.8.8.0x/", "http://0x1ffffffff/", "http://a..test/", "http://a_b\u2100.test/"),
    *("http://shop.test:0/", "http://shop.test:99999/", "http://shop.test:x/", "http://exa\0mple.test/", "http://a b/"),
    *(
        "file:///etc/passwd",
        "ftp://8.8.8.8/",
        "gopher://8.8.8.8/",
        "javascript:1",
        "data:,x",
        "",
        "http://",
        "https://%",
    ),
)
PRIVATE = [
    *(f"http://{host}/" for host in (*LOOPBACK, *INNER, *LED)),
    *(f"https://{host}:8443/x" for host in LOOPBACK[:3]),
    *(one for one in ODD if one != "http://8.8.8.8#@127.0.0.1/@"),
]

PUBLIC = {
    "http://8.8.8.8/": "8.8.8.8",
    "https://8.8.8.8./": "8.8.8.8",
    "http://134744072/": "8.8.8.8",
    "http://0x08080808/": "8.8.8.8",
    "http://010.010.010.010/": "8.8.8.8",
    "http://8.0x8.010.8/": "8.8.8.8",
    "http://8.8.2056/": "8.8.8.8",
    "http://８.８.８.８/": "8.8.8.8",
    "http://8。8。8。8/": "8.8.8.8",
    "HTTP://1.1.1.1:8080/a?b": "1.1.1.1",
    "http://9.255.255.255/": "9.255.255.255",
    "http://11.0.0.0/": "11.0.0.0",
    "http://100.63.255.255/": "100.63.255.255",
    "http://100.128.0.0/": "100.128.0.0",
    "http://126.255.255.255/": "126.255.255.255",
    "http://128.0.0.1/": "128.0.0.1",
    "http://168.63.129.17/": "168.63.129.17",
    "http://169.253.255.255/": "169.253.255.255",
    "http://172.15.255.255/": "172.15.255.255",
    "http://172.32.0.0/": "172.32.0.0",
    "http://192.0.1.1/": "192.0.1.1",
    "http://192.169.0.1/": "192.169.0.1",
    "http://198.17.255.255/": "198.17.255.255",
    "http://198.20.0.0/": "198.20.0.0",
    "http://223.255.255.255/": "223.255.255.255",
    "http://[2606:4700:4700::1111]/": "2606:4700:4700::1111",
    "https://[2606:4700:4700:0:0:0:0:1111]:8443/": "2606:4700:4700::1111",
    "http://[::ffff:8.8.8.8]/": "::ffff:808:808",
    "http://[64:ff9b::8.8.8.8]/": "64:ff9b::808:808",
    "http://[2a00:1450::5efe:8.8.8.8]/": "2a00:1450::5efe:808:808",
    "http://[2001:200::1]/": "2001:200::1",
    "http://[2001:4860:4860::8888]/": "2001:4860:4860::8888",
    "http://8.8.8.8#@127.0.0.1/@": "8.8.8.8",
    "http://8.8.8.8/http://127.0.0.1/": "8.8.8.8",
    "http://8.8.8.8?@127.0.0.1": "8.8.8.8",
    "http://shop.test/": "93.184.215.14",
    "http://SHOP.test./": "93.184.215.14",
    "http://sh%6fp.test/": "93.184.215.14",
    "http://shops.test/": "93.184.215.14",
    "http://bücher.test/": "93.184.215.14",
    "http://BÜCHER。test/": "93.184.215.14",
    "http://straße.test/": "93.184.215.14",
    "http://nat64.test/": "64:ff9b::5db8:d70e",
}


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
        if str(net) == "::ffff:0:0/96":
            continue
        for number in (net[0], net[-1], net[net.num_addresses // 2]):
            assert not is_public(number), number


async def test_a_name_is_looked_up_once_and_connected_to_where_it_was_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []

    async def turns(_: object, host: str, port: int, **more: object) -> list[tuple[object, ...]]:
        looked.append(host)
        where = "127.0.0.1" if len(looked) == 1 else "10.0.0.1"
        return [(socket.AF_INET, 1, 6, "", (where, port))]

    async with serving(reply(b"judged")) as (address, asked):
        monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", turns)
        monkeypatch.setattr("nanoclaw.net.public.is_public", lambda ip: str(ip) == "127.0.0.1")
        port = address.rpartition(":")[2]
        assert (await fetch(f"http://turns.test:{port}/", 100)).text == "judged"
        assert looked == ["turns.test"]
        assert f"host: turns.test:{port}" in asked[0].decode().lower()


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


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://user:word@shop.test/a?b=c", "https://shop.test/a?b=c"),
        ("https://token@shop.test/", "https://shop.test/"),
        ("user:word@shop.test/a", "shop.test/a"),
        ("https://user:w/o?r#d@shop.test/", "https://shop.test/"),
        ("https://user:w@rd@shop.test/", "https://shop.test/"),
        ("https://shop.test:8080/@ann", "https://shop.test:8080/@ann"),
        ("https://shop.test/@ann", "https://shop.test/@ann"),
        ("shop.test/x?to=a@b", "shop.test/x?to=a@b"),
        ("https://us\ner:word@shop.test/", "https://shop.test/"),
        ("\\\\user:word@shop.test/", "\\\\shop.test/"),
    ],
)
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
