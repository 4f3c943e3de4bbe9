"""signal-cli's JSON-RPC over HTTP: one call, the events that come, and what refusals mean."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from nanoclaw.channels.fields import Fields, string, table
from nanoclaw.channels.web_api import CALL_SECONDS, UnknownToken, WebApi
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, Undeliverable
from nanoclaw.escapes import one_line

QUIET_SECONDS = 60.0
"""Without a line for so long a connection is dead: signal-cli sends an empty one every 15 s."""

WAIT_SECONDS = 60.0
_INVALID, _NETWORK, _TOO_MANY = -32602, -3, (-5, -6)
"""Codes of its errors: a wrong parameter; Signal cannot be reached; it asks to wait, or for a proof of a person."""


UNKNOWN_ACCOUNT = (
    "signal-cli does not know this account: register it, or correct channels.signal.account, which may also be set as "
    "NANOCLAW_SIGNAL_ACCOUNT."
)


class SignalApi:
    """The requests of one account."""

    def __init__(self, account: str, base: str) -> None:
        self.account = account
        self._web = WebApi("signal-cli", base, "")

    async def call(self, method: str, *, seconds: float = CALL_SECONDS, **parameters: Any) -> Any:
        """The result of a method; parameters that are None or empty are left out. Raises Undeliverable if asking again
        cannot help, ChannelUnavailable where nobody knows, ChannelError for the rest."""
        given = {name: value for name, value in parameters.items() if value not in (None, "", [])}
        if method != "listAccounts":
            given["account"] = self.account
        body = {"jsonrpc": "2.0", "id": "1", "method": method, "params": given}
        reply = await self._web.ask("POST", "/api/v1/rpc", seconds=seconds, json_body=body)
        said = table(reply.said)
        if reply.status >= 500 or (reply.status != 200 and "error" not in said):
            raise ChannelUnavailable(f"signal-cli answered {method} with the status {reply.status}.")
        if "result" in said:
            return said["result"]
        error = table(said.get("error"))
        told = one_line(string(error.get("message")) or "no reason is given", 300).rstrip(".")
        if error.get("code") == _INVALID and "account" in told:
            raise UnknownToken(UNKNOWN_ACCOUNT)
        if error.get("code") in _TOO_MANY:
            raise ChannelError(f"Signal asks to wait: {told}.", WAIT_SECONDS)
        if error.get("code") == _NETWORK or not error:
            raise ChannelUnavailable(f"signal-cli cannot reach Signal: {told}.")
        raise Undeliverable(f"Signal refuses {method}: {told}.")

    async def events(self, after: str) -> AsyncIterator[tuple[str, Fields]]:
        """Events as they come, each with its id; first what came after the event with the id `after`. Raises
        ChannelUnavailable."""
        id, headers = "", {"accept": "text/event-stream", **({"last-event-id": after} if after else {})}
        async for line in self._web.lines("/api/v1/events", headers, QUIET_SECONDS):
            name, _, value = line.partition(":")
            if name == "id":
                id = value.strip()
            elif name == "data":
                try:
                    yield id, table(json.loads(value))
                except (ValueError, RecursionError):
                    yield id, {}
            elif not name:
                yield "", {}  # a sign of life

    async def aclose(self) -> None:
        await self._web.aclose()
