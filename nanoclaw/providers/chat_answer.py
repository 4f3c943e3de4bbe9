"""Builds an answer from the pieces of an OpenAI-style stream, for every adapter that receives one."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nanoclaw.core.errors import ProviderError, ProviderUnavailable
from nanoclaw.core.events import ReasoningDelta, TextDelta
from nanoclaw.core.messages import AssistantMessage, Finish, ModelRequest, ToolCall, ToolResult, Usage, UserMessage
from nanoclaw.core.provider import OnEvent, whole
from nanoclaw.providers.failures import MISFORMED, too_long, unknown_form

if TYPE_CHECKING:
    from nanoclaw.providers.http import HttpReply

_OVERFLOW = "model_context_window_exceeded"
_FINISH: dict[str, Finish] = {
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    _OVERFLOW: "length",
    "content_filter": "refusal",
    "refusal": "refusal",
    "safety": "refusal",
    "sensitive": "refusal",
}
FILTERED = "(The provider's content filter stopped this answer.)"


class _Call:
    """A call as far as it has come."""

    def __init__(self, index: object) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class ChatAnswer:
    """Fed with chunks, shows deltas at once. Calls of the request's tools that are left in the text are found."""

    refused = FILTERED
    """The text of an answer that was refused without a word."""

    def __init__(self, on_event: OnEvent, request: ModelRequest | None = None, tags: bool = True) -> None:
        self._on_event = on_event
        self._names = [tool.name for tool in request.tools] if request else []
        self._history = request.history if request else ()
        self._text = _Text(self._show, tags)
        self._held: list[str] | None = None  # text that looks like a call and waits for the end
        self._started = False
        self._reasoning: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._thinking_blocks: list[dict[str, Any]] = []
        self._calls: list[_Call] = []
        self._usage: Usage | None = None
        self._refused = False
        self.finish = ""
        self.done = False
        self.heard = False

    async def read(self, reply: HttpReply, model: str, echo: dict[str, Any] | None = None) -> AssistantMessage:
        """The answer that a server sends. Raises ProviderError; `echo` is as for `answer`."""
        try:
            async for chunk in reply.events():
                self.feed(chunk)
                if chunk.get("type") == "message_stop":
                    break
            await reply.drain()
        except ProviderUnavailable:
            if not self.complete:
                raise
        except MISFORMED as error:
            raise unknown_form(model, error) from None
        if self.finish in ("error", "network_error", "insufficient_system_resource"):
            raise ProviderUnavailable(f"{model} failed in mid-answer ({self.finish}). Try again later.")
        if not self.heard and not self.done:
            raise ProviderError(f"{model} sent something that is not an answer. Check model.api_base in config.toml.")
        if not self.complete:
            raise reply.cut()
        return self.answer(model, echo)

    @property
    def complete(self) -> bool:
        """True when the stream said that it is at its end."""
        return self.done or bool(self.finish)

    def feed(self, chunk: dict[str, Any]) -> None:
        if chunk.get("done") is True:
            self.done = True
            return
        usage = chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage")
        if isinstance(usage, dict):
            self._usage = _usage(usage)
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return
        self.heard = True
        self.done = self.done or "message" in choice  # no stream: the whole answer at once
        piece = choice.get("delta") or choice.get("message")
        if isinstance(piece, dict):
            self._piece(piece)
        if choice.get("finish_reason"):
            self.finish = str(choice["finish_reason"])

    def _piece(self, piece: dict[str, Any]) -> None:
        self._think(piece)
        content = piece.get("content")
        if isinstance(content, list):
            for part in content:
                self._part(part)
        elif content:
            self._text.feed(str(content))
        if piece.get("refusal"):
            self._refused = True
            self._text.feed(str(piece["refusal"]))
        for call in piece.get("tool_calls") or ():
            if isinstance(call, dict):
                self._call(call)
        if isinstance(piece.get("function_call"), dict):
            self._call({"index": 0, "function": piece["function_call"]})

    def _part(self, part: Any) -> None:
        if not isinstance(part, dict):
            return
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            texts = [inner] if isinstance(inner, str) else [str(p.get("text", "")) for p in inner or () if p]
            self._reason("".join(texts))
        elif part.get("text"):
            self._text.feed(str(part["text"]))

    def _think(self, piece: dict[str, Any]) -> None:
        details = [detail for detail in piece.get("reasoning_details") or () if isinstance(detail, dict)]
        for detail in details:
            _merge_detail(self._details, detail)
        for block in piece.get("thinking_blocks") or ():
            if isinstance(block, dict):
                _merge_block(self._thinking_blocks, block)
        said = piece.get("reasoning_content") or piece.get("reasoning")
        if not said:
            said = "".join(str(detail.get("text") or detail.get("summary") or "") for detail in details)
        if isinstance(said, str):
            self._reason(said)

    def _reason(self, text: str) -> None:
        if text:
            self._reasoning.append(text)
            self._on_event(ReasoningDelta(whole(text)))

    def _call(self, piece: dict[str, Any]) -> None:
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        identity, name = str(piece.get("id") or ""), str(function.get("name") or "")
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        call = self._open_call(piece.get("index"), identity, name)
        call.id = call.id or identity
        if name and name != call.name:
            call.name += name
        if arguments:
            call.arguments.append(arguments)

    def _open_call(self, index: object, identity: str, name: str) -> _Call:
        """The call that a piece belongs to: servers leave out the index or the id, or give all calls one index."""
        same = [call for call in self._calls if call.index == index] if index is not None else self._calls
        last = same[-1] if same else None
        other = last is not None and bool(
            (identity and last.id and identity != last.id)
            or (name and last.name and last.arguments and (index is None or not identity))
        )
        if last is None or other:
            last = _Call(index)
            self._calls.append(last)
        return last

    def _show(self, text: str, reasoning: bool) -> None:
        if reasoning:
            self._reason(text)
            return
        if not self._started and self._names and (self._held is not None or text.strip()):
            self._held = [*(self._held or ()), text]
            start = "".join(self._held).lstrip()
            if re.match(_MAY_BE_CALL, start, re.IGNORECASE) or (
                len(start) < 12 and any(o.startswith(start) for o in _OPENINGS)
            ):
                return
            text, self._held = "".join(self._held), None
        self._started = True
        self._on_event(TextDelta(text))

    def answer(self, model: str, echo: dict[str, Any] | None = None) -> AssistantMessage:
        """The whole answer; raises ContextTooLong when the window was full before its first word.

        What the provider wants to hear again goes into `opaque`, with `echo`.
        """
        text = self._text.end()
        calls = [ToolCall(c.id, c.name.strip(), storable("".join(c.arguments))) for c in self._calls]
        if not calls and self._names and text:
            text, calls = self._calls_in(text)
        if self._held is not None and text:
            self._on_event(TextDelta(text))
        finish = _FINISH.get(self.finish, "stop")
        if self._refused:
            finish = "refusal"
        if finish == "refusal" and not text and not calls:
            text = self.refused
            self._on_event(TextDelta(text))
        if calls and finish == "stop":
            finish = "tool_calls"
        if self.finish == _OVERFLOW and not text and not calls:
            raise too_long(model)
        return AssistantMessage(
            text, datetime.now(UTC), distinct(calls), self._usage, finish, model, self._opaque(echo or {})
        )

    def _calls_in(self, text: str) -> tuple[str, list[ToolCall]]:
        if "{" not in text:
            return text, []
        from nanoclaw.providers.json_tools import calls_in_text

        found = calls_in_text(text, self._names, self._history)
        return found.text, list(found.calls)

    def _opaque(self, echo: dict[str, Any]) -> str:
        kept: dict[str, Any] = {}
        if reasoning := "".join(self._reasoning) + self._text.thought:
            kept["reasoning_content"] = whole(reasoning)
        if self._details:
            kept["reasoning_details"] = self._details
        if self._thinking_blocks:
            kept["thinking_blocks"] = self._thinking_blocks
        return storable(json.dumps({**echo, **kept}, ensure_ascii=False)) if kept else ""


