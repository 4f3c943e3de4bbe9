"""Search queries that might carry something out of a conversation. A courtesy, as it is told from their words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from nanoclaw.tokenizer import is_cjk, tokens

FEW = 5
"""Words of the model's own that a query may have."""

LONG, LONGEST_NUMBER = 20, 2
"""Letters of a word too long to be searched for, and digits of a number too short to matter."""


def carries(query: str, known: Iterable[str], private: Iterable[str], now: datetime) -> str:
    """Why a query may tell the search engine something of the conversation; '' where it can't.

    Words of the `known` texts tell it nothing: what the owner has just said, what others wrote, what was searched for
    before. Of all others there may be a few, none of them like a number or from the `private` texts.
    """
    known = list(known)
    near = (now.year - 1, now.year, now.year + 1)
    free = {term for text in (*known, *map(str, near), f"{now:%B}") for term in _terms(text)}
    new = [term for term in dict.fromkeys(_terms(query)) if term not in free]
    if not new:
        return ""
    given = "\n".join(known).casefold()
    if any(_is_data(word) for word in re.findall(r"[^\W_]+", query) if word.casefold() not in given):
        return "it has a number or code that nobody mentioned"
    told = {term for text in private for term in _terms(text)}
    if told.intersection(new):
        return "it has words of this conversation"
    return "most of its words were not mentioned by anybody" if len(new) > FEW else ""


def own_parts(system: str) -> str:
    """The parts of a system message that are the owner's words: the program's own tell nobody anything."""
    parts = re.split(rf"(?m)^# ({'|'.join(_HEADINGS)})$", system)
    return "\n".join(text for title, text in zip(parts[1::2], parts[2::2], strict=True) if _HEADINGS[title])


_HEADINGS = {
    "Who you are": False,
    "Your character": True,
    "Instructions": True,
    "Standing rules": True,
    "In this run": False,
    "Active skills": False,
    "Skills": False,
    "Memory": True,
}
"""Headings of the system message, which no text in it can imitate; True: what stands there is the owner's."""


def _is_data(word: str) -> bool:
    """True for a long number or word, and for one in which letters, digits and cases change as in no word."""
    changes = len(re.findall(r"\d+|[A-Z]+|[a-z]+", word))
    is_mixed = len(word) >= 8 and any(map(str.isdigit, word)) and not word.isdigit()
    return len(word) > LONG or re.search(rf"\d{{{LONGEST_NUMBER + 1}}}", word) is not None or changes >= 5 or is_mixed


def _terms(text: str) -> list[str]:
    """The terms of a text; of a run of CJK characters each pair."""
    return [term for term in tokens(text) if len(term) > 1 or not is_cjk(term)]
