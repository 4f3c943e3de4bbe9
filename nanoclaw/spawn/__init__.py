"""Runs a child process within bounds: its own group, a time limit, output flat in memory, nothing left behind.

On Linux descendants that left the group (setsid, double fork) are found in /proc by a marker in their environment, by
session and by parent. Out of reach without a sandbox: one that wiped its environment, left the session and whose parent
is already gone; on macOS each one that left the group.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

_Why = Literal["exited", "timeout", "flood"]

KEPT_BYTES = 65_536
"""Of each end of the output."""

FLOOD_BYTES = 64_000_000
"""A command that writes more is stopped."""


class Exit(NamedTuple):
    """The end of a process; `status` is negative for a signal. `left_behind` counts processes that had to be killed."""

    why: _Why
    status: int
    head: bytes
    tail: bytes
    dropped: int
    left_behind: int


async def run_process(
    arguments: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    timeout_seconds: float,
    spool: Callable[[bytes], None] = lambda data: None,
    heard: Callable[[bytes], None] = lambda data: None,
) -> Exit:
    """Run until exit, time limit or flood; whatever happens, cancellation too, the whole family is gone afterwards.

    The child reads nothing, sees descriptors 0, 1 and 2 only, and gets exactly the given environment plus a marker.
    Of an output that is too long for memory `spool` is given all, piece by piece; `heard` each piece as it comes.
    Raises OSError when it cannot be started.
    """
    marker = f"{_marker(folder, os.getpid())}{os.urandom(8).hex()}"
    name, _, value = marker.partition("=")
    reading, writing = os.pipe()
    try:
        child = subprocess.Popen(  # noqa: ASYNC220  (starting takes 0.3 ms; asyncio's own way costs three times that)
            arguments,
            cwd=folder,
            env={**environment, name: value},
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    output = _Output(reading, spool, heard)
    family = _Family(child, marker.encode())
    try:
        why = await _wait(child, output, timeout_seconds)
        left_behind = await family.end(_GRACE_SECONDS)
        output.drain()
    except BaseException:
        await family.end_for_sure(_GRACE_WHEN_CANCELLED)
        raise
    finally:
        output.close()
    dropped = max(0, output.total - len(output.head) - len(output.tail))
    status = -signal.SIGKILL if child.returncode is None else child.returncode
    return Exit(why, status, bytes(output.head), bytes(output.tail), dropped, left_behind)


def end_left_over(folder: Path) -> int:
    """End what commands run in a folder left behind when the program that ran them died; how many processes. Only on
    Linux, where they can be found. Returns when they are gone."""
    ended: set[int] = set()
    for _ in range(_LOOKS if _has_proc() else 0):
        found = set(_left_over(folder))
        if not found:
            break
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended |= found
        time.sleep(0.01)
    return len(ended)


def _left_over(folder: Path) -> Iterator[int]:
    prefix = f"NANOCLAW_RUN={_name(folder)}.".encode()
    for path in Path("/proc").iterdir():
        try:
            if not path.name.isdigit() or (at := (environment := _read(f"{path}/environ")).find(prefix)) < 0:
                continue
            owner = environment[at:].partition(b"\0")[0].decode().rpartition(".")[0] + "."
            pid = int(owner.split(".")[1])
            if pid != os.getpid() and owner != _marker(folder, pid):
                yield int(path.name)
        except (OSError, ValueError, IndexError):
            continue  # gone meanwhile, or somebody else's


def _marker(folder: Path, pid: int) -> str:
    """In the environment of each command: which program runs it, and where. The time at which that began is part of
    it, as numbers of processes come again."""
    began = "0"
    with contextlib.suppress(OSError, IndexError):
        began = _read(f"/proc/{pid}/stat").rsplit(b")", 1)[1].split()[19].decode()
    return f"NANOCLAW_RUN={_name(folder)}.{pid}.{began}."


def _name(folder: Path) -> str:
    return f"{zlib.crc32(os.fsencode(folder)):08x}"


_LOOKS = 200
_GRACE_SECONDS = 0.5  # between TERM and KILL
_GRACE_WHEN_CANCELLED = 0.3
_AFTER_EXIT_SECONDS = 0.3  # how long output of a child's child is waited for once the child is gone
_FREEZE_ROUNDS = 50
_LONG_RUN_SECONDS = 5.0  # after that pids may have wrapped around, and the price of a full look no longer matters


async def _wait(child: subprocess.Popen[bytes], output: _Output, timeout_seconds: float) -> _Why:
    exited = asyncio.ensure_future(_exit_of(child))
    flooded = asyncio.ensure_future(output.flooded.wait())
    try:
        await asyncio.wait((exited, flooded), timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
        if not exited.done():
            return "flood" if flooded.done() else "timeout"
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(output.ended.wait(), _AFTER_EXIT_SECONDS)
        return "exited"
    finally:
        exited.cancel()
        flooded.cancel()


async def _exit_of(child: subprocess.Popen[bytes]) -> None:
    try:
        descriptor = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # macOS, an old kernel
        await asyncio.to_thread(child.wait)
        return
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_reader(descriptor, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    child.wait()


class _Output:
    """The first and the last bytes that a pipe delivers, and how many there were."""

    def __init__(self, descriptor: int, spool: Callable[[bytes], None], heard: Callable[[bytes], None]) -> None:
        self._spool, self._spools, self._heard = spool, False, heard
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0
        self.ended = asyncio.Event()
        self.flooded = asyncio.Event()
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def drain(self) -> None:
        """Take what is already in the pipe."""
        while not self.ended.is_set() and self._read():
            pass

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _read(self) -> bool:
        try:
            chunk = os.read(self._descriptor, 65_536)
        except BlockingIOError:
            return False
        if not chunk:
            self._loop.remove_reader(self._descriptor)
            self.ended.set()
            return False
        self._heard(chunk)
        self.total += len(chunk)
        if self.total > FLOOD_BYTES:
            self.flooded.set()
        room = KEPT_BYTES - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[room:]
        if self._spools:
            self._spool(chunk)
        if len(self.tail) > 2 * KEPT_BYTES:
            if not self._spools:
                self._spool(bytes(self.head + self.tail))
                self._spools = True
            del self.tail[:-KEPT_BYTES]
        return True


class _Family:
    """A child and all that came from it."""

    def __init__(self, child: subprocess.Popen[bytes], marker: bytes) -> None:
        self._child = child
        self._marker = marker
        self._started = time.monotonic()
        self._known: set[int] = set()

    async def end(self, grace_seconds: float) -> int:
        """TERM, then KILL what is still there; the number of processes besides the child that had to go."""
        frozen = self._freeze()
        if not frozen:
            return 0
        others = len(frozen - {self._child.pid}) or int(self._child.returncode is not None)
        self._signal(frozen, signal.SIGTERM)
        self._signal(frozen, signal.SIGCONT)
        deadline = time.monotonic() + grace_seconds
        pause = 0.005
        while (alive := self._alive()) and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(0.05, pause * 2)
        while alive:
            self._signal(self._freeze(), signal.SIGKILL)
            await asyncio.sleep(0.005)
            alive = self._alive()
            if time.monotonic() > deadline + 2:  # a process stuck in the kernel: it dies when it comes back
                break
        self._child.poll()
        return others

    async def end_for_sure(self, grace_seconds: float) -> None:
        """The same when the task is being cancelled; a second cancellation shortens the grace to nothing."""
        try:
            await self.end(grace_seconds)
        except BaseException:
            self._signal(self._freeze(), signal.SIGKILL)
            self._child.wait()
            raise

    def _freeze(self) -> set[int]:
        """Stop them all before any is ended: the children of one that forks and dies in between would get lost."""
        frozen: set[int] = set()
        for _ in range(_FREEZE_ROUNDS):
            fresh = self._alive() - frozen
            if not fresh:
                break
            self._signal(fresh, signal.SIGSTOP)
            frozen |= fresh
        return frozen

    def _alive(self) -> set[int]:
        child = {self._child.pid} if self._child.poll() is None else set[int]()
        if not _has_proc():
            return child or ({self._child.pid} if _group_exists(self._child.pid) else set())
        first = self._child.pid if self._is_cheap() and not child else 1
        alive = child | _descendants(self._child.pid, self._marker, first, self._known)
        self._known |= alive
        return alive

    def _is_cheap(self) -> bool:
        """True when pids only rose since the start, so that a look at the newer ones is enough."""
        if time.monotonic() - self._started > _LONG_RUN_SECONDS:
            return False
        try:
            newest = int(Path("/proc/loadavg").read_bytes().rsplit(None, 1)[1])
        except (OSError, ValueError, IndexError):
            return False
        return newest >= self._child.pid

    def _signal(self, pids: set[int], number: signal.Signals) -> None:
        if self._child.returncode is None or not _has_proc():  # later the number may be another group's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def _has_proc() -> bool:
    return sys.platform == "linux" and os.access("/proc/self/environ", os.R_OK)


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _descendants(child: int, marker: bytes, first: int, known: set[int]) -> set[int]:
    """Living processes, known ones or such as carry the marker, belong to the child's session, or come from these."""
    parents: dict[int, int] = {}
    found = set(known)
    for name in os.listdir("/proc"):  # noqa: PTH208  (names only, no Path for each process)
        if not name.isdigit() or int(name) < first or int(name) == child:
            continue
        pid = int(name)
        try:
            fields = _read(f"/proc/{name}/stat").rsplit(b")", 1)[1].split()
            if fields[0] in b"ZX":
                continue
            parents[pid] = int(fields[1])
            if int(fields[3]) == child or marker in _read(f"/proc/{name}/environ"):
                found.add(pid)
        except (OSError, IndexError):
            continue  # gone meanwhile, or somebody else's
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if pid not in found and (parent in found or parent == child)}
        found |= more
        grown = bool(more)
    return found & parents.keys()


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 1_000_000)
    finally:
        os.close(descriptor)
