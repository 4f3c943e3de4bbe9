"""Replaces one piece of a file's text, in the file's own encoding and line ends, for edit_file; and shows the person a
change as lines with + and -, which the model doesn't see."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Iterator

from nanoclaw.core.errors import ToolError
from nanoclaw.escapes import visible
from nanoclaw.plugins.files.reading import HEAD_BYTES, UTF8, Coding, coding_of

LONGEST_BYTES = 2_000_000
"""Of a file that is compared; a larger one is only counted in the tool's own words."""

AROUND = 2
"""Lines that are shown before and after a change."""

NEW = "@@ new file @@"

_COMPARED_LINES = 1_000  # more changed ones are all old, then all new: to compare them would take seconds
_SHORT_BYTES = 50_000  # compared at once; longer ones in a thread


def edited(content: bytes, old: str, new: str, path: str) -> tuple[bytes, int]:
    """The file's bytes after the edit, and the line it begins at. Raises ToolError."""
    if not old:
        raise ToolError("'old' is empty: give the text to replace, or use append_file or write_file.")
    if old == new:
        raise ToolError("'old' and 'new' are the same: nothing to change.")
    coding = _coding_for_editing(content, path)
    unit = 2 if coding.name.startswith("utf-16") else 1
    for variant in (old, old.replace("\n", "\r\n")):
        wanted = _encode(variant, coding, path)
        places = list(_places(content, wanted, len(coding.bom), unit))
        if places:
            break
    if not places:
        raise ToolError(_nearest(content.decode(coding.name, "replace"), old, path))
    lines = [content[:place].decode(coding.name, "replace").count("\n") + 1 for place in places[:21]]
    if len(places) > 1:
        listed = ", ".join(map(str, lines[:20])) + (", …" if len(lines) > 20 else "")
        raise ToolError(
            f"'old' is found {len(places)} times in {path!r}, at lines {listed}. Nothing was changed; "
            "give more of the text around the one you mean."
        )
    end = places[0] + len(wanted)
    if "\r" not in new and _has_windows_line_ends(content, places[0], coding):
        new = new.replace("\n", "\r\n")
    return content[: places[0]] + _encode(new, coding, path) + content[end:], lines[0]


def _coding_for_editing(content: bytes, path: str) -> Coding:
    if b"\0" in content[:8192] and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return UTF8  # NUL bytes are no reason not to change the text beside them
    return coding_of(content[:HEAD_BYTES], path)


def _encode(text: str, coding: Coding, path: str) -> bytes:
    try:
        return text.encode(coding.name)
    except UnicodeEncodeError as error:
        sign = text[error.start]
        advice = "Rewrite the file with write_file, which uses UTF-8."
        raise ToolError(f"{path!r} has the {coding.said}, which has no {sign!r}. {advice}") from None


def _places(content: bytes, wanted: bytes, start: int, unit: int) -> Iterator[int]:
    place = content.find(wanted, start)
    while place >= 0:
        if (place - start) % unit == 0:
            yield place
        place = content.find(wanted, place + 1)


def _has_windows_line_ends(content: bytes, place: int, coding: Coding) -> bool:
    """True when the line at a place ends in CRLF; the last line is like the one before it."""
    newline, before = "\n".encode(coding.name), "\r".encode(coding.name)
    end = content.find(newline, place)
    if end < 0:
        end = content.rfind(newline, 0, place)
    return end >= 0 and content[:end].endswith(before)


def _nearest(text: str, old: str, path: str) -> str:
    import difflib

    lines = [line[:300] for line in text.splitlines()[:20_000]]
    first = next((line for line in old.splitlines() if line.strip()), old)[:300]
    advice = "Copy the text exactly as read_file shows it, without the line numbers."
    bare = [line.strip() for line in lines]
    if re.sub(r"^\s*\d+\t", "", first).strip() in bare:
        place = bare.index(re.sub(r"^\s*\d+\t", "", first).strip())
        return f"'old' is not in {path!r}. Line {place + 1} is close: {visible(lines[place])!r}. {advice}"
    near = difflib.get_close_matches(first.strip(), bare[:5_000], 1, 0.6)
    if not near:
        return f"'old' is not in {path!r}, nor anything like it. {advice}"
    place = bare.index(near[0])
    return f"'old' is not in {path!r}. Nearest is line {place + 1}: {visible(lines[place])!r}. {advice}"


# --- a change as the person sees it ----------------------------------------------------------------------------------


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
