"""What words for a time mean: the parts of a phrase become one-offs, intervals, cron expressions, or a question."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from nanoclaw.core.errors import ScheduleError
from nanoclaw.plugins.schedule import cron
from nanoclaw.time_words.evaluate import (
    DAY,
    At,
    Cron,
    Every,
    Heard,
    Reading,
    Unclear,
    apart,
    day_in_words,
    passed,
    question,
)
from nanoclaw.time_words.lexer import Unknown, row
from nanoclaw.time_words.lexicon import LANGUAGES
from nanoclaw.time_words.phrase import Clock, Phrase, Span, calendar_day, cron_day, phrase_of

LATE_NIGHT = 4
"""Until this hour "tomorrow" may be the day that has just begun."""
EARLY = 6
"""Bare hours before this one are of the night or of the afternoon, which only the person knows."""


def read(text: str, now: datetime, zone: str | tzinfo, zones: Mapping[str, str]) -> Heard | str:
    """What a folded phrase means in the languages that have all of its words; the strange word, if none has.

    Raises ScheduleError for the past and for intervals under a minute.
    """
    heard: list[Heard] = []
    refusals: list[ScheduleError] = []
    strange: list[str] = []
    for language in LANGUAGES:
        try:
            found = _Meaning(phrase_of(row(text, language, zones)), now, zone).heard()
            if found not in heard:
                heard.append(found)
        except Unknown as error:
            strange.append(str(error))
        except ScheduleError as error:
            refusals.append(error)
        except OverflowError:
            refusals.append(ScheduleError("That is too far away. Name a date before the year 9999."))
    if heard:
        return heard[0] if len(heard) == 1 else _one_of(heard, now, zone)
    if refusals:
        raise refusals[0]
    furthest = max(strange, key=lambda word: _place(word, text))
    if _place(furthest, text) <= 0 and any(one not in text for one in strange):
        return text  # a language has all of the words, and no place for one
    return furthest


def _place(word: str, text: str) -> int:
    """Where it stands by itself, or else within another one."""
    place = f" {text}".rfind(f" {word}")
    return place if place >= 0 else text.rfind(word)


def wall(wanted: datetime, zone: tzinfo) -> At:
    """What a clock in the zone shows: in a gap the first moment after it, of two equal times the first."""
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


def _one_of(heard: list[Heard], now: datetime, zone: str | tzinfo) -> Heard:
    """Languages differ about the words: all that they may mean."""
    readings: list[Reading] = []
    for one in heard:
        for reading in one.readings if isinstance(one, Unclear) else (one,):
            if reading not in readings:
                readings.append(reading)
    if not readings:
        return heard[0]
    return Unclear(question(tuple(readings), now, zone), tuple(readings))


# -- what a phrase means


class _Ask(Exception):
    """The phrase lacks something or has too much; its text is the question."""


class _Meaning:
    """One phrase, said at one time."""

    def __init__(self, phrase: Phrase, now: datetime, zone: str | tzinfo) -> None:
        self.phrase = phrase
        self.home = zone
        self.zone: str | tzinfo = phrase.zones[0] if phrase.zones else zone
        self.there = cron.zone_named(self.zone)
        self.now = now.astimezone(self.there)
        self.today = self.now.date()

    def heard(self) -> Heard:
        phrase = self.phrase
        try:
            if len(set(phrase.zones)) > 1:
                raise _Ask("More than one time zone is named. Which one?")
            if phrase.asks:
                raise _Ask(phrase.asks[0])
            readings = self._repeats() if phrase.repeats or phrase.every or phrase.weekdays else self._one_offs()
        except _Ask as ask:
            return Unclear(str(ask))
        why = ""
        if phrase.vague:
            why = "A reminder needs an exact time."
        if len(readings) == 1 and not phrase.vague:
            return readings[0]
        return Unclear(question(readings, self.now, self.home, why), readings)

    # one-offs

    def _one_offs(self) -> tuple[Reading, ...]:
        phrase = self.phrase
        if bounds := phrase.bounds:
            raise Unknown(bounds[0])
        other_days = phrase.dates or phrase.weeks or phrase.days or phrase.month_days or phrase.spans
        if phrase.habit and len(phrase.weekday) <= 1 and phrase.clocks and not other_days:
            once = self._dated(self._options())
            day = cron_day(phrase.weekday[0][1]) if phrase.weekday else "*"
            return (*once, *(self._cron(clock, "*", "*", day) for clock in self._daily(phrase.clocks[0])))
        if (phrase.of_month or phrase.last_day) and phrase.clocks and not phrase.months:
            return (*self._dated(self._options()), *self._repeats())
        if phrase.spans and not phrase.clocks:
            return (self._after(),)
        return self._dated(self._options())

    def _after(self) -> At:
        phrase = self.phrase
        if len(phrase.spans) > 1 or self._named_days() or phrase.parts:
            raise _Ask("That names a span and a day. Say the date and the time.")
        span = phrase.spans[0]
        if phrase.ago:
            when = self.now - timedelta(days=span.days + 30 * span.months, seconds=span.seconds)
            raise passed(when, self.now, self.home)
        if span == Span():
            raise ScheduleError("That is now. Name a later time.")
        if not (span.days or span.months):
            return self._home(At(self.now.astimezone(UTC) + timedelta(seconds=span.seconds)))
        day = _months_later(self.today, span.months) + timedelta(days=span.days)
        at = wall(datetime.combine(day, self.now.time()), self.there)
        return self._home(At(at.when.astimezone(UTC) + timedelta(seconds=span.seconds), at.note))

    def _named_days(self) -> bool:
        phrase = self.phrase
        other = phrase.last_day or phrase.nth_weekday or phrase.of_month or phrase.months
        return bool(phrase.days or phrase.weekday or phrase.weeks or phrase.dates or phrase.month_days or other)

    def _options(self) -> list[tuple[date, ...]] | None:
        """Each option is the days that one reading of the words may mean, nearest first; None when no day is named."""
        phrase = self.phrase
        found: list[list[tuple[date, ...]]] = []
        found += [self._relative(number) for number in set(phrase.days)]
        found += [self._written(text) for text in dict.fromkeys(phrase.dates)]
        found += [[tuple(self._month_days(number))] for number in dict.fromkeys(phrase.month_days)]
        if phrase.last_day:
            found.append([tuple(self._month_days(0))])
        if phrase.nth_weekday:
            found.append([tuple(self._nth_weekdays())])
        if phrase.months:
            if len(found) != 1:
                raise _Ask("On which day of that month, and at what time?")
            found = [self._in_month(found[0])]
        if phrase.spans:
            span = phrase.spans[0]
            if len(phrase.spans) > 1 or span.seconds or phrase.ago:
                raise _Ask("That names a span and a time. Say only one of them.")
            found.append([(_months_later(self.today, span.months) + timedelta(days=span.days),)])
        weekdays = [self._weekdays(kind, day) for kind, day in dict.fromkeys(phrase.weekday)]
        if phrase.weeks:
            if len(weekdays) != 1 or found or len(phrase.weeks) > 1:
                raise _Ask("On which day of that week, and at what time?")
            monday = self.today - timedelta(days=self.today.weekday()) + timedelta(weeks=phrase.weeks[0])
            return [(monday + timedelta(days=phrase.weekday[0][1]),)]
        if not found and not weekdays:
            return None
        return self._same_days(found, weekdays)

    def _in_month(self, options: list[tuple[date, ...]]) -> list[tuple[date, ...]]:
        """Those days of the month that is named, such as next month."""
        first = _months_later(self.today.replace(day=1), self.phrase.months[0])
        days = tuple(day for day in options[0] if (day.year, day.month) == (first.year, first.month))
        if not days:
            raise ScheduleError(f"There is no such day to come in {first:%B %Y}. Name the date.")
        return [days]

    def _same_days(
        self, found: list[list[tuple[date, ...]]], weekdays: list[list[tuple[date, ...]]]
    ) -> list[tuple[date, ...]]:
        """Days that are named twice, such as "Friday 27 November", must be the same."""
        options, *rest = [*found, *weekdays]
        for others in rest:
            days = {day for option in others for day in option}
            any_week = {day.weekday() for day in days} if found and others in weekdays else set()
            agreed = [option[:1] for option in options if option[0] in days or option[0].weekday() in any_week]
            if not agreed:
                raise _Ask(
                    f"{day_in_words(options[0][0])} and {day_in_words(others[0][0])} are not the same day. Which one?"
                )
            options = agreed
        return options

    def _relative(self, number: int) -> list[tuple[date, ...]]:
        day = self.today + timedelta(days=number)
        if number >= 1 and self.now.hour < LATE_NIGHT:
            return [(day,), (day - timedelta(days=1),)]
        return [(day,)]

    def _weekdays(self, kind: str, weekday: int) -> list[tuple[date, ...]]:
        coming = self.today + timedelta(days=(weekday - self.today.weekday()) % 7)
        monday = self.today - timedelta(days=self.today.weekday())
        week = timedelta(weeks=1)
        if kind == "x":
            coming = coming if coming > self.today else coming + week
            following = monday + week + timedelta(days=weekday)
            if self.today.weekday() == 6:  # the week has begun today for some
                following = following + week if coming - self.today < timedelta(days=6) else following
            return [(day,) for day in sorted({coming, following})]
        return [(coming, coming + week)]

    def _written(self, text: str) -> list[tuple[date, ...]]:
        options = []
        for one in text.removeprefix("?").split("|"):
            options.append(tuple(self._in_years(*calendar_day(one))))
        return [option for option in options if option] or [_no_such(text)]

    def _in_years(self, year: int, month: int, day: int) -> Iterator[date]:
        if year:
            if 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]:
                yield date(year, month, day)
            return
        for number in range(self.today.year, self.today.year + 9):
            if 1 <= month <= 12 and 1 <= day <= monthrange(number, month)[1]:
                found = date(number, month, day)
                if found >= self.today:
                    yield found
                    return

    def _month_days(self, number: int) -> Iterator[date]:
        """The days of that number from today on; 0 is the last of each month."""
        if number > 31:
            raise ScheduleError(f"No month has {number} days.")
        first = self.today.replace(day=1)
        for _ in range(4):
            last = monthrange(first.year, first.month)[1]
            if (number or last) <= last and first.replace(day=number or last) >= self.today:
                yield first.replace(day=number or last)
            first = _months_later(first, 1)

    def _nth_weekdays(self) -> Iterator[date]:
        after = datetime.combine(self.today, time(), UTC) - timedelta(seconds=1)
        for _ in range(2):
            after = cron.next_due(f"0 0 * * {self.phrase.nth_weekday}", UTC, after)
            yield after.date()

    def _dated(self, options: list[tuple[date, ...]] | None) -> tuple[Reading, ...]:
        """The first future moment of each option and each meaning of the hour."""
        phrase = self.phrase
        if not phrase.clocks:
            if options and max(max(option) for option in options) < self.today:
                raise passed(datetime.combine(options[0][0], time(23, 59), self.there), self.now, self.home)
            raise self._no_time(options)
        if len({(clock.hour, clock.minute) for clock in phrase.clocks}) > 1:
            raise _Ask("That names two times. Set a reminder for each, or say only one.")
        clock = max(phrase.clocks, key=lambda clock: clock.sure)
        open_day = options is None or (phrase.days == [0] and len(options) == 1)
        if options is None:
            options = [(self.today, self.today + timedelta(days=1))]
        hours = self._hours(clock, open_day)
        if (clock.midnight and not open_day) or (clock.midnight and phrase.days == [0] and phrase.parts):
            hours = [24] if open_day else [0, 24]
        if open_day and phrase.days == [0] and self._is_night(hours):
            options = [(self.today, self.today + timedelta(days=1))]
            hours = [hour % 24 for hour in hours]
        found = [self._first(option, hour, clock.minute) for option in options for hour in hours]
        future = sorted({at for at in found if self._is_ahead(at)}, key=lambda at: at.when.astimezone(UTC))
        if not future:
            raise passed(max(at.when for at in found), self.now, self.home)
        if len(future) > 1 and open_day and self._loose(clock) and future[0].when.hour >= EARLY:
            future = future[:1]
        return tuple(self._home(at) for at in future)

    def _no_time(self, options: list[tuple[date, ...]] | None) -> _Ask:
        if self.phrase.dates and self.phrase.dates[0].startswith("?") and not self.phrase.weekday:
            _, month, day = calendar_day(self.phrase.dates[0])
            return _Ask(f"Is {day}.{month}. the {_said_day(options)}, or {day}:{month:02}? Say date and time.")
        return _Ask(f"At what time on {_said_day(options)}?" if options else "On which day, and at what time?")

    def _is_night(self, hours: list[int]) -> bool:
        return "night" in self.phrase.parts and all(hour % 24 < EARLY for hour in hours)

    def _loose(self, clock: Clock) -> bool:
        return not clock.sure and not self.phrase.parts

    def _hours(self, clock: Clock, open_day: bool) -> list[int]:
        """The hours of the day that are meant; 24 and more belong to the next day."""
        phrase = self.phrase
        if phrase.parts:
            meant = {_in_part(clock, part) for part in phrase.parts}
            if len(meant) > 1:
                raise _Ask("The parts of the day contradict each other. Say the time like 17:30.")
            hour = meant.pop()
            if hour < EARLY and "night" in phrase.parts and not open_day:
                return [hour, hour + 24]
            return [hour]
        if clock.sure:
            return [clock.hour]
        if open_day:
            return [clock.hour % 12, clock.hour % 12 + 12]
        if clock.hour < EARLY:
            return [clock.hour, clock.hour + 12]
        return [clock.hour]

    def _first(self, days: tuple[date, ...], hour: int, minute: int) -> At:
        for day in days:
            later, hour_of_day = divmod(hour, 24)
            at = wall(datetime.combine(day + timedelta(days=later), time(hour_of_day, minute)), self.there)
            second = At(at.when.replace(fold=1))
            if not self._is_ahead(at) and self._is_ahead(second):
                at = second
            if self._is_ahead(at):
                break
        return at

    def _is_ahead(self, at: At) -> bool:
        return apart(at.when, self.now) > timedelta()

    def _home(self, at: At) -> At:
        return At(at.when.astimezone(cron.zone_named(self.home)), at.note)

    # repeats

    def _repeats(self) -> tuple[Reading, ...]:
        phrase = self.phrase
        if bounds := phrase.bounds:
            raise _Ask(
                f"What {bounds[0]!r} says cannot be kept: a repeat goes on until it is removed. Say it without, or set "
                "each time as a reminder of its own."
            )
        if phrase.of_month and not (phrase.nth_weekday or phrase.last_day or phrase.month_days):
            raise _Ask("On which day of the month? Say 'every first monday of the month at 9'.")
        if phrase.rough_gap and any(span.days for span in phrase.every):
            raise _Ask("How many days apart? Say 'every 2 days'.")
        if len(phrase.every) > 1 and len(set(phrase.every)) > 1:
            raise _Ask("That names two intervals. Which one?")
        if phrase.days or phrase.spans or phrase.weeks or phrase.months:
            raise _Ask("That names one time and a repeat. Say only one of them.")
        span = phrase.every[0] if phrase.every else Span()
        if phrase.every and span == Span():
            raise ScheduleError("That is no interval. Say it like 'every 90 minutes'.")
        if span.seconds or (span.days and span.days not in (1, 7)) or (span.days == 7 and span.months):
            return (self._interval(span),)
        if span.months > 1 and span.months != 12:
            raise _Ask("Cron cannot count months from today. Say the months, each as a job of its own.")
        fields = self._day_fields(span)
        if not phrase.clocks:
            raise _Ask("At what time?")
        return tuple(self._cron(hours, *fields) for hours in self._daily_all())

    def _interval(self, span: Span) -> Every:
        phrase = self.phrase
        seconds = span.seconds + span.days * 86400
        if span.months or (not span.days and (phrase.clocks or self._named_days() or phrase.weekdays or phrase.parts)):
            raise _Ask("An interval has no time of the day. Say 'every 90 minutes', or 'every day at 9'.")
        if seconds < 60:
            raise ScheduleError(f"{seconds} seconds are too short: a job runs at most once a minute.")
        if not phrase.clocks:
            if self._named_days() or phrase.weekdays or phrase.parts:
                raise _Ask("At what time?")
            start = self._home(At(self.now.astimezone(UTC) + timedelta(seconds=seconds))).when
            return Every(seconds, start)
        if phrase.weekdays:
            if len(phrase.weekdays) > 1 or not phrase.weekdays[0].isdigit():
                raise _Ask("On which one day of the week does it begin?")
            phrase.weekday.append(("", (int(phrase.weekdays[0]) - 1) % 7))
        if any(clock.hour < EARLY and self._loose(clock) for clock in phrase.clocks):
            raise _Ask("At what time? Say it like 15:30.")
        phrase.clocks = [replace(clock, sure=True) for clock in phrase.clocks]
        starts = self._dated(self._options())
        if len(starts) > 1 or not isinstance(starts[0], At):
            raise _Ask("At what time? Say it like 15:30, and on which day it begins.")
        return Every(seconds, starts[0].when, starts[0].note, "" if seconds % DAY else self.zone)

    def _day_fields(self, span: Span) -> tuple[str, str, str]:
        """The cron fields for day of the month, month and weekday."""
        phrase = self.phrase
        weekdays = [*phrase.weekdays, *(cron_day(day) for _, day in phrase.weekday)]
        kinds = [bool(weekdays), bool(phrase.nth_weekday), phrase.last_day, bool(phrase.month_days), bool(phrase.dates)]
        if sum(kinds) > 1 or len(phrase.dates) > 1 or any(kind for kind, _ in phrase.weekday):
            raise _Ask("Cron takes weekdays or dates, not both. Say only one of them.")
        if weekdays:
            if span.days == 1 and any(day.isdigit() for day in weekdays):
                raise _Ask("Every day, or only on some days of the week? Say only one of them.")
            if span.months:
                raise _Ask("Which one in the month? Say 'every first monday of the month at 9'.")
            return "*", "*", ",".join(dict.fromkeys(weekdays))
        unlike = span.days or (span.months == 1 and phrase.dates) or (span.months == 12 and not phrase.dates)
        if unlike and any(kinds):
            raise _Ask("The interval and the days do not fit. Say only one of them.")
        if phrase.nth_weekday:
            return "*", "*", phrase.nth_weekday
        if phrase.last_day:
            return "L", "*", "*"
        if phrase.month_days:
            return ",".join(str(day) for day in dict.fromkeys(phrase.month_days)), "*", "*"
        if phrase.dates:
            if "|" in phrase.dates[0]:
                raise _Ask("On which day of which month, each year?")
            year, month, day = calendar_day(phrase.dates[0])
            if year or not (1 <= month <= 12 and 1 <= day <= monthrange(2024, month)[1]):
                raise _Ask("On which day of which month, each year?")
            return str(day), str(month), "*"
        if span.days == 1 or (not span.days and not span.months and phrase.parts):
            return "*", "*", "*"
        raise _Ask("On which day, and at what time?")

    def _daily_all(self) -> list[list[tuple[int, int]]]:
        """Each reading is the times of a day, as hour and minute."""
        clocks = list(dict.fromkeys(self.phrase.clocks))
        each = [self._daily(clock) for clock in clocks]
        if len(each) > 1:
            if any(len(one) > 1 for one in each) or len({clock.minute for clock in clocks}) > 1:
                raise _Ask("Which times? Say them like 9:00, each as a job of its own.")
            return [[one[0][0] for one in each]]
        return each[0]

    def _daily(self, clock: Clock) -> list[list[tuple[int, int]]]:
        on_any_day = not (self.phrase.weekdays or self.phrase.weekday or self.phrase.dates or self.phrase.month_days)
        on_any_day = on_any_day and not self.phrase.nth_weekday and not self.phrase.last_day
        hours = self._hours(clock, False)
        if any(hour >= 24 for hour in hours) or clock.midnight:
            if not on_any_day:
                raise _Ask("At the beginning or the end of that day? Say it like 00:01 or 23:59.")
            hours = list(dict.fromkeys(hour % 24 for hour in hours))
        return [[(hour, clock.minute)] for hour in hours]

    def _cron(self, times: list[tuple[int, int]], day: str, month: str, weekday: str) -> Cron:
        expression = f"{times[0][1]} {','.join(str(hour) for hour, _ in times)} {day} {month} {weekday}"
        cron.check(expression)
        note = ""
        shortest = monthrange(2023, int(month))[1] if month.isdigit() else 28
        if any(number.isdigit() and int(number) > shortest for number in day.split(",")):
            note = "Left out where the calendar has no such day."
        return Cron(expression, self.zone, note)


def _in_part(clock: Clock, part: str) -> int:
    """The hour within a part of the day; 24 is the midnight at its end."""
    hour = clock.hour
    if clock.fixed or hour > 12 or hour == 0:
        meant = hour
    elif part in ("am", "dawn", "morning"):
        meant = hour % 12 if part != "morning" else hour
    elif part in ("pm", "afternoon"):
        meant = hour % 12 + 12
    elif part == "noon":
        meant = hour if hour >= 10 else hour + 12
    elif part == "evening":
        meant = hour + 12
    else:
        meant = hour if hour < EARLY else hour + 12
    first, last = _PARTS[part]
    if not (first <= meant <= last or (clock.midnight and part in ("night", "evening"))):
        raise _Ask(f"{hour}:{clock.minute:02} and the {part} contradict each other. Say the time like 17:30.")
    return meant


_PARTS = {
    "am": (0, 11),
    "pm": (12, 23),
    "dawn": (0, 7),
    "morning": (0, 11),
    "noon": (10, 15),
    "afternoon": (12, 20),
    "evening": (16, 24),
    "night": (0, 24),
}


def _no_such(text: str) -> tuple[date, ...]:
    *_, month, day = text.split("|")[0].split("-")
    raise ScheduleError(f"No calendar has a day {day} in month {month.strip('?')} of that year.")


def _months_later(day: date, months: int) -> date:
    if months > 12 * 8000:
        raise OverflowError
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if year > 9990:
        raise OverflowError
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _said_day(options: list[tuple[date, ...]] | None) -> str:
    return " or ".join(day_in_words(option[0]) for option in options or ())
