"""Steps of a to-do list: read from a call's arguments, changed by numbers, and told in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from nanoclaw.core.errors import ToolError
from nanoclaw.escapes import one_line

MOST, LONGEST = 30, 200
"""Steps of a list, and characters of each."""

LIVE_LINES, LIVE_CHARACTERS = 7, 100
"""Of a list while it grows on a screen: steps around the one that is done now, and characters of each."""

REMARK_STEPS = 5
"""Open steps that a remark names."""

State = Literal["pending", "doing", "done"]


class Step(NamedTuple):
    """`outside` are the sources of others' text that had been read when it was written."""

    text: str
    state: State = "pending"
    outside: str = ""


Steps = tuple[Step, ...]

_MARKS: dict[State, str] = {"pending": "☐", "doing": "▸", "done": "✓"}
_BOXES: dict[str, State] = {"x": "done", "✓": "done", ">": "doing", "~": "doing"}
_DRESS = r"\s*(?:[-*•]\s+)?(?:\d{1,2}[.)]\s+)?(?:\[([ xX✓>~])\]\s*)?"
"""The signs that lists of Markdown have before each line."""


def read(given: Sequence[str]) -> Steps:
    """A list as a model writes it. Raises ToolError."""
    if len(given) > MOST:
        raise ToolError(f"a list has at most {MOST} steps, not {len(given)}: combine some. Nothing was changed.")
    return tuple(_step(number, text) for number, text in enumerate(given, 1))


def changed(steps: Steps, done: Sequence[int], doing: int | None) -> Steps:
    """The list after these steps are done, and one is begun. Raises ToolError."""
    for number in (*done, *([] if doing is None else [doing])):
        if not steps:
            raise ToolError("there is no to-do list: give its steps first.")
        if not 0 < number <= len(steps):
            raise ToolError(f"there is no step {number}: they are 1 to {len(steps)}. Nothing was changed.")
    if doing in done:
        raise ToolError(f"step {doing} is given as done and as doing. Nothing was changed.")
    states = [step.state for step in steps]
    if doing is not None:
        states = ["pending" if state == "doing" else state for state in states]
        states[doing - 1] = "doing"
    for number in done:
        states[number - 1] = "done"
    return tuple(step._replace(state=state) for step, state in zip(steps, states, strict=True))


def said(steps: Steps, argument: str, clean: Callable[[str], str]) -> Steps:
    """The list after `/todo add milk` or `/todo done 2`. Raises ToolError."""
    word, _, rest = argument.partition(" ")
    if word == "add" and rest.strip():
        return (*steps, read([*(step.text for step in steps), clean(rest)])[-1])
    if word == "done" and (numbers := [int(one) for one in re.findall(r"\b\d{1,3}\b", rest)]):
        return changed(steps, numbers, None)
    raise ToolError("Say /todo, /todo add TEXT, or /todo done 2.")


def is_over(steps: Steps) -> bool:
    return all(step.state == "done" for step in steps)


def outside(steps: Steps) -> str:
    """Sources of others' text that a list may repeat, '' for none."""
    return ", ".join(dict.fromkeys(step.outside for step in steps if step.outside))


def _step(number: int, given: str) -> Step:
    dress = re.match(_DRESS, given)
    assert dress  # it may be nothing
    text = " ".join(given[dress.end() :].split())
    if not text:
        raise ToolError(f"step {number} is empty. Nothing was changed.")
    if len(text) > LONGEST:
        raise ToolError(
            f"step {number} has {len(text):,} characters, and {LONGEST} is the limit: shorten it. Nothing was changed."
        )
    return Step(text, _BOXES.get((dress[1] or "").lower(), "pending"))


# --- in words --------------------------------------------------------------------------------------------------------


def count(steps: Steps) -> str:
    return f"{sum(step.state == 'done' for step in steps)} of {len(steps)} done"


def progress(steps: Steps) -> str:
    """The state after a change, for the model: one line."""
    if is_over(steps):
        return f"All {len(steps)} done; the list is closed."
    at = next((at for at, step in enumerate(steps) if step.state == "doing"), None)
    word = "next" if at is None else "doing"
    at = _first_open(steps) if at is None else at
    return f"{count(steps)}; {word} {at + 1}: {steps[at].text}"


def whole(steps: Steps) -> str:
    """All of it for the model, with the numbers that calls take."""
    states = ["" if step.state == "pending" else f"{step.state}: " for step in steps]
    return "\n".join(f"{number}. {states[number - 1]}{step.text}" for number, step in enumerate(steps, 1))


def remark(steps: Steps) -> str:
    """Line that names the open steps."""
    left = [f"{number}. {step.text}" for number, step in enumerate(steps, 1) if step.state != "done"]
    more = f"; and {len(left) - REMARK_STEPS} more" if len(left) > REMARK_STEPS else ""
    return f"Your to-do list stands at {count(steps)}; open: {'; '.join(left[:REMARK_STEPS])}{more}"


def lines(steps: Steps) -> str:
    """All of it for the person."""
    return "\n".join([f"to do: {count(steps)}", *(f"{_MARKS[step.state]} {step.text}" for step in steps)])


def live(steps: Steps) -> str:
    """The steps around the one that is worked on, for a screen on which they are drawn again and again."""
    at = next((at for at, step in enumerate(steps) if step.state == "doing"), _first_open(steps))
    begin = max(0, min(at - LIVE_LINES // 2, len(steps) - LIVE_LINES))
    after = max(0, len(steps) - begin - LIVE_LINES)
    shown = [f"{_MARKS[step.state]} {one_line(step.text, LIVE_CHARACTERS)}" for step in steps[begin:][:LIVE_LINES]]
    drawn = [f"to do: {count(steps)}", f"… {begin} before" * bool(begin), *shown, f"… {after} more" * bool(after)]
    return "\n".join(filter(None, drawn))


def _first_open(steps: Steps) -> int:
    return next((at for at, step in enumerate(steps) if step.state != "done"), len(steps) - 1)
