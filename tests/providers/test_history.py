"""The repair of histories: what every provider accepts, and stable as the history grows."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoclaw.core.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage
from nanoclaw.core.provider import INTERRUPTED, NO_ANSWER, legal
from tests.providers.conftest import NOW

HI = UserMessage("hi", NOW)


def asks(*calls: ToolCall, text: str = "") -> AssistantMessage:
    return AssistantMessage(text, NOW, calls)


def call(id: str, arguments: str = "{}", name: str = "read_file") -> ToolCall:
    return ToolCall(id, name, arguments)


def result(id: str, text: str = "data") -> ToolResult:
    return ToolResult(id, "read_file", text, NOW)


def test_a_legal_history_stays_the_same_objects() -> None:
    history: tuple[Message, ...] = (HI, asks(call("a")), result("a"), AssistantMessage("done", NOW))
    assert all(before is after for before, after in zip(history, legal(history), strict=True))


def test_a_missing_result_becomes_an_error_result() -> None:
    history = legal((HI, asks(call("a"), call("b")), result("a")))
    assert history[3] == ToolResult("b", "read_file", INTERRUPTED, NOW, is_error=True)


def test_results_stand_in_the_order_of_their_calls_even_behind_a_user_message() -> None:
    history = legal((HI, asks(call("a"), call("b")), result("b", "B"), HI, result("a", "A")))
    assert [message.text for message in history[2:]] == ["A", "B", "hi"]


def test_results_without_a_call_are_dropped() -> None:
    assert legal((result("x"), HI, result("y"), AssistantMessage("ok", NOW), result("z"))) == (
        HI,
        AssistantMessage("ok", NOW),
    )


def test_an_id_used_before_is_made_distinct_with_its_result() -> None:
    first, second = (asks(call("a")), result("a", "1")), (asks(call("a")), result("a", "2"))
    assert legal((HI, *first, *second))[3:] == (asks(call("a_2")), result("a_2", "2"))


def test_two_calls_with_one_id_keep_both_results_in_order() -> None:
    history = legal((HI, asks(call("a"), call("a")), result("a", "1"), result("a", "2")))
    assert history[2:] == (result("a", "1"), result("a_2", "2"))


def test_more_calls_than_a_provider_takes_are_shared_among_several_answers() -> None:
    calls = [call(str(number)) for number in range(300)]
    results = [result(str(number), f"r{number}") for number in range(300)]
    history = legal((HI, asks(*calls, text="many"), *results))
    answers = [message for message in history if isinstance(message, AssistantMessage)]
    assert [(answer.text, len(answer.tool_calls)) for answer in answers] == [("many", 128), ("", 128), ("", 44)]
    assert [message.text for message in history if isinstance(message, ToolResult)] == [f"r{n}" for n in range(300)]


@pytest.mark.parametrize(("name", "wire"), [("9lives", "_9lives"), ("-x", "_-x"), ("a b", "a_b"), ("x" * 90, "x" * 64)])
def test_names_on_the_wire_begin_with_a_letter_and_are_short(name: str, wire: str) -> None:
    history = legal((HI, asks(call("a", name=name))))
    assert isinstance(history[1], AssistantMessage) and history[1].tool_calls[0].name == wire


@pytest.mark.parametrize("arguments", ["", "[1]", "{", "null", '"x"', '{"a": "\\ud800"}', "[" * 100_000, "\udcff"])
def test_arguments_on_the_wire_are_json_objects(arguments: str) -> None:
    history = legal((HI, asks(call("a", arguments))))
    assert isinstance(history[1], AssistantMessage)
    wire = history[1].tool_calls[0].arguments
    assert isinstance(json.loads(wire), dict) and len(wire) < 5000
    wire.encode()


def test_five_megabytes_of_arguments_are_not_sent_again() -> None:
    history = legal((HI, asks(call("a", json.dumps({"path": "x" * 5_000_000})))))
    assert isinstance(history[1], AssistantMessage) and len(history[1].tool_calls[0].arguments) < 5000


def test_nothing_is_empty_and_a_user_speaks_first() -> None:
    history = legal((AssistantMessage(" \n", NOW), UserMessage("", NOW), asks(call("", name=" ")), result("", " ")))
    assert isinstance(history[0], UserMessage)
    assert [message.text for message in history[1:]] == [NO_ANSWER, "(empty message)", "", "(no output)"]
    assert history[3] == asks(ToolCall("call_1", "unknown_tool", "{}"))


def test_a_picture_alone_is_not_empty() -> None:
    message = UserMessage("", NOW, images=(Image("image/png", b"x"),))
    assert legal((message,)) == (message,)


def test_halves_of_characters_are_removed() -> None:
    history = legal((UserMessage("a\ud83d\ude00b\ud800", NOW), AssistantMessage("\udcff", NOW)))
    assert [message.text for message in history] == ["a😀b\ufffd", "\ufffd"]


_ids = st.sampled_from(["a", "b", "a_2", "", "x y"])
_texts = st.sampled_from(["", " ", "text", "\ud800"])
_calls = st.builds(ToolCall, _ids, st.sampled_from(["read_file", "", "a b"]), st.sampled_from(["{}", "[", "[]", ""]))
_messages = st.one_of(
    st.builds(UserMessage, _texts, st.just(NOW), images=st.just(())),
    st.builds(AssistantMessage, _texts, st.just(NOW), st.lists(_calls, max_size=3).map(tuple)),
    st.builds(ToolResult, _ids, st.just("read_file"), _texts, st.just(NOW)),
)


@given(st.lists(_messages, max_size=12))
def test_any_history_becomes_legal(history: list[Message]) -> None:
    repaired = legal(tuple(history))
    assert legal(repaired) == repaired
    seen: set[str] = set()
    waiting: list[str] = []
    for position, message in enumerate(repaired):
        message.text.encode()
        if isinstance(message, ToolResult):
            assert message.call_id == waiting.pop(0) and message.text.strip()
            continue
        assert not waiting
        assert message.text.strip() or (isinstance(message, AssistantMessage) and message.tool_calls)
        assert position or isinstance(message, UserMessage)
        if isinstance(message, AssistantMessage):
            for made in message.tool_calls:
                assert made.id and made.id not in seen and made.name and isinstance(json.loads(made.arguments), dict)
                seen.add(made.id)
                waiting.append(made.id)
    assert not waiting


@given(st.lists(_messages, max_size=10))
def test_what_was_sent_stays_as_the_history_grows(history: list[Message]) -> None:
    cuts = [i for i in range(len(history)) if isinstance(history[i], AssistantMessage)]
    for cut in cuts:  # an answer begins where the request before it ended
        before, after = legal(tuple(history[:cut])), legal(tuple(history))
        assert after[: len(before)] == before
