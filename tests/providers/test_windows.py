"""Lengths that a conversation may have: what a table, a server or a refusal says, and servers that say nothing."""

import asyncio
from typing import Any

import pytest

from nanoclaw.core.errors import ContextTooLong, ProviderError, ProviderUnavailable
from nanoclaw.core.messages import ModelRequest, UserMessage
from nanoclaw.core.provider import Provider
from nanoclaw.providers.anthropic import Anthropic
from nanoclaw.providers.failures import Endpoint, failure, window_in
from nanoclaw.providers.names import provider_for
from nanoclaw.providers.prices import LOCAL_TOKENS, served_window, was_cut, window
from tests.examples import examples
from tests.model_server import ModelServer, Scripted, anthropic, delta, events, failing, says
from tests.providers.conftest import NOW, Heard, Waits, ask, request

EXAMPLES = examples(__file__, "windows.jsonl")

REFUSALS = [one for of_one in examples(__file__, "overflows.jsonl").values() for one in of_one]
"""Words with which providers refuse what is too long, and the limit that they name."""


@pytest.mark.parametrize(("words", "window"), REFUSALS)
def test_overflow_is_known_in_any_providers_words_with_the_limit_they_name(words: str, window: int | None) -> None:
    for status in (400, 500, 0):
        error = failure(Endpoint("x/y", "http://x/"), status, f'{{"error": {{"message": "{words}"}}}}'.encode(), None)
        assert isinstance(error, ContextTooLong) and error.window == window


def test_llamacpp_names_the_limit_in_a_field_of_its_own() -> None:
    body = b'{"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_ctx": 4096}}'
    error = failure(Endpoint("x/y", "http://x/"), 400, body, None)
    assert isinstance(error, ContextTooLong) and error.window == 4096


@pytest.mark.parametrize(("status", "words"), EXAMPLES["what only sounds like an overflow is none"])
def test_what_only_sounds_like_an_overflow_is_none(status: int, words: str) -> None:
    error = failure(Endpoint("x/y", "http://x/"), status, f'{{"error": {{"message": "{words}"}}}}'.encode(), None)
    assert not isinstance(error, ContextTooLong)


def test_a_count_that_is_no_limit_is_not_taken_for_one() -> None:
    assert window_in("exceeded max context length by 4021 tokens") is None
    assert window_in("you sent 9000 tokens") is None


def overflow(provider: Provider, asked: ModelRequest | None = None, heard: Heard | None = None) -> ContextTooLong:
    with pytest.raises(ContextTooLong) as caught:
        ask(provider, asked, heard)
    return caught.value


def of(name: str, server: ModelServer, waits: Waits) -> Provider:
    return provider_for(name, server.base, "key", retries=waits.retries)


def test_a_window_that_was_full_before_the_first_word_is_an_overflow(server: ModelServer, waits: Waits) -> None:
    server.script(events(delta("model_context_window_exceeded")), anthropic(stop="model_context_window_exceeded"))
    overflow(of("openai/x", server, waits))
    overflow(Anthropic(Endpoint("anthropic/x", server.base, key="key"), retries=waits.retries))


def test_a_window_that_became_full_in_the_answer_is_a_cut_answer(server: ModelServer, waits: Waits) -> None:
    full = "model_context_window_exceeded"
    server.script(says("Half of", finish=full), anthropic({"type": "text", "text": "Half of"}, stop=full))
    for provider in (
        of("openai/x", server, waits),
        Anthropic(Endpoint("anthropic/x", server.base, key="key"), retries=waits.retries),
    ):
        answer = ask(provider)
        assert (answer.text, answer.finish) == ("Half of", "length")


LONG = request()._replace(history=(UserMessage("The quick brown fox jumps over the lazy dog. " * 400, NOW),))
"""3,600 words, some 4,000 tokens."""


def loaded(context: int) -> Scripted:
    return failing(200, {"models": [{"name": "qwen3:latest", "context_length": context}]})