_OPENINGS = ("<tool_call>", "```json", "[TOOL_CALLS]", "<function", "<|tool")
_MAY_BE_CALL = r"[{\[]|<tool_call>|```(json)?\s*[{\[]|<function|<\|tool"


class _Text:
    """The answer's text: thinking at its start is told apart, and no character is shown by halves."""

    def __init__(self, show: Any, tags: bool) -> None:
        """`tags` may stand around thinking."""
        self._show, self._tags = show, tags
        self._mode = "start" if tags else "text"
        self._pending = ""
        self._text: list[str] = []
        self._thought = False
        self.thought = ""  # what turned out to be thinking only at the end

    def feed(self, piece: str) -> None:
        self._pending += piece
        if self._mode == "start":
            self._begin()
        if self._mode == "thinking":
            self._think()
        if self._mode == "after" and self._pending.strip():
            self._mode, self._pending = "text", self._pending.lstrip()
        if self._mode == "text" and self._pending:
            half = "\ud800" <= self._pending[-1] <= "\udbff"  # the other half comes with the next piece
            ready, self._pending = (self._pending[:-1], self._pending[-1]) if half else (self._pending, "")
            self._emit(ready)

    def _begin(self) -> None:
        start = self._pending.lstrip()
        if start.startswith("<think>"):
            self._mode, self._pending = "thinking", start[len("<think>") :]
        elif start and not "<think>".startswith(start):
            self._mode = "text"

    def _think(self) -> None:
        thought, end, rest = self._pending.partition("</think>")
        if end:
            self._mode, self._pending = "after", rest
        else:
            kept = max((n for n in range(1, 8) if thought.endswith("</think>"[:n])), default=0)
            thought, self._pending = thought[: len(thought) - kept], thought[len(thought) - kept :]
        if not self._thought:
            thought = thought.lstrip()
        if thought:
            self._thought = True
            self._show(thought, True)

    def _emit(self, text: str) -> None:
        if text:
            self._text.append(whole(text))
            self._show(whole(text), False)

    def end(self) -> str:
        if self._mode == "thinking":
            self._show(self._pending, True)
        elif self._mode == "text" or (self._mode == "start" and self._pending.strip()):
            self._emit(self._pending)
        self._pending = ""
        text = "".join(self._text)
        if self._tags and "</think>" in text and "<think>" not in text:  # the template had opened it
            self.thought, _, text = text.partition("</think>")
            text = text.lstrip()
        return text


