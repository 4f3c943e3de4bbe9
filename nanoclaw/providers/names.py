"""Model names as people write them: the service, the address and the key that each prefix stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.provider import ABLE, Abilities, EmbeddingModel
from nanoclaw.net import leads_to_loopback
from nanoclaw.providers.failures import Endpoint

if TYPE_CHECKING:
    from nanoclaw.core.provider import Provider
    from nanoclaw.providers.embeddings import BundledEmbeddings, Embeddings
    from nanoclaw.providers.http import RetryPolicy
    from nanoclaw.providers.transcription import Transcription


class Service(NamedTuple):
    """An OpenAI-style service: its address, the variables that may hold its key, and how it deviates."""

    api_base: str
    keys: tuple[str, ...] = ()
    dialect: Mapping[str, Any] = {}
    hint: str = ""


@cache
def _data() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(Path(__file__).with_name("services.toml").read_text(encoding="utf-8"))


@cache
def services() -> dict[str, Service]:
    """The services of services.toml, by prefix."""
    entries = _data()["services"].items()
    return {name: Service(**{**entry, "keys": tuple(entry.get("keys", ()))}) for name, entry in entries}


def provider_for(
    model: str,
    api_base: str = "",
    api_key: str = "",
    env: Mapping[str, str] | None = None,
    *,
    home: Path | None = None,
    tool_mode: str = "native",
    retries: RetryPolicy | None = None,
    abilities: Abilities = ABLE,
) -> Provider:
    """The provider that answers for `model`; raises ConfigError when the name or the key is missing or wrong.

    `env` is searched for keys, the `home` for the file of "local/…"; `abilities` are what was learned of the model.
    """
    if home and model.startswith("local/"):
        from nanoclaw.providers import catalogue
        from nanoclaw.providers.local import LocalProvider

        return LocalProvider(model, catalogue.locate(model, home / "models"), home / "models" / "state")
    _, prefix, _ = check(model, api_base)
    endpoint, service = _endpoint(model, api_base, api_key, env or {})
    if prefix == "anthropic":
        from nanoclaw.providers.anthropic import Anthropic

        return Anthropic(endpoint, retries=retries, abilities=abilities)
    if service is None:
        from nanoclaw.providers.litellm_provider import LiteLLM

        return LiteLLM(endpoint, retries=retries, abilities=abilities)
    from nanoclaw.providers.openai_compatible import Dialect, OpenAICompatible

    # a server of one's own under OpenAI's name speaks the common form
    deviates = endpoint.api_base == service.api_base or prefix != "openai"
    dialect = Dialect(**(service.dialect if deviates else {}), tool_mode="json" if tool_mode == "json" else "native")
    return OpenAICompatible(endpoint, dialect=dialect, retries=retries, abilities=abilities)


def check(model: str, api_base: str, *, is_sure: bool = False) -> tuple[str, str, str]:
    """The variable of a model's key, '' for none, its provider and its name there. Raises ConfigError for no provider,
    a wrong address and a slip in the provider; for any unknown one if it `is_sure` that no plugin brings it."""
    prefix, name = _split(model, api_base)
    if prefix == "local":
        raise ConfigError(f"model.name {model!r} is the model inside the program: it has no api_base and no key.")
    base, service, keys = _place(prefix, api_base)
    if service is None and prefix != "anthropic":
        _check_prefix(prefix, is_sure)
    return keys[0] if keys and not leads_to_loopback(base) else "", prefix, name


def transcription_for(
    model: str, api_base: str = "", api_key: str = "", env: Mapping[str, str] | None = None, language: str = ""
) -> Transcription:
    """Writes down voice notes with that model; raises ConfigError when the name or the key is missing or wrong, and for
    a service that isn't OpenAI-style. '' is a language that the model finds out."""
    from nanoclaw.providers.transcription import Transcription

    endpoint, service = _endpoint(model, api_base, api_key, env or {})
    if service is None:
        raise ConfigError(
            f"models.transcription {model!r}: voice notes are transcribed by OpenAI-style services, such as "
            "openai/whisper-1 or groq/whisper-large-v3, or on this machine by local/whisper-base."
        )
    return Transcription(endpoint, language)


