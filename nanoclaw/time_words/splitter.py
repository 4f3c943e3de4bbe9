"""Split the words for a time from the text beside them, where no colon does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, tzinfo

from nanoclaw.time_words.errors import TimeWordsError
from nanoclaw.time_words.evaluate import read, read_known
from nanoclaw.time_words.lexer import leading_kinds, spoken_in
from nanoclaw.time_words.lexicon import LANGUAGES
from nanoclaw.time_words.readings import At, Cron, Every, Result, Unclear

WORDS_OF_A_TIME = 12
"""So many are looked at."""
_TO = re.compile(r"(?:^|\s)(?:to|that|about)\s+", re.IGNORECASE)
_QUOTED = re.compile(r"""(["'])(.+?)\1\s+(?=\S)""")
_DASH = re.compile(r"(?:[-–—,;]+\s+)+")
_ZONE = re.compile(
    r"(?i:[ecmp][sd]?t|utc|gmt|bst|ces?t|mes?z|z)\b|[A-Z]{1,4}[TZ]\b|(?i:\w+\s+)?(?i:\w+\s+(?:time|zeit)\b)"
)
_ZONE_AT_END = re.compile(r"\s(?:[ECMP][SD]?T|UTC|GMT|BST|CES?T|MES?Z)\W*$")


def split(said: str, now: datetime, zone: str | tzinfo) -> list[str]:
    """The words for the time and the text of "tomorrow at 9 to call Anna", "to call Anna tomorrow at 9" or
    "0 9 * * 1-5 look at my mail"; [] where they cannot be told apart, or words of the text may belong to the time."""

    def heard(phrase: str) -> Result | None:
        try:
            return None if phrase.isdecimal() else read(phrase, now, zone)  # "chapter 7"
        except TimeWordsError:
            return None

    def is_sure(phrase: str) -> bool:
        return not isinstance(heard(phrase), Unclear | None)

    if text_first := _TO.match(said):
        tail = said[text_first.end() :].split()
        for at in range(1, len(tail)):
            if heard(when := " ".join(tail[at:])):
                leads_on = leading_kinds(tail[at - 1 : at], _languages(when))  # "to read for 20 minutes"
                return [] if leads_on else [when, " ".join(tail[:at])]
        return []
    for found in _TO.finditer(said):
        when, text = said[: found.start()].strip(), said[found.end() :].strip()
        if (reading := heard(when)) and not _goes_on(when, text):  # "monday to friday at 9"
            return [] if _is_said_at_the_end(when, text, reading, now, zone) else [when, text]
    if quoted := _QUOTED.match(said):
        return [quoted[2], said[quoted.end() :]]
    spaces = list(re.finditer(r"\s+", said))[:WORDS_OF_A_TIME]
    for space in reversed(spaces):
        when, text = said[: space.start()], _DASH.sub("", said[space.end() :], count=1)
        reading = heard(when)
        if isinstance(reading, Unclear | None):
            continue
        shorter, _, last = when.rpartition(" ")
        if _is_number(last) and (is_sure(shorter) or shorter.isdecimal()):
            return []  # "friday at 9 30 eggs" may be at 9 and at 9:30
        if heard(said) or _goes_on(when, text) or _is_said_at_the_end(when, text, reading, now, zone):
            return []
        return [when, text]
    return []


def _is_number(word: str) -> bool:
    return word.isdecimal() or bool(set(leading_kinds([word], LANGUAGES)) & set("nhqTf"))


def _languages(when: str) -> Sequence[str]:
    return spoken_in(when)


def _goes_on(when: str, text: str) -> bool:
    """True where the text can begin with a part of the time: a number, a zone, "for a week", "all week", "half"."""
    bare = re.sub(r"^\W+", "", text)
    if bare[:1].isdigit() or _ZONE.match(bare):
        return True
    languages, rest = _languages(when), bare.split()
    while rest and (article := leading_kinds(rest, languages)) and set(article) <= set("A.j,"):
        rest = rest[1:]
    return bool(leading_kinds(rest, languages) or set(leading_kinds(rest[1:], languages)) & set("uUWEKN"))


def _is_said_at_the_end(when: str, text: str, reading: Result, now: datetime, zone: str | tzinfo) -> bool:
    """True where the last words of the text change its time: "to call Anna tomorrow", "… London time", or bound a
    repeat: "… for a week"."""
    if _ZONE_AT_END.search(text):
        return True
    tail, languages = text.split(), _languages(when)
    for at in range(max(0, len(tail) - WORDS_OF_A_TIME), len(tail)):
        more = read_known(f"{when} {' '.join(tail[at:])}", now, zone)
        bounds = not isinstance(reading, At) and set(leading_kinds(tail[at:], languages)) & set("XrF")
        if (isinstance(more, Unclear) and bounds) or isinstance(more, At | Every | Cron):
            return True
    return False
