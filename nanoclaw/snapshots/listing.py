"""Lists the files of folders, each with its status: two lists tell what happened between them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MOST = 50_000
"""Entries of one folder that are listed; a larger one isn't listed at all."""

Skips = Callable[[str, Collection[str]], bool]
"""True for a folder that is not looked into, by its name and the names of all that is beside it."""

NOTHING: Skips = lambda name, beside: False  # noqa: E731


class FileListing(NamedTuple):
    """Files and links by their paths, below the `tops` that could be listed whole, and the `folders` that they are in;
    `marks` are those of folders that were skipped."""

    files: Mapping[str, os.stat_result]
    folders: Mapping[str, os.stat_result]
    marks: Mapping[str, os.stat_result]
    tops: tuple[str, ...]


class Changes(NamedTuple):
    """Paths that are `gone`, `changed` or `new` in a later listing."""

    gone: list[str]
    changed: list[str]
    new: list[str]


class _Folder(NamedTuple):
    """A folder as it was listed: its files by path, their `names`, and those of the folders in it.
    It is `settled` where a later change is sure to be told by its status."""

    status: os.stat_result
    settled: bool
    files: dict[str, os.stat_result]
    names: tuple[str, ...]
    folders: tuple[str, ...]


class FileLister:
    """Lists again and again: of a folder that has the same entries as the last time only the files are looked at, and
    a file that is the same keeps its status as an object."""

    def __init__(self, skips: Skips = NOTHING, marks: Collection[str] = (), most: int = MOST) -> None:
        self._skips, self._marks, self._most = skips, marks, most
        self._last: dict[str, _Folder] = {}

    def scan(self, tops: Iterable[Path], closed: Iterable[Path] = ()) -> FileListing:
        """List what is below some folders, except what is `closed` or skipped. `marks` are names of files in folders
        that are skipped, which are looked at all the same. A folder with more than `most` entries is left out."""
        files, folders, marked = dict[str, os.stat_result](), dict[str, os.stat_result](), dict[str, os.stat_result]()
        whole, known = list[str](), dict[str, _Folder]()
        avoided = frozenset(os.path.realpath(one) for one in closed)
        for top in sorted({os.path.realpath(one) for one in tops}):
            if any(top.startswith(f"{one}/") for one in whole):
                continue
            found, inner = dict[str, _Folder](), dict[str, os.stat_result]()
            if (skipped := self._walk(top, found, inner, avoided)) is None:
                continue
            for one in found.values():
                files.update(one.files)
            known.update(found)
            folders.update(inner)
            whole.append(top)
            for path in (f"{folder}/{name}" for folder in skipped for name in self._marks):
                with suppress(OSError):
                    marked[path] = os.lstat(path)
        self._last = known
        return FileListing(files, folders, marked, tuple(whole))

    def _walk(
        self, top: str, found: dict[str, _Folder], inner: dict[str, os.stat_result], avoided: Collection[str]
    ) -> list[str] | None:
        """Find all files of a folder, and the folders in it; those that were skipped, None if there is too much."""
        waiting, skipped, seen = [top], list[str](), 0
        while waiting:
            path = waiting.pop()
            try:
                folder = found[path] = self._listed(path)
            except OSError:
                if path == top:
                    return None
                with suppress(OSError):  # else it is gone by now
                    inner[path] = os.lstat(path)
                continue
            if path != top:
                inner[path] = folder.status
            seen += len(folder.names) + len(folder.folders)
            if seen > self._most:
                return None
            beside = (*folder.names, *folder.folders) if folder.folders else ()
            for name in folder.folders:
                if (below := f"{path}/{name}") not in avoided:
                    (skipped if self._skips(name, beside) else waiting).append(below)
        return skipped

    def _listed(self, path: str) -> _Folder:
        """Raises OSError."""
        last = self._last.get(path)
        if last and last.settled and is_same(last.status, os.lstat(path)):
            try:
                other = _changed(last.files)
                return last._replace(files=last.files | other) if other else last
            except (FileNotFoundError, NotADirectoryError):
                pass  # it has changed since
        at = os.open(path, _FOLDER)
        try:
            return _scanned(path, at, last.files if last else {})
        finally:
            os.close(at)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SETTLED_NS = 100_000_000


def _changed(files: Mapping[str, os.stat_result]) -> dict[str, os.stat_result]:
    """Those of some files that are others by now. Raises FileNotFoundError."""
    found, lstat = dict[str, os.stat_result](), os.lstat
    for path, old in files.items():
        new = lstat(path)
        if new.st_ctime_ns != old.st_ctime_ns or new.st_ino != old.st_ino or new.st_size != old.st_size:
            found[path] = new
    return found


def _scanned(path: str, at: int, last: Mapping[str, os.stat_result]) -> _Folder:
    files, names, folders = dict[str, os.stat_result](), list[str](), list[str]()
    status = os.fstat(at)
    settled = time.time_ns() - status.st_ctime_ns > _SETTLED_NS
    with os.scandir(at) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
                continue
            with suppress(FileNotFoundError):  # it is gone by now
                new, own = entry.stat(follow_symlinks=False), f"{path}/{entry.name}"
                files[own] = old if (old := last.get(own)) and is_same(old, new) else new
                names.append(entry.name)
    return _Folder(status, settled, files, tuple(names), tuple(folders))


def changes(before: FileListing, after: FileListing) -> Changes:
    """The differences in what both list."""
    was, now = before.files, after.files
    if before.tops != after.tops:
        tops = tuple(f"{one}/" for one in before.tops if one in after.tops)
        was, now = ({path: one for path, one in many.items() if path.startswith(tops)} for many in (was, now))
    gone, changed = list[str](), list[str]()
    for path, old in was.items():
        if (new := now.get(path)) is old:
            continue
        if new is None:
            gone.append(path)
        elif not is_same(old, new):
            changed.append(path)
    new_ones = [path for path in now if path not in was] if len(now) + len(gone) != len(was) else []
    return Changes(gone, changed, new_ones)


def identity(found: os.stat_result) -> tuple[int, int, int]:
    """A file under each of its names; ext4 gives the number of a deleted one to the next one at once."""
    return found.st_dev, found.st_ino, found.st_mtime_ns


def is_same(one: os.stat_result, other: os.stat_result) -> bool:
    """True for a file that nobody has changed in any way."""
    return one.st_ctime_ns == other.st_ctime_ns and one.st_ino == other.st_ino and one.st_size == other.st_size
