"""The assistant's memory as the person owns it: facts in MEMORY.md, daily notes in memory/YYYY-MM-DD.md."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from nanoclaw.errors import WorkspaceError
from nanoclaw.workspace.paths import Workspace, append_in, reason

LARGEST_FILE_BYTES = 5_000_000
"""More of one memory file is not read."""
LONGEST_ENTRY = 4_000


@dataclass(frozen=True, slots=True)
class Added:
    """Where an entry stands; `is_new` is false when the same words were there already."""

    file: str
    line: str
    is_new: bool


class MemoryStore:
    """Writes by appending only, so what a person typed by hand stays as it is, byte for byte."""

    def __init__(self, workspace: Workspace, clock: Callable[[], datetime]) -> None:
        self.workspace = workspace
        self._clock = clock

    def now(self) -> datetime:
        """The person's local time; it decides which day a note belongs to."""
        return self._clock()

    def add_note(self, text: str) -> Added:
        """One line in today's note."""
        now = self.now()
        return self._add(self.workspace.note_path(now.date()).name, "memory", f"- {now:%H:%M} ", text)

    def add_fact(self, text: str) -> Added:
        """One line in MEMORY.md."""
        return self._add("MEMORY.md", "", f"- {self.now().date().isoformat()}: ", text)

    def get(self, file: str, start: int = 1, lines: int = 40) -> str:
        """Numbered lines of MEMORY.md or a daily note; raises WorkspaceError with a sentence for anything else."""
        name = _memory_name(file)
        text = read_memory_file(self.workspace, name)
        if text is None:
            raise WorkspaceError(f"there is no {name}. memory_search shows which notes there are.")
        every = lines_of(text)
        start = max(1, start)
        shown = every[start - 1 : start - 1 + max(1, lines)]
        if not shown:
            raise WorkspaceError(f"{name} has {len(every)} lines: line {start} is beyond its end.")
        left = len(every) - (start - 1 + len(shown))
        numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(shown, start))
        return numbered + (f"\n[{left} more lines: start={start + len(shown)} goes on]" if left else "")

    def memory_text(self) -> str:
        """MEMORY.md as it is, or ""."""
        return (read_memory_file(self.workspace, "MEMORY.md") or "").strip()

    def _add(self, name: str, folder: str, prefix: str, text: str) -> Added:
        entry = " ".join(re.sub(_CONTROL, " ", text).split())
        if not entry:
            raise WorkspaceError("there is nothing to note: the text is empty.")
        if len(entry) > LONGEST_ENTRY:
            raise WorkspaceError(f"a note has at most {LONGEST_ENTRY:,} characters: write a file and note its name.")
        file = f"{folder}/{name}" if folder else name
        known = _find(read_memory_file(self.workspace, file) or "", entry)
        if known:
            return Added(file, known, False)
        line = prefix + entry
        descriptor = _open_folder(self.workspace, folder)
        try:
            append_in(descriptor, name, line + "\n")
        finally:
            os.close(descriptor)
        return Added(file, line, True)


def memory_files(workspace: Workspace) -> list[str]:
    """MEMORY.md and the daily notes by name, as paths within the workspace. Links are not followed."""
    names = []
    if workspace.memory_file.is_file() and not workspace.memory_file.is_symlink():
        names.append("MEMORY.md")
    try:
        if workspace.notes.is_symlink():
            return names
        with os.scandir(workspace.notes) as entries:
            notes = [e.name for e in entries if e.name.endswith(".md") and e.is_file(follow_symlinks=False)]
    except OSError:
        return names
    return names + [f"memory/{name}" for name in sorted(notes)]


def read_memory_file(workspace: Workspace, name: str) -> str | None:
    """Its text, bad bytes shown as U+FFFD, or None when it isn't there."""
    folder, _, file = name.rpartition("/")
    try:
        if folder and (workspace.root / folder).is_symlink():
            return None
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(workspace.root / folder / file, flags)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise WorkspaceError(f"{name} is not a plain file.")
            content = _content(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WorkspaceError(f"{name} cannot be read: {reason(error)}.") from None
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    return content.decode("utf-8-sig", "replace")


def lines_of(text: str) -> list[str]:
    """Its lines as an editor counts them."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def entry_text(line: str) -> str:
    """What an entry says, without its bullet, date or time."""
    return re.sub(_ENTRY_START, "", line).strip()


_CONTROL = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_ENTRY_START = r"^\s*[-*+]\s+(?:\d{4}-\d\d-\d\d:\s*|\d\d:\d\d\s+)?"
_NOTE_NAME = r"(?:memory/)?([^/\x00-\x1f\x7f-\x9f\ud800-\udfff]+?)(?:\.md)?"


def _content(descriptor: int) -> bytes:
    content = b""
    while len(content) < LARGEST_FILE_BYTES and (more := os.read(descriptor, LARGEST_FILE_BYTES - len(content))):
        content += more
    return content


def _find(text: str, entry: str) -> str:
    return next((line for line in lines_of(text) if entry_text(line) == entry), "")


def _memory_name(file: str) -> str:
    path = PurePosixPath(file.strip().removeprefix("./"))
    if str(path).casefold() in ("memory.md", "memory"):
        return "MEMORY.md"
    match = re.fullmatch(_NOTE_NAME, str(path))
    if match is None or match[1].startswith("."):
        raise WorkspaceError(f"{file[:100]!r} is no memory file: give MEMORY.md or memory/YYYY-MM-DD.md.")
    return f"memory/{match[1]}.md"


def _open_folder(workspace: Workspace, folder: str) -> int:
    target = workspace.root / folder
    try:
        target.mkdir(parents=True, exist_ok=True)
        return os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if folder else 0))
    except OSError as error:
        raise WorkspaceError(f"{folder or 'the workspace'} cannot be used: {reason(error)}.") from None
