"""A process that has imported the program and is forked for each command of it: `python -m tests.journeys.warm FD`.

Some hundred commands are run to their end, each for a few hundredths of a second; a fresh interpreter for each would
spend three times that on imports. What is forked is a process like any other, with its own environment and streams.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Lock

from nanoclaw.core import clock
from tests.virtual_time import PACE

REPOSITORY = Path(__file__).parents[2]

IMPORTED = (
    *(
        f"commands.{name}"
        for name in ("talking", "jobs", "home", "memory", "showing", "heartbeat", "linking", "doctor")
    ),
    *("core.build", "channels.plain", "channels.socket.terminals", "providers.openai_compatible"),
    *("plugins.schedule.job_service", "plugins.memory.search", "time_words.parser"),
)
"""Modules that most commands need, beside those of the plugins."""


class WarmProgram:
    """The process, from outside. One command at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], data: bytes, seconds: float
    ) -> subprocess.CompletedProcess[bytes] | None:
        """Run a command to its end; None where another one runs, or where a setting is the interpreter's own."""
        if any(name.startswith("PYTHON") for name in environment) or not self._lock.acquire(blocking=False):
            return None
        try:
            return self._run(arguments, environment, data, seconds)
        finally:
            self._lock.release()

    def _run(
        self, arguments: Sequence[str], environment: Mapping[str, str], data: bytes, seconds: float
    ) -> subprocess.CompletedProcess[bytes]:
        if self._process is None:
            self._start(environment)
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        theirs = (stdin[0], stdout[1], stderr[1])
        asked = json.dumps({"arguments": list(arguments), "environment": dict(environment)}).encode()
        self._socket.settimeout(seconds)
        socket.send_fds(self._socket, [len(asked).to_bytes(4, "big")], theirs)
        self._socket.sendall(asked)
        for descriptor in theirs:
            os.close(descriptor)
        with ThreadPoolExecutor(3) as pool:
            pool.submit(_write, stdin[1], data)
            out, err = (pool.submit(_read, descriptor) for descriptor in (stdout[0], stderr[0]))
            answers = self._socket.makefile("r")
            pid = int(answers.readline())
            try:
                status = int(answers.readline())
            except TimeoutError:
                os.kill(pid, 9)
                self._end()  # it is not known any more what its next answer is about
                raise subprocess.TimeoutExpired(list(arguments), seconds) from None
        return subprocess.CompletedProcess(list(arguments), status, out.result(), err.result())

    def _start(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.journeys.warm", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=REPOSITORY,
                env={name: value for name, value in environment.items() if name in ("PATH", "LANG", "TMPDIR")},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # as those of a command are no terminals either
                stderr=subprocess.PIPE,
            )
            atexit.register(self._end)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process:
            self._socket.close()
            process.communicate(timeout=30)


def _write(descriptor: int, data: bytes) -> None:
    with open(descriptor, "wb", buffering=0) as pipe, suppress(BrokenPipeError):  # it does not read all
        pipe.write(data)


def _read(descriptor: int) -> bytes:
    with open(descriptor, "rb") as pipe:
        return pipe.read()


def _serve(connection: socket.socket) -> list[str]:
    """Fork for each command that is asked for. Returns its arguments, in the process that is to carry it out."""
    while True:
        length, theirs, _, _ = socket.recv_fds(connection, 4, 3)
        if not length:
            sys.exit()
        asked = json.loads(connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL))
        child = os.fork()
        if not child:
            connection.close()
            for number, descriptor in enumerate(theirs):
                os.dup2(descriptor, number)
                os.close(descriptor)
            os.environ.clear()
            os.environ.update(asked["environment"])
            time.tzset()
            clock.set_pace(PACE)
            return list(asked["arguments"])
        for descriptor in theirs:
            os.close(descriptor)
        connection.sendall(f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _import() -> None:
    from nanoclaw.core.build import BUILT_IN

    for name in (*(f"nanoclaw.{one}" for one in IMPORTED), *(one.partition(":")[0] for one in BUILT_IN.values())):
        import_module(name)


if __name__ == "__main__":
    _import()
    gc.collect()
    gc.freeze()  # what all have is not looked through in each
    import nanoclaw.__main__ as program

    sys.argv = [str(program.__file__), *_serve(socket.socket(fileno=int(sys.argv[1])))]
    sys.exit(program.main())
