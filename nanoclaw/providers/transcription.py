"""Writes down what is said in a voice note: by the endpoint /audio/transcriptions that OpenAI-style services have
(https://platform.openai.com/docs/api-reference/audio/createTranscription), or on this machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path

import httpx

from nanoclaw.core.errors import ConfigError, ProviderError
from nanoclaw.installation import install_command
from nanoclaw.providers.chat_answer import object_in
from nanoclaw.providers.failures import Endpoint
from nanoclaw.providers.http import HttpReply, ModelClient

Transcribe = Callable[[str, bytes], Awaitable[str]]
"""The words in a sound file, from its name and what is in it; raises ProviderError."""

SECONDS = 100.0
"""For one voice note."""
_ANSWER_BYTES = 4_000_000


class Transcription:
    """One model at one endpoint."""

    def __init__(self, endpoint: Endpoint, language: str = "") -> None:
        self._language = {"language": language} if language else {}
        hint = "check the spelling of models.transcription in config.toml"
        self._endpoint = endpoint._replace(path="/audio/transcriptions", hint=hint)

    async def __call__(self, name: str, sound: bytes) -> str:
        """The words that are said in a sound file of that name. Raises ProviderError."""
        form = {"model": self._endpoint.wire_model, "response_format": "json", **self._language}
        try:
            sent = httpx.Request("POST", self._endpoint.url, data=form, files={"file": (name, sound)})
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ProviderError(f"{self._endpoint.url!r} is not an address ({error}). Check model.api_base.") from None
        headers = {"accept": "application/json", "content-type": sent.headers["content-type"]}
        async with aclosing(ModelClient(self._endpoint, headers=headers)) as client:
            return await client.ask(sent.read(), SECONDS, self._words)

    async def _words(self, reply: HttpReply, on_event: object) -> str:
        text = object_in(await reply.head(_ANSWER_BYTES)).get("text")
        if not isinstance(text, str):
            model = self._endpoint.model
            raise ProviderError(f"{model} sent an answer without a text. Is it a model for transcription?")
        return text


def on_this_machine(name: str, model: Path, language: str) -> Transcribe:
    """By a Whisper model. Raises ConfigError for one of another kind, and where its library isn't installed."""
    if model.name != "model.bin":
        raise ConfigError(f"models.transcription {name!r} is a model that talks; local/whisper-base hears.")
    if find_spec("faster_whisper") is None:
        raise ConfigError(f"{name} needs an extra package: {install_command('voice')}")
    from nanoclaw.speech import Listener, SpeechError

    listener = Listener(model.parent)

    async def hear(name: str, sound: bytes) -> str:
        try:
            return await listener.hear(sound, language)
        except SpeechError as error:
            raise ProviderError(str(error)) from None

    return hear
