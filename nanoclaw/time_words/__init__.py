"""Words for a time, such as "tomorrow at 9" or 每天早上8点, as moments, intervals or cron expressions."""

from __future__ import annotations

from datetime import datetime, tzinfo
from re import Pattern

from nanoclaw.time_words.cron import zone_named
from nanoclaw.time_words.errors import TimeWordsError
from nanoclaw.time_words.format import briefly, date_and_time, distance, in_words, late, repeat_in_words, was_due
from nanoclaw.time_words.readings import DAY, At, Cron, Every, Reading, Result, Unclear, apart, same, upcoming

__all__ = [
    "DAY",
    "At",
    "Cron",
    "Every",
    "Reading",
    "Result",
    "TimeWordsError",
    "Unclear",
    "apart",
    "briefly",
    "date_and_time",
    "distance",
    "in_words",
    "late",
    "mentions",
    "phrases",
    "read",
    "read_known",
    "repeat_in_words",
    "same",
    "split",
    "spoken_in",
    "upcoming",
    "was_due",
    "zone_named",
]


def read(words: str, now: datetime, zone: str | tzinfo, language: str = "") -> Result:
    """The meaning of words for a time, said at `now` by a person in `zone`; Unclear holds the question to ask. In a
    `language` only what they mean there counts, if it has them.

    Raises TimeWordsError, with a sentence for the person, for the past and for what is not a time.
    """
    from nanoclaw.time_words import evaluate  # with the words of eight languages

    return evaluate.read(words, now, zone, language)


def read_known(words: str, now: datetime, zone: str | tzinfo, language: str = "") -> Result | None:
    """The same for the words of our eight languages; None for any others, and for what can never be."""
    from nanoclaw.time_words import evaluate

    return evaluate.read_known(words, now, zone, language)


def split(said: str, now: datetime, zone: str | tzinfo, to: Pattern[str] | None = None) -> list[str]:
    """The words for the time and the text of "tomorrow at 9 to call Anna"; [] where they cannot be told apart.

    `to` finds the words that lead to the text, English ones without it; the time is then looked for among the words
    of our languages alone.
    """
    from nanoclaw.time_words import splitter

    return splitter.split(said, now, zone, to)


def phrases(text: str, now: datetime, zone: str | tzinfo) -> list[str]:
    """The words for times in a text, each as long as it is one, in their order."""
    from nanoclaw.time_words import splitter

    return splitter.phrases(text, now, zone)


def spoken_in(words: str) -> list[str]:
    """The languages, such as "de", that have all of these words; all of ours where none has."""
    from nanoclaw.time_words import lexer

    return lexer.spoken_in(words)


def mentions(text: str, now: datetime, zone: str | tzinfo, *, is_whole: bool = True) -> bool:
    """True for a text with words in it that are a whole time, such as "call Anna and at 6 leave"; unless it has to be
    `is_whole`, also for a day alone, such as "I'll call tomorrow"."""
    from nanoclaw.time_words import splitter

    return splitter.mentions(text, now, zone, is_whole=is_whole)
