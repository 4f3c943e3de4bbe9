"""Split the words for a time from the text beside them, where no colon does."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, tzinfo
from itertools import product

from nanoclaw.time_words.errors import TimeWordsError
from nanoclaw.time_words.evaluate import read, read_known
from nanoclaw.time_words.lexer import leading_kinds, spoken_in
from nanoclaw.time_words.lexicon import LANGUAGES
from nanoclaw.time_words.readings import At, Cron, Every, Result, Unclear

WORDS_OF_A_TIME, MOST_WORDS = 12, 1_000  # so many are looked at, and of a whole text
_TO = re.compile(r"(?:^|\s)(?:to|that|about)\s+", re.IGNORECASE)
_QUOTED = re.compile(r"""(["'])(.+?)\1\s+(?=\S)""")
_DASH = re.compile(r"(?:[-–—,;]+\s+)+")
_ZONE = re.compile(
    r"(?i:[ecmp][sd]?t|utc|gmt|bst|ces?t|mes?z|z)\b|[A-Z]{1,4}[TZ]\b|(?i:\w+\s+)?(?i:\w+\s+(?:time|zeit)\b)"
)
_ZONE_AT_END = re.compile(r"\s(?:[ECMP][SD]?T|UTC|GMT|BST|CES?T|MES?Z)\W*$")


def split(said: str, now: datetime, zone: str | tzinfo, to: re.Pattern[str] | None = None) -> list[str]:
    """The words for the time and the text of "tomorrow at 9 to call Anna", "to call Anna tomorrow at 9" or
    "0 9 * * 1-5 look at my mail"; [] where they cannot be told apart, or words of the text may belong to the time."""
    is_known, to = to is not None, to or _TO

    def heard(phrase: str) -> Result | None:
        if phrase.isdecimal():  # "chapter 7"
            return None
        if is_known:
            return read_known(phrase, now, zone)
        try:
            return read(phrase, now, zone)
        except TimeWordsError:
            return None

    def lacks_hour_at_most(phrase: str) -> bool:
        said = heard(f"{phrase} 9:00")
        return bool(said.readings if isinstance(said, Unclear) else said)

    def is_sure(phrase: str) -> bool:
        return not isinstance(heard(phrase), Unclear | None)

    if text_first := to.match(said):
        tail = said[text_first.end() :].split()
        for at in range(1, len(tail)):
            if heard(when := " ".join(tail[at:])):
                leads_on = leading_kinds(tail[at - 1 : at], spoken_in(when))  # "to read for 20 minutes"
                return [] if leads_on else [when, " ".join(tail[:at])]
        return []
    for found in to.finditer(said):
        when, text = said[: found.start()].strip(), said[found.end() :].strip()
        if (reading := heard(when)) and not _goes_on(when, text):  # "monday to friday at 9"
            return [] if _is_said_at_the_end(when, text, reading, now, zone) else [when, text]
    if quoted := _QUOTED.match(said):
        return [quoted[2], said[quoted.end() :]]
    if _is_unspaced(said):
        return _unspaced(said, heard)
    spaces = list(re.finditer(r"\s+", said))[:WORDS_OF_A_TIME]
    for may_ask, space in product((False, True), reversed(spaces)):
        when, text = said[: space.start()], _DASH.sub("", said[space.end() :], count=1)
        reading = heard(when)
        if reading is None or (isinstance(reading, Unclear) and not (may_ask and lacks_hour_at_most(when))):
            continue
        shorter, _, last = when.rpartition(" ")
        if _is_number(last) and (is_sure(shorter) or shorter.isdecimal()):
            return []  # "friday at 9 30 eggs" may be at 9 and at 9:30
        if heard(said) or _goes_on(when, text) or _is_said_at_the_end(when, text, reading, now, zone):
            return []
        return [when, text]
    return []


def mentions(text: str, now: datetime, zone: str | tzinfo, *, is_whole: bool = True) -> bool:
    """True for a text with words in it that are a whole time, or at least a day or a part of one."""
    for phrase in phrases(text, now, zone):
        has_digit, kinds = re.search(r"\d", phrase), [leading_kinds([word], LANGUAGES) for word in phrase.split()]
        is_day = not is_whole and set(kinds[0]) & set("dw")
        if len(kinds) == 1 and not (_is_unspaced(phrase) or is_day or has_digit):
            continue  # "the Friday meeting"
        only_counts = not has_digit and all(set(one or "-") <= set("jOnu") for one in kinds)  # "the first", "two hours"
        if _is_number(phrase) or (not is_whole and only_counts):
            continue
        if not is_whole or not isinstance(read_known(phrase, now, zone), Unclear):
            return True
    return False


def phrases(text: str, now: datetime, zone: str | tzinfo) -> list[str]:
    """The words for times in a text, each as long as it is one, in their order."""
    is_unspaced, found, start = _is_unspaced(text), list[str](), 0
    words, gap = (list(text), "") if is_unspaced else (text.split(), " ")
    while start < min(len(words), MOST_WORDS):
        is_likely = is_unspaced or re.search(r"\d", words[start]) or leading_kinds(words[start:], LANGUAGES)
        ends = range(min(len(words), start + WORDS_OF_A_TIME), start + is_unspaced, -1) if is_likely else ()
        read = (gap.join(words[start:end]).strip(",.;:!?()") for end in ends)
        phrase = next((one for one in read if one and read_known(one, now, zone)), "")
        found += [phrase] if phrase else []
        start += max(1, len(phrase) if is_unspaced else len(phrase.split()))
    return found


def _unspaced(said: str, heard: Callable[[str], Result | None]) -> list[str]:
    """The longest beginning that is a time, and the rest, where words stand without spaces."""
    found: list[tuple[str, Result]] = []
    for end in range(min(len(said) - 1, 2 * WORDS_OF_A_TIME), 1, -1):
        if (reading := heard(when := said[:end])) and (not found or when.endswith("に")):
            found.append((when, reading))
    sure = [(when, reading) for when, reading in found if not isinstance(reading, Unclear)] or found[:1]
    for when, reading in reversed(sure):  # "正午に昼ごはん": as much is said without the 昼
        if reading == sure[0][1]:
            return [when, said[len(when) :].lstrip("：:，,、 ")]
    return []


def _is_unspaced(text: str) -> bool:
    return bool(re.search("[\u3040-\u30ff\u4e00-\u9fff]", text))


def _is_number(word: str) -> bool:
    return word.isdecimal() or bool(set(leading_kinds([word], LANGUAGES)) & set("nhqTf"))


def _goes_on(when: str, text: str) -> bool:
    """True if the text can begin with a part of the time: a number, a zone, "for a week", "all week", "half"."""
    bare = re.sub(r"^\W+", "", text)
    if bare[:1].isdigit() or _ZONE.match(bare):
        return True
    languages, rest = spoken_in(when), bare.split()
    while rest and (article := leading_kinds(rest, languages)) and set(article) <= set("A.j,"):
        rest = rest[1:]
    return bool(leading_kinds(rest, languages) or set(leading_kinds(rest[1:], languages)) & set("uUWEKN"))


def _is_said_at_the_end(when: str, text: str, reading: Result, now: datetime, zone: str | tzinfo) -> bool:
    """True if the last words of the text change its time: "to call Anna tomorrow", "… London time", or bound a repeat:
    "… for a week"."""
    if _ZONE_AT_END.search(text):
        return True
    tail, languages = text.split(), spoken_in(when)
    for at in range(max(0, len(tail) - WORDS_OF_A_TIME), len(tail)):
        more = read_known(f"{when} {' '.join(tail[at:])}", now, zone)
        bounds = not isinstance(reading, At) and set(leading_kinds(tail[at:], languages)) & set("XrF")
        if (isinstance(more, Unclear) and bounds) or isinstance(more, At | Every | Cron):
            return True
    return False
