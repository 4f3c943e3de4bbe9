"""Search of all that was said in all conversations, word by word, whatever their case."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from nanoclaw.core.messages import Address
from nanoclaw.documents.marks import without_documents
from nanoclaw.escapes import one_line
from nanoclaw.outside_text import own_words

if TYPE_CHECKING:
    from nanoclaw.core.records import Records

FOUND = 20
"""Places that a search shows."""

_LOOKED_AT = 2_000  # newest messages with the longest word
_BEFORE, _EXCERPT = 40, 160  # characters before the first word, and in all


def search(records: Records, words: Sequence[str]) -> list[dict[str, Any]]:
    """The newest messages that have all these words: conversation, number of the message there (that of the question,
    for an answer), its row, time, who said it, and the words around the first one."""
    folded = [word.casefold() for word in words]

    @cache
    def asked(key: str) -> list[int]:
        return [turn for turn, *_ in records.asked(Address(*key.partition(":")[::2]))]

    found = list[dict[str, Any]]()
    for key, turn, row, kind, at, text in records.find(_pattern(max(words, key=len)), _LOOKED_AT):
        text = without_documents(own_words(text))
        if len(found) < FOUND and all(word in text.casefold() for word in folded):
            number = sum(one <= turn for one in asked(key))
            who = "you" if kind == "user" else "nanoclaw"
            place = {"conversation": key, "message": number, "row": row, "at": at, "who": who}
            found.append({**place, "excerpt": _excerpt(text, folded[0])})
    return found


def _pattern(word: str) -> str:
    """For LIKE, which knows the case of ASCII letters only: the others may be any."""
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{''.join(sign if sign.isascii() else '%' for sign in escaped)}%"


def _excerpt(text: str, word: str) -> str:
    start = max(0, text.casefold().find(word) - _BEFORE)
    return one_line("…" * bool(start) + text[start : start + 2 * _EXCERPT], _EXCERPT)
