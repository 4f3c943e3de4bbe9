"""Addresses of the net: split, turned from names into numbers, and judged: public ones only, and what is allowed."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import urlsplit

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class NetError(OSError):
    """Nothing was fetched; its text is a sentence for a person."""


class NotReached(NetError):
    """No connection came about: nobody was asked anything."""


class NotPublic(NetError):
    """An address that is private, malformed or of another kind. `is_private`: it could be allowed; `is_loopback`: it is
    this machine's own."""

    def __init__(self, text: str, *, is_private: bool = False, is_loopback: bool = False) -> None:
        super().__init__(text)
        self.is_private, self.is_loopback = is_private, is_loopback


class WebHost(NamedTuple):
    """A server of the web; `host` is a name in ASCII, or a number without brackets."""

    scheme: str
    host: str
    port: int

    @property
    def named(self) -> str:
        """The host as it stands in an address and in the Host header: with its port, where that isn't the usual one."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"


_PORTS = {"http": 80, "https": 443}


def host_of(url: str) -> WebHost:
    """The server that a URL names. Raises NotPublic for all but plain http and https."""
    try:
        parts = urlsplit(url)
        scheme, host = parts.scheme.lower(), parts.hostname or ""
        if scheme not in _PORTS or not host or parts.username is not None or parts.password is not None:
            raise NotPublic("only http:// and https:// addresses without a name and password are fetched")
        port = _PORTS[scheme] if parts.port is None else parts.port
        if not re.fullmatch(r"[a-z0-9._-]{1,253}|[0-9a-f:.]+(?:%[a-z0-9._-]+)?", host := _ascii(host)) or not port:
            raise ValueError(url)
        return WebHost(scheme, host, port)
    except ValueError:
        raise NotPublic("this is no usable address") from None


def _ascii(host: str) -> str:
    return (host if host.isascii() else host.encode("idna").decode("ascii")).casefold()


def check_allowed(entry: str) -> str:
    """An entry of those that are allowed as it is compared. Raises ValueError for what is no name or name:port."""
    host, port = entry.strip(), ""
    if found := re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](?::(\d+))?|([^\s:/\[\]@]+)(?::(\d+))?", host):
        host, port = found[1] or found[3], found[2] or found[4] or ""
    if "*" in host or (port and not 0 < int(port) < 65536):
        raise ValueError(entry)
    try:
        host = str(ipaddress.ip_address(host))
    except ValueError:
        if not found or found[1]:
            raise ValueError(entry) from None
        host = _ascii(host)
    return f"{host} {port}".strip()


def is_allowed(host: str, port: int, allow: Collection[str]) -> bool:
    """True where a host is opened by its name, as `name` or `name:port`. What a name leads to opens nothing: whoever
    owns a name decides where it leads."""
    try:
        mine = check_allowed(f"[{host}]" if ":" in host else host)
    except ValueError:
        return False
    return not {mine, f"{mine} {port}"}.isdisjoint(check_allowed(one) for one in allow)


async def public_addresses(host: str, port: int, *, allow: Collection[str] = (), loopback: bool = False) -> list[str]:
    """The addresses of a name, resolved once. All of them must be public, unless `allow` names it or, with `loopback`,
    they are this machine's. Raises NetError."""
    addresses = list(dict.fromkeys(await _addresses(host, port)))
    if not is_allowed(host, port, allow):
        for address in addresses:
            ip = _unwrapped(address)
            if not _is_public(ip) and not (ip.is_loopback and loopback):
                where = "this machine" if ip.is_loopback else "private"
                text = f"{host} is at {ip}, which is {where}. Only public pages are read"
                raise NotPublic(text, is_private=True, is_loopback=ip.is_loopback)
    return addresses


def _is_public(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return ip.is_global and not ip.is_multicast


async def _addresses(host: str, port: int) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [str(place[0]) for *_, place in found]
    except (socket.gaierror, UnicodeError) as error:
        if isinstance(error, socket.gaierror) and error.errno in (socket.EAI_AGAIN, socket.EAI_FAIL):
            raise NotReached(f"{host} cannot be looked up: the name service (DNS) does not answer") from None
        raise NotReached(f"{host} has no address: {error.args[-1]}") from None


def _unwrapped(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address, or the older one that it carries within."""
    ip = ipaddress.ip_address(address.split("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else ip)
