"""A conversation as Markdown or JSON, for a file that is passed on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Any

from nanoclaw.core.messages import AssistantMessage, Message, ToolResult, UserMessage
from nanoclaw.documents.marks import without_documents
from nanoclaw.escapes import one_line
from nanoclaw.outside_text import own_words

_CALL, _RESULT = 300, 600  # characters of a call, and of its result


def as_markdown(title: str, messages: Sequence[Message], hide: Callable[[str], str], zone: tzinfo | None) -> str:
    """Words as they were said, a line for each call and its result; what the program told the model is left out."""
    parts = [f"# {one_line(hide(title), 200) or 'A conversation'}"]
    for message in messages:
        at = f"{message.at.astimezone(zone):%Y-%m-%d %H:%M}"
        match message:
            case UserMessage(origin="runtime"):
                continue
            case UserMessage():
                parts.append(f"## You, {at}\n\n{hide(without_documents(own_words(message.text)))}")
            case AssistantMessage():
                calls = [f"- `{one_line(hide(f'{call.name} {call.arguments}'), _CALL)}`" for call in message.tool_calls]
                said = [hide(message.text.strip()), "\n".join(calls)]
                parts.append("\n\n".join([f"## nanoclaw, {at}", *filter(None, said)]))
            case ToolResult():
                parts.append(f"> {message.name}: {one_line(hide(message.text), _RESULT)}")
    return "\n\n".join(parts) + "\n"


def as_json(key: str, title: str, messages: Sequence[Message], hide: Callable[[str], str]) -> str:
    whole = {"conversation": key, "title": hide(title), "messages": [_object(one, hide) for one in messages]}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _object(message: Message, hide: Callable[[str], str]) -> Mapping[str, Any]:
    about: dict[str, Any] = {"at": message.at.isoformat(), "text": hide(message.text)}
    match message:
        case UserMessage():
            return {"kind": "user", "origin": message.origin, **about}
        case AssistantMessage():
            calls = [{"name": call.name, "arguments": hide(str(call.arguments))} for call in message.tool_calls]
            return {"kind": "assistant", **about, "model": message.model, "calls": calls}
        case ToolResult():
            return {"kind": "result", "name": message.name, "is_error": message.is_error, **about}
