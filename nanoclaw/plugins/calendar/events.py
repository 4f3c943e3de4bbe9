"""Events as iCalendar has them: read from and written to its text. Its libraries are imported when used."""

from __future__ import annotations

import calendar
import copy
import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, NamedTuple

from nanoclaw import time_words
from nanoclaw.core.errors import ToolError
from nanoclaw.escapes import one_line, plain
from nanoclaw.plugins.calendar.dav import StoredEvent

MOST, MOST_TEXT = 500, 1_000_000  # dates that are shown of a time range, and bytes of an object
FAULTS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)  # for malformed ones


class EventDate(NamedTuple):
    """One date of an event. Its `id`, of UID and RECURRENCE-ID, stays when it is moved; `recurrence` says which date of
    a series it is."""

    id: str
    stored: StoredEvent
    start: datetime
    end: datetime
    is_all_day: bool
    title: str
    place: str
    notes: str
    recurrence: date | None
    is_busy: bool
    people: int


def occurrences(stored: Iterable[StoredEvent], start: datetime, end: datetime) -> tuple[list[EventDate], list[str]]:
    """All dates in a time range in order, and what could not be read or is too much, in words."""
    import recurring_ical_events
    from icalendar import Calendar

    found, problems = list[EventDate](), list[str]()
    for one in stored:
        try:
            if len(one.text) > MOST_TEXT:
                raise ValueError("it is larger than 1 MB")
            whole = Calendar.from_ical(one.text)
            events = list(whole.walk("VEVENT"))
            series = {str(each.get("UID")) for each in events if {"RRULE", "RDATE", "RECURRENCE-ID"} & {*each}}
            for each in filter(_is_bomb, events):
                problems.append(f"“{_word(each, 'SUMMARY')}” repeats too often: only its first date counts")
                each.pop("RRULE")
            query = recurring_ical_events.of(whole, components=["VEVENT"])
            found += [_occurrence(one, each, series, start.tzinfo) for each in query.between(start, end)]
        except FAULTS as error:
            name = one.href.rstrip("/").rpartition("/")[2]
            problems.append(f"{one_line(name, 60)} cannot be read: {one_line(str(error), 100)}")
    found.sort(key=lambda one: (one.start, one.end, one.title))
    if len(found) > MOST:
        problems.append(f"there are {len(found):,} dates, and the first {MOST} are shown")
    return found[:MOST], problems


def _is_bomb(event: Any) -> bool:
    """True for a series that must not be counted out: too many dates, or a rule that may never find one."""
    rules, first = event.get("RRULE", []), event["DTSTART"].dt.year
    for rule in rules if isinstance(rules, list) else [rules]:
        kind = str((rule.get("FREQ") or ["?"])[0]).upper()
        hours, minutes, seconds = (len(rule.get(f"BY{one}") or [0]) for one in ("HOUR", "MINUTE", "SECOND"))
        is_short, odd = kind in ("HOURLY", "DAILY", "WEEKLY"), ("BYSETPOS", "BYYEARDAY", "BYWEEKNO", "BYEASTER")
        if kind in ("SECONDLY", "MINUTELY") or hours * minutes * seconds > 24 or (kind == "HOURLY" and first < 2015):
            return True
        months, days = rule.get("BYMONTH") or range(1, 13), rule.get("BYMONTHDAY") or [1]
        comes = any(abs(int(day)) <= calendar.monthrange(2024, int(month))[1] for month in months for day in days)
        if not comes or (is_short and (first < 1970 or any(rule.get(one) for one in odd))):
            return True
    return False


def _occurrence(stored: StoredEvent, event: Any, series: set[str], zone: tzinfo | None) -> EventDate:
    first = event["DTSTART"].dt
    last = event["DTEND"].dt if "DTEND" in event else first
    is_all_day, people = not isinstance(first, datetime), event.get("ATTENDEE", [])
    if is_all_day:
        last = max(last, first + timedelta(days=1))
    which = event["RECURRENCE-ID"].dt if "RECURRENCE-ID" in event and str(event.get("UID")) in series else None
    is_busy = not {str(event.get(key, "")).upper() for key in ("TRANSP", "STATUS")} & {"TRANSPARENT", "CANCELLED"}
    words = _word(event, "SUMMARY") or "(no title)", _word(event, "LOCATION"), _word(event, "DESCRIPTION", 300)
    count = len(people) if isinstance(people, list) else 1
    id_, start = hashlib.sha256(f"{event.get('UID')} {which}".encode()).hexdigest()[:6], _moment(first, zone)
    return EventDate(id_, stored, start, max(_moment(last, zone), start), is_all_day, *words, which, is_busy, count)


def _word(event: Any, key: str, most: int = 100) -> str:
    return one_line(plain(str(event.get(key, ""))), most)


def _moment(value: date, zone: tzinfo | None) -> datetime:
    """A moment in the person's zone; times without a zone are meant there."""
    if not isinstance(value, datetime):
        return datetime.combine(value, time(), zone)
    return value.replace(tzinfo=zone) if value.tzinfo is None else value.astimezone(zone)


