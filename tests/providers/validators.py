"""Checks by which each provider refuses a conversation, written from its own words: documentation, texts of its 400s.

Each function takes the messages of a request as they stand in its body and raises AssertionError naming the rule.
"""

import json
import re
from itertools import pairwise
from typing import Any

Wire = list[dict[str, Any]]


def openai(messages: Wire) -> None:
    """Chat completions: "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"."""
    assert messages, "messages: empty array"
    waiting: list[str] = []
    for message in messages:
        role = message["role"]
        if role == "tool":
            assert message["tool_call_id"] in waiting, "a 'tool' message must respond to a preceding 'tool_calls'"
            waiting.remove(message["tool_call_id"])
            _text(message["content"])
            continue
        assert not waiting, f"tool_call_ids did not have response messages: {waiting}"
        if role == "assistant":
            waiting = _chat_answer(message)
        else:
            assert role in ("system", "user"), f"unknown role {role}"
            _chat_content(message["content"])
    assert not waiting, f"tool_call_ids did not have response messages: {waiting}"


def mistral(messages: Wire) -> None:
    """The order, the ids and the last role as Mistral's own request validator has them."""
    openai(messages)
    follows = {
        "system": {"system", "user", "assistant"},
        "user": {"system", "user", "assistant"},
        "assistant": {"user", "assistant", "tool"},
        "tool": {"assistant", "tool"},
    }
    roles = [message["role"] for message in messages]
    for before, after in pairwise(roles):
        assert after in follows[before], f"Unexpected role '{after}' after role '{before}'"
    assert roles[-1] in ("user", "tool"), f"Expected last role User or Tool but got {roles[-1]}"
    ids = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    ids += [call["id"] for message in messages for call in message.get("tool_calls", ())]
    for identity in ids:
        assert re.fullmatch("[a-zA-Z0-9]{9}", identity), f"Tool call id was {identity} but must have a length of 9"


def strict_template(messages: Wire) -> None:
    """Chat templates: "after the optional system message, conversation roles must alternate user/assistant/…".

    Calls and their results stand within the assistant's turn and are not counted, as in the templates themselves.
    """
    openai(messages)
    assert all(message["role"] != "system" for message in messages[1:]), "System message must be at the beginning"
    turns = [
        message["role"]
        for message in messages
        if message["role"] in ("user", "assistant") and not message.get("tool_calls")
    ]
    _alternate(turns)
    roles = [message["role"] for message in messages]
    assert ("tool", "user") not in pairwise(roles), "only an answer may follow a result"
    assert roles[-1] in ("user", "tool"), "the assistant's turn cannot be the last"


def plain_template(messages: Wire) -> None:
    """The strictest templates know no tools at all: a system text, then two sides in turn."""
    for message in messages:
        assert set(message) == {"role", "content"} and isinstance(message["content"], str), message
        _text(message["content"])
    roles = [message["role"] for message in messages]
    assert "system" not in roles[1:], "System message must be at the beginning"
    _alternate([role for role in roles if role != "system"])
    assert roles[-1] == "user", "a model answers the user"


def anthropic(messages: Wire) -> None:
    """Messages API: "each `tool_use` block must have a corresponding `tool_result` block in the next message"."""
    _alternate([message["role"] for message in messages])
    assert messages[-1]["role"] == "user", "this model does not support assistant message prefill"
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        blocks = message["content"]
        assert blocks, "messages must have non-empty content"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(results) == sorted(waiting), "`tool_use` ids without `tool_result` blocks immediately after"
        first = [block["type"] == "tool_result" for block in blocks]
        assert first == sorted(first, reverse=True), "tool_result blocks must come first"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert not seen & set(waiting) and len(set(waiting)) == len(waiting), "`tool_use` ids must be unique"
        seen.update(waiting)
        for block in blocks:
            _anthropic_block(block, message["role"])
        text = blocks[-1].get("text", "") if message["role"] == "assistant" else ""
        assert text == text.rstrip(), "final assistant content cannot end with trailing whitespace"
    assert not waiting, "`tool_use` ids without `tool_result` blocks immediately after"
    marks = sum("cache_control" in block for message in messages for block in message["content"])
    assert marks <= 4, "A maximum of 4 blocks with cache_control may be provided"


