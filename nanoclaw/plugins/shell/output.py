"""Output of commands as text, and their end in words."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from nanoclaw.escapes import plain, visible
from nanoclaw.outputs import Outputs, hint

if TYPE_CHECKING:
    from nanoclaw.core.tool import ShowProgress
    from nanoclaw.spawn import Bounds, Exit

FILE_BYTES = 50_000_000
"""Of a growing output that its file takes; of what comes later the end is kept."""

END_BYTES = 65_536
"""Of a growing output, kept in memory."""

HEAD_CHARACTERS = 4_000
TAIL_CHARACTERS = 6_000
_SHOWN_BYTES = 4_000


def readable(output: bytes) -> str:
    text = output.decode("utf-8", "replace").replace("\r\n", "\n")
    if "\r" in text:  # a progress bar overwrites itself: each line in its final state
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return plain(text)


def shortened(command: str) -> str:
    """A command in a line, between backticks."""
    line = visible(" ".join(command.split()))
    return f"`{line if len(line) <= 60 else line[:59] + '…'}`"


def end_in_words(ended: Exit, bounds: Bounds) -> str:
    """The end of a command that no time limit and nobody has stopped."""
    if ended.why == "processes":
        return f"stopped: more than {bounds.processes:,} processes at once, or four times as many threads"
    if ended.why == "disk":
        return "stopped: the disk was nearly full; its files are still there"
    if ended.why == "not begun":
        return "not run: the sandbox could not be set up, as said above"
    if ended.why == "memory":
        most = f"{bounds.memory_bytes // 1_000_000:,} MB of memory"
        return f"stopped: its processes used more than {most}"
    number = -ended.status if ended.status < 0 else ended.status - 128  # as a shell tells it of its own child
    too_large = f": a file grew to {bounds.file_bytes // 1_000_000:,} MB" if number == signal.SIGXFSZ else ""
    name = next((one.name for one in signal.Signals if one == number), f"signal {number}")
    return f"{f'killed by {name}' if ended.status < 0 else f'exit status {ended.status}'}{too_large}"


class GrowingOutput:
    """The output of a process that runs on: its beginning in a file of the workspace, its end in memory."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path, self._file = path, descriptor
        self._end, self._total, self._seen = bytearray(), 0, 0
        self._written, self._room = 0, FILE_BYTES

    def feed(self, data: bytes) -> None:
        self._total += len(data)
        self._end += data
        del self._end[:-END_BYTES]
        self._write(data[: max(0, self._room)])

    def fresh(self, most: int) -> str:
        """The part that came since the last look; of much its end."""
        new = self._total - self._seen
        self._seen = self._total
        kept = min(new, most, len(self._end))
        left_out = f"[... {new - kept:,} bytes before this: {self.path}]\n" if new > kept else ""
        return left_out + readable(bytes(self._end[len(self._end) - kept :])).rstrip()

    def last_lines(self, lines: int, characters: int) -> str:
        text = readable(bytes(self._end[-4 * characters :])).rstrip()
        return "\n".join(text.split("\n")[-lines:])[-characters:]

    def close(self) -> None:
        if self._file < 0:
            return
        if missing := self._total - self._written:
            rest = bytes(self._end[-missing:])
            self._write(b"\n[... %d bytes left out ...]\n" % (missing - len(rest)) if missing > len(rest) else b"")
            self._write(rest)
        os.close(self._file)
        self._file = -1

    def _write(self, data: bytes) -> None:
        try:
            while data:
                written = os.write(self._file, data)
                self._written += written
                self._room -= written
                data = data[written:]
        except OSError:  # a full disk: from here on there is the end in memory only
            self._room = 0


def outcome_in_words(ended: Exit, seconds: int, bounds: Bounds, sandbox: str) -> str:
    about = f" ({sandbox})" if sandbox else ""
    if ended.why == "timeout":
        return f"[stopped after {seconds} s: the command was still running. Above is its output so far.{about}]"
    if ended.why == "flood":
        return f"[stopped: more than {ended.dropped:,} bytes of output. Write it to a file, or filter it.{about}]"
    left = f"; {ended.left_behind} background process(es) were ended with it" if ended.left_behind else ""
    told = f"{end_in_words(ended, bounds)}{left if ended.why == 'exited' else ''}"
    return f"[{'; '.join(filter(None, (told, sandbox)))}]"


def cut(ended: Exit, outputs: Outputs, kept: str, redact: Callable[[str], str]) -> str:
    """`kept` is the path of an output that was too long for memory."""
    head, tail = readable(ended.head), readable(ended.tail)
    if not ended.dropped:
        whole = readable(ended.head + ended.tail).rstrip()
        if len(whole) <= HEAD_CHARACTERS + TAIL_CHARACTERS:
            return whole
        head = tail = whole
        kept = outputs.keep("exec", redact(whole))
        left_out = f"{len(whole) - HEAD_CHARACTERS - TAIL_CHARACTERS:,} characters"
    else:
        total = len(ended.head) + len(ended.tail) + ended.dropped
        left_out = f"about {max(0, total - HEAD_CHARACTERS - TAIL_CHARACTERS):,} bytes"
    ends = f"{head[:HEAD_CHARACTERS]}\n[... {left_out} left out ...]\n{tail[-TAIL_CHARACTERS:].rstrip()}"
    return f"{ends}\n{hint(kept)}"


class LastLines:
    """Shows the end of an output while it grows."""

    def __init__(self, show: ShowProgress) -> None:
        self._show, self._end = show, b""

    def feed(self, data: bytes) -> None:
        self._end = (self._end + data)[-_SHOWN_BYTES:]
        self._show(self._lines)

    def _lines(self) -> str:
        return readable(self._end)
