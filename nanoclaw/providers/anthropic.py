"""Speaks to Anthropic's Messages API over httpx: caching, tools, and thinking that is given back as it came."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from nanoclaw.core.errors import CannotSee, ProviderError, ProviderUnavailable
from nanoclaw.core.events import Notice, ReasoningDelta, TextDelta
from nanoclaw.core.messages import (
    SEPARATOR,
    AssistantMessage,
    Finish,
    Image,
    Message,
    ModelRequest,
    SystemPrompt,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)
from nanoclaw.core.provider import ABLE, GO_ON, Abilities, LegalForm, OnEvent, whole
from nanoclaw.providers.chat_answer import distinct, has_images, kept_of, plain_id, storable
from nanoclaw.providers.failures import MISFORMED, BadRequest, Endpoint, too_long, unknown_form
from nanoclaw.providers.http import HttpReply, ModelClient, RetryPolicy, messages_json, object_json

API_BASE = "https://api.anthropic.com"
VERSION = "2023-06-01"
ID_LIMIT = 64
REFUSED = "(The model declined to answer this.)"

_CACHE = {"type": "ephemeral"}
_FINISH: dict[str, Finish] = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192, "max": 16384}
"""Tokens to think in, by effort; of "none" it does not think."""

_THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class Habits:
    """Peculiarities of a model: each refusal is learned once and kept."""

    vision: bool = True
    echo: bool = True
    output_tokens: int = 10**9
    effort: Literal["named", "budget", ""] = "named"
    """The way to tell it the effort: by name, as tokens to think in, or none."""


class Anthropic(ModelClient):
    """One model behind the Messages API."""

    def __init__(self, endpoint: Endpoint, *, retries: RetryPolicy | None = None, abilities: Abilities = ABLE) -> None:
        self.model = endpoint.model
        self._wire_model = endpoint.wire_model or endpoint.model.removeprefix("anthropic/")
        self._habits = Habits(vision=abilities.sees_images)
        self._abilities = abilities
        headers = {"anthropic-version": VERSION, **({"x-api-key": endpoint.key} if endpoint.key else {})}
        base = (endpoint.api_base or API_BASE).rstrip("/").removesuffix("/v1")
        variable = endpoint.key_variable or "ANTHROPIC_API_KEY"
        endpoint = endpoint._replace(api_base=base, key_variable=variable, path="/v1/messages")
        super().__init__(endpoint, headers, retries)

    @property
    def supports_vision(self) -> bool:
        return self._habits.vision

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        async def read(reply: HttpReply, on_event: OnEvent) -> AssistantMessage:
            return await _read(reply, self.model, on_event)

        for _ in range(5):
            body = self._body(request)
            try:
                return await self.ask(body, request.limits.timeout_seconds, read, on_event)
            except BadRequest as error:
                learned = _learn(self._habits, error.words, request)
                if learned is None:
                    from nanoclaw.providers.repair import in_words

                    request = in_words(request, error)
                    continue
                if self._habits.vision and not learned.vision:
                    self._abilities.lacks("sees_images")
                    if request.must_see:
                        self._habits = learned
                        raise CannotSee(f"{self.model} cannot see images.") from None
                    on_event(Notice(f"{self.model} cannot see images; they are left out", stays="owner"))
                if self._habits.effort and not learned.effort:
                    on_event(Notice(f"{self.model} has no effort setting: it is left out"))
                self._habits = learned
        raise ProviderError(f"{self.model} refuses every form of the request. Choose another model.")

    def _body(self, request: ModelRequest) -> bytes:
        habits = self._habits
        body: dict[str, Any] = {"model": self._wire_model}
        if request.tools:
            body["tools"] = [_wire_tool(tool) for tool in request.tools]
        if system := wire_system(request.system):
            body["system"] = system
        after: dict[str, Any] = {}
        limit = request.limits.output_tokens
        budget = _BUDGETS.get(request.effort, 0)
        if budget and habits.effort:
            after |= _effort(request.effort, habits.effort)
            limit += budget  # thinking counts as output
        after["max_tokens"] = min(limit, habits.output_tokens)
        after["stream"] = True
        about = (habits.vision, habits.echo)
        return object_json(body, messages_json(request, self, about, partial(Turns, *about)), after)


def _effort(effort: str, how: str) -> dict[str, Any]:
    """The fields that ask for an effort. By name models know it from Claude 4.6 on; the older ones have a budget."""
    if how == "budget":
        return {"thinking": {"type": "enabled", "budget_tokens": _BUDGETS[effort]}}
    named = "low" if effort == "minimal" else effort
    return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": named}}


def wire_system(system: SystemPrompt) -> list[dict[str, Any]]:
    """Two blocks: what stays for weeks, with a cache breakpoint at its end, and what belongs to this context."""
    stable, dynamic = whole(system.stable), whole(system.dynamic)
    blocks: list[dict[str, Any]] = []
    if stable.strip():
        blocks.append({"type": "text", "text": stable, "cache_control": _CACHE})
    if dynamic.strip():
        blocks.append({"type": "text", "text": SEPARATOR + dynamic if blocks else dynamic})
    return blocks


class Turns:
    """Turns of the two sides alternating, all results of one answer in one turn, a breakpoint at the end."""

    def __init__(self, vision: bool, echo: bool, legal: LegalForm | None = None) -> None:
        self._vision, self._echo, self._legal = vision, echo, legal or LegalForm()

    def copy(self) -> Turns:
        return Turns(self._vision, self._echo, self._legal.copy())

    def add(self, open: list[dict[str, Any]], history: Sequence[Message], position: int) -> None:
        for message in self._legal.of(history, position):
            if isinstance(message, AssistantMessage):
                role, blocks = "assistant", _answer_blocks(message, self._echo)
            elif isinstance(message, ToolResult):
                role, blocks = "user", [_result_block(message, self._vision)]
            else:
                role, blocks = "user", _user_blocks(message, self._vision)
            if open and open[-1]["role"] == role:
                blocks = [*open.pop()["content"], *blocks]
            open.append({"role": role, "content": blocks})

    def end(self, open: list[dict[str, Any]]) -> None:
        if not open or open[-1]["role"] == "assistant":
            open.append({"role": "user", "content": [{"type": "text", "text": GO_ON}]})
        *others, last = open[-1]["content"]
        open[-1] = {"role": "user", "content": [*others, {**last, "cache_control": _CACHE}]}


def _user_blocks(message: UserMessage, vision: bool) -> list[dict[str, Any]]:
    blocks = [_image_block(image, vision) for image in message.images]
    return [*blocks, {"type": "text", "text": message.text}] if message.text.strip() else blocks


def _result_block(result: ToolResult, vision: bool) -> dict[str, Any]:
    content: str | list[dict[str, Any]] = result.text
    if result.images:
        images = [_image_block(image, vision) for image in result.images]
        content = [*images, {"type": "text", "text": result.text}]
    block = {"type": "tool_result", "tool_use_id": plain_id(result.call_id, ID_LIMIT), "content": content}
    return {**block, "is_error": True} if result.is_error else block


def _image_block(image: Image, vision: bool) -> dict[str, Any]:
    if not vision:
        name = whole(image.name) or "without a name"
        return {"type": "text", "text": f"[image {name} left out: this model cannot see images]"}
    data = b64encode(image.data).decode("ascii")
    return {"type": "image", "source": {"type": "base64", "media_type": image.mime, "data": data}}


def _answer_blocks(message: AssistantMessage, echo: bool) -> list[dict[str, Any]]:
    """The answer's blocks in the order they came in; thinking exactly as it was signed."""
    calls = [_call_block(call) for call in message.tool_calls]
    text = message.text.rstrip() if not calls else message.text
    order = _order(message) if echo else []
    blocks: list[dict[str, Any]] = []
    for block in order:
        if _is_signed(block):
            blocks.append(block)
        elif block.get("type") == "text" and text.strip():
            blocks.append({"type": "text", "text": text})
            text = ""
        elif block.get("type") == "tool_use" and calls:
            blocks.append(calls.pop(0))
    if text.strip():  # before the calls: nothing may stand between them and their results
        at = next((i for i, block in enumerate(blocks) if block["type"] == "tool_use"), len(blocks))
        blocks.insert(at, {"type": "text", "text": text})
    return blocks + calls


