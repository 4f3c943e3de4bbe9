"""Names of hosts turned into addresses that are public."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class NetError(OSError):
    """Nothing was fetched; its text is a sentence for a person."""


class NotPublic(NetError):
    """An address that is private, malformed or of another kind. `is_loopback`: this machine's own."""

    def __init__(self, text: str, is_loopback: bool = False) -> None:
        super().__init__(text)
        self.is_loopback = is_loopback


async def public_address(host: str, port: int, *, loopback: bool = False) -> str:
    """The first address of a name; all of them must be public, or with `loopback` this machine's. Raises NetError."""
    addresses = await _addresses(host, port)
    for address in addresses:
        ip = _unwrapped(address)
        if (not ip.is_global or ip.is_multicast) and not (ip.is_loopback and loopback):
            where = "this machine" if ip.is_loopback else "private"
            raise NotPublic(f"{host} is at {ip}, which is {where}. Only public pages are read", ip.is_loopback)
    return addresses[0]


async def _addresses(host: str, port: int) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [str(place[0]) for *_, place in found]
    except (socket.gaierror, UnicodeError) as error:
        raise NetError(f"{host} has no address: {error}") from None


def _unwrapped(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address, or the older one that it carries within."""
    ip = ipaddress.ip_address(address.split("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else ip)
