"""Messages as JSON text for the store; images apart, named by their SHA-256."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from nanoclaw.core.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, Usage, UserMessage

LoadImage = Callable[[str], tuple[str, bytes]]
"""By SHA-256, the mime type and the bytes."""


def dump(message: Message) -> str:
    body: dict[str, Any] = {"text": message.text, "at": message.at.isoformat()}
    match message:
        case UserMessage():
            body |= {"kind": "user", "origin": message.origin}
        case AssistantMessage():
            body |= {"kind": "assistant", "finish": message.finish, "model": message.model}
            if message.tool_calls:
                body["calls"] = [call if call.said else call[:3] for call in message.tool_calls]
            if message.usage:
                usage = message.usage
                body["usage"] = [usage.input_tokens, usage.output_tokens, usage.cached_tokens]
            if message.opaque:
                body["opaque"] = message.opaque
        case ToolResult():
            body |= {"kind": "result", "call": message.call_id, "name": message.name, "error": message.is_error}
            if message.diff:
                body["diff"] = message.diff
    if not isinstance(message, AssistantMessage):
        if message.images:
            body["images"] = [[image.sha256, image.name] for image in message.images]
        if message.outside:
            body["outside"] = message.outside
    return json.dumps(body)


def _no_image(sha256: str) -> tuple[str, bytes]:
    raise KeyError(sha256)


def load(body: dict[str, Any], load_image: LoadImage = _no_image) -> Message:
    """Raises KeyError, ValueError or TypeError if the body is not one that `dump` wrote."""
    text, at, kind = body["text"], datetime.fromisoformat(body["at"]), body["kind"]
    if kind == "assistant":
        calls = tuple(ToolCall(*call) for call in body.get("calls", ()))
        usage = Usage(*body["usage"]) if "usage" in body else None
        return AssistantMessage(text, at, calls, usage, body["finish"], body["model"], body.get("opaque", ""))
    images = tuple(_image(sha256, name, load_image) for sha256, name in body.get("images", ()))
    if kind == "user":
        return UserMessage(text, at, body["origin"], images, body.get("outside", ""))
    if kind == "result":
        outside, diff = body.get("outside", ""), body.get("diff", "")
        return ToolResult(body["call"], body["name"], text, at, body["error"], images, outside, diff)
    raise ValueError(f"a message of unknown kind {kind!r}")


def first_of(running: str) -> Message | None:
    """The first message of a JSON list of messages; None if there is none."""
    try:
        return load(json.loads(running)[0])
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def with_texts(message: Message, dumped: str) -> Message:
    """A message with the texts of its dumped form, from which words were removed."""
    body = json.loads(dumped)
    if isinstance(message, AssistantMessage):
        calls = tuple(ToolCall(*call) for call in body.get("calls", ()))
        return message._replace(text=body["text"], tool_calls=calls, opaque=body.get("opaque", ""))
    if isinstance(message, ToolResult):
        return message._replace(text=body["text"], diff=body.get("diff", ""))
    return message._replace(text=body["text"])


def _image(sha256: str, name: str, load_image: LoadImage) -> Image:
    mime, data = load_image(sha256)
    return Image(mime, data, name)