def embeddings_for(model: EmbeddingModel, env: Mapping[str, str] | None = None) -> Embeddings | BundledEmbeddings:
    """Makes vectors with that model; raises ConfigError when the name or the key is missing or wrong, and for a service
    that isn't OpenAI-style."""
    from nanoclaw.providers.embeddings import BUNDLED, BundledEmbeddings, Embeddings

    if model.name == BUNDLED:
        return BundledEmbeddings()
    try:
        endpoint, service = _endpoint(model.name, model.api_base, model.api_key, env or {})
    except ConfigError as error:
        raise ConfigError(str(error).replace("the model ", "memory.embeddings ", 1)) from None
    if service is None:
        raise ConfigError(
            f"memory.embeddings {model.name!r}: vectors are made by {BUNDLED}, or by OpenAI-style services, such as "
            "openai/text-embedding-3-small or ollama/nomic-embed-text."
        )
    table: Mapping[str, list[str]] = _data()["embeddings"]
    prefixes = next((both for part, both in table.items() if part in endpoint.wire_model.lower()), ["", ""])
    return Embeddings(endpoint, (prefixes[0], prefixes[1]))


def _endpoint(model: str, api_base: str, api_key: str, env: Mapping[str, str]) -> tuple[Endpoint, Service | None]:
    """The model's endpoint, and the service it belongs to."""
    prefix, name = _split(model, api_base)
    base, service, keys = _place(prefix, api_base)
    name = model if service and prefix not in services() else name
    endpoint = Endpoint(model, base, name, _key(model, keys, base, api_key, env), keys[0] if keys else "")
    if service and service.hint:
        endpoint = endpoint._replace(hint=service.hint.format(name=name))
    return endpoint, service


def _place(prefix: str, api_base: str) -> tuple[str, Service | None, Sequence[str]]:
    """The address, the service at it (None behind the adapters of anthropic and litellm), variables of its key."""
    base, service = _checked(api_base), services().get(prefix)
    if prefix == "anthropic":
        return base or "https://api.anthropic.com", None, ("ANTHROPIC_API_KEY",)
    if service:
        return base or service.api_base, service, service.keys
    return base, Service(base) if base else None, () if base else _data()["litellm_keys"].get(prefix, ())


def _split(model: str, api_base: str) -> tuple[str, str]:
    prefix, slash, name = model.strip().partition("/")
    if slash and prefix and name and name.isprintable():
        return prefix.lower(), name
    if api_base and model.strip() and not slash:
        return "", model.strip()
    raise ConfigError(f"the model {model!r} names no provider: {_suggestion(model.strip('/ '))}")


def _check_prefix(prefix: str, is_sure: bool) -> None:
    """Raises ConfigError for a slip of the pen; litellm is asked for all other prefixes, once it is loaded."""
    families = _data()["families"]
    if prefix in _data()["litellm_keys"] or prefix in _data()["others"]["prefixes"]:
        return
    near = [families[prefix]] if prefix in families else _near(prefix, 0.7)
    if (near or is_sure) and not _litellm_has(prefix):
        told = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(_prefixes())}, and litellm's."
        raise ConfigError(f"unknown provider {prefix!r}; {told}")


def _litellm_has(prefix: str) -> bool:
    """True if litellm's list of providers has this one; it is read as text, as the import takes seconds."""
    import importlib.util

    spec = importlib.util.find_spec("litellm")
    try:
        text = (Path(spec.origin).parent / "types" / "utils.py").read_text("utf-8") if spec and spec.origin else ""
    except OSError:  # another release may keep it elsewhere
        return True
    return f' = "{prefix}"' in text


def _suggestion(name: str) -> str:
    families = _data()["families"]
    family = next((prefix for start, prefix in families.items() if name.lower().startswith(start)), "")
    if family:
        from nanoclaw.providers import prices

        return f"write {family + '/' + (prices.near(family, name) or name)!r}."
    if near := _near(name.lower(), 0.6):
        return f"write it as '{near[0]}/MODEL'."
    return f"write it as PROVIDER/MODEL, with one of {', '.join(_prefixes())} or any litellm prefix."


def _near(prefix: str, likeness: float) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(prefix, _prefixes(), 1, likeness)


def _prefixes() -> list[str]:
    return [*services(), *_data()["others"]["prefixes"]]


def _checked(api_base: str) -> str:
    api_base = api_base.strip()
    if not api_base:
        return ""
    try:
        parts = urlsplit(api_base)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(f"model.api_base is {api_base!r}: give a whole address such as http://127.0.0.1:8080/v1.")
    return api_base.rstrip("/").removesuffix("/chat/completions")


def _key(model: str, variables: Sequence[str], api_base: str, given: str, env: Mapping[str, str]) -> str:
    key = given.strip() or next((env[name].strip() for name in variables if env.get(name, "").strip()), "")
    if not key and variables and not leads_to_loopback(api_base):
        raise ConfigError(f"{model} needs a key: set {variables[0]}, or model.api_key in config.toml.")
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        where = "model.api_key in config.toml" if given.strip() else variables[0]
        raise ConfigError(f"the key for {model} has characters that no key has: copy it into {where} again.")
    return key
