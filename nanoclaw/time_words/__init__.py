"""Words for a time, such as "tomorrow at 9" or 每天早上8点, as moments, intervals or cron expressions."""

from __future__ import annotations

from datetime import datetime, tzinfo

from nanoclaw.time_words.cron import check as check_cron
from nanoclaw.time_words.cron import zone_named
from nanoclaw.time_words.errors import TimeWordsError
from nanoclaw.time_words.format import date_and_time, day_in_words, distance, in_words, late, repeat_in_words
from nanoclaw.time_words.readings import DAY, At, Cron, Every, Reading, Result, Unclear, apart, upcoming

__all__ = [
    "DAY",
    "At",
    "Cron",
    "Every",
    "Reading",
    "Result",
    "TimeWordsError",
    "Unclear",
    "agree",
    "apart",
    "check_cron",
    "date_and_time",
    "day_in_words",
    "distance",
    "in_words",
    "late",
    "read",
    "repeat_in_words",
    "split",
    "upcoming",
    "zone_named",
]


def read(words: str, now: datetime, zone: str | tzinfo) -> Result:
    """The meaning of words for a time, said at `now` by a person in `zone`; Unclear holds the question to ask.

    Raises TimeWordsError, with a sentence for the person, for the past and for what is no time.
    """
    from nanoclaw.time_words import evaluate  # with the words of eight languages

    return evaluate.read(words, now, zone)


def agree(reading: Reading, iso: str, now: datetime, zone: str | tzinfo) -> str:
    """'' when an ISO time is within a minute of the reading, otherwise the question that shows both.

    Raises TimeWordsError when it is no ISO time.
    """
    from nanoclaw.time_words import evaluate

    return evaluate.agree(reading, iso, now, zone)


def split(said: str, now: datetime, zone: str | tzinfo) -> list[str]:
    """The words for the time and the text of "tomorrow at 9 to call Anna"; [] where they cannot be told apart."""
    from nanoclaw.time_words import splitter

    return splitter.split(said, now, zone)
