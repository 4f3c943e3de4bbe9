"""Tells what a git repository still has of files that a command took away, without running git: a repository's settings
can have it run programs."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nanoclaw.beneath.paths import open_again

WATCHED = ("logs/HEAD", "logs/refs/stash", "index", "HEAD")
"""Files of a repository that say that git moved from one state to another; each repository has the last one."""

_MOVED = re.compile(rb"\t(?:checkout: moving|reset: moving|merge|pull|rebase|cherry-pick|am\b|revert)")


def has_moved(git: Path, log_size: int) -> bool:
    """True if git moved to another commit since its log had so many bytes."""
    with suppress(OSError), open_again(Path(os.path.realpath(git), "logs/HEAD")) as file:
        file.seek(log_size)
        return _MOVED.search(file.read(1_000_000)) is not None
    return False


def has_blob(git: Path, content: bytes) -> bool:
    """True if a repository has a content among its objects."""
    name = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    return (git / "objects" / name[:2] / name[2:]).is_file() or any(
        _is_in_index(one, bytes.fromhex(name)) for one in _indexes(git)
    )


def _indexes(git: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from Path(os.path.realpath(git), "objects", "pack").glob("*.idx")


def _is_in_index(path: Path, name: bytes) -> bool:
    """Search an index of a pack (version 2): a table of 256 counts by the first byte, then sorted names."""
    try:
        with open_again(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as index:
            if index[:8] != b"\xfftOc\x00\x00\x00\x02":
                return False
            counts = [int.from_bytes(index[8 + 4 * one : 12 + 4 * one]) for one in (name[0] - 1, name[0])]
            low, high = (counts[0] if name[0] else 0), counts[1]
            while low < high:
                middle = (low + high) // 2
                found = index[1032 + 20 * middle : 1052 + 20 * middle]
                if found == name:
                    return True
                low, high = (middle + 1, high) if found < name else (low, middle)
    except (OSError, ValueError):
        pass
    return False
