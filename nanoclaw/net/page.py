"""One page of the net: asked for at the address that was checked, unpacked within bounds, and its words."""

from __future__ import annotations

import html
import re
import ssl
import zlib
from collections.abc import AsyncIterator, Collection, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

from nanoclaw import __version__
from nanoclaw.net.charset import decoded, words_of
from nanoclaw.net.public import NetError, NotPublic, NotReached, WebHost, host_of, public_addresses, shown
from nanoclaw.net.slim_httpx import httpx

CONNECT_SECONDS = 8.0
"""For one of the addresses of a name; the caller sets the limit of all."""

_SAFE = "/%:@!$&'()*+,;=~-._"
_EMPTY: Mapping[str, str] = MappingProxyType({})


class FetchedPage(NamedTuple):
    """`kind` is the Content-Type as the server wrote it; `body` is cut (`is_cut`) at the limit that was asked for;
    `url` is the address where it was found in the end. Names in `headers` are in lower case."""

    kind: str
    body: bytes
    url: str = ""
    status: str = ""
    is_cut: bool = False
    headers: Mapping[str, str] = _EMPTY

    @property
    def text(self) -> str:
        """The page decoded; of HTML only the words."""
        text = decoded(self.body, self.kind)
        return words_of(text) if "html" in self.kind.lower() else text


class BadStatus(NetError):
    """The server gave no page; `page` is what it said instead."""

    def __init__(self, page: FetchedPage) -> None:
        super().__init__(f"the server answered {page.status}")
        self.page = page


async def fetch(
    url: str,
    most_bytes: int,
    *,
    allow: Collection[str] = (),
    redirects: int = 0,
    headers: Mapping[str, str] = _EMPTY,
    send: bytes | None = None,
) -> FetchedPage:
    """The page at an http(s) address, asked for by GET, or POST with what there is to `send`.

    Each redirect (up to a number of; a refresh that a page asks of browsers is one too) is checked like the first
    address. Cookies last for this fetch. The caller sets the time limit. Raises NetError.
    """
    cookies, first = httpx.Cookies(), url
    for left in range(redirects, -1, -1):
        try:
            host = host_of(url)
            addresses = await public_addresses(host.host, host.port, allow=allow)
        except NotPublic as error:
            if url == first:
                raise
            raise NotPublic(f"it leads to {shown(url)}, and {error}") from None
        try:
            asked = httpx.Request(
                "POST" if send is not None else "GET", _plain(url, host), headers=headers, content=send
            )
        except httpx.InvalidURL:
            raise NotPublic("this is not a usable address") from None
        cookies.set_cookie_header(asked)
        for address in addresses:
            try:
                page = await _asked(asked, host, address, most_bytes, cookies)
                break
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failed = error
        else:
            raise NotReached(f"{host.host} cannot be reached: {failed or 'it does not answer'}") from None
        to = page.headers.get("location", "") if page.status[:3] in _MOVED else ""
        to = to or (_refresh(page) if redirects else "")
        if not to and not page.status.startswith("2"):
            raise BadStatus(page)
        if not to:
            return page
        if not redirects:
            raise NetError(f"it is at another address: use {shown(to)!r} instead")
        if not left:
            raise NetError(f"it redirects without end, after {redirects} redirects to {shown(to)!r}")
        url = _joined(url, to)
    raise AssertionError("unreachable")


_MOVED = ("301", "302", "303", "307", "308")


