"""Readings, the values that words for a time come to, and when each of them is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from nanoclaw.time_words import cron

DAY = 86_400


class At(NamedTuple):
    """Once; `note` says what was decided that the words did not say, such as a time that the clocks skip."""

    when: datetime
    note: str = ""


class Every(NamedTuple):
    """Again and again, `seconds` apart; `start` is the first time and the phase of all later ones.

    With a `zone` it is whole days apart, as the calendar there counts them: the clock's time stays the same.
    """

    seconds: int
    start: datetime
    note: str = ""
    zone: str | tzinfo = ""


class Cron(NamedTuple):
    """Whenever a clock in `zone` fits the expression."""

    expression: str
    zone: str | tzinfo
    note: str = ""


class Unclear(NamedTuple):
    """The words have more than one meaning, or lack one: `question` is for the person, `readings` what it may be."""

    question: str
    readings: tuple[Reading, ...] = ()


Reading = At | Every | Cron
Result = Reading | Unclear


def upcoming(reading: Reading, now: datetime) -> datetime:
    """When it is due first after `now`; what is due once says its time, also a past one."""
    match reading:
        case At():
            return reading.when
        case Every(zone=zone) if zone:
            return _in_days(reading, now)
        case Every():
            behind = apart(now, reading.start).total_seconds()
            rounds = max(0, int(behind // reading.seconds) + 1)
            return (reading.start.astimezone(UTC) + timedelta(seconds=rounds * reading.seconds)).astimezone(now.tzinfo)
        case Cron():
            return cron.next_due(reading.expression, reading.zone, now).astimezone(now.tzinfo)


def _in_days(reading: Every, now: datetime) -> datetime:
    there = cron.zone_named(reading.zone)
    start, days = reading.start.astimezone(there), reading.seconds // DAY
    rounds = max(0, (now.astimezone(there).date() - start.date()).days // days)
    due = reading.start if not rounds else wall(start + timedelta(days=rounds * days), there).when
    if apart(due, now) <= timedelta():
        due = wall(start + timedelta(days=(rounds + 1) * days), there).when
    return due.astimezone(now.tzinfo)


def apart(later: datetime, earlier: datetime) -> timedelta:
    """The time that passes between both; a plain difference within one zone is that of the clocks on the wall."""
    return later.astimezone(UTC) - earlier.astimezone(UTC)


def same(one: Result | None, other: Result | None) -> bool:
    """True for two readings that are due together: at one minute, or by one rule."""
    if isinstance(one, At) and isinstance(other, At):
        return abs(apart(one.when, other.when)) < timedelta(minutes=1)
    return one is not None and other is not None and type(one) is type(other) and one[0] == other[0]


def wall(wanted: datetime, zone: tzinfo) -> At:
    """Time that a clock in the zone shows: in a gap the first moment after it, of two equal times the first."""
    at = wanted.replace(tzinfo=zone, fold=0)
    shown = at.astimezone(UTC).astimezone(zone)
    if shown.replace(tzinfo=None) != wanted.replace(tzinfo=None):
        after = _gap_end(shown, zone)
        return At(after, f"The clocks skip {wanted:%H:%M} that day: the first moment after is {after:%H:%M}.")
    if at.utcoffset() != at.replace(fold=1).utcoffset():
        return At(at, f"The clocks show {wanted:%H:%M} twice that day: the first time is taken.")
    return At(at)


def _gap_end(shown: datetime, zone: tzinfo) -> datetime:
    late = shown.astimezone(UTC)
    early = late - timedelta(hours=25)
    offset = late.astimezone(zone).utcoffset()
    while late - early > timedelta(seconds=1):
        middle = early + (late - early) / 2
        if middle.astimezone(zone).utcoffset() == offset:
            late = middle
        else:
            early = middle
    return late.replace(microsecond=0).astimezone(zone)
