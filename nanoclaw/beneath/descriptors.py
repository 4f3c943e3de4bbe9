"""Opens what is below a folder and follows no link on the way: by one call of the kernel, else step by step."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

OPENAT2 = 437
"""Number of the system call, the same on all processors of Linux but Alpha."""

_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08


def open_beneath(root: str | int, parts: Sequence[str], flags: int) -> int:
    """Open root/parts without following a link at any step; raises OSError (ELOOP, ENOTDIR or EXDEV at a link)."""
    folder = os.open(root, FOLDER) if isinstance(root, str) else os.dup(root)
    if not parts:
        return folder
    try:
        if sys.platform == "linux" and len(parts) > 1:  # a single name is looked up at once by any call
            try:
                return _at_once(folder, parts, flags | _PLAIN)
            except OSError as error:
                if error.errno not in _UNKNOWN:
                    raise
        return _by_steps(folder, parts, flags | _PLAIN)
    finally:
        os.close(folder)


def open_folder_beneath(root: str | int, parts: Sequence[str]) -> int:
    return open_beneath(root, parts, os.O_RDONLY | os.O_DIRECTORY)


_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_UNKNOWN = (errno.ENOSYS, errno.EPERM)  # an older kernel; a container that forbids calls it doesn't know


def _at_once(folder: int, parts: Sequence[str], flags: int) -> int:
    """The kernel looks every name up by itself, so nothing can be swapped between two of them."""
    import ctypes  # here, as it costs a start too much

    how = (ctypes.c_uint64 * 3)(flags, 0, _NO_MAGIC_LINKS | _NO_LINKS | _BENEATH)
    path, size = os.fsencode("/".join(parts)), ctypes.c_size_t(ctypes.sizeof(how))
    opened = _library().syscall(ctypes.c_long(OPENAT2), folder, path, ctypes.byref(how), size)
    if opened < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(opened)


@cache
def _library() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _by_steps(folder: int, parts: Sequence[str], flags: int) -> int:
    at = os.dup(folder)
    try:
        for part in parts[:-1]:
            inner = _step(at, part, FOLDER | os.O_NOFOLLOW)
            os.close(at)
            at = inner
        return _step(at, parts[-1], flags)
    finally:
        os.close(at)


def _step(folder: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise
