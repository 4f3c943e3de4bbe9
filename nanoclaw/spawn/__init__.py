"""Runs a child process within bounds: its own group, limits, output flat in memory, nothing left behind.

All that comes from it is found in /proc: below it, in its session, or by a mark in its environment. Out of reach
without a sandbox: one that wiped its environment, left the session and whose parent is already gone; on macOS each one
that left the group. In a sandbox all of it is below a keeper, or in a namespace that ends with it.

Its processes, threads and memory, and the free space of the disk, are watched from here: a limit of the kernel counts
all processes of a user (RLIMIT_NPROC) or address space that nobody uses (RLIMIT_AS).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nanoclaw import scratch_folders

Why = Literal["exited", "timeout", "flood", "stopped", "processes", "memory", "disk", "not begun"]
"""The end of a process: by itself, by the time, by too much output, by `stop`, by too much of what is named. Not
begun: its keeper could not do its part, and the output says why."""

KEPT_BYTES = 65_536
"""Of each end of the output."""

FLOOD_BYTES = 64_000_000
"""A command that writes more is stopped."""


class Exit(NamedTuple):
    """The end of a process; `status` is negative for a signal. `left_behind` counts processes that had to be killed.
    `remark` is its keeper's."""

    why: Why
    status: int
    head: bytes
    tail: bytes
    dropped: int
    left_behind: int
    remark: str = ""


class Bounds(NamedTuple):
    """Limits of a child and all that comes from it; it may have four times as many threads as processes. `file_bytes`
    is that of each file that one of them writes; the others are held on Linux only."""

    processes: int
    memory_bytes: int
    file_bytes: int


class Keeper(NamedTuple):
    """Of a child that only keeps the command within a sandbox, and is owned by the process from then on. `descriptors`
    are for it. On `report` it tells "+" when the command has begun, "!" and a sentence where it could not; then, as the
    last line, its exit status, with " left" where it left processes: it stays until these have been ended. What comes
    between may be the command's. `folder` is removed at the end, if there is one. `put_back` is called when all have
    ended, and has a remark on what it did. `disks` are folders on the disks that the command may fill. `own` processes
    are the keeper's, which ends with 0 only after all others; 0: the child is the command. `is_namespace`: with the
    child's end all others are gone."""

    descriptors: tuple[int, ...]
    report: int
    folder: str = ""
    put_back: Callable[[], str] = str
    disks: tuple[str, ...] = ()
    own: int = 1
    is_namespace: bool = False

    def read(self) -> bytes:
        """Return what it has told since the last time."""
        os.set_blocking(self.report, False)
        with contextlib.suppress(OSError):  # it still runs
            return os.read(self.report, 4096)
        return b""

    def close(self) -> None:
        """Close and remove what it had."""
        os.close(self.report)
        if self.folder:
            scratch_folders.remove(self.folder)


def _nothing(data: bytes) -> None: ...


