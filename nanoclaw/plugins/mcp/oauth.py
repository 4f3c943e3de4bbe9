"""Signing in to a server by OAuth: tokens in a file of 0600, the address shown to a person, the answer on loopback."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from nanoclaw.atomic_write import write_atomically
from nanoclaw.core.errors import ConfigError
from nanoclaw.plugins.mcp.listing import object_of
from nanoclaw.plugins.mcp.sdk import client_half
from nanoclaw.redaction import Redactor

with client_half():
    from mcp.client.auth.oauth2 import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

if TYPE_CHECKING:
    from nanoclaw.plugins.mcp.connection import Connection

LOGIN_SECONDS = 300.0
_PAGE = b"<!doctype html><meta charset=utf-8><title>nanoclaw</title><p>Done: you can close this page."
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"


class TokenFile:
    """Keeps the registration at a server, and its tokens."""

    def __init__(self, path: Path, redact: Redactor) -> None:
        self.path, self._redact = path, redact

    async def get_tokens(self) -> OAuthToken | None:
        found = self._read().get("tokens")
        return OAuthToken.model_validate(found) if found else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._write(tokens=tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        found = self._read().get("client")
        return OAuthClientInformationFull.model_validate(found) if found else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write(client=client_info.model_dump(mode="json", exclude_none=True))

    def port(self) -> int:
        """The port of the address that was registered, 0 for none."""
        addresses = self._read().get("client", {}).get("redirect_uris") or [""]
        return urlsplit(str(addresses[0])).port or 0

    @property
    def has_tokens(self) -> bool:
        return bool(self._read().get("tokens"))

    def _read(self) -> dict[str, Any]:
        """All of it, whose secrets are hidden everywhere from now on."""
        return self._hidden(object_of(self.path))

    def _write(self, **fields: Any) -> None:
        kept = self._hidden({**self._read(), **fields})
        self.path.touch(mode=0o600, exist_ok=True)
        self.path.chmod(0o600)
        write_atomically(self.path, json.dumps(kept), mode=0o600)

    def _hidden(self, kept: dict[str, Any]) -> dict[str, Any]:
        given = {**kept.get("client", {}), **kept.get("tokens", {})}
        self._redact.add(*(given.get(name) or "" for name in ("access_token", "refresh_token", "client_secret")))
        return kept


def provider(connection: Connection) -> Any:
    """The SDK's sign-in for a server; None where nothing is known and nobody is there to sign in."""
    host, show = connection.host, connection.open_login
    kept = TokenFile(host.home / f"oauth-{connection.name}.json", host.redact)
    if show is None and not kept.has_tokens:
        return None
    waiting = _Loopback(kept.port())

    async def redirect(address: str) -> None:
        if show is None:
            raise ConfigError(f"its sign-in has expired: run nanoclaw mcp test {connection.name}")
        await waiting.begin()
        show(address)

    metadata = OAuthClientMetadata(
        client_name="nanoclaw",
        redirect_uris=[f"http://127.0.0.1:{waiting.port}/callback"],  # type: ignore[list-item]
        token_endpoint_auth_method="none",
    )
    return OAuthClientProvider(connection.settings.url, metadata, kept, redirect, waiting.answer)


class _Loopback:
    """Waits on a port of this machine for the browser to come back."""

    def __init__(self, port: int) -> None:
        self.port = port or _free_port()
        self._server: asyncio.Server | None = None
        self._answer: asyncio.Future[AuthorizationCodeResult] | None = None

    async def begin(self) -> None:
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        except OSError as error:
            raise ConfigError(f"port {self.port} cannot be used for the sign-in: {error.strerror}") from None

    async def answer(self) -> AuthorizationCodeResult:
        assert self._answer and self._server
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                return await self._answer
        except TimeoutError:
            raise ConfigError(f"nobody signed in within {LOGIN_SECONDS / 60:.0f} minutes") from None
        finally:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = (await reader.readline()).decode("ascii", "replace")
            match = re.match(r"GET (/callback\?\S*) HTTP", line)
            writer.write(_HEAD % len(_PAGE) + _PAGE)
            await writer.drain()
            if match and self._answer and not self._answer.done():
                given = {name: values[0] for name, values in parse_qs(urlsplit(match[1]).query).items()}
                if "code" in given:
                    found = AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss"))
                    self._answer.set_result(found)
                else:
                    said = given.get("error_description") or given.get("error") or "no code came back"
                    self._answer.set_exception(ConfigError(f"the sign-in failed: {said[:200]}"))
        except (OSError, ValueError):
            return
        finally:
            writer.close()


def _free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