def test_ollama_that_left_out_a_part_silently_is_found_out(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(says("I see only…", usage={"prompt_tokens": 2050, "completion_tokens": 5}), loaded(4096))
    error = overflow(of("ollama/qwen3", server, waits), LONG, heard)
    assert heard.notices == ["ollama/qwen3 had read only a part, so this answer does not count"]
    assert error.window == 4096 and "read 2050 tokens and left out the rest" in str(error)
    assert server.asked[1].path == "/api/ps"


@pytest.mark.parametrize("context", [32768, 0])
def test_a_server_that_counts_only_what_is_new_is_trusted(server: ModelServer, waits: Waits, context: int) -> None:
    server.script(says("fine", usage={"prompt_tokens": 12, "completion_tokens": 5}), loaded(context))
    assert ask(of("ollama/qwen3", server, waits), LONG).text == "fine"


def test_a_server_that_read_everything_is_not_asked_for_its_window(server: ModelServer, waits: Waits) -> None:
    server.script(says("fine", usage={"prompt_tokens": 4100, "completion_tokens": 5}))
    assert ask(of("ollama/qwen3", server, waits), LONG).text == "fine"
    assert len(server.asked) == 1


def test_an_empty_answer_of_lm_studio_to_what_is_too_long_is_an_overflow(server: ModelServer, waits: Waits) -> None:
    models = {"data": [{"id": "other"}, {"id": "qwen3", "loaded_context_length": 4096}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 4200, "completion_tokens": 0}}
    server.script(events(delta("stop"), usage), failing(200, models), events(delta("stop"), usage), failing(404))
    assert overflow(of("lmstudio/qwen3", server, waits), LONG).window == 4096
    assert ask(of("lmstudio/qwen3", server, waits), LONG).text == ""  # nobody knows why


def test_a_text_of_numbers_or_one_endless_word_is_not_taken_for_a_cut_one() -> None:
    assert not was_cut(["1 2 3 4 " * 1000], 500, 4096)
    assert not was_cut(["a" * 100_000], 500, 4096)
    assert was_cut(["one two three four " * 1000], 2050, 4096)


@pytest.mark.parametrize(("model", "path", "answer"), EXAMPLES["a server tells the window it was started with"])
def test_a_server_tells_the_window_it_was_started_with(
    server: ModelServer, model: str, path: str, answer: dict[str, Any]
) -> None:
    server.script(failing(200, answer))
    assert asyncio.run(served_window(model, server.base, seconds=60)) == 8192
    assert server.asked[0].path == path


@pytest.mark.parametrize("reply", [failing(404), failing(200, b"<html>"), failing(200, []), failing(200, {"data": 1})])
def test_a_server_that_does_not_tell_its_window_does_no_harm(server: ModelServer, reply: Scripted) -> None:
    server.script(*[reply] * 4)
    for model in ("ollama/x", "llamacpp/x", "lmstudio/x", "vllm/x"):
        assert asyncio.run(served_window(model, server.base)) is None
    assert asyncio.run(served_window("openai/x", server.base)) is None
    assert asyncio.run(served_window("ollama/x", "http://127.0.0.1:1/v1")) is None


def test_windows_of_models_are_in_the_table() -> None:
    assert window("anthropic/claude-sonnet-4-5") == 200_000
    assert window("local/qwen3-0.6b") == LOCAL_TOKENS
    assert window("ollama/qwen3") is None and window("nobody/nothing") is None


def test_network_error_of_a_provider_that_calls_it_a_finish_is_asked_again(server: ModelServer, waits: Waits) -> None:
    server.script(events(delta("network_error")), says("fine"))
    assert ask(of("openai/x", server, waits)).text == "fine"
    assert len(waits.seconds) == 1


@pytest.mark.parametrize(
    "reply",
    [
        Scripted((b"<!DOCTYPE html><title>Welcome</title>",)),
        Scripted((b"garbage",), headers={"content-encoding": "gzip"}),
        events(b"data: {nonsense}\n\n"),
        Scripted((b'{"choices": [{"mess',)),
    ],
)
def test_garbage_with_status_200_is_a_sentence_for_anthropic_too(
    server: ModelServer, waits: Waits, reply: Scripted
) -> None:
    server.script(reply)
    with pytest.raises(ProviderError) as caught:
        ask(Anthropic(Endpoint("anthropic/x", server.base, key="key"), retries=waits.retries))
    assert not isinstance(caught.value, ProviderUnavailable) and str(caught.value).startswith("anthropic/x ")
