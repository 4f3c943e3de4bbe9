"""A history that a server refuses for its calls and results is told in words, once, and the conversation goes on."""

from typing import Any

import pytest

from nanoclaw.core.errors import ProviderRefused
from nanoclaw.core.messages import AssistantMessage, Image, ToolCall, ToolResult, UserMessage
from nanoclaw.core.provider import Provider
from nanoclaw.providers.anthropic import Anthropic
from nanoclaw.providers.failures import BadRequest, Endpoint
from nanoclaw.providers.litellm_provider import LiteLLM
from nanoclaw.providers.openai_compatible import OpenAICompatible
from nanoclaw.providers.repair import as_turns, in_words
from tests.model_server import ModelServer, anthropic, failing, says
from tests.providers.conftest import NOW, READ_FILE, Waits, ask, request

HISTORY = (
    UserMessage("read it", NOW),
    AssistantMessage("Let me look.", NOW, (ToolCall("a", "read_file", '{"path": "x"}'), ToolCall("b", "ls", "{}"))),
    ToolResult("a", "read_file", "data", NOW),
    ToolResult("b", "ls", "x", NOW),
    UserMessage("and?", NOW),
)
WORDS = [
    "Invalid parameter: 'tool_call_id' of 'call_x' not found in 'tool_calls' of previous message.",
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_01",
    "Please ensure that the number of function response parts is equal to the number of function call parts",
    "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
]
CALLED = 'Let me look.\n(I called read_file with {"path": "x"})\n(I called ls with {})'
RESULTS = "(Result of read_file: data)\n\n(Result of ls: x)\n\nand?"


def providers(server: ModelServer, waits: Waits) -> dict[str, Provider]:
    return {
        "openai": OpenAICompatible(Endpoint("openai/x", server.base, key="secret"), retries=waits.retries),
        "anthropic": Anthropic(Endpoint("anthropic/x", server.base, key="secret"), retries=waits.retries),
        "litellm": LiteLLM(Endpoint("openai/x", server.base, key="secret"), retries=waits.retries),
    }


@pytest.mark.parametrize("which", ["openai", "anthropic"])
@pytest.mark.parametrize("words", WORDS)
def test_a_400_about_calls_and_results_is_mended_and_asked_once_more(
    server: ModelServer, waits: Waits, which: str, words: str
) -> None:
    answer = anthropic({"type": "text", "text": "ok"}) if which == "anthropic" else says("ok")
    server.script(failing(400, {"type": "error", "error": {"message": words}}), answer)
    assert ask(providers(server, waits)[which], request(*HISTORY, tools=(READ_FILE,))).text == "ok"
    sent = server.asked[1].json
    said = [(message["role"], text_of(message["content"])) for message in sent["messages"][-3:]]
    assert said == [("user", "read it"), ("assistant", CALLED), ("user", RESULTS)]
    assert sent["tools"] and "tool_calls" not in str(sent["messages"]) and "tool_use" not in str(sent["messages"])


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@pytest.mark.parametrize("which", ["openai", "anthropic"])
def test_a_second_400_is_told_and_the_next_request_has_its_calls_again(
    server: ModelServer, waits: Waits, which: str
) -> None:
    server.script(*[failing(400, {"error": {"message": WORDS[0]}})] * 2)
    with pytest.raises(ProviderRefused, match="tool_call_id"):
        ask(providers(server, waits)[which], request(*HISTORY))
    assert len(server.asked) == 2
    server.script(anthropic({"type": "text", "text": "ok"}) if which == "anthropic" else says("ok"))
    ask(providers(server, waits)[which], request(*HISTORY))
    assert "tool_call" in str(server.asked[2].json) or "tool_use" in str(server.asked[2].json)


@pytest.mark.parametrize("words", ["temperature must be 1", "This image is broken"])
def test_a_400_about_something_else_is_told_at_once(server: ModelServer, waits: Waits, words: str) -> None:
    with pytest.raises(BadRequest):
        in_words(request(*HISTORY), BadRequest("", words))
    server.script(failing(400, {"error": {"message": words}}))
    with pytest.raises(ProviderRefused, match=words):
        ask(providers(server, waits)["openai"], request(*HISTORY))


def test_a_history_without_calls_has_nothing_to_mend() -> None:
    with pytest.raises(BadRequest):
        in_words(request(UserMessage("hi", NOW)), BadRequest("", WORDS[0]))


def test_pictures_of_results_are_kept_in_the_telling() -> None:
    cat = Image("image/png", b"x", "cat.png")
    shown = as_turns((*HISTORY[:2], ToolResult("a", "read_file", "cat", NOW, images=(cat,))))
    assert isinstance(shown[-1], UserMessage) and shown[-1].images == (cat,)
    assert "(Result of ls: No result: the call was interrupted" in shown[-1].text
