"""Keeps tools of files from taking most of a memory file away without a yes."""

from __future__ import annotations

from pathlib import Path

from nanoclaw.beneath.paths import name_beneath, open_named
from nanoclaw.core.messages import CheckedCall
from nanoclaw.escapes import visible
from nanoclaw.plugins.undo.memory_history import is_memory

SMALL = 200
"""Bytes; a memory file with less may shrink freely."""


def loss_of(root: Path, call: CheckedCall) -> str:
    """Why a call must not be made: it would take away more than half of a memory file; '' for any other."""
    path = call.arguments.get("path")
    if call.name not in ("write_file", "edit_file") or not isinstance(path, str) or not is_memory(root, path):
        return ""
    name = name_beneath(root, path)
    try:
        with open_named(root, name) as file:
            old = file.read()
    except OSError:
        return ""
    if call.name == "edit_file":
        new = old.replace(str(call.arguments["old"]).encode(), str(call.arguments["new"]).encode(), 1)
    else:
        new = str(call.arguments["content"]).encode()
    if not _shrinks(old, new):
        return ""
    lost, lines = _lost(old, new)
    return (
        f"this would take {lost} of {lines} lines out of {visible(name)}, so nothing was done. Ask "
        "the person, who can allow it once with /memory allow; to forget single lines use memory_forget."
    )


def _shrinks(old: bytes, new: bytes) -> bool:
    return len(old) > SMALL and len(new) * 2 < len(old)


def _lost(old: bytes, new: bytes) -> tuple[int, int]:
    """The number of lines that would be removed, and of all lines."""
    lines, left = (
        [line for line in content.decode("utf-8", "surrogateescape").splitlines() if line.strip()]
        for content in (old, new)
    )
    return len(lines) - sum(line in lines for line in set(left)), len(lines)
