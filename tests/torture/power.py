"""A power failure, worked out from a log of calls: what a disk may hold when nothing but the synced is sure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from random import Random
from typing import Literal

from tests.torture.shim import Call

Loss = Literal["data", "names", "some"]
"""Kinds of what was not synced and is gone: data written to files, though their names are there; or creations, renames
and removals, though the data is there; or some of each."""

LOSSES: tuple[Loss, ...] = ("data", "names", "some")


@dataclass(slots=True, eq=False)
class File:
    """`synced` is sure; `written` came later: (where, bytes), and a length to which the file was cut (length, None)."""

    synced: bytearray = field(default_factory=bytearray)
    written: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        for at, data in self.written:
            _apply(self.synced, at, data)
        self.written.clear()

    def content(self, survives: Callable[[], bool]) -> bytes:
        content = bytearray(self.synced)
        for at, data in self.written:
            if survives():
                _apply(content, at, data)
        return bytes(content)


def _apply(content: bytearray, at: int, data: bytes | None) -> None:
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    if data is None:
        del content[at:]
    else:
        content[at : at + len(data)] = data


@dataclass(slots=True)
class Change:
    """Of the names: `file` (None: a folder) stands at `to`, and nothing at `gone`; with both, what stood at `gone` and
    below it stands at `to`. "" is not a path."""

    to: str = ""
    file: File | None = None
    gone: str = ""
    is_sure: bool = False

    def apply(self, names: dict[str, File | None]) -> None:
        moved = {path: names.pop(path) for path in list(names) if self.gone and _is_at_or_below(path, self.gone)}
        if self.to:
            names |= {self.to + path[len(self.gone) :]: file for path, file in moved.items()}
            names[self.to] = self.file


class Disk:
    """Follows the calls of a log, one after the other."""

    def __init__(self, root: Path, files: dict[str, bytes]) -> None:
        """`files` are there from the start, by their paths below `root`."""
        self._root = str(root) + "/"
        self._files: dict[int, File] = {}
        self._folders: set[str] = set()
        self._changes = [Change(path, File(bytearray(content)), is_sure=True) for path, content in files.items()]

    def do(self, call: Call) -> None:
        """A sync of a folder makes sure of the names in it, and of the folder's own name and those above it."""
        if call.result < 0:
            return
        path, other = ((place + "/").removeprefix(self._root).rstrip("/") for place in (call.path, call.other))
        match call.kind:
            case "create":
                self._files[call.inode] = File()
                self._changes.append(Change(path, self._files[call.inode]))
            case "mkdir":
                self._folders.add(path)
                self._changes.append(Change(path))
            case "unlink" | "rmdir":
                self._changes.append(Change(gone=path))
            case "rename":
                self._changes.append(Change(other, self._file(call, path), gone=path))
                self._folders |= {
                    other + folder[len(path) :] for folder in self._folders if _is_at_or_below(folder, path)
                }
            case "link":
                self._changes.append(Change(other, self._file(call, path)))
            case "write":
                self._known(call, path).written.append((call.at, call.data))
            case "truncate":
                self._known(call, path).written.append((call.size, None))
            case "sync" if call.inode in self._files:
                self._files[call.inode].sync()
            case "sync":
                self._make_sure(path)

    def _file(self, call: Call, path: str) -> File | None:
        return None if path in self._folders else self._known(call, path)

    def _known(self, call: Call, path: str) -> File:
        if call.inode not in self._files:  # one that was there from the start
            self._files[call.inode] = next(c.file for c in reversed(self._changes) if c.to == path and c.file)
        return self._files[call.inode]

    def _make_sure(self, folder: str) -> None:
        above = {folder, *map(str, PurePosixPath(folder).parents)}
        for change in self._changes:
            if any(place and _parent(place) == folder for place in (change.to, change.gone)) or change.to in above:
                change.is_sure = True

    def leave(self, home: Path, loss: Loss, random: Random) -> None:
        """Write what may be left by a failure now into a new folder."""
        last = random.randrange(len(self._changes) + 1)
        names: dict[str, File | None] = {}
        for number, change in enumerate(self._changes):
            if change.is_sure or loss == "data" or (loss == "some" and number < last):
                change.apply(names)
        survives: dict[Loss, Callable[[], bool]] = {
            "data": lambda: False,
            "names": lambda: True,
            "some": lambda: random.random() < 0.5,
        }
        home.mkdir(parents=True)
        for path, file in sorted(names.items()):
            place = home / path
            if not place.parent.exists():
                continue  # its folder is gone
            if file is None:
                place.mkdir()
            else:
                place.write_bytes(file.content(survives[loss]))


def _is_at_or_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _parent(path: str) -> str:
    parent = str(PurePosixPath(path).parent)
    return "" if parent == "." else parent
