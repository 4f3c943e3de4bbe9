"""Addresses that might carry something out of a conversation. Best effort where a model invents one; what is in
others' text to the letter tells its reader nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

LONG = 20
"""Letters of a part of an address that nobody types."""


def carries(url: str, own: str, others: Sequence[str], *, is_tainted: bool) -> str:
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
    if any(map(_is_data, re.split(r"[^\w%+=~-]+", f"{host}/{parts.path}"))):
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


def _is_data(part: str) -> bool:
    """True for a long part, and for one in which letters and digits change more often than in a word."""
    pieces = re.split(r"[-_.~+=]", part)
    changes = max(len(re.findall(r"\d+|[A-Z]+|[a-z]+", piece)) for piece in pieces)
    longest = max(map(len, pieces))
    return longest > LONG or changes >= 5 or "%" in part or (longest >= 10 and changes >= 3)
