"""Evaluation: what words for a time mean at a moment, as one-offs, intervals, cron expressions or a question."""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from nanoclaw.time_words import cron
from nanoclaw.time_words.errors import TimeWordsError, shown
from nanoclaw.time_words.format import day_in_words, passed, question
from nanoclaw.time_words.lexer import UnknownWord, tokenize, zones_in
from nanoclaw.time_words.lexicon import LANGUAGES, folded
from nanoclaw.time_words.parser import ClockTime, Duration, Parsed, calendar_day, cron_day, parse
from nanoclaw.time_words.readings import DAY, At, Cron, Every, Reading, Result, Unclear, apart, upcoming, wall

LONGEST = 200  # characters of a phrase; a longer text is not words for a time
LATE_NIGHT = 4
"""Until this hour "tomorrow" may be the day that has just begun."""
EARLY = 6  # bare hours before this one are of the night or of the afternoon, which only the person knows
FURTHEST = timedelta(days=50 * 365.25)  # a time further ahead was hardly meant so, and is asked about


def read(words: str, now: datetime, zone: str | tzinfo, language: str = "") -> Result:
    """Evaluate words about a time, said at `now` by a person in `zone`.

    Raises TimeWordsError, with a sentence for the person, for the past, for intervals under a minute, and for words
    that name no time. Where people differ it asks: "next friday" unless it is in the coming week anyway, 03/04/2026,
    "tomorrow" between midnight and four, hours from one to five without a word for the part of the day; and for more
    than 50 years ahead. A bare hour without a day, such as "at 7", is the next time that a clock's face shows it. A
    time that the clocks skip becomes the first moment after, one that they repeat the first of both. In a `language`
    only what they mean there counts, if it has them.
    """
    now = now.astimezone(cron.zone_named(zone))
    if len(words) > LONGEST:
        raise TimeWordsError(f"Give only the words for the time: {len(words):,} characters are too many.")
    text = folded(_QUOTED.sub(r"\2", words.strip()))
    if not text:
        raise TimeWordsError("No time was given. Say it like 'tomorrow at 9' or 'every weekday at 7:30'.")
    if _CRON.fullmatch(text):
        cron.check(words.strip())
        return Cron(" ".join(words.split()), zone)
    if found := _ISO.fullmatch(text):
        return _from_iso(found, now)
    result = _in_any_language(text, now, zone, language)
    if isinstance(result, str):
        raise TimeWordsError(
            f"Cannot read {shown(_as_written(result, words))} as a time. Say it like 'tomorrow at 9', 'in 20 minutes', "
            "'every weekday at 7:30' or '2026-11-27 17:05'."
        )
    return result


def read_known(words: str, now: datetime, zone: str | tzinfo, language: str = "") -> Result | None:
    """The same for words that the parser knows; None for any others, and for what can never be."""
    try:
        found = _in_any_language(folded(words), now, zone, language)
    except TimeWordsError:
        return None
    return None if isinstance(found, str) else found


def _in_any_language(text: str, now: datetime, zone: str | tzinfo, first: str = "") -> Result | str:
    """Evaluate a folded phrase in the languages that have all of its words, in the first alone if that one has them;
    the strange word, if none has.

    Raises TimeWordsError for the past and for intervals under a minute.
    """
    zones = zones_in(text)
    results: list[Result] = []
    refusals: list[TimeWordsError] = []
    strange: list[str] = []
    for language in (first, *LANGUAGES) if first else LANGUAGES:
        try:
            result = _Evaluation(parse(tokenize(text, language, zones)), now, zone).result()
            if result not in results:
                results.append(result)
            if language == first:
                break
        except UnknownWord as error:
            strange.append(str(error))
        except TimeWordsError as error:
            refusals.append(error)
            if language == first:
                break
        except OverflowError:
            refusals.append(TimeWordsError("That is too far away. Name a date before the year 9999."))
    if results:
        return results[0] if len(results) == 1 else _either(results, now, zone)
    if refusals:
        raise refusals[0]
    furthest = max(strange, key=lambda word: _place(word, text))
    if _place(furthest, text) <= 0 and any(one not in text for one in strange):
        return text  # a language has all of the words, and no place for one
    return furthest


