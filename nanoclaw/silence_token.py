"""Silence tokens: the words of a model that has nothing to say, and an answer without them."""

from __future__ import annotations

import re

_TOKEN = r"(?:HEARTBEAT\\?_OK|NO\\?_REPLY|\\?\[SILENT\\?\])"
_WRAP = "\"'`*_~“”„‘’«»()<>|"
_MARKUP = r"</?[A-Za-z][^<>\n]*>|&nbsp;|```[\w-]*"

# patterns as texts: compiled when first used, not at every start of the program
_ANY = rf"(?<![^\W_])(?<![^\W_]_)(?<![/@$=\\-]){_TOKEN}(?![^\W_]|_[^\W_]|[/@=\\-]|\.\w)"
_NUMBER = rf"^[ \t]*\d+[.)][ \t]+(?=[{re.escape(_WRAP)}]*{_TOKEN})"
_LABEL = r"(?:heartbeat|final|status|result|answer|response|reply|report|output)\b[\W_]*"
_EDGE = rf"(?:{_MARKUP}|[\W_])*+"
# nothing but a token; one that lost its sign only in capitals, as "No reply." and "Heartbeat OK." are news
_ALONE = rf"{_EDGE}(?:(?:{_LABEL})*(?:{_ANY}|(?-i:HEARTBEAT[ -]?OK))|(?-i:NO[ -]?REPLY))(?![^\W_]){_EDGE}"
_AT_START = rf"\s*(?P<before>[{re.escape(_WRAP)}]*)(?P<token>{_ANY})"
_AT_END = rf"(?P<token>{_ANY})(?P<after>[{re.escape(_WRAP)}.!?,;:…\s]*)$"

_QUOTES, _SEPARATORS, _STOPS = "\"'`“”„‘’«»", " \t\r\n-–—:;,|", ".!?…"


def spoken(text: str) -> str:
    """The part of an answer that is for the person: '' if it is nothing but a silence token, however dressed up.

    A token at the beginning or the end is taken off, and every other word stays. One in the middle, or quoted within a
    sentence, is a word like any other.
    """
    if not re.search("heartbeat|reply|silent", text, re.IGNORECASE):
        return text  # nearly every answer: what follows is dear to compile
    if re.fullmatch(_ALONE, text, re.IGNORECASE):
        return ""
    if not re.search(_ANY, text, re.IGNORECASE):
        return text
    if not _has_words(text):
        return ""
    while True:
        shorter = _without_last(_without_first(text))
        if shorter == text:
            return text
        if not _has_words(shorter):
            return ""
        text = shorter


def may_become_silence(begun: str) -> bool:
    """True while the beginning of an answer is a silence token, or may still turn out to be one."""
    bare = re.sub(r"<[^<>\n]*>?|&[a-z]*;?", "", begun).strip(_WRAP + _SEPARATORS + _STOPS + "\\").upper()
    whole = re.sub(r"\\?_|[ -]", "_", bare.replace("\\", ""))
    return any(token.startswith(whole) for token in ("HEARTBEAT_OK", "NO_REPLY", "[SILENT]")) or not spoken(begun)


def _has_words(text: str) -> bool:
    unlisted = re.sub(_NUMBER, "", text, flags=re.IGNORECASE | re.MULTILINE)
    rest = re.sub(_MARKUP, " ", re.sub(_ANY, " ", unlisted, flags=re.IGNORECASE))
    return any(sign.isalnum() for sign in rest)


def _without_first(text: str) -> str:
    found = re.match(_AT_START, text, re.IGNORECASE)
    if not found:
        return text
    before, rest = found["before"], text[found.end() :]
    closing = rest[: len(rest) - len(rest.lstrip(_WRAP))]
    own = _mirrored(before, closing)
    after = rest[own:]
    is_mention = own and set(before) & set(_QUOTES) and re.match(r"[ \t]*\w", after)
    if is_mention:
        return text
    return before[: len(before) - own] + after.lstrip(_SEPARATORS + _STOPS)


def _without_last(text: str) -> str:
    found = re.search(_AT_END, text, re.IGNORECASE)
    if not found:
        return text
    head, after = text[: found.start()], found["after"].rstrip()
    opening = head[len(head.rstrip(_WRAP)) :]
    own = _mirrored(opening, after)
    before = head[: len(head) - own]
    if own and set(opening) & set(_QUOTES) and re.search(r"[\w,][ \t]*$", before):  # he wrote "NO_REPLY"
        return text
    return before.rstrip(_SEPARATORS) + after[own:].strip().lstrip(_STOPS + _SEPARATORS)


def _mirrored(before: str, after: str) -> int:
    """The number of signs before a token that are closed right after it."""
    most = min(len(before), len(after))
    count = 0
    while count < most and _closes(before[-1 - count], after[count]):
        count += 1
    return count


def _closes(opening: str, closing: str) -> bool:
    return closing in {"(": ")", "<": ">", "“": "”", "„": "“”", "‘": "’", "«": "»", "»": "«"}.get(opening, opening)
