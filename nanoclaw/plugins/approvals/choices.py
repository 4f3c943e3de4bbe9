"""Options of a question: how they are shown, and which of them some words mean."""

from __future__ import annotations

from collections.abc import Sequence

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
