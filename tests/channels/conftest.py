"""A chat with canned turns in a real pseudo-terminal."""

import json
import os
import select
import signal
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.channels.screen import Screen
from tests.forked import KEPT, Forked

SECONDS = 100.0  # until which what is expected must be there


class Chat:
    """`press` keys, `expect` something on the screen."""

    def __init__(self, folder: Path, columns: int = 80, rows: int = 24, typed: str = "", **environment: str) -> None:
        self.folder, self.screen, self.raw = folder, Screen(columns, rows), ""
        variables = {key: os.environ[key] for key in KEPT if key in os.environ} | {"TERM": "xterm"} | environment
        self.descriptor, terminal = os.openpty()
        termios.tcsetwinsize(terminal, (rows, columns))
        os.write(self.descriptor, typed.encode())  # before there is a prompt
        ends: Any = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
        target = "tests.channels.chatter:main"
        self.process: Forked[bytes] = Forked(target, [str(folder)], env=variables, terminal=True, **ends)
        os.close(terminal)

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
        assert self.process.wait() == 0

    def delivered(self) -> list[dict[str, Any]]:
        file = self.folder / "delivered"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def go_on(self) -> None:
        """Let a turn that waits continue."""
        self.signal(signal.SIGUSR1)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
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
