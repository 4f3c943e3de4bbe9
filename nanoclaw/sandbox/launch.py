"""The first process within a sandbox: `launch.main`, started with an interpreter of its own for each command.

Confines its child, which becomes the command, by what is still missing (limits; Landlock and seccomp where no bwrap has
done it), collects every process that comes from it, and ends what it leaves. Its arguments are two descriptors and the
command. REPORT gets "+" when the command begins, then its wait status, how many processes it left, and the limit for
which all of it was ended; "!" and a sentence where it could not begin. TASK has what is to be done, marshalled.
"""

import _signal  # type: ignore[import-not-found]
import marshal
import posix  # `os` and `signal` would cost as much as all that is done here
import resource
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Iterable
    from typing import NoReturn, TypedDict

    class Task(TypedDict):
        limits: list[tuple[int, int]]  # of each process, by their numbers
        tasks: tuple[int, int]  # processes of the command, and threads of all
        disks: list[str]  # folders on the disks that it may fill
        rules: list[tuple[str, int]] | None  # of Landlock; None where bwrap has done that
        seccomp: bytes  # a filter that asks about attributes; b"" where they are safe
        folders: list[str]  # in which they may be changed
        relay: str  # a socket that connections to `port` are handed on to, or ""
        port: int
else:
    Task = dict  # `typing` would be half of the start


GRACE_SECONDS = 0.5
_PARENT_GONE = _signal.SIGRTMAX
LOOK_SECONDS = 0.05  # in which a gigabyte can be reserved (fallocate), or a thousand threads begun
BELOW = 10  # steps of priority: a thousand processes of a command let this one, and the program, have their turn


def main() -> "NoReturn":
    report, command = int(sys.argv[1]), sys.argv[3:]
    with open(int(sys.argv[2]), "rb") as file:
        task: Task = marshal.load(file)
    posix.set_inheritable(report, False)
    posix.closerange(3, report)  # whatever bwrap needed leads out
    posix.closerange(report + 1, 4096)
    _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)  # it is for the command
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # Python's own would end this when the command sends one
    relay, child, asking, passed = 0, 0, None, list[str]()
    try:
        keep_to_itself()
        if task["rules"] is not None:
            from nanoclaw.sandbox import landlock

            _signal.signal(_PARENT_GONE, lambda number, frame: kill_all(child))
            landlock.keep_orphans(_PARENT_GONE)
        if task["seccomp"]:
            import _socket

            from nanoclaw.sandbox import attributes, landlock  # noqa: F401  (for both, before there are two)

            hearing, asking = _socket.socketpair()
        if task["relay"]:
            from nanoclaw.sandbox.relay import start

            relay = start(task["relay"], task["port"])
        child = posix.fork()
    except OSError as error:
        _tell(report, b"!" + (error.strerror or str(error)).encode())
        posix._exit(1)
    if child == 0:
        become(command, task, report, asking)
    if asking:
        import _thread

        asking.close()
        _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGALRM})  # it is for this thread
        _thread.start_new_thread(answer, (hearing, task))
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {_signal.SIGALRM})
    watch(task, child, relay, passed)
    status = wait_for(child)
    if relay:
        send({relay}, _signal.SIGKILL)
    _tell(report, b"%d %d %s\n" % (status, end_all(relay), "".join(passed[:1]).encode()))
    posix._exit(0)


def keep_to_itself() -> None:
    """Let nobody with the same user look into this process, or take its descriptors: on one of them it reports. What
    is executed later may be looked into again. Raises OSError."""
    import _ctypes  # `ctypes` would cost seven times that

    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
    if _ctypes.call_function(prctl, (_SET_DUMPABLE, 0, 0, 0, 0)) or _ctypes.call_function(
        prctl, (_GET_DUMPABLE, 0, 0, 0, 0)
    ):
        raise OSError(1, "others could look into it")


_GET_DUMPABLE, _SET_DUMPABLE = 3, 4


def answer(hearing: "socket", task: "Task") -> None:
    """Change for the command what it may change, as long as it or anything of it lives."""
    from nanoclaw.sandbox import attributes

    _, sent, _, _ = hearing.recvmsg(1, 64)
    if not sent:
        return  # it could not begin
    listener = int.from_bytes(sent[0][2][:4], sys.byteorder)
    try:
        attributes.serve(listener, task["folders"])
    finally:
        posix.close(listener)  # from now on all of it is refused by the kernel


