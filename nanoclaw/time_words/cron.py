"""Zones by name, and cron expressions: checked, and due next in a zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

from nanoclaw.time_words.errors import TimeWordsError, shown

LONGEST = 200  # characters of an expression; all that people write are shorter, and a long one is dear to expand
_NAMES = re.compile("(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat|l|w)*", re.I)
_ALIASES = frozenset(("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"))
_STEPS = (("minutes", 59), ("hours", 23), ("days", 31), ("months", 12), ("weekdays", 7))


def next_due(expression: str, zone: str | tzinfo, after: datetime) -> datetime:
    """The first moment later than `after`, in UTC.

    A time that the clocks skip becomes the first moment after; one that they show twice counts once, unless the
    expression is for any hour of the day, which then has one hour more. Also computes what a job may not have, such
    as seconds. Raises TimeWordsError for an expression that cannot be read, that never comes, and for an unknown zone.
    """
    from croniter import CroniterBadDateError, CroniterError, croniter

    there = zone_named(zone)
    _readable(expression)
    try:
        times = croniter(expression, after.astimezone(there))
        while True:
            found: datetime = times.get_next(datetime).astimezone(UTC)
            if found.astimezone(there).fold == 0 or _any_hour(expression):
                return found
    except CroniterBadDateError:
        raise _never(expression) from None
    except (CroniterError, LookupError, TypeError, AttributeError):
        raise TimeWordsError(f"Not a cron expression: {shown(expression)}: {_wrong(expression)}. {_HOW}") from None
    except (ValueError, OverflowError):  # past the end of the calendar
        raise _never(expression) from None


def check(expression: str) -> None:
    """Raises TimeWordsError, with a sentence for the person, for an expression that a job may not have."""
    _readable(expression)
    fields = expression.split()
    if len(fields) == 6:
        raise TimeWordsError(
            f"{shown(expression)} has a field for seconds, and a job runs at most once a minute. {_HOW}"
        )
    if len(fields) != 5 and expression.strip().lower() not in _ALIASES:
        raise TimeWordsError(f"Not a cron expression: {shown(expression)} has {_fields(len(fields))}. {_HOW}")
    for field, (unit, most) in zip(fields, _STEPS, strict=False):
        for step in re.findall(r"/(\d+)", field):
            if int(step) > most:
                raise TimeWordsError(
                    f"{field!r} cannot count {step} {unit}: cron begins anew after {most}. Say 'every {step} {unit}'."
                )
    next_due(expression, UTC, datetime(2026, 1, 1, tzinfo=UTC))


def zone_named(zone: str | tzinfo) -> tzinfo:
    """The zone of a name such as "Europe/Berlin". Raises TimeWordsError if there is none of that name."""
    return _zone(zone) if isinstance(zone, str) else zone


@cache
def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise TimeWordsError(f"Unknown time zone {shown(name)}. Write it like 'Europe/Berlin'.") from None


_HOW = "Write five fields: minute, hour, day of the month, month, weekday, such as '30 7 * * 1-5'."


def _readable(expression: str) -> None:
    """Refuses what the library would read in its own way: random and hashed fields, and texts without end."""
    if len(expression) > LONGEST:
        raise TimeWordsError(f"A cron expression has at most {LONGEST} characters, this one {len(expression):,}.")
    if expression.strip().lower() in _ALIASES:
        return
    if not _NAMES.fullmatch(re.sub(r"[0-9*,/#?\s-]", "", expression)):
        raise TimeWordsError(f"Not a cron expression: {shown(expression)}. {_HOW}")


def _wrong(expression: str) -> str:
    """Name the error in an expression that the library refuses."""
    for part, (unit, first, last) in zip(expression.split(), _RANGES, strict=False):
        for text in re.findall(r"(?<![/#\d])\d+", part):
            if not first <= int(text) <= last:
                return f"{text} is not a {unit} ({first} to {last})"
    return "its fields cannot be read"


_RANGES = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("weekday", 0, 7))


def _any_hour(expression: str) -> bool:
    """An alias has no second field, and only one of them is for any hour."""
    return expression.split()[1:2] in ([], ["*"], ["*/1"]) and expression.strip().lower() not in _ALIASES - {"@hourly"}


def _never(expression: str) -> TimeWordsError:
    return TimeWordsError(f"The cron expression {expression!r} never comes. Give one that does.")


def _fields(count: int) -> str:
    return "no field" if not count else "1 field" if count == 1 else f"{count} fields"
