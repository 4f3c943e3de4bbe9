"""WhatsApp's Cloud API: one call, files both ways, and what its refusals mean."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nanoclaw.channels.bot import file_to_send
from nanoclaw.channels.fields import Fields, string, table
from nanoclaw.channels.web_api import CALL_SECONDS, UPLOAD_SECONDS, UnknownToken, WebApi
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, Undeliverable
from nanoclaw.escapes import one_line, plain

BASE = "https://graph.facebook.com/v22.0"
UNKNOWN_TOKEN = (
    "WhatsApp does not take this token. Make one at https://developers.facebook.com/apps (a System User's does not "
    "expire) and set it as NANOCLAW_WHATSAPP_TOKEN, or as a line of secrets.env."
)
TOO_LATE = "WhatsApp takes messages only within 24 hours after the person's last one."
WAIT_SECONDS = 10.0
_TOO_LATE, _TOO_MANY, _TROUBLE = 131047, (4, 80007, 130429, 131048, 131056), (1, 2, 131000, 131016)
_HOSTS = ("fbsbx.com", "facebook.com", "whatsapp.net")


class WhatsappApi:
    """The requests of one number."""

    def __init__(self, token: str, number_id: str) -> None:
        self._token, self._number = token.strip(), number_id
        self._web = WebApi("WhatsApp", BASE, self._token)

    async def call(self, method: str, path: str, *, seconds: float = CALL_SECONDS, **more: Any) -> Fields:
        """The answer to a request below the API's address. Raises Undeliverable if asking again cannot help,
        ChannelUnavailable where nobody knows, ChannelError for the rest."""
        if not self._token.isascii() or not self._token.isprintable() or " " in self._token:
            raise UnknownToken(UNKNOWN_TOKEN)
        reply = await self._web.ask(method, path, seconds=seconds, headers=self._headers(), **more)
        said, error = table(reply.said), table(table(reply.said).get("error"))
        if reply.status == 200 and said:
            return said
        code, details = error.get("code"), string(table(error.get("error_data")).get("details"))
        told = one_line(plain(details or string(error.get("message")) or f"status {reply.status}"), 300).rstrip(".")
        if reply.status == 401 or code in (0, 190):
            raise UnknownToken(UNKNOWN_TOKEN)
        if reply.status == 429 or code in _TOO_MANY:
            raise ChannelError(f"WhatsApp asks to wait: {told}.", reply.seconds() or WAIT_SECONDS)
        if reply.status >= 500 or not error or code in _TROUBLE:
            raise ChannelUnavailable(f"WhatsApp has problems of its own: {told}.")
        raise Undeliverable(TOO_LATE if code == _TOO_LATE else f"WhatsApp refuses: {told}.")

    async def say(self, **message: Any) -> Fields:
        """Send a message, or a sign about one."""
        body = {"messaging_product": "whatsapp", **message}
        return await self.call("POST", f"/{self._number}/messages", json_body=body)

    async def number(self) -> str:
        """The telephone number."""
        found = await self.call("GET", f"/{self._number}?fields=display_phone_number")
        if not (number := string(found.get("display_phone_number"))):
            raise ChannelError("what answers is not WhatsApp's API.")
        return one_line(number, 30)

    async def upload(self, path: Path) -> tuple[str, str]:
        """Give a file to WhatsApp; its id and kind."""
        content, kind = file_to_send(path)
        name = path.name.encode(errors="replace").decode()
        form: dict[str, Any] = {"data": {"messaging_product": "whatsapp"}, "files": {"file": (name, content, kind)}}
        said = await self.call("POST", f"/{self._number}/media", seconds=UPLOAD_SECONDS, **form)
        return string(said.get("id")), kind

    async def download(self, id: str, most: int) -> bytes:
        """A file by its id, from an address of WhatsApp's own: no other is sent the token."""
        if not re.fullmatch(r"\w{1,100}", id):
            raise Undeliverable("a file has no usable id.")
        url = string((await self.call("GET", f"/{id}")).get("url"))
        own, asked = urlsplit(self._web.base), urlsplit(url)
        host = asked.hostname or ""
        is_theirs = asked.scheme == "https" and any(host == one or host.endswith(f".{one}") for one in _HOSTS)
        if not is_theirs and (own.scheme, own.netloc) != (asked.scheme, asked.netloc):
            raise Undeliverable("the file is not on WhatsApp's servers.")
        return await self._web.download(url, most, self._headers())

    async def aclose(self) -> None:
        await self._web.aclose()

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token}"}
