"""Limits of a command that no setting of the kernel holds.

Its processes and threads, where it is an administrator's or shares a count with others, and the disk that it takes:
both are looked at many times a second. (The kernel could ask before each process, by seccomp. A signal that comes
meanwhile would end that call with EINTR, for which no shell is made: “Cannot fork”.)
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` would be a third of the start
    from collections.abc import Callable, Iterable

_THREADS = 17  # a field of /proc/PID/stat, counted from the state


class Tasks:
    """The processes and threads of a command. `pids` lists its processes, ended ones that nobody has collected too: of
    these, those count that it is to collect itself."""

    def __init__(self, processes: int, threads: int, pids: Callable[[], Iterable[int]]) -> None:
        """`threads`: the most of all together."""
        self._most, self._pids = (processes, threads), pids
        self._newest, self._room = _newest(), 0  # it may have begun any number by now: the first look counts

    def are_too_many(self) -> bool:
        """One cheap look, unless so many began since they were counted that they could be too many."""
        newest = _newest()
        if newest is not None and self._newest is not None and 0 <= newest - self._newest < self._room:
            return False
        processes, threads = self._most
        for pid in self._pids():
            found = _threads(pid)
            processes, threads = processes - (found > 0), threads - found
            if processes < 0 or threads < 0:
                break
        self._newest, self._room = newest, min(processes, threads)
        return self._room < 0


def _newest() -> int | None:
    """The number of the process or thread that began last, here or wherever numbers are given out for here."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[-1])
    except (OSError, ValueError, IndexError):
        return None


def _threads(pid: int) -> int:
    """Threads of a process; none of one that is gone, or has ended and is this process's to collect."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0  # gone meanwhile
    threads = max(1, int(fields[_THREADS]))  # some may run on after the first one
    return 0 if threads == 1 and fields[0] in b"ZX" and int(fields[1]) == os.getpid() else threads


RESERVE_BYTES, MOST_FILES = 500_000_000, 1_000_000
"""Free space of a disk that no command takes; files that one makes."""

_OWN_BYTES = 10_000_000
"""Written by a command that counts among those who fill a disk."""


class Disk:
    """The space that a command takes on the disks of some folders. `own` is a descriptor of its keeper's
    /proc/self/io, in which those count that have ended, or -1: then all that is gone is the command's; `pids` lists the
    others."""

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
        """True if the command took more than it may, or all but the last of what was free. Two cheap calls, unless much
        is gone: then its processes are asked, as others may be writing."""
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
