"""Counts how often the results of a turn's calls have come, so that a loop is warned of and then ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nanoclaw.core.messages import ToolCall, ToolResult
from nanoclaw.core.tool import Toolbox

WARN_AT, END_AT = 3, 6
"""A result that came before, for the same call or for others: warned at the third time, ended at the sixth."""

AGAIN = "(The same result again, for what was tried several times: do something else, or answer.)"


class Repeats:
    """The results of one turn so far."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._seen: Counter[tuple[str, ...]] = Counter()

    def count(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[int]:
        """Count for each call of an answer how often its result has come. A change of the workspace that is made again
        is the same whatever is said of it: the second of two reminders has another number. Otherwise the same result is
        one however the arguments are varied, once for each answer; what succeeds and may have changed something takes
        twice as long, as many commands have nothing to say."""
        alike = {(result.name, result.text) for result in results}
        self._seen.update(alike)
        return [self._repeated(call, result) for call, result in zip(calls, results, strict=True)]

    def _repeated(self, call: ToolCall, result: ToolResult) -> int:
        reach, is_error = self._toolbox.reach(call.name), result.is_error
        is_change = reach == "workspace" and not is_error
        same = (call.name, call.arguments, "" if is_change else result.text)
        self._seen[same] += 1
        if is_change:
            return self._seen[same]
        varied = self._seen[(result.name, result.text)]
        return max(self._seen[same], varied if is_error or reach == "none" else varied // 2)


def warned_of(result: ToolResult, repeats: int) -> ToolResult:
    """The result, with a warning where it came too often."""
    if repeats < WARN_AT:
        return result
    return result._replace(text=f"{result.text}\n{AGAIN}")
