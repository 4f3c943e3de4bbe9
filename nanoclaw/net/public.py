"""The one checker of addresses that others wrote: split, turned from names into numbers, judged. Public ones only, and
what is allowed."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

RESOLVE_SECONDS = 15.0
"""For looking up one name."""

_Number = ipaddress.IPv4Address | ipaddress.IPv6Address

# From the registries of IANA (iana-ipv4-special-registry, iana-ipv6-special-registry) what not every Python knows of
# them; with what the registries leave out and is not a public page either.
_PRIVATE_4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "168.63.129.16/32",  # Azure's own service to its machines, at a number that is else public
            "192.0.0.0/24",  # of protocols, with 192.0.0.192: metadata of Oracle's machines
            "192.88.99.0/24",  # relays of 6to4
            "224.0.0.0/4",  # multicast
        ),
    )
)
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")
"""All that is given out: fc00::/7 with fd00:ec2::254, fe80::/10, fec0::/10, ff00::/8, 64:ff9b:1::/48, 100::/64,
5f00::/16 and IPv4-compatible ::/96 are outside of it."""
_PRIVATE_6 = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # of protocols: Teredo, benchmarks, ORCHID, …
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
        ),
    )
)
_MAPPED, _NAT64 = ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)


class NetError(OSError):
    """Nothing was fetched; its text is a sentence for a person. `opens` is one on how they open a private address."""

    opens = ""


class NotReached(NetError):
    """No connection came about: nobody was asked anything."""


class NotPublic(NetError):
    """An address that is private, malformed or of another kind."""

    def __init__(self, text: str, *, opens: str = "") -> None:
        super().__init__(text)
        self.opens = opens


class WebHost(NamedTuple):
    """A server of the web; `host` is a name in ASCII, or a number without brackets."""

    scheme: str
    host: str
    port: int

    @property
    def named(self) -> str:
        """The host as written in an address and in the Host header: with its port, where that isn't the usual one."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"


_PORTS = {"http": 80, "https": 443}


def host_of(url: str) -> WebHost:
    """The server that a URL names, however it is spelled: a number in each of its forms is the number, as browsers read
    it. Raises NotPublic for all but plain http and https."""
    try:
        parts = urlsplit(url)
        scheme, host = parts.scheme.lower(), parts.hostname or ""
        if "@" in parts.netloc:
            raise NotPublic("a name and password in an address are not sent: leave out what stands before the @")
        if scheme not in _PORTS or not host:
            raise NotPublic("only http:// and https:// addresses are fetched")
        port = _PORTS[scheme] if parts.port is None else parts.port
        if not port or ("[" in parts.netloc) != (":" in host):
            raise ValueError(url)
        return WebHost(scheme, _host(host), port)
    except (ValueError, UnicodeError):
        raise NotPublic("this is not a usable address") from None


def shown(url: str) -> str:
    """A URL as it may be told and logged: one line, not endless, without a name and password."""
    bare = re.sub(_NAMED_LOOSELY, r"\1", "".join(url.split()))
    bare = re.sub(_NAMED, r"\1", bare)
    return bare if len(bare) <= 300 else f"{bare[:299]}…"


_NAMED = re.compile(r"^((?:\w+:)?[/\\]*)[^/\\?#]*@")
_NAMED_LOOSELY = re.compile(r"^((?:\w+:(?=[/\\]))?[/\\]*)[^/\\?#@:]*:(?!\d*(?:[/\\?#]|$)).*@")
"""The same with characters that end a host within the password."""


def _host(host: str) -> str:
    """A name in ASCII, or a number in its one spelling. Raises ValueError."""
    if ":" in host:
        return str(ipaddress.IPv6Address(host)) if "%" not in host else _fail(host)
    name = _ascii(unquote(host, errors="strict")).removesuffix(".")
    if not re.fullmatch(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*", name) or len(name) > 253:
        _fail(host)
    if re.fullmatch(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)", name):  # its last part makes it a number
        try:  # one to four parts, each decimal, octal (017) or hexadecimal (0xf); the last one fills up the rest
            return socket.inet_ntoa(socket.inet_aton(name))
        except OSError:
            _fail(host)
    return name


def _fail(host: str) -> str:
    raise ValueError(host)


def _ascii(host: str) -> str:
    """A name as the name service knows it. Raises ValueError."""
    if host.isascii():
        return host.lower()
    import idna

    try:
        return idna.encode(host, uts46=True).decode("ascii").lower()
    except idna.IDNAError:  # such as names of pictures, which older rules let be
        return host.encode("idna").decode("ascii").lower()


def check_allowed(entry: str) -> str:
    """An entry of those that are allowed as it is compared. Raises ValueError for what is not a name or name:port."""
    host, port = entry.strip(), ""
    if found := re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](?::(\d+))?|([^\s:/\[\]@]+)(?::(\d+))?", host):
        host, port = found[1] or found[3], found[2] or found[4] or ""
    if "*" in host or (port and not 0 < int(port) < 65536):
        raise ValueError(entry)
    if not found and ":" not in host:
        raise ValueError(entry)
    if found and found[1]:
        ipaddress.IPv6Address(found[1])  # brackets hold nothing else
    return f"{_host(host)} {port}".strip()


def is_allowed(host: str, port: int, allow: Collection[str]) -> bool:
    """True if a host is opened by its name, as `name` or `name:port`. What a name leads to opens nothing: whoever owns
    a name decides where it leads."""
    try:
        mine = check_allowed(f"[{host}]" if ":" in host else host)
    except ValueError:
        return False
    return not {mine, f"{mine} {port}"}.isdisjoint(check_allowed(one) for one in allow)


async def public_addresses(host: str, port: int, *, allow: Collection[str] = ()) -> list[str]:
    """The addresses of a name, resolved once. All of them must be public, unless `allow` names it. Raises NetError."""
    addresses = list(dict.fromkeys(await _addresses(host, port)))
    if not is_allowed(host, port, allow):
        for address in addresses:
            ip = _number(address)
            if not is_public(ip):
                where = "this machine" if ip.is_loopback or ip.is_unspecified else "a private address"
                named = host if host == str(ip) else f"{host} ({ip})"
                entry = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                opens = f' The person can open it in config.toml: [net] allow = ["{entry}"]'
                raise NotPublic(f"{named} is {where}. Only public pages are read", opens=opens)
    return addresses


def is_public(ip: _Number) -> bool:
    """True for a number that the public net knows; one that carries an older one within is as public as that."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip.is_global and not any(ip in net for net in _PRIVATE_4)
    if ip in _MAPPED or ip in _NAT64:
        return is_public(_within(ip))
    if int(ip) >> 32 & 0xFFFFFFFF in _ISATAP and not is_public(_within(ip)):
        return False
    return ip in _GLOBAL_6 and not any(ip in net for net in _PRIVATE_6)


async def _addresses(host: str, port: int) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    down = f"{host} cannot be looked up: the name service (DNS) does not answer"
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [str(place[0]) for *_, place in found]
    except TimeoutError:
        raise NotReached(down) from None
    except (socket.gaierror, UnicodeError) as error:
        if isinstance(error, socket.gaierror) and error.errno in (socket.EAI_AGAIN, socket.EAI_FAIL):
            raise NotReached(down) from None
        raise NotReached(f"{host} has no address: {error.args[-1]}") from None


def _number(address: str) -> _Number:
    """An address without its zone; one that is an older one in other words is that. Raises ValueError."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    is_wrapped = isinstance(ip, ipaddress.IPv6Address) and (ip in _MAPPED or ip in _NAT64)
    return _within(ip) if is_wrapped else ip


def _within(ip: _Number) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
