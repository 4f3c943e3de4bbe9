"""Tools that write, with memory files looked after: what they change can be undone, and a big loss needs a yes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from nanoclaw.errors import Refused
from nanoclaw.guard.escapes import visible
from nanoclaw.tools.base import Tool, ToolOutput
from nanoclaw.workspace.changes import Changes, memory_name
from nanoclaw.workspace.notes import lines_of

SMALL = 200
"""Characters; a memory file with less may shrink freely."""


def kept(tools: Iterable[Tool], changes: Changes) -> list[Tool]:
    """The same tools in the same order; those that change memory files are watched."""
    return [_watched(tool, changes) if tool.spec.name in _WRITING else tool for tool in tools]


_WRITING = frozenset({"write_file", "edit_file", "append_file", "memory_add"})


def _watched(tool: Tool, changes: Changes) -> Tool:
    @wraps(tool.run)
    async def run(*arguments: Any, **named: Any) -> str | ToolOutput:
        names = _files(changes, named)
        for name in names:
            _check_size(changes, name, _outcome(tool.spec.name, changes.read(name) or "", named))
        with changes.of(tool.spec.name, *names):
            return await tool.run(*arguments, **named)

    return replace(tool, run=run)


def _files(changes: Changes, named: dict[str, Any]) -> Sequence[str]:
    """The memory files that a call may change."""
    if "path" in named:
        name = memory_name(changes.workspace, named["path"])
        return (name,) if name else ()
    return ("MEMORY.md",) if named.get("kind") == "fact" or named.get("replaces") else (changes.today(),)


def _check_size(changes: Changes, name: str, new: str | None) -> None:
    """Raises Refused when more than half of a memory file would go and nobody said yes."""
    text = changes.read(name) or ""
    if new is None or len(text) <= SMALL or len(new) * 2 >= len(text) or changes.use_allowance():
        return
    lines = lines_of(text)
    lost = len(lines) - sum(line in lines for line in set(lines_of(new)))
    raise Refused(
        f"this would take {lost} of {len(lines)} lines out of {visible(name)}, so nothing was done. Ask the person, "
        "who can allow it once with /memory allow; to forget single lines use memory_forget."
    )


def _outcome(tool: str, text: str, named: dict[str, Any]) -> str | None:
    """What a file would say after the call; None for tools that take nothing away."""
    if tool == "edit_file":
        return text.replace(named["old"], named["new"], 1)
    return str(named["content"]) if tool == "write_file" else None
