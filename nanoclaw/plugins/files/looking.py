"""Lists of folders, files by name and lines by a pattern: what list_dir, find_files and search_files show."""

from __future__ import annotations

import heapq
import json
import os
import stat
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from nanoclaw.atomic_write import reason
from nanoclaw.beneath import walk
from nanoclaw.core.errors import ToolError
from nanoclaw.escapes import visible

SEARCH_SECONDS = 10.0
MOST_ENTRIES = 200
MOST_FOUND = 100
HIT_CHARACTERS = 300


def listing(folder: int) -> str:
    folders: list[str] = []
    files: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                files.append(entry.name)
    if not folders and not files:
        return "[the folder is empty]"
    shown = [f"{visible(name)}/" for name in sorted(folders)[:MOST_ENTRIES]]
    shown += [_described(folder, name) for name in sorted(files)[: MOST_ENTRIES - len(shown)]]
    left = len(folders) + len(files) - len(shown)
    return "\n".join(shown) + (f"\n[{left:,} more entries: find_files narrows it down]" if left else "")


def _described(folder: int, name: str) -> str:
    shown = visible(name).replace("\n", "\u240a")
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            return f"{shown} -> {visible(os.readlink(name, dir_fd=folder))}"
    except OSError:
        return shown
    return f"{shown} ({in_words(found.st_size)})" if stat.S_ISREG(found.st_mode) else f"{shown} (not a plain file)"


def found(folder: int, pattern: str, path: str, closed: Sequence[Path] = ()) -> str:
    deadline = time.monotonic() + SEARCH_SECONDS
    newest: list[tuple[float, str, int]] = []
    count = 0
    stopped = False
    for parts, inner in walk.walk(folder, closed):
        if time.monotonic() > deadline:
            stopped = True
            break
        if not walk.matches(parts, pattern):
            continue
        try:
            at = os.stat(parts[-1], dir_fd=inner, follow_symlinks=False)
        except OSError:
            continue
        count += 1
        entry = (at.st_mtime, "/".join(parts), at.st_size)
        if len(newest) < MOST_FOUND:
            heapq.heappush(newest, entry)
        else:
            heapq.heappushpop(newest, entry)
    lines = [f"{visible(_joined(path, name))} ({in_words(size)})" for _, name, size in sorted(newest, reverse=True)]
    if stopped:
        lines.append(f"[stopped after {SEARCH_SECONDS:g} s: give a smaller folder]")
    elif not count:
        lines.append(f"[no file matches {visible(pattern)!r}]")
    if count > len(newest):
        lines.append(f"[{count - len(newest):,} more, older ones]")
    return "\n".join(lines)


async def search(request: dict[str, object], path: str) -> str:
    from nanoclaw.spawn import Process

    bounds = {"limit": MOST_FOUND + 1, "width": HIT_CHARACTERS}
    worker = (sys.executable, "-I", "-S", "-c", walk.CHILD, json.dumps(request | bounds))
    try:
        ended = await Process(worker, folder=Path("/"), environment={}).run(SEARCH_SECONDS)
    except OSError as error:
        raise ToolError(f"the search could not be started: {reason(error)}. Try exec with grep.") from None
    lines = [hit for line in (ended.head + ended.tail).split(b"\n") if (hit := _hit(line, path, bool(request["only"])))]
    if ended.why == "exited" and ended.status:
        said = ended.tail or ended.head
        raise ToolError(f"the search failed: {visible(said.decode('utf-8', 'replace').strip()[-200:])}")
    if ended.why != "exited":
        lines.append(f"[stopped after {SEARCH_SECONDS:g} s: there may be more. Use a simpler pattern or a glob.]")
    elif len(lines) > MOST_FOUND:
        lines[MOST_FOUND:] = [f"[more than {MOST_FOUND} hits: narrow it down]"]
    return "\n".join(lines) or f"[no line matches {request['pattern']!r}]"


def _hit(line: bytes, path: str, is_file: bool) -> str:
    try:
        file, number, text = json.loads(line)
    except ValueError:  # nothing, or cut by the kill
        return ""
    return f"{visible(path if is_file else _joined(path, file))}:{number}: {visible(text)}"


def _joined(path: str, name: str) -> str:
    """The name as the other tools take it."""
    return os.path.normpath(os.path.join(path, name)).replace("\n", "\u240a")  # noqa: PTH118


def check_short(pattern: str) -> None:
    if len(pattern) > 1_000 or "\0" in pattern:
        raise ToolError("the pattern is longer than 1,000 characters or has a NUL in it: give a shorter one.")


def in_words(size: int) -> str:
    """Such as "4.2 kB"."""
    units = (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000))
    return next((f"{size / scale:.1f} {unit}" for unit, scale in units if size >= scale), f"{size} bytes")
