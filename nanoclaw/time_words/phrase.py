"""The parts of a phrase: days, hours, spans and repeats, found in its row of marks by rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from nanoclaw.core.errors import ScheduleError
from nanoclaw.time_words.lexer import Row, Unknown


@dataclass(frozen=True, slots=True)
class Clock:
    """`sure` when the hour is one of twenty-four; `fixed` when it was said with am or pm."""

    hour: int
    minute: int
    sure: bool = False
    fixed: bool = False
    midnight: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    seconds: int = 0
    days: int = 0
    months: int = 0


@dataclass(slots=True)
class Phrase:
    """The parts that a phrase has, in whatever order they were said. Days of the week in `weekdays` repeat, as cron
    counts them; those in `weekday` come once, each with what stood beside it. `days`, `weeks` and `months` count from
    this one. `bounds` are words that would end a repeat, `asks` what a rule has to ask."""

    spans: list[Span] = field(default_factory=list)
    ago: bool = False
    every: list[Span] = field(default_factory=list)
    rough_gap: bool = False
    repeats: bool = False
    weekdays: list[str] = field(default_factory=list)
    nth_weekday: str = ""
    habit: bool = False
    last_day: bool = False
    of_month: bool = False
    days: list[int] = field(default_factory=list)
    weeks: list[int] = field(default_factory=list)
    months: list[int] = field(default_factory=list)
    weekday: list[tuple[str, int]] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    month_days: list[int] = field(default_factory=list)
    clocks: list[Clock] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    zones: list[str] = field(default_factory=list)
    vague: bool = False
    asks: list[str] = field(default_factory=list)
    bounds: list[str] = field(default_factory=list)


def phrase_of(row: Row) -> Phrase:
    """Raises Unknown when a mark has no place in the grammar, and ScheduleError for what is no time."""
    phrase, at = Phrase(), 0
    while at < len(row.letters):
        for pattern, take in _rules():
            if found := pattern.match(row.letters, at):
                take(phrase, row.between(at, found.end()))
                at = found.end()
                break
        else:
            raise Unknown(row.values[at] or "that")
    return phrase


def cron_day(weekday: int) -> str:
    """As cron counts them: Monday, our 0, is 1 there."""
    return str((weekday + 1) % 7)


def calendar_day(written: str) -> tuple[int, int, int]:
    """Year (0 when none was said), month and day of a date mark such as "2027-5-3" or "?5-12"."""
    *year, month, day = written.removeprefix("?").split("-")
    return int(year[0] if year and year[0] else 0), int(month), int(day)


Take = Callable[[Phrase, Row], None]
"""What a rule does with the marks that it fits."""

_SPAN = r"(?:[nAY][fh]?[uU][fh]?(?:&?n[uU])*|[oO][uU]|[uU][fh]?|H)"


@cache
def _rules() -> tuple[tuple[re.Pattern[str], Take], ...]:
    """The grammar: at each place of the row the first rule that fits takes its marks."""
    rules: tuple[tuple[str, Take], ...] = (
        ("ncnug", _before_hour),
        (f"i{_SPAN}g?|{_SPAN}g", _in_span),
        (f"e{_SPAN}|{_SPAN}G", _every_span),
        ("en$", _asks("Every what? Say it like 'every 5 minutes', or 'every day at 5'.")),
        ("e?F?[wv][r<a][wv]r?", _weekday_range),
        ("[ej]?[Oolu][wv]Be?|[ej]?[Oolu][wv](?=.*[BN])", _nth_weekday),
        ("e?[Ool]w", _alternate_weekday),
        ("e[wv](?:&?e?[wv])*|v(?:&?v)*", _repeated_weekdays),
        ("[extk]?E|e?W", _weekday_group),
        ("j?w[xkt]|[xktj]w|w", _weekday),
        ("nmn(?![uUcY])", _asks("Which number is the day, and which the hour? Say it like '3 May at 8:00'.")),
        ("j?[nO]mY?|m[nO](?![cuU>])Y?", _day_and_month),
        ("DY?", _date),
        ("jn(?![cuU])|j?O", lambda phrase, row: phrase.month_days.append(_whole(row.values[-1]))),
        ("aYc?", _four_digits),
        ("a?M", lambda phrase, row: phrase.clocks.append(Clock(0, 0, sure=True, midnight=True))),
        ("^H$", _bare_hours),
        ("a?C(?:c|U)?|a?H", _said_clock),
        ("a?(?:h>n|hn|[qT][<>]?n|[nh]u?[<>]hn|nu?[><]n)c?|<[qn]u?nc", _minutes_first),
        ("a?(?:h|q|nu?)[<>]C", _minutes_before_noon),
        ("(?:a?n|aA)[cU]?[fQR]|a?n[cU][hqT]|a?n[cU]?<n|an&n(?![uUcm])|a?n[cU]nu?(?![cUm])", _hour_first),
        ("a?[nA]c|an[cU]?|aAU?|n(?=p)", _hour),
        ("a?nn(?![uUcm])", _digits_spoken),
        ("nU", _hour_of_day),
        (f"{_SPAN}$", _bare_span),
        ("L", _true("last_day")),
        ("B", _true("of_month")),
        ("~", _true("vague")),
        ("e", _true("repeats")),
        ("d", lambda phrase, row: phrase.days.append(int(row.values[0]))),
        ("K", lambda phrase, row: phrase.weeks.append(int(row.values[0]))),
        ("N", lambda phrase, row: phrase.months.append(int(row.values[0]))),
        ("p", _part_of_day),
        ("z", lambda phrase, row: phrase.zones.append(row.values[0])),
        ("[XFr]", lambda phrase, row: phrase.bounds.append(row.values[0])),
        ("[a&j]|U(?=[nC])", _said_before),
        ("n", _hour),
    )
    return tuple((re.compile(pattern), take) for pattern, take in rules)


def _true(name: str) -> Take:
    return lambda phrase, row: setattr(phrase, name, True)


def _asks(question: str) -> Take:
    return lambda phrase, row: phrase.asks.append(question)


# -- spans and repeats


def _in_span(phrase: Phrase, row: Row) -> None:
    _bare_span(phrase, row)
    phrase.ago |= any(row.of("g"))


def _bare_span(phrase: Phrase, row: Row) -> None:
    phrase.spans.append(_span(row))
    _ask_of_weeks(phrase, row)


def _every_span(phrase: Phrase, row: Row) -> None:
    phrase.every.append(_span(row))
    phrase.rough_gap |= "~" in row.values
    _ask_of_weeks(phrase, row)


def _ask_of_weeks(phrase: Phrase, row: Row) -> None:
    """ "huit jours" are a week, "quinze jours" two of them, to some."""
    count, weeks = row.of("n")[:1], {"8": "one week", "15": "two weeks"}
    if row.language in ("de", "fr", "es", "it", "pt") and count and count[0] in weeks and row.of("u") == ["d1"]:
        phrase.asks.append(f"Is that {weeks[count[0]]}, or {count[0]} days? Say it in weeks, or the date.")


def _span(row: Row) -> Span:
    """The sum of counted units; a half or a quarter after a unit is a part of that unit."""
    seconds, days, months = 0.0, 0.0, 0.0
    count, size = 1.0, 0.0
    for place, (letter, value) in enumerate(zip(row.letters, row.values, strict=True)):
        if letter in "nAY":
            count = float(value)
        elif letter in "oO":
            count = float(value or 2)
        elif letter == "H":
            hours, minutes = value.split(":")
            seconds += int(hours) * 3600 + int(minutes) * 60
        elif letter in "fh":
            if "U" in row.letters[place:] or "u" in row.letters[place:]:
                count += 0.5
            else:
                seconds += size / 2
        elif letter in "uU":
            kind, number = (value[0], int(value[1:])) if letter == "u" else ("s", 3600)
            size = number * {"s": 1, "d": 86400, "w": 604800}.get(kind, 0)
            if kind == "s":
                seconds += count * number
            elif kind in "dw":
                days += count * number * (7 if kind == "w" else 1)
            else:
                months += count * number * (12 if kind == "y" else 1)
            count = 1.0
    whole = int(days)
    if months != int(months):
        raise Unknown("half a month")
    return Span(round(seconds + (days - whole) * 86400), whole, int(months))


def _weekday_range(phrase: Phrase, row: Row) -> None:
    first, last = map(int, row.of("wv"))
    phrase.weekdays.append(f"{cron_day(first)}-{last + 1}" if first < last else _round_week(first, last))
    phrase.repeats = True
    if row.letters[-1] == "r" and row.language != "ja":  # there "to" is said after the last day
        phrase.bounds.append(row.values[-1])


def _round_week(first: int, last: int) -> str:
    return ",".join(cron_day(day % 7) for day in range(first, last + 8))


def _nth_weekday(phrase: Phrase, row: Row) -> None:
    place = 1 if row.letters[0] in "ej" else 0
    letter, which = row.letters[place], row.values[place]
    if letter in "ou":  # "second" also counts time, and every other
        which = "2" if which in ("", "s1") else "no"
    if letter != "l" and which not in ("1", "2", "3", "4", "5"):
        raise Unknown(which)
    day = cron_day(int(row.values[place + 1]))
    phrase.nth_weekday = f"L{day}" if letter == "l" else f"{day}#{which}"
    phrase.of_month = "B" in row.letters or phrase.of_month
    phrase.repeats |= "e" in row.letters


def _alternate_weekday(phrase: Phrase, row: Row) -> None:
    """ "every 2nd friday" is of every month only where that is said."""
    if any(span == Span(months=1) for span in phrase.every):
        _nth_weekday(phrase, row)
    elif "l" in row.letters:
        raise Unknown("last")
    else:
        phrase.asks.append(
            "Every so many weeks, or one of each month? Say 'every 2 weeks on friday', or 'every second friday of the "
            "month'."
        )


def _repeated_weekdays(phrase: Phrase, row: Row) -> None:
    phrase.weekdays += [cron_day(int(value)) for value in row.of("wv")]
    phrase.repeats = True


def _weekday_group(phrase: Phrase, row: Row) -> None:
    if "E" in row.letters and row.letters[0] != "e":
        phrase.asks.append("On which day: on Saturday or on Sunday, or every weekend? Say it like 'saturday at 10'.")
    phrase.weekdays.append(row.values[-1])
    phrase.repeats = True


# -- days


def _weekday(phrase: Phrase, row: Row) -> None:
    (day,), beside = row.of("w"), row.letters.replace("w", "")
    phrase.habit |= beside == "j" and row.language == "fr"  # "le lundi"
    phrase.weekday.append((beside.replace("j", ""), int(day)))


def _day_and_month(phrase: Phrase, row: Row) -> None:
    (day,), (month,) = row.of("nO"), row.of("m")
    phrase.dates.append(f"{''.join(row.of('Y'))}-{month}-{_whole(day)}")


def _date(phrase: Phrase, row: Row) -> None:
    day, *year_apart = row.values
    if year_apart:
        year, month, number = calendar_day(day.partition("|")[0])
        if year or "|" in day:
            raise Unknown(year_apart[0])
        day = f"{year_apart[0]}-{month}-{number}"
    phrase.dates.append(day)


# -- the time of the day


def _part_of_day(phrase: Phrase, row: Row) -> None:
    """ "mornings at 8" may be a habit, "um 8 Uhr morgens" is a time of the clock."""
    (part,) = row.values
    phrase.habit |= part.endswith("s") and not phrase.clocks
    phrase.parts.append(part.removesuffix("s"))


def _said_clock(phrase: Phrase, row: Row) -> None:
    (value,) = row.of("CH")
    hour, minute = value.rstrip("!").split(":")
    sure = "H" in row.letters or "!" in value or int(hour) > 12 or value == "12:00"
    phrase.clocks.append(_clock(int(hour), int(minute), sure, value.endswith("!!")))


def _four_digits(phrase: Phrase, row: Row) -> None:
    """ "at 1730"."""
    (digits,) = row.of("Y")
    phrase.clocks.append(_clock(int(digits[:2]), int(digits[2:]), sure=True))


def _bare_hours(phrase: Phrase, row: Row) -> None:
    """ "2h" alone is a span to one and an hour of the clock to another."""
    (_bare_span if row.language in ("en", "de") else _said_clock)(phrase, row)


def _said_before(phrase: Phrase, row: Row) -> None:
    """ "at", and Italian "ore 9"."""
    if row.letters == "U" and row.language != "it":
        raise Unknown("hours")


def _before_hour(phrase: Phrase, row: Row) -> None:
    hour, minutes = map(_whole, row.of("n"))
    phrase.clocks.append(_less(hour, minutes))


def _minutes_first(phrase: Phrase, row: Row) -> None:
    """ "half past six", "quarter to 7", "halb acht", "fünf vor halb acht", "dreiviertel acht", 差一刻八点."""
    letters, numbers = row.letters, [_whole(value) for value in row.of("n")]
    hour = numbers[-1]
    if "h" in letters and (letters[-2:] == "hn" or letters[-3:] == "hnc"):
        if row.language != "de":
            raise Unknown("half")
        aside = (numbers[0] if len(numbers) > 1 else 0) * (-1 if "<" in letters else 1)
        phrase.clocks.append(_less(hour, 30 - aside))
        return
    if "T" in letters and not {"<", ">"} & set(letters):
        phrase.clocks.append(_less(hour, 15))
        return
    if not {"<", ">"} & set(letters):
        raise Unknown("quarter")
    minutes = 30 if "h" in letters else 15 if "q" in letters else numbers[0]
    if row.language in ("fr", "es", "it", "pt") and len(numbers) > 1:
        hour, minutes = numbers
    if row.language == "en" and letters.endswith("n<n") and minutes not in _SPOKEN_MINUTES:
        raise Unknown("to")  # "9 to 5" is a stretch of hours
    phrase.clocks.append(_less(hour, minutes) if "<" in letters else _clock(hour, minutes))


def _minutes_before_noon(phrase: Phrase, row: Row) -> None:
    """ "half past 5 pm"."""
    (said,) = row.of("C")
    minutes = 30 if "h" in row.letters else 15 if "q" in row.letters else _whole(row.of("n")[0])
    hour, minute = said.rstrip("!").split(":")
    if row.language != "en" or minute != "00" or ("n" in row.letters and minutes not in _SPOKEN_MINUTES):
        raise Unknown(said)
    hours, minutes = divmod(int(hour) * 60 + (-minutes if "<" in row.letters else minutes), 60)
    phrase.clocks.append(Clock(hours % 24, minutes, True, said.endswith("!!")))


def _hour_first(phrase: Phrase, row: Row) -> None:
    """ "six heures et demie", "las ocho menos cuarto", "8 Uhr 30", 三点半."""
    letters, numbers = row.letters, [_whole(value) for value in row.of("nA")]
    after = next((size for mark, size in (("f", 30), ("h", 30), ("q", 15), ("Q", 15), ("T", 45)) if mark in letters), 0)
    if "U" in letters and row.language not in ("fr", "es", "pt"):
        raise Unknown("hours")
    if "R" in letters or "<" in letters:
        phrase.clocks.append(_less(numbers[0], 15 if "R" in letters else numbers[1]))
    elif letters == "an&n" and not (row.language in ("es", "it", "pt") and numbers[1] in _SPOKEN_MINUTES):
        phrase.clocks += [_clock(number, 0) for number in numbers]
    else:
        phrase.clocks.append(_clock(numbers[0], after or (numbers[1] if len(numbers) > 1 else 0)))


_SPOKEN_MINUTES = (5, 10, 20, 25)
"""Said beside the hour: "ten to six" is 5:50 and "las nueve y diez" 9:10; "9 to 5" and "las 9 y 17" are two hours."""


def _digits_spoken(phrase: Phrase, row: Row) -> None:
    """ "seven thirty"."""
    hour, minute = map(_whole, row.of("n"))
    if row.language != "en" or minute < 10:
        raise Unknown(str(minute))
    phrase.clocks.append(_clock(hour, minute))


def _hour(phrase: Phrase, row: Row) -> None:
    said = row.of("nA")[0]
    if "." in said:
        hour, minute = said.split(".")
        if len(minute) != 2 or ("c" not in row.letters and "a" not in row.letters):
            raise Unknown(said)
        phrase.clocks.append(_clock(int(hour), int(minute), row.language != "en"))
        return
    if "U" in row.letters and row.language == "en":
        raise Unknown("hours")
    phrase.clocks.append(_clock(int(said), 0))


def _hour_of_day(phrase: Phrase, row: Row) -> None:
    """ "demain neuf heures": an hour of the clock only where hours are said so."""
    if row.language != "fr" or not (phrase.days or phrase.weekday or phrase.weekdays or phrase.every or phrase.dates):
        _bare_span(phrase, row)
        return
    phrase.clocks.append(_clock(_whole(row.values[0]), 0))


def _whole(value: str) -> int:
    if "." in value:
        raise Unknown(value)
    return int(value)


def _less(hour: int, minutes: int) -> Clock:
    if minutes > 60:
        raise ScheduleError(f"An hour has no {minutes} minutes.")
    return _clock((hour - 1) % 24 or (12 if hour == 13 or hour == 1 else 0), 60 - minutes)


def _clock(hour: int, minute: int, sure: bool = False, fixed: bool = False) -> Clock:
    if hour > 24 or not 0 <= minute <= 59 or (hour == 24 and minute):
        raise ScheduleError(f"There is no {hour}:{minute:02} on a clock.")
    return Clock(hour, minute, sure or hour == 0 or hour > 12, fixed)
