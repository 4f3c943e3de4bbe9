"""Words as a screen may print them: no control bytes, a tool call in one line, a turn as plain text."""

from __future__ import annotations

import json
from collections.abc import Callable

from nanoclaw.core.events import (
    Event,
    Notice,
    Receipt,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnBegan,
    TurnEnded,
)
from nanoclaw.core.messages import ToolCall
from nanoclaw.escapes import one_line, printable

_MAIN = ("path", "file", "command", "query", "pattern", "url", "name", "text", "id")
_PARSED_CHARACTERS = 200_000  # longer arguments are not worth the wait for one word
DIFF_LINES = 20
LABEL, WHOLE = 60, 10_000
"""Characters of a label on a screen, and where nothing is narrow: on a pipe or in a file."""

FOOTER, WAIT = "footer", "wait"
"""The keys of the status lines that a terminal shows at its foot, and while nobody is there to answer."""


def tool_label(call: ToolCall, room: int = LABEL) -> str:
    """The tool with its main argument: `read_file notes/x.md`."""
    return f"{one_line(call.name, 40)} {_main_argument(call.arguments, room)}".rstrip()


def tool_line(event: ToolFinished, room: int = LABEL) -> str:
    """`✓ exec pytest · 2.1 s, 14 kB #3`; the number is what /show takes."""
    after = ", ".join(filter(None, (result_line(event, room), figures(event))))
    return f"{mark(event)} {tool_label(event.call, room)} · {after}"


def mark(event: ToolFinished) -> str:
    return "✗" if event.is_error else "✓"


def result_line(event: ToolFinished, room: int = LABEL) -> str:
    """A line that tells what happened, "" for a result that is more than a line."""
    lines = event.text[:_PARSED_CHARACTERS].strip().splitlines() or [""]
    if len(lines) > 2 and lines[0].startswith("[outside "):  # the mark of others' text
        lines = lines[1:-1]
    if event.is_error:
        own = lines[-2:][0] if lines[-1].startswith("[exit status ") else lines[-1 if lines[-1].startswith("[") else 0]
        return one_line(own, max(100, room)) or "failed"
    if event.refused == "later":
        return "put back until you say yes"
    if event.diff:
        signs = [line[:1] for line in event.diff.splitlines()]
        return f"+{signs.count('+')} −{signs.count('-')}"
    return one_line(lines[0], room) if len(lines) == 1 else ""


def figures(event: ToolFinished) -> str:
    """The time of a call, the size of a result of several lines, and its number: `2.1 s, 14 kB #3`"""
    is_long = "\n" in event.text.strip()
    bytes_ = f", {size(len(event.text.encode('utf-8', 'replace')))}" if is_long else ""
    return f"{seconds(event.seconds)}{bytes_}{f' #{event.number}' if event.number else ''}"


def diff_lines(event: ToolFinished, most: int = DIFF_LINES) -> list[str]:
    """The beginning of what a call changed, and how to see the rest."""
    lines = printable(event.diff).splitlines()
    left = len(lines) - most
    if left <= 1:  # one line more takes the place of the line that would say so
        return lines
    return [*lines[:most], f"… {left} lines more{f', /show {event.number}' if event.number else ''}"]


def size(count: int) -> str:
    return f"{count} B" if count < 1000 else f"{count / 1000:.0f} kB" if count < 999_500 else f"{count / 1e6:.1f} MB"


def notice_line(text: str, room: int = LABEL) -> str:
    return f"· {one_line(text, max(500, room))}"


def seconds(count: float) -> str:
    shown = f"{count:.{2 if count < 1 else 1 if count < 10 else 0}f} s"
    return shown if count < 120 else f"{count / 60:.0f} min"


def progress(notice: Notice, cells: int = 20) -> str:
    """`████████············  40 % loading the model`"""
    part = min(1.0, max(0.0, notice.fraction or 0.0))
    full = int(part * cells)
    return f"{'█' * full}{'·' * (cells - full)} {int(part * 100):3d} % {one_line(notice.text)}"


