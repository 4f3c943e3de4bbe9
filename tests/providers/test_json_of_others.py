"""JSON of servers and models that is nested too deeply or wrong: an error in a sentence; the next request goes out."""

import json

import pytest

from nanoclaw.core.errors import ProviderError, ProviderUnavailable
from nanoclaw.core.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from nanoclaw.core.provider import Provider
from nanoclaw.providers import local
from nanoclaw.providers.anthropic import Anthropic
from nanoclaw.providers.failures import Endpoint
from nanoclaw.providers.openai_compatible import OpenAICompatible
from nanoclaw.providers.prices import served_window
from tests.model_server import ModelServer, Scripted, anthropic, says
from tests.providers.conftest import NOW, Heard, Waits, ask, request

DEEP = "[" * 100_000 + "]" * 100_000
ALMOST = "[" * 900 + "]" * 900
"""It can be read here, and perhaps not where it is part of another value."""


@pytest.fixture(params=["anthropic", "openai"])
def provider(request: pytest.FixtureRequest, server: ModelServer, waits: Waits) -> Provider:
    if request.param == "anthropic":
        return Anthropic(Endpoint("anthropic/claude-x", server.root, key="k"), retries=waits.retries)
    return OpenAICompatible(Endpoint("openai/gpt-x", server.base, key="k"), retries=waits.retries)


@pytest.mark.parametrize("value", [DEEP, ALMOST])
def test_an_event_that_is_nested_too_deeply_is_a_broken_one(
    provider: Provider, server: ModelServer, heard: Heard, value: str
) -> None:
    server.script(*[Scripted((b'data: {"reasoning_details": ' + value.encode() + b"}\n\n",))] * 9)
    with pytest.raises(ProviderError, match="sent a broken event"):
        ask(provider, None, heard)


@pytest.mark.parametrize(
    "arguments", ['{"a": NaN}', '{"a": 1e999}', f'{{"a": {ALMOST}}}', DEEP, '{"a": 1, "a": 2}', "["]
)
def test_a_call_with_arguments_that_are_no_json_is_given_back_as_text(
    provider: Provider, server: ModelServer, heard: Heard, arguments: str
) -> None:
    said = AssistantMessage("", NOW, (ToolCall("c1", "read_file", arguments),), None, "tool_calls")
    history = (UserMessage("hi", NOW), said, ToolResult("c1", "read_file", "x", NOW), UserMessage("again", NOW))
    is_anthropic = isinstance(provider, Anthropic)
    server.script(anthropic({"type": "text", "text": "ok"}) if is_anthropic else says("ok"))
    assert ask(provider, request()._replace(history=history), heard).text == "ok"
    sent = json.dumps(server.asked[0].json["messages"], allow_nan=False)
    assert "_raw" in sent


@pytest.mark.parametrize("form", ["anthropic", "openai"])
def test_reasoning_that_cannot_be_read_again_is_left_out(
    provider: Provider, server: ModelServer, heard: Heard, form: str
) -> None:
    opaque = json.dumps({"form": form})[:-1] + f', "blocks": {DEEP}, "reasoning_details": {DEEP}}}'
    said = AssistantMessage("hello", NOW, (), None, "stop", provider.model, opaque)
    history = (UserMessage("hi", NOW), said, UserMessage("again", NOW))
    server.script(anthropic({"type": "text", "text": "ok"}) if isinstance(provider, Anthropic) else says("ok"))
    assert ask(provider, request()._replace(history=history), heard).text == "ok"


async def test_a_server_that_tells_its_window_in_nonsense_tells_none(server: ModelServer) -> None:
    server.script(*[Scripted((DEEP.encode(),))] * 4)
    assert await served_window("ollama/llama", server.base) is None


def test_a_local_model_whose_answer_is_nested_too_deeply_has_failed() -> None:
    with pytest.raises(ProviderUnavailable, match="arrived damaged"):
        local._chunk(DEEP)
    assert isinstance(local._failure(DEEP), ProviderError)
