"""The words of time of each language, read from languages/*.json and days.txt when they are first needed."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from nanoclaw.time_words.days import names

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "zh", "ja")

UNSPACED = ("zh", "ja")  # languages written without spaces
Token = tuple[str, str]  # a kind, as one letter of KINDS, and a value
_NAMES = (
    "number article ordinal year clock hours date weekday each_weekday weekdays weekend month unit hour day "
    "week_from_now month_from_now part zone in later every every_after other next coming this last last_day "
    "of_month at the oclock midnight half quarter three_quarters and_half and_quarter less_quarter past before "
    "and until from bound vague filler link"
)
KINDS = dict(zip(_NAMES.split(), "nAOYCHDwvWEmuUdKNpzigeGoxktlLBajcMhqTfQR><&rFX~.,", strict=True))
"""Kinds of tokens as the language files name them, and the letters in which the parser's rules are written.

"7 minutes" is a number and a unit, "17h30" hours, "mondays" each_weekday; what "bound" stands for ends a repeat; a
"filler" says nothing, and so does a "link", but something follows it.
"""

_OWN_WORD = "rFX"  # kinds whose value is the word itself, which is named where it has no place


@cache
def lexicon(language: str) -> Mapping[str, tuple[Token, ...]]:
    """Folded words or phrases, their words parted by one space, and the tokens they stand for."""
    path = Path(__file__).with_name("languages") / f"{language}.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    found: dict[str, tuple[Token, ...]] = {}
    months = {name: place + 1 for name, place in names(language, "month").items()} | data.get("months", {})
    weekdays = names(language, "weekday") | data.get("weekdays", {})
    for letter, table in (("w", weekdays), ("m", months), ("n", data.get("numbers", {}))):
        for name, number in table.items():
            found |= dict.fromkeys(_spellings(name), ((letter, str(number)),))
    for kinds, phrases in data["tokens"].items():
        tokens = tuple(_token(one) for one in kinds.split())
        for phrase in phrases:
            for spelling in _spellings(with_digits(phrase) if language in UNSPACED else phrase):
                found[spelling] = ((tokens[0][0], spelling),) if tokens[0][0] in _OWN_WORD else tokens
    if language == "zh":
        found |= _weeks_with_days(found)
    if language == "de":
        found |= _days_with_parts(found)
    return found


def folded(text: str) -> str:
    """Small letters, no accents, plain digits and spaces."""
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    text = unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", text))
    return " ".join(text.replace("’", "'").split())


def with_digits(text: str) -> str:
    """Chinese numerals as digits where they count something, but not within a word such as 星期三."""
    return re.sub(_COUNTING, lambda found: str(_numeral(found[0])), text)


def _token(text: str) -> Token:
    kind, _, value = text.partition("=")
    return KINDS[kind], value


def _spellings(phrase: str) -> set[str]:
    """As it is folded, and as it is written where the keyboard has no umlauts."""
    return {phrase} if phrase.isascii() else {folded(phrase), phrase.translate(_TWO_LETTERS)}


_TWO_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})


def _days_with_parts(found: Mapping[str, tuple[Token, ...]]) -> dict[str, tuple[Token, ...]]:
    """Sonntagabend is one word."""
    parts = {"morgen": "morning", "vormittag": "morning", "nachmittag": "afternoon", "abend": "evening"}
    return {
        phrase + ending: (*tokens, ("p", f"{part}s" if ending.endswith("s") else part))
        for phrase, tokens in found.items()
        if tokens[0][0] == "w" and len(phrase) > 2
        for word, part in parts.items()
        for ending in (word, word + "s", f" {word}")
    }


def _weeks_with_days(found: Mapping[str, tuple[Token, ...]]) -> dict[str, tuple[Token, ...]]:
    """下周五 is one word, whose 周 belongs to both the week and the day."""
    weeks = {phrase: tokens for phrase, tokens in found.items() if phrase.endswith(("周", "星期", "礼拜", "週"))}
    return {
        phrase + day: (*(token for token in tokens if token != ("u", "w1")), ("w", str(number)))
        for phrase, tokens in weeks.items()
        for number, names in enumerate(("一", "二", "三", "四", "五", "六", "日天"))
        for day in names
    }


def _numeral(text: str) -> int:
    """The value of a run of numerals such as 二十五."""
    if not set(text) & set(_SCALES):
        return int("".join(str(_DIGITS[sign]) for sign in text))
    total = pending = 0
    for sign in text:
        if sign in _SCALES:
            total += (pending or 1) * _SCALES[sign]
            pending = 0
        else:
            pending = _DIGITS[sign]
    return total + pending


_DIGITS = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_SCALES = {"十": 10, "百": 100}
_NUMERALS = "".join(_DIGITS) + "".join(_SCALES)
_COUNTING = rf"(?<![周期拜週第])[{_NUMERALS}]+(?=[月日号號点點時时分秒刻小个個天周星週年かヶカヵ礼]|半小|半時)"
