"""Writes down what is said in a voice note: the endpoint /audio/transcriptions that OpenAI-style services have
(https://platform.openai.com/docs/api-reference/audio/createTranscription)."""

from __future__ import annotations

import json

import httpx

from nanoclaw.core.errors import ProviderError
from nanoclaw.core.events import Event
from nanoclaw.providers.failures import Endpoint
from nanoclaw.providers.http import HttpReply, ModelClient

SECONDS = 100.0
"""For one voice note."""
_ANSWER_BYTES = 4_000_000


class Transcription:
    """One model at one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint._replace(
            path="/audio/transcriptions",
            hint="check the spelling of models.transcription in config.toml",
        )

    async def __call__(self, name: str, sound: bytes) -> str:
        """The words that are said in a sound file of that name. Raises ProviderError."""
        file = (name, sound)
        form = {"model": self._endpoint.wire_model, "response_format": "json"}
        try:
            sent = httpx.Request("POST", self._endpoint.url, data=form, files={"file": file})
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ProviderError(f"{self._endpoint.url!r} is not an address ({error}). Check model.api_base.") from None
        headers = {"accept": "application/json", "content-type": sent.headers["content-type"]}
        if self._endpoint.key:
            headers["authorization"] = f"Bearer {self._endpoint.key}"
        client = ModelClient(self._endpoint, headers, None)
        try:
            return await client.ask(sent.read(), SECONDS, self._words, _unseen)
        finally:
            await client.aclose()

    async def _words(self, reply: HttpReply, on_event: object) -> str:
        try:
            text = json.loads(await reply.head(_ANSWER_BYTES))["text"]
        except (ValueError, TypeError, KeyError, RecursionError):
            text = None
        if not isinstance(text, str):
            model = self._endpoint.model
            raise ProviderError(f"{model} sent an answer without a text. Is it a model for transcription?")
        return text


def _unseen(event: Event) -> None:
    """Nobody watches a voice note being written down."""
