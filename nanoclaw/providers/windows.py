"""Context windows: how many tokens a model takes in at once, from a table or from its server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from nanoclaw.providers import prices

LOCAL_TOKENS = 4096
"""The window that the model inside this process is loaded with."""


def window_of(model: str) -> int | None:
    """None when unknown; `served_window` may know it of a server that the person set up."""
    return LOCAL_TOKENS if model.startswith("local/") else prices.window(model)


async def served_window(model: str, api_base: str, *, seconds: float = 0.5) -> int | None:
    """The window of a model as Ollama, llama.cpp, LM Studio or vLLM has loaded it now; None when it does not say."""
    prefix, _, name = model.partition("/")
    if prefix not in _SERVERS:
        return None
    from nanoclaw.providers.failures import MISFORMED
    from nanoclaw.providers.http import httpx, open_client

    path, read = _SERVERS[prefix]
    url = api_base.rstrip("/").removesuffix("/v1") + path
    try:
        async with open_client(url) as client:
            found = read((await client.get(url, timeout=seconds)).json(), name)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, *MISFORMED):
        return None
    return found if isinstance(found, int) and found > 0 else None


def was_cut(texts: Iterable[str], read_tokens: int, window: int | None) -> bool:
    """True if a server that reports `read_tokens` left out a part, which some do without a word.

    Every run of letters is a token at least, so that fewer tokens than runs are too few. As some servers count only
    what they had not read before, that alone is not a proof: the texts must also be able to fill the window.
    """
    runs = sum(len(re.findall(r"[^\W\d_]+", text)) for text in texts)
    return window is not None and 0 < read_tokens < runs and runs * TOKENS_A_RUN > window


TOKENS_A_RUN = 2.5
"""Tokens to a run of letters, with the digits and characters around it: 1.3 in prose, 2 to 4 in JSON and code."""


def _ollama(answer: Any, name: str) -> Any:
    return next(
        (one.get("context_length") for one in answer["models"] if one["name"] in (name, f"{name}:latest")), None
    )


def _llamacpp(answer: Any, name: str) -> Any:
    return answer["default_generation_settings"]["n_ctx"]


def _listed(field: str) -> Callable[[Any, str], Any]:
    def read(answer: Any, name: str) -> Any:
        return next((one.get(field) for one in answer["data"] if one["id"] == name), None)

    return read


_SERVERS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "ollama": ("/api/ps", _ollama),
    "llamacpp": ("/props", _llamacpp),
    "lmstudio": ("/api/v0/models", _listed("loaded_context_length")),
    "vllm": ("/v1/models", _listed("max_model_len")),
}
"""By server the path of the answer that says it, and the reader of that answer."""
