"""Says which files of a folder changed: by the kernel's word where there is one (Linux), else "look at all of them"."""

from __future__ import annotations

import os
import struct
import sys
import time
from pathlib import Path

LOOK_AGAIN_SECONDS = 300
"""A network drive tells nothing of what others do, so now and then all files are looked at anyway."""


class Watch:
    """Begins to watch at the second question: a program that asks once pays nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = -1
        self._asked = False
        self._inode = 0
        self._looked = 0.0

    def changed(self) -> set[str] | None:
        """Names of what changed since the last question, as paths from the folder's parent; None: look at all."""
        inode = self._folder_inode()
        if self._descriptor < 0 or inode != self._inode or time.monotonic() - self._looked > LOOK_AGAIN_SECONDS:
            self.close()
            self._inode = inode
            if self._asked and inode:
                self._descriptor = _inotify(self._folder)
            self._asked = True
            self._looked = time.monotonic()
            return None
        return self._read()

    def forget(self) -> None:
        """The next question is answered with "look at all"."""
        self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _read(self) -> set[str] | None:
        names: set[str] = set()
        while True:
            try:
                events = os.read(self._descriptor, 65_536)
            except BlockingIOError:
                return names
            at = 0
            while at < len(events):
                _, mask, _, length = _EVENT.unpack_from(events, at)
                at += _EVENT.size + length
                name = os.fsdecode(events[at - length : at].rstrip(b"\0"))
                if mask & _LOST or not name:
                    self.close()
                    return None
                if name.endswith(".md"):
                    names.add(f"{self._folder.name}/{name}")

    def _folder_inode(self) -> int:
        try:
            return self._folder.lstat().st_ino
        except OSError:
            return 0


def _inotify(folder: Path) -> int:
    """A descriptor that tells of changes in the folder, or -1."""
    if sys.platform != "linux":
        return -1
    import ctypes  # only a process that lasts comes here

    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor >= 0 and libc.inotify_add_watch(descriptor, os.fsencode(folder), _CHANGES) < 0:
        os.close(descriptor)
        return -1
    return descriptor


_EVENT = struct.Struct("iIII")
_CHANGES = 0x0FCE  # modified, attributes, closed after writing, moved, created, deleted, and the folder itself
_LOST = 0xEC00 | 0x2000  # overflow, unmounted, watch removed, folder deleted or moved
