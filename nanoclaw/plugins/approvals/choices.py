"""Words of an answer: which option of a question they mean, and which extent of a yes: one call, an hour, always."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from nanoclaw.core.messages import Button
from nanoclaw.exact_text import is_shown_whole
from nanoclaw.yes_no import yes_or_no


def listed(options: Sequence[str]) -> str:
    """The options on a line each; numbered where a number can mean nothing else."""
    numbered = are_numbered(options)
    return "\n".join(f"{number}. {one}" if numbered else f"- {one}" for number, one in enumerate(options, 1))


def are_numbered(options: Sequence[str]) -> bool:
    return len(options) > 1 and not any(_folded(one).isdigit() for one in options)


def option_of(text: str, options: Sequence[str]) -> str | None:
    """The option that is meant by its words in any case, the beginning of them, its number (“#2” is that always), or a
    yes or no that one of two options is."""
    said = _folded(text)
    number = said.removeprefix("#")
    is_number = number.isascii() and number.isdigit() and 0 < int(number[:3]) <= len(options)
    if is_number and said.startswith("#"):
        return options[int(number[:3]) - 1]
    if exact := [one for one in options if _folded(one) == said]:
        return exact[0]
    if is_number and are_numbered(options):
        return options[int(number[:3]) - 1]
    if len(begun := [one for one in options if said and _folded(one).startswith(said)]) == 1:
        return begun[0]
    return _by_yes_or_no(text, options)


def _by_yes_or_no(text: str, options: Sequence[str]) -> str | None:
    if (is_yes := yes_or_no(text)) is None:
        return None
    meanings = [yes_or_no(one) for one in options]
    if is_yes in meanings:
        return options[meanings.index(is_yes)]
    return options[meanings.index(None)] if len(options) == 2 and (not is_yes) in meanings else None


def _folded(text: str) -> str:
    return " ".join(text.split()).rstrip(".!").casefold()


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
