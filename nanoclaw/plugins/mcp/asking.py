"""The question before a call of a server's tool that may change something."""

from __future__ import annotations

from nanoclaw.core.plugin import Ask, Scope
from nanoclaw.exact_text import as_code


def question(server: str, tool: str) -> Ask:
    named = f"{as_code(tool)} of the MCP server {server}"
    return Ask(f"Run {named}?", scope=Scope(f"mcp:{server}:{tool}", named))
