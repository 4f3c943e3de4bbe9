"""Folders for a while, below the one for temporary files: named after the process that made them, so that the next one
can remove what a killed one left."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from itertools import islice
from pathlib import Path

_PREFIX = "nanoclaw-"
_MOST = 1_000
"""Folders that are looked at in one go."""


def make(kind: str) -> str:
    """A new empty folder, 0700, whose maker removes it. Raises OSError."""
    return tempfile.mkdtemp(prefix=prefix(kind))


def prefix(kind: str) -> str:
    """The same for whoever makes folders by `tempfile`."""
    pid = os.getpid()
    return f"{_PREFIX}{kind}-{pid}.{_began(pid)}-"


def remove_left_over() -> int:
    """Remove this user's folders whose makers are gone; how many. Only where makers can be looked up. Blocks."""
    folders = left_over()
    for path in folders:
        remove(path)
    return len(folders)


def remove(path: str) -> None:
    """Remove a folder, as far as that goes, however deep a command has nested what is in it. Blocks."""
    with suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)  # goes by descriptors: no link leads it elsewhere
    if os.path.lexists(path):  # deeper than the stack or the descriptors of this process go
        import subprocess

        with suppress(OSError):
            subprocess.run(("rm", "-rf", "--", path), stdin=subprocess.DEVNULL, capture_output=True, check=False)


def left_over() -> list[str]:
    """The same folders, not removed."""
    if not _began(os.getpid()):
        return []
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        own = islice((one for one in entries if one.name.startswith(_PREFIX)), _MOST)
        return [one.path for one in own if _is_left_over(one)]
    return []


def _is_left_over(one: os.DirEntry[str]) -> bool:
    """True for a folder of this user, no link, whose name says a process that is no more."""
    parts = one.name.removeprefix(_PREFIX).split("-")
    pid, _, began = parts[1].partition(".") if len(parts) > 2 else ("", "", "")
    if not (pid.isdecimal() and began.isdecimal()) or _began(int(pid)) == began:
        return False
    with suppress(OSError):
        seen = one.stat(follow_symlinks=False)
        return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid()
    return False


def _began(pid: int) -> str:
    """The time at which a process began, as numbers of processes come again; '' for none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
