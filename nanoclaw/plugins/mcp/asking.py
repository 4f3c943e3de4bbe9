"""The question before a call of a server's tool that may change something."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nanoclaw.core.plugin import Ask, Scope
from nanoclaw.escapes import one_line
from nanoclaw.exact_text import as_code

VALUE, GIVEN = 80, 200
"""Characters of one argument, and of all of them, in the sentence; `exact` has them whole."""


def question(server: str, tool: str, arguments: Mapping[str, Any]) -> Ask:
    name = one_line(tool)
    given = ", ".join(f"{one_line(key)}: {one_line(_text(value), VALUE)}" for key, value in arguments.items())
    told = f" with {as_code(one_line(given, GIVEN))}" if given else ""
    return Ask(
        f"Run {as_code(name)} of the MCP server {server}{told}?",
        exact=json.dumps(dict(arguments), ensure_ascii=False, indent=1),
        scope=Scope(f"mcp:{server}:{tool}", f"{as_code(name)} of the MCP server {server}"),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
