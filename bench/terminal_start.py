"""A chat in a real terminal (a pty): what it costs to the prompt, and from Enter to the first request."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from measure import cpu_of
from model_server import ModelServer

QUIET_SECONDS = 1.0
"""Without output and with no more than a little CPU in this time, it waits for the person."""

LONGEST_SECONDS = 60.0
ASK_POSITION, POSITION = b"\x1b[6n", b"\x1b[1;1R"


@dataclass(frozen=True, slots=True)
class Start:
    """CPU and wall seconds: from the start to the prompt, and from Enter to the first request."""

    prompt_cpu: float
    prompt_wall: float
    enter_cpu: float
    enter_wall: float


def measure_start(command: Sequence[str], env: dict[str, str], server: ModelServer) -> Start:
    """Start it, wait until it waits, say hi, and end it when the request is there."""
    server.script()
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        env={**env, "TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    arrived: list[tuple[float, float]] = []
    server.on_request = lambda: arrived.append((cpu_of(process.pid), time.monotonic()))
    try:
        prompt_cpu, drawn = _until_quiet(master, process.pid)
        os.write(master, b"hi")
        _until_quiet(master, process.pid)
        entered_cpu, entered = cpu_of(process.pid), time.monotonic()
        os.write(master, b"\r")
        _read(master, lambda: bool(arrived))
        cpu, now = arrived[0]
        _until_quiet(master, process.pid)  # the answer has come: nothing is left for the next start to make good
        return Start(prompt_cpu, drawn - started, cpu - entered_cpu, now - entered)
    finally:
        server.on_request = lambda: None
        process.kill()
        process.wait()
        os.close(master)


def _until_quiet(master: int, pid: int) -> tuple[float, float]:
    """Wait for a person's turn; returns what was used when the last output came, and when that was."""
    last = (cpu_of(pid), time.monotonic())
    cpu, at = last

    def quiet() -> bool:
        nonlocal cpu, at
        if time.monotonic() - max(at, last[1]) < QUIET_SECONDS:
            return False
        used, cpu, at = cpu_of(pid) - cpu, cpu_of(pid), time.monotonic()
        return used < 0.01

    def heard() -> None:
        nonlocal last
        last = (cpu_of(pid), time.monotonic())

    _read(master, quiet, heard)
    return last


def _read(master: int, done: Callable[[], bool], heard: Callable[[], None] = lambda: None) -> None:
    """Read the screen, as a terminal does, until `done`."""
    limit = time.monotonic() + LONGEST_SECONDS
    seen = b""
    while not done():
        if time.monotonic() > limit:
            raise RuntimeError(f"nothing came in {LONGEST_SECONDS:g} s. The screen:\n{seen.decode(errors='replace')}")
        if select.select([master], [], [], 0.01)[0]:
            try:
                data = os.read(master, 65536)
            except OSError as error:
                raise RuntimeError(f"it ended. The screen:\n{seen.decode(errors='replace')}") from error
            seen += data
            if ASK_POSITION in data:
                os.write(master, POSITION)
            heard()
