"""Words of a call compared with what was said: the owner's own, and others'."""

from __future__ import annotations

import re
from collections.abc import Iterable

RUN = 4
"""Words in a row that say the same."""

_EMPTY = """a an and are as at by for from has have her his i in is it me my of on or owner person s that the their
this to user was with you your"""
_GLUE = frozenset(_EMPTY.split())
"""Words that say nothing by themselves; no negation is among them."""


def is_said(text: str, own: str) -> bool:
    """True where the owner said each word of a text, whatever their order."""
    words = [word for word in _words(text) if word not in _GLUE]
    return bool(words) and set(words) <= set(_words(own))


def echoed(text: str, others: Iterable[tuple[str, str]], own: str) -> list[str]:
    """Sources of which a text repeats words in a row, or an address, that the owner did not say."""
    words = _words(text)
    length = min(RUN, len(words))
    own_runs = _runs(_words(own), length)
    runs = _runs(words, length) - own_runs if length else set()
    places = {one for one in _PLACE.findall(text.casefold()) if one not in own.casefold()}
    found = dict[str, None]()
    for source, said in others:
        if places & set(_PLACE.findall(said.casefold())) or (runs and runs & _runs(_words(said), length)):
            found[source] = None
    return list(found)


_PLACE = re.compile(r"(?:(?<=://)|(?<=@))[\w-]+(?:\.[\w-]+)+")


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold())


def _runs(words: list[str], length: int) -> set[tuple[str, ...]]:
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}
