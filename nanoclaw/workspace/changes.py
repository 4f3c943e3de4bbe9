"""What was done to the memory files, so that it can be undone: each change as a small file with before and after."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from nanoclaw.errors import WorkspaceError
from nanoclaw.workspace.notes import lines_of
from nanoclaw.workspace.paths import Workspace, write_atomically

KEPT = 100
"""So many changes can be undone; older ones are dropped."""
LARGEST_BYTES = 1_000_000
"""Of a larger file no copy is kept."""
ALLOWED_FOR = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Change:
    """One file before and after; None is a file that was not there."""

    at: datetime
    by: str
    file: str
    before: str | None
    after: str | None

    @property
    def lines(self) -> tuple[int, int]:
        """How many lines were added and removed."""
        old, new = lines_of(self.before or ""), lines_of(self.after or "")
        return sum(line not in old for line in new), sum(line not in new for line in old)


class Changes:
    """The changes of one workspace's memory files, kept in a folder of the home."""

    def __init__(self, folder: Path, workspace: Workspace, clock: Callable[[], datetime]) -> None:
        self._folder, self.workspace, self._clock = folder, workspace, clock

    @contextmanager
    def of(self, by: str, *names: str) -> Iterator[None]:
        """Keep what happens to these memory files while the block runs; `by` is the tool that does it."""
        before = {name: self.read(name) for name in names}
        try:
            yield
        finally:
            for name, old in before.items():
                new = self.read(name)
                if new != old and len(old or "") + len(new or "") <= 2 * LARGEST_BYTES:
                    self._keep(Change(self._clock(), by, name, old, new))

    def read(self, name: str) -> str | None:
        """Its bytes as text that can be written back to the byte."""
        try:
            descriptor = os.open(self.workspace.root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                return file.read(2 * LARGEST_BYTES + 1).decode("utf-8", "surrogateescape")
        except OSError:
            return None

    def today(self) -> str:
        """The name of today's note."""
        return f"memory/{self._clock().date().isoformat()}.md"

    def last(self, count: int = 10) -> list[Change]:
        """The newest first."""
        changes = (_change(path) for path in reversed(self._paths()))
        return [change for change in changes if change][:count]

    def undo(self) -> Change:
        """Put the file of the last change back as it was before. Raises WorkspaceError, and changes nothing, when there
        is none or the file was changed since by another hand."""
        for path in reversed(self._paths()):
            change = _change(path)
            if change is None:
                continue
            if self.read(change.file) != change.after:
                raise WorkspaceError(
                    f"{change.file} was changed since by another hand, so its last change "
                    f"({change.at:%Y-%m-%d %H:%M}, {change.by}) is not undone. Edit the file itself."
                )
            target = self.workspace.root / change.file
            if change.before is None:
                target.unlink(missing_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(target, change.before.encode("utf-8", "surrogateescape"))
            path.unlink(missing_ok=True)
            return change
        raise WorkspaceError("there is no change of a memory file to undo.")

    def forget(self, has_words: Callable[[str], bool]) -> None:
        """Leave out the lines that have the words, before and after, so that the other changes can still be undone."""
        for path in self._paths():
            change = _change(path)
            kept = change and Change(
                change.at, change.by, change.file, _left(change.before, has_words), _left(change.after, has_words)
            )
            if kept is None or kept.before == kept.after:
                path.unlink(missing_ok=True)
            elif kept != change:
                write_atomically(path, _dumped(kept))

    def allow_shrinking(self) -> None:
        """The person says yes to one change that takes away more than half of a memory file."""
        self._make_folder()
        write_atomically(self._folder / "allowed", self._clock().isoformat())

    def use_allowance(self) -> bool:
        """Whether there is a yes that is not used and not old; it is used up."""
        path = self._folder / "allowed"
        try:
            said = datetime.fromisoformat(path.read_text())
            path.unlink()
        except (OSError, ValueError):
            return False
        return abs(self._clock() - said) <= ALLOWED_FOR

    def _keep(self, change: Change) -> None:
        self._make_folder()
        paths = self._paths()
        number = int(paths[-1].stem) + 1 if paths else 1
        write_atomically(self._folder / f"{number:06}.json", _dumped(change))
        for path in paths[: max(0, len(paths) + 1 - KEPT)]:
            path.unlink(missing_ok=True)

    def _make_folder(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _paths(self) -> list[Path]:
        return sorted(path for path in self._folder.glob("*.json") if path.stem.isdigit())


def memory_name(workspace: Workspace, path: str) -> str:
    """The name of the memory file that a path leads to, or ""."""
    with suppress(OSError, ValueError):
        root = os.path.realpath(workspace.root)
        real = os.path.realpath(os.path.join(root, path))  # noqa: PTH118
        name = os.path.relpath(real, root)
        folder, _, file = name.rpartition("/")
        if name.casefold() == "memory.md" or (folder == "memory" and file.endswith(".md")):
            return name
    return ""


def _left(text: str | None, has_words: Callable[[str], bool]) -> str | None:
    if text is None:
        return None
    return "\n".join(line for line in text.split("\n") if not has_words(line))


def _dumped(change: Change) -> str:
    fields = {"at": change.at.isoformat(), "by": change.by, "file": change.file}
    return json.dumps({**fields, "before": change.before, "after": change.after})


def _change(path: Path) -> Change | None:
    """None for a file that was cut or that nobody wrote for this."""
    try:
        body = json.loads(path.read_text())
        return Change(datetime.fromisoformat(body["at"]), body["by"], body["file"], body["before"], body["after"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
