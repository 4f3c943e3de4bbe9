"""Discord's HTTP API: one call, and what its refusals mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nanoclaw.beneath.paths import open_again
from nanoclaw.channels.web_api import CALL_SECONDS, UPLOAD_SECONDS, UnknownToken, WebApi, WebReply
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, Undeliverable
from nanoclaw.escapes import one_line, plain

BASE = "https://discord.com/api/v10"
UNKNOWN_TOKEN = (
    "Discord does not know this token. Get one at https://discord.com/developers/applications (your application, Bot, "
    "Reset Token) and set it as NANOCLAW_DISCORD_TOKEN, or as a line of secrets.env."
)

_AGENT = "DiscordBot (https://example.org/nanoclaw, 0)"
"""Discord takes requests from programs that name themselves in this form only."""

_HOSTS = ("discordapp.com", "discordapp.net", "discord.com")


class DiscordRefusal(Undeliverable):
    """Discord understood and said no; `code` is its own number of the reason."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class DiscordApi:
    """The requests of one bot."""

    def __init__(self, token: str) -> None:
        self.token = token.strip().removeprefix("Bot ")
        self._web = WebApi("Discord", BASE, self.token)

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        file: Path | None = None,
        seconds: float = CALL_SECONDS,
    ) -> Any:
        """The JSON of an answer, None where there is none. Raises DiscordRefusal if asking again cannot help,
        ChannelUnavailable where nobody knows, ChannelError for the rest, and OSError for a file that cannot be read."""
        if not self.token.isascii() or not self.token.isprintable() or " " in self.token:
            raise UnknownToken(UNKNOWN_TOKEN)
        headers = {"authorization": f"Bot {self.token}", "user-agent": _AGENT}
        if file is None:
            return _result(await self._web.ask(method, path, seconds=seconds, headers=headers, json_body=body))
        with open_again(file) as opened:
            name = file.name.encode(errors="replace").decode()
            listed = {"attachments": [{"id": 0, "filename": name}], **(body or {})}
            upload = {"data": {"payload_json": json.dumps(listed)}, "files": {"files[0]": (name, opened)}}
            return _result(await self._web.ask(method, path, seconds=UPLOAD_SECONDS, headers=headers, **upload))

    async def download(self, url: str, most: int) -> bytes:
        """A file by the address that came with its message, which must be one of Discord's own. Raises Undeliverable,
        ChannelError."""
        own, asked = urlsplit(self._web.base), urlsplit(url)
        host = asked.hostname or ""
        is_discords = asked.scheme == "https" and any(host == one or host.endswith(f".{one}") for one in _HOSTS)
        if not is_discords and (own.scheme, own.netloc) != (asked.scheme, asked.netloc):
            raise Undeliverable("the file is not on Discord's servers.")
        return await self._web.download(url, most)

    async def aclose(self) -> None:
        await self._web.aclose()


def _result(reply: WebReply) -> Any:
    said, status = reply.said, reply.status
    if status in (200, 201, 204):
        return said
    given = said if isinstance(said, dict) else {}
    described = one_line(plain(str(given.get("message") or f"status {status}")), 300).rstrip(".")
    if status == 401:
        raise UnknownToken(UNKNOWN_TOKEN)
    if status == 429:
        wait = reply.seconds(given.get("retry_after"))
        raise ChannelError(f"Discord asks to wait before the next message: {described}.", wait or 1.0)
    if status >= 500 or not given:
        raise ChannelUnavailable(f"Discord has problems of its own: it answered with {described}.")
    code = given.get("code")
    raise DiscordRefusal(f"Discord refuses: {described}.", code if isinstance(code, int) else status)
