"""Conversations as the page shows them: what was said, the list, and what the person says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nanoclaw.core.messages import Address, AssistantMessage, Message, ToolResult, UserMessage
from nanoclaw.core.plugin import Said
from nanoclaw.plugins.page.channel import conversation_of
from nanoclaw.plugins.page.live import ARGUMENTS, Item, of_result, of_text
from nanoclaw.plugins.page.server import browser_of, given, text_in

if TYPE_CHECKING:
    from nanoclaw.plugins.page.channel import PageChannel

SHOWN = 120
"""Messages of a conversation that are loaded at once."""
MAIN = Address("terminal", "main")
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
                "at": self._channel.stream.at,
            }
        )

    async def _say(self, request: Request) -> Response:
        found = await given(request)
        key, id_ = key_of(text_in(found, "c", 400)), text_in(found, "id", 64)
        text = text_in(found, "text")
        if not text.strip() or not re.fullmatch(r"[\w-]{8,64}", id_):
            raise HTTPException(400, "There is nothing to say.")
        await self._channel.say(key, id_, text)
        return JSONResponse({})

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
    return of_text(f"p{row}", text, at=at)
