"""Commands about standing rules: /pin, /pins, /unpin."""

from __future__ import annotations

from collections.abc import Callable

from nanoclaw.core.commands import Answer, Said
from nanoclaw.escapes import plain
from nanoclaw.plugins.rules.pins import Pins

MOST_PINS = 50
LONGEST_PIN = 500
"""Characters of one: all of them are sent with every request."""


def pin_commands(pins: Pins, how: Callable[[str], str]) -> dict[str, Answer]:
    """The commands by name. `how(rule)` says what is done about a rule: enforced by code, or left to the model."""

    def pin(said: Said) -> str:
        text = " ".join(plain(said.argument).split())
        known = pins.all()
        if not text:
            return "/pin TEXT keeps a standing rule, such as: /pin Never run `git push`. /pins lists them."
        if len(text) > LONGEST_PIN:
            return (
                f"That has {len(text)} characters, and a pin has at most {LONGEST_PIN}: say it shorter, or write it "
                "into AGENTS.md in the workspace. Nothing was pinned."
            )
        if text.casefold() in (same := [one.casefold() for one in known]):
            return f"That is pinned already, as number {same.index(text.casefold()) + 1}."
        if len(known) >= MOST_PINS:
            return f"There are {MOST_PINS} pins, and no more fit: /unpin one first. Nothing was pinned."
        pins.add(text)
        return f"Pinned as number {len(known) + 1}, from the next message on: {text}\n{_sentence(how(text))}"

    def listed(said: Said) -> str:
        lines = [f"{number}. {text} ({how(text)})" for number, text in enumerate(pins.all(), 1)]
        return "\n".join(lines) or "Nothing is pinned. /pin TEXT keeps a standing rule."

    def unpin(said: Said) -> str:
        known = pins.all()
        if not known:
            return "Nothing is pinned."
        number = _number(said.argument, known)
        if isinstance(number, str):
            return number
        return f"No longer pinned: {pins.remove(number)}"

    return {"pin": pin, "pins": listed, "unpin": unpin}


def _number(wanted: str, known: list[str]) -> int | str:
    """The place of a pin that was given by number or by words, or a sentence when it isn't clear which is meant."""
    name = wanted.strip().removeprefix("#").rstrip(".")
    if name.isascii() and name.isdigit():
        if 1 <= int(name[:9]) <= len(known):
            return int(name)
        return f"There is no pin {name[:9]}: there {'is only 1' if len(known) == 1 else f'are {len(known)}'}. /pins"
    if not name:
        return "/unpin NUMBER, as /pins lists them, or /unpin with words of the rule."
    words = " ".join(wanted.split()).casefold()
    same = [number for number, text in enumerate(known, 1) if text.casefold() == words]
    found = same or [number for number, text in enumerate(known, 1) if words in text.casefold()]
    if len(found) == 1:
        return found[0]
    if found:
        return f"Several pins have these words: {', '.join(map(str, found))}. /unpin NUMBER takes one away."
    import difflib

    near = difflib.get_close_matches(wanted, known, 1, 0.6)
    hint = f"Did you mean number {known.index(near[0]) + 1}: {near[0]}?" if near else "/pins lists them."
    return f"No pin has these words. {hint}"


def _sentence(how: str) -> str:
    return f"{how[0].upper()}{how[1:]}."
