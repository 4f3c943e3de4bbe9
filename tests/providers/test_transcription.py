"""Voice notes are written down over HTTP, here by a loopback server."""

import asyncio
import json
from pathlib import Path

import pytest

from nanoclaw.core.errors import ConfigError, ProviderError
from nanoclaw.providers.names import transcription_for
from tests.model_server import ModelServer, Scripted


def json_reply(body: object, status: int = 200) -> Scripted:
    return Scripted((json.dumps(body).encode(),), status, {"content-type": "application/json"})


@pytest.fixture
def voice(tmp_path: Path) -> Path:
    path = tmp_path / "voice-1a2b3c4d.ogg"
    path.write_bytes(b"OggS and more")
    return path


def test_the_file_goes_to_the_model_and_its_words_come_back(server: ModelServer, voice: Path) -> None:
    server.script(json_reply({"text": "Buy milk."}))
    hear = transcription_for("openai/whisper-1", server.base, "k-secret")
    assert asyncio.run(hear(voice.name, voice.read_bytes())) == "Buy milk."
    (asked,) = server.asked
    assert asked.path == "/v1/audio/transcriptions"
    assert asked.headers["authorization"] == "Bearer k-secret"
    assert b"whisper-1" in asked.body
    assert b'filename="voice-1a2b3c4d.ogg"' in asked.body
    assert b"OggS and more" in asked.body


def test_a_refused_key_is_told_without_the_key(server: ModelServer, voice: Path) -> None:
    server.script(*[json_reply({"error": {"message": "Incorrect API key provided: k-secret"}}, 401)] * 3)
    hear = transcription_for("openai/whisper-1", server.base, "k-secret")
    with pytest.raises(ProviderError, match="refused the key") as raised:
        asyncio.run(hear(voice.name, voice.read_bytes()))
    assert "k-secret" not in str(raised.value)


@pytest.mark.parametrize("reply", [{"words": "x"}, {"text": 7}, [], "no"])
def test_an_answer_without_words_is_told(server: ModelServer, reply: object) -> None:
    server.script(json_reply(reply))
    with pytest.raises(ProviderError, match="without a text"):
        asyncio.run(transcription_for("openai/whisper-1", server.base, "k-secret")("voice.ogg", b"OggS"))


def test_a_service_of_another_kind_is_refused_with_ones_that_work() -> None:
    with pytest.raises(ConfigError, match="openai/whisper-1"):
        transcription_for("gemini/gemini-2.5-flash", env={"GEMINI_API_KEY": "k"})


def test_a_model_without_a_key_says_which_one_it_needs() -> None:
    with pytest.raises(ConfigError, match="GROQ_API_KEY"):
        transcription_for("groq/whisper-large-v3", env={})
