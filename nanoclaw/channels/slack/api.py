"""Slack's Web API: one call, files both ways, and what its refusals mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nanoclaw.channels.bot import file_to_send
from nanoclaw.channels.fields import Fields, string, table
from nanoclaw.channels.web_api import CALL_SECONDS, UPLOAD_SECONDS, UnknownToken, WebApi
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, Undeliverable
from nanoclaw.escapes import one_line

BASE = "https://slack.com/api"
UNKNOWN_TOKEN = (
    "Slack does not know this token. Find both at https://api.slack.com/apps (your app, Install App and Basic "
    "Information), and set them as NANOCLAW_SLACK_TOKEN and NANOCLAW_SLACK_APP_TOKEN, or as lines of secrets.env."
)
WAIT_SECONDS = 1.0

_UNKNOWN = {
    "invalid_auth",
    "not_authed",
    "account_inactive",
    "token_revoked",
    "token_expired",
    "not_allowed_token_type",
}
_TROUBLE = {"fatal_error", "internal_error", "service_unavailable", "request_timeout", "team_added_to_org"}


class SlackRefusal(Undeliverable):
    """Slack understood and said no; `error` is its own word for the reason."""

    def __init__(self, text: str, error: str) -> None:
        super().__init__(text)
        self.error = error


class SlackApi:
    """The requests of one app."""

    def __init__(self, token: str) -> None:
        self._token = token.strip()
        self._web = WebApi("Slack", BASE, self._token)

    async def call(self, method: str, *, token: str = "", seconds: float = CALL_SECONDS, **parameters: Any) -> Fields:
        """The answer of a method; parameters that are None or empty are left out. Raises SlackRefusal if asking again
        cannot help, ChannelUnavailable where nobody knows, ChannelError for the rest."""
        used = token or self._token
        if not used.isascii() or not used.isprintable() or " " in used:
            raise UnknownToken(UNKNOWN_TOKEN)
        given = {name: value for name, value in parameters.items() if value not in (None, "", [])}
        form = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
        headers = {"authorization": f"Bearer {used}"}
        reply = await self._web.ask("POST", f"/{method}", seconds=seconds, headers=headers, data=form)
        said = table(reply.said)
        if reply.status == 429 or said.get("error") == "ratelimited":
            raise ChannelError("Slack asks to wait before the next message.", reply.seconds() or WAIT_SECONDS)
        if said.get("ok") is True:
            return said
        error = one_line(string(said.get("error")), 100) or f"status {reply.status}"
        if error in _UNKNOWN:
            raise UnknownToken(UNKNOWN_TOKEN)
        if reply.status >= 500 or not said or error in _TROUBLE:
            raise ChannelUnavailable(f"Slack has problems of its own: it answered {method} with {error}.")
        needed = string(said.get("needed"))
        more = f"; add the scope {one_line(needed, 100)} under OAuth & Permissions" if needed else ""
        raise SlackRefusal(f"Slack refuses {method}: {error}{more}.", error)

    async def upload(self, path: Path, **where: Any) -> str:
        """Share a file; its id. Raises Undeliverable for one that cannot be read, else as `call`."""
        name = path.name.encode(errors="replace").decode()
        content, _ = file_to_send(path)
        place = await self.call("files.getUploadURLExternal", filename=name, length=len(content))
        url, id = string(place.get("upload_url")), string(place.get("file_id"))
        reply = await self._web.ask("POST", self._own(url), seconds=UPLOAD_SECONDS, content=content)
        if reply.status != 200:
            raise ChannelUnavailable(f"Slack did not take the file (status {reply.status}).")
        await self.call("files.completeUploadExternal", files=[{"id": id, "title": name}], **where)
        return id

    async def download(self, url: str, most: int) -> bytes:
        """A file by the address that came with its message. Raises Undeliverable, ChannelError."""
        return await self._web.download(self._own(url), most, {"authorization": f"Bearer {self._token}"})

    async def aclose(self) -> None:
        await self._web.aclose()

    def _own(self, url: str) -> str:
        """An address that is one of Slack's own: no other is sent the token, or a file. Raises Undeliverable."""
        own, asked = urlsplit(self._web.base), urlsplit(url)
        host = asked.hostname or ""
        is_slacks = asked.scheme == "https" and (host == "slack.com" or host.endswith(".slack.com"))
        if not is_slacks and (own.scheme, own.netloc) != (asked.scheme, asked.netloc):
            raise Undeliverable("the file is not on Slack's servers.")
        return url
