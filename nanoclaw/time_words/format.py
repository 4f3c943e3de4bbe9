"""Times said back in words: dates, repeats, distances, and the question that an unclear phrase raises."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, tzinfo

from nanoclaw.time_words import cron
from nanoclaw.time_words.errors import TimeWordsError
from nanoclaw.time_words.readings import At, Cron, Every, Reading, apart, upcoming


def in_words(when: datetime, now: datetime, zone: str | tzinfo) -> str:
    """Such as "Fri 27 Nov 2026, 17:05 Europe/Berlin, in 2 days"."""
    return f"{date_and_time(when, zone)} {_zone_name(when, zone)}, {distance(apart(when, now))}"


def day_in_words(day: date) -> str:
    """Such as "Fri 27 Nov 2026"."""
    return f"{_DAYS[day.weekday()][:3]} {day.day} {_MONTHS[day.month - 1]} {day.year}"


def repeat_in_words(reading: Every | Cron, now: datetime, zone: str | tzinfo) -> str:
    """Such as "every weekday at 07:30 Europe/Berlin, next: Mon 23 Nov 2026, 07:30, in 14 hours"."""
    due = upcoming(reading, now)
    if isinstance(reading, Every):
        return f"every {_length(reading.seconds)}, next: {in_words(due, now, zone)}"
    what = f"{_described(reading.expression)} {_zone_name(due, reading.zone)}"
    return f"{what}, next: {date_and_time(due, reading.zone)}, {distance(apart(due, now))}"


def briefly(reading: Reading, now: datetime, zone: str | tzinfo) -> str:
    """Such as "Fri 27 Nov 2026, 17:05", "every weekday at 07:30 Europe/Berlin", "every 2 weeks on Friday at 09:00"."""
    if isinstance(reading, At):
        return date_and_time(reading.when, zone)
    start = f" on {reading.start:%A} at {reading.start:%H:%M}" if isinstance(reading, Every) and reading.zone else ""
    return repeat_in_words(reading, now, zone).partition(", next:")[0] + start


def date_and_time(when: datetime, zone: str | tzinfo) -> str:
    """Such as "Fri 27 Nov 2026, 17:05", with seconds where there are any."""
    when = when.astimezone(cron.zone_named(zone))
    return f"{day_in_words(when)}, {when:{'%H:%M:%S' if when.second else '%H:%M'}}"


def distance(delta: timedelta) -> str:
    """Distance ahead, or ago, in the one or two units that matter."""
    seconds = delta.total_seconds()
    if seconds >= 0:
        return f"in {_rough(seconds)}" if seconds >= 1 else "now"
    return f"{_rough(-seconds // 60 * 60)} ago" if seconds <= -60 else "just now"


def late(delta: timedelta) -> str:
    """Such as "3 h late"; '' for less than a minute."""
    minutes = int(delta.total_seconds() // 60)
    if minutes < 1:
        return ""
    if minutes < 60:
        return f"{minutes} min late"
    hours, minutes = divmod(minutes, 60)
    if hours < 3 and minutes:
        return f"{hours} h {minutes} min late"
    return f"{hours} h late" if hours < 48 else f"{hours // 24} days late"


def was_due(due: datetime, late_by: timedelta, zone: str | tzinfo) -> str:
    """Such as "was due 09:00, 3 h late"; '' for less than a minute. The day is named when it was another one."""
    if not (lateness := late(late_by)):
        return ""
    there = cron.zone_named(zone)
    then, now = due.astimezone(there), (due + late_by).astimezone(there)
    day = "" if then.date() == now.date() else f"{then:%a} {then.day} {then:%b}, "
    return f"was due {day}{then:%H:%M}, {lateness}"


def question(readings: tuple[Reading, ...], now: datetime, zone: str | tzinfo, why: str = "") -> str:
    """Asks which of the readings is meant."""
    said = [_said(reading, now, zone) for reading in readings]
    meant = f"{'; '.join(said[:-1])}; or {said[-1]}" if len(said) > 1 else said[0]
    return f"{why} Do you mean {meant}?".strip()


def _said(reading: Reading, now: datetime, zone: str | tzinfo) -> str:
    return in_words(reading.when, now, zone) if isinstance(reading, At) else repeat_in_words(reading, now, zone)


def passed(when: datetime, now: datetime, zone: str | tzinfo) -> TimeWordsError:
    """The refusal of a time that is over."""
    return TimeWordsError(
        f"{date_and_time(when, zone)} has passed: it is {date_and_time(now, zone)} {_zone_name(now, zone)} now. "
        "Name a later time."
    )


def _zone_name(when: datetime, zone: str | tzinfo) -> str:
    if isinstance(zone, str):
        return zone
    return getattr(zone, "key", None) or when.astimezone(zone).tzname() or "UTC"


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NTH = {"1": "first", "2": "second", "3": "third", "4": "fourth", "5": "fifth"}


def _rough(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 45:
        return _count(round(seconds), "second")
    if minutes < 60:
        return _count(minutes, "minute")
    if minutes < 180:
        hours, minutes = divmod(minutes, 60)
        return _count(hours, "hour") + (f" {_count(minutes, 'minute')}" if minutes else "")
    days, hours = minutes // 1440, minutes // 60 % 24
    if not days:
        return _count(min(23, round(seconds / 3600)), "hour")
    return _count(days, "day") + (f" {_count(hours, 'hour')}" if days == 1 and hours else "")


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _length(seconds: int) -> str:
    for size, unit in ((7 * 86400, "week"), (86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds % size == 0:
            return unit if seconds == size else _count(seconds // size, unit)
    return _count(seconds, "second")


def _described(expression: str) -> str:
    """A cron expression in words where people would have such words for it."""
    fields = expression.split()
    if len(fields) != 5 or not fields[0].isdigit() or not all(hour.isdigit() for hour in fields[1].split(",")):
        return f"cron {expression}"
    minute, hours, day, month, weekday = fields
    at = " and ".join(f"{int(hour):02}:{int(minute):02}" for hour in hours.split(","))
    when = _which_days(day, month, weekday.lower())
    return f"every {when} at {at}" if when else f"cron {expression}"


def _which_days(day: str, month: str, weekday: str) -> str:
    if (day, month) == ("*", "*"):
        return _which_weekdays(weekday)
    if weekday != "*":
        return ""
    if month == "*":
        return "last day of the month" if day == "L" else f"{_nth_day(day)} of the month" if day.isdigit() else ""
    if day.isdigit() and month.isdigit() and 1 <= int(month) <= 12:
        return f"{int(day)} {_MONTHS[int(month) - 1]}"
    return ""


def _which_weekdays(field: str) -> str:
    if field in ("*", "1-5", "6,0"):
        return {"*": "day", "1-5": "weekday", "6,0": "Saturday and Sunday"}[field]
    if found := re.fullmatch(r"([0-7])#([1-5])", field):
        return f"{_NTH[found[2]]} {_DAYS[int(found[1]) - 1]} of the month"
    if found := re.fullmatch(r"l([0-7])", field):
        return f"last {_DAYS[int(found[1]) - 1]} of the month"
    if found := re.fullmatch(r"([0-7])-([0-7])", field):
        return f"day from {_DAYS[int(found[1]) - 1]} to {_DAYS[int(found[2]) - 1]}"
    if all(re.fullmatch("[0-7]", one) for one in field.split(",")):
        return " and ".join(_DAYS[int(one) - 1] for one in field.split(","))
    return ""


def _nth_day(day: str) -> str:
    number = int(day)
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
