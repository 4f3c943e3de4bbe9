"""Conversations as the page shows them: what was said, the list, and what the person says."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nanoclaw.beneath.paths import open_for_reading
from nanoclaw.core.messages import Address, AssistantMessage, Attachment, Message, ToolResult, UserMessage
from nanoclaw.core.plugin import Said, Tx
from nanoclaw.escapes import one_line
from nanoclaw.plugins.page.channel import conversation_of
from nanoclaw.plugins.page.live import ARGUMENTS, Item, of_result, of_text
from nanoclaw.plugins.page.server import browser_of, given, text_in

if TYPE_CHECKING:
    from nanoclaw.plugins.page.channel import PageChannel

SHOWN = 120
"""Messages of a conversation that are loaded at once."""
MAIN = Address("terminal", "main")
PICTURES = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
_KEY = re.compile(r"[^\s:\x00-\x1f]{1,64}:[^\x00-\x1f]{1,300}")


class Talk:
    """The routes of conversations."""

    def __init__(self, channel: PageChannel) -> None:
        self._channel, self._host = channel, channel.host

    def routes(self) -> list[Route]:
        return [
            Route("/api/start", self._start),
            Route("/api/stream", self._stream),
            Route("/api/talks", self._list),
            Route("/api/talk", self._talk),
            Route("/api/say", self._say, methods=["POST"]),
            Route("/api/output", self._output),
            Route("/api/files", self._upload, methods=["POST"]),
            Route("/files/{row:int}/{number:int}", self._file),
            Route("/api/draft", self._draft, methods=["POST"]),
            Route("/api/commands", self._commands),
        ]

    async def _start(self, request: Request) -> Response:
        return JSONResponse({"at": self._channel.stream.at, "agent": browser_of(request).agent})

    async def _stream(self, request: Request) -> Response:
        last, browser = request.query_params.get("last", ""), browser_of(request)
        last = request.headers.get("last-event-id") or last
        lines = self._channel.stream.read(last, lambda: self._channel.sessions.is_open(browser.id))
        return StreamingResponse(lines, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _list(self, request: Request) -> Response:
        said = Said("list", MAIN, MAIN, "owner", "owner")
        reply = await self._host.carry_out("sessions", said)
        running = self._channel.live.running()
        return JSONResponse({"talks": (reply.data or {}).get("sessions", []), "running": running})

    async def _talk(self, request: Request) -> Response:
        key = key_of(request.query_params.get("c", ""))
        messages = self._channel.history(key)
        mark, live = self._channel.live.so_far(key)
        messages = messages if mark is None else messages[:mark]
        return JSONResponse(
            {
                "items": items(messages, len(messages), self._channel.lines(key)),
                "live": live,
                "runs": mark is not None,
                "draft": self._drafted(key),
                "at": self._channel.stream.at,
            }
        )

    async def _say(self, request: Request) -> Response:
        found = await given(request)
        key, id_ = key_of(text_in(found, "c", 400)), text_in(found, "id", 64)
        text = text_in(found, "text")
        files = self._attached(found.get("files", []))
        if not (text.strip() or files) or not re.fullmatch(r"[\w-]{8,64}", id_):
            raise HTTPException(400, "There is nothing to say.")
        await self._channel.say(key, id_, text, files)
        return JSONResponse({})

    def _drafted(self, key: str) -> str:
        return "".join(text for (text,) in self._host.read("SELECT text FROM page_drafts WHERE conversation = ?", key))

    def _attached(self, ids: object) -> list[Attachment]:
        """The files that were uploaded for a message."""
        if not isinstance(ids, list) or len(ids) > 20 or not all(isinstance(one, str) for one in ids):
            raise HTTPException(400, "At most 20 files go with a message.")
        sql = "SELECT name, mime, length(data) FROM page_files WHERE id = ?"
        rows = [(one, row) for one in ids for row in self._host.read(sql, one)]
        return [Attachment("", name, mime, one, size) for one, (name, mime, size) in rows]

    async def _upload(self, request: Request) -> Response:
        """Take one file; its id is said with the message that it belongs to."""
        data, id_ = await request.body(), secrets.token_urlsafe(12)
        name = one_line(request.query_params.get("name", "").rpartition("/")[2], 120) or "file"
        mime, now = request.headers.get("content-type", "")[:100], self._host.now()
        if not data:
            raise HTTPException(400, "That file is empty, or is a folder.")

        def keep(tx: Tx) -> None:
            tx.execute("DELETE FROM page_files WHERE at < ?", (now - timedelta(days=1)).isoformat())
            sql = "INSERT INTO page_files (id, name, mime, data, at) VALUES (?, ?, ?, ?, ?)"
            tx.execute(sql, id_, name, mime, data, now.isoformat())

        await self._host.write(keep)
        return JSONResponse({"id": id_, "name": name})

    async def _file(self, request: Request) -> Response:
        """A file that was sent, if it may be opened still; all but pictures is downloaded."""
        *_, files, _ = self._host.records.sent(request.path_params["row"])
        number = request.path_params["number"]
        if number >= len(files):
            raise HTTPException(404, "That file is not there any more.")
        try:
            with open_for_reading(self._host.reach, files[number]) as file:
                data = await asyncio.to_thread(file.read, self._channel.most_bytes)
        except OSError:
            raise HTTPException(404, "That file is not there any more, or may not be opened.") from None
        name = files[number].rpartition("/")[2]
        kind = PICTURES.get(name.rpartition(".")[2].lower())
        headers = {} if kind else {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
        return Response(data, media_type=kind or "application/octet-stream", headers=headers)

    async def _draft(self, request: Request) -> Response:
        found = await given(request)
        key, text = key_of(text_in(found, "c", 400)), text_in(found, "text")
        sql = "INSERT OR REPLACE INTO page_drafts (conversation, text) VALUES (?, ?)"
        if not text:
            sql = "DELETE FROM page_drafts WHERE conversation = ? AND ? = ''"
        await self._host.write(lambda tx: tx.execute(sql, key, text))
        return JSONResponse({})

    async def _commands(self, request: Request) -> Response:
        found = {one.name: one.help for plugin in self._host.plugins() for one in plugin.commands() if one.help}
        return JSONResponse(dict(sorted(found.items())))

    async def _output(self, request: Request) -> Response:
        key = key_of(request.query_params.get("c", ""))
        number = request.query_params.get("number", "")
        session = self._host.conversations.of(conversation_of(key))
        found = session.result(int(number)) if number.isdecimal() and len(number) < 10 else None
        if found is None:
            raise HTTPException(404, "That output is not there any more.")
        call, result = found
        arguments = call.arguments if call else ""
        return JSONResponse({"arguments": arguments, "text": result.text, "diff": result.diff})


def key_of(text: str) -> str:
    """The key of a conversation, as a browser names it. Raises HTTPException."""
    if not _KEY.fullmatch(text):
        raise HTTPException(400, "There is no such conversation.")
    return text


def items(messages: Sequence[Message], end: int, lines: Sequence[tuple[int, int, str, str, str]] = ()) -> list[Item]:
    """The last messages as things that the page shows."""
    found: list[Item] = []
    calls: dict[str, Item] = {}
    number = sum(isinstance(one, ToolResult) for one in messages[: max(0, end - SHOWN)])
    first, besides = max(0, end - SHOWN), list(lines)
    besides = [one for one in besides if one[1] >= first]
    for row, message in enumerate(messages[-SHOWN:], first):
        while besides and besides[0][1] <= row:
            found.append(_line(besides.pop(0)))
        at = message.at.isoformat()
        match message:
            case UserMessage(text, _, "person"):
                found.append({"id": f"m{row}", "kind": "said", "text": text, "at": at})
            case AssistantMessage(text, _, made):
                if text.strip():
                    found.append(of_text(f"m{row}", text, at=at))
                for call in made:
                    item = {"id": f"m{row}-{call.id}", "kind": "tool", "state": "running", "name": call.name}
                    calls[call.id] = item | {"arguments": call.arguments[:ARGUMENTS]}
                    found.append(calls[call.id])
            case ToolResult(call_id, _, text):
                number += 1
                if call_id in calls:
                    calls[call_id]["state"] = "failed" if message.is_error else "done"
                    calls[call_id] |= {"number": number, **of_result(text, message.diff)}
            case _:
                pass
    return [*found, *map(_line, besides)]


def _line(one: tuple[int, int, str, str, str]) -> Item:
    row, _, kind, text, at = one
    if kind == "said":
        return {"id": f"p{row}", "kind": kind, "text": text, "at": at}
    if kind == "files":
        sent, names = json.loads(text)
        files = [{"name": name, "url": f"/files/{sent}/{number}"} for number, name in enumerate(names)]
        return {"id": f"p{row}", "kind": "text", "html": "", "at": at, "files": files}
    return of_text(f"p{row}", text, at=at)
