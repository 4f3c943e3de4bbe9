"""Any history, however damaged, in the form of any provider: legal by that provider's rules, and stable as it grows."""

import gc
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st

from nanoclaw.core import provider as base
from nanoclaw.core.messages import (
    AssistantMessage,
    HistoryMemo,
    Image,
    Message,
    ModelRequest,
    ToolCall,
    ToolResult,
    UserMessage,
)
from nanoclaw.core.provider import estimate_request
from nanoclaw.providers import json_tools
from nanoclaw.providers.anthropic import Anthropic
from nanoclaw.providers.failures import Endpoint
from nanoclaw.providers.litellm_provider import LiteLLM
from nanoclaw.providers.names import provider_for
from nanoclaw.providers.openai_compatible import Dialect, OpenAICompatible
from nanoclaw.providers.repair import as_turns
from tests.examples import examples
from tests.providers import validators
from tests.providers.conftest import NOW, READ_FILE, request

CAT = Image("image/png", b"\x89PNG", "cat.png")
ODD = Image("image/jpeg", b"\xff\xd8", "\ud800<|im_end|>")
OPAQUE = examples(__file__, "wire.jsonl")["opaque"]
MODELS = ["", "openai/gpt-5", "anthropic/claude-sonnet-4-5", "deepseek/deepseek-chat", "gemini/gemini-2.5-flash"]

ids = st.sampled_from(["a", "b", "a_2", "", " ", "x y", "toolu_01Gw", "call_" + "x" * 60, "é\ud800", "123456789"])
names = st.sampled_from(["read_file", "", "a b", "Ünï.code", "9lives", "-x", "n" * 90])
arguments = st.sampled_from(["{}", '{"path": "x"}', "[", "[]", "", "null", '"x"', '{"a": "\\ud800"}', "\udcff"])
texts = st.sampled_from(["", " \n", "text", "more text ", "a\ud800b", "<|im_start|>", "\x00", "(go on)"])
images = st.sampled_from([(), (), (CAT,), (CAT, ODD)])
calls = st.builds(ToolCall, ids, names, arguments)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, texts, st.just(NOW), st.sampled_from(["person", "runtime", "job"]), images),
    st.builds(
        AssistantMessage,
        texts,
        st.just(NOW),
        st.lists(calls, max_size=3).map(tuple),
        model=st.sampled_from(MODELS),
        opaque=st.sampled_from(OPAQUE),
    ),
    st.builds(ToolResult, ids, names, texts, st.just(NOW), st.booleans(), images),
)
histories = st.lists(messages, max_size=12).map(tuple)

Form = Callable[[ModelRequest], list[dict[str, Any]]]


def chat(name: str, **changes: Any) -> Form:
    """The body that the provider of this name would send."""
    provider = provider_for(name, "", "key")
    assert isinstance(provider, OpenAICompatible)
    dialect: Dialect = provider.habits._replace(**changes)
    return lambda asked: list(json.loads(provider._body(asked, dialect))["messages"])


AZURE = LiteLLM(Endpoint("azure/x"))
ANTHROPIC = Anthropic(Endpoint("anthropic/x", key="k"))


def messages_api(asked: ModelRequest) -> list[dict[str, Any]]:
    return list(json.loads(ANTHROPIC._body(asked, ANTHROPIC.habits))["messages"])


def json_mode(asked: ModelRequest) -> list[dict[str, Any]]:
    return json_tools.json_messages(asked._replace(history=base.legal(asked.history)))


def in_words(form: Form) -> Form:
    return lambda asked: form(asked._replace(history=as_turns(asked.history)))


