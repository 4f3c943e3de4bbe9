"""Dates in other languages, or in forms that the parser does not know: dateparser's reading, doubted."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta

from nanoclaw.time_words.errors import TimeWordsError, shown
from nanoclaw.time_words.format import date_and_time, passed, question
from nanoclaw.time_words.lexicon import folded
from nanoclaw.time_words.readings import At, Result, Unclear, apart, wall


def from_dateparser(words: str, text: str, now: datetime, strange: str) -> Result:
    """A date in words of another language, or in a form of its own; asks unless each word of it was used.

    Raises TimeWordsError for one whose time of the day would be that of now, since it was not understood.
    """
    if re.search(r"\b[A-Z]{2,4}T\b", words):  # EST, CEST: the library takes them for any zone
        raise _unknown(_as_written(strange, words))
    when = _parsed(words, now)
    if when and timedelta() <= apart(now, when) < timedelta(minutes=1):
        raise TimeWordsError("That is now. Name a later time.")
    if when is None or (not _CLOCK.search(text) and _follows_now(words, when, now)):
        raise _unknown(_as_written(strange, words))
    if apart(when, now) <= timedelta():
        raise passed(when, now, now.tzinfo or UTC) if _all_used(words, when, now) else _unknown(words)
    if not _CLOCK.search(text):
        return Unclear(f"Is {shown(words)} the {date_and_time(when, now.tzinfo or UTC)}? Say it with date and time.")
    at = At(when)
    if _all_used(words, when, now):
        return at
    return Unclear(question((at,), now, now.tzinfo or UTC, f"Not all of {shown(words)} is clear."), (at,))


def _unknown(words: str) -> TimeWordsError:
    """The refusal of words that name no time; `words` are those in question."""
    return TimeWordsError(
        f"Cannot read {shown(words)} as a time. Say it like 'tomorrow at 9', 'in 20 minutes', 'every weekday at 7:30' "
        "or '2026-11-27 17:05'."
    )


_CLOCK = re.compile(r"\d{1,2}[:.h]\d\d")
_TOKEN = r"(?:[^\W\d_]+\.?|\d+(?:[.:/-]\d+)*(?:\.|[^\W\d_a-zA-Z]+)?)"
_PLAIN = re.compile(rf"{_TOKEN}(?:,? {_TOKEN})*[.!?]?")
_LITTLE = frozenset(["o", "w", "v", "ve", "в", "во", "о", "у", "об", "om", "op", "på", "kl", "na"])
"""Words such as "at" that say nothing in the languages that only the library knows."""


def _follows_now(words: str, when: datetime, now: datetime) -> bool:
    """True if the time of the day comes from the clock and not from the words."""
    other = now.replace(hour=(now.hour + 5) % 24, minute=(now.minute + 17) % 60)
    again = _parsed(words, other)
    return again is None or (again.hour, again.minute) != (when.hour, when.minute)


def _as_written(strange: str, words: str) -> str:
    """A folded word, or all of the phrase, as it was said."""
    words = unicodedata.normalize("NFC", " ".join(words.split()))
    said = [word.strip(",;.!?") for word in words.split()]
    whole = (word for word in said if folded(word) == strange)
    return next(whole, next((word for word in said if strange in folded(word)), words))


def _parsed(words: str, now: datetime) -> datetime | None:
    import dateparser

    try:
        found = dateparser.parse(
            words,
            languages=["en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "pl", "cs", "ru", "uk", "tr", "ko"],
            settings={
                "PREFER_DATES_FROM": "future",
                "RELATIVE_BASE": now.replace(tzinfo=None),
                "TIMEZONE": str(now.tzinfo),
                "RETURN_AS_TIMEZONE_AWARE": False,
                "REQUIRE_PARTS": ["day", "month"],
                "DATE_ORDER": "DMY",
            },
        )
    except Exception:  # a library for any text, which also raises what it does not name
        return None
    if found is None:
        return None
    try:
        return wall(found.replace(tzinfo=None, second=0, microsecond=0), now.tzinfo or UTC).when
    except (ValueError, OverflowError):
        return None


def _all_used(words: str, when: datetime, now: datetime) -> bool:
    """Each number is part of the date, and without any word of three letters the date would be another one; no
    character or letter stands in it that the library would drop."""
    little = re.findall(r"(?<!\w)[^\W\d_]{1,2}(?!\w)", words.casefold())
    last = re.split(r"\W+", words.casefold().rstrip(" .!?"))[-1]
    if not _PLAIN.fullmatch(" ".join(words.split())) or not _LITTLE.issuperset(little) or last in _LITTLE:
        return False
    parts = {when.day, when.month, when.year, when.year % 100, when.hour, when.minute, (when.date() - now.date()).days}
    if any(int(number) not in parts for number in re.findall(r"\d+", words)):
        return False
    content = list(re.finditer(r"[^\W\d_]{3,}", words))
    if len(content) > 6:
        return False
    return all(_parsed(words[: one.start()] + words[one.end() :], now) != when for one in content)