def _is_signed(block: dict[str, Any]) -> bool:
    """Thinking as the API takes it back: whole, with what proves that it is the model's own."""
    match block:
        case {"type": "thinking", "thinking": str(), "signature": str(signature)}:
            return bool(signature)
        case {"type": "redacted_thinking", "data": str()}:
            return True
    return False


def _order(message: AssistantMessage) -> list[dict[str, Any]]:
    blocks = kept_of(message, "anthropic").get("blocks")
    return [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []


def _call_block(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": plain_id(call.id, ID_LIMIT),
        "name": call.name,
        "input": json.loads(call.arguments),
    }


def _wire_tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _learn(habits: Habits, words: str, request: ModelRequest) -> Habits | None:
    """The adjusted request style after a 400; None when the error names nothing we can change."""
    said = words.lower()
    if limit := re.search(r"max_tokens:? \d+ > (\d+)", said):
        return replace(habits, output_tokens=int(limit[1]))
    asks_effort = habits.effort and request.effort in _BUDGETS and "signature" not in said
    if asks_effort and re.search(r"thinking|effort|output_config", said):
        is_by_name = habits.effort == "named" and re.search(r"adaptive|effort|output_config", said)
        return replace(habits, effort="budget" if is_by_name else "")
    if habits.echo and "signature" in said:
        return replace(habits, echo=False)
    if habits.vision and has_images(request) and "image" in said:
        return replace(habits, vision=False)
    return None


class _Block:
    """A block of an answer, its long fields in pieces: a call's arguments may be megabytes."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.kind = str(start.get("type") or "")
        self._pieces: dict[str, list[str]] = {}
        for name in ("text", "thinking", "signature"):
            if start.get(name):
                self.add(name, start[name])
        if self.kind == "tool_use" and start.get("input"):
            self.add("json", json.dumps(start["input"], ensure_ascii=False))

    def add(self, name: str, piece: Any) -> None:
        self._pieces.setdefault(name, []).append(str(piece or ""))

    def get(self, name: str) -> str:
        return "".join(self._pieces.get(name, ()))

    def kept(self) -> dict[str, Any]:
        """The part that is given back: thinking exactly as it was signed, of all else the place."""
        match self.kind:
            case "thinking":
                return {"type": "thinking", "thinking": self.get("thinking"), "signature": self.get("signature")}
            case "redacted_thinking":
                return self.start
        return {"type": self.kind}


_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("json", "partial_json"),
}


@dataclass(slots=True)
class _Answer:
    on_event: OnEvent
    blocks: list[_Block] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    stop_reason: str = ""
    started: bool = False
    done: bool = False

    def feed(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self.started = True
                self._count(_dict(event.get("message")).get("usage"))
            case "content_block_start":
                self._open(_dict(event.get("content_block")))
            case "content_block_delta":
                self._delta(_dict(event.get("delta")))
            case "message_delta":
                self._count(event.get("usage"))
                self.stop_reason = str(_dict(event.get("delta")).get("stop_reason") or self.stop_reason)
            case "message_stop":
                self.done = True
            case "message":  # no stream: the whole answer at once
                self._count(event.get("usage"))
                self.stop_reason = str(event.get("stop_reason") or "")
                for block in event.get("content") or ():
                    self._open(_dict(block))
                self.started = self.done = True

    def _open(self, start: dict[str, Any]) -> None:
        self.blocks.append(_Block(start))
        self._show("text", start.get("text"))
        self._show("thinking", start.get("thinking"))

    def _delta(self, delta: dict[str, Any]) -> None:
        name, source = _DELTAS.get(str(delta.get("type")), ("", ""))
        if self.blocks and name:
            self.blocks[-1].add(name, delta.get(source))
            self._show(name, delta.get(source))

    def _show(self, name: str, piece: Any) -> None:
        if piece and name == "text":
            self.on_event(TextDelta(whole(str(piece))))
        elif piece and name == "thinking":
            self.on_event(ReasoningDelta(whole(str(piece))))

    def _count(self, usage: Any) -> None:
        self.usage |= {key: value for key, value in _dict(usage).items() if isinstance(value, int)}

    def message(self, model: str) -> AssistantMessage:
        text = whole("".join(block.get("text") for block in self.blocks if block.kind == "text"))
        calls = [
            ToolCall(str(block.start.get("id") or ""), str(block.start.get("name") or ""), storable(block.get("json")))
            for block in self.blocks
            if block.kind == "tool_use"
        ]
        finish = _FINISH.get(self.stop_reason, "tool_calls" if calls else "stop")
        if finish == "refusal" and not text:
            text = REFUSED
            self.on_event(TextDelta(text))
        return AssistantMessage(text, datetime.now(UTC), distinct(calls), self._used(), finish, model, self._opaque())

    def _used(self) -> Usage | None:
        counts = self.usage
        if not counts:
            return None
        read, written = counts.get("cache_read_input_tokens", 0), counts.get("cache_creation_input_tokens", 0)
        return Usage(counts.get("input_tokens", 0) + read + written, counts.get("output_tokens", 0), read)

    def _opaque(self) -> str:
        if not any(block.kind in _THINKING for block in self.blocks):
            return ""
        kept = {"form": "anthropic", "blocks": [block.kept() for block in self.blocks]}
        return storable(json.dumps(kept, ensure_ascii=False))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


async def _read(reply: HttpReply, model: str, on_event: OnEvent) -> AssistantMessage:
    answer = _Answer(on_event)
    try:
        async for event in reply.events():
            answer.feed(event)
            if answer.done:
                break
        await reply.drain()
    except ProviderUnavailable:
        if not answer.stop_reason:
            raise
    except MISFORMED as error:
        raise unknown_form(model, error) from None
    if not answer.started:
        raise ProviderError(f"{model} sent something that is not an answer. Check model.api_base in config.toml.")
    if not answer.done and not answer.stop_reason:
        raise reply.cut()
    message = answer.message(model)
    if answer.stop_reason == "model_context_window_exceeded" and not message.text and not message.tool_calls:
        raise too_long(model)
    return message