class Process:
    """A child that has been started, and all that comes from it. `run` must follow: it waits, and leaves nothing.
    Raises OSError if it cannot be started.

    The child sees descriptors 0, 1 and 2 only, and gets exactly the given environment plus a marker. Of an output that
    is too long for memory `spool` is given all, piece by piece; `heard` each piece as it comes."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        bounds: Bounds | None = None,
        keeper: Keeper | None = None,
        spool: Callable[[bytes], None] = _nothing,
        heard: Callable[[bytes], None] = _nothing,
        is_interactive: bool = False,
    ) -> None:
        """An interactive one reads what `write` is given, and may write as much as it likes; others read nothing."""
        marker = f"{_marker()}{os.urandom(8).hex()}"
        name, _, value = marker.partition("=")
        _have_guard()
        reading, writing = os.pipe()
        try:
            self._child = subprocess.Popen(  # 0.3 ms; asyncio's own way costs three times that
                arguments if keeper else _limited(arguments, bounds),
                cwd=folder,
                env={**environment, name: value},
                stdin=subprocess.PIPE if is_interactive else subprocess.DEVNULL,
                stdout=writing,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=keeper.descriptors if keeper else (),
            )
        except BaseException:
            os.close(reading)
            if keeper:
                keeper.close()
            raise
        finally:
            for one in (writing, *(keeper.descriptors if keeper else ())):
                os.close(one)
        if self._child.stdin:
            os.set_blocking(self._child.stdin.fileno(), False)
        self._bounds, self._keeper, self._told = bounds, keeper, b""
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[Why] = self._loop.create_future()  # why it ends, unless by itself or by a limit
        self._output = _Output(reading, spool, heard, None if is_interactive else self._over)
        self._family = _Family(self._child, marker.encode(), keeper)
        disks = (str(folder), *(keeper.disks if keeper else ()))
        self._least = {one: min(RESERVE_BYTES, free // 2) for one in disks if (free := _free(one)) is not None}
        if keeper:
            self._loop.add_reader(keeper.report, self._hear)

    async def run(self, timeout_seconds: float | None = None) -> Exit:
        """The end of it; whatever happens, cancellation too, the whole family is gone then."""
        output, keeper, remark = self._output, self._keeper, ""
        try:
            why = await self._wait(timeout_seconds)
            left_behind = await self._family.end(0 if why in ("processes", "memory") else _GRACE_SECONDS)
            output.drain()
        except BaseException:
            await self._family.end_for_sure(_GRACE_WHEN_CANCELLED)
            raise
        finally:
            self.end_input()
            output.close()
            if keeper:
                self._hear()
                self._loop.remove_reader(keeper.report)
                keeper.close()
                remark = keeper.put_back()
        dropped = max(0, output.total - len(output.head) - len(output.tail))
        status = -signal.SIGKILL if self._child.returncode is None else self._child.returncode
        ended = Exit(why, status, bytes(output.head), bytes(output.tail), dropped, left_behind, remark)
        return _as_told(ended, self._told) if keeper and why == "exited" else ended

    def _hear(self) -> None:
        assert self._keeper
        if said := self._keeper.read():
            self._told += said
            self._told = self._told[:1] + self._told[1:][-_MOST_TOLD:]
            if self._told.endswith(b" left\n"):
                self._end("exited")
        else:
            self._loop.remove_reader(self._keeper.report)

    def stop(self) -> None:
        """Have it ended."""
        self._end("stopped")

    def _end(self, why: Why) -> None:
        if not self._over.done():
            self._over.set_result(why)

    def write(self, data: bytes) -> int:
        """Write to its input what it has room for; how much. Raises OSError if it takes no more."""
        assert self._child.stdin
        try:
            return os.write(self._child.stdin.fileno(), data)
        except BlockingIOError:
            return 0
        except ValueError:  # closed
            raise BrokenPipeError("its input has ended") from None

    def end_input(self) -> None:
        if self._child.stdin:
            self._child.stdin.close()

    async def _wait(self, timeout_seconds: float | None) -> Why:
        exited, watched = asyncio.ensure_future(_exit_of(self._child)), asyncio.ensure_future(self._watch())
        waits: tuple[asyncio.Future[Any], ...] = (exited, watched, self._over)
        try:
            await asyncio.wait(waits, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
            why: Why = "timeout"
            if watched.done():
                why = watched.result()
            if self._over.done():
                why = self._over.result()
            if exited.done() or why == "exited":
                why = "exited"
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._output.ended.wait(), _AFTER_EXIT_SECONDS)
            return why
        finally:
            exited.cancel()
            watched.cancel()

    async def _watch(self) -> Why:
        """Look many times a second whether there is more than there may be, and have all counted when so many began
        since the last time that they could be too many, or now and then."""
        bounds, pause, due, room, newest = self._bounds, _FIRST_SCAN_SECONDS, 0.0, 0, 0
        if bounds is None or not _has_proc():
            await asyncio.Event().wait()
        assert bounds
        shared, own = _shared(), self._keeper.own if self._keeper else 0
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if any((free := _free(one)) is not None and free < least for one, least in self._least.items()):
                return "disk"
            now, latest = time.monotonic(), _newest()
            if now < due and 0 <= latest - newest < room:
                continue
            pause = min(_SCAN_SECONDS, pause * 1.5)
            found, due, newest = self._family.scan(), now + pause, latest
            threads = sum(one.threads for one in found.values())
            room = min(bounds.processes - len(found), _THREADS_EACH * bounds.processes - threads) + own
            if room < 0:
                return "processes"
            # what forks share counts in each of them: the dear count is made only where the cheap one is too much
            cheap = sum(one.pages for one in found.values()) * _PAGE
            if cheap > bounds.memory_bytes and _memory(found) > bounds.memory_bytes:
                return "memory"
            if _shared() - shared > max(bounds.memory_bytes, _MOST_SHARED):
                return "memory"


def _as_told(ended: Exit, told: bytes) -> Exit:
    """The end of a command as its keeper told it."""
    if told[:1] != b"+":
        return ended._replace(why="not begun", head=told[1:] or ended.head or b"its keeper was gone")
    said = told[1:].rstrip().rpartition(b"\n")[2].split()  # nothing where somebody has ended the keeper
    return ended._replace(status=int(said[0]) if said and said[0].strip(b"-").isdigit() else -signal.SIGKILL)


def _marker() -> str:
    """The beginning of what is in the environment of each command: which program runs it. The time at which that began
    is part of it, as numbers of processes come again."""
    began = "0"
    with contextlib.suppress(OSError, IndexError):
        began = _stat(os.getpid())[_BEGAN].decode()
    return f"NANOCLAW_RUN={os.getpid()}.{began}."


_MOST_TOLD = 4_096
_GRACE_SECONDS = 0.5  # between TERM and KILL
_GRACE_WHEN_CANCELLED = 0.3
_AFTER_EXIT_SECONDS = 0.3  # how long output of a child's child is waited for once the child is gone
_FREEZE_ROUNDS = 50
_LOOK_SECONDS = 0.05  # in which a gigabyte can be reserved (fallocate), or a thousand threads begun
_FIRST_SCAN_SECONDS, _SCAN_SECONDS = 0.05, 0.5
_THREADS_EACH = 4
_PARENT, _GROUP, _SESSION, _THREADS = 1, 2, 3, 17  # fields of /proc/PID/stat, counted from the state
_BEGAN, _SIZE, _RSS, _ENVIRONMENT_END = 19, 20, 21, 48
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST_SHARED = _PAGE * os.sysconf("SC_PHYS_PAGES") // 2
"""Memory that is no process's own, such as files in memory: who made it can't be asked, so what the whole machine has
more of it counts, but only where it is half of all."""
_LONG_RUN_SECONDS = 5.0  # after that pids may have wrapped around, and the price of a full look no longer matters
RESERVE_BYTES = 500_000_000
"""Free space of a disk that no command takes, if there was twice as much. Who takes it isn't asked."""


