"""Conversations as the page shows them: what was said, the list, and what the person says."""

from __future__ import annotations

import asyncio
import re
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nanoclaw.beneath.paths import open_for_reading
from nanoclaw.core.channel import MAIN
from nanoclaw.core.messages import AssistantMessage, Attachment, Message, ToolCall, ToolResult
from nanoclaw.core.plugin import Said, Tx
from nanoclaw.escapes import one_line
from nanoclaw.plugins.page.channel import conversation, conversation_of
from nanoclaw.plugins.page.render import html
from nanoclaw.plugins.page.server import ONE_ONLY, browser_of, given, text_in
from nanoclaw.plugins.page.transcript import LAST

if TYPE_CHECKING:
    from nanoclaw.plugins.page.channel import PageChannel

BY_HAND = re.compile(r"!{1,2}[\w./~]")  # the beginning of a command that a terminal runs in the person's own shell
SHOWN = {one: f"image/{one}" for one in ("png", "jpeg", "gif", "webp")} | {"jpg": "image/jpeg", "ogg": "audio/ogg"}
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
            Route("/api/text", self._text),
            Route("/api/files", self._upload, methods=["POST"]),
            Route("/files/{row:int}/{number:int}", self._file),
            Route("/api/draft", self._draft, methods=["POST"]),
            Route("/api/commands", self._commands),
        ]

    async def _start(self, request: Request) -> Response:
        return JSONResponse({"at": self._channel.stream.at, "only": browser_of(request).only})

    async def _stream(self, request: Request) -> Response:
        browser = browser_of(request)
        last = request.headers.get("last-event-id") or request.query_params.get("last", "")
        lines = self._channel.stream.read(last, lambda: self._channel.sessions.is_open(browser), browser.only)
        return StreamingResponse(lines, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _list(self, request: Request) -> Response:
        """The conversations; with words those that have them in their title, and the messages that do."""
        words = request.query_params.get("words", "").strip()
        said = Said(f"search {words}" if words else "", MAIN, MAIN, "owner", "owner")
        data = (await self._host.carry_out("sessions", said)).data or {}
        talks = [one for one in data.get("sessions", ()) if one["last"]]
        named = {one["name"]: one for one in [*self._by_code(words), *talks]}
        talks = sorted(named.values(), key=lambda one: str(one["last"]), reverse=True)
        message = self._channel.transcript.message  # None for one that was taken back
        found = [one for one in data.get("found", ()) if message(one["conversation"], one["row"])]
        return JSONResponse({"talks": talks, "found": found, "running": self._channel.live.running()})

    def _by_code(self, words: str) -> list[dict[str, str]]:
        """Conversations in which only code has answered, such as about a reminder, by the first words there."""
        sql = """SELECT session, text, last FROM page_lines JOIN (SELECT min(id) AS first, max(at) AS last
            FROM page_lines WHERE kind = 'said' AND text NOT LIKE '/%' GROUP BY session) ON page_lines.id = first"""
        keys = self._host.records.conversations()
        talked = {one.key for one in self._host.conversations.all() if one.words}
        found = [(keys[row][0], one_line(text, 60), last) for row, text, last in self._host.read(sql) if row in keys]
        rows = [{"name": key, "title": title, "last": last} for key, title, last in found if key not in talked]
        return [one for one in rows if all(word in one["title"].casefold() for word in words.casefold().split())]

    async def _talk(self, request: Request) -> Response:
        """A part of a conversation: the newest without a query, with it what is `before` or `after` a row, around
        a row (`at`), or from a day on (`on`)."""
        query, key = request.query_params, key_of(request.query_params.get("c", ""))
        mark, live = self._channel.live.so_far(key)
        transcript, end = self._channel.transcript, LAST if mark is None else mark + 1
        try:
            if after := query.get("after"):
                page = transcript.after(key, int(after), end)
            elif at := query.get("at"):
                page = transcript.around(key, int(at), end)
            elif day := query.get("on"):
                page = transcript.on(key, day, end)
            else:
                page = transcript.page(key, min(int(query.get("before", end)), end))
        except (ValueError, OverflowError):
            raise HTTPException(400, "There is no such place in a conversation.") from None
        known = {one["id"] for one in live}
        waiting = [one for one in self._channel.waiting(key) if one["id"] not in known]
        drafts = self._host.read("SELECT text FROM page_drafts WHERE conversation = ?", key)
        draft = "" if browser_of(request).only else "".join(text for (text,) in drafts)
        state = {"runs": mark is not None, "draft": draft, "at": self._channel.stream.at}
        return JSONResponse({**page._asdict(), **state, "live": [*live, *waiting]})

    async def _say(self, request: Request) -> Response:
        found, browser = await given(request), browser_of(request)
        key, id_ = key_of(text_in(found, "c", 400)), text_in(found, "id", 64)
        text = text_in(found, "text")
        if browser.only not in ("", key):
            raise HTTPException(403, ONE_ONLY)
        if found.get("withdrawn") is True:
            if browser.only or not await self._channel.withdraw(key, id_):
                raise HTTPException(409, "That is begun, and cannot be taken back any more: ■ stops it.")
            return JSONResponse({})
        files = self._attached(found.get("files", []))
        if not (text.strip() or files) or not re.fullmatch(r"[\w-]{8,64}", id_):
            raise HTTPException(400, "There is nothing to say.")
        if BY_HAND.match(text):
            raise HTTPException(
                400, f"Only a terminal runs {text.split()[0]} by your own hand: leave out the ! to ask for it."
            )
        guest = f"guest-{browser.id}" if browser.only else ""
        await self._channel.say(key, id_, text, files, is_shown=text.strip() != "/stop", guest=guest)
        return JSONResponse({})

    def _attached(self, ids: object) -> list[Attachment]:
        """The files that were uploaded for a message."""
        if not isinstance(ids, list) or len(ids) > 20 or not all(isinstance(one, str) for one in ids):
            raise HTTPException(400, "At most 20 files go with a message.")
        sql = "SELECT name, mime, length(data) FROM page_files WHERE id = ?"
        rows = [(one, row) for one in ids for row in self._host.read(sql, one)]
        return [Attachment("", name, mime, one, size, name[:10] == "voice note") for one, (name, mime, size) in rows]

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
        """A file that was sent, if it may be opened still; all but pictures and sound is downloaded."""
        *_, files, place = self._host.records.sent(request.path_params["row"])
        number = request.path_params["number"]
        if browser_of(request).only not in ("", conversation(conversation_of(place))):
            raise HTTPException(403, ONE_ONLY)
        try:
            with open_for_reading(self._host.reach, files[number]) as file:
                data = await asyncio.to_thread(file.read, self._channel.most_bytes)
        except (IndexError, OSError):
            raise HTTPException(404, "That file is not there any more, or may not be opened.") from None
        name = files[number].rpartition("/")[2]
        kind = SHOWN.get(name.rpartition(".")[2].lower())
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
        """The call and the result of a tool: by its row, or by its number while its turn runs."""
        key = key_of(request.query_params.get("c", ""))
        row, number = (_number(request.query_params.get(name, "")) for name in ("row", "number"))
        session = self._host.conversations.of(conversation_of(key))
        found: tuple[ToolCall | None, Message | None] | None = session.result(number) if number else None
        if placed := session.said(row + 1, 1) if row else ():
            message = placed[0].message
            made = [one for said in session.of_turn(placed[0].turn, row) for one in getattr(said, "tool_calls", ())]
            found = next((one for one in made[::-1] if one.id == getattr(message, "call_id", None)), None), message
        if not found or not isinstance(result := found[1], ToolResult):
            raise HTTPException(404, "That output is not there any more.")
        arguments = found[0].arguments if found[0] else ""
        return JSONResponse({"arguments": arguments, "text": result.text, "diff": result.diff})

    async def _text(self, request: Request) -> Response:
        """The HTML of a long text, made beside the loop: of a message, of what was sent, or of what grows."""
        key, id_ = key_of(request.query_params.get("c", "")), request.query_params.get("id", "")
        row = _number(id_[1:])
        if id_.startswith("m"):
            message = self._channel.transcript.message(key, row)
            text = message.text if isinstance(message, AssistantMessage) else ""
        else:
            text = self._host.records.sent(row)[4] if id_.startswith("o") else self._channel.live.text(key, id_)
        if not text:
            raise HTTPException(404, "That text is not there any more.")
        return JSONResponse({"html": await asyncio.to_thread(html, text)})


def key_of(text: str) -> str:
    """The key of a conversation, as a browser names it. Raises HTTPException."""
    if not _KEY.fullmatch(text):
        raise HTTPException(400, "There is no such conversation.")
    return text


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0
