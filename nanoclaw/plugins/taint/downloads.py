"""Files that came from the net, whoever put them there: those of folders of downloads outside the workspace, and those
of which the system keeps that they were fetched."""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from nanoclaw.beneath.paths import open_again

NAMES = ("download", "downloads")
ATTRIBUTES = frozenset(
    {"user.xdg.origin.url", "user.xdg.referrer.url", "com.apple.quarantine", "com.apple.metadata:kMDItemWhereFroms"}
)
"""Attributes in which browsers and mail programs record that they downloaded a file."""


def folders(home: Path, reach: Iterable[Path]) -> list[str]:
    """Folders of downloads: the one of the desktop, and those in reach of the tools that are called so."""
    named = [home / "Downloads", *(one for one in reach if one.name.casefold() in NAMES)]
    with suppress(OSError, ValueError), open_again(os.path.realpath(home / ".config" / "user-dirs.dirs")) as file:
        text = file.read(100_000).decode("utf-8", "replace")
        if said := re.search(r'(?m)^\s*XDG_DOWNLOAD_DIR="(?:\$HOME)?/*([^"\n]+)"', text):
            named.append(home / said[1])
    real = [os.path.realpath(one) for one in named]
    return [one for one in dict.fromkeys(real) if one != os.path.realpath(home)]


def expanded(path: str, home: Path) -> str:
    """A path as a shell reads its beginning."""
    return re.sub(r"^(?:~|\$HOME|\$\{HOME\})(?=/|$)", lambda sign: str(home), path)


def reaches(word: str, folder: str, *, looks_around: bool) -> bool:
    """True where a word of a command, from the root on, is a pattern that fits a folder, or one above it that is looked
    through."""
    parts, wanted = word.strip("/").split("/"), folder.strip("/").split("/")
    if looks_around and len(parts) < len(wanted):
        return all(map(fnmatch.fnmatchcase, wanted, parts))
    return len(parts) >= len(wanted) and all(map(fnmatch.fnmatchcase, wanted, parts))


def was_fetched(path: str) -> bool:
    """True for a file of which the system keeps that it came from the net."""
    with suppress(OSError, ValueError):
        return not ATTRIBUTES.isdisjoint(_attributes(path))
    return False


def _attributes(path: str) -> Iterable[str]:
    if sys.platform != "darwin":
        return os.listxattr(path)
    import ctypes

    system, room = ctypes.CDLL(None), ctypes.create_string_buffer(10_000)
    length = system.listxattr(os.fsencode(path), room, len(room), 0)
    return room.raw[: max(length, 0)].decode("utf-8", "replace").split("\0")
