"""A platform's HTTP API: one request, one download, and what a lost connection means to whoever sends."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from nanoclaw.core.errors import ChannelError, ChannelUnavailable, Undeliverable, Unreachable
from nanoclaw.escapes import one_line
from nanoclaw.net import leads_to_loopback
from nanoclaw.net.slim_httpx import httpx

CALL_SECONDS = 10.0
UPLOAD_SECONDS = 600.0
CONNECT_SECONDS = 4.0
"""A platform that takes no connection for so long is out of reach; a longer wait would find it back later."""

_FAILURES = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError, ExceptionGroup)
"""Errors of a connection, also of an impossible address or proxy; anyio makes a group of one of a port."""


class UnknownToken(Unreachable):
    """The platform takes no such secret: whatever waits for it is kept until there is another."""

    def __init__(self, text: str) -> None:
        super().__init__(text, 60)


class WebReply(NamedTuple):
    """An answer over HTTP; `said` is its JSON, None for what is no JSON (a proxy's page, or 100,000 brackets)."""

    status: int
    headers: Mapping[str, str]
    said: Any

    @classmethod
    def of(cls, status: int, headers: Mapping[str, str], content: bytes) -> WebReply:
        try:
            return cls(status, headers, json.loads(content))
        except (ValueError, RecursionError):
            return cls(status, headers, None)

    def seconds(self, given: Any = None) -> float | None:
        """Seconds that the platform asks to wait, in its body or a header; None if it does not say."""
        if isinstance(given, int | float):
            return float(given)
        wait = self.headers.get("retry-after", "")
        return float(wait) if wait.isdecimal() else None


class WebApi:
    """Requests to one platform. `secret` is in no error, also where it is a part of the address."""

    def __init__(self, platform: str, base: str, secret: str) -> None:
        self._platform, self._base, self._secret = platform, base.rstrip("/"), secret
        self._client: httpx.AsyncClient | None = None

    @property
    def base(self) -> str:
        return self._base

    async def ask(
        self, method: str, path: str, *, seconds: float = CALL_SECONDS, json_body: Any = None, **more: Any
    ) -> WebReply:
        """The answer to a request below the base address, or at a whole one, whatever its status. Raises
        ChannelUnavailable."""
        if json_body is not None:
            more["headers"] = {**more.get("headers", {}), "content-type": "application/json"}
            more["content"] = json.dumps(json_body).encode()
        url = path if "://" in path else f"{self._base}{path}"
        limits = httpx.Timeout(seconds, connect=CONNECT_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                response = await self._open().request(method, url, timeout=limits, **more)
        except TimeoutError:
            raise ChannelUnavailable(f"{self._platform} did not answer within {seconds:.0f} s.") from None
        except _FAILURES as error:
            raise self._unreachable(error, self._base) from None
        return WebReply.of(response.status_code, response.headers, response.content)

    async def download(self, url: str, most: int, headers: Mapping[str, str] | None = None) -> bytes:
        """A file. Raises Undeliverable for one of more than `most` bytes, or that is refused, ChannelError for the
        rest."""
        content = bytearray()
        try:
            async with (
                asyncio.timeout(UPLOAD_SECONDS),
                self._open().stream("GET", url, headers={"accept-encoding": "identity", **(headers or {})}) as response,
            ):
                if response.status_code != 200:
                    raise self._not_given(response.status_code, response.headers.get("retry-after", ""))
                async for piece in response.aiter_raw():
                    content += piece
                    if len(content) > most:
                        raise too_large(most)
        except TimeoutError:
            raise ChannelUnavailable(f"{self._platform} did not give the file in time.") from None
        except _FAILURES as error:
            raise self._unreachable(error, url) from None
        return bytes(content)

    async def lines(self, path: str, headers: Mapping[str, str], seconds: float) -> AsyncIterator[str]:
        """The lines of an answer that goes on for long. Raises ChannelUnavailable, also after so many seconds without
        one, and at its end."""
        url, limits = f"{self._base}{path}", httpx.Timeout(seconds, connect=CONNECT_SECONDS)
        try:
            async with self._open().stream("GET", url, headers=headers, timeout=limits) as response:
                if response.status_code != 200:
                    raise ChannelUnavailable(f"{self._platform} answers with the status {response.status_code}.")
                async for line in response.aiter_lines():
                    yield line
        except _FAILURES as error:
            raise self._unreachable(error, self._base) from None
        raise ChannelUnavailable(f"{self._platform} ended the connection.")

    async def aclose(self) -> None:
        """Close the connections; the next request opens new ones."""
        if self._client:
            client, self._client = self._client, None
            await client.aclose()

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = _client(self._base)
        return self._client

    def _not_given(self, status: int, wait: str) -> ChannelError:
        said = f"{self._platform} did not give the file (status {status})."
        if status == 429 or status >= 500:
            return ChannelError(said, float(wait) if wait.isdecimal() else None)
        return Undeliverable(said)

    def _unreachable(self, error: Exception, url: str) -> ChannelError:
        kind = Unreachable if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) else ChannelUnavailable
        return kind(f"{self._platform} at {host_of(url)} cannot be reached: {reason_of(error, self._secret)}.")


class PrivateAddress(Undeliverable):
    """A file's address leads to this machine, or to one that the public net does not know."""


async def fetch_public(url: str, most: int, store: str = "") -> bytes:
    """A file at an address that somebody wrote, which must be a public one, or on the server of the address `store`.
    Raises PrivateAddress, and else as `WebApi.download` does."""
    from nanoclaw.net import public
    from nanoclaw.net.page import BadStatus, fetch

    try:
        allow = (public.host_of(store).named,) if store else ()
        async with asyncio.timeout(UPLOAD_SECONDS):
            page = await fetch(url, most, allow=allow)
    except TimeoutError:
        raise ChannelUnavailable("the file did not come in time.") from None
    except public.NetError as error:
        is_final = isinstance(error, public.NotPublic | BadStatus)
        kind = PrivateAddress if error.opens else Undeliverable if is_final else ChannelError
        raise kind(f"the file cannot be fetched: {error}.") from None
    if page.is_cut:
        raise too_large(most)
    return page.body


def host_of(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2] or "no address"


def reason_of(error: BaseException, secret: str) -> str:
    if "WRONG_VERSION_NUMBER" in str(error):
        return "what is there speaks no TLS: its address begins with http:"
    said = one_line(str(error), 200).rstrip(".")
    return (said.replace(secret, "…") if secret else said) or type(error).__name__


def too_large(most: int) -> Undeliverable:
    return Undeliverable(f"the file is larger than {most / 1_000_000:.0f} MB, the most that is accepted.")


def _client(base: str) -> httpx.AsyncClient:
    """Certificate authorities for https only; a proxy never stands between two ends of one machine."""
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if urlsplit(base).scheme == "http" else httpx.create_ssl_context()
    return httpx.AsyncClient(verify=verify, trust_env=not leads_to_loopback(base))