def distinct(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls with an id each, no two the same."""
    used: set[str] = set()
    named = []
    for call in calls:
        identity = whole(call.id).strip()
        if not identity or identity in used:
            identity = f"call_{os.urandom(9).hex()}"
        used.add(identity)
        named.append(ToolCall(identity, whole(call.name), call.arguments))
    return tuple(named)


def storable(text: str) -> str:
    """JSON text with halves of characters escaped: it can be stored, and whoever reads the JSON sees what was sent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half.group()):04x}", text)
    return text


def object_in(text: str | bytes) -> dict[str, Any]:
    """The object of a JSON text, {} for any other text."""
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        return value if isinstance(value, dict) else {}
    return {}


def kept_of(message: AssistantMessage, form: str) -> dict[str, Any]:
    """The state that an adapter of that form kept of an answer to give it back; {} for an answer of another."""
    kept = object_in(message.opaque)
    return kept if kept.get("form") == form else {}


def _usage(usage: dict[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    cached = cached or usage.get("prompt_cache_hit_tokens") or usage.get("cached_tokens")
    return Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(cached))


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and 0 < value < math.inf else 0


def _merge_detail(details: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    last = details[-1] if details else None
    same = last is not None and all(last.get(key) == piece.get(key) for key in ("type", "index"))
    if last is None or not same or piece.get("type") == "reasoning.encrypted":
        details.append(dict(piece))
        return
    for key, value in piece.items():
        if key in ("text", "summary") and isinstance(value, str):
            last[key] = (last.get(key) or "") + value
        elif value is not None:
            last[key] = value


def _merge_block(blocks: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    last = blocks[-1] if blocks else None
    if last is None or last.get("type") != piece.get("type") or last.get("signature") or "data" in piece:
        blocks.append(dict(piece))
        return
    last["thinking"] = (last.get("thinking") or "") + (piece.get("thinking") or "")
    if piece.get("signature"):
        last["signature"] = piece["signature"]


def plain_id(identity: str, longest: int = 40) -> str:
    """An id that every provider takes; another provider's odd one is replaced by its digest."""
    if re.fullmatch(r"[A-Za-z0-9_-]+", identity) and len(identity) <= longest:
        return identity
    return f"call_{digest(identity)[:24]}"


def digest(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()


def has_images(request: ModelRequest) -> bool:
    return any(isinstance(message, UserMessage | ToolResult) and message.images for message in request.history)
