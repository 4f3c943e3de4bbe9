"""The command `nanoclaw` as a child process, with a home of its own and a model server on loopback."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Said
from nanoclaw.start.build import build
from nanoclaw.start.config import Config
from tests.forked import KEPT, PROGRAM, Forked, can_be_forked
from tests.program import MAIN, REPOSITORY, config_of, do_without_sandbox
from tests.virtual_time import PACE

KEY = "sk-canary-7f3a9c21d84e"
SECONDS = 100.0
"""Until which what is expected must be there."""


@dataclass
class Home:
    """`environment` is all a child gets besides the path of the home; its pauses last `pace` times as long."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    pace: float = PACE
    is_forked: ClassVar[bool] = True
    """Whether what it starts is forked: no where another program starts it."""
    program: ClassVar[str] = PROGRAM

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    def configure(self, api_base: str, *, more: str = "", key: bool = True) -> None:
        self.root.mkdir(exist_ok=True)
        (self.root / "config.toml").write_text(f'[model]\nname = "openai/scripted"\napi_base = "{api_base}"\n{more}')
        do_without_sandbox(self.root / "config.toml")
        if key:
            self.environment["OPENAI_API_KEY"] = KEY

    def variables(self) -> Mapping[str, str]:
        # only what a program needs to start, so that no key or proxy of the developer's gets in
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return {**kept, "NANOCLAW_HOME": str(self.root), "HOME": str(self.root.parent), **self.environment}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "nanoclaw", *arguments]

    def run(self, *arguments: str, stdin: str | bytes | None = None, check: int | None = 0) -> Ended:
        """Run to the end; `check` is the exit status it must have."""
        data = stdin.encode() if isinstance(stdin, str) else stdin or b""
        with self.opened(*arguments, stdin=-1, stdout=-1, stderr=-1) as process:
            try:
                out, err = process.communicate(data, SECONDS)
            except BaseException:
                process.kill()
                raise
        ended = Ended(process.returncode, out.decode(), err.decode())
        if check is not None:
            assert ended.status == check, ended
        assert "Traceback" not in ended.err + ended.out, ended
        return ended

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return self.opened(*arguments, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, text=True)

    def opened(self, *arguments: str, terminal: bool = False, **streams: Any) -> subprocess.Popen[Any]:
        """The process; with `terminal` its stdin is the terminal of a session of its own."""
        variables = {**self.variables(), "TERM": "dumb"} if terminal else self.variables()
        if self.is_forked and can_be_forked(variables):
            return Forked(self.program, arguments, env=variables, terminal=terminal, pace=self.pace, **streams)
        if terminal:
            streams |= {"start_new_session": True, "preexec_fn": lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)}
        return subprocess.Popen(self.command(*arguments), env=variables, cwd=REPOSITORY, **streams)


def remind(home: Home, text: str, due: datetime, address: Address = MAIN, sender: str = "owner") -> None:
    """Set a reminder, also for a time that is over."""

    async def add() -> None:
        app = build(config_of(home.root, **home.environment), clock=lambda: due - timedelta(minutes=1))
        await app.commands.for_said("remind", Said(f"in 1 minute: {text}", address, address, sender, "owner"))
        await app.aclose()

    asyncio.run(add())


def make_owner(config: Config, channel: str, *senders: str) -> None:
    """Let accounts in as the owner's, as linking them does."""
    app = build(config, provider=())
    sql = "INSERT INTO people (channel, sender, role, name, at) VALUES (?, ?, 'owner', 'Anna', ?)"
    with app.transactions.open() as tx:
        for sender in senders:
            tx.execute(sql, channel, sender, app.clock().isoformat())
    app.store.close()


def mounted() -> int:
    """The command, which alone sees what $MOUNT mounts over its home. Runs in what is forked."""
    from nanoclaw.__main__ import run

    assert not ctypes.CDLL(None).unshare(0x20000), "no namespace of mounts"
    subprocess.run(["sh", "-ec", f"mount --make-rprivate /; {os.environ.pop('MOUNT')}"], check=True)
    return run()


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


class Running:
    """A process in a pseudo-terminal of its own without cursor movement: `say` lines, `expect` words."""

    def __init__(self, home: Home, *arguments: str, stdout: int | None = None) -> None:
        self.text = ""
        self._master, slave = pty.openpty()
        self.process = home.opened(*arguments, stdin=slave, stdout=stdout or slave, stderr=slave, terminal=True)
        os.close(slave)

    def say(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())

    def press_ctrl_c(self) -> None:
        os.write(self._master, b"\x03")

    def expect(self, what: str, times: int = 1) -> str:
        """All that it has shown, once this is part of it so many times."""
        self.match(f"(?s)(?:{re.escape(what)}.*?){{{times}}}")
        return self.text

    def match(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + SECONDS
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < deadline, f"{pattern!r} did not come:\n{self.text}"
            has_ended = self.process.poll() is not None  # asked before its last words are read
            if not self._read(0.2) and has_ended:
                raise AssertionError(f"it ended without {pattern!r}:\n{self.text}")
        return found

    def ended(self) -> int:
        while (status := self.process.poll()) is None or self._read(0.05):
            self._read(0.05)
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            piece = os.read(self._master, 65536).decode(errors="replace").replace("\r", "")
        except OSError:  # the other side is closed
            return False
        self.text += piece
        return bool(piece)
