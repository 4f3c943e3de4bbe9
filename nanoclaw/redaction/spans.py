"""Places in a text: where words stand, the lines around them, and the text with the mask in some."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

MASK = "[secret]"

Span = tuple[int, int]


def masked(text: str, spans: Iterable[Span]) -> str:
    """A text with the mask in these places; those that touch become one."""
    made, done = list[str](), 0
    for start, end in sorted(spans):
        if made and start <= done:
            done = max(done, end)
        elif end > start:
            made += (text[done:start], MASK)
            done = end
    return "".join((*made, text[done:])) if made else text


def places(low: str, word: str) -> Iterator[int]:
    at = low.find(word)
    while at >= 0:
        yield at
        at = low.find(word, at + len(word))


def places_of(text: str, escapes: Mapping[str, re.Pattern[str]]) -> Iterator[int]:
    """The places of escapes, each kind by the character that it begins with."""
    for sign, pattern in escapes.items():
        if sign in text:
            yield from (match.start() for match in pattern.finditer(text))


def around(low: str, places: Iterable[int]) -> Iterator[Span]:
    """The lines, of long ones the parts, in which one of the places is."""
    begun, end = -1, -1
    for at in sorted(places):
        if at < end:
            continue
        start, stop = low.rfind("\n", max(at - _BEFORE, end, 0), at) + 1, low.find("\n", at, at + _AFTER)
        if begun >= 0:
            yield begun, end
        begun, end = start or max(at - _BEFORE, end, 0), stop + 1 or min(at + _AFTER, len(low))
    if begun >= 0:
        yield begun, end


_BEFORE, _AFTER = 200, 800
