"""litellm itself, asked for a tool call through a loopback server, with the network closed."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import example, given

from nanoclaw.core.errors import ContextTooLong, ProviderError, ProviderRefused, ProviderUnavailable
from nanoclaw.core.messages import (
    AssistantMessage,
    Image,
    Message,
    ModelRequest,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from nanoclaw.providers.failures import Endpoint
from nanoclaw.providers.litellm_provider import LiteLLM, LiteLLMHabits
from nanoclaw.providers.names import provider_for, services
from tests.model_server import ModelServer, Scripted, call_delta, delta, events, failing, says
from tests.providers import conftest, test_repair, validators
from tests.providers.conftest import NOW, READ_FILE, Heard, Waits, request
from tests.providers.test_wire_forms import asking, histories


def ask(server: ModelServer, waits: Waits, heard: Heard, model: str, asked: ModelRequest) -> AssistantMessage:
    base = server.root if model.startswith("gemini") else server.base
    provider = LiteLLM(Endpoint(model, base, key="k-secret", key_variable="SOME_API_KEY"), retries=waits.retries)
    return conftest.ask(provider, asked, heard)


def gemini(*parts: dict[str, Any]) -> Scripted:
    used = {"promptTokenCount": 5, "candidatesTokenCount": 3, "totalTokenCount": 8}
    content = {"parts": list(parts), "role": "model"}
    return events({"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": used}, done=False)


def test_gemini_calls_a_tool_and_hears_its_result(server: ModelServer, waits: Waits, heard: Heard) -> None:
    call = {"functionCall": {"name": "read_file", "args": {"path": "x"}}, "thoughtSignature": "c2ln"}
    server.script(gemini(call), gemini({"text": "It says data."}))
    asked = request(tools=(READ_FILE,))
    answer = ask(server, waits, heard, "gemini/gemini-2.5-flash", asked)
    assert [(call.name, json.loads(call.arguments)) for call in answer.tool_calls] == [("read_file", {"path": "x"})]
    assert (answer.finish, answer.usage) == ("tool_calls", Usage(5, 3, 0))
    result = ToolResult(answer.tool_calls[0].id, "read_file", "data", NOW)
    again = asked._replace(history=(*asked.history, answer, result))
    last = ask(server, waits, heard, "gemini/gemini-2.5-flash", again)
    assert (last.text, heard.text) == ("It says data.", "It says data.")
    sent = server.asked[1].json["contents"]
    assert sent[1]["parts"][0]["thoughtSignature"] == "c2ln"
    assert sent[2]["parts"][0]["function_response"]["name"] == "read_file"


def test_pieces_are_joined_and_reasoning_told_apart(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(
        events(
            delta(reasoning_content="Hm."), delta(content="Let me look."), call_delta(0, "a", "read_file", '{"pa'),
            call_delta(0, arguments='th":"x"}'), delta("tool_calls"),
        )
    )  # fmt: skip
    answer = ask(server, waits, heard, "openai/x", request(tools=(READ_FILE,)))
    assert (answer.text, answer.tool_calls) == ("Let me look.", (ToolCall("a", "read_file", '{"path":"x"}'),))
    assert heard.reasoning == "Hm." and "loading litellm for openai/x" in heard.notices


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (401, "bad key k-secret", ProviderRefused),
        (400, "nope", ProviderRefused),
        (400, "This model's maximum context length is 10 tokens", ContextTooLong),
        (429, "slow down", ProviderUnavailable),
        (503, "busy", ProviderUnavailable),
    ],
)
def test_errors_are_ours(
    server: ModelServer, waits: Waits, heard: Heard, status: int, words: str, kind: type[ProviderError]
) -> None:
    server.script(*[failing(status, {"error": {"message": words, "type": "x", "code": None}})] * 3)
    with pytest.raises(kind) as caught:
        ask(server, waits, heard, "openai/x", request())
    assert "k-secret" not in str(caught.value)
    assert len(server.asked) == (3 if kind is ProviderUnavailable else 1)  # litellm's own tries are off
    if status == 401:
        assert "check SOME_API_KEY" in str(caught.value)


def test_a_cut_stream_is_asked_again(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(events(delta(content="Hel"), done=False, cut=True), says("Hello"))
    assert ask(server, waits, heard, "openai/x", request()).text == "Hello"


def test_images_become_a_note_for_a_model_that_cannot_see(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(failing(400, {"error": {"message": "image input is not supported"}}), says("ok"))
    message = UserMessage("what?", NOW, images=(Image("image/png", b"x", "cat.png"),))
    assert ask(server, waits, heard, "openai/x", request(message)).text == "ok"
    assert "cat.png left out" in server.asked[1].json["messages"][1]["content"]


def test_an_unknown_provider_is_a_sentence(waits: Waits, heard: Heard) -> None:
    provider = LiteLLM(Endpoint("nosuch/model"), retries=waits.retries)
    with pytest.raises(ProviderRefused, match="litellm knows no such provider as 'nosuch'") as caught:
        asyncio.run(provider.complete(request(), heard))
    assert "404" not in str(caught.value)


def test_nothing_is_written_to_stdout(
    server: ModelServer, waits: Waits, heard: Heard, capfd: pytest.CaptureFixture[str]
) -> None:
    server.script(failing(400, {"error": {"message": "nope"}}))
    with pytest.raises(ProviderRefused):
        ask(server, waits, heard, "openai/x", request())
    assert capfd.readouterr() == ("", "")


def test_the_effort_is_sent_and_an_answer_comes_without_it_where_it_is_refused(
    server: ModelServer, waits: Waits, heard: Heard
) -> None:
    refusal = {"error": {"message": "Unrecognized request argument supplied: reasoning_effort"}}
    server.script(failing(400, refusal), says("ok"))
    assert ask(server, waits, heard, "openai/gpt-5-mini", request()._replace(effort="low")).text == "ok"
    assert [one.json.get("reasoning_effort") for one in server.asked] == ["low", None]


@given(history=histories)
@example(history=())
@example(history=(UserMessage("x", NOW), AssistantMessage("", NOW, (ToolCall("", "f", "{}"),) * 3)))
def test_any_history_is_legal_for_gemini(history: tuple[Message, ...]) -> None:
    """As litellm makes it of what we hand over."""
    messages = LiteLLM(Endpoint("gemini/gemini-2.5-flash"))._arguments(asking(history), LiteLLMHabits(True))["messages"]
    validators.gemini(gemini_contents(messages))


def gemini_contents(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from nanoclaw.providers.litellm_provider import load_litellm

    load_litellm()
    from litellm.llms.vertex_ai.gemini.transformation import gemini_convert_messages_with_history

    spoken = [message for message in messages if message["role"] != "system"]
    return json.loads(json.dumps(gemini_convert_messages_with_history(spoken, "gemini-2.5-flash")))  # type: ignore[no-any-return]


def test_no_provider_of_litellm_is_taken_for_a_slip() -> None:
    from litellm.types.utils import LlmProviders

    for provider in LlmProviders:
        if provider.value not in (*services(), "anthropic"):
            assert isinstance(provider_for(f"{provider.value}/x", api_key="k"), LiteLLM)


def test_calls_and_results_that_a_server_refuses_are_told_in_words_once(server: ModelServer, waits: Waits) -> None:
    test_repair.test_a_400_about_calls_and_results_is_mended_and_asked_once_more(
        server, waits, "litellm", test_repair.WORDS[0]
    )
    server.asked.clear()
    test_repair.test_a_second_400_is_told_and_the_next_request_has_its_calls_again(server, waits, "litellm")
