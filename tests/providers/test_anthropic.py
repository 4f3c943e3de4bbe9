"""The Messages API adapter against a real server on loopback."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from nanoclaw.core.errors import ContextTooLong, ProviderError, ProviderRefused, ProviderUnavailable
from nanoclaw.core.messages import (
    AssistantMessage,
    Image,
    Limits,
    Message,
    ModelRequest,
    SystemPrompt,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from nanoclaw.providers.anthropic import REFUSED, Anthropic
from nanoclaw.providers.failures import Endpoint
from tests.model_server import ModelServer, Scripted, anthropic, failing
from tests.providers import conftest
from tests.providers.conftest import NOW, READ_FILE, Heard, Waits, request

KEY = "sk-ant-secret"
CACHE = {"type": "ephemeral"}
PICTURE = Image("image/png", b"pixels", "cat.png")
THOUGHT = {"type": "thinking", "thinking": "Hm — ünd", "signature": "c2ln=="}
SEALED = {"type": "redacted_thinking", "data": "b64data"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "x"}}


def ask(server: ModelServer, waits: Waits, heard: Heard, asked: ModelRequest | None = None) -> AssistantMessage:
    return conftest.ask(make(server, waits), asked, heard)


def make(server: ModelServer, waits: Waits) -> Anthropic:
    return Anthropic(Endpoint("anthropic/claude-x", server.root, key=KEY), retries=waits.retries)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_an_answer_is_streamed_and_counted(server: ModelServer, waits: Waits, heard: Heard) -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5, "output_tokens": 1}
    server.script(anthropic(text("Hello there"), usage=usage))
    asked = request(tools=(READ_FILE,))._replace(system=SystemPrompt("Stable.", "Dynamic."))
    answer = ask(server, waits, heard, asked)
    assert (answer.text, answer.finish, answer.usage) == ("Hello there", "stop", Usage(115, 5, 100))
    assert heard.text == "Hello there"
    sent = server.asked[0]
    assert sent.path == "/v1/messages"
    assert (sent.headers["x-api-key"], sent.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert sent.json == {
        "model": "claude-x",
        "tools": [{"name": "read_file", "description": "Read a file.", "input_schema": READ_FILE.parameters}],
        "system": [
            {"type": "text", "text": "Stable.", "cache_control": CACHE},
            {"type": "text", "text": "\n\n---\n\nDynamic."},
        ],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": CACHE}]}],
        "max_tokens": 8192,
        "stream": True,
    }


def test_calls_come_in_pieces_and_empty_input_is_an_object(server: ModelServer, waits: Waits, heard: Heard) -> None:
    empty = {"type": "tool_use", "id": "toolu_2", "name": "list_dir", "input": ""}
    server.script(anthropic(text("Looking."), USE, empty, stop="tool_use"))
    answer = ask(server, waits, heard)
    assert (answer.text, answer.finish) == ("Looking.", "tool_calls")
    assert [(call.id, call.name) for call in answer.tool_calls] == [("toolu_1", "read_file"), ("toolu_2", "list_dir")]
    assert json.loads(answer.tool_calls[0].arguments) == {"path": "x"}


def test_thinking_is_given_back_byte_for_byte_in_its_place(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(anthropic(THOUGHT, SEALED, text("Let me look."), USE, stop="tool_use"), anthropic(text("ok")))
    answer = ask(server, waits, heard, request(tools=(READ_FILE,)))
    assert (answer.text, heard.reasoning) == ("Let me look.", "Hm — ünd")
    history = (UserMessage("hi", NOW), answer, ToolResult("toolu_1", "read_file", "data", NOW))
    ask(server, waits, heard, request(*history, tools=(READ_FILE,)))
    sent = server.asked[1].json
    assert sent["messages"][1] == {"role": "assistant", "content": [THOUGHT, SEALED, text("Let me look."), USE]}
    assert json.dumps(THOUGHT, ensure_ascii=False, separators=(",", ":")).encode() in server.asked[1].body


def test_results_of_one_answer_are_one_turn_with_images_inside(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(anthropic(text("ok")))
    calls = (ToolCall("a", "read_file", "{}"), ToolCall("b", "read_file", "not json"))
    history = (
        UserMessage("[Runtime]", NOW, "runtime"), UserMessage("hi", NOW), AssistantMessage("", NOW, calls),
        ToolResult("a", "read_file", "a picture", NOW, images=(PICTURE,)),
        ToolResult("b", "read_file", "bad", NOW, is_error=True), UserMessage("go on", NOW),
    )  # fmt: skip
    ask(server, waits, heard, request(*history))
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cGl4ZWxz"}}
    assert server.asked[0].json["messages"] == [
        {"role": "user", "content": [text("[Runtime]"), text("hi")]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "read_file", "input": {}},
                {"type": "tool_use", "id": "b", "name": "read_file", "input": {"_raw": "not json"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [image, text("a picture")]},
                {"type": "tool_result", "tool_use_id": "b", "content": "bad", "is_error": True},
                {**text("go on"), "cache_control": CACHE},
            ],
        },
    ]


def test_a_history_of_another_provider_is_accepted(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(anthropic(text("ok")))
    calls = (ToolCall("call|x:1__thought__" + "A" * 100, "read_file", "{}"),)
    opaque = '{"form": "openai", "reasoning_content": "secret"}'
    history = (
        UserMessage("hi", NOW), AssistantMessage("", NOW, calls, opaque=opaque),
        ToolResult(calls[0].id, "read_file", "x", NOW),
    )  # fmt: skip
    ask(server, waits, heard, request(*history))
    use, answer = (message["content"][0] for message in server.asked[0].json["messages"][1:])
    assert use["id"] == answer["tool_use_id"] and len(use["id"]) < 64
    assert b"secret" not in server.asked[0].body


def test_the_next_request_begins_with_the_bytes_of_this_one(server: ModelServer, waits: Waits, heard: Heard) -> None:
    history: list[Message] = []
    for number in range(10):
        history += [UserMessage(f"now {number}", NOW, "runtime"), UserMessage(f"do {number}", NOW)]
        server.script(anthropic(THOUGHT, text("done")))
        history.append(ask(server, waits, heard, request(*history, tools=(READ_FILE,))))
    mark = b',"cache_control":{"type":"ephemeral"}'
    bodies = [asked.body.replace(mark, b"") for asked in server.asked]
    for before, after in pairwise(bodies):
        assert after.startswith(before[: before.index(b'],"max_tokens"')])


@pytest.mark.parametrize(
    ("wire", "ours"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("refusal", "refusal")],
)
def test_stop_reasons_are_mapped(server: ModelServer, waits: Waits, heard: Heard, wire: str, ours: str) -> None:
    server.script(anthropic(text("x"), stop=wire))
    assert ask(server, waits, heard).finish == ours


def test_a_silent_refusal_is_put_into_words(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(anthropic(stop="refusal"))
    assert ask(server, waits, heard).text == REFUSED == heard.text


def test_a_plain_json_answer_is_accepted(server: ModelServer, waits: Waits, heard: Heard) -> None:
    body = {"type": "message", "content": [text("hello"), USE], "stop_reason": "tool_use", "usage": {"input_tokens": 3}}
    server.script(failing(200, body))
    answer = ask(server, waits, heard)
    assert (answer.text, heard.text, answer.usage) == ("hello", "hello", Usage(3, 0, 0))
    assert json.loads(answer.tool_calls[0].arguments) == {"path": "x"}


def error_of(server: ModelServer, waits: Waits, heard: Heard) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(server, waits, heard)
    assert KEY not in str(caught.value)
    return caught.value


def wrong(kind: str, words: str = "Sorry") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": words}}


def test_errors_before_the_answer(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(failing(401, wrong("authentication_error", f"invalid x-api-key {KEY}")))
    assert "ANTHROPIC_API_KEY" in str(error_of(server, waits, heard))
    server.script(failing(400, wrong("invalid_request_error", "Your credit balance is too low to access the API")))
    spent = error_of(server, waits, heard)
    assert type(spent) is ProviderRefused
    assert "has no quota or credit left (400)" in str(spent)
    server.script(failing(400, wrong("invalid_request_error", "prompt is too long: 2 tokens > 1 maximum")))
    assert isinstance(error_of(server, waits, heard), ContextTooLong)
    server.script(failing(413, wrong("request_too_large")))
    assert isinstance(error_of(server, waits, heard), ContextTooLong)
    assert waits.seconds == []


@pytest.mark.parametrize("kind", ["overloaded_error", "api_error", "rate_limit_error", "timeout_error"])
def test_trouble_inside_the_stream_is_asked_again(server: ModelServer, waits: Waits, heard: Heard, kind: str) -> None:
    broken = anthropic(text("Hel"), end=False)
    trouble = b"event: error\ndata: " + json.dumps(wrong(kind)).encode() + b"\n\n"
    server.script(Scripted((*broken.parts, trouble)), failing(529, wrong("overloaded_error")), anthropic(text("Hello")))
    assert ask(server, waits, heard).text == "Hello"
    again = "anthropic/claude-x broke off, its answer starts again in"
    assert heard.notices == [f"{again} {n} s (try {n + 1} of 3)" for n in (1, 2)]


def test_a_refusal_inside_the_stream_is_not_asked_again(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(Scripted((b"data: " + json.dumps(wrong("authentication_error")).encode() + b"\n\n",)))
    assert isinstance(error_of(server, waits, heard), ProviderRefused)


@pytest.mark.parametrize("cut", [True, False])
def test_a_cut_stream_is_asked_again(server: ModelServer, waits: Waits, heard: Heard, cut: bool) -> None:
    server.script(*[replace(anthropic(USE, end=False), cut=cut)] * 3)
    assert isinstance(error_of(server, waits, heard), ProviderUnavailable)
    assert len(server.asked) == 3


def test_a_stream_kept_open_after_its_end_is_not_waited_for(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(replace(anthropic(text("Hello")), hang=True))
    assert ask(server, waits, heard).text == "Hello"


def test_another_kind_of_server_is_named(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(failing(200, {"choices": []}))
    assert "not an answer" in str(error_of(server, waits, heard))


def test_a_limit_of_output_that_the_model_refuses_is_learned(server: ModelServer, waits: Waits, heard: Heard) -> None:
    words = "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens"
    server.script(failing(400, wrong("invalid_request_error", words)), anthropic(text("ok")))
    assert ask(server, waits, heard).text == "ok"
    assert server.asked[1].json["max_tokens"] == 4096


def test_a_broken_signature_is_left_out(server: ModelServer, waits: Waits, heard: Heard) -> None:
    opaque = json.dumps({"form": "anthropic", "blocks": [THOUGHT, {"type": "text"}]})
    history = (UserMessage("hi", NOW), AssistantMessage("yo", NOW, opaque=opaque), UserMessage("and?", NOW))
    server.script(
        failing(400, wrong("invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block")),
        anthropic(text("ok")),
    )
    ask(server, waits, heard, request(*history))
    assert server.asked[1].json["messages"][1]["content"] == [text("yo")]


def test_a_quiet_server_is_given_up(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(*[Scripted(hang=True)] * 3)
    with pytest.raises(ProviderUnavailable, match=r"sent nothing for 0\.1 s"):
        ask(server, waits, heard, request()._replace(limits=Limits(timeout_seconds=0.1)))
