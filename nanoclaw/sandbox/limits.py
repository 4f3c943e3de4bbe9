"""Limits of a command that no setting of the kernel holds.

Its processes and threads, where it is an administrator's or shares a count with others, and what is free of the disk:
both are looked at many times a second. (The kernel could ask before each process, by seccomp. A signal that comes
meanwhile would end that call with EINTR, for which no shell is made: “Cannot fork”.)
"""

from __future__ import annotations

import os
from _signal import SIGCONT, SIGSTOP  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` would be a third of the start
    from collections.abc import Callable, Iterable

_THREADS = 17  # a field of /proc/PID/stat, counted from the state


class Tasks:
    """The processes and threads of a command. `pids` lists its processes, ended ones that nobody has collected too: of
    these, those count that it is to collect itself. `signal` sends one to all of them at once."""

    def __init__(
        self, processes: int, threads: int, pids: Callable[[], Iterable[int]], signal: Callable[[int], None]
    ) -> None:
        """`threads`: the most of all together."""
        self._most, self._pids, self._signal = (processes, threads), pids, signal
        (self._all, self._newest), self._room = _running(), 0  # it may have begun any number: the first look counts

    def are_too_many(self) -> bool:
        """One cheap look, unless so many began since they were counted that they could be too many. Where the machine
        has many more than at first, they stand still while they are counted: a fork bomb would always be ahead."""
        running, newest = _running()
        if newest and self._newest and 0 <= newest - self._newest < self._room:
            return False
        if stand := running - self._all > self._most[0] // 8:
            self._signal(SIGSTOP)
        processes, threads = self._most
        for pid in self._pids():
            found = _threads(pid)
            processes, threads = processes - (found > 0), threads - found
            if processes < 0 or threads < 0:
                break
        self._newest, self._room = newest, min(processes, threads)
        if stand and self._room >= 0:
            self._signal(SIGCONT)
        return self._room < 0


def _running() -> tuple[int, int]:
    """Count of the machine's processes and threads, and the number of that which began last, here or wherever numbers
    are given out for here; 0 where that is not told."""
    try:
        with open("/proc/loadavg", "rb") as file:
            *_, running, newest = file.read().split()
            return int(running.partition(b"/")[2]), int(newest)
    except (OSError, ValueError):
        return 0, 0


def _threads(pid: int) -> int:
    """Threads of a process; none of one that is gone, or has ended and is this process's to collect."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0  # gone meanwhile
    threads = max(1, int(fields[_THREADS]))  # some may run on after the first one
    return 0 if threads == 1 and fields[0] in b"ZX" and int(fields[1]) == os.getpid() else threads


RESERVE_BYTES = 500_000_000
"""Free space of a disk that no command takes, if there was twice as much."""


class Disk:
    """The free space on the disks of some folders. Who takes it isn't asked."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._least = {one: min(RESERVE_BYTES, free // 2) for one in folders if (free := _free(one)) is not None}

    def is_full(self) -> bool:
        """True if one has less than must remain."""
        return any((free := _free(one)) is not None and free < least for one, least in self._least.items())


def _free(folder: str) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None  # it isn't there
    return found.f_bavail * found.f_frsize
