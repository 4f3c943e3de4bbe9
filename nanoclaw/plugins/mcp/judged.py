"""Requests to a server, kept to the address that the owner configured, and else to public ones: a server names
addresses for signing in, which this machine asks then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

import httpx2

from nanoclaw.core.errors import ConfigError
from nanoclaw.escapes import one_line
from nanoclaw.net.public import NetError, host_of, public_addresses, shown
from nanoclaw.plugins.mcp.wire import MOST_MESSAGE_BYTES


class JudgedTransport(httpx2.AsyncBaseTransport):
    """Requests to the configured origin go as usual, through a proxy where the environment has one. Any other host is
    looked up once, judged, and asked at the very address that was judged."""

    def __init__(self, url: str, allow: Collection[str], refused: Callable[[str], None]) -> None:
        """`refused` gets a sentence when a request was not made."""
        self._own, self._allow, self._refused = httpx2.URL(url), allow, refused
        self._usual = httpx2.AsyncClient()
        self._judged = httpx2.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises ConfigError for an address that isn't public."""
        asked, own = request.url, self._own
        if asked.host == own.host and ((asked.scheme, asked.port) == (own.scheme, own.port) or _is_upgrade(own, asked)):
            return await self._bounded(await self._usual.send(request, stream=True, follow_redirects=False))
        try:
            host = host_of(str(asked))
            addresses = await public_addresses(host.host, host.port, allow=self._allow)
        except NetError as error:
            said = f"it leads to {shown(str(asked))}, and {error}{'.' * bool(error.opens)}{error.opens}"
            self._refused(said)  # the SDK may keep an error to itself
            raise ConfigError(said) from None
        for address in addresses[:-1]:
            try:
                return await self._bounded(await self._ask(request, host.host, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await self._bounded(await self._ask(request, host.host, addresses[-1]))

    async def _bounded(self, response: httpx2.Response) -> httpx2.Response:
        """The answer as it may be read: not packed, as nobody knows what unpacks to, and not endless. Raises
        ConfigError."""
        packed = response.headers.get("content-encoding", "identity")
        if packed.lower() != "identity":
            await response.aclose()
            said = f"it compresses its answers ({one_line(packed, 20)}), which it was asked not to"
            self._refused(said)
            raise ConfigError(said)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):  # bounded by events
            response.stream = _Bounded(response.stream)
        return response

    async def _ask(self, request: httpx2.Request, name: str, address: str) -> httpx2.Response:
        there = httpx2.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,  # with the Host that was asked for
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": name},
        )
        return await self._judged.handle_async_request(there)

    async def aclose(self) -> None:
        await self._usual.aclose()
        await self._judged.aclose()


class _Bounded(httpx2.AsyncByteStream):
    """A body that is read no further than one message may go."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Raises StreamError."""
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MOST_MESSAGE_BYTES:
                raise httpx2.StreamError(f"its answer has more than {MOST_MESSAGE_BYTES / 1e6:g} MB")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _is_upgrade(own: httpx2.URL, asked: httpx2.URL) -> bool:
    """True from http to https of the same host, both at their usual ports."""
    return (own.scheme, own.port, asked.scheme, asked.port) == ("http", None, "https", None)