def _as_written(strange: str, words: str) -> str:
    """A folded word, or all of the phrase, as it was said."""
    words = unicodedata.normalize("NFC", " ".join(words.split()))
    said = [word.strip(",;.!?") for word in words.split()]
    whole = (word for word in said if folded(word) == strange)
    return next(whole, next((word for word in said if strange in folded(word)), words))


def _place(word: str, text: str) -> int:
    """Position where it stands by itself, or else within another one."""
    place = f" {text}".rfind(f" {word}")
    return place if place >= 0 else text.rfind(word)


def _either(results: list[Result], now: datetime, zone: str | tzinfo) -> Result:
    """Languages differ about the words: all that they may mean."""
    found = [reading for one in results for reading in (one.readings if isinstance(one, Unclear) else (one,))]
    readings = tuple(reading for place, reading in enumerate(found) if reading not in found[:place])
    return Unclear(question(readings, now, zone), readings) if readings else results[0]


_QUOTED = re.compile(r"""(['"])([^'"]*)\1$""")
_FIELD = r"(?:[\d*,/?#lw-]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat)+"
_CRON = re.compile(rf"@[a-z]+|(?=.*[*/,-])[\d*,/-]+(?: {_FIELD}){{4,6}}|\d+ \d+ \d+ \d+ \d")
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[t ](\d\d:\d\d(?::\d\d)?)(?:[.,]\d{1,9})?)?(?: ?(z|[+-]\d\d:?\d\d(?:\[.*\])?))?",
)


def _from_iso(found: re.Match[str], now: datetime) -> Result:
    day, time, offset = found.groups()
    zone = now.tzinfo
    try:
        if not time:
            if date.fromisoformat(day) < now.date():
                raise passed(datetime.fromisoformat(f"{day}T23:59").replace(tzinfo=zone), now, zone or UTC)
            return Unclear(f"At what time on {day_in_words(date.fromisoformat(day))}?")
        when = datetime.fromisoformat(f"{day}T{time}{(offset or '').upper()}")
        at = wall(when, zone or UTC) if when.tzinfo is None else At(when.astimezone(zone))
        if apart(at.when, now) <= timedelta():
            raise passed(at.when, now, zone or UTC)
    except TimeWordsError:
        raise
    except (ValueError, OverflowError):
        raise TimeWordsError(f"There is no {found[0]}. Look at the month's days and the hour.") from None
    return at


class _Ask(Exception):
    """The phrase lacks something or has too much; its text is the question."""


