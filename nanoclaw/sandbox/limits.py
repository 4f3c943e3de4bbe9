"""Limits of a command that no setting of the kernel holds.

Its processes and threads, where it is an administrator's or shares a count with others: the kernel asks before each one
that would begin (seccomp's user notification), so that there is never one too many. The disk that it takes: looked at
now and then.
"""

from __future__ import annotations

import os

from nanoclaw.sandbox.kernel import ON_ARM

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` would be a third of the start
    from collections.abc import Callable, Iterable

BEGINS: tuple[tuple[int, int], ...] = ((56, 220), (57, -1), (58, -1))
"""Numbers (on x86_64, on ARM) of clone, fork, vfork."""

_THREAD = 0x10000  # CLONE_THREAD, of clone
_CLONE = BEGINS[0][ON_ARM]
_THREADS = 17  # a field of /proc/PID/stat, counted from the state


class Tasks:
    """The processes and threads of a command. `pids` lists its processes, ended ones that nobody has collected too."""

    def __init__(self, processes: int, threads: int, pids: Callable[[], Iterable[int]]) -> None:
        """`threads`: the most of all together."""
        self._most, self._pids = (processes, threads), pids
        self._processes, self._threads = processes - 1, threads - 1  # for which there is room

    def may_begin(self, number: int, flags: int) -> bool:
        """True where there is room for one more. They are counted only when those that began could be too many: a
        command that begins few costs no look at all."""
        is_process = not (number == _CLONE and flags & _THREAD)
        if self._threads <= 0 or (is_process and self._processes <= 0):
            found = [_threads(pid) for pid in self._pids()]
            self._processes, self._threads = self._most[0] - len(found), self._most[1] - sum(found)
            if self._threads <= 0 or (is_process and self._processes <= 0):
                return False
        self._processes -= is_process
        self._threads -= 1
        return True


def _threads(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return max(1, int(file.read().rpartition(b")")[2].split()[_THREADS]))
    except OSError:
        return 0  # gone meanwhile


RESERVE_BYTES, MOST_FILES = 500_000_000, 1_000_000
"""Free space of a disk that no command takes; files that one makes."""

_OWN_BYTES = 10_000_000
"""Written by a command that counts among those who fill a disk."""


class Disk:
    """The space that a command takes on the disks of some folders. `own` is a descriptor of its keeper's
    /proc/self/io, in which those count that have ended; `pids` lists the others."""

    def __init__(self, most: int, folders: Iterable[str], own: int, pids: Callable[[], Iterable[int]]) -> None:
        self._most, self._own, self._pids = most, own, pids
        self._began: dict[int, tuple[str, os.statvfs_result]] = {}
        for one in folders:
            try:
                self._began.setdefault(os.stat(one).st_dev, (one, os.statvfs(one)))
            except OSError:
                continue  # it isn't there
        self._dirtied = _dirtied()

    def is_full(self) -> bool:
        """True where the command took more than it may, or all but the last of what was free. Two cheap calls, unless
        much is gone: then its processes are asked, as others may be writing."""
        for folder, began in self._began.values():
            try:
                now = os.statvfs(folder)
            except OSError:
                continue
            taken = (began.f_bfree - now.f_bfree) * now.f_frsize
            free, reserve = now.f_bavail * now.f_frsize, min(RESERVE_BYTES, began.f_bavail * now.f_frsize // 2)
            if began.f_ffree - now.f_ffree > MOST_FILES:
                return True
            if taken > self._most and self._of_own(taken) > self._most:
                return True
            if free < reserve and self._of_own(taken) > min(_OWN_BYTES, reserve):
                return True
        return False

    def _of_own(self, taken: int) -> int:
        """Bytes that the command has taken of those that are gone: what its processes wrote, or all where one doesn't
        tell, and what nobody wrote (fallocate)."""
        written = 0
        for pid in (0, *self._pids()):
            try:
                written += self._written(pid)
            except FileNotFoundError:
                continue  # gone meanwhile: whoever collected it has its count
            except ProcessLookupError:
                continue
            except (OSError, ValueError, IndexError):
                return taken
        return written + max(0, taken - (_dirtied() - self._dirtied))

    def _written(self, pid: int) -> int:
        opened = os.open(f"/proc/{pid}/io", os.O_RDONLY | os.O_CLOEXEC) if pid else self._own
        try:
            text = os.pread(opened, 1000, 0)
        finally:
            if pid:
                os.close(opened)
        return int(text.split(b"\nwrite_bytes:", 1)[1].split()[0])


def _dirtied() -> int:
    """Bytes that all programs together have written to disks through the kernel's memory."""
    try:
        with open("/proc/vmstat", "rb") as file:
            return int(file.read().split(b"\nnr_dirtied ", 1)[1].split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
