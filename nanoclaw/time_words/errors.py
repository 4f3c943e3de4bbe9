"""The one error of this library; its text is a sentence for a person."""

from __future__ import annotations


class TimeWordsError(ValueError):
    """A time, interval, zone or cron expression that cannot be."""


def shown(text: str) -> str:
    """A text in quotes, cut where it is long."""
    return repr(text if len(text) <= 60 else text[:60] + "…")
