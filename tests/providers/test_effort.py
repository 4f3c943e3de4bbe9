"""Reasoning effort as each adapter sends it, and models that refuse it and answer all the same."""

import asyncio
from typing import Any

import pytest

from nanoclaw.core.provider import Provider
from nanoclaw.providers.anthropic import Anthropic
from nanoclaw.providers.failures import Endpoint
from nanoclaw.providers.openai_compatible import Dialect, OpenAICompatible
from tests.model_server import ModelServer, anthropic, delta, events, failing
from tests.providers.conftest import Heard, Waits, request

OK = events(delta(content="ok"), delta("stop"))
CLAUDE_OK = anthropic({"type": "text", "text": "ok"})


def asked(provider: Provider, server: ModelServer, heard: Heard, *efforts: str) -> list[dict[str, Any]]:
    """What the server was sent for one request after the other, with these efforts."""

    async def run() -> None:
        try:
            for effort in efforts:
                assert (await provider.complete(request()._replace(effort=effort), heard)).text == "ok"
        finally:
            await provider.aclose()

    asyncio.run(run())
    return [one.json for one in server.asked]


def refusal(words: str) -> Any:
    return failing(400, {"error": {"message": words, "type": "invalid_request_error"}})


def openai(server: ModelServer, waits: Waits, **dialect: Any) -> OpenAICompatible:
    return OpenAICompatible(Endpoint("x/y", server.base), dialect=Dialect(**dialect), retries=waits.retries)


@pytest.mark.parametrize("mode", ["native", "json"])
def test_an_openai_style_server_is_told_the_effort(server: ModelServer, waits: Waits, heard: Heard, mode: str) -> None:
    server.script(OK, OK)
    sent = asked(openai(server, waits, tool_mode=mode), server, heard, "low", "")
    assert [one.get("reasoning_effort") for one in sent] == ["low", None]


@pytest.mark.parametrize(
    "words",
    [
        "Unrecognized request argument supplied: reasoning_effort",
        "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model.",
        '"llama3.2" does not support thinking',
    ],
)
def test_an_effort_that_is_refused_is_left_out_from_then_on_and_others_are_not(
    server: ModelServer, waits: Waits, heard: Heard, words: str
) -> None:
    server.script(refusal(words), OK, OK, OK)
    sent = asked(openai(server, waits), server, heard, "minimal", "minimal", "low")
    assert [one.get("reasoning_effort") for one in sent] == ["minimal", None, None, "low"]
    assert heard.notices == ["x/y has no effort minimal: it is left out"]


def claude(server: ModelServer, waits: Waits) -> Anthropic:
    return Anthropic(Endpoint("anthropic/claude-x", server.root, key="sk"), retries=waits.retries)


def test_claude_is_told_the_effort_and_has_room_to_think(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(CLAUDE_OK, CLAUDE_OK, CLAUDE_OK)
    sent = asked(claude(server, waits), server, heard, "medium", "none", "")
    assert sent[0]["output_config"] == {"effort": "medium"} and sent[0]["thinking"]["type"] == "adaptive"
    assert sent[0]["max_tokens"] == 8192 + 2048
    assert not [one for one in sent[1:] if "thinking" in one or "output_config" in one]


def test_an_older_claude_gets_a_budget_and_one_that_cannot_think_neither(
    server: ModelServer, waits: Waits, heard: Heard
) -> None:
    by_name = refusal("adaptive thinking is not supported on this model")
    budget = refusal("thinking: this model does not support thinking")
    server.script(by_name, CLAUDE_OK, budget, CLAUDE_OK, CLAUDE_OK)
    sent = asked(claude(server, waits), server, heard, "high", "low", "low")
    assert [one.get("thinking", {}).get("type") for one in sent] == ["adaptive", "enabled", "enabled", None, None]
    assert [one["thinking"]["budget_tokens"] for one in sent[1:3]] == [4096, 1024]
    assert "output_config" not in sent[1]
    assert heard.notices == ["anthropic/claude-x has no effort setting: it is left out"]
