"""Finds a model server that already runs on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class LocalServer(NamedTuple):
    """A model server on this machine, as model.name and model.api_base would say it."""

    model: str
    api_base: str


PORTS = {"ollama": 11434, "llamacpp": 8080, "lmstudio": 1234}
NO_CHAT = ("embed", "bge-", "minilm", "rerank", "whisper", "tts", "clip", "moondream", "ocr", "guard")
"""Parts of names of models that do something else than talk."""

CALL_TOOLS = (
    *("qwen", "gpt-oss", "llama3", "llama4", "mistral", "granite", "glm", "deepseek", "devstral", "command-r"),
)
"""Families that call tools, for servers that do not tell."""


async def detect_local_server(ports: Mapping[str, int] | None = None, *, seconds: float = 0.3) -> LocalServer | None:
    """The first of Ollama, llama.cpp and LM Studio that answers on loopback with a model that can chat."""
    asked = [_ask(kind, port, seconds) for kind, port in (PORTS if ports is None else ports).items()]
    return next((found for found in await asyncio.gather(*asked) if found), None)


async def _ask(kind: str, port: int, seconds: float) -> LocalServer | None:
    from nanoclaw.providers.http import get_json

    path, field = ("/api/tags", "models") if kind == "ollama" else ("/v1/models", "data")
    listed = await get_json(f"http://127.0.0.1:{port}{path}", seconds)
    entries = listed.get(field) if isinstance(listed, dict) else None
    name = _best([entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else [])
    return LocalServer(f"{kind}/{name}", f"http://127.0.0.1:{port}/v1") if name else None


def _best(entries: Sequence[Mapping[str, Any]]) -> str:
    """The model to talk to: able to call tools before unable, then the server's own order (the last used first)."""
    names = [(str(entry.get("name") or entry.get("id") or ""), entry) for entry in entries]
    able = [(name, entry) for name, entry in names if name and not any(word in name.lower() for word in NO_CHAT)]
    return min(able, key=lambda pair: not _calls_tools(*pair))[0] if able else ""


def _calls_tools(name: str, entry: Mapping[str, Any]) -> bool:
    capabilities = entry.get("capabilities")
    if isinstance(capabilities, list):
        return "tools" in capabilities
    return any(family in name.lower() for family in CALL_TOOLS)