def gemini(contents: Wire) -> None:
    """generateContent: "function call turn comes immediately after a user turn or after a function response turn".

    A user may speak right behind a function response; two turns of the model in a row are refused.
    """
    roles = [content["role"] for content in contents]
    assert roles[0] == "user" and set(roles) <= {"user", "model"}, "contents must begin with a user turn"
    assert ("model", "model") not in pairwise(roles), f"roles must alternate, but are {roles}"
    assert contents[-1]["role"] == "user", "a single turn request must end with the user"
    called: list[str] = []
    for content in contents:
        parts = content["parts"]
        assert parts, "contents.parts must not be empty"
        for part in parts:
            assert part.get("text", "x"), "Unable to submit request because it has an empty text parameter"
        answers = [part["function_response"]["name"] for part in parts if "function_response" in part]
        assert answers == called, "the number of function response parts must equal the function call parts"
        called = [part["function_call"]["name"] for part in parts if "function_call" in part]
        assert not called or content["role"] == "model", "a function call is the model's"
        for name in called:
            assert re.fullmatch(r"[a-zA-Z_][\w.:-]{0,63}", name), "Invalid function name. Must start with a letter"
    assert not called, "a function call without its response"


def _alternate(roles: list[str]) -> None:
    assert roles, "no messages"
    for position, role in enumerate(roles):
        assert role == ("user", "assistant")[position % 2], f"roles must alternate, but are {roles}"


def _text(text: Any) -> None:
    assert isinstance(text, str) and text.strip(), f"an empty text: {text!r}"
    text.encode()


def _chat_content(content: Any) -> None:
    if isinstance(content, list):
        assert content, "Invalid 'content': empty array"
        for part in content:
            assert part["type"] in ("text", "image_url"), part
            if part["type"] == "text":
                _text(part["text"])
    else:
        _text(content)


def _chat_answer(message: dict[str, Any]) -> list[str]:
    calls = message.get("tool_calls")
    if calls is None:
        _text(message["content"])
        return []
    assert 1 <= len(calls) <= 128, "Invalid 'tool_calls': array too short or too long (at most 128)"
    if message["content"] is not None:
        _text(message["content"])
    for call in calls:
        assert re.fullmatch("[a-zA-Z0-9_-]{1,40}", call["id"]), "Invalid 'tool_calls[0].id': string too long"
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["function"]["name"]), "Invalid function name"
        assert isinstance(json.loads(call["function"]["arguments"]), dict), "arguments must be a JSON object"
    ids = [call["id"] for call in calls]
    assert len(set(ids)) == len(ids), "Duplicate value for 'tool_call_id'"
    return ids


def _anthropic_block(block: dict[str, Any], role: str) -> None:
    match block["type"]:
        case "text":
            assert block["text"].strip(), "text content blocks must contain non-whitespace text"
        case "tool_use":
            assert role == "assistant" and re.fullmatch("[a-zA-Z0-9_-]{1,64}", block["id"]), block
            assert re.fullmatch("[a-zA-Z0-9_-]{1,128}", block["name"]) and isinstance(block["input"], dict), block
        case "tool_result":
            assert role == "user" and block["content"], block
            for part in block["content"] if isinstance(block["content"], list) else ():
                _anthropic_block(part, role)
        case "image":
            assert role == "user" and block["source"]["data"], block
        case "thinking":
            assert role == "assistant" and isinstance(block["thinking"], str), block
            assert isinstance(block["signature"], str) and block["signature"], "thinking.signature: Field required"
        case "redacted_thinking":
            assert role == "assistant" and isinstance(block["data"], str), block
        case kind:
            raise AssertionError(f"unknown block {kind}")
    if block["type"] in ("thinking", "redacted_thinking"):
        assert "cache_control" not in block, "cache_control cannot be set for thinking blocks"
