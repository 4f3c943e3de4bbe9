"""One page of the net, and what a person would read of it."""

from __future__ import annotations

import html
import re
from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from nanoclaw.net.public import NetError, host_of, public_address

_SAFE = "/%:@!$&'()*+,;=~-._"


class FetchedPage(NamedTuple):
    """`kind` is the Content-Type as the server wrote it; `body` is cut at the limit that was asked for."""

    kind: str
    body: bytes

    @property
    def text(self) -> str:
        """The page decoded; of HTML only the words."""
        charset = re.search(r"charset=\"?([\w.:-]+)", self.kind)
        try:
            text = self.body.decode(charset[1] if charset else "utf-8", "replace")
        except LookupError:
            text = self.body.decode("utf-8", "replace")
        return words_of(text) if "html" in self.kind.lower() else text


async def fetch(
    url: str, most_bytes: int, *, allow: Collection[str] = (), loopback: bool = False, agent: str = "nanoclaw"
) -> FetchedPage:
    """The page at an http(s) address; no redirect is followed. The caller sets the time limit. Raises NetError."""
    server = host_of(url)
    address = await public_address(server.host, server.port, allow=allow, loopback=loopback)
    from nanoclaw.net.slim_httpx import httpx

    parts, number = urlsplit(url), f"[{address}]" if ":" in address else address
    path = quote(parts.path or "/", safe=_SAFE) + ("?" + quote(parts.query, safe=_SAFE + "?") if parts.query else "")
    headers = {
        "host": server.named,
        "user-agent": agent,
        "accept": "text/*, application/json, */*;q=0.5",
        "accept-encoding": "identity",
    }
    try:
        async with (
            httpx.AsyncClient(trust_env=False, timeout=None, verify=server.scheme == "https") as client,
            client.stream(
                "GET",
                f"{server.scheme}://{number}:{server.port}{path}",
                headers=headers,
                extensions={"sni_hostname": server.host},
            ) as response,
        ):
            if location := response.has_redirect_location and response.headers["location"]:
                raise NetError(f"it is at another address: name {location[:200]!r} in its place")
            if response.status_code != 200:
                raise NetError(f"the server answered {response.status_code}")
            body = bytearray()
            async for piece in response.aiter_raw():
                body += piece
                if len(body) >= most_bytes:
                    break
            return FetchedPage(response.headers.get("content-type", ""), bytes(body[:most_bytes]))
    except httpx.RemoteProtocolError:
        raise NetError("what answered is no web server") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NetError(f"{server.host} cannot be reached: {error or type(error).__name__}") from None


def words_of(page: str) -> str:
    """The text of HTML that is to be read: scripts, styles and comments change without any news in them."""
    page = re.sub(r"(?is)<(script|style|noscript|template|svg)\b[^>]*>.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", " ", page)
    page = re.sub(r"(?i)<(?:br|/?(?:p|div|li|tr|h[1-6]|section|article|ul|ol|table|title))\b[^>]*>", "\n", page)
    text = html.unescape(re.sub(r"<[A-Za-z/!][^>]*>", " ", page))
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)
