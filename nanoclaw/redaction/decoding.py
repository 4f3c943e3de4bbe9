"""Texts as they are meant: escapes of URLs, JSON and HTML undone, however nested, each character with its place."""

from __future__ import annotations

import re
from collections.abc import Sequence

DEEPEST = 4
"""Encodings within encodings that are undone."""

_ESCAPE = re.compile(
    r"%[0-9A-Fa-f]{2}|\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[\"'/\\])"
    r"|&(?:#0{0,4}\d{2,3}|#[xX]0{0,4}[0-7][0-9A-Fa-f]|amp|quot|apos|lt|gt);"
)
"""Escapes of characters. Those of ASCII are undone: all that names of secrets, and what stands around them, are written
with. One of another character, or of a byte of it, becomes NUL."""


NESTED = {
    "%": re.compile("%(?:2[56]|5[cC])"),
    "\\": re.compile(r"\\(?:\\|u00|x)"),
    "&": re.compile("&(?:#|amp;|quot;)"),
}
"""Escapes that may have others in them, or stand for letters; those of one kind are forms of a value."""


def has_escapes(text: str) -> bool:
    return ("%" in text or "\\" in text or "&" in text) and _ESCAPE.search(text) is not None


def decoded(text: str) -> tuple[str, Sequence[int]]:
    """A text without escapes, and the place of each of its signs in the given one, with that of its end."""
    places: Sequence[int] = range(len(text) + 1)
    for _ in range(DEEPEST):
        made, begins, done = list[str](), list[int](), 0
        for match in _ESCAPE.finditer(text):
            made += (text[done : match.start()], _sign(match[0]))
            begins += places[done : match.start() + 1]
            done = match.end()
        if not made:
            break
        text, places = "".join((*made, text[done:])), [*begins, *places[done:]]
    return text, places


def _sign(escape: str) -> str:
    if escape[0] == "&":
        import html

        sign = html.unescape(escape)
    elif escape[1] in "ux":
        sign = chr(int(escape[2:], 16))
    else:
        sign = escape[1] if escape[0] == "\\" else chr(int(escape[1:], 16))
    return sign if len(sign) == 1 and sign.isascii() and (sign.isprintable() or sign in "\t\n\r") else "\0"