def _free(folder: str) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None  # it isn't there
    return found.f_bavail * found.f_frsize


async def _exit_of(child: subprocess.Popen[bytes]) -> None:
    """Wait for the exit of a child, which is not collected by this where that can be."""
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


def _exit_status(child: subprocess.Popen[bytes]) -> int | None:
    """That of one that has exited, else None. It is not collected by this: as long as it isn't, its number and that of
    its group are nobody else's."""
    if child.returncode is not None or not _has_proc():  # its group is looked at by its number alone: it goes with it
        return child.poll()
    ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return ended.si_status if ended else None


class _Output:
    """The first and the last bytes that a pipe delivers, and how many there were."""

    def __init__(
        self,
        descriptor: int,
        spool: Callable[[bytes], None],
        heard: Callable[[bytes], None],
        over: asyncio.Future[Why] | None,
    ) -> None:
        """`over` is told of a flood; None: it may be as much as it likes."""
        self._spool, self._spools, self._heard, self._over = spool, False, heard, over
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0
        self.ended = asyncio.Event()
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
        if self._over and self.total > FLOOD_BYTES and not self._over.done():
            self._over.set_result("flood")
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


class _Member(NamedTuple):
    parent: int
    group: int
    threads: int
    pages: int  # of memory
    is_living: bool  # else nobody has collected it


