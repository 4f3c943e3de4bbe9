"""Watches over memory files: no call takes most of one away without a yes, and what a command took is kept."""

from __future__ import annotations

import os
from pathlib import Path

from nanoclaw.beneath.paths import name_beneath, open_named
from nanoclaw.core.messages import CheckedCall, Effect
from nanoclaw.escapes import visible
from nanoclaw.plugins.undo.file_versions import LARGEST_BYTES, FileVersions
from nanoclaw.plugins.undo.memory_history import is_memory

SMALL = 200
"""Bytes; a memory file with less may shrink freely."""

WATCHED_FILES = 60
"""A command could do away with memory files: so many, MEMORY.md and the newest notes, are looked at after it."""

LOSS = "loss"
"""The kind of an effect that a command had besides: most of a memory file is gone."""


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


class MemoryWatch:
    """Memory files as they were before commands ran."""

    def __init__(self, root: Path, versions: FileVersions) -> None:
        self._root, self._versions = root, versions
        self._known: dict[str, tuple[tuple[int, int, int], bytes]] = {}  # stamp and content by name
        self.is_on = False
        """A command may have run since the last look."""

    def look(self) -> None:
        """Read what was changed since the last look."""
        notes = sorted(f"memory/{path.name}" for path in (self._root / "memory").glob("*.md"))
        stamps = {name: self._stamp(name) for name in ("MEMORY.md", *notes[-WATCHED_FILES:])}
        self._known = {
            name: self._known[name]
            if name in self._known and self._known[name][0] == stamp
            else (stamp, self._versions.read(name) or b"")
            for name, stamp in stamps.items()
            if stamp and stamp[1] <= LARGEST_BYTES // 10
        }

    def losses(self) -> list[Effect]:
        """Losses since the last look, each told once, with copies of what was there."""
        found = list[Effect]()
        for name, (stamp, old) in self._known.items():
            if self._stamp(name) == stamp or not _shrinks(old, new := self._versions.read(name) or b""):
                continue
            lost, lines = _lost(old, new)
            text = f"a command took {lost} of {lines} lines out of {visible(name)}"
            before = self._versions.keep_copy(old, name)
            found.append(Effect("exec", LOSS, name, text, "done", before, self._versions.state(name)))
        if found:
            self.look()
        return found

    def _stamp(self, name: str) -> tuple[int, int, int] | None:
        try:
            found = os.lstat(self._root / name)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _shrinks(old: bytes, new: bytes) -> bool:
    return len(old) > SMALL and len(new) * 2 < len(old)


def _lost(old: bytes, new: bytes) -> tuple[int, int]:
    """Count of lines that go, and of all."""
    lines, left = (
        [line for line in content.decode("utf-8", "surrogateescape").splitlines() if line.strip()]
        for content in (old, new)
    )
    return len(lines) - sum(line in lines for line in set(left)), len(lines)
