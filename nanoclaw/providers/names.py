"""Model names as people write them: what each prefix means, which key it needs, and what listens on this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.provider import SIGHTED, Sight

if TYPE_CHECKING:
    from nanoclaw.core.provider import Provider
    from nanoclaw.providers.http import Patience
    from nanoclaw.providers.transcription import Transcription


class Service(NamedTuple):
    """An OpenAI-style endpoint: where it is, the variables that may hold its key, and how it deviates."""

    api_base: str
    key_variables: tuple[str, ...] = ()
    dialect: Mapping[str, Any] | None = None
    hint: str = ""


_ECHO_CONTENT = {"echo": "reasoning_content"}
_MISTRAL = {"strict_roles": True, "short_call_ids": True, "usage_option": False}

SERVICES: dict[str, Service] = {
    "openai": Service("https://api.openai.com/v1", ("OPENAI_API_KEY",), {"limit_field": "max_completion_tokens"}),
    "openrouter": Service(
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        {"echo": "reasoning_details"},
        "see openrouter.ai/models",
    ),
    "deepseek": Service("https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",), _ECHO_CONTENT),
    "groq": Service("https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "mistral": Service("https://api.mistral.ai/v1", ("MISTRAL_API_KEY",), _MISTRAL),
    "xai": Service("https://api.x.ai/v1", ("XAI_API_KEY",)),
    "together": Service("https://api.together.xyz/v1", ("TOGETHER_API_KEY", "TOGETHERAI_API_KEY")),
    "fireworks": Service("https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
    "cerebras": Service("https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",)),
    "moonshot": Service("https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",), _ECHO_CONTENT),
    "nvidia": Service("https://integrate.api.nvidia.com/v1", ("NVIDIA_API_KEY",)),
    "ollama": Service(
        "http://127.0.0.1:11434/v1", (), {"cuts": True}, "run `ollama pull {name}`, or see `ollama list`"
    ),
    "lmstudio": Service("http://127.0.0.1:1234/v1", (), {"cuts": True}, "load {name} in LM Studio"),
    "vllm": Service("http://127.0.0.1:8000/v1"),
    "llamacpp": Service("http://127.0.0.1:8080/v1"),
}
"""What goes straight over httpx. A name with another prefix goes through litellm, unless an api_base is given."""

_LITELLM_KEYS = {
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "cohere": ("COHERE_API_KEY",),
    "cohere_chat": ("COHERE_API_KEY",),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "huggingface": ("HF_TOKEN", "HUGGINGFACE_API_KEY"),
    "replicate": ("REPLICATE_API_KEY",),
}
"""Providers behind litellm that need one key and nothing else; the others have their own ways to sign in."""

_OTHER_ADAPTERS = ("anthropic", "local", "gemini", "bedrock", "vertex_ai", "azure", "cohere")
_FAMILIES = {
    "gpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "chatgpt": "openai",
    "claude": "anthropic",
    "gemini": "gemini",
    "deepseek": "deepseek",
    "mistral": "mistral",
    "magistral": "mistral",
    "grok": "xai",
    "llama": "ollama",
    "qwen": "ollama",
    "gemma": "ollama",
    "phi": "ollama",
    "kimi": "moonshot",
}


def provider_for(
    model: str,
    api_base: str = "",
    api_key: str = "",
    env: Mapping[str, str] | None = None,
    *,
    tool_mode: Literal["native", "json"] = "native",
    patience: Patience | None = None,
    sight: Sight = SIGHTED,
) -> Provider:
    """The provider that answers for `model`; raises ConfigError when the name or the key is missing or wrong.

    `env` is where keys are looked up; `sight` is what was learned before of whether the model sees images. `local/…` is
    not made here: the model in this process needs more than a name.
    """
    env = env or {}
    prefix, name = _split(model, api_base)
    api_base = _checked(api_base)
    if prefix == "local":
        raise ConfigError(f"model.name {model!r} is the model inside the program: it has no api_base and no key.")
    if prefix == "anthropic":
        from nanoclaw.providers.anthropic import API_BASE, Anthropic

        base = api_base or API_BASE
        key = _key(model, ("ANTHROPIC_API_KEY",), base, api_key, env)
        return Anthropic(model, api_key=key, api_base=base, wire_model=name, patience=patience, sight=sight)
    service = SERVICES.get(prefix)
    if service is None and not api_base:
        _check_prefix(prefix)
        from nanoclaw.providers.litellm_provider import LiteLLM

        variables = _LITELLM_KEYS.get(prefix, ())
        key = _key(model, variables, "", api_key, env)
        variable = variables[0] if variables else ""
        return LiteLLM(model, api_key=key, key_variable=variable, patience=patience, sight=sight)
    from nanoclaw.providers.openai_compatible import Dialect, OpenAICompatible

    if service is None:
        service, name = Service(api_base), model
    base = api_base or service.api_base
    official = base == service.api_base
    key = _key(model, service.key_variables, base, api_key, env)
    return OpenAICompatible(
        model,
        base,
        wire_model=name,
        api_key=key,
        key_variable=service.key_variables[0] if service.key_variables else "",
        dialect=Dialect(**(service.dialect or {})) if official or prefix != "openai" else Dialect(),
        tool_mode=tool_mode,
        unknown_model_hint=service.hint.format(name=name),
        patience=patience,
        sight=sight,
    )


def transcription_for(
    model: str, api_base: str = "", api_key: str = "", env: Mapping[str, str] | None = None
) -> Transcription:
    """What writes down voice notes with that model; raises ConfigError when the name or the key is missing or wrong."""
    from nanoclaw.providers.transcription import Transcription

    env = env or {}
    prefix, name = _split(model, api_base)
    service = SERVICES.get(prefix) or (Service(api_base) if api_base else None)
    if service is None:
        variables = _LITELLM_KEYS.get(prefix, ())
        key = _key(model, variables, "", api_key, env)
        return Transcription(model, wire_model=model, api_key=key, key_variable=variables[0] if variables else "")
    variables, base = service.key_variables, _checked(api_base) or service.api_base
    key = _key(model, variables, base, api_key, env)
    return Transcription(
        model,
        wire_model=f"openai/{name}",
        api_base=base,
        api_key=key,
        key_variable=variables[0] if variables else "",
    )


def _split(model: str, api_base: str) -> tuple[str, str]:
    prefix, slash, name = model.strip().partition("/")
    if slash and prefix and name:
        return prefix.lower(), name
    if api_base and model.strip() and not slash:
        return "", model.strip()
    raise ConfigError(f"model.name is {model!r}, which names no provider: {_suggestion(model.strip('/ '))}")


def _check_prefix(prefix: str) -> None:
    """Raises ConfigError for a slip of the pen; litellm is asked for all other prefixes, once it is loaded."""
    if prefix in _LITELLM_KEYS or prefix in _OTHER_ADAPTERS:
        return
    from difflib import get_close_matches

    near = (
        [_FAMILIES[prefix]] if prefix in _FAMILIES else get_close_matches(prefix, [*SERVICES, *_OTHER_ADAPTERS], 1, 0.7)
    )
    if near and not _litellm_has(prefix):
        raise ConfigError(f"unknown provider {prefix!r}; did you mean {near[0]!r}?")


def _litellm_has(prefix: str) -> bool:
    """Whether litellm's list of providers has this one; the list is read as text, as the import takes seconds."""
    import importlib.util
    from pathlib import Path

    spec = importlib.util.find_spec("litellm")
    try:
        text = (Path(spec.origin).parent / "types" / "utils.py").read_text("utf-8") if spec and spec.origin else ""
    except OSError:  # another release may keep it elsewhere
        return True
    return f' = "{prefix}"' in text


