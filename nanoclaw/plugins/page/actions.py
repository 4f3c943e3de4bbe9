"""Buttons of a conversation: the commands that every face has, and the data of their replies."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nanoclaw.beneath.paths import open_for_reading
from nanoclaw.core.plugin import Reply, Said
from nanoclaw.plugins.page.channel import SENDER, address_of, conversation_of
from nanoclaw.plugins.page.render import html
from nanoclaw.plugins.page.server import given, text_in
from nanoclaw.plugins.page.talk import key_of

if TYPE_CHECKING:
    from nanoclaw.plugins.page.channel import PageChannel

AT_A_MESSAGE = ("branch", "rewind")  # those that take the number of a message; the page knows its row
AGAIN = ("retry", "edit")  # those that ask the model
PLAIN = ("rename", "continue", "delete", *AT_A_MESSAGE)


class Actions:
    """The routes of these."""

    def __init__(self, channel: PageChannel) -> None:
        self._channel, self._host = channel, channel.host

    def routes(self) -> list[Route]:
        return [Route("/api/act", self._act, methods=["POST"]), Route("/api/export", self._export)]

    async def _act(self, request: Request) -> Response:
        """Do it, or name what was done since and would stay, which the person is asked about first."""
        found = await given(request)
        key, command = key_of(text_in(found, "c", 400)), text_in(found, "command", 40)
        argument, is_sure, row = text_in(found, "argument"), found.get("sure") is True, found.get("row")
        if command not in (*PLAIN, *AGAIN):
            raise HTTPException(400, "The page has no such button.")
        if command not in ("rename", "delete") and key in self._channel.live.running():
            raise HTTPException(409, "It is answering just now: stop it first, or wait for the end.")
        if command in AGAIN:
            return await self._again(key, command, argument, is_sure, row)
        if command == "delete":
            command, argument = "sessions", f"delete {key} yes"
        elif command in AT_A_MESSAGE and isinstance(row, int):
            argument = f"{self._channel.transcript.number(key, row)}{' yes' * (command == 'rewind' and is_sure)}"
        reply = await self._reply(key, command, argument)
        data = reply.data or {}
        if command == "rewind" and "done" not in data:
            self._channel.changed(key)
        return JSONResponse({"html": html(reply.text), **{name: data[name] for name in SHOWN if name in data}})

    async def _again(self, key: str, command: str, argument: str, is_sure: bool, row: object) -> Response:
        """Ask the last message again, or other words in its place, as the command does that is typed."""
        if command == "edit":
            last = (await self._reply(key, "edit", "")).data or {}
            if not isinstance(row, int) or last["message"] != self._channel.transcript.number(key, row):
                raise HTTPException(409, "That is not your last message any more: only that one can be edited.")
            if not argument.strip():
                return JSONResponse({"text": last["text"]})
        ways = self._host.get("conversations")
        if (done := ways.done_since_last(conversation_of(key)) if ways else []) and not is_sure:
            return JSONResponse({"done": done})
        words = f"/retry {argument.strip()} yes" if command == "retry" else f"/edit yes {argument}"
        await self._channel.say(key, secrets.token_urlsafe(12), words, is_shown=False)
        return JSONResponse({})

    async def _export(self, request: Request) -> Response:
        """The file that /export writes."""
        key, kind = key_of(request.query_params.get("c", "")), request.query_params.get("format", "")
        reply = await self._reply(key, "export", "json" if kind == "json" else "markdown")
        path = str((reply.data or {})["file"])
        with open_for_reading(self._host.reach, path) as file:
            text = await asyncio.to_thread(file.read)
        name = quote(path.rpartition("/")[2], safe="")
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
        return Response(text, media_type="application/octet-stream", headers=headers)

    async def _reply(self, key: str, command: str, argument: str) -> Reply:
        said = Said(argument, conversation_of(key), address_of(key), SENDER, "owner")
        return await self._host.carry_out(command, said)


SHOWN = ("opened", "done", "text")  # of the data of a reply, what the page goes on with