def gaps(busy: Iterable[EventDate], start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """The times between two in which nothing is."""
    free, at = list[tuple[datetime, datetime]](), start
    for one in busy:
        if one.is_busy and not one.is_all_day and one.end > at and one.start < end:
            free += [(at, one.start)] if one.start > at else []
            at = one.end
    return [*free, (at, end)] if at < end else free


class Wish(NamedTuple):
    """An event as it shall be; None, 0 and '' leave it as it is."""

    start: datetime | None = None
    minutes: int = 0
    title: str = ""
    place: str = ""
    notes: str = ""


def new(place: str, wish: Wish, rule: Mapping[str, Any], now: datetime, *, is_all_day: bool) -> tuple[StoredEvent, str]:
    """The place of a new event in a calendar, and its text."""
    from icalendar import Calendar, Event

    assert wish.start
    event: Any = Event.new(stamp=now.astimezone(UTC))
    event.add("DTSTART", wish.start.date() if is_all_day else wish.start)
    event.add("DTEND", event["DTSTART"].dt + (timedelta(days=1) if is_all_day else timedelta(minutes=wish.minutes)))
    if rule:
        event.add("RRULE", dict(rule))
    whole = Calendar.new(subcomponents=[event])
    return StoredEvent(f"{place}{event['UID']}.ics", "", ""), _text_of(whole, event, wish, now)


def changed(one: EventDate, wish: Wish, now: datetime, *, is_series: bool) -> str:
    """The text of an object in which this date, or with `is_series` all of them, are as wished. Raises ToolError."""
    whole, event = _opened(one, is_series=is_series)
    if is_series and one.recurrence is not None and (wish.start or wish.minutes):
        raise ToolError("single dates of a series can be moved: to move all, remove it and add another one.")
    begin, length = wish.start or one.start, timedelta(minutes=wish.minutes) if wish.minutes else one.end - one.start
    if wish.start or wish.minutes:
        _set(event, DTSTART=begin.date() if one.is_all_day else begin, DURATION=None)
        _set(event, DTEND=event["DTSTART"].dt + length)
    return _text_of(whole, event, wish, now)


def without(one: EventDate, now: datetime) -> str:
    """The text of a series without one of its dates."""
    whole, event = _opened(one, is_series=True)
    whole.subcomponents = [each for each in whole.subcomponents if not _is_date(each, one)]
    event.add("EXDATE", one.recurrence)
    return _text_of(whole, event, Wish(), now)


def _opened(one: EventDate, *, is_series: bool) -> tuple[Any, Any]:
    """An object, and the event in it to change; that of one date of a series is made where there is none."""
    from icalendar import Calendar

    whole = Calendar.from_ical(one.stored.text)
    events = list(whole.walk("VEVENT"))
    main = next((each for each in events if "RECURRENCE-ID" not in each), events[0])
    if one.recurrence is None or is_series:
        return whole, main
    if of_date := [each for each in events if _is_date(each, one)]:
        return whole, of_date[0]
    made = copy.deepcopy(main)
    _set(made, RRULE=None, RDATE=None, EXDATE=None, DURATION=None)
    start, end = (one.start.date(), one.end.date()) if one.is_all_day else (one.start, one.end)
    made.add("RECURRENCE-ID", one.recurrence)
    _set(made, DTSTART=start, DTEND=end)
    whole.add_component(made)
    return whole, made


def _is_date(event: Any, one: EventDate) -> bool:
    return event.name == "VEVENT" and "RECURRENCE-ID" in event and event["RECURRENCE-ID"].dt == one.recurrence


def _set(event: Any, **values: Any) -> None:
    for key, value in values.items():
        event.pop(key, None)
        if value is not None:
            event.add(key, value)


def _text_of(whole: Any, event: Any, wish: Wish, now: datetime) -> str:
    words = {"SUMMARY": wish.title, "LOCATION": wish.place, "DESCRIPTION": wish.notes}
    _set(event, **{key: text for key, text in words.items() if text}, SEQUENCE=int(event.get("SEQUENCE", -1)) + 1)
    _set(event, DTSTAMP=now.astimezone(UTC))
    whole.add_missing_timezones()
    return str(whole.to_ical().decode())


def differences(before: str, after: str) -> str:
    """The lines of an object that somebody else has changed: until then, and now."""
    keys = ("SUMMARY", "LOCATION", "DTSTART", "DTEND", "RRULE", "STATUS")
    old, new = ([one for one in text.splitlines() if one.startswith(keys)] for text in (before, after))
    lines = ("; ".join(one for one in each if one not in other) for each, other in ((old, new), (new, old)))
    return " → ".join(one_line(plain(one), 200) for one in lines)


def rule_of(reading: time_words.Reading) -> dict[str, Any]:
    """The rule of a series, {} for what is once. Raises ToolError."""
    if isinstance(reading, time_words.At):
        return {}
    if isinstance(reading, time_words.Every) and reading.seconds % 86_400 == 0:
        days = reading.seconds // 86_400
        return {"FREQ": "DAILY", "INTERVAL": days} if days % 7 else {"FREQ": "WEEKLY", "INTERVAL": days // 7}
    try:
        minute, hour, day, month, weekday = reading.expression.split()  # type: ignore[union-attr]
        if not (minute.isdigit() and hour.isdigit() and (weekday == "*" or day == month == "*")):
            raise ValueError("not once on its days")
        if weekday != "*":
            parts = [[int(number) for number in part.split("-")] for part in weekday.split(",")]
            numbers = [number for part in parts for number in range(part[0], part[-1] + 1)]
            names = dict.fromkeys("SUMOTUWETHFRSASU"[2 * number :][:2] for number in numbers)
            return {"FREQ": "WEEKLY", "BYDAY": list(names)}
        rule: dict[str, Any] = {"FREQ": "DAILY"} if day == "*" else {"FREQ": "MONTHLY", "BYMONTHDAY": int(day)}
        return rule if month == "*" else {**rule, "FREQ": "YEARLY", "BYMONTH": int(month)}
    except (ValueError, LookupError, AttributeError):
        raise ToolError("a calendar has no such repeat: say a simpler one, such as every Tuesday at 9.") from None
