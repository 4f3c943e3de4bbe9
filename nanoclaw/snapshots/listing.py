"""Lists the files of folders, each with its status: two lists tell what happened between them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MOST = 50_000
"""Entries of one folder that are listed; a larger one isn't listed at all."""

Skips = Callable[[str, Collection[str]], bool]
"""True for a folder that is not looked into, by its name and the names of all that lies beside it."""


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


def nothing(name: str, beside: Collection[str]) -> bool:
    """Skips no folder."""
    return False


def listed(
    tops: Iterable[Path],
    closed: Iterable[Path] = (),
    skips: Skips = nothing,
    marks: Collection[str] = (),
    most: int = MOST,
) -> FileListing:
    """List what is below some folders, but for what is `closed` or skipped. `marks` are names of files in folders that
    are skipped, which are looked at all the same. A folder with more than `most` entries is left out."""
    files, folders, marked = dict[str, os.stat_result](), dict[str, os.stat_result](), dict[str, os.stat_result]()
    whole = list[str]()
    avoided = frozenset(os.path.realpath(one) for one in closed)
    for top in sorted({os.path.realpath(one) for one in tops}):
        if any(top.startswith(f"{one}/") for one in whole):
            continue
        found, inner = dict[str, os.stat_result](), dict[str, os.stat_result]()
        if (skipped := _walk(top, found, inner, avoided, skips, most)) is not None:
            files.update(found)
            folders.update(inner)
            whole.append(top)
            for path in (f"{folder}/{name}" for folder in skipped for name in marks):
                with suppress(OSError):
                    marked[path] = os.lstat(path)
    return FileListing(files, folders, marked, tuple(whole))


def _walk(
    top: str,
    found: dict[str, os.stat_result],
    inner: dict[str, os.stat_result],
    avoided: Collection[str],
    skips: Skips,
    most: int,
) -> list[str] | None:
    """Find all files of a folder, and the folders in it; those that were skipped, None where there is too much."""
    waiting, skipped, seen = [top], list[str](), 0
    while waiting:
        folder = waiting.pop()
        names, folders = list[str](), list[os.DirEntry[str]]()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    names.append(entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry)
                    else:
                        found[entry.path] = entry.stat(follow_symlinks=False)
        except OSError:
            if folder == top:
                return None
        seen += len(names)
        if seen > most:
            return None
        for entry in folders:
            if entry.path in avoided:
                continue
            if skips(entry.name, names):
                skipped.append(entry.path)
            else:
                waiting.append(entry.path)
                with suppress(OSError):  # it is gone by now
                    inner[entry.path] = entry.stat(follow_symlinks=False)
    return skipped


def changes(before: FileListing, after: FileListing) -> Changes:
    """The differences in what both list."""
    was, now = before.files, after.files
    if before.tops != after.tops:
        tops = tuple(f"{one}/" for one in before.tops if one in after.tops)
        was, now = ({path: one for path, one in many.items() if path.startswith(tops)} for many in (was, now))
    gone, changed = list[str](), list[str]()
    for path, old in was.items():
        if (new := now.get(path)) is None:
            gone.append(path)
        elif not is_same(old, new):
            changed.append(path)
    new_ones = [path for path in now if path not in was] if len(now) + len(gone) != len(was) else []
    return Changes(gone, changed, new_ones)


def is_same(one: os.stat_result, other: os.stat_result) -> bool:
    """True for a file that nobody has changed in any way."""
    return one.st_ctime_ns == other.st_ctime_ns and one.st_ino == other.st_ino and one.st_size == other.st_size
