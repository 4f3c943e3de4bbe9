"""Model names as people write them, keys, and model servers on this machine."""

import asyncio
import json
import socket
from typing import Any

import pytest

from nanoclaw.core.errors import ConfigError, ProviderError
from nanoclaw.providers.anthropic import Anthropic
from nanoclaw.providers.litellm_provider import LiteLLM
from nanoclaw.providers.local_servers import LocalServer, detect_local_server
from nanoclaw.providers.names import provider_for, services
from nanoclaw.providers.openai_compatible import OpenAICompatible
from tests.examples import examples
from tests.model_server import ModelServer, Scripted, says
from tests.providers.conftest import Heard, Waits, ask, request

EXAMPLES = examples(__file__, "names.jsonl")


def wire(provider: Any) -> tuple[str, str]:
    """The address of a provider's requests, and the model's name there."""
    return provider.endpoint.url, provider.endpoint.wire_model


@pytest.mark.parametrize(("model", "url", "name"), EXAMPLES["a prefix chooses the endpoint"])
def test_a_prefix_chooses_the_endpoint(model: str, url: str, name: str) -> None:
    provider = provider_for(model, api_key="k")
    assert provider.model == model and wire(provider) == (url, name)


@pytest.mark.parametrize(("model", "url"), EXAMPLES["servers on this machine need no key"])
def test_servers_on_this_machine_need_no_key(model: str, url: str) -> None:
    assert wire(provider_for(model))[0] == f"http://127.0.0.1:{url}/v1/chat/completions"


def test_api_base_leads_elsewhere() -> None:
    base = "http://127.0.0.1:8901/v1"
    assert wire(provider_for("openai/x", base)) == (f"{base}/chat/completions", "x")
    assert wire(provider_for("some/odd/model", base)) == (f"{base}/chat/completions", "some/odd/model")
    assert wire(provider_for("model", base + "/")) == (f"{base}/chat/completions", "model")
    assert wire(provider_for("anthropic/x", "http://127.0.0.1:1/v1")) == ("http://127.0.0.1:1/v1/messages", "x")


def test_everything_else_goes_through_litellm() -> None:
    assert isinstance(provider_for("gemini/gemini-2.5-flash", env={"GEMINI_API_KEY": "k"}), LiteLLM)
    assert isinstance(provider_for("bedrock/anthropic.claude-x"), LiteLLM)


@pytest.mark.parametrize("prefix", [name for name, service in services().items() if service.keys])
def test_a_missing_key_names_its_variable(prefix: str) -> None:
    variable = services()[prefix].keys[0]
    with pytest.raises(ConfigError) as caught:
        provider_for(f"{prefix}/x", env={variable: " "})
    assert str(caught.value) == f"{prefix}/x needs a key: set {variable}, or model.api_key in config.toml."
    assert isinstance(provider_for(f"{prefix}/x", env={variable: "k"}), OpenAICompatible)
    assert isinstance(provider_for(f"{prefix}/x", "http://localhost:1/v1"), OpenAICompatible)


def test_other_adapters_name_their_variable_too() -> None:
    for model, variable in (("anthropic/x", "ANTHROPIC_API_KEY"), ("gemini/x", "GEMINI_API_KEY")):
        with pytest.raises(ConfigError, match=f"set {variable}"):
            provider_for(model)
    assert isinstance(provider_for("anthropic/x", env={"ANTHROPIC_API_KEY": "k"}), Anthropic)


@pytest.mark.parametrize(("model", "advice"), EXAMPLES["a bare name gets advice"])
def test_a_bare_name_gets_advice(model: str, advice: str) -> None:
    with pytest.raises(ConfigError) as caught:
        provider_for(model)
    assert advice in str(caught.value)


@pytest.mark.parametrize(("prefix", "near"), EXAMPLES["a prefix with a slip is told before anything is loaded"])
def test_a_prefix_with_a_slip_is_told_before_anything_is_loaded(prefix: str, near: str) -> None:
    with pytest.raises(ConfigError) as caught:
        provider_for(f"{prefix}/gpt-5")
    assert str(caught.value) == f"unknown provider {prefix.lower()!r}; did you mean {near!r}?"
    assert isinstance(provider_for(f"{prefix}/gpt-5", "http://127.0.0.1:1/v1"), OpenAICompatible)


@pytest.mark.parametrize("base", ["127.0.0.1:8901/v1", "http://", "ftp://x/v1", "http://[bad", "http://x:99999"])
def test_a_broken_api_base_is_refused(base: str) -> None:
    with pytest.raises(ConfigError, match="give a whole address"):
        provider_for("openai/x", base)


@pytest.mark.parametrize("key", ["sk-\nline", "sk-ü", "two words"])
def test_a_key_that_cannot_be_one_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        provider_for("openai/x", api_key=key)
    assert "model.api_key" in str(caught.value) and key not in str(caught.value)


def test_a_model_that_ollama_lacks_gets_the_command(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(Scripted((b'{"error":{"message":"model not found"}}',), 404))
    with pytest.raises(ProviderError, match=r"Run `ollama pull llama3\.2`"):
        ask(provider_for("ollama/llama3.2", server.base, retries=waits.retries), request(), heard)


@pytest.mark.parametrize("proxy", ["socks4://127.0.0.1:1", "nonsense://x", "http://127.0.0.1:99999"])
def test_an_unusable_proxy_is_told(waits: Waits, heard: Heard, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    provider = provider_for("openai/x", api_key="k", retries=waits.retries)
    with pytest.raises(ProviderError):
        ask(provider, request(), heard)


def test_a_proxy_never_stands_before_a_server_on_this_machine(
    server: ModelServer, waits: Waits, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    server.script(says("hello"))
    assert ask(provider_for("openai/x", server.base, retries=waits.retries), request(), heard).text == "hello"


def found(ports: dict[str, int]) -> LocalServer | None:
    return asyncio.run(detect_local_server(ports))


def listed(value: Any) -> Scripted:
    return Scripted((json.dumps(value).encode(),), headers={"content-type": "application/json"})


def test_ollama_is_found_with_a_model_that_can_call_tools(server: ModelServer) -> None:
    names = ["nomic-embed-text:latest", "gemma2:2b", "qwen2.5:7b", "llama3.2:3b"]
    server.script(listed({"models": [{"name": name} for name in names]}))
    assert found({"ollama": server.port}) == LocalServer("ollama/qwen2.5:7b", server.base)
    assert server.asked[0].path == "/api/tags"


def test_a_server_with_its_own_list_is_found(server: ModelServer) -> None:
    server.script(listed({"object": "list", "data": [{"id": "model.gguf"}]}))
    assert found({"llamacpp": server.port}) == LocalServer("llamacpp/model.gguf", server.base)


@pytest.mark.parametrize(
    "reply",
    [
        listed({"models": []}),
        listed({"models": [{"name": "bge-m3:latest"}]}),
        listed({"models": "x"}),
        listed([1]),
        Scripted((b"<html>",)),
        Scripted(status=404),
        Scripted((b"[" * 100_000,)),
    ],
)
def test_anything_else_on_the_port_is_nothing(server: ModelServer, reply: Scripted) -> None:
    server.script(reply)
    assert found({"ollama": server.port}) is None


def test_looking_takes_no_longer_than_said() -> None:
    with socket.socket() as silent, socket.socket() as closed:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        closed.bind(("127.0.0.1", 0))
        assert found({"ollama": silent.getsockname()[1], "llamacpp": closed.getsockname()[1]}) is None
