"""A text for the owner to judge: shown as it is, nothing in it hidden, and no longer than can be read."""

from __future__ import annotations

import re

HEAD, TAIL = 2_000, 1_000
"""Characters of a longer text that are shown to be judged."""


def exactly(text: str) -> str:
    """A text for the owner to judge: a code block, so that none of its Markdown is rendered and no link hides, with the
    numbers of characters that cannot be seen. How long it is, and that its middle is left out, is said of one that is
    too long."""
    if is_shown_whole(text):
        return _block(text)
    left_out = f"({len(text):,} characters in all; {len(text) - HEAD - TAIL:,} of them are not shown here)"
    return "\n\n".join([_block(text[:HEAD]), left_out, _block(text[-TAIL:])])


def is_shown_whole(text: str) -> bool:
    """True for a text of which nothing is left out."""
    return len(text) <= HEAD + TAIL


def as_code(line: str) -> str:
    """A line as code within a sentence: no link or other markup can hide in it."""
    fence = "`" * (1 + max([0, *map(len, re.findall("`+", line))]))
    pad = " " * ("`" in line)
    return f"{fence}{pad}{line}{pad}{fence}"


def _block(text: str) -> str:
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", text))]))
    return f"{fence}\n{seen(text)}\n{fence}"


def seen(text: str) -> str:
    """The text with each character that shows nothing, or turns others around, as its number: ⟨U+200B⟩."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"⟨U+{ord(sign):04X}⟩" if _is_hidden(sign) else sign for sign in text)


def _is_hidden(sign: str) -> bool:
    return sign not in "\n\t " and not sign.isprintable()
