"""Speaks to Anthropic's Messages API over httpx: caching, tools, and thinking that is given back as it came."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from nanoclaw.core.messages import (
    SEPARATOR,
    AssistantMessage,
    Image,
    Message,
    ModelRequest,
    SystemPrompt,
    ToolResult,
    Usage,
    UserMessage,
)
from nanoclaw.core.provider import ABLE, GO_ON, Abilities, LegalForm, OnEvent, whole
from nanoclaw.providers.chat_answer import ChatAnswer, has_images, kept_of, plain_id, storable
from nanoclaw.providers.failures import Endpoint
from nanoclaw.providers.http import (
    Adaptable,
    HttpReply,
    Lesson,
    ModelClient,
    RetryPolicy,
    messages_json,
    object_json,
)

VERSION = "2023-06-01"
ID_LIMIT = 64
REFUSED = "(The model declined to answer this.)"

_CACHE = {"type": "ephemeral"}
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192, "max": 16384}
"""Tokens to think in, by effort; of "none" it does not think."""

_THINKING = ("thinking", "redacted_thinking")


class AnthropicHabits(NamedTuple):
    """Peculiarities of a model: each refusal is learned once and kept."""

    vision: bool = True
    echo: bool = True
    output_tokens: int = 10**9
    effort: Literal["named", "budget", ""] = "named"
    """The way to tell it the effort: by name, as tokens to think in, or none."""


class Anthropic(Adaptable[AnthropicHabits], ModelClient):
    """One model behind the Messages API."""

    KEY = "x-api-key", "{}"

    def __init__(self, endpoint: Endpoint, *, retries: RetryPolicy | None = None, abilities: Abilities = ABLE) -> None:
        base = endpoint.api_base.rstrip("/").removesuffix("/v1")
        variable = endpoint.key_variable or "ANTHROPIC_API_KEY"
        endpoint = endpoint._replace(api_base=base, key_variable=variable, path="/v1/messages")
        Adaptable.__init__(self, endpoint.model, AnthropicHabits(vision=abilities.sees_images), abilities)
        ModelClient.__init__(self, endpoint, retries, {"anthropic-version": VERSION})

    async def answer(self, request: ModelRequest, habits: AnthropicHabits, on_event: OnEvent) -> AssistantMessage:
        async def read(reply: HttpReply, show: OnEvent) -> AssistantMessage:
            return await _Answer(show).read(reply, self.model, {"form": "anthropic"})

        return await self.ask(self._body(request, habits), request.limits.timeout_seconds, read, on_event)

    def learn(self, habits: AnthropicHabits, words: str, request: ModelRequest) -> Lesson[AnthropicHabits] | None:
        said = words.lower()
        if limit := re.search(r"max_tokens:? \d+ > (\d+)", said):
            return Lesson(habits._replace(output_tokens=int(limit[1])))
        asks_effort = habits.effort and request.effort in _BUDGETS and "signature" not in said
        if asks_effort and re.search(r"thinking|effort|output_config", said):
            if habits.effort == "named" and re.search(r"adaptive|effort|output_config", said):
                return Lesson(habits._replace(effort="budget"))
            return Lesson(habits._replace(effort=""), "has no effort setting: it is left out")
        if habits.echo and "signature" in said:
            return Lesson(habits._replace(echo=False))
        if habits.vision and has_images(request) and "image" in said:
            return Lesson(habits._replace(vision=False), lost="sees_images")
        return None

    def _body(self, request: ModelRequest, habits: AnthropicHabits) -> bytes:
        name = self.endpoint.wire_model or self.model.removeprefix("anthropic/")
        body: dict[str, Any] = {"model": name}
        if request.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                for tool in request.tools
            ]
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
    calls: list[dict[str, Any]] = [
        {"type": "tool_use", "id": plain_id(one.id, ID_LIMIT), "name": one.name, "input": json.loads(one.arguments)}
        for one in message.tool_calls
    ]
    text = message.text.rstrip() if not calls else message.text
    order = kept_of(message, "anthropic").get("blocks") if echo else []
    blocks: list[dict[str, Any]] = []
    for block in order if isinstance(order, list) else ():
        if not isinstance(block, dict):
            continue
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


class _Answer(ChatAnswer):
    """The events of this API; blocks are given back in the order they came in."""

    refused = REFUSED

    def __init__(self, on_event: OnEvent) -> None:
        super().__init__(on_event, tags=False)
        self._counts: dict[str, int] = {}
        self._blocks: list[tuple[dict[str, Any], dict[str, list[str]]]] = []  # what is given back, long texts in pieces

    def feed(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self.heard = True
                self._count(_dict(event.get("message")).get("usage"))
            case "content_block_start":
                self._open(_dict(event.get("content_block")))
            case "content_block_delta":
                delta = _dict(event.get("delta"))
                for name in ("text", "thinking", "signature", "partial_json"):
                    self._add(name, delta.get(name))
            case "message_delta":
                self._count(event.get("usage"))
                self.finish = str(_dict(event.get("delta")).get("stop_reason") or self.finish)
            case "message_stop":
                self.done = True
            case "message":  # no stream: the whole answer at once
                self._count(event.get("usage"))
                self.finish = str(event.get("stop_reason") or "")
                for block in event.get("content") or ():
                    self._open(_dict(block))
                self.heard = self.done = True

    def _open(self, start: dict[str, Any]) -> None:
        """Begin a block: of thinking all is kept exactly as it was signed, of all else the place."""
        kind = str(start.get("type") or "")
        kept = start if kind == "redacted_thinking" else {"type": kind}
        self._blocks.append((kept, {"thinking": [], "signature": []} if kind == "thinking" else {}))
        if kind == "tool_use":
            function = {"name": start.get("name"), "arguments": start.get("input") or ""}
            self._call({"index": len(self._blocks), "id": start.get("id"), "function": function})
        for name in ("text", "thinking", "signature"):
            self._add(name, start.get(name))

    def _add(self, name: str, piece: Any) -> None:
        """Add to the last block."""
        if not piece or not self._blocks:
            return
        kept, pieces = self._blocks[-1]
        if name in pieces:
            pieces[name].append(str(piece))
        if name == "text":
            self._text.feed(str(piece))
        elif name == "thinking":
            self._reason(str(piece))
        elif name == "partial_json" and kept["type"] == "tool_use":
            self._call({"index": len(self._blocks), "function": {"arguments": str(piece)}})

    def _count(self, usage: Any) -> None:
        self._counts |= {key: value for key, value in _dict(usage).items() if isinstance(value, int)}
        if counts := self._counts:
            read, written = counts.get("cache_read_input_tokens", 0), counts.get("cache_creation_input_tokens", 0)
            taken = counts.get("input_tokens", 0) + read + written
            self._usage = Usage(taken, counts.get("output_tokens", 0), read)

    def _opaque(self, echo: dict[str, Any]) -> str:
        if not any(kept["type"] in _THINKING for kept, _ in self._blocks):
            return ""
        blocks = [{**kept, **{name: "".join(text) for name, text in pieces.items()}} for kept, pieces in self._blocks]
        return storable(json.dumps({**echo, "blocks": blocks}, ensure_ascii=False))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
