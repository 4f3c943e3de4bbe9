"""Prices and context windows of models, from the table that litellm ships; litellm itself is not imported."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from nanoclaw.core.messages import Usage

FREE = frozenset({"local", "ollama", "lmstudio", "vllm", "llamacpp", "scripted"})
"""Providers that are a program on the person's own machine."""

_TABLE = "model_prices_and_context_window_backup.json"
_LONGEST_ENTRY = 20_000  # bytes
_BLOCK = 65_536
_LITELLM_NAMES = {"together": "together_ai", "fireworks": "fireworks_ai", "nvidia": "nvidia_nim"}
_INPUT = "input_cost_per_token"
_TIER = _INPUT + r"(_above_(\d+)k_tokens)"


class Rates(NamedTuple):
    """US dollars for a token, in a request with more than `above` tokens of input."""

    above: int
    input: float
    output: float
    cached: float


class PricedModel(NamedTuple):
    """`rates` stand from the cheapest tier on; none: the price is unknown."""

    rates: tuple[Rates, ...]
    window: int | None
    sees_images: bool = False


def cost(model: str, usage: Usage) -> float | None:
    """US dollars for one request, None when the price is unknown; without what some take for writing their cache."""
    if model.partition("/")[0] in FREE:
        return 0.0
    found = _model(model)
    if not found or not found.rates:
        return None
    rates = [one for one in found.rates if usage.input_tokens > one.above][-1:] or found.rates[:1]
    fresh = max(0, usage.input_tokens - usage.cached_tokens)
    return fresh * rates[0].input + usage.cached_tokens * rates[0].cached + usage.output_tokens * rates[0].output


def window(model: str) -> int | None:
    """Tokens that a model takes in at once; None if unknown, as of a server, which `served_window` may ask."""
    if model.startswith("local/"):
        return LOCAL_TOKENS
    found = _model(model)
    return found.window if found else None


def sees_images(model: str) -> bool | None:
    """None for a model that is not in the table."""
    found = _model(model)
    return found.sees_images if found else None


def near(provider: str, name: str) -> str:
    """The known model of a provider whose name is nearest to this unknown one, '' if it is known or none is near."""
    from difflib import get_close_matches

    if provider in FREE:  # one's own server has what one has put there
        return ""
    provider = _LITELLM_NAMES.get(provider, provider)
    try:
        with _table() as file:
            table = json.load(file)
    except ValueError:
        return ""
    known = {
        model.removeprefix(f"{provider}/")
        for model, entry in table.items()
        if isinstance(entry, dict) and entry.get("litellm_provider") == provider
    }
    return "" if name in known else next(iter(get_close_matches(name, sorted(known), 1, 0.6)), "")


@lru_cache(maxsize=64)
def _model(name: str) -> PricedModel | None:
    prefix, _, bare = name.partition("/")
    if prefix in FREE:
        return None
    prefix = _LITELLM_NAMES.get(prefix, prefix)
    entry = _entry(f"{prefix}/{bare}")
    if entry is None and (entry := _entry(bare)) and entry.get("litellm_provider") != prefix:
        entry = None
    return _read(entry) if entry else None


def _table() -> BinaryIO:
    """The table as it is there. Whole it is neither kept nor parsed: that takes 20 MB of memory for the few models that
    a person uses."""
    spec = importlib.util.find_spec("litellm")
    try:
        return (Path(spec.origin).parent / _TABLE).open("rb") if spec and spec.origin else BytesIO()
    except OSError:
        return BytesIO()


def _entry(name: str) -> dict[str, Any] | None:
    key, at = json.dumps(name).encode() + b":", 0
    with _table() as file:
        while (text := file.read(_BLOCK)) and (begin := text.find(key)) < 0:
            at += _BLOCK - len(key)  # it may lie across two blocks
            file.seek(at)
        if not text:
            return None
        file.seek(at + begin + len(key))
        text = file.read(_LONGEST_ENTRY)
    try:
        entry = json.JSONDecoder().raw_decode(text.decode("utf-8", "replace").lstrip())[0]
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _read(entry: dict[str, Any]) -> PricedModel:
    tiers = {"": 0} | {found[1]: int(found[2]) * 1000 for key in entry if (found := re.fullmatch(_TIER, key))}
    rates = [one for tier, above in tiers.items() if (one := _rates(entry, tier, above))]
    size = entry.get("max_input_tokens") or entry.get("max_tokens")
    window = size if isinstance(size, int) else None
    return PricedModel(tuple(sorted(rates, key=lambda one: one.above)), window, bool(entry.get("supports_vision")))


def _rates(entry: dict[str, Any], tier: str, above: int) -> Rates | None:
    def rate(name: str, otherwise: Any) -> Any:
        return entry.get(name + tier, entry.get(name, otherwise))

    input_, output = rate(_INPUT, None), rate("output_cost_per_token", None)
    if not isinstance(input_, int | float) or not isinstance(output, int | float):
        return None
    cached = rate("cache_read_input_token_cost", entry.get(_INPUT + "_cache_hit", input_))
    return Rates(above, input_, output, cached if isinstance(cached, int | float) else input_)


LOCAL_TOKENS = 4096
"""The window that the model inside this process is loaded with."""


async def served_window(model: str, api_base: str, *, seconds: float = 0.5) -> int | None:
    """The window of a model as Ollama, llama.cpp, LM Studio or vLLM has loaded it now; None when it does not say."""
    prefix, _, name = model.partition("/")
    if prefix not in _SERVERS:
        return None
    from nanoclaw.providers.failures import MISFORMED
    from nanoclaw.providers.http import get_json

    path, read = _SERVERS[prefix]
    try:
        found = read(await get_json(api_base.rstrip("/").removesuffix("/v1") + path, seconds), name)
    except MISFORMED:
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
