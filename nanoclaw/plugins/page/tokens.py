"""ApiTokens of the API: one for each program that may talk to the assistant in the owner's name."""

from __future__ import annotations

import asyncio
import re
import secrets
from datetime import datetime, timedelta
from typing import Any

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Host, Reply, Tx
from nanoclaw.plugins.page.sessions import TRIES, TRIES_SECONDS, digest_of

_NAME = re.compile(r"[\w.-]{1,40}")
_MAKES, _UNKNOWN = "`nanoclaw web token NAME` makes one.", "invalid_api_key"
_KINDS = dict.fromkeys((400, 404, 405, 413, 421), "invalid_request_error") | {401: "authentication_error"}


class RequestRefused(Exception):
    """A request, or its turn, comes to nothing. `status`, `code` and `body` are those of OpenAI's API."""

    def __init__(self, status: int, text: str, code: str = "") -> None:
        super().__init__(text)
        self.status, self.code = status, code

    @property
    def body(self) -> dict[str, Any]:
        kind = _KINDS.get(self.status, "rate_limit_error" if self.status == 429 else "server_error")
        return {"error": {"message": str(self), "type": kind, "param": None, "code": self.code or None}}


class ApiTokens:
    """The store has their hashes; the token itself is shown once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._known: dict[str, tuple[str, datetime]] = {}  # by digest, those that were right: name, and when used
        self._wrong: list[datetime] = []
        self.revoked = asyncio.Event()  # set, and another one, whenever a token was revoked

    async def name_in(self, header: str) -> str:
        """The name of the token in a header "Authorization". Raises RequestRefused; after too many wrong ones, one that
        was right before still is."""
        kind, _, token = header.partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise RequestRefused(401, f"A token is needed, as Authorization: Bearer …; {_MAKES}", _UNKNOWN)
        digest, now = digest_of(token.strip()), self._host.now()
        name, used = self._known.get(digest, ("", None))
        if not name:
            self._wrong = [then for then in self._wrong if then > now - timedelta(seconds=TRIES_SECONDS)]
            if len(self._wrong) >= TRIES:
                raise RequestRefused(429, "Too many wrong tokens: try again in a minute.", "rate_limit_exceeded")
            found = self._host.read("SELECT name FROM page_tokens WHERE sha256 = ?", digest)
            if not found:
                self._wrong.append(now)
                raise RequestRefused(401, f"There is no such token; {_MAKES}", _UNKNOWN)
            name = str(found[0][0])
        if used is None or now - used > timedelta(hours=1):
            self._known[digest] = name, now
            sql = "UPDATE page_tokens SET used = ? WHERE sha256 = ?"
            await self._host.write(lambda tx: tx.execute(sql, now.isoformat(), digest))
        return name

    def made(self, name: str) -> Reply:
        if not _NAME.fullmatch(name):
            raise ConfigError("The name of a token has letters, digits and - . _ only, at most 40.")
        if self._host.read("SELECT 1 FROM page_tokens WHERE name = ?", name):
            raise ConfigError(f"There is a token {name} already: `nanoclaw web token --revoke {name}` ends it.")
        token, now = f"nc-{secrets.token_urlsafe(32)}", self._host.now().isoformat()
        sql = "INSERT INTO page_tokens (name, sha256, made) VALUES (?, ?, ?)"
        told = f"{token}\nThis is shown once. Who has it talks as you: `nanoclaw web token --revoke {name}` ends it."
        return Reply(told, {"name": name, "token": token}, lambda tx: tx.execute(sql, name, digest_of(token), now))

    def revoke(self, name: str) -> Reply:
        if not self._host.read("SELECT 1 FROM page_tokens WHERE name = ?", name):
            raise ConfigError(f"There is no token {name!r}: `nanoclaw web tokens` lists them.")

        def end(tx: Tx) -> None:
            tx.execute("DELETE FROM page_tokens WHERE name = ?", name)
            tx.after(self._forget)

        return Reply(f"The token {name} is revoked.", {"name": name}, end)

    def _forget(self) -> None:
        self._known.clear()
        self.revoked.set()
        self.revoked = asyncio.Event()

    def listed(self) -> Reply:
        rows = self._host.read("SELECT name, made, used FROM page_tokens ORDER BY id")
        found = [{"name": name, "made": made, "used": used} for name, made, used in rows]
        lines = [
            f"{name}: made {made[:10]}, {'used ' + used[:10] if used else 'not used yet'}" for name, made, used in rows
        ]
        return Reply("\n".join(lines) or f"There are no tokens. {_MAKES}", {"tokens": found})