FORMS: dict[str, tuple[Form, Callable[[list[dict[str, Any]]], None]]] = {
    "openai": (chat("openai/gpt-5"), validators.openai),
    "openai blind": (chat("openai/gpt-5", vision=False), validators.openai),
    "deepseek": (chat("deepseek/deepseek-chat", echo_always=True), validators.openai),
    "openrouter": (chat("openrouter/x/y"), validators.openai),
    "mistral": (chat("mistral/mistral-large-latest"), validators.mistral),
    "strict": (chat("llamacpp/x", strict_roles=True), validators.strict_template),
    "no system": (chat("llamacpp/x", system_role=False), validators.strict_template),
    "anthropic": (messages_api, validators.anthropic),
    "json": (json_mode, validators.plain_template),
    "azure": (lambda asked: AZURE._arguments(asked, AZURE.habits)["messages"], validators.openai),
    "words, blind": (in_words(chat("llamacpp/x", strict_roles=True, vision=False)), validators.plain_template),
    "words, anthropic": (in_words(messages_api), validators.anthropic),
}


def damaged(*history: Message) -> tuple[Message, ...]:
    return history


@given(history=histories)
@example(history=())
@example(history=damaged(AssistantMessage("begins", NOW)))
@example(history=damaged(UserMessage(" \n", NOW, "runtime")))
@example(history=damaged(UserMessage("x", NOW), AssistantMessage("", NOW, tuple([ToolCall("", "f", "{}")] * 300))))
def test_any_history_is_legal_in_every_form(history: tuple[Message, ...]) -> None:
    for name, (make, validate) in FORMS.items():
        note(name)
        validate(make(asking(history)))


def asking(history: tuple[Message, ...]) -> ModelRequest:
    return ModelRequest(request().system, history, (READ_FILE,))


@given(history=histories)
def test_what_was_sent_stays_as_the_history_grows(history: tuple[Message, ...]) -> None:
    begun = [
        (UserMessage("hi", NOW), *history[:i]) for i, one in enumerate(history) if isinstance(one, AssistantMessage)
    ]
    asked = [one for one in begun if not isinstance(base.legal(one)[-1], AssistantMessage)]  # nothing behind an answer
    for name in ("openai", "deepseek", "mistral", "anthropic"):
        make, _ = FORMS[name]
        whole = [without_mark(turn) for turn in make(request(UserMessage("hi", NOW), *history))]
        for before in asked:
            sent = [without_mark(turn) for turn in make(request(*before))]
            assert sent == whole[: len(sent)], name


def without_mark(turn: dict[str, Any]) -> dict[str, Any]:
    """The turn without Anthropic's breakpoint, which stands at the end of each request."""
    if not isinstance(turn["content"], list):
        return turn
    return {**turn, "content": [{k: v for k, v in b.items() if k != "cache_control"} for b in turn["content"]]}


@given(history=histories)
def test_a_request_reads_the_same_when_only_what_is_new_of_it_is_written(history: tuple[Message, ...]) -> None:
    for name, (form, _) in FORMS.items():
        memo = HistoryMemo()
        for count in range(len(history) + 1):
            asked = request(*history[:count])
            assert form(asked._replace(memo=memo)) == form(asked), name


@pytest.mark.parametrize("name", ["openai", "mistral", "strict", "anthropic"])
def test_a_request_costs_what_is_new_in_it_however_long_the_conversation_is(name: str) -> None:
    def turn(number: int) -> tuple[Message, ...]:
        call = ToolCall(f"c{number}", "read_file", '{"path": "x"}')
        said = UserMessage(f"What is {number}?", NOW)
        return (
            said,
            AssistantMessage("", NOW, (call,)),
            ToolResult(call.id, call.name, "one", NOW),
            AssistantMessage(f"It is {number}.", NOW),
        )

    def work(asked: ModelRequest) -> int:
        """Calls of functions, which unlike times are the same each time."""
        count = 0

        def called(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        gc.disable()  # what is called by it is none of this
        sys.setprofile(called)
        try:
            FORMS[name][0](asked)
            estimate_request(asked)
        finally:
            sys.setprofile(None)
            gc.enable()
        return count

    def next_turn_after(turns: int) -> int:
        memo, history = HistoryMemo(), tuple(message for number in range(turns) for message in turn(number))
        work(request(*history)._replace(memo=memo))
        return work(request(*history, UserMessage("And now?", NOW))._replace(memo=memo))

    assert next_turn_after(500) < 2 * next_turn_after(5)
