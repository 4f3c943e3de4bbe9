"""One plain GET of a page that an item watches: public addresses only, bounded in size, no redirect followed."""

from __future__ import annotations

import asyncio
import html
import ipaddress
import re
import socket
import ssl
import urllib.parse

from nanoclaw import __version__
from nanoclaw.core.errors import Refused, ToolError

HEADER_BYTES = 65_536


async def fetch(address: str, most_bytes: int, *, loopback: bool = False) -> str:
    """The text of a page; of HTML only what is to be read. The caller sets the time limit.

    The address that was checked is the one that is connected to. Raises ToolError (Refused for what is not public) and
    OSError.
    """
    parts = urllib.parse.urlsplit(address)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise Refused("only http:// and https:// addresses without a name and password are watched")
    try:
        port, host = parts.port or (443 if parts.scheme.lower() == "https" else 80), _ascii(parts.hostname)
    except ValueError:
        raise Refused("this is no usable address") from None
    place = await _public(host, port, loopback=loopback)
    secure = ssl.create_default_context() if parts.scheme.lower() == "https" else None
    reader, writer = await asyncio.open_connection(
        place, port, ssl=secure, server_hostname=host if secure else None, limit=HEADER_BYTES
    )
    try:
        path = urllib.parse.quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
        query = "?" + urllib.parse.quote(parts.query, safe="/%:@!$&'()*+,;=~-._?") if parts.query else ""
        name = f"[{host}]" if ":" in host else host
        lines = (
            f"GET {path}{query} HTTP/1.0",
            f"Host: {name}{'' if parts.port is None else f':{port}'}",
            f"User-Agent: nanoclaw/{__version__}",
            "Accept: text/*, application/json, */*;q=0.5",
            "Accept-Encoding: identity",
            "Connection: close",
        )
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
        await writer.drain()
        return _read(*await _receive(reader, most_bytes))
    finally:
        writer.close()


async def _public(host: str, port: int, *, loopback: bool) -> str:
    """The first address of a name; all of them must be public."""
    for place in (places := await _places(host, port)):
        ip = _plain(place)
        if ip.is_loopback and loopback:
            continue
        if not ip.is_global or ip.is_multicast:
            where = "this machine: heartbeat.loopback in config.toml allows it" if ip.is_loopback else "private"
            raise Refused(f"{host} is at {ip}, which is {where}. Only public pages are watched")
    return places[0]


async def _places(host: str, port: int) -> list[str]:
    """The addresses of a name, at least one. Raises ToolError."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [str(place[0]) for *_, place in found]
    except (socket.gaierror, UnicodeError) as error:
        raise ToolError(f"{host} has no address: {error}") from None


def _plain(place: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address, or the older one that it carries within."""
    ip = ipaddress.ip_address(place.split("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else ip)


_NAT64 = ipaddress.ip_network("64:ff9b::/96")


async def _receive(reader: asyncio.StreamReader, most_bytes: int) -> tuple[bytes, bytes]:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise ToolError("what answered is no web server") from None
    body = bytearray()
    while len(body) < most_bytes and (data := await reader.read(65_536)):
        body += data
    return head, bytes(body[:most_bytes])


def _read(head: bytes, body: bytes) -> str:
    lines = head.decode("latin-1").split("\r\n")
    status = re.match(r"HTTP/\d(?:\.\d)? (\d{3})", lines[0])
    if not status:
        raise ToolError("what answered is no web server")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    code = int(status[1])
    if 300 <= code < 400 and headers.get("location"):
        raise ToolError(f"it is at another address: name {headers['location'][:200]!r} in its place")
    if code != 200:
        raise ToolError(f"the server answered {code}")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = _unchunked(body)
    charset = re.search(r"charset=\"?([\w.:-]+)", headers.get("content-type", ""))
    try:
        text = body.decode(charset[1] if charset else "utf-8", "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    return _words(text) if "html" in headers.get("content-type", "").lower() else text


def _unchunked(body: bytes) -> bytes:
    """Some servers send chunks unasked."""
    whole, at = bytearray(), 0
    while found := re.compile(rb"([0-9A-Fa-f]{1,8})[^\r\n]*\r\n").match(body, at):
        size = int(found[1], 16)
        whole += body[found.end() : found.end() + size]
        at = found.end() + size + 2
        if not size:
            break
    return bytes(whole)


def _words(page: str) -> str:
    """What is to be read on a page: scripts, styles and comments change without any news in them."""
    page = re.sub(r"(?is)<(script|style|noscript|template|svg)\b[^>]*>.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", " ", page)
    page = re.sub(r"(?i)<(?:br|/?(?:p|div|li|tr|h[1-6]|section|article|ul|ol|table|title))\b[^>]*>", "\n", page)
    text = html.unescape(re.sub(r"<[A-Za-z/!][^>]*>", " ", page))
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def _ascii(host: str) -> str:
    """A name as it is looked up. Raises ValueError."""
    return host if host.isascii() else host.encode("idna").decode("ascii")
