"""The chat without cursor movement: for TERM=dumb, pipes and files."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import sys
from collections.abc import Callable

from nanoclaw.channels.text import LABEL, WAIT, WHOLE, PlainFlow, Repeated, SparseProgress, tool_label
from nanoclaw.core.events import Event, Notice, StatusLines, ToolStarted
from nanoclaw.escapes import printable

_PROMPT = "> "


class Lines:
    """Each line is a message; one that ends in a backslash continues. A question is answered at the end of input."""

    def __init__(self) -> None:
        self._room = LABEL if sys.stdout.isatty() else WHOLE
        self._flow = PlainFlow(_write, lambda line: _write(f"{line}\n"), streams=True, room=self._room)
        self._progress = SparseProgress(self._flow.note)
        self._repeated = Repeated()
        self._idle = asyncio.Event()
        self._idle.set()
        self._left = asyncio.Event()
        self._prompted = False
        self._typed = ""

    async def run(self, submit: Callable[..., str], interrupt: Callable[[], None]) -> None:
        self._submit = submit
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            self._prompt()
            await self._read()
        finally:
            self._break_prompt()
            loop.remove_signal_handler(signal.SIGINT)

    def show(self, event: Event) -> None:
        if isinstance(event, StatusLines) and event.key == WAIT and event.text:
            event = Notice(event.text.splitlines()[0])
        if self._repeated(event) or isinstance(event, StatusLines):  # the lines of calls tell the same
            return
        self._break_prompt()
        if isinstance(event, Notice) and event.fraction is not None:
            self._progress.show(event)
        else:
            self._flow.show(event)
        if isinstance(event, ToolStarted):
            self._flow.note(f"⚙ {tool_label(event.call, self._room)} …")

    def say(self, text: str, reply_to: str = "") -> None:
        self._break_prompt()
        self._flow.say(text)
        self._prompt()

    def note(self, line: str) -> None:
        self._break_prompt()
        self._flow.note(line)
        self._prompt()

    def busy(self, busy: bool) -> None:
        if busy:
            self._idle.clear()
        else:
            self._idle.set()
            self._prompt()

    def stopping(self) -> None:
        pass

    def cut_off(self) -> None:
        pass

    def type(self, text: str) -> bool:
        if text:
            self.note(f"to be sent again: {text}")
        return True

    def leave(self) -> None:
        self._left.set()

    async def _read(self) -> None:
        leaving = asyncio.ensure_future(self._left.wait())
        reading = asyncio.ensure_future(self._read_to_end())
        try:
            await asyncio.wait([leaving, reading], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
        finally:
            leaving.cancel()
            reading.cancel()

    async def _read_to_end(self) -> None:
        decoder = codecs.getincrementaldecoder(sys.stdin.encoding or "utf-8")("replace")
        text = ""
        while piece := await _read_some(sys.stdin.fileno()):
            *lines, text = (text + decoder.decode(piece)).split("\n")
            for line in lines:
                self._take(line)
        self._take(text)
        await self._idle.wait()

    def _take(self, line: str) -> None:
        self._prompted = False
        line = self._typed + line.rstrip("\r")
        if line.endswith("\\"):
            self._typed = line[:-1] + "\n"
            return
        self._typed = ""
        self._submit(line)
        self._prompt()

    def _prompt(self) -> None:
        """Show the prompt, to a person only."""
        if self._idle.is_set() and not self._prompted and not self._left.is_set() and sys.stdin.isatty():
            self._flow.end_line()
            _write(_PROMPT)
            self._prompted = True

    def _break_prompt(self) -> None:
        if self._prompted:
            _write("\n")
            self._prompted = False


async def _read_some(descriptor: int) -> bytes:
    """Bytes from a terminal or a pipe when there are any, without a thread that would outlive a Ctrl-C."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:  # a plain file, which is always ready
        return os.read(descriptor, 65536)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, 65536)


def _write(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(printable(text).encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()
