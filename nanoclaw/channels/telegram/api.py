"""Telegram's Bot API over HTTP: one call, one download, and what its refusals mean."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from nanoclaw.beneath.paths import open_again
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, Undeliverable, Unreachable
from nanoclaw.escapes import one_line, plain
from nanoclaw.net.loopback import leads_to_loopback
from nanoclaw.net.slim_httpx import httpx

CALL_SECONDS = 10.0
UPLOAD_SECONDS = 600.0
CONNECT_SECONDS = 4.0
"""A platform that takes no connection for so long is out of reach; a longer wait would find it back later."""

UNKNOWN_TOKEN = (
    "Telegram does not know this token. Get one from BotFather in Telegram (/newbot, or /token for a bot that exists) "
    "and set it as NANOCLAW_TELEGRAM_TOKEN, or as a line of secrets.env."
)
CONFLICT = (
    "another program polls this bot: end it, or give the bot a new token with /revoke in BotFather, "
    "so that only one of them knows it."
)


_FAILURES = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError, ExceptionGroup)
"""Errors of a connection, also of an impossible address or proxy; anyio makes a group of one of a port."""


class Refusal(ChannelError):
    """Telegram understood and said no. `moved_to` is the new id of a group that was made a supergroup."""

    def __init__(self, text: str, code: int, description: str, moved_to: int | None = None) -> None:
        super().__init__(text)
        self.code, self.description, self.moved_to = code, description, moved_to


class Api:
    """The methods of one bot. The token is part of every address, so no address is ever shown."""

    def __init__(self, token: str, base: str) -> None:
        self._token, self._base = token.strip(), base.rstrip("/")
        self._client: httpx.AsyncClient | None = None

    async def call(
        self, method: str, *, seconds: float = CALL_SECONDS, file: tuple[str, Path] | None = None, **parameters: Any
    ) -> Any:
        """The result of a method; parameters that are None or empty are left out. `file` is the name of a parameter and
        what to upload for it. Raises Refusal if asking again cannot help, ChannelUnavailable where nobody knows,
        ChannelError for the rest, and OSError for a file that cannot be read."""
        given = {name: value for name, value in parameters.items() if value not in (None, "", [])}
        if file is None:
            body = {"content": json.dumps(given).encode(), "headers": {"content-type": "application/json"}}
            return _result(method, *await self._post(method, seconds, body))
        name, path = file
        with open_again(path) as opened:
            fields = {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}
            upload = {"data": fields, "files": {name: (path.name.encode(errors="replace").decode(), opened)}}
            return _result(method, *await self._post(method, max(seconds, UPLOAD_SECONDS), upload))

    async def download(self, path: str, most: int) -> bytes:
        """A file by the path that getFile gave. Raises Undeliverable for one of more than `most` bytes, or that is
        refused, ChannelError for the rest."""
        url = f"{self._base}/file/bot{self._checked_token()}/{quote(path)}"
        content = bytearray()
        try:
            async with (
                asyncio.timeout(UPLOAD_SECONDS),
                self._open().stream("GET", url, headers={"accept-encoding": "identity"}) as response,
            ):
                if response.status_code != 200:
                    raise _not_given(response.status_code, response.headers.get("retry-after", ""))
                async for piece in response.aiter_raw():
                    content += piece
                    if len(content) > most:
                        raise too_large(most)
        except TimeoutError:
            raise ChannelUnavailable("Telegram did not give the file in time.") from None
        except _FAILURES as error:
            raise self._unreachable(error) from None
        return bytes(content)

    async def aclose(self) -> None:
        """Close the connections; the next call opens new ones."""
        if self._client:
            client, self._client = self._client, None
            await client.aclose()

    async def _post(self, method: str, seconds: float, body: dict[str, Any]) -> tuple[int, bytes]:
        url = f"{self._base}/bot{self._checked_token()}/{method}"
        try:
            async with asyncio.timeout(seconds):
                response = await self._open().post(url, timeout=httpx.Timeout(seconds, connect=CONNECT_SECONDS), **body)
        except TimeoutError:
            raise ChannelUnavailable(f"Telegram did not answer within {seconds:.0f} s.") from None
        except _FAILURES as error:
            raise self._unreachable(error) from None
        return response.status_code, response.content

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = _client(self._base)
        return self._client

    def _checked_token(self) -> str:
        if not re.fullmatch(r"[0-9]+:[A-Za-z0-9_-]+", self._token):
            raise ChannelError(UNKNOWN_TOKEN)
        return self._token

    def _unreachable(self, error: Exception) -> ChannelError:
        reason = one_line(str(error), 200).replace(self._token, "…") or type(error).__name__
        host = self._base.partition("://")[2].partition("/")[0].rpartition("@")[2]
        kind = Unreachable if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) else ChannelUnavailable
        return kind(f"Telegram at {host or 'no address'} cannot be reached: {reason}.")


def too_large(most: int) -> Undeliverable:
    return Undeliverable(f"the file is larger than {most / 1_000_000:.0f} MB, the most that is accepted.")


def _not_given(status: int, wait: str) -> ChannelError:
    said = f"Telegram did not give the file (status {status})."
    if status == 429 or status >= 500:
        return ChannelError(said, float(wait) if wait.isdecimal() else None)
    return Undeliverable(said)


def _client(base: str) -> httpx.AsyncClient:
    """Certificate authorities for https only; a proxy never stands between two ends of one machine."""
    address = urlsplit(base)
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if address.scheme == "http" else httpx.create_ssl_context()
    return httpx.AsyncClient(verify=verify, trust_env=not leads_to_loopback(base))


def _result(method: str, status: int, body: bytes) -> Any:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):  # a proxy's page, or 100,000 brackets
        said = None
    if isinstance(said, dict) and said.get("ok") is True:
        return said.get("result")
    if status >= 500 or not isinstance(said, dict):
        raise ChannelUnavailable(f"Telegram has problems of its own: {method} was answered with status {status}.")
    code = said["error_code"] if isinstance(said.get("error_code"), int) else status
    described = one_line(plain(str(said.get("description") or "no reason given")), 300)
    asked = said.get("parameters")
    raise _refused(method, code, described, asked if isinstance(asked, dict) else {})


def _refused(method: str, code: int, described: str, parameters: dict[str, Any]) -> ChannelError:
    if code == 401 or (code == 404 and "method" not in described):
        return ChannelError(UNKNOWN_TOKEN)
    if code == 409:
        return Refusal(CONFLICT, code, described)
    if code == 429:
        wait = parameters.get("retry_after")
        seconds = float(wait) if isinstance(wait, int | float) else None
        return ChannelError(f"Telegram asks to wait before the next {method}: {described}.", seconds)
    if code >= 500:
        return ChannelUnavailable(f"Telegram has problems of its own: {method} was answered with {described}.")
    moved = parameters.get("migrate_to_chat_id")
    return Refusal(f"Telegram refuses: {described}.", code, described, moved if isinstance(moved, int) else None)
