"""Extents of a yes: to one call, for an hour, always; how each is offered, and which words mean it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from nanoclaw.core.messages import Button
from nanoclaw.exact_text import is_shown_whole
from nanoclaw.plugins.approvals.choices import option_of
from nanoclaw.yes_no import yes_or_no

Said = Literal["yes", "hour", "always", "no"]

EXTENT_WORDS: dict[str, Said] = {
    **dict.fromkeys(("hour", "1h", "an hour", "for an hour", "for 1 hour"), "hour"),
    **dict.fromkeys(("always", "for good"), "always"),
}
"""Words that may follow a yes, or replace it."""


class Extent(NamedTuple):
    """One answer to a yes/no question: what is said of it on a button, and what gives it from anywhere."""

    said: Said
    label: str
    command: str


def extents(question: Any) -> tuple[Extent, ...]:
    """The answers that a yes/no question has. One that no turn waits for is about itself alone."""
    number, scope = question.number, question.ask.scope if question.turn else None
    longer = [Extent("hour", "Yes for an hour", f"/yes {number} hour")] if scope else []
    if scope and scope.is_place:
        longer.append(Extent("always", "Yes always", f"/yes {number} always"))
    return Extent("yes", "Yes", f"/yes {number}"), *longer, Extent("no", "No", f"/no {number}")


def buttons(question: Any) -> tuple[Button, ...]:
    unfold = () if is_shown_whole(question.ask.exact) else (Button("Show all", f"/answer {question.number}"),)
    return (*(Button(one.label, one.command) for one in extents(question)), *unfold)


def how(question: Any) -> str:
    """Say what answers a question."""
    number = question.number
    show = "" if is_shown_whole(question.ask.exact) else f" “/answer {number}” shows all of it."
    offered = extents(question)
    if len(offered) == 2:
        return f"(“/yes {number}” or “/no {number}” answers it, or just yes or no right after it.{show})"
    listed = "\n".join(f"{index}. {_line(one, question)}" for index, one in enumerate(offered, 1))
    commands = ", ".join(f"“{one.command}”" for one in offered[:-1])
    answers = f"{commands} or “{offered[-1].command}” answers it; right after it a number or the words do"
    return f"{listed}\n\n({answers}.{show})"


def _line(one: Extent, question: Any) -> str:
    """An extent with what it is for."""
    return f"{one.label}: {question.ask.scope.words}" if one.said in ("hour", "always") else one.label


def meaning(question: Any, text: str) -> Said | None:
    """The answer that some words are, None for none."""
    offered = extents(question)
    if len(offered) > 2:
        said = " ".join(text.split()).rstrip(".!").casefold()
        longer = EXTENT_WORDS.get(said.removeprefix("yes").strip(" ,"))
        if any(one.said == longer for one in offered):
            return longer
        label = option_of(text, [one.label for one in offered])
        return next((one.said for one in offered if one.label == label), None)
    is_yes = yes_or_no(text)
    return None if is_yes is None else "yes" if is_yes else "no"
