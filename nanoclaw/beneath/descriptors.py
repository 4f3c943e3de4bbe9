"""Opens what is below a folder, name by name, and follows no link on the way."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_WAY = FOLDER | getattr(os, "O_PATH", 0)  # a folder on the way need not be readable


def open_beneath(root: str | int, parts: Sequence[str], flags: int) -> int:
    """Open root/parts without following a link at any step. Raises OSError (ELOOP or ENOTDIR at a link, EXDEV for a
    part that isn't one name)."""
    if ".." in parts or "/" in "".join(parts):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    folder = os.open(root, FOLDER) if isinstance(root, str) else os.dup(root)
    if not parts:
        return folder
    try:
        for part in parts[:-1]:
            inner = _step(folder, part, _WAY | os.O_NOFOLLOW)
            os.close(folder)
            folder = inner
        return _step(folder, parts[-1], flags | _PLAIN)
    finally:
        os.close(folder)


def open_folder_beneath(root: str | int, parts: Sequence[str]) -> int:
    return open_beneath(root, parts, os.O_RDONLY | os.O_DIRECTORY)


_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _step(folder: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise
