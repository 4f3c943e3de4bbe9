"""An API that others know: `/v1/chat/completions`, `/v1/audio/transcriptions` and `/v1/models`. It is a channel of its
own: each token has its conversations there, of which the history here counts, not the one that a client sends."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from nanoclaw.core.channel import Deliver, Hints
from nanoclaw.core.errors import NanoclawError, Undeliverable
from nanoclaw.core.events import Event, Joined, TextDelta, ToolFinished, ToolStarted, TurnBegan, TurnEnded
from nanoclaw.core.messages import Address, Attachment, Inbound, Outbound, UserMessage
from nanoclaw.core.plugin import Host
from nanoclaw.plugins.page.server import given
from nanoclaw.plugins.page.tokens import ApiTokens, RequestRefused

NAME, MODEL = "api", "nanoclaw"
MOST_NAME = 200  # characters of a conversation's name
_Pictures = Sequence[tuple[str, bytes]]
_wrong = partial(RequestRefused, 400)
_PICTURE = re.compile(r"data:(image/([\w.+-]+));base64,", re.IGNORECASE)


class _Asked:
    """A request that waits for its answer."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(16)
        self.news: asyncio.Queue[Event | Outbound] = asyncio.Queue()


class ApiChannel:
    """The routes, and the channel by which what they bring is answered."""

    name = NAME
    hints = Hints(
        markup="markdown", bursts=False, remark="A program asks for the person: nobody there can be asked or say yes."
    )

    def __init__(self, host: Host, tokens: ApiTokens) -> None:
        self._host, self._tokens = host, tokens
        self.alive: datetime | None = None
        self._asked: dict[Address, _Asked] = {}
        self._locks: WeakValueDictionary[Address, asyncio.Lock] = WeakValueDictionary()
        self._pictures: dict[str, bytes] = {}  # by ref, while their message is answered

    def routes(self) -> list[Route]:
        return [
            Route("/v1/models", self._guarded(self._models)),
            Route("/v1/models/{name}", self._guarded(self._models)),
            Route("/v1/chat/completions", self._guarded(self._completions), methods=["POST"]),
            Route("/v1/audio/transcriptions", self._guarded(self._transcriptions), methods=["POST"]),
        ]

    # --- the channel -------------------------------------------------------------------------------------------------

    async def run(self, deliver: Deliver) -> None:
        self.alive = self._host.now()
        await asyncio.Event().wait()

    def serves(self, outbound: Outbound) -> bool:
        """True: it is in the history, and whoever asks next is told by the assistant, or reads it in the page."""
        return True

    async def send(self, outbound: Outbound) -> str:
        asked = self._asked.get(outbound.address)
        if asked and outbound.reply_to in ("", asked.id):
            asked.news.put_nowait(outbound)
        return f"api-{outbound.key}"

    def show(self, address: Address, event: Event) -> None:
        if asked := self._asked.get(address):
            asked.news.put_nowait(event)

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """A picture of a request. Raises Undeliverable for one whose request has ended."""
        if attachment.ref not in self._pictures:
            raise Undeliverable("the request that brought it has ended")
        return self._pictures[attachment.ref]

    # --- requests ----------------------------------------------------------------------------------------------------

    def _guarded(self, work: Callable[[Request, str], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Let in who has a token, and say everything that goes wrong as clients expect it."""

        async def handle(request: Request) -> Response:
            try:
                name = await self._tokens.name_in(request.headers.get("authorization", ""))
                self.alive = self._host.now()
                if self._host.is_frozen():
                    raise RequestRefused(503, "Everything is frozen by /panic, until /resume.")
                return await work(request, name)
            except RequestRefused as refusal:
                refused = refusal
            except HTTPException as error:
                refused = RequestRefused(error.status_code, error.detail)
            except NanoclawError as error:
                refused = RequestRefused(503, str(error))
            # a client must not ask again by itself: what it said is in the history, and may have been done
            return JSONResponse(refused.body, refused.status, headers={"x-should-retry": "false"})

        return handle

    async def _models(self, request: Request, token: str) -> Response:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": MODEL}
        if (name := request.path_params.get("name")) is None:
            return JSONResponse({"object": "list", "data": [model]})
        _check_model(name)
        return JSONResponse(model)

    async def _completions(self, request: Request, token: str) -> Response:
        body = await given(request)
        _check_model(body.get("model"))
        said = _last_said(body.get("messages"))
        name = request.headers.get("x-conversation") or body.get("user") or "main"
        if not isinstance(name, str) or len(name) > MOST_NAME:
            raise _wrong(f"The name of a conversation is a text of at most {MOST_NAME} characters.")
        address = Address(NAME, f"{token}/{quote(name, safe=' @')}")
        created = int(self._host.now().timestamp())
        frame = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": created, "model": MODEL}
        if body.get("stream"):
            options = body.get("stream_options")
            has_usage = isinstance(options, dict) and bool(options.get("include_usage"))
            return _Stream(_lines(frame, self._answer(address, *said), has_usage=has_usage))
        working = asyncio.ensure_future(_whole(frame, self._answer(address, *said)))
        leaving = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
            return JSONResponse(working.result()) if working.done() else Response(status_code=499)
        finally:
            working.cancel()
            leaving.cancel()

    async def _transcriptions(self, request: Request, token: str) -> Response:
        """Write down what is said in a sound file, by the model for voice notes, whichever the request names."""
        if not self._host.setting("models.transcription").name:
            raise RequestRefused(404, "No model for transcription is configured: [models] transcription names one.")
        fields = _form(request.headers.get("content-type", ""), await request.body())
        name, sound = fields.get("file", ("", b""))
        kind = fields.get("response_format", ("", b"json"))[1].decode("ascii", "replace")
        if not name or not sound or kind not in ("json", "text"):
            raise _wrong("`file` must be a sound file with its name, `response_format` json or text.")
        text = (await self._host.models.transcribe("", name, sound)).strip()
        return PlainTextResponse(f"{text}\n") if kind == "text" else JSONResponse({"text": text})

    async def _answer(self, address: Address, text: str, pictures: _Pictures) -> AsyncIterator[str | TurnEnded]:
        """Pieces of the answer as they come, then its end with all of it; closed before that, the turn is stopped."""
        async with self._locks.setdefault(address, asyncio.Lock()):
            asked = self._asked[address] = _Asked()
            files = tuple(self._held(asked.id, number, *one) for number, one in enumerate(pictures, 1))
            message = UserMessage(text, self._host.now())
            inbound = Inbound(address, "owner", asked.id, message, files, role="owner")
            profile = self._host.profile("person")._replace(can_ask=False, can_allow=False)
            is_over = False
            try:
                await self._host.write(lambda tx: tx.deliver(inbound, profile))
                async for piece in _pieces(asked):
                    is_over = isinstance(piece, TurnEnded) and piece.reason != "failed"
                    yield piece
            finally:
                del self._asked[address]
                for file in files:
                    del self._pictures[file.ref]
                if not is_over:  # one that failed may be about to try again, when nobody waits for it any more
                    self._host.spawn(self._host.conversations.stop(address))

    def _held(self, id_: str, number: int, mime: str, data: bytes) -> Attachment:
        ref = f"{id_}/{number}"
        self._pictures[ref] = data
        return Attachment("", f"picture-{number}.{mime.partition('/')[2].partition('+')[0]}", mime, ref, len(data))


async def _pieces(asked: _Asked) -> AsyncIterator[str | TurnEnded]:
    """Pieces of what is said in the turn of a request, and its end."""
    is_others, gap, round_ = False, "", ""
    refused: dict[str, None] = {}
    while True:
        match event := await asked.news.get():
            case TurnBegan(reply_to):
                is_others = reply_to not in ("", asked.id)
            case Joined(ids) if asked.id in ids:
                is_others = False
            case Outbound():
                yield f"{gap}{event.text}"
                if event.reply_to:  # answered without a turn
                    yield TurnEnded(event.text, "answered")
                    return
                gap, round_ = "\n\n", ""
            case _ if is_others:
                is_others = not isinstance(event, TurnEnded)
            case TextDelta(text):
                yield f"{gap}{text}"
                gap, round_ = "", round_ + text
            case ToolStarted():
                gap, round_ = "\n\n" if round_ else gap, ""
            case ToolFinished(call, refused="nobody"):
                refused[call.name] = None
            case TurnEnded():
                whole = _with_remarks(event, list(refused))
                if event.reason not in ("cancelled", "failed"):
                    begun = round_.strip()
                    if begun and whole.startswith(begun):
                        gap, rest = "", whole.removeprefix(begun)
                    else:
                        gap, rest = "\n\n" if begun else gap, whole
                    if rest:
                        yield f"{gap}{rest}"
                yield event._replace(answer=whole)
                return


def _with_remarks(ended: TurnEnded, refused: Sequence[str]) -> str:
    """The answer, with what no client can show or press."""
    yes = f"Not done, as it needs your yes and nobody can be asked here: {', '.join(refused)}." if refused else ""
    return "\n\n".join(one for one in (ended.answer.strip(), yes, *(f"File: {path}" for path in ended.files)) if one)


async def _whole(frame: dict[str, Any], pieces: AsyncIterator[str | TurnEnded]) -> dict[str, Any]:
    async with aclosing(pieces):  # type: ignore[type-var]
        async for piece in pieces:
            if isinstance(piece, TurnEnded):
                _check(piece)
                message = {"role": "assistant", "content": piece.answer, "refusal": None}
                choice = {"index": 0, "message": message, "finish_reason": _finish(piece), "logprobs": None}
                return {**frame, "object": "chat.completion", "choices": [choice], "usage": _usage(piece)}
    raise RequestRefused(500, "There is no answer.")


async def _lines(
    frame: dict[str, Any], pieces: AsyncIterator[str | TurnEnded], *, has_usage: bool
) -> AsyncIterator[str]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return _line({**frame, "object": "chat.completion.chunk", "choices": [choice]})

    try:
        yield chunk({"role": "assistant", "content": ""})
        async with aclosing(pieces):  # type: ignore[type-var]
            async for piece in pieces:
                if isinstance(piece, str):
                    yield chunk({"content": piece})
                    continue
                _check(piece)
                yield chunk({}, _finish(piece))
                if has_usage:
                    yield _line({**frame, "object": "chat.completion.chunk", "choices": [], "usage": _usage(piece)})
    except RequestRefused as refusal:
        yield _line(refusal.body)
    except NanoclawError as error:
        yield _line(RequestRefused(503, str(error)).body)
    yield "data: [DONE]\n\n"


class _Stream(StreamingResponse):
    """Lines that end at once, with what makes them, when the client has gone."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        super().__init__(lines, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._lines):  # type: ignore[type-var]
            await super().__call__(scope, receive, send)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _line(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _check(ended: TurnEnded) -> None:
    """Raises RequestRefused for a turn without an answer."""
    if ended.reason == "failed":
        raise RequestRefused(502, ended.answer or "The turn failed.", "turn_failed")
    if ended.reason == "cancelled":
        raise RequestRefused(409, ended.answer or "The turn was stopped.", "turn_stopped")


def _finish(ended: TurnEnded) -> str:
    return "stop" if ended.reason == "answered" else "length"


def _usage(ended: TurnEnded) -> dict[str, Any]:
    used = ended.usage
    total, cached = used.input_tokens + used.output_tokens, {"cached_tokens": used.cached_tokens}
    of_prompt = {"prompt_tokens": used.input_tokens, "prompt_tokens_details": cached}
    return {**of_prompt, "completion_tokens": used.output_tokens, "total_tokens": total}


def _check_model(name: object) -> None:
    if name != MODEL:
        raise RequestRefused(
            404, f"The model here is {MODEL!r}: it is the assistant, whichever model it uses.", "model_not_found"
        )


def _last_said(messages: object) -> tuple[str, _Pictures]:
    """The last message of the user, with its pictures. Raises RequestRefused."""
    if not isinstance(messages, list) or not messages:
        raise _wrong("`messages` must be a list with at least one message of the user.")
    of_user = [one for one in messages if isinstance(one, dict) and one.get("role") == "user"]
    content = of_user[-1].get("content") if of_user else None
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list):
        raise _wrong("`messages` must have a message of the user, whose content is a text or a list of parts.")
    texts, pictures = list[str](), list[tuple[str, bytes]]()
    for part in parts:
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text.encode("utf-8", "replace").decode())
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                pictures.append(_picture(url))
            case _:
                raise _wrong("A part of a message is a text, or an image_url with a data URL; nothing else is taken.")
    text = "\n".join(texts)
    if not text.strip() and not pictures:
        raise _wrong("The last message of the user is empty.")
    return text, pictures


def _form(kind: str, body: bytes) -> dict[str, tuple[str, bytes]]:
    """Fields of a form by name, each with the name of its file, '' for none, and what it says."""
    fields, boundary = dict[str, tuple[str, bytes]](), re.search(r'boundary="?([^\s";]{1,200})', kind)
    for part in body.split(b"--" + boundary[1].encode())[1:-1] if boundary else ():
        head, _, data = part.removesuffix(b"\r\n").partition(b"\r\n\r\n")
        named = dict(re.findall(r'\b(name|filename)="([^"\r\n]*)"', head.decode("utf-8", "replace")))
        fields[named.get("name", "")] = named.get("filename", ""), data
    return fields


def _picture(url: str) -> tuple[str, bytes]:
    found = _PICTURE.match(url)
    try:
        data = base64.b64decode(url[found.end() :], validate=True) if found else b""
    except binascii.Error:
        data = b""
    if not found or not data:
        raise _wrong("A picture must be a data URL such as data:image/png;base64,…: nothing is fetched from elsewhere.")
    return found[1].lower(), data
