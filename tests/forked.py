"""Programs as processes of their own, forked from one that has imported them: `python -m tests.forked FD WARM`.

Tests start some hundred programs; fresh interpreters would spend three times what these need on imports. What is forked
is a process like any other, with its own environment, streams and session. Each process that runs tests has one such
server, from its first program to its own end, and tests whose programs need more have another; only the server waits
for what it forked and says how it ended.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import gc
import json
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from threading import Lock
from typing import Any, AnyStr

import nanoclaw
from nanoclaw import clock, log
from nanoclaw.providers.scripted import ScriptedProvider
from tests.virtual_time import PACE

REPOSITORY = Path(__file__).parents[1]
KEPT = ("PATH", "LANG", "TMPDIR")
PROGRAM = "nanoclaw.__main__:main"

LIBRARIES = (
    *("loguru", "anyio._backends._asyncio", "httpx", "yaml", "tomlkit", "tomllib", "ctypes", "dateutil.parser"),
    *("dateutil.relativedelta", "croniter", "prompt_toolkit", "rich.console", "importlib.metadata"),
    *("PIL.BmpImagePlugin", "PIL.GifImagePlugin", "PIL.JpegImagePlugin", "PIL.PngImagePlugin", "PIL.PpmImagePlugin"),
)
"""What programs import late."""
LARGE = ("nanoclaw.channels.matrix.", "nanoclaw.plugins.mcp.judged", "nanoclaw.plugins.mcp.oauth")
"""Modules whose libraries are as large as all the rest, and that few programs need."""


def can_be_forked(environment: Mapping[str, str]) -> bool:
    """Whether the interpreter of the server was started with the same settings as one with this environment is."""
    own = {name: value for name, value in environment.items() if name.startswith(("PYTHON", "LANG", "LC_"))}
    own.pop("PYTHON_KEYRING_BACKEND", None)  # which a library reads
    return own == {name: value for name, value in os.environ.items() if name == "LANG"}


class Forked(subprocess.Popen[AnyStr]):
    """A process that calls `target`, a "module:function", with these arguments; its environment is `env`.

    With `terminal` it leads a session whose terminal is its stdin. Its pauses last `pace` times as long as the
    product's. `server` is what forks it, if not the usual one.
    """

    def __init__(
        self,
        target: str,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path = REPOSITORY,
        terminal: bool = False,
        pace: float = PACE,
        server: Server | None = None,
        **streams: Any,
    ) -> None:
        self._server = server or _server
        self._asked = {"target": target, "terminal": terminal, "pace": pace}
        self._told: socket.socket
        super().__init__([target, *arguments], env=env, cwd=cwd, **streams)

    def _execute_child(self, args: list[str], *given: Any) -> None:  # the one place where Popen starts a process
        cwd, env, pipes = given[4], given[5], given[9:15]
        theirs = [number if there == -1 else there for number, there in enumerate((pipes[0], pipes[3], pipes[5]))]
        self._told, other = socket.socketpair()
        with other:
            self._server.ask(*theirs, other.fileno())
        asked = {**self._asked, "arguments": args[1:], "environment": dict(env), "cwd": str(cwd)}
        self._told.sendall(json.dumps(asked).encode())
        self._told.shutdown(socket.SHUT_WR)
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self._answers = self._told.makefile("r")
        self.pid = int(self._answers.readline())
        self._child_created = True

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self._wait(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is not None:
            return self.returncode
        ended = select.poll()
        ended.register(self._told, select.POLLIN)
        if not ended.poll(None if timeout is None else timeout * 1000):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                self.returncode = int(self._answers.readline())
                self._answers.close()
                self._told.close()
        return self.returncode


class Server:
    """The process that forks, from outside. It calls `warm`, a "module:function", before the first fork, and has
    these variables beside the usual ones."""

    def __init__(self, warm: str = f"{__name__}:make_ready", **variables: str) -> None:
        self._warm, self.variables = warm, variables
        self._lock = Lock()
        self._socket: socket.socket | None = None

    def ask(self, *descriptors: int) -> None:
        """Hand over the three streams of a process, and the socket that says which one it is to be."""
        with self._lock:
            self._socket = self._socket or self._start()
            socket.send_fds(self._socket, [b"."], descriptors)

    def close(self) -> None:
        if self._socket:
            self._socket.close()
            self._process.wait(30)
            self._socket = None

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno()), self._warm],
                pass_fds=[theirs.fileno()],
                cwd=REPOSITORY,
                env={name: os.environ[name] for name in os.environ if name in KEPT} | self.variables,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for who runs the tests
            )
        atexit.register(self.close)
        return ours


_server = Server()


def _serve(control: socket.socket) -> Any:
    """Fork for each process that is asked for. Returns what is asked of it, in that process."""
    living: dict[int, socket.socket] = {}
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    waiting = select.poll()
    waiting.register(control, select.POLLIN)
    waiting.register(woken, select.POLLIN)
    while True:
        ready = [one for one, _ in waiting.poll()]
        if woken in ready:
            os.read(woken, 4096)
            _tell_ends(living)
        if control.fileno() not in ready:
            continue
        _, theirs, _, _ = socket.recv_fds(control, 1, 4)
        if not theirs:
            sys.exit()
        teller = socket.socket(fileno=theirs[3])
        with teller.makefile("rb") as request:
            asked = json.load(request)
        child = os.fork()
        if not child:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for one in (control, teller, *living.values()):
                one.detach()
            _become(asked, theirs[:3])
            return asked
        for descriptor in theirs[:3]:
            os.close(descriptor)
        living[child] = teller
        with suppress(BrokenPipeError):
            teller.sendall(f"{child}\n".encode())


def _tell_ends(living: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):  # there is none
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            with living.pop(found[0]) as teller, suppress(BrokenPipeError):
                teller.sendall(f"{os.waitstatus_to_exitcode(found[1])}\n".encode())


def _become(asked: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Make this process what a fresh one would be."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, max(int(one.name) for one in Path("/dev/fd").iterdir()) + 1)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, f"__{name}__")
        mode, buffering = ("r", -1) if not number else ("w", 1 if number == 2 else -1)
        new = open(number, mode, buffering, old.encoding, old.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    if asked["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()


def make_ready() -> None:
    """Import all, and talk once here, so that what each program makes until its first answer is made."""
    for name in (*LIBRARIES, *(one.name for one in walk_packages(nanoclaw.__path__, "nanoclaw."))):
        if not name.startswith(LARGE):
            import_module(name)
    start = log._set_up
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_talk(Path(folder)))
    log._set_up, tempfile.tempdir = start, None
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def _talk(home: Path) -> None:
    from tests.program import running

    async with running(home, ScriptedProvider("hello")) as program:
        await program.ask("hello")


def _call(target: str, *arguments: str) -> Any:
    name, _, function = target.partition(":")
    module = import_module(name)
    sys.argv = [str(module.__file__), *arguments]
    return getattr(module, function)()


def _end(status: object) -> None:
    """End as an interpreter does, without taking apart all that was imported: for that most would need longer than for
    all else that they do."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if status is None or isinstance(status, int):
        with suppress(OSError, ValueError):  # which an interpreter tells in its own way
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit((status or 0) & 0xFF)
    sys.exit(status)  # type: ignore[arg-type]


if __name__ == "__main__":
    control = socket.socket(fileno=int(sys.argv[1]))
    _call(sys.argv[2])
    gc.collect()
    gc.freeze()  # what all have is not looked through in each
    assert threading.active_count() == 1, "a lock that another thread holds would never be given back in a fork"
    asked = _serve(control)
    clock.set_pace(asked["pace"])
    try:
        status = _call(asked["target"], *asked["arguments"])
    except SystemExit as end:
        status = end.code
    _end(status)
