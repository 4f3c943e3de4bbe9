"""The OpenAI-style adapter against a real server on loopback."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoclaw.core.errors import ContextTooLong, ProviderError, ProviderRefused, ProviderUnavailable
from nanoclaw.core.messages import (
    AssistantMessage,
    Image,
    Limits,
    Message,
    ModelRequest,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from nanoclaw.providers import anthropic
from nanoclaw.providers.chat_answer import FILTERED, ChatAnswer
from nanoclaw.providers.failures import Endpoint
from nanoclaw.providers.http import HttpReply
from nanoclaw.providers.openai_compatible import Dialect, OpenAICompatible
from tests.examples import examples
from tests.model_server import ModelServer, Scripted, call_delta, delta, events, failing, says
from tests.providers import conftest
from tests.providers.conftest import NOW, READ_FILE, Heard, Waits, request
from tests.virtual_time import skip

WIRE = examples(__file__, "wire.jsonl")

KEY = "sk-secret-0123456789"
_FIELDS = [
    "choices", "delta", "message", "content", "tool_calls", "function", "arguments", "name", "id", "index", "usage",
    "finish_reason", "reasoning", "reasoning_details", "thinking_blocks", "type", "text", "error", "x_groq", "done",
    "content_block", "stop_reason", "partial_json", "thinking", "input", "signature", "prompt_tokens", "data",
]  # fmt: skip
PICTURE = Image("image/png", b"not really", "cat.png")


def make(
    server: ModelServer, waits: Waits, dialect: Dialect | None = None, model: str = "openai/gpt-5"
) -> OpenAICompatible:
    return OpenAICompatible(
        Endpoint(model, server.base, model.partition("/")[2], KEY, "OPENAI_API_KEY"),
        dialect=dialect,
        retries=waits.retries,
    )


Ask = Callable[..., AssistantMessage]
Calls = Callable[..., tuple[ToolCall, ...]]
Fail = Callable[..., ProviderError]
Refuse = Callable[..., None]


@pytest.fixture
def ask(server: ModelServer, waits: Waits, heard: Heard) -> Ask:
    """What the model answers."""

    def asking(
        asked: ModelRequest | None = None, *, dialect: Dialect | None = None, model: str = "openai/gpt-5"
    ) -> Any:
        return conftest.ask(make(server, waits, dialect, model), asked, heard)

    return asking


@pytest.fixture
def calls_of(server: ModelServer, ask: Ask) -> Calls:
    def calling(*chunks: Any) -> tuple[ToolCall, ...]:
        server.script(events(*chunks, delta("tool_calls")))
        answer = ask(request(tools=(READ_FILE,)))
        assert answer.finish == "tool_calls"
        return answer.tool_calls

    return calling


@pytest.fixture
def error_of(ask: Ask) -> Fail:
    def failing_to(asked: ModelRequest | None = None) -> ProviderError:
        with pytest.raises(ProviderError) as caught:
            ask(asked)
        assert KEY not in str(caught.value) and "Traceback" not in str(caught.value)
        return caught.value

    return failing_to


@pytest.fixture
def refused(server: ModelServer, waits: Waits, heard: Heard) -> Refuse:
    def refusing(words: str, asked: ModelRequest, **dialect: Any) -> None:
        """Ask twice; the first is refused once with these words."""
        server.script(failing(400, {"error": {"message": words}}), says("ok"), says("ok"))

        async def run() -> None:
            provider = make(server, waits, Dialect(**dialect))
            for _ in range(2):
                assert (await provider.complete(asked, heard)).text == "ok"
            await provider.aclose()

        asyncio.run(run())
        assert len(server.asked) == 3 and waits.seconds == []

    return refusing


def picture_request() -> ModelRequest:
    return request(UserMessage("what is this?", NOW, images=(PICTURE,)))


# Answers


def test_a_streamed_answer_is_shown_as_it_comes_and_counted(server: ModelServer, heard: Heard, ask: Ask) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}}
    server.script(says("Hello, world", usage=usage))
    answer = ask()
    assert (answer.text, answer.finish, answer.usage) == ("Hello, world", "stop", Usage(100, 7, 64))
    assert (heard.text, answer.model, answer.opaque) == ("Hello, world", "openai/gpt-5", "")
    sent = server.asked[0]
    assert sent.path == "/v1/chat/completions" and sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.json == {
        "model": "gpt-5",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 8192,
    }


@pytest.mark.parametrize("usage", [{"prompt_cache_hit_tokens": 3}, {"cached_tokens": 3}])
def test_cached_tokens_are_found_in_other_places(server: ModelServer, ask: Ask, usage: dict[str, int]) -> None:
    server.script(says("x", usage={"prompt_tokens": 5, "completion_tokens": None, **usage}))
    assert ask().usage == Usage(5, 0, 3)


def test_plain_json_in_reply_to_a_stream_request_is_accepted(server: ModelServer, heard: Heard, ask: Ask) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "read_file", "arguments": {"path": "x"}}}
    message = {"role": "assistant", "content": "Let me look.", "tool_calls": [call]}
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 2}}
    server.script(failing(200, body))
    answer = ask(request(tools=(READ_FILE,)))
    assert (answer.text, heard.text) == ("Let me look.", "Let me look.")
    assert answer.tool_calls == (ToolCall("a", "read_file", '{"path": "x"}'),)


@pytest.mark.parametrize("ending", [b"\r\n", b"\n"])
def test_comments_odd_line_ends_and_a_missing_last_blank_line_do_no_harm(
    server: ModelServer, ask: Ask, ending: bytes
) -> None:
    lines = [b": OPENROUTER PROCESSING", b"", b"event: x", b"data:" + json.dumps(delta(content="é")).encode(), b""]
    stream = ending.join([*lines, b"data: " + json.dumps(delta("stop")).encode()])
    server.script(Scripted(tuple(stream[i : i + 7] for i in range(0, len(stream), 7))))
    assert ask().text == "é"


@pytest.mark.parametrize(("wire", "ours"), WIRE["finish reasons are mapped"])
def test_finish_reasons_are_mapped(server: ModelServer, ask: Ask, wire: str, ours: str) -> None:
    server.script(says("text", finish=wire))
    assert ask().finish == ours


def test_refusals_are_shown_as_text(server: ModelServer, heard: Heard, ask: Ask) -> None:
    server.script(events(delta(refusal="I cannot help with that."), delta("stop")), events(delta("content_filter")))
    answer = ask()
    assert (answer.text, answer.finish, heard.text) == ("I cannot help with that.", "refusal", answer.text)
    assert ask().text == FILTERED


def test_an_empty_answer_is_returned_as_it_is(server: ModelServer, ask: Ask) -> None:
    server.script(events(delta("stop")))
    answer = ask()
    assert (answer.text, answer.tool_calls, answer.finish) == ("", (), "stop")


def test_an_emoji_cut_in_two_halves_is_shown_whole(server: ModelServer, heard: Heard, ask: Ask) -> None:
    halves = [
        json.dumps(delta(content="X")).replace("X", half).encode() for half in ("a\\ud83d", "\\ude00b", "\\ud83d")
    ]
    server.script(events(*(b"data: " + half + b"\n\n" for half in halves), delta("stop")))
    assert ask().text == "a😀b�" == heard.text


# Tool calls


@pytest.mark.parametrize(("pieces", "calls"), WIRE["calls are joined from pieces"])
def test_calls_are_joined_from_pieces(calls_of: Calls, pieces: list[list[Any]], calls: list[list[str]]) -> None:
    """By their index, as far as it is right, also a name in fragments or one that comes with every piece."""
    assert calls_of(*(call_delta(*piece) for piece in pieces)) == tuple(ToolCall(*call) for call in calls)


def test_calls_without_index_or_id_are_told_apart(calls_of: Calls) -> None:
    first, second = calls_of(call_delta(None, None, "read_file", '{"path":'), call_delta(None, arguments='"x"}'),
        call_delta(None, None, "read_file", '{"path":"y"}'),
    )  # fmt: skip
    assert (first.arguments, second.arguments) == ('{"path":"x"}', '{"path":"y"}')
    assert first.id and second.id and first.id != second.id


def test_two_calls_with_one_id_get_distinct_ids(calls_of: Calls) -> None:
    first, second = calls_of(call_delta(0, "same", "read_file", "{}"), call_delta(1, "same", "read_file", "{}"))
    assert first.id == "same" != second.id


def test_arguments_with_invalid_utf8_can_be_stored_and_still_tell_the_truth(calls_of: Calls) -> None:
    broken = json.dumps(call_delta(0, "a", "read_file", '{"path":"X"}')).encode().replace(b"X", b"a\xff")
    (call,) = calls_of(b"data: " + broken + b"\n\n")
    call.arguments.encode()
    assert json.loads(call.arguments) == {"path": "a\udcff"}  # which the toolbox refuses


def test_arguments_of_5_megabytes_arrive_whole_and_quickly(calls_of: Calls) -> None:
    text = '{"path":"' + "x" * 5_000_000 + '"}'
    pieces = [call_delta(0, arguments=text[i : i + 500]) for i in range(0, len(text), 500)]
    started = time.process_time()
    (call,) = calls_of(call_delta(0, "a", "read_file"), *pieces)
    assert call.arguments == text
    assert time.process_time() - started < 10


def test_a_call_left_in_the_text_is_found_and_not_shown(server: ModelServer, heard: Heard, ask: Ask) -> None:
    server.script(says('<tool_call>\n{"name": "read_file", "arguments": {"path": "x"}}\n</tool_call>'))
    answer = ask(request(tools=(READ_FILE,)))
    assert [(call.name, json.loads(call.arguments)) for call in answer.tool_calls] == [("read_file", {"path": "x"})]
    assert (answer.text, heard.text, answer.finish) == ("", "", "tool_calls")


def test_text_that_only_looks_like_a_call_is_shown(server: ModelServer, heard: Heard, ask: Ask) -> None:
    server.script(says('{"answer": 42}'), says("[1] is a footnote"), says("<to"))
    for text in ('{"answer": 42}', "[1] is a footnote", "<to"):
        heard.events.clear()
        answer = ask(request(tools=(READ_FILE,)))
        assert answer.text == heard.text == text


# Reasoning


def spoken_again(answer: AssistantMessage) -> tuple[Message, ...]:
    return (UserMessage("hi", NOW), answer, UserMessage("and?", NOW))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_never_enters_the_text(server: ModelServer, heard: Heard, ask: Ask, field: str) -> None:
    server.script(events(delta(**{field: "Hm, "}), delta(**{field: "hm."}), delta(content="42"), delta("stop")))
    answer = ask()
    assert (answer.text, heard.text, heard.reasoning) == ("42", "42", "Hm, hm.")
    assert json.loads(answer.opaque)["reasoning_content"] == "Hm, hm."


@pytest.mark.parametrize("size", [1, 3, 100])
def test_thinking_at_the_start_of_a_text_is_told_apart(server: ModelServer, heard: Heard, ask: Ask, size: int) -> None:
    text = "\n<think>\nA < B?\n</think>\n\nYes, A < B."
    server.script(events(*(delta(content=text[i : i + size]) for i in range(0, len(text), size)), delta("stop")))
    answer = ask()
    assert (answer.text, heard.text, heard.reasoning) == ("Yes, A < B.", "Yes, A < B.", "A < B?\n")


def test_thinking_that_the_template_opened_is_cut_from_the_answer(server: ModelServer, ask: Ask) -> None:
    server.script(says("Let me see.</think>\n\nDone."))
    answer = ask()
    assert answer.text == "Done." and "Let me see." in answer.opaque


def test_deepseek_hears_its_reasoning_again(server: ModelServer, ask: Ask) -> None:
    dialect = Dialect(echo="reasoning_content")
    thought = [delta(reasoning_content="Look first."), call_delta(0, "a", "read_file", "{}"), delta("tool_calls")]
    server.script(events(*thought), says("ok"))
    answer = ask(request(tools=(READ_FILE,)), dialect=dialect, model="deepseek/v4")
    history = (UserMessage("hi", NOW), answer, ToolResult("a", "read_file", "data", NOW))
    ask(request(*history, tools=(READ_FILE,)), dialect=dialect, model="deepseek/v4")
    assert server.asked[1].json["messages"][2]["reasoning_content"] == "Look first."


def test_openrouter_hears_its_reasoning_details_again(server: ModelServer, heard: Heard, ask: Ask) -> None:
    def detail(**fields: Any) -> dict[str, Any]:
        return delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "format": "anthropic", **fields}])

    sealed = {"type": "reasoning.encrypted", "index": 1, "data": "abc"}
    server.script(
        events(
            detail(text="One "), detail(text="two."), detail(signature="s1"), delta(reasoning_details=[sealed]),
            delta(content="Three."), delta("stop"),
        ),
        says("ok"),
    )  # fmt: skip
    dialect = Dialect(echo="reasoning_details")
    answer = ask(dialect=dialect, model="openrouter/x/y")
    assert heard.reasoning == "One two."
    ask(request(*spoken_again(answer)), dialect=dialect, model="openrouter/x/y")
    assert server.asked[1].json["messages"][2]["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "format": "anthropic", "text": "One two.", "signature": "s1"},
        sealed,
    ]


def test_another_provider_does_not_hear_it(server: ModelServer, ask: Ask) -> None:
    server.script(events(delta(reasoning_content="secret"), delta(content="42"), delta("stop")), says("ok"))
    answer = ask()
    ask(request(*spoken_again(answer)))
    assert b"secret" not in server.asked[1].body


# Bytes


def test_the_next_request_begins_with_the_bytes_of_this_one(server: ModelServer, ask: Ask) -> None:
    history: list[Message] = []
    for number in range(20):
        turn = (UserMessage(f"ü{number}", NOW, "runtime"), UserMessage(f"do {number}", NOW))
        calls = (ToolCall("same", "read_file", '{"path": "x"}'), ToolCall("", "read_file", "nonsense"))
        history += [*turn, AssistantMessage("", NOW, calls), ToolResult("same", "read_file", f"r{number}", NOW)]
        server.script(says("ok"))
        ask(request(*history, tools=(READ_FILE,)))
        history += [AssistantMessage(f"done {number}", NOW)]
    for before, after in zip(server.asked, server.asked[1:], strict=False):
        stays = before.body[: before.body.index(b'],"stream":')]
        assert len(stays) > 200 and after.body.startswith(stays)


def test_one_connection_serves_several_requests(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(*(says("ok") for _ in range(3)))

    async def run() -> None:
        provider = make(server, waits)
        for _ in range(3):
            await provider.complete(request(), heard)
        await provider.aclose()

    asyncio.run(run())
    assert server.connections == 1


# What goes wrong


def test_a_wrong_key_names_the_variable_and_never_the_key(server: ModelServer, waits: Waits, error_of: Fail) -> None:
    server.script(failing(401, {"error": {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}}))
    error = error_of()
    assert isinstance(error, ProviderRefused)
    assert str(error) == ("openai/gpt-5 refused the key (401): check OPENAI_API_KEY, or model.api_key in config.toml.")
    assert waits.seconds == []


@pytest.mark.parametrize(("headers", "seconds"), WIRE["a busy model is asked again after the time it names"])
def test_a_busy_model_is_asked_again_after_the_time_it_names(
    server: ModelServer, waits: Waits, heard: Heard, ask: Ask, headers: dict[str, str], seconds: list[float]
) -> None:
    busy = failing(429, {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}, headers)
    server.script(busy, busy, says("at last"))
    assert ask().text == "at last"
    assert waits.seconds == seconds
    told = [f"trying again in {round(s)} s (try {n} of 3)" for n, s in enumerate(seconds, 2)]
    assert heard.notices == [f"openai/gpt-5 is busy (429), {one}" for one in told]


def test_a_model_that_stays_busy_ends_in_a_sentence(server: ModelServer, error_of: Fail) -> None:
    server.script(*[failing(429, {"error": {"message": "Slow down"}}, {"retry-after": "9"})] * 3)
    error = error_of()
    assert isinstance(error, ProviderUnavailable) and error.retry_after == 9.0
    assert str(error) == ("openai/gpt-5 is busy (429). It says: 'Slow down'. Try again later or choose another model.")


@pytest.mark.parametrize(("asked", "told"), WIRE["a wait that is too long is told at once"])
def test_a_wait_that_is_too_long_is_told_at_once(
    server: ModelServer, waits: Waits, heard: Heard, error_of: Fail, asked: str, told: str
) -> None:
    server.script(failing(429, {"error": {"message": "Slow down"}}, {"retry-after": asked}))
    assert str(error_of()).startswith(f"openai/gpt-5 is busy (429) and asks to wait {told}. It says")
    assert (waits.seconds, heard.notices, len(server.asked)) == ([], [], 1)


def test_each_failed_try_is_logged_without_its_words(server: ModelServer, error_of: Fail, logged: list[str]) -> None:
    words = {"error": {"message": f"Slow down, {KEY}"}}
    server.script(failing(429, words), Scripted((b'data: {"private', b" words"), cut=True), failing(404, words))
    error_of()
    host = f"127.0.0.1:{server.port}"
    first, second, third = logged
    assert first == f"DEBUG: openai/gpt-5 is busy (429); openai/gpt-5 at {host}: try 1 of 3, the next in 1.0 s"
    assert "RemoteProtocolError" in second and second.endswith("try 2 of 3, the next in 2.0 s")
    assert third == f"DEBUG: openai/gpt-5 was not found (404) at {host}; openai/gpt-5 at {host}: try 3, not repeated"
    assert not any(word in " ".join(logged) for word in ("Slow", "private", KEY))


def test_a_400_that_only_speaks_of_billing_is_no_empty_account(server: ModelServer, error_of: Fail) -> None:
    server.script(failing(400, {"error": {"message": "tools[0].name: 'billing' is reserved"}}))
    assert "refused the request (400)" in str(error_of())


@pytest.mark.parametrize("body", WIRE["an empty account is not asked again"])
def test_an_empty_account_is_not_asked_again(
    server: ModelServer, waits: Waits, error_of: Fail, body: dict[str, Any]
) -> None:
    server.script(failing(429, body))
    error = error_of()
    assert isinstance(error, ProviderRefused) and "no quota or credit left" in str(error)
    assert waits.seconds == []


@pytest.mark.parametrize("status", [400, 403, 404, 422, 302])
def test_refusals_are_not_asked_again(server: ModelServer, waits: Waits, error_of: Fail, status: int) -> None:
    server.script(failing(status, {"error": {"message": "Nope"}}, {"location": "http://192.0.2.1/"}))
    assert isinstance(error_of(), ProviderRefused)
    assert (waits.seconds, len(server.asked)) == ([], 1)


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 529])
def test_failures_of_the_server_are_asked_again(
    server: ModelServer, waits: Waits, heard: Heard, ask: Ask, status: int
) -> None:
    server.script(failing(status, b"<html>Bad Gateway</html>"), says("fine"))
    assert ask().text == "fine"
    assert len(waits.seconds) == 1 and f"({status})" in heard.notices[0]


def test_overflow_is_recognised_by_its_code_and_inside_a_stream(server: ModelServer, error_of: Fail) -> None:
    error = {"error": {"message": "no", "code": "context_length_exceeded"}}
    server.script(failing(400, error), events(error), failing(413, {}))
    for _ in range(3):
        assert isinstance(error_of(), ContextTooLong)


def test_a_server_that_sends_nothing_is_given_up(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(events(done=False, hang=True), events(delta(content="He"), done=False, hang=True), says("Hello"))

    async def run() -> AssistantMessage:
        provider = make(server, waits)
        asking = asyncio.create_task(provider.complete(request()._replace(limits=Limits(timeout_seconds=50)), heard))
        has_come: tuple[Callable[[], bool], ...] = (lambda: len(server.asked) == 1, lambda: heard.text == "He")
        for tries, reached in enumerate(has_come, 1):
            while not reached():  # noqa: ASYNC110  (the server is a thread)
                await asyncio.sleep(0.01)
            while len(heard.notices) < tries:  # it may not have begun to wait yet
                skip(50)
                await asyncio.sleep(0.01)
        try:
            return await asking
        finally:
            await provider.aclose()

    assert asyncio.run(run()).text == "Hello"
    assert heard.notices == [
        "openai/gpt-5 sent nothing for 50 s and was given up, trying again in 1 s (try 2 of 3)",
        "openai/gpt-5 broke off, its answer starts again in 2 s (try 3 of 3)",
    ]


@pytest.mark.parametrize("cut", [True, False])
def test_a_stream_cut_in_the_middle_is_asked_again_and_the_person_told(
    server: ModelServer, heard: Heard, ask: Ask, cut: bool
) -> None:
    torn = b'data: {"choices":[{"delta":{"content":" wor'
    server.script(events(delta(content="Hello"), torn, done=False, cut=cut), says("Hello world"))
    assert ask().text == "Hello world"
    assert heard.notices == ["openai/gpt-5 broke off, its answer starts again in 1 s (try 2 of 3)"]


def test_a_stream_cut_after_its_finish_is_whole(server: ModelServer, ask: Ask) -> None:
    server.script(events(delta(content="Hello"), delta("stop"), done=False, cut=True))
    assert ask().text == "Hello"


def test_a_call_cut_in_the_middle_never_arrives(server: ModelServer, error_of: Fail) -> None:
    half = call_delta(0, "a", "read_file", '{"path":')
    server.script(*[events(half, done=False, cut=True)] * 3)
    assert isinstance(error_of(), ProviderUnavailable)


def test_nothing_listening_says_what_to_start(server: ModelServer, waits: Waits, error_of: Fail) -> None:
    server.stop()
    error = error_of()
    assert "nothing listens at 127.0.0.1" in str(error) and "Start the model server" in str(error)
    assert len(waits.seconds) == 2


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Scripted((b"<!DOCTYPE html><title>Welcome</title>",)), "a web page"),
        (Scripted((b'{"choices": [{"mess',)), "garbage"),
        (Scripted((b'{"hello": "world"}',)), "not an answer"),
        (Scripted((b"[1, 2]",)), "a JSON list"),
        (events(b"data: {nonsense}\n\n"), "a broken event"),
        (events(b"data: " + b"[" * 100_000 + b"\n\n"), "a broken event"),
        (events(b"data: [1]\n\n"), "a JSON list"),
        (Scripted((b"garbage",), headers={"content-encoding": "gzip"}), "cannot be unpacked"),
        (events({"error": {"message": "The model crashed strangely"}}), "crashed strangely"),
        (events({"error": "plain words"}), "plain words"),
    ],
)
def test_garbage_ends_in_a_sentence(
    server: ModelServer, waits: Waits, error_of: Fail, reply: Scripted, words: str
) -> None:
    server.script(reply)
    error = error_of()
    assert type(error) is ProviderError and words in str(error)
    assert str(error).endswith((".", "?).")) and waits.seconds == []


@pytest.mark.parametrize(
    "reply",
    [
        Scripted(),
        events({"error": {"message": "Provider returned error", "code": 502}}),
        events(delta(content="x"), {"error": {"type": "overloaded_error", "message": "Overloaded"}}),
        events(delta("error")),
    ],
)
def test_passing_trouble_inside_an_answer_is_asked_again(
    server: ModelServer, waits: Waits, ask: Ask, reply: Scripted
) -> None:
    server.script(reply, says("fine"))
    assert ask().text == "fine"
    assert len(waits.seconds) == 1


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=4), max_size=4))
def test_whatever_a_server_invents_is_an_answer_or_a_sentence(chunks: list[dict[str, Any]]) -> None:
    for model, answer_to in (("openai/x", ChatAnswer), ("anthropic/x", anthropic._Answer)):
        data = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
        reply = HttpReply(Endpoint(model, "http://127.0.0.1/"), httpx.Response(200, content=data), 1.0)
        with contextlib.suppress(ProviderError):
            answer = asyncio.run(answer_to(Heard()).read(reply, model))
            assert isinstance(answer, AssistantMessage)
            (answer.text + answer.opaque + "".join(call.arguments for call in answer.tool_calls)).encode()


def test_one_endless_event_is_cut_off(server: ModelServer, error_of: Fail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanoclaw.providers.http.EVENT_LIMIT", 2**20)
    server.script(Scripted((b"data: ", *[b"x" * 65536] * 40)))
    assert "more than 1 MB" in str(error_of())


def test_an_endless_answer_is_cut_off(server: ModelServer, error_of: Fail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanoclaw.providers.http.ANSWER_LIMIT", 2**20)
    server.script(events(*[delta(content="x" * 60_000)] * 40))
    assert "more than 1 MB" in str(error_of())


def test_cancelling_ends_the_request_at_once(server: ModelServer, waits: Waits) -> None:
    server.script(events(delta(content="Hel"), done=False, hang=True))

    async def run() -> None:
        provider = make(server, waits)
        begun = asyncio.Event()
        task = asyncio.create_task(provider.complete(request(), lambda event: begun.set()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await provider.aclose()

    asyncio.run(run())


# What a server refuses is learned once


@pytest.mark.parametrize(("words", "field", "is_sent"), WIRE["a field is dropped or named as the model wants"])
def test_a_field_is_dropped_or_named_as_the_model_wants(
    server: ModelServer, refused: Refuse, words: str, field: str, is_sent: list[bool]
) -> None:
    refused(words, request())
    assert [field in asked.json for asked in server.asked] == is_sent


def test_turns_are_merged_for_strict_templates(server: ModelServer, refused: Refuse) -> None:
    two = (UserMessage("[Runtime]", NOW, "runtime"), UserMessage("hi", NOW))
    words = "Conversation roles must alternate user/assistant/user/assistant/..."
    refused(words, request(*two))
    roles = [[message["role"] for message in asked.json["messages"]] for asked in server.asked]
    assert roles == [["system", "user", "user"], ["system", "user"], ["system", "user"]]
    assert server.asked[1].json["messages"][1]["content"] == "[Runtime]\n\nhi"


def test_the_system_text_moves_where_no_system_role_exists(server: ModelServer, refused: Refuse) -> None:
    refused("System role not supported", request())
    assert server.asked[1].json["messages"] == [{"role": "user", "content": "Be brief.\n\nhi"}]


def test_a_template_error_counts_as_a_refusal_though_the_status_says_500(
    server: ModelServer, waits: Waits, ask: Ask
) -> None:
    server.script(failing(500, {"error": {"message": "Conversation roles must alternate user/assistant"}}), says("ok"))
    assert ask().text == "ok" and waits.seconds == []


@pytest.mark.parametrize(("status", "words"), WIRE["images become a note for a model that cannot see"])
def test_images_become_a_note_for_a_model_that_cannot_see(
    server: ModelServer, waits: Waits, heard: Heard, status: int, words: str
) -> None:
    server.script(failing(status, {"error": {"message": words}}), says("a cat?"))

    async def run() -> bool:
        provider = make(server, waits)
        await provider.complete(picture_request(), heard)
        await provider.aclose()
        return provider.supports_vision

    assert asyncio.run(run()) is False
    assert server.asked[0].json["messages"][1]["content"][0]["type"] == "image_url"
    assert server.asked[1].json["messages"][1]["content"] == (
        "[image cat.png left out: this model cannot see images]\nwhat is this?"
    )
    assert heard.notices == ["openai/gpt-5 cannot see images; they are left out"]


def test_missing_reasoning_is_filled_in_when_asked_for(server: ModelServer, refused: Refuse) -> None:
    history = (UserMessage("hi", NOW), AssistantMessage("hello", NOW), UserMessage("and?", NOW))
    words = "Missing `reasoning_content` field in the assistant message at message index 2."
    refused(words, request(*history), echo="reasoning_content")
    assert server.asked[1].json["messages"][2] == {"role": "assistant", "content": "hello", "reasoning_content": ""}


def test_a_model_without_tools_is_asked_for_json(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(
        failing(400, {"error": {"message": "gemma:2b does not support tools"}}),
        says('{"tool":"read_file","args":{"path":"x"}}'),
        says('{"reply":"Hello you"}'),
    )

    async def run() -> tuple[AssistantMessage, AssistantMessage]:
        provider = make(server, waits)
        asked = request(tools=(READ_FILE,))
        answers = await provider.complete(asked, heard), await provider.complete(asked, heard)
        await provider.aclose()
        return answers

    first, second = asyncio.run(run())
    assert [(call.name, call.arguments) for call in first.tool_calls] == [("read_file", '{"path":"x"}')]
    assert (first.finish, second.text, heard.text) == ("tool_calls", "Hello you", "Hello you")
    sent = server.asked[1].json
    assert "tools" not in sent and sent["response_format"]["type"] == "json_schema" and sent["temperature"] == 0


def test_mistral_gets_short_ids_and_no_user_after_a_result(server: ModelServer, ask: Ask) -> None:
    server.script(says("ok"))
    calls = (ToolCall("call_abcdef", "read_file", "{}"),)
    history = (
        UserMessage("hi", NOW), AssistantMessage("", NOW, calls), ToolResult("call_abcdef", "read_file", "x", NOW),
        UserMessage("stop", NOW),
    )  # fmt: skip
    ask(request(*history), dialect=Dialect(strict_roles=True, short_call_ids=True))
    messages = server.asked[0].json["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant", "user"]
    identity = messages[2]["tool_calls"][0]["id"]
    assert identity == messages[3]["tool_call_id"] and len(identity) == 9 and identity.isalnum()


def test_images_of_a_tool_follow_its_result_as_a_user_message(server: ModelServer, ask: Ask) -> None:
    server.script(says("ok"))
    history = (
        UserMessage("look", NOW), AssistantMessage("", NOW, (ToolCall("a", "read_file", "{}"),)),
        ToolResult("a", "read_file", "a picture", NOW, images=(PICTURE,)),
    )  # fmt: skip
    ask(request(*history))
    tool, shown = server.asked[0].json["messages"][3:]
    assert tool["content"] == "[image cat.png shown in the next message]\na picture"
    assert shown["role"] == "user" and shown["content"][0]["type"] == "image_url"
