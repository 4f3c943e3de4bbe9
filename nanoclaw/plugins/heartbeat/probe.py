"""The probe reads what an item of the checklist watches: a file or folder, a page, a command's output."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nanoclaw.beneath.paths import PathError, PathRefused, open_folder, open_for_reading, resolve
from nanoclaw.beneath.reach import Reach
from nanoclaw.core.errors import NanoclawError, ToolError
from nanoclaw.escapes import plain
from nanoclaw.plugins.heartbeat.checklist import Watch

SEEN_CHARACTERS = 16_000
"""So much of it is kept, to tell what changed."""

MOST_BYTES = 16_000_000
"""Of a larger file the rest counts by its size and time only."""

_SHELL = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"

COMMAND_SECONDS, PAGE_SECONDS = 20.0, 20.0
PAGE_BYTES = 1_000_000
FOLDER_FILES = 10_000
FOLDER_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Reading:
    """`seen` is the beginning of what was found; `problem` says why nothing could be found out, '' mostly."""

    sha256: str = ""
    seen: str = ""
    problem: str = ""


class Probe:
    def __init__(
        self,
        reach: Reach,
        environment: Mapping[str, str],
        redact: Callable[[str], str] = str,
        refusal: Callable[[str], str] | None = None,
        allow: tuple[str, ...] = (),
        shell: Any = None,
    ) -> None:
        """`environment` is all that commands see; `shell` prepares and bounds them, if it is there. `redact` takes
        secrets out of what is kept; `refusal(command)` says why one must not run. Of private places
        pages are read that `allow` names."""
        self.root, self.reach, self._redact, self._refusal = reach.root, reach, redact, refusal
        self._allow, self._shell = allow, shell
        self._environment = {**environment, "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}

    async def read(self, watch: Watch) -> Reading:
        """Never raises, except CancelledError."""
        if watch.more:
            return self._together([(one, await self.read(one)) for one in (replace(watch, more=()), *watch.more)])
        try:
            if watch.kind == "command":
                return self._found(await self._command(watch.target))
            if watch.kind == "url":
                return self._found(await self._page(watch.target))
            return self._file(watch.target)
        except (NanoclawError, OSError, ValueError) as error:
            reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            return Reading(problem=reason or type(error).__name__)

    def _cleaned(self, text: str) -> str:
        return self._redact(plain(text))

    def _found(self, text: str) -> Reading:
        return Reading(_hash(text.encode("utf-8", "replace")), self._cleaned(text)[:SEEN_CHARACTERS])

    def _together(self, readings: list[tuple[Watch, Reading]]) -> Reading:
        """Each line of what was found says of what it is."""
        most = SEEN_CHARACTERS // len(readings)
        seen = [f"{watch}: {line}" for watch, one in readings for line in one.seen[:most].splitlines()]
        problems = [f"{watch}: {one.problem}" for watch, one in readings if one.problem]
        return Reading(_hash("".join(one.sha256 for _, one in readings).encode()), "\n".join(seen), "; ".join(problems))

    def _file(self, path: str) -> Reading:
        try:
            if not resolve(self.reach, path, for_writing=False).exists():
                return Reading(_hash(b""), "")  # it may come
        except PathRefused:
            raise
        except PathError:
            with open_folder(self.reach, path) as folder:
                return self._found("\n".join(_entries(folder)))
        digest, begin, left = hashlib.sha256(), b"", MOST_BYTES
        with open_for_reading(self.reach, path) as file:
            while left > 0 and (data := file.read(min(left, 1 << 20))):
                digest.update(data)
                begin += data[: SEEN_CHARACTERS * 4 - len(begin)]
                left -= len(data)
            if not left:
                found = os.fstat(file.fileno())
                digest.update(f"{found.st_size} {found.st_mtime_ns}".encode())
        return Reading(digest.hexdigest(), self._cleaned(begin.decode("utf-8", "replace"))[:SEEN_CHARACTERS])

    async def _command(self, command: str) -> str:
        from nanoclaw.spawn import run_process

        if self._refusal and (why := self._refusal(command)):
            raise ToolError(why)
        arguments, environment, keeper = (_SHELL, "-c", command), self._environment, None
        if self._shell:
            arguments, environment, keeper = await self._shell.prepare_alone(command, environment)
        ended = await run_process(
            arguments,
            folder=self.root,
            environment=environment,
            timeout_seconds=COMMAND_SECONDS,
            bounds=self._shell.bounds if self._shell else None,
            keeper=keeper,
        )
        if ended.why == "timeout":
            raise ToolError(f"it was stopped after {COMMAND_SECONDS:.0f} s")
        if ended.why == "flood":
            raise ToolError("it was stopped: too much output")
        if ended.why == "not begun":
            raise ToolError(f"the sandbox could not be set up: {ended.head.decode('utf-8', 'replace')[:200]}")
        if ended.why != "exited":
            raise ToolError("it was stopped: too many processes or too much memory (see limits.exec_…)")
        status = f"\n[exit status {ended.status}]" if ended.status else ""
        gap = f"\n[... {ended.dropped} bytes ...]\n" if ended.dropped else ""
        return f"{ended.head.decode('utf-8', 'replace')}{gap}{ended.tail.decode('utf-8', 'replace')}{status}"

    async def _page(self, address: str) -> str:
        from nanoclaw.net.page import fetch
        from nanoclaw.net.public import NotPublic

        try:
            async with asyncio.timeout(PAGE_SECONDS):
                return (await fetch(address, PAGE_BYTES, allow=self._allow)).text
        except NotPublic as error:
            raise ToolError(f"{error}{': net.allow can open it' if error.is_private else ''}") from None
        except TimeoutError:
            raise ToolError(f"it gave no complete answer within {PAGE_SECONDS:.0f} s") from None


def _entries(folder: int) -> list[str]:
    """A line for each file below it, with what changes when the file does. Raises ToolError if there are too many."""
    lines = list[str]()
    for at, folders, files, descriptor in os.fwalk(".", dir_fd=folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            with suppress(FileNotFoundError):  # it has gone meanwhile
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                when = datetime.fromtimestamp(found.st_mtime_ns / 1e9, UTC)
                lines.append(f"{f'{at}/{name}'[2:]} ({found.st_size} bytes, {when:%Y-%m-%d %H:%M:%S.%f} UTC)")
        lines += (f"{f'{at}/{name}'[2:]}/" for name in folders)
        if len(lines) > FOLDER_FILES:
            raise ToolError(f"it has more than {FOLDER_FILES:,} files: watch a smaller folder")
        if at.count("/") >= FOLDER_DEPTH:  # each level holds a descriptor
            raise ToolError(f"it has folders more than {FOLDER_DEPTH} deep: watch a smaller folder")
    return sorted(lines)


def change(before: str, after: str, most: int) -> str:
    """The lines that went (-) and came (+), up to a number of characters. '' when both are alike."""
    if before == after:
        return ""
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