def _suggestion(name: str) -> str:
    family = next((prefix for start, prefix in _FAMILIES.items() if name.lower().startswith(start)), "")
    if family:
        return f"write {family + '/' + name!r}."
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), [*SERVICES, *_OTHER_ADAPTERS], 1)
    if near:
        return f"write it as '{near[0]}/MODEL'."
    return f"write it as PROVIDER/MODEL, with one of {', '.join([*SERVICES, *_OTHER_ADAPTERS])} or any litellm prefix."


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
    if not key and variables and not _on_this_machine(api_base):
        raise ConfigError(f"{model} needs a key: set {variables[0]}, or model.api_key in config.toml.")
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        where = "model.api_key in config.toml" if given.strip() else variables[0]
        raise ConfigError(f"the key for {model} has characters that no key has: copy it into {where} again.")
    return key


def _on_this_machine(api_base: str) -> bool:
    host = urlsplit(api_base).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


class LocalServer(NamedTuple):
    """A model server found on this machine, as model.name and model.api_base would say it."""

    model: str
    api_base: str


PORTS = {"ollama": 11434, "llamacpp": 8080, "lmstudio": 1234}
_NO_CHAT = ("embed", "bge-", "minilm", "rerank", "whisper", "tts", "clip", "moondream", "ocr", "guard")
_TOOL_FAMILIES = (
    "qwen",
    "gpt-oss",
    "llama3",
    "llama4",
    "mistral",
    "granite",
    "glm",
    "deepseek",
    "devstral",
    "command-r",
)


async def detect_local_server(ports: Mapping[str, int] | None = None, *, seconds: float = 0.3) -> LocalServer | None:
    """The first of Ollama, llama.cpp and LM Studio that answers on loopback with a model that can chat."""
    looks = [_look(kind, port, seconds) for kind, port in (PORTS if ports is None else ports).items()]
    return next((found for found in await asyncio.gather(*looks) if found), None)


async def _look(kind: str, port: int, seconds: float) -> LocalServer | None:
    path = "/api/tags" if kind == "ollama" else "/v1/models"
    try:
        async with asyncio.timeout(seconds):
            listed = await _get_json(port, path)
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, RecursionError):
        return None
    entries = listed.get("models" if kind == "ollama" else "data") if isinstance(listed, dict) else None
    name = _best([entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else [])
    return LocalServer(f"{kind}/{name}", f"http://127.0.0.1:{port}/v1") if name else None


async def _get_json(port: int, path: str) -> Any:
    """A bare GET: the look at a port that is mostly closed must not cost an HTTP client."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200" not in head.split(b"\r\n", 1)[0]:
            raise ValueError("no list of models")
        body = await reader.read(2**20)
        while len(body) < 2**20 and (more := await reader.read(2**20)):
            body += more
        return json.loads(body[body.index(b"{") : body.rindex(b"}") + 1])  # a chunked body has its sizes around it
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _best(entries: Sequence[Mapping[str, Any]]) -> str:
    """The model to talk to: able to call tools before unable, then the server's own order (the last used first)."""
    names = [(str(entry.get("name") or entry.get("id") or ""), entry) for entry in entries]
    able = [(name, entry) for name, entry in names if name and not any(word in name.lower() for word in _NO_CHAT)]
    ranked = sorted(able, key=lambda pair: not _calls_tools(*pair))
    return ranked[0][0] if ranked else ""


def _calls_tools(name: str, entry: Mapping[str, Any]) -> bool:
    capabilities = entry.get("capabilities")
    if isinstance(capabilities, list):
        return "tools" in capabilities
    return any(family in name.lower() for family in _TOOL_FAMILIES)
