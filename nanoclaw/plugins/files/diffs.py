"""The change of a file as lines with + and -, for the person; the model doesn't see it."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator

from nanoclaw.core.errors import ToolError
from nanoclaw.escapes import visible
from nanoclaw.plugins.files.reading import HEAD_BYTES, coding_of

LONGEST_BYTES = 2_000_000
"""Of a file that is compared; a larger one is only counted in the tool's own words."""

AROUND = 2
"""Lines that are shown before and after a change."""

NEW = "@@ new file @@"

_COMPARED_LINES = 1_000  # more changed ones are all old, then all new: to compare them would take seconds
_SHORT_BYTES = 50_000  # compared at once; longer ones in a thread


def before_writing(folder: int, name: str) -> bytes | None:
    """The content of a file that is about to be replaced: b"" if there is none, None if it isn't compared."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return b""
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        known = os.fstat(descriptor)
        return file.read() if stat.S_ISREG(known.st_mode) and known.st_size <= LONGEST_BYTES else None


async def diff(before: bytes | None, after: bytes, *, is_new: bool = False) -> str:
    """Unified diff of two contents; "" for what is binary, too long, or the same."""
    if before is None or max(len(before), len(after)) > LONGEST_BYTES:
        return ""
    is_short = len(before) + len(after) <= _SHORT_BYTES
    found = _diff(before, after) if is_short else await asyncio.to_thread(_diff, before, after)
    return f"{NEW}\n{found}" if is_new and found else found


def _diff(before: bytes, after: bytes) -> str:
    old, new = _lines(before), _lines(after)
    if old is None or new is None:
        return ""
    shortest = min(len(old), len(new))
    start = next((n for n in range(shortest) if old[n] != new[n]), shortest)
    left = shortest - start
    end = next((n for n in range(left) if old[-1 - n] != new[-1 - n]), left)
    first, behind = max(0, start - AROUND), max(0, end - AROUND)  # what is shown around the change is compared, too
    old, new = old[first : len(old) - behind], new[first : len(new) - behind]
    return "\n".join(_hunks(old, new, first) if len(old) + len(new) <= _COMPARED_LINES else _replaced(old, new, first))


def _hunks(old: list[str], new: list[str], first: int) -> Iterator[str]:
    from difflib import SequenceMatcher

    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(AROUND):
        if first or group[0][3]:
            yield f"@@ line {first + group[0][3] + 1} @@"
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                yield from (f" {line}" for line in old[old_from:old_to])
                continue
            yield from (f"-{line}" for line in old[old_from:old_to])
            yield from (f"+{line}" for line in new[new_from:new_to])


def _replaced(old: list[str], new: list[str], first: int) -> Iterator[str]:
    if first:
        yield f"@@ line {first + 1} @@"
    yield from (f"-{line}" for line in old)
    yield from (f"+{line}" for line in new)


def _lines(content: bytes) -> list[str] | None:
    try:
        text = visible(content.decode(coding_of(content[:HEAD_BYTES], "").name, "replace").replace("\r\n", "\n"))
    except ToolError:  # no text
        return None
    return text.removesuffix("\n").split("\n") if text else []