async def _asked(
    asked: httpx.Request, host: WebHost, address: str, most_bytes: int, cookies: httpx.Cookies
) -> FetchedPage:
    """One answer of the server at an address. Raises ConnectError and ConnectTimeout as they come, else NetError."""
    parts, number = urlsplit(str(asked.url)), f"[{address}]" if ":" in address else address
    path = quote(parts.path or "/", safe=_SAFE) + ("?" + quote(parts.query, safe=_SAFE + "?") if parts.query else "")
    headers = {
        "user-agent": f"nanoclaw/{__version__} (personal assistant)",
        "accept": "text/*, application/json, */*;q=0.5",
        **asked.headers,
        "host": host.named,
        "accept-encoding": "gzip, deflate",
    }
    is_begun = False
    try:
        async with (
            httpx.AsyncClient(
                trust_env=False,
                timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
                verify=_tls() if host.scheme == "https" else False,
            ) as client,
            client.stream(
                asked.method,
                f"{host.scheme}://{number}:{host.port}{path}",
                headers=headers,
                content=asked.content or None,
                extensions={"sni_hostname": host.host},
            ) as response,
        ):
            is_begun = True
            cookies.extract_cookies(httpx.Response(response.status_code, headers=response.headers, request=asked))
            body, is_cut = b"", False
            if not response.has_redirect_location:
                packing = response.headers.get("content-encoding", "")
                body, is_cut = await _unpacked(response.aiter_raw(), packing, most_bytes)
            status = f"{response.status_code} {response.reason_phrase}".strip()
            kind = response.headers.get("content-type", "")
            return FetchedPage(kind, body, str(asked.url), status, is_cut, dict(response.headers))
    except (httpx.ConnectError, httpx.ConnectTimeout):
        raise
    except httpx.RemoteProtocolError:
        raise NetError("the answer broke off" if is_begun else "what answered is not a web server") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NetError(f"{host.host} cannot be reached: {error or type(error).__name__}") from None


@lru_cache(maxsize=1)  # reading the certificates takes longer than all else
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()


async def _unpacked(pieces: AsyncIterator[bytes], packing: str, most: int) -> tuple[bytes, bool]:
    """A body without its packing, at most a number of bytes of it however much it unpacks to; True if it was cut."""
    body, taken, unpack = bytearray(), 0, _unpacker(packing)
    async for piece in pieces:
        taken += len(piece)
        while piece:
            if unpack is None:
                body += piece
                break
            try:
                body += unpack.decompress(piece, most + 1 - len(body))
            except zlib.error:
                if body or unpack.eof or packing.strip().lower() != "deflate":
                    raise NetError("what it sent is damaged: it cannot be unpacked") from None
                unpack, packing = zlib.decompressobj(-15), "raw"  # what many servers mean by deflate
                continue
            if len(body) > most:
                break
            piece = unpack.unconsumed_tail or unpack.unused_data
            if unpack.eof and piece:
                if not piece.startswith(b"\x1f\x8b"):  # what follows is nothing
                    return bytes(body), False
                unpack = zlib.decompressobj(31)
        if len(body) > most or taken > most:
            return bytes(body[:most]), True
    return bytes(body), False


def _unpacker(packing: str) -> zlib._Decompress | None:
    match packing.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return zlib.decompressobj(31)
        case "deflate":
            return zlib.decompressobj()
    raise NetError(f"it is compressed as {packing[:40]!r}, which nobody asked for")


def _refresh(page: FetchedPage) -> str:
    """The address to which a page sends browsers at once, '' mostly."""
    if "html" not in page.kind.lower():
        return ""
    head = re.sub(r"(?is)<noscript\b.*?(?:</noscript|\Z)|<!--.*?(?:-->|\Z)", "", decoded(page.body[:16_384], page.kind))
    for tag in re.findall(r"<meta\b[^<>]{0,2000}>", head, re.IGNORECASE):
        if re.search(r"http-equiv\s*=\s*[\"']?refresh\b", tag, re.IGNORECASE):
            found = re.search(
                r"content\s*=\s*[\"']?\s*(\d+)[\d.]*\s*[;,]\s*url\s*=\s*[\"']?([^\s\"'>]+)", tag, re.IGNORECASE
            )
            to = html.unescape(found[2]) if found and int(found[1][:9]) <= 5 else ""
            return "" if _joined(page.url, to) == page.url else to
    return ""


def _plain(url: str, host: WebHost) -> str:
    """A URL with its server in the spelling that was judged."""
    parts = urlsplit(url)
    return urlunsplit((host.scheme, host.named, parts.path, parts.query, ""))


def _joined(base: str, to: str) -> str:
    try:
        return urljoin(base, to).partition("#")[0]
    except ValueError:
        raise NotPublic(f"it leads to {shown(to)!r}, which is not a usable address") from None
