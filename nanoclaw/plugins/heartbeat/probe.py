"""The probe reads what an item of the checklist watches: a file or folder, a page, a command's output."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from nanoclaw.beneath.paths import PathError, PathRefused, open_folder, open_for_reading, resolve
from nanoclaw.beneath.walk import walk
from nanoclaw.core.errors import NanoclawError, ToolError
from nanoclaw.core.plugin import Host
from nanoclaw.escapes import plain
from nanoclaw.plugins.heartbeat.checklist import Watch

SEEN_CHARACTERS = 16_000
"""So much of it is kept, to tell what changed."""

MOST_BYTES = 16_000_000
"""Of a larger file the rest counts by its size and time only."""

COMMAND_SECONDS, PAGE_SECONDS = 20.0, 20.0
PAGE_BYTES = 1_000_000
FOLDER_FILES = 10_000

Seen = tuple[str, str]
"""The SHA-256 of what was found, and its beginning without secrets."""


async def read(host: Host, watches: Sequence[Watch]) -> Seen:
    """Raises ToolError with the reason why one cannot be looked at."""
    found = [await _read(host, watch) for watch in watches]
    if len(found) == 1:
        return found[0]
    most = SEEN_CHARACTERS // len(found)  # each line says of what it is
    lines = [f"{of}: {line}" for of, (_, seen) in zip(watches, found, strict=True) for line in seen[:most].splitlines()]
    return _hash("".join(sha256 for sha256, _ in found).encode()), "\n".join(lines)


async def _read(host: Host, watch: Watch) -> Seen:
    try:
        if watch.kind == "file":
            return _file(host, watch.target)
        text = await (_command if watch.kind == "command" else _page)(host, watch.target)
        return _seen(host, text.encode("utf-8", "replace"), text)
    except (NanoclawError, OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise ToolError(f"{watch} could not be checked: {reason or type(error).__name__}") from None


def _seen(host: Host, data: bytes, text: str) -> Seen:
    return _hash(data), host.redact(plain(text))[:SEEN_CHARACTERS]


def _file(host: Host, path: str) -> Seen:
    try:
        if not resolve(host.reach, path, for_writing=False).exists():
            return _hash(b""), ""  # it may come
    except PathRefused:
        raise
    except PathError:
        with open_folder(host.reach, path) as folder:
            text = "\n".join(_entries(folder))
            return _seen(host, text.encode("utf-8", "replace"), text)
    with open_for_reading(host.reach, path) as file:
        data, about = file.read(MOST_BYTES), os.fstat(file.fileno())
    rest = f"{about.st_size} {about.st_mtime_ns}" if about.st_size > MOST_BYTES else ""
    return _seen(host, data + rest.encode(), data[: SEEN_CHARACTERS * 4].decode("utf-8", "replace"))


async def _command(host: Host, command: str) -> str:
    """Run it with the environment and limits of the model's commands, and by the same rules."""
    from nanoclaw.spawn import Process

    shell, rules = host.get("shell"), host.get("rules")
    if shell is None:
        raise ToolError("commands are run by the plugin shell, which is off")
    if rules and (why := rules.refusal("exec", {"command": command})):
        raise ToolError(why)
    environment = {**shell.variables, "GIT_OPTIONAL_LOCKS": "0"}
    arguments, environment, keeper = await shell.prepare_alone(command, environment)
    process = Process(arguments, folder=host.workspace, environment=environment, bounds=shell.bounds, keeper=keeper)
    ended = await process.run(COMMAND_SECONDS)
    said = ended.head.decode("utf-8", "replace")
    if ended.why == "timeout":
        raise ToolError(f"it was stopped after {COMMAND_SECONDS:.0f} s")
    if ended.why != "exited":
        raise ToolError(f"it was stopped ({ended.why}; limits.exec_… has the limits): {said[:200]}")
    status = f"\n[exit status {ended.status}]" if ended.status else ""
    gap = f"\n[... {ended.dropped} bytes ...]\n" if ended.dropped else ""
    return f"{said}{gap}{ended.tail.decode('utf-8', 'replace')}{status}"


async def _page(host: Host, address: str) -> str:
    from nanoclaw.net.page import fetch
    from nanoclaw.net.public import NotPublic

    try:
        async with asyncio.timeout(PAGE_SECONDS):
            return (await fetch(address, PAGE_BYTES, allow=host.setting("net.allow"))).text
    except NotPublic as error:
        raise ToolError(f"{error}{': net.allow can open it' if error.opens else ''}") from None
    except TimeoutError:
        raise ToolError(f"it gave no complete answer within {PAGE_SECONDS:.0f} s") from None


def _entries(folder: int) -> list[str]:
    """A line for each file below it, with what changes when the file does. Raises ToolError if there are too many."""
    lines = list[str]()
    for parts, inner in walk(folder):
        with suppress(FileNotFoundError):  # it has gone meanwhile
            found = os.stat(parts[-1], dir_fd=inner, follow_symlinks=False)
            when = datetime.fromtimestamp(found.st_mtime_ns / 1e9, UTC)
            lines.append(f"{'/'.join(parts)} ({found.st_size} bytes, {when:%Y-%m-%d %H:%M:%S.%f} UTC)")
        if len(lines) > FOLDER_FILES:
            raise ToolError(f"it has more than {FOLDER_FILES:,} files: watch a smaller folder")
    return sorted(lines)


def change(before: str, after: str, most: int) -> str:
    """The lines that went (-) and came (+), up to a number of characters. '' when both are alike."""
    import difflib

    old, new = (text.splitlines()[:DIFF_LINES] for text in (before, after))
    lines = [
        line if len(line) <= 300 else line[:299] + "…"
        for line in difflib.unified_diff(old, new, n=0, lineterm="")
        if not re.match(r"(?:---|\+\+\+|@@)(?: |$)", line)
    ]
    text = "\n".join(lines)
    return text if len(text) <= most else text[: most - 12] + "\n… (more)"


DIFF_LINES = 1_000
"""Comparing takes a time that grows with their square."""


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