class _Family:
    """A child and all that came from it."""

    def __init__(self, child: subprocess.Popen[bytes], marker: bytes, keeper: Keeper | None) -> None:
        """A keeper isn't asked to end: with it all that it keeps would be gone at once."""
        self._child = child
        self._marker, self._keeper = marker, keeper
        self._started = time.monotonic()
        self._known: set[int] = set()
        self._last: dict[int, _Member] = {}
        self._others: set[tuple[int, bytes]] = set()

    def scan(self) -> dict[int, _Member]:
        """All of them, the child too."""
        found = _descendants(self._child.pid, self._marker, self._first(), self._known, self._others)
        self._known |= {pid for pid, one in found.items() if one.is_living}
        return found

    async def end(self, grace_seconds: float) -> int:
        """TERM, then KILL what is still there, at once without a grace; the number of processes besides the child that
        had to go."""
        keeper = self._keeper
        ended = _exit_status(self._child)
        is_last = keeper and ended is not None and (keeper.is_namespace or (keeper.own and ended == 0))
        if is_last or not (frozen := self._freeze()):
            self._child.poll()
            return 0
        own = keeper.own - 1 if keeper else 0
        others = len(frozen - {self._child.pid}) - own or int(_exit_status(self._child) is not None)
        if grace_seconds:
            self._signal(frozen, signal.SIGTERM)
            self._signal(frozen, signal.SIGCONT)
        deadline = time.monotonic() + grace_seconds
        pause = 0.005
        while len(alive := self._alive()) > own + bool(keeper) and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(0.05, pause * 2)
        while alive:
            self._signal(self._freeze(), signal.SIGKILL)
            await asyncio.sleep(0.005)
            before, alive = alive, self._alive()
            if len(alive) < len(before):  # a thousand die one by one where others have the cores
                deadline = time.monotonic()
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
        """Stop them all before any is ended: the children of one that forks and dies in between would get lost. Those
        of a namespace can't, and end with its first process."""
        if self._keeper and self._keeper.is_namespace:
            return self._alive()
        frozen: set[int] = set()
        self._signal(frozen, signal.SIGSTOP)  # the group at once: no fork escapes that
        for _ in range(_FREEZE_ROUNDS):
            fresh = self._alive() - frozen
            if not fresh:
                break
            self._signal(fresh, signal.SIGSTOP)
            frozen |= fresh
        return frozen

    def _alive(self) -> set[int]:
        child = {self._child.pid} if _exit_status(self._child) is None else set[int]()
        if not _has_proc():
            return child or ({self._child.pid} if _group_exists(self._child.pid) else set())
        found = _descendants(self._child.pid, self._marker, 1 if child else self._first(), self._known)
        self._last = {pid: one for pid, one in found.items() if one.is_living}
        self._known |= self._last.keys()
        return child | self._last.keys()

    def _first(self) -> int:
        """The pid from which on a look is enough: the child's, as long as pids only rose since its start."""
        is_short = time.monotonic() - self._started < _LONG_RUN_SECONDS
        return self._child.pid if is_short and _newest() >= self._child.pid else 1

    def _signal(self, pids: set[int], number: signal.Signals) -> None:
        """To all of them, by groups where that can be: no fork escapes that. A keeper ends when nobody else is left."""
        child, keeper, groups = self._child.pid, self._keeper, set[int]()
        if keeper and _has_proc():
            below = {pid: one for pid, one in self._last.items() if pid in pids and pid != child}
            if number == signal.SIGKILL and keeper.is_namespace:
                below = {pid: one for pid, one in below.items() if one.parent == child}
            if not keeper.is_namespace:
                groups = {one.group for one in below.values()} - {child}
            pids = set(below) or (pids if number == signal.SIGKILL else set())
        elif self._child.returncode is None or not _has_proc():  # later the number may be another group's
            groups = {child}
        for call, many in ((os.killpg, groups), (os.kill, pids)):
            for one in many:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    call(one, number)


