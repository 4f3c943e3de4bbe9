"""The lines of tools: those that run, with what they show, and what is left of them when they have ended."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from typing import NamedTuple

from prompt_toolkit.utils import get_cwidth

from nanoclaw.channels.text import diff_lines, figures, mark, result_line, tool_label
from nanoclaw.core.events import ToolFinished, ToolProgress, ToolStarted
from nanoclaw.core.messages import ToolCall
from nanoclaw.escapes import one_line

_JOINING = dict.fromkeys([0x200C, 0x200D, 0xFE0E, 0xFE0F, *range(0x1F3FB, 0x1F400)])
_MOST_RUNNING, _MOST_WITHIN = 4, 3  # of those that run, and of the ended ones within each, are shown
_MOST_KEPT = 20  # ended calls within another are printed with it
_FEWEST_COLUMNS, _LABEL_COLUMNS = 12, 16  # of a label, and what it gets before what is said of the call


class ToolLine(NamedTuple):
    """A line to be printed: `kind` is ok, failed, plus, minus, place or plain."""

    kind: str
    text: str


class _Running:
    """A call, and the lines of those that ended within it."""

    def __init__(self, call: ToolCall, parent: str) -> None:
        self.call, self.parent, self.since = call, parent, time.monotonic()
        self.progress = ""
        self.within: list[ToolLine] = []
        self.left_out = 0


class ToolLines:
    """Keeps the tools of one turn. Calls within a call are listed below it, and printed when it has ended."""

    def __init__(self) -> None:
        self._running: list[_Running] = []

    def __bool__(self) -> bool:
        return bool(self._running)

    def began(self, event: ToolStarted) -> None:
        self._running.append(_Running(event.call, event.parent))

    def shows(self, event: ToolProgress) -> None:
        if one := self._of(event.call):
            percent = "" if event.fraction is None else f"{event.fraction:.0%} "
            one.progress = f"{percent}{event.text}"

    def ended(self, event: ToolFinished, columns: int) -> list[ToolLine]:
        """The lines that are to be printed now: none for a call within one that still runs."""
        one = self._of(event.call)
        if one:
            self._running.remove(one)
        parent = next((outer for outer in self._running if event.parent and outer.call.id == event.parent), None)
        lines = list(_ended(event, columns - 2 * bool(parent)))
        if one:
            lines += [ToolLine(within.kind, f"  {within.text}") for within in one.within]
            lines += [ToolLine("plain", f"  … {one.left_out} lines more")] if one.left_out else []
        if parent is None:
            return lines
        room = _MOST_KEPT - len(parent.within)
        parent.within += lines[:room]
        parent.left_out += len(lines[room:])
        return []

    def broke_off(self, columns: int) -> list[ToolLine]:
        """The lines of those whose end was never heard of."""
        lines = list[ToolLine]()
        for one in [one for one in self._running if not one.parent]:
            event = ToolFinished(one.call, "broken off", True, time.monotonic() - one.since)
            lines += self.ended(event, columns)
        self._running.clear()
        return lines

    def live(self, frame: str, columns: int) -> list[str]:
        """The lines of what runs now. Characters that join others to one are left out: terminals do not agree on how
        wide that is, and what is drawn again and again must stay in its columns."""
        outer = [one for one in self._running if self._parent_of(one) is None]
        left_out = len(outer) - _MOST_RUNNING
        lines = [f"… {left_out} more run"] if left_out > 0 else []
        for one in outer[-_MOST_RUNNING:]:
            lines += self._live(one, frame, columns)
        return [line.translate(_JOINING) for line in lines]

    def _live(self, one: _Running, frame: str, columns: int) -> Iterator[str]:
        after = f" · {time.monotonic() - one.since:.0f} s"
        yield f"{frame} {cut(tool_label(one.call), max(_FEWEST_COLUMNS, columns - 2 - len(after)))}{after}"
        for line in one.progress.splitlines():
            yield f"  {one_line(line, 200)}"
        for within in one.within[-_MOST_WITHIN:]:
            yield f"  {within.text}"
        for inner in self._running:
            if self._parent_of(inner) is one:
                yield from (f"  {line}" for line in self._live(inner, frame, columns - 2))

    def _of(self, call: ToolCall) -> _Running | None:
        return next((one for one in self._running if one.call == call), None)

    def _parent_of(self, inner: _Running) -> _Running | None:
        return next(
            (one for one in self._running if one is not inner and inner.parent and one.call.id == inner.parent), None
        )


def _ended(event: ToolFinished, columns: int) -> Iterator[ToolLine]:
    label, said, kind = tool_label(event.call), result_line(event), "failed" if event.is_error else "ok"
    after = ", ".join(filter(None, (said, figures(event))))
    fits = get_cwidth(after) + min(_LABEL_COLUMNS, get_cwidth(label)) + 5 <= columns
    after = f" · {after if fits else figures(event)}"
    label = cut(label, max(_FEWEST_COLUMNS, columns - 2 - get_cwidth(after)))
    yield ToolLine(kind, f"{mark(event)} {label}{after}")
    for part in () if fits else textwrap.wrap(said, max(_FEWEST_COLUMNS, columns - 2), break_on_hyphens=False):
        yield ToolLine(kind, f"  {part}")
    for line in diff_lines(event):
        kind = {"+": "plus", "-": "minus", "@": "place"}.get(line[:1], "plain")
        yield ToolLine(kind, cut(f"  {line.expandtabs(4)}", max(_FEWEST_COLUMNS, columns)))


def cut(text: str, columns: int) -> str:
    """The beginning of a line that takes up at most a number of columns: one character may take two."""
    if get_cwidth(text) <= columns:
        return text
    width = 1  # of the sign that says that there is more
    for end, sign in enumerate(text):
        width += get_cwidth(sign)
        if width > columns:
            return f"{text[:end]}…"
    return text