def watch(task: "Task", child: int, relay: int, passed: list[str]) -> None:
    """Check many times a second how much the command uses, and end it if that is too much."""
    from nanoclaw.sandbox import limits

    is_first = posix.getpid() == 1
    tasks = limits.Tasks(
        *task["tasks"],
        lambda: (all_others() if is_first else descendants()) - {relay},
        lambda number: send({-1 if is_first else -child}, number),
    )
    disk = limits.Disk(task["disks"])

    def look(number: int, frame: object) -> None:
        if tasks.are_too_many():
            passed.append("processes")
        elif disk.is_full():
            passed.append("disk")
        if passed:
            kill_all(child)
            return
        _signal.setitimer(_signal.ITIMER_REAL, LOOK_SECONDS)

    _signal.signal(_signal.SIGALRM, look)
    _signal.setitimer(_signal.ITIMER_REAL, LOOK_SECONDS)


def become(command: list[str], task: "Task", report: int, asking: "socket | None") -> "NoReturn":
    try:
        posix.setpgid(0, 0)
        posix.nice(BELOW)
        for number in (_signal.SIGTERM, _signal.SIGPIPE, _signal.SIGXFSZ):  # Python ignores the last two
            _signal.signal(number, _signal.SIG_DFL)
        for kind, most in task["limits"]:
            _, hard = resource.getrlimit(kind)
            if hard == resource.RLIM_INFINITY or most < hard:
                resource.setrlimit(kind, (most, most))
        if task["rules"] is not None:
            from nanoclaw.sandbox import landlock

            landlock.confine(task["rules"])
        if asking:
            from nanoclaw.sandbox import landlock

            listener = landlock.listen(task["seccomp"])
            asking.sendmsg([b"+"], [(1, 1, listener.to_bytes(4, sys.byteorder))])  # SOL_SOCKET, SCM_RIGHTS
        _tell(report, b"+")
        posix.execv(command[0], command)
    except BaseException as error:
        _tell(report, b"!" + str(getattr(error, "strerror", "") or error).encode())
    posix._exit(127)


def wait_for(child: int) -> int:
    """The wait status of a child; what else ends is collected."""
    while True:
        pid, status = posix.waitpid(-1, 0)
        if pid == child:
            return status


def end_all(ended: int) -> int:
    """End what is left of the command, TERM first; how many there were, without one that has been."""
    if not collect():
        return 0
    left = descendants(living=True) - {ended}
    send(left, _signal.SIGTERM)
    send(left, _signal.SIGCONT)
    deadline, pause = time.monotonic() + GRACE_SECONDS, 0.001
    while collect() and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(0.02, pause * 2)
    while posix.getpid() != 1 and collect():  # the end of number 1 is the end of all
        send(descendants(living=True), _signal.SIGSTOP)
        send(descendants(living=True), _signal.SIGKILL)
        time.sleep(0.002)
    return len(left)


def kill_all(child: int) -> None:
    """End the command and what came from it at once; they are collected elsewhere. No fork escapes a signal to all, or
    to a group, and nobody who is stopped begins another."""
    if posix.getpid() == 1:
        send({-1}, _signal.SIGKILL)  # all but itself
        return
    send({-child} if child else (), _signal.SIGKILL)
    stopped = set[int]()
    while left := descendants(living=True):
        begun = left - stopped
        send(begun or left, _signal.SIGSTOP if begun else _signal.SIGKILL)
        stopped |= begun
        time.sleep(0 if begun else 0.002)


def collect() -> bool:
    """Take note of those that have ended; False when there are no more."""
    try:
        while posix.waitpid(-1, posix.WNOHANG)[0]:
            pass
        return True
    except ChildProcessError:
        return False


def all_others() -> set[int]:
    """Processes of a namespace beside its first one. Much cheaper than to ask each where it comes from."""
    return {int(name) for name in posix.listdir("/proc") if name.isdigit() and name != "1"}


def descendants(*, living: bool = False) -> set[int]:
    """Processes that came from this one: orphans are its children."""
    parents: dict[int, int] = {}
    for name in posix.listdir("/proc"):
        if name.isdigit() and (fields := stat(int(name))) and not (living and fields[0] in b"ZX"):
            parents[int(name)] = int(fields[1])
    found, grown = {posix.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found and pid not in found}
        found |= more
        grown = bool(more)
    return found - {posix.getpid()}


def stat(pid: int) -> list[bytes]:
    """Fields of /proc/PID/stat from the state on; none of a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def send(pids: "Iterable[int]", number: int) -> None:
    for pid in pids:
        try:  # noqa: SIM105  (contextlib is dear at a start)
            posix.kill(pid, number)
        except OSError:
            pass


def _tell(report: int, said: bytes) -> None:
    try:  # noqa: SIM105
        posix.write(report, said)
    except OSError:
        pass  # nobody listens any more