def _has_proc() -> bool:
    return sys.platform == "linux" and os.access("/proc/self/environ", os.R_OK)


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _descendants(
    child: int, marker: bytes, first: int, known: set[int], others: set[tuple[int, bytes]] | None = None
) -> dict[int, _Member]:
    """Processes, known ones or such as carry the marker, belong to the child's session, or come from these; and the
    child, unless only later ones are looked at. `others` are those that earlier looks found to be none."""
    all_: dict[int, _Member] = {}
    found, seen = known | {child}, set[tuple[int, bytes]]()
    for name in os.listdir("/proc"):  # noqa: PTH208  (names only, no Path for each process)
        if not name.isdigit() or int(name) < first:
            continue
        pid = int(name)
        try:
            fields = _stat(pid)
            is_living = fields[0] not in b"ZX"
            parent, group, threads, pages = (int(fields[one]) for one in (_PARENT, _GROUP, _THREADS, _RSS))
            all_[pid] = _Member(parent, group, threads, pages, is_living)
            began = (pid, fields[_BEGAN])
            if int(fields[_SESSION]) == child:
                found.add(pid)
            elif not is_living or (others and began in others) or marker not in _environment(pid):
                seen.add(began)
            else:
                found.add(pid)
        except (OSError, IndexError):
            continue  # gone meanwhile, or another user's
    grown = True
    while grown:
        more = {pid for pid, one in all_.items() if pid not in found and one.parent in found}
        found |= more
        grown = bool(more)
    if others is not None:
        others.clear()
        others |= seen
    return {pid: all_[pid] for pid in found & all_.keys()}


def _environment(pid: int) -> bytes:
    """That of a process. While it begins another program it has none for a moment, which is waited for."""
    for _ in range(100):
        fields = _stat(pid)
        if (found := _read(f"/proc/{pid}/environ")) or fields[_SIZE] == b"0" or fields[_ENVIRONMENT_END] != b"0":
            break
        time.sleep(0.001)
    return found


def _stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat from the state on."""
    return _read(f"/proc/{pid}/stat").rsplit(b")", 1)[1].split()


def _memory(found: Mapping[int, _Member]) -> int:
    """Bytes of memory that processes use together: a page that several share counts once, except a process that lets
    nobody look."""
    total = 0
    for pid, one in found.items():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # gone meanwhile
            try:
                total += int(_read(f"/proc/{pid}/smaps_rollup").split(b"\nPss:", 1)[1].split()[0]) * 1024
            except (PermissionError, IndexError):
                total += one.pages * _PAGE
    return total


def _newest() -> int:
    """The number of the process or thread that began last on this machine; 0 where that is not told."""
    try:
        return int(_read("/proc/loadavg").rsplit(None, 1)[1])
    except (OSError, ValueError, IndexError):
        return 0


def _shared() -> int:
    """Bytes of memory on this machine that are no process's own."""
    try:
        return int(_read("/proc/meminfo").split(b"\nShmem:", 1)[1].split()[0]) * 1024
    except (OSError, IndexError):
        return 0


# --- a limit of the kernel, and the end of this program --------------------------------------------------------------


def _limited(arguments: Sequence[str], bounds: Bounds | None) -> Sequence[str]:
    """A shell in front sets the limit of file sizes for all that follows: set from here it might come too late."""
    if bounds is None:
        return arguments
    return ("/bin/sh", "-c", 'ulimit -f "$0" 2>/dev/null; exec "$@"', str(bounds.file_bytes // 512), *arguments)


_guards: dict[int, subprocess.Popen[bytes]] = {}
"""The guard of this process, by its number: a fork has none yet."""

_ENVIRONMENTS = (
    'grep -lasF "$1" /proc/[0-9]*/environ | cut -d / -f 3'
    if sys.platform == "linux"
    else """ps -axwwE -o pid=,command= | grep -F "$1" | awk '{ print $1 }'"""
)
_GUARD = f"""
read -r _
sleep 1
for pid in $({_ENVIRONMENTS}); do
  [ "$pid" = $$ ] || kill -s KILL -- "-$pid" "$pid"
done
"""
"""A shell that waits until the pipe breaks: whoever held it is gone, by kill -9 too. It ends what has his marker, and
the groups of that; keepers have ended what is theirs by then."""


def _have_guard() -> None:
    guard = _guards.get(os.getpid())
    if guard and guard.poll() is None:
        return
    if guard and guard.stdin:  # somebody has ended it
        guard.stdin.close()
    _guards[os.getpid()] = subprocess.Popen(
        ("/bin/sh", "-c", _GUARD, "sh", _marker()),
        cwd="/",
        env={"PATH": os.defpath},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 1_000_000)
    finally:
        os.close(descriptor)
