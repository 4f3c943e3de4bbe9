"""Telegram's Bot API over HTTP: one call, one download, and what its refusals mean."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nanoclaw.beneath.paths import open_again
from nanoclaw.channels.web_api import CALL_SECONDS, UPLOAD_SECONDS, UnknownToken, WebApi, WebReply
from nanoclaw.core.errors import ChannelError, ChannelUnavailable
from nanoclaw.escapes import one_line, plain

UNKNOWN_TOKEN = (
    "Telegram does not know this token. Get one from BotFather in Telegram (/newbot, or /token for a bot that exists) "
    "and set it as NANOCLAW_TELEGRAM_TOKEN, or as a line of secrets.env."
)
CONFLICT = (
    "another program polls this bot: end it, or give the bot a new token with /revoke in BotFather, "
    "so that only one of them knows it."
)


class Refusal(ChannelError):
    """Telegram understood and said no. `moved_to` is the new id of a group that was made a supergroup."""

    def __init__(self, text: str, code: int, description: str, moved_to: int | None = None) -> None:
        super().__init__(text)
        self.code, self.description, self.moved_to = code, description, moved_to


class Api:
    """The methods of one bot. The token is part of every address, so no address is ever shown."""

    def __init__(self, token: str, base: str) -> None:
        self._token = token.strip()
        self._web = WebApi("Telegram", base, self._token)

    async def call(
        self, method: str, *, seconds: float = CALL_SECONDS, file: tuple[str, Path] | None = None, **parameters: Any
    ) -> Any:
        """The result of a method; parameters that are None or empty are left out. `file` is the name of a parameter and
        what to upload for it. Raises Refusal if asking again cannot help, ChannelUnavailable where nobody knows,
        ChannelError for the rest, and OSError for a file that cannot be read."""
        given = {name: value for name, value in parameters.items() if value not in (None, "", [])}
        path = f"/bot{self._checked_token()}/{method}"
        if file is None:
            return _result(method, await self._web.ask("POST", path, seconds=seconds, json_body=given))
        name, source = file
        with open_again(source) as opened:
            fields = {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}
            upload = {name: (source.name.encode(errors="replace").decode(), opened)}
            limit = max(seconds, UPLOAD_SECONDS)
            return _result(method, await self._web.ask("POST", path, seconds=limit, data=fields, files=upload))

    async def download(self, path: str, most: int) -> bytes:
        """A file by the path that getFile gave. Raises Undeliverable for one of more than `most` bytes, or that is
        refused, ChannelError for the rest."""
        return await self._web.download(f"{self._web.base}/file/bot{self._checked_token()}/{quote(path)}", most)

    async def aclose(self) -> None:
        """Close the connections; the next call opens new ones."""
        await self._web.aclose()

    def _checked_token(self) -> str:
        if not re.fullmatch(r"[0-9]+:[A-Za-z0-9_-]+", self._token):
            raise UnknownToken(UNKNOWN_TOKEN)
        return self._token


def _result(method: str, reply: WebReply) -> Any:
    said, status = reply.said, reply.status
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
        return UnknownToken(UNKNOWN_TOKEN)
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
