"""The result of a call of a tool as a whole: what /show says."""

from __future__ import annotations

import json
import re

from nanoclaw.core.messages import ToolCall, ToolResult
from nanoclaw.exact_text import exactly

IN_CHATS = 3_000
"""Characters of each part that a chat app is sent."""

WIDEST = 200_000
"""Of each part that a terminal is sent."""


def whole(number: int, last: int, call: ToolCall | None, result: ToolResult, most: int) -> str:
    """The arguments of a call, what it changed, and its result, as Markdown."""
    mark, when = "✗" if result.is_error else "✓", f"{result.at:%d %b, %H:%M}"
    of = f" of {last}" if number != last else ""
    parts = [f"**{mark} {_name(result.name)}**, call {number}{of}, {when}"]
    for kind, text in (("", _arguments(call, result.diff)), ("diff", result.diff), ("", result.text or "(no output)")):
        if text.strip():
            parts.append(exactly(text.rstrip(), most, kind or "text"))
            parts += ["A terminal shows all."] * (len(text) > most)
    parts += [f"It came with {len(result.images)} picture(s)."] if result.images else []
    return "\n\n".join(parts)


def _name(name: str) -> str:
    return re.sub(r"[^\w.:/-]", "", name)[:80]


def _arguments(call: ToolCall | None, diff: str) -> str:
    """Those that a diff doesn't show anyway."""
    if call is None:
        return ""
    try:
        values = json.loads(call.arguments)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        return call.arguments
    return "\n".join(f"{name}: {_value(value)}" for name, value in values.items() if not _is_in(value, diff))


def _is_in(value: object, diff: str) -> bool:
    return bool(diff) and isinstance(value, str) and "\n" in value


def _value(value: object) -> str:
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return value if "\n" not in value.rstrip() else "\n" + "\n".join(f"  {line}" for line in value.rstrip().split("\n"))
