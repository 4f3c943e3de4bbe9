"""Offers of a server: its tools by the names that a model calls them by, bounded, and kept over restarts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nanoclaw.atomic_write import write_atomically
from nanoclaw.core.messages import ToolSpec
from nanoclaw.escapes import plain
from nanoclaw.outside_text import without_template_tokens

LONGEST_NAME = 64
DESCRIPTION_CHARACTERS = 2_000
SCHEMA_CHARACTERS = 16_000
MOST_TOOLS = 500
_ANY = {"type": "object", "properties": {}}
_DEEPEST = 40


class ListedTool(NamedTuple):
    """A tool by the `name` that the server knows it by; `spec` has that of the model."""

    name: str
    spec: ToolSpec


class ServerListing(NamedTuple):
    """All that a server offers. `remarks` are what was wrong with it."""

    tools: tuple[ListedTool, ...] = ()
    has_prompts: bool = False
    has_resources: bool = False
    remarks: tuple[str, ...] = ()


def tools_of(server: str, given: Iterable[Any]) -> tuple[list[ListedTool], list[str]]:
    """Tools as a server lists them, each parsed separately: an error in one does not affect others. Then remarks."""
    found: dict[str, ListedTool] = {}
    seen: set[str] = set()
    remarks: list[str] = []
    for one in given:
        name = one.get("name") if isinstance(one, Mapping) else None
        if not isinstance(name, str) or not name.strip():
            remarks.append("a tool without a name is left out")
            continue
        shown = plain(name[:LONGEST_NAME])
        if name in seen:
            remarks.append(f"{shown} is listed twice: the first counts")
            continue
        if len(found) >= MOST_TOOLS:
            remarks.append(f"only the first {MOST_TOOLS} tools are taken: choose with allow or deny")
            break
        seen.add(name)
        called = _called(server, name)
        if called.casefold() in found:
            called = _called(server, name, is_taken=True)
            remarks.append(f"{shown} would have the name of another tool, and is called {called}")
        schema, wrong = schema_of(one.get("inputSchema"))
        remarks += [f"{shown}: {wrong}"] * bool(wrong)
        text, title = one.get("description"), one.get("title")
        described = next((_words(part).strip() for part in (text, title) if isinstance(part, str) and part.strip()), "")
        if len(described) > DESCRIPTION_CHARACTERS:
            remarks.append(f"{shown}: its description of {len(described):,} characters is cut")
            described = described[:DESCRIPTION_CHARACTERS].rstrip() + "…"
        spec = ToolSpec(called, described or shown, schema)
        found[called.casefold()] = ListedTool(name, spec)
    return list(found.values()), remarks


def _called(server: str, name: str, *, is_taken: bool = False) -> str:
    """The name of a tool for the model. Of one that is too long, or taken: its beginning, and eight signs made of all
    of it."""
    whole = f"{server}__{re.sub(r'[^a-zA-Z0-9_-]', '_', name)}"
    if len(whole) <= LONGEST_NAME and not is_taken:
        return whole
    return f"{whole[: LONGEST_NAME - 9]}_{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


def schema_of(given: Any) -> tuple[dict[str, Any], str]:
    """The schema of a tool's arguments as it is given, or one that takes anything and why."""
    if not isinstance(given, Mapping):
        return _ANY, "it has no schema, so its arguments are not described"
    try:
        size = len(json.dumps(given))
    except (ValueError, RecursionError):
        return _ANY, "its schema cannot be read, so its arguments are not described"
    if size > SCHEMA_CHARACTERS:
        return _ANY, f"its schema of {size:,} characters is left out, so its arguments are not described"
    properties, required = given.get("properties", {}), given.get("required", [])
    is_plain = isinstance(properties, Mapping) and all(isinstance(one, Mapping | bool) for one in properties.values())
    is_plain = is_plain and isinstance(required, list) and all(isinstance(one, str) for one in required)
    if given.get("type", "object") != "object" or not is_plain or _depth(given) > _DEEPEST:
        return _ANY, "its schema is not one of an object, so its arguments are not described"
    return {"properties": {}, **_described(given), "type": "object"}, ""


def _described(given: Any) -> Any:
    """A schema whose texts for the model have no control characters and no tokens of templates."""
    if isinstance(given, list):
        return [_described(one) for one in given]
    if not isinstance(given, Mapping):
        return given
    return {
        key: _words(one) if key in ("description", "title") and isinstance(one, str) else _described(one)
        for key, one in given.items()
    }


def _words(text: str) -> str:
    return without_template_tokens(plain(text))


def _depth(value: Any, level: int = 0) -> int:
    if level > _DEEPEST:
        return level
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return max((_depth(one, level + 1) for one in inner), default=level)


# --- kept over restarts ----------------------------------------------------------------------------------------------


def object_of(path: Path) -> dict[str, Any]:
    """The object in a file of JSON, {} for one that cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class KeptListings:
    """The listings of all servers in one file: what was offered last, and what went wrong. A file that cannot be read
    is none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.read()

    def read(self) -> None:
        """Take up what another hand changed."""
        self._all = object_of(self._path)

    def of(self, server: str) -> ServerListing:
        try:
            kept = self._all[server]
            tools = [ListedTool(name, ToolSpec(*spec)) for name, spec in kept["tools"]]
            return ServerListing(tuple(tools), bool(kept["prompts"]), bool(kept["resources"]), tuple(kept["remarks"]))
        except (KeyError, TypeError, ValueError):
            return ServerListing()

    def error(self, server: str) -> str:
        """Reason why it was not available when it was last tried, '' for nothing."""
        kept = self._all.get(server)
        return str(kept.get("error", "")) if isinstance(kept, dict) else ""

    def keep(self, server: str, listing: ServerListing, error: str = "") -> None:
        """Raises OSError."""
        body = {
            "tools": [[one.name, list(one.spec[:3])] for one in listing.tools],
            "prompts": listing.has_prompts,
            "resources": listing.has_resources,
            "remarks": list(listing.remarks),
            "error": error,
        }
        body = json.loads(json.dumps(body))
        if self._all.get(server) != body:
            self._all[server] = body
            write_atomically(self._path, json.dumps(self._all, ensure_ascii=False), mode=0o600)