class Spoken:
    """The part of an answer that was streamed, so that nothing is said twice and nothing left out."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._ended: list[str] = []  # what streamed of turns whose answers have not come yet
        self._is_blank = True
        self.is_over = False  # the turn has ended: the next piece belongs to another

    @property
    def is_blank(self) -> bool:
        return self.is_over or self._is_blank

    def add(self, piece: str) -> None:
        if self.is_over:
            self.begin_round()
        self._pieces.append(piece)
        self._is_blank = self._is_blank and not piece.strip()

    def begin_round(self) -> None:
        self._pieces, self._is_blank, self.is_over = [], True, False

    def end_turn(self) -> None:
        self.is_over = True
        self._ended = [*self._ended, "".join(self._pieces)][-_TURNS:]

    def rest_of(self, answer: str) -> str:
        """The part of a whole message that was not streamed; spaces do not count."""
        for shown in ("".join(self._pieces), *self._ended):
            if (rest := _rest(shown.strip(), answer.strip())) is not None:
                self._ended = [other for other in self._ended if other != shown]
                if shown == "".join(self._pieces):
                    self._pieces = []
                return rest
        return answer.strip()


_TURNS = 20  # whose streamed text is remembered


def _rest(shown: str, answer: str) -> str | None:
    """The part of an answer that was not shown; None when the two have nothing to do with each other."""
    told, whole = " ".join(shown.split()), " ".join(answer.split())
    if told == whole or told.endswith(f" {whole}"):  # a broken stream that was begun again ends with the answer
        return ""
    lines = shown.splitlines(keepends=True)
    for at in range(len(lines)):  # an answer that was given anew is the last of what streamed
        if (last := "".join(lines[at:])) and answer.startswith(last):
            return answer.removeprefix(last).strip()
    if shown and answer.endswith(shown):
        return answer.removesuffix(shown).strip()
    return None


class PlainFlow:
    """A turn as lines of plain text. `answer` takes pieces of what the assistant says, `note` lines about it.

    Progress is not its business: a screen draws a bar, a log wants `SparseProgress`.
    """

    def __init__(
        self, answer: Callable[[str], None], note: Callable[[str], None], *, streams: bool, room: int = LABEL
    ) -> None:
        self._answer, self._note, self._streams, self._room = answer, note, streams, room
        self._spoken = Spoken()
        self._at_line_start, self._word = True, ""  # the word that still grows: no line comes in its midst

    def show(self, event: Event) -> None:
        match event:
            case TurnBegan():  # what streamed of one that a crash cut off is not a part of this answer
                self._spoken.begin_round()
            case TextDelta(text):
                self._say_piece(printable(text))
            case ToolStarted():
                self.end_line()
                self._spoken.begin_round()
            case ToolFinished():
                indent = "  " * bool(event.parent)
                self.note(f"{indent}{tool_line(event, self._room)}")
                for line in diff_lines(event):
                    self.note(f"{indent}  {line}")
            case Notice(text, None) | Receipt(text):
                self._spoken.add("\n")
                self.end_line()
                self.note(notice_line(text, self._room))
            case TurnEnded():
                self.end_line()
                self._spoken.end_turn()

    def say(self, text: str) -> None:
        """A whole message, or what the stream has not said of it."""
        if rest := self._spoken.rest_of(printable(text)):
            self._write("\n" * (not self._at_line_start))
            self._answer(rest + "\n")

    def note(self, line: str) -> None:
        self._write("\n" * (not self._at_line_start))
        self._note(printable(line))

    def end_line(self) -> None:
        self._write(self._word)
        self._word = ""
        self._write("\n" * (not self._at_line_start))

    def _write(self, text: str) -> None:
        if text:
            self._at_line_start = text.endswith("\n")
            self._answer(text)

    def _say_piece(self, text: str) -> None:
        if not self._streams:
            return
        if self._spoken.is_blank:
            text = text.lstrip()
        if text:
            self._spoken.add(text)
            text = self._word + text
            last = "" if text[-1].isspace() else text.split()[-1]
            self._word = last if len(last) <= 40 and last < "\u2e80" else ""  # behind that are scripts without spaces
            self._write(text.removesuffix(self._word))


class SparseProgress:
    """A line at each quarter, for where no bar can be drawn."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._percent = -1

    def show(self, event: Notice) -> None:
        percent = int((event.fraction or 0.0) * 100) // 25 * 25
        if percent != self._percent:
            self._percent = percent
            self._note(notice_line(f"{event.text} {percent} %"))


class Repeated:
    """Recognizes a notice that says no more than the one before it."""

    def __init__(self) -> None:
        self._last: Notice | None = None

    def __call__(self, event: Event) -> bool:
        if not isinstance(event, Notice):
            self._last = None
        elif self._last and event.text == self._last.text and event.fraction in (None, self._last.fraction):
            return True
        else:
            self._last = event
        return False


def _main_argument(arguments: str, room: int) -> str:
    try:
        values = json.loads(arguments) if len(arguments) <= _PARSED_CHARACTERS else None
    except (ValueError, RecursionError):  # 100,000 brackets are a RecursionError
        values = arguments
    if not isinstance(values, dict):
        return one_line(values, room) if isinstance(values, str) else ""
    action = str(values.pop("action", ""))
    named = [values[key] for key in _MAIN if key in values] + list(values.values())
    plain = [value for value in named if isinstance(value, str | int | float) and not isinstance(value, bool)]
    return one_line(" ".join(filter(None, (action, *map(str, plain[:1])))), room)
