"""The first process of a command that Landlock encloses: `launch.main`, with an interpreter of its own.

It confines its child, which becomes the command, and takes over every orphan, so that all that comes from the command
is below it; whoever started it ends that. Its arguments are two descriptors and the command. REPORT gets what a keeper
tells (see `spawn`). TASK has what is to be done, marshalled: limits of each process by the kernel's numbers, rules of
Landlock, a filter of seccomp that asks about attributes (b"" for none), and the folders in which they may be changed.
"""

import _signal  # type: ignore[import-not-found]
import _thread
import marshal
import posix  # `os` and `signal` would cost as much as all that is done here
import resource
import sys

from nanoclaw.sandbox import landlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn  # it would be half of the start

_PARENT_GONE = _signal.SIGRTMAX
BELOW = 10  # steps of priority: a thousand processes of a command let the program have its turn


def main() -> "NoReturn":
    report, command = int(sys.argv[1]), sys.argv[3:]
    with open(int(sys.argv[2]), "rb") as file:
        limits, rules, seccomp, folders = marshal.load(file)
    posix.set_inheritable(report, False)
    _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)  # it is for the command
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # Python's own would end this when the command sends one
    child, asked, listeners = 0, _thread.allocate_lock(), list[int]()
    try:
        _signal.signal(_PARENT_GONE, lambda number, frame: _end_all(child))
        landlock.keep_orphans(_PARENT_GONE)
        if seccomp:
            asked.acquire()
            _thread.start_new_thread(_answer, (asked, listeners, folders))  # the filter isn't for this thread
            listeners.append(landlock.listen(seccomp))
        child = posix.fork()
    except OSError as error:
        _tell(report, b"!" + (error.strerror or str(error)).encode())
        posix._exit(1)
    if child == 0:
        _become(command, limits, rules, report)
    if listeners:
        asked.release()  # only now: it must hold nothing while this forks
    pid = status = 0
    while pid != child:
        pid, status = posix.waitpid(-1, 0)
    ended = b"\n%d" % posix.waitstatus_to_exitcode(status)
    try:
        while posix.waitpid(-1, posix.WNOHANG)[0]:
            pass
        _tell(report, ended + b" left\n")
        while True:
            posix.waitpid(-1, 0)
    except ChildProcessError:
        _tell(report, ended + b"\n")
    posix._exit(0)


def _become(command: list[str], limits: list[tuple[int, int]], rules: list[tuple[str, int]], report: int) -> "NoReturn":
    try:
        posix.setpgid(0, 0)
        posix.nice(BELOW)
        for number in (_signal.SIGTERM, _signal.SIGPIPE, _signal.SIGXFSZ):  # Python ignores the last two
            _signal.signal(number, _signal.SIG_DFL)
        for kind, most in limits:
            _, hard = resource.getrlimit(kind)
            if hard == resource.RLIM_INFINITY or most < hard:
                resource.setrlimit(kind, (most, most))
        landlock.confine(rules)
        _tell(report, b"+")
        posix.execv(command[0], command)
    except BaseException as error:
        _tell(report, b"!" + str(getattr(error, "strerror", "") or error).encode())
    posix._exit(127)


def _answer(asked: "_thread.LockType", listeners: list[int], folders: list[str]) -> None:
    """Have attributes changed, as long as the command or anything of it lives."""
    with asked:
        posix.nice(BELOW)  # this thread
        landlock.wait_for(listeners[0])
    try:
        from nanoclaw.sandbox import attributes  # most commands change none

        attributes.serve(listeners[0], folders)
    finally:
        posix.close(listeners[0])  # from now on all of it is refused by the kernel


def _end_all(child: int) -> None:
    """End what came from this process, now that nobody else does: who loses a parent becomes a child of it."""
    _send(-child, _signal.SIGKILL)
    try:
        while True:
            for name in posix.listdir("/proc"):
                if name.isdigit() and _parent(name) == posix.getpid():
                    _send(int(name), _signal.SIGKILL)
            posix.waitpid(-1, 0)
    except ChildProcessError:
        posix._exit(1)


def _parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0  # gone meanwhile


def _send(pid: int, number: int) -> None:
    try:  # noqa: SIM105  (contextlib is dear at a start)
        posix.kill(pid, number)
    except OSError:
        pass


def _tell(report: int, said: bytes) -> None:
    try:  # noqa: SIM105
        posix.write(report, said)
    except OSError:
        pass  # nobody listens any more
