"""Searches and addresses that might carry something out of a conversation. Of searches a courtesy, as it is told from
their words; of addresses best effort where a model invents one, and what is in others' text to the letter tells its
reader nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from urllib.parse import urlsplit

from nanoclaw.tokenizer import is_cjk, tokens

FEW = 5
"""Words of the model's own that a query may have."""

LONG, LONGEST_NUMBER = 20, 2
"""Letters of a word, or of a part of an address, that nobody types, and digits of a number too short to matter."""


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


def address_carries(url: str, own: str, others: Sequence[str], *, is_tainted: bool) -> str:
    """Why an address may tell its host something of the conversation; '' where it can't, or its owner gave it.

    An address on a host that others' text names must be in that text, or in the owner's words. On any other one
    there must be no query, and no part that could be data.
    """
    url = url.strip()
    whole = url if "://" in url else f"https://{url}"
    try:
        parts = urlsplit(whole)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return "it is not an address"
    if any(_stands(whole, text) for text in (own, *others)):
        return ""
    is_bare = parts.path in ("", "/") and not (parts.query or parts.fragment or "@" in parts.netloc)
    if is_bare and any(_has_host(host, text) for text in (own, *others)):
        return ""
    if any(_has_host(above, text) for above in _with_above(host) for text in others):
        return "others' text names its host, and not this address"
    if not is_tainted:
        return ""
    if parts.query or parts.fragment or "@" in parts.netloc:
        return "it has a query that nobody mentioned"
    if any(map(_is_data_in, re.split(r"[^\w%+=~-]+", f"{host}/{parts.path}"))):
        return "a part of it could be data"
    return ""


def _stands(url: str, text: str) -> bool:
    """True where a text contains an address as it is: its scheme, `www.` and a last `/` don't count."""
    wanted = re.sub(r"^[a-z][a-z0-9+.-]*://(?:www\.)?", "", url, flags=re.IGNORECASE).rstrip("/")
    host, slash, path = wanted.partition("/")
    pattern = (
        rf"(?<![\w@%.-])(?:www\.)?(?i:{re.escape(host)}){re.escape(slash + path)}/?(?![\w%/?#&=@~+-]|[.,;:!][\w%/?#])"
    )
    return re.search(pattern, text.replace("&amp;", "&")) is not None


def _has_host(host: str, text: str) -> bool:
    return re.search(rf"(?i)(?:(?<![\w.-])|(?<=\.)){re.escape(host)}(?![\w-]|\.[\w-])", text) is not None


def _with_above(host: str) -> list[str]:
    """A host, and those above it that may be somebody's own."""
    labels = host.split(".")
    return [".".join(labels[number:]) for number in range(max(1, len(labels) - 1))]


def _is_data_in(part: str) -> bool:
    """True for a long part, and for one in which letters and digits change more often than in a word."""
    pieces = re.split(r"[-_.~+=]", part)
    changes = max(len(re.findall(r"\d+|[A-Z]+|[a-z]+", piece)) for piece in pieces)
    longest = max(map(len, pieces))
    return longest > LONG or changes >= 5 or "%" in part or (longest >= 10 and changes >= 3)
