"""A chat with canned turns in a real pseudo-terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.channels.screen import Screen

SECONDS = 100.0  # until which what is expected must be there
ROOT = Path(__file__).parents[2]


class Chat:
    """`press` keys, `expect` something on the screen."""

    def __init__(self, folder: Path, columns: int = 80, rows: int = 24, **environment: str) -> None:
        self.folder, self.screen, self.raw = folder, Screen(columns, rows), ""
        variables = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLORTERM")}
        variables |= {"TERM": "xterm", "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"} | environment
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            termios.tcsetwinsize(0, (rows, columns))
            os.execve(sys.executable, [sys.executable, "-m", "tests.channels.chatter", str(folder)], variables)

    def press(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def say(self, text: str) -> None:
        self.press(text + "\r")

    def expect(self, what: str | Callable[[Screen], bool]) -> Screen:
        """Read until a text is on the screen, or a condition holds."""
        deadline = time.monotonic() + SECONDS
        while not (what in self.screen.text if isinstance(what, str) else what(self.screen)):
            assert time.monotonic() < deadline, f"{what!r} did not come:\n{self.screen.text}"
            self._read(0.2)
        return self.screen

    def expect_left(self) -> None:
        self.expect("left")
        assert os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == 0
        self.pid = 0

    def delivered(self) -> list[dict[str, Any]]:
        file = self.folder / "delivered"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def go_on(self) -> None:
        """Let a turn that waits continue."""
        self.signal(signal.SIGUSR1)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.descriptor)

    def _read(self, seconds: float) -> None:
        if not select.select([self.descriptor], [], [], seconds)[0]:
            return
        try:
            text = os.read(self.descriptor, 65536).decode(errors="ignore")
        except OSError:  # the other side is closed
            text = ""
        self.raw += text
        self.screen.feed(text)


Start = Callable[..., Chat]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start(columns=…, rows=…, NO_COLOR="1")` returns a chat at its prompt."""
    chats: list[Chat] = []

    def begin(**options: Any) -> Chat:
        chats.append(Chat(tmp_path, **options))
        mark = ">" if options.get("TERM") == "dumb" else "›"
        chats[-1].expect(lambda screen: any(line.startswith(mark) for line in screen.lines))
        return chats[-1]

    yield begin
    for chat in chats:
        chat.close()
