"""Writes down what is said in a voice note, through litellm, which is imported when the first one comes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from nanoclaw.core.errors import ProviderError, ProviderUnavailable
from nanoclaw.providers.failures import Endpoint, failure
from nanoclaw.providers.litellm_provider import load_litellm

SECONDS = 100.0
"""For one voice note."""


class Transcription:
    """One model; `endpoint.wire_model` is its name for litellm."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._model = endpoint.model
        access = {"api_base": endpoint.api_base, "api_key": endpoint.key or ("none" if endpoint.api_base else "")}
        self._access = {name: value for name, value in access.items() if value}
        self._endpoint = replace(endpoint, hint="check the spelling of media.transcription in config.toml")

    async def __call__(self, path: Path) -> str:
        """The words that are said in a sound file. Raises ProviderError."""
        data = await asyncio.to_thread(path.read_bytes)
        try:
            litellm = await asyncio.to_thread(load_litellm)
        except ImportError as error:
            raise ProviderError(f"{self._model} needs litellm, which cannot be imported ({error}).") from None
        try:
            async with asyncio.timeout(SECONDS):
                heard = await litellm.atranscription(
                    model=self._endpoint.wire_model,
                    file=(path.name, data),
                    timeout=SECONDS,
                    max_retries=1,
                    **self._access,
                )
        except TimeoutError:
            raise ProviderUnavailable(f"{self._model} took more than {SECONDS:.0f} s. Try again later.") from None
        except Exception as error:  # litellm raises its own, openai's, httpx's and plain errors
            raise self._failed(error) from None
        text = getattr(heard, "text", None)
        if not isinstance(text, str):
            raise ProviderError(f"{self._model} sent an answer without a text. Is it a model for transcription?")
        return text

    def _failed(self, error: Exception) -> ProviderError:
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            return failure(self._endpoint, status, str(error).encode("utf-8", "replace"), None)
        return ProviderError(f"{self._model} failed ({type(error).__name__}): is it a model for transcription?")