class _Evaluation:
    """One phrase, said at one time."""

    def __init__(self, parsed: Parsed, now: datetime, zone: str | tzinfo) -> None:
        self.parsed = parsed
        self.home = zone
        self.zone: str | tzinfo = parsed.zones[0] if parsed.zones else zone
        self.there = cron.zone_named(self.zone)
        self.now = now.astimezone(self.there)
        self.today = self.now.date()

    def result(self) -> Result:
        parsed = self.parsed
        try:
            if len(set(parsed.zones)) > 1:
                raise _Ask("More than one time zone is named. Which one?")
            if parsed.asks:
                raise _Ask(parsed.asks[0])
            readings = self._repeats() if parsed.repeats or parsed.every or parsed.weekdays else self._one_offs()
        except _Ask as ask:
            return Unclear(str(ask))
        due = upcoming(readings[0], self.now)
        if apart(due, self.now) > FURTHEST:
            return Unclear(f"That is {day_in_words(due)}, more than 50 years from now. When do you mean?")
        why = "A reminder needs an exact time." if parsed.vague else ""
        if len(readings) == 1 and not parsed.vague:
            return readings[0]
        return Unclear(question(readings, self.now, self.home, why), readings)

    # one-offs

    def _one_offs(self) -> tuple[Reading, ...]:
        parsed = self.parsed
        if bounds := parsed.bounds:
            raise UnknownWord(bounds[0])
        other_days = parsed.dates or parsed.weeks or parsed.days or parsed.month_days or parsed.spans
        if parsed.habit and len(parsed.weekday) <= 1 and parsed.clocks and not other_days:
            once = self._dated(self._options())
            day = cron_day(parsed.weekday[0][1]) if parsed.weekday else "*"
            return (*once, *(self._cron(clock, "*", "*", day) for clock in self._daily(parsed.clocks[0])))
        if (parsed.of_month or parsed.last_day) and parsed.clocks and not parsed.months:
            return (*self._dated(self._options()), *self._repeats())
        if parsed.spans and not parsed.clocks:
            return (self._after(),)
        return self._dated(self._options())

    def _after(self) -> At:
        parsed = self.parsed
        if len(parsed.spans) > 1 or self._named_days() or parsed.parts:
            raise _Ask("That names a span and a day. Say the date and the time.")
        span = parsed.spans[0]
        if parsed.ago:
            when = self.now - timedelta(days=span.days + 30 * span.months, seconds=span.seconds)
            raise passed(when, self.now, self.home)
        if span == Duration():
            raise TimeWordsError("That is now. Name a later time.")
        if not (span.days or span.months):
            return self._home(At(self.now.astimezone(UTC) + timedelta(seconds=span.seconds)))
        day = _months_later(self.today, span.months) + timedelta(days=span.days)
        at = wall(datetime.combine(day, self.now.time()), self.there)
        return self._home(At(at.when.astimezone(UTC) + timedelta(seconds=span.seconds), at.note))

    def _named_days(self) -> bool:
        parsed = self.parsed
        other = parsed.last_day or parsed.nth_weekday or parsed.of_month or parsed.months
        return bool(parsed.days or parsed.weekday or parsed.weeks or parsed.dates or parsed.month_days or other)

    def _options(self) -> list[tuple[date, ...]] | None:
        """Each option is the days that one reading of the words may mean, nearest first; None when no day is named."""
        parsed = self.parsed
        found: list[list[tuple[date, ...]]] = []
        found += [self._relative(number) for number in set(parsed.days)]
        found += [self._written(text) for text in dict.fromkeys(parsed.dates)]
        found += [[tuple(self._month_days(number))] for number in dict.fromkeys(parsed.month_days)]
        if parsed.last_day:
            found.append([tuple(self._month_days(0))])
        if parsed.nth_weekday:
            found.append([tuple(self._nth_weekdays())])
        if parsed.months:
            if len(found) != 1:
                raise _Ask("On which day of that month, and at what time?")
            found = [self._in_month(found[0])]
        if parsed.spans:
            span = parsed.spans[0]
            if len(parsed.spans) > 1 or span.seconds or parsed.ago:
                raise _Ask("That names a span and a time. Say only one of them.")
            found.append([(_months_later(self.today, span.months) + timedelta(days=span.days),)])
        weekdays = [self._weekdays(kind, day) for kind, day in dict.fromkeys(parsed.weekday)]
        if parsed.weeks:
            if len(weekdays) != 1 or found or len(parsed.weeks) > 1:
                raise _Ask("On which day of that week, and at what time?")
            monday = self.today - timedelta(days=self.today.weekday()) + timedelta(weeks=parsed.weeks[0])
            return [(monday + timedelta(days=parsed.weekday[0][1]),)]
        if not found and not weekdays:
            return None
        return self._same_days(found, weekdays)

    def _in_month(self, options: list[tuple[date, ...]]) -> list[tuple[date, ...]]:
        """Those days of the month that is named, such as next month."""
        first = _months_later(self.today.replace(day=1), self.parsed.months[0])
        days = tuple(day for day in options[0] if (day.year, day.month) == (first.year, first.month))
        if not days:
            raise TimeWordsError(f"There is no such day to come in {first:%B %Y}. Name the date.")
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
            raise TimeWordsError(f"No month has {number} days.")
        first = self.today.replace(day=1)
        for _ in range(4):
            last = monthrange(first.year, first.month)[1]
            if (number or last) <= last and first.replace(day=number or last) >= self.today:
                yield first.replace(day=number or last)
            first = _months_later(first, 1)

    def _nth_weekdays(self) -> Iterator[date]:
        after = datetime.combine(self.today, time(), UTC) - timedelta(seconds=1)
        for _ in range(2):
            after = cron.next_due(f"0 0 * {self.parsed.nth_month} {self.parsed.nth_weekday}", UTC, after)
            yield after.date()

    def _dated(self, options: list[tuple[date, ...]] | None) -> tuple[Reading, ...]:
        """The first future moment of each option and each meaning of the hour."""
        parsed = self.parsed
        if not parsed.clocks:
            if options and max(max(option) for option in options) < self.today:
                raise passed(datetime.combine(options[0][0], time(23, 59), self.there), self.now, self.home)
            raise self._no_time(options)
        if len({(clock.hour, clock.minute) for clock in parsed.clocks}) > 1:
            raise _Ask("That names two times. Set a reminder for each, or say only one.")
        clock = max(parsed.clocks, key=lambda clock: clock.sure)
        open_day = options is None or (parsed.days == [0] and len(options) == 1)
        if options is None:
            options = [(self.today, self.today + timedelta(days=1))]
        hours = self._hours(clock, open_day)
        if (clock.midnight and not open_day) or (clock.midnight and parsed.days == [0] and parsed.parts):
            hours = [24] if open_day else [0, 24]
        if open_day and parsed.days == [0] and self._is_night(hours):
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
        if self.parsed.dates and self.parsed.dates[0].startswith("?") and not self.parsed.weekday:
            _, month, day = calendar_day(self.parsed.dates[0].partition("|")[0])
            return _Ask(f"Is {day}.{month}. the {_said_day(options)}, or {day}:{month:02}? Say date and time.")
        return _Ask(f"At what time on {_said_day(options)}?" if options else "On which day, and at what time?")

    def _is_night(self, hours: list[int]) -> bool:
        return "night" in self.parsed.parts and all(hour % 24 < EARLY for hour in hours)

    def _loose(self, clock: ClockTime) -> bool:
        return not clock.sure and not self.parsed.parts

    def _hours(self, clock: ClockTime, open_day: bool) -> list[int]:
        """The hours of the day that are meant; 24 and more belong to the next day."""
        parsed = self.parsed
        if parsed.parts:
            meant = {_in_part(clock, part) for part in parsed.parts}
            if len(meant) > 1:
                raise _Ask("The parts of the day contradict each other. Say the time like 17:30.")
            hour = meant.pop()
            if hour < EARLY and "night" in parsed.parts and not open_day:
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
        parsed = self.parsed
        if parsed.or_weeks:
            self.parsed = replace(parsed, or_weeks=False)
            of_month = self._repeats()
            day, _, weeks = parsed.nth_weekday.partition("#")
            every = [Duration(days=7 * int(weeks))]
            self.parsed = replace(self.parsed, nth_weekday="", weekdays=[day], every=every)
            return (*self._repeats(), *of_month)
        if bounds := parsed.bounds:
            raise _Ask(
                f"What {bounds[0]!r} says cannot be kept: a repeat goes on until it is removed. Say it without, or set "
                "each time as a reminder of its own."
            )
        if parsed.of_month and not (parsed.nth_weekday or parsed.last_day or parsed.month_days):
            raise _Ask("On which day of the month? Say 'every first monday of the month at 9'.")
        if parsed.rough_gap and any(span.days for span in parsed.every):
            raise _Ask("How many days apart? Say 'every 2 days'.")
        if len(parsed.every) > 1 and len(set(parsed.every)) > 1:
            raise _Ask("That names two intervals. Which one?")
        if parsed.days or parsed.spans or parsed.weeks or parsed.months:
            raise _Ask("That names one time and a repeat. Say only one of them.")
        span = parsed.every[0] if parsed.every else Duration()
        if parsed.every and span == Duration():
            raise TimeWordsError("That is not an interval. Say it like 'every 90 minutes'.")
        if span.seconds or (span.days and span.days not in (1, 7)) or (span.days == 7 and span.months):
            return (self._interval(span),)
        if span.months > 1 and span.months != 12:
            raise _Ask("Cron cannot count months from today. Say the months, each as a job of its own.")
        fields = self._day_fields(span)
        if not parsed.clocks:
            raise _Ask("At what time?")
        return tuple(self._cron(hours, *fields) for hours in self._daily_all())

    def _interval(self, span: Duration) -> Every:
        parsed = self.parsed
        seconds = span.seconds + span.days * 86400
        if span.months or (not span.days and (parsed.clocks or self._named_days() or parsed.weekdays or parsed.parts)):
            raise _Ask("An interval has no time of the day. Say 'every 90 minutes', or 'every day at 9'.")
        if seconds < 60:
            raise TimeWordsError(f"{seconds} seconds are too short: a job runs at most once a minute.")
        if not parsed.clocks:
            if self._named_days() or parsed.weekdays or parsed.parts:
                raise _Ask("At what time?")
            start = self._home(At(self.now.astimezone(UTC) + timedelta(seconds=seconds))).when
            return Every(seconds, start)
        if parsed.weekdays:
            if len(parsed.weekdays) > 1 or not parsed.weekdays[0].isdigit():
                raise _Ask("On which one day of the week does it begin?")
            parsed.weekday.append(("", (int(parsed.weekdays[0]) - 1) % 7))
        if any(clock.hour < EARLY and self._loose(clock) for clock in parsed.clocks):
            raise _Ask("At what time? Say it like 15:30.")
        parsed.clocks = [replace(clock, sure=True) for clock in parsed.clocks]
        starts = self._dated(self._options())
        if len(starts) > 1 or not isinstance(starts[0], At):
            raise _Ask("At what time? Say it like 15:30, and on which day it begins.")
        return Every(seconds, starts[0].when, starts[0].note, "" if seconds % DAY else self.zone)

    def _day_fields(self, span: Duration) -> tuple[str, str, str]:
        """The cron fields for day of the month, month and weekday."""
        parsed = self.parsed
        weekdays = [*parsed.weekdays, *(cron_day(day) for _, day in parsed.weekday)]
        kinds = [bool(weekdays), bool(parsed.nth_weekday), parsed.last_day, bool(parsed.month_days), bool(parsed.dates)]
        if sum(kinds) > 1 or len(parsed.dates) > 1 or any(kind for kind, _ in parsed.weekday):
            raise _Ask("Cron takes weekdays or dates, not both. Say only one of them.")
        if weekdays:
            if span.days == 1 and any(day.isdigit() for day in weekdays):
                raise _Ask("Every day, or only on some days of the week? Say only one of them.")
            if span.months:
                raise _Ask("Which one in the month? Say 'every first monday of the month at 9'.")
            return "*", "*", ",".join(dict.fromkeys(weekdays))
        unlike = span.days or (span.months == 1 and parsed.dates) or (span.months == 12 and not parsed.dates)
        if unlike and any(kinds):
            raise _Ask("The interval and the days do not fit. Say only one of them.")
        if parsed.nth_weekday:
            return "*", parsed.nth_month, parsed.nth_weekday
        if parsed.last_day:
            return "L", "*", "*"
        if parsed.month_days:
            return ",".join(str(day) for day in dict.fromkeys(parsed.month_days)), "*", "*"
        if parsed.dates:
            if "|" in parsed.dates[0]:
                raise _Ask("On which day of which month, each year?")
            year, month, day = calendar_day(parsed.dates[0])
            if year or not (1 <= month <= 12 and 1 <= day <= monthrange(2024, month)[1]):
                raise _Ask("On which day of which month, each year?")
            return str(day), str(month), "*"
        if span.days == 1 or (not span.days and not span.months and parsed.parts):
            return "*", "*", "*"
        raise _Ask("On which day, and at what time?")

    def _daily_all(self) -> list[list[tuple[int, int]]]:
        """Each reading is the times of a day, as hour and minute."""
        clocks = list(dict.fromkeys(self.parsed.clocks))
        each = [self._daily(clock) for clock in clocks]
        if len(each) > 1:
            if any(len(one) > 1 for one in each) or len({clock.minute for clock in clocks}) > 1:
                raise _Ask("Which times? Say them like 9:00, each as a job of its own.")
            return [[one[0][0] for one in each]]
        return each[0]

    def _daily(self, clock: ClockTime) -> list[list[tuple[int, int]]]:
        on_any_day = not (self.parsed.weekdays or self.parsed.weekday or self.parsed.dates or self.parsed.month_days)
        on_any_day = on_any_day and not self.parsed.nth_weekday and not self.parsed.last_day
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


def _in_part(clock: ClockTime, part: str) -> int:
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
    raise TimeWordsError(f"No calendar has a day {day} in month {month.strip('?')} of that year.")


def _months_later(day: date, months: int) -> date:
    if months > 12 * 8000:
        raise OverflowError
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if year > 9990:
        raise OverflowError
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _said_day(options: list[tuple[date, ...]] | None) -> str:
    return " or ".join(day_in_words(option[0]) for option in sorted(options or ()))
