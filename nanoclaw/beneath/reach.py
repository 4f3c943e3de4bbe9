"""The folders that paths may lead to, and the rule about files with several names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Reach(NamedTuple):
    """Relative paths begin at `root`, which is read and written; so are the folders of `write`, and those of `read` are
    read. Nothing is opened in `closed`, but in those of the others that are within."""

    root: Path
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    closed: tuple[Path, ...] = ()

    @property
    def writable(self) -> tuple[Path, ...]:
        return (self.root, *self.write)


SHARED = frozenset({".git", "node_modules", "site-packages"})
"""Folders that git and package managers fill with second names of what they keep elsewhere."""

LOOKED_THROUGH = 100_000
"""Names that are looked through for those of one file."""


def is_all_inside(
    found: os.stat_result, parts: Iterable[str], folders: Sequence[str | Path], closed: Sequence[str | Path]
) -> bool:
    """True for a file without a name (a hard link) outside of the folders. In those that are SHARED it may have one,
    if everybody may read it and it is none of the `closed` ones."""
    if found.st_nlink == 1 or _names(found, folders, identities(closed)) >= found.st_nlink:
        return True
    is_shared = bool(found.st_mode & stat.S_IROTH) and not SHARED.isdisjoint(parts)
    return is_shared and not _names(found, closed, identities(folders))


def has_name_in(found: os.stat_result, folders: Sequence[str | Path]) -> bool:
    """True for a file with a second name, one of which is in some folders."""
    return found.st_nlink > 1 and _names(found, folders, frozenset()) > 0


def identities(folders: Sequence[str | Path]) -> frozenset[tuple[int, int]]:
    """Device and inode of each folder that is there."""
    found = set()
    for folder in folders:
        with suppress(OSError):
            at = Path(folder).stat()
            found.add((at.st_dev, at.st_ino))
    return frozenset(found)


def _names(wanted: os.stat_result, folders: Sequence[str | Path], besides: frozenset[tuple[int, int]]) -> int:
    """The number of names that a file has in some folders, but not in those `besides`."""
    tops = sorted({os.path.realpath(folder) for folder in folders})
    waiting = [one for one in tops if not any(one.startswith(f"{other.rstrip('/')}/") for other in tops)]
    count, left = 0, LOOKED_THROUGH
    while waiting and left > 0:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                left -= 1
                if entry.is_dir(follow_symlinks=False):
                    if not besides or _identity(entry) not in besides:
                        waiting.append(entry.path)
                elif entry.inode() == wanted.st_ino:
                    count += os.path.samestat(entry.stat(follow_symlinks=False), wanted)
    return count


def _identity(entry: os.DirEntry[str]) -> tuple[int, int]:
    found = entry.stat(follow_symlinks=False)
    return found.st_dev, found.st_ino
