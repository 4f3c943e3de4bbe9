"""The parser: the days, hours, durations and repeats of a parsed, found among its tokens by rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from nanoclaw.time_words.errors import TimeWordsError
from nanoclaw.time_words.lexer import Tokens, UnknownWord


@dataclass(frozen=True, slots=True)
class ClockTime:
    """`sure` when the hour is one of twenty-four; `fixed` when it was said with am or pm."""

    hour: int
    minute: int
    sure: bool = False
    fixed: bool = False
    midnight: bool = False


@dataclass(frozen=True, slots=True)
class Duration:
    seconds: int = 0
    days: int = 0
    months: int = 0


@dataclass(slots=True)
class Parsed:
    """The parts that a phrase has, in whatever order they were said. Days of the week in `weekdays` repeat, as cron
    counts them; those in `weekday` come once, each with what stood beside it. `days`, `weeks` and `months` count from
    this one. `bounds` are words that would end a repeat, `asks` what a rule has to ask."""

    spans: list[Duration] = field(default_factory=list)
    ago: bool = False
    every: list[Duration] = field(default_factory=list)
    rough_gap: bool = False
    repeats: bool = False
    weekdays: list[str] = field(default_factory=list)
    nth_weekday: str = ""
    nth_month: str = "*"
    or_weeks: bool = False
    habit: bool = False
    last_day: bool = False
    of_month: bool = False
    days: list[int] = field(default_factory=list)
    weeks: list[int] = field(default_factory=list)
    months: list[int] = field(default_factory=list)
    weekday: list[tuple[str, int]] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    month_days: list[int] = field(default_factory=list)
    clocks: list[ClockTime] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    zones: list[str] = field(default_factory=list)
    vague: bool = False
    asks: list[str] = field(default_factory=list)
    bounds: list[str] = field(default_factory=list)


def parse(tokens: Tokens) -> Parsed:
    """Raises UnknownWord if a token has no place in any rule, and TimeWordsError for what is not a time."""
    parsed, at = Parsed(), 0
    while at < len(tokens.letters):
        for pattern, take in _rules():
            if found := pattern.match(tokens.letters, at):
                take(parsed, tokens.between(at, found.end()))
                at = found.end()
                break
        else:
            raise UnknownWord(tokens.values[at] or "that")
    return parsed


def cron_day(weekday: int) -> str:
    """As cron counts them: Monday, our 0, is 1 there."""
    return str((weekday + 1) % 7)


def calendar_day(written: str) -> tuple[int, int, int]:
    """Year (0 when none was said), month and day of a date token such as "2027-5-3" or "?5-12"."""
    *year, month, day = written.removeprefix("?").split("-")
    return int(year[0] if year and year[0] else 0), int(month), int(day)


Take = Callable[[Parsed, Tokens], None]  # takes the tokens that a rule fits
_SPAN = r"(?:[nAY][fh]?[uU][fh]?(?:&?n[uU])*|[oO][uU]|[uU][fh]?|H)"


@cache
def _rules() -> tuple[tuple[re.Pattern[str], Take], ...]:
    """The rules in order: at each place the first that fits takes its tokens."""
    rules: tuple[tuple[str, Take], ...] = (
        ("ncnug", _before_hour),
        (f"i{_SPAN}g?|{_SPAN}g", _in_span),
        (f"e{_SPAN}|{_SPAN}G", _every_span),
        ("en$", _asks("Every what? Say it like 'every 5 minutes', or 'every day at 5'.")),
        ("e?F?[wv][r<a][wv]r?", _weekday_range),
        ("[ej]?[Oolu][wv]i?m|nu[Ol][wv]", _nth_weekday_of),
        ("[ej]?[Oolu][wv]Be?|[ej]?[Oolu][wv](?=.*[BN])", _nth_weekday),
        ("e?[Ool]w", _alternate_weekday),
        ("e[wv](?:&?e?[wv])*|v(?:&?v)*", _repeated_weekdays),
        ("[extk]?E|e?W", _weekday_group),
        ("j?w[xkt]|[xktj]w|w", _weekday),
        ("nmn(?![uUcY])", _asks("Which number is the day, and which the hour? Say it like '3 May at 8:00'.")),
        ("j?[nO]mY?|m[nO](?![cuU>])Y?", _day_and_month),
        ("DY?", _date),
        ("jn(?![cuU])|j?O", lambda parsed, tokens: parsed.month_days.append(_whole(tokens.values[-1]))),
        ("aYc?", _four_digits),
        ("a?M", lambda parsed, tokens: parsed.clocks.append(ClockTime(0, 0, sure=True, midnight=True))),
        ("^H$", _bare_hours),
        ("a?C(?:c|U)?|a?H", _said_clock),
        ("a?(?:h>n|hn|[qT][<>]?n|[nh]u?[<>]hn|nu?[><]n)c?|<[qn]u?nc", _minutes_first),
        ("a?(?:h|q|nu?)[<>]C", _minutes_before_noon),
        ("(?:a?n|aA)[cU]?[fQR]|a?n[cU][hqT]|a?n[cU]?<n|an&n(?![uUcm])|a?n[cU]nu?(?![cUm])", _hour_first),
        ("a?nn(?![uUcm])", _digits_spoken),
        ("a?[nA]c|an[cU]?|aAU?|n(?=p)", _hour),
        ("nU", _hour_of_day),
        (f"{_SPAN}$", _bare_span),
        ("L", _true("last_day")),
        ("B", _true("of_month")),
        ("~", _true("vague")),
        ("e", _true("repeats")),
        ("d", lambda parsed, tokens: parsed.days.append(int(tokens.values[0]))),
        ("K", lambda parsed, tokens: parsed.weeks.append(int(tokens.values[0]))),
        ("N", lambda parsed, tokens: parsed.months.append(int(tokens.values[0]))),
        ("p", _part_of_day),
        ("z", lambda parsed, tokens: parsed.zones.append(tokens.values[0])),
        ("[XFr]", lambda parsed, tokens: parsed.bounds.append(tokens.values[0])),
        ("[a&j]|U(?=[nC])", _said_before),
        ("n", _hour),
    )
    return tuple((re.compile(pattern), take) for pattern, take in rules)


def _true(name: str) -> Take:
    return lambda parsed, tokens: setattr(parsed, name, True)


def _asks(question: str) -> Take:
    return lambda parsed, tokens: parsed.asks.append(question)


# -- spans and repeats


def _in_span(parsed: Parsed, tokens: Tokens) -> None:
    _bare_span(parsed, tokens)
    parsed.ago |= any(tokens.of("g"))


def _bare_span(parsed: Parsed, tokens: Tokens) -> None:
    parsed.spans.append(_span(tokens))
    _ask_of_weeks(parsed, tokens)


def _every_span(parsed: Parsed, tokens: Tokens) -> None:
    parsed.every.append(_span(tokens))
    parsed.rough_gap |= "rough" in tokens.values
    _ask_of_weeks(parsed, tokens)


def _ask_of_weeks(parsed: Parsed, tokens: Tokens) -> None:
    """ "huit jours" are a week, "quinze jours" two of them, to some."""
    count, weeks = tokens.of("n")[:1], {"8": "one week", "15": "two weeks"}
    if tokens.language in ("de", "fr", "es", "it", "pt") and count and count[0] in weeks and tokens.of("u") == ["d1"]:
        parsed.asks.append(f"Is that {weeks[count[0]]}, or {count[0]} days? Say it in weeks, or the date.")


def _span(tokens: Tokens) -> Duration:
    """The sum of counted units; a half or a quarter after a unit is a part of that unit."""
    seconds, days, months = 0.0, 0.0, 0.0
    count, size = 1.0, 0.0
    for place, (letter, value) in enumerate(zip(tokens.letters, tokens.values, strict=True)):
        if letter in "nAY":
            count = float(value)
        elif letter in "oO":
            count = float(value or 2)
        elif letter == "H":
            hours, minutes = value.split(":")
            seconds += int(hours) * 3600 + int(minutes) * 60
        elif letter in "fh":
            if "U" in tokens.letters[place:] or "u" in tokens.letters[place:]:
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
        raise UnknownWord("half a month")
    return Duration(round(seconds + (days - whole) * 86400), whole, int(months))


def _weekday_range(parsed: Parsed, tokens: Tokens) -> None:
    first, last = map(int, tokens.of("wv"))
    parsed.weekdays.append(f"{cron_day(first)}-{last + 1}" if first < last else _round_week(first, last))
    parsed.repeats = True
    if tokens.letters[-1] == "r" and tokens.language != "ja":  # there "to" is said after the last day
        parsed.bounds.append(tokens.values[-1])


def _round_week(first: int, last: int) -> str:
    return ",".join(cron_day(day % 7) for day in range(first, last + 8))


def _nth_weekday(parsed: Parsed, tokens: Tokens) -> None:
    place = 1 if tokens.letters[0] in "ej" else 0
    letter, which = tokens.letters[place], tokens.values[place]
    if letter in "ou":  # "second" also counts time, and every other
        which = "2" if which in ("", "s1") else "no"
    if letter != "l" and which not in ("1", "2", "3", "4", "5"):
        raise UnknownWord(which)
    day = cron_day(int(tokens.values[place + 1]))
    parsed.nth_weekday = f"L{day}" if letter == "l" else f"{day}#{which}"
    parsed.of_month = "B" in tokens.letters or parsed.of_month
    parsed.repeats |= "e" in tokens.letters


def _nth_weekday_of(parsed: Parsed, tokens: Tokens) -> None:
    """ "last friday of december", 12月最后一个周五."""
    if tokens.letters[0] == "n" and (tokens.language not in ("zh", "ja") or tokens.values[1] != "m1"):
        raise UnknownWord(tokens.values[0])
    parsed.nth_month = tokens.values[0] if tokens.letters[0] == "n" else tokens.of("m")[0]
    _nth_weekday(parsed, tokens.between(2, 4) if tokens.letters[0] == "n" else tokens)


def _alternate_weekday(parsed: Parsed, tokens: Tokens) -> None:
    """ "every 2nd friday" may be of every month, or every 2 weeks; "every first monday" is of every month."""
    if any(span == Duration(months=1) for span in parsed.every) or "e" in tokens.letters:
        _nth_weekday(parsed, tokens)
        parsed.or_weeks = not (parsed.every or parsed.nth_weekday.endswith("1") or "l" in tokens.letters)
    else:
        parsed.asks.append("Which one of which month? Say 'every second friday of the month', or the date.")


def _repeated_weekdays(parsed: Parsed, tokens: Tokens) -> None:
    parsed.weekdays += [cron_day(int(value)) for value in tokens.of("wv")]
    parsed.repeats = True


def _weekday_group(parsed: Parsed, tokens: Tokens) -> None:
    if "E" in tokens.letters and tokens.letters[0] != "e":
        parsed.asks.append("On which day: on Saturday or on Sunday, or every weekend? Say it like 'saturday at 10'.")
    parsed.weekdays.append(tokens.values[-1])
    parsed.repeats = True


# -- days


def _weekday(parsed: Parsed, tokens: Tokens) -> None:
    (day,), beside = tokens.of("w"), tokens.letters.replace("w", "")
    parsed.habit |= beside == "j" and tokens.language == "fr"  # "le lundi"
    parsed.weekday.append((beside.replace("j", ""), int(day)))


def _day_and_month(parsed: Parsed, tokens: Tokens) -> None:
    (day,), (month,) = tokens.of("nO"), tokens.of("m")
    parsed.dates.append(f"{''.join(tokens.of('Y'))}-{month}-{_whole(day)}")


def _date(parsed: Parsed, tokens: Tokens) -> None:
    day, *year_apart = tokens.values
    if year_apart:
        options = [calendar_day(one) for one in day.split("|")]
        if any(year for year, _, _ in options):
            raise UnknownWord(year_apart[0])
        day = "|".join(f"{year_apart[0]}-{month}-{number}" for _, month, number in options)
    parsed.dates.append(day)


# -- the time of the day


def _part_of_day(parsed: Parsed, tokens: Tokens) -> None:
    """ "mornings at 8" may be a habit, "um 8 Uhr morgens" is a time of the clock."""
    (part,) = tokens.values
    parsed.habit |= part.endswith("s") and not parsed.clocks
    parsed.parts.append(part.removesuffix("s"))


def _said_clock(parsed: Parsed, tokens: Tokens) -> None:
    (value,) = tokens.of("CH")
    hour, minute = value.rstrip("!").split(":")
    sure = "H" in tokens.letters or "!" in value or int(hour) > 12 or value == "12:00"
    parsed.clocks.append(_clock(int(hour), int(minute), sure, value.endswith("!!")))


def _four_digits(parsed: Parsed, tokens: Tokens) -> None:
    """ "at 1730"."""
    (digits,) = tokens.of("Y")
    parsed.clocks.append(_clock(int(digits[:2]), int(digits[2:]), sure=True))


def _bare_hours(parsed: Parsed, tokens: Tokens) -> None:
    """ "2h" alone is a span to one and an hour of the clock to another."""
    (_bare_span if tokens.language in ("en", "de") else _said_clock)(parsed, tokens)


def _said_before(parsed: Parsed, tokens: Tokens) -> None:
    """ "at", and Italian "ore 9"."""
    if tokens.letters == "U" and tokens.language != "it":
        raise UnknownWord("hours")


def _before_hour(parsed: Parsed, tokens: Tokens) -> None:
    hour, minutes = map(_whole, tokens.of("n"))
    parsed.clocks.append(_less(hour, minutes))


def _minutes_first(parsed: Parsed, tokens: Tokens) -> None:
    """ "half past six", "quarter to 7", "halb acht", "fünf vor halb acht", "dreiviertel acht", 差一刻八点."""
    letters, numbers = tokens.letters, [_whole(value) for value in tokens.of("n")]
    hour = numbers[-1]
    if "h" in letters and (letters[-2:] == "hn" or letters[-3:] == "hnc"):
        if tokens.language != "de":
            raise UnknownWord("half")
        aside = (numbers[0] if len(numbers) > 1 else 0) * (-1 if "<" in letters else 1)
        parsed.clocks.append(_less(hour, 30 - aside))
        return
    if "T" in letters and not {"<", ">"} & set(letters):
        parsed.clocks.append(_less(hour, 15))
        return
    if not {"<", ">"} & set(letters):
        raise UnknownWord("quarter")
    minutes = 30 if "h" in letters else 15 if "q" in letters else numbers[0]
    if tokens.language in ("fr", "es", "it", "pt") and len(numbers) > 1:
        hour, minutes = numbers
    if tokens.language == "en" and letters.endswith("n<n") and minutes not in _SPOKEN_MINUTES:
        raise UnknownWord("to")  # "9 to 5" is a stretch of hours
    parsed.clocks.append(_less(hour, minutes) if "<" in letters else _clock(hour, minutes))


def _minutes_before_noon(parsed: Parsed, tokens: Tokens) -> None:
    """ "half past 5 pm"."""
    (said,) = tokens.of("C")
    minutes = 30 if "h" in tokens.letters else 15 if "q" in tokens.letters else _whole(tokens.of("n")[0])
    hour, minute = said.rstrip("!").split(":")
    if tokens.language != "en" or minute != "00" or ("n" in tokens.letters and minutes not in _SPOKEN_MINUTES):
        raise UnknownWord(said)
    hours, minutes = divmod(int(hour) * 60 + (-minutes if "<" in tokens.letters else minutes), 60)
    parsed.clocks.append(ClockTime(hours % 24, minutes, True, said.endswith("!!")))


def _hour_first(parsed: Parsed, tokens: Tokens) -> None:
    """ "six heures et demie", "las ocho menos cuarto", "8 Uhr 30", 三点半."""
    letters, numbers = tokens.letters, [_whole(value) for value in tokens.of("nA")]
    after = next(
        (size for letter, size in (("f", 30), ("h", 30), ("q", 15), ("Q", 15), ("T", 45)) if letter in letters), 0
    )
    if "U" in letters and tokens.language not in ("fr", "es", "pt"):
        raise UnknownWord("hours")
    if "R" in letters or "<" in letters:
        parsed.clocks.append(_less(numbers[0], 15 if "R" in letters else numbers[1]))
    elif letters == "an&n" and not (tokens.language in ("es", "it", "pt") and numbers[1] in _SPOKEN_MINUTES):
        parsed.clocks += [_clock(number, 0) for number in numbers]
    else:
        parsed.clocks.append(_clock(numbers[0], after or (numbers[1] if len(numbers) > 1 else 0)))


_SPOKEN_MINUTES = (5, 10, 20, 25)
"""Said beside the hour: "ten to six" is 5:50 and "las nueve y diez" 9:10; "9 to 5" and "las 9 y 17" are two hours."""


def _digits_spoken(parsed: Parsed, tokens: Tokens) -> None:
    """ "seven thirty"."""
    hour, minute = map(_whole, tokens.of("n"))
    if tokens.language != "en" or minute < 10:
        raise UnknownWord(str(minute))
    parsed.clocks.append(_clock(hour, minute))


def _hour(parsed: Parsed, tokens: Tokens) -> None:
    said = tokens.of("nA")[0]
    if "." in said:
        hour, minute = said.split(".")
        if len(minute) != 2 or ("c" not in tokens.letters and "a" not in tokens.letters):
            raise UnknownWord(said)
        parsed.clocks.append(_clock(int(hour), int(minute), tokens.language != "en"))
        return
    if "U" in tokens.letters and tokens.language == "en":
        raise UnknownWord("hours")
    parsed.clocks.append(_clock(int(said), 0))


def _hour_of_day(parsed: Parsed, tokens: Tokens) -> None:
    """ "demain neuf heures": an hour of the clock only where hours are said so."""
    if tokens.language != "fr" or not (
        parsed.days or parsed.weekday or parsed.weekdays or parsed.every or parsed.dates
    ):
        _bare_span(parsed, tokens)
        return
    parsed.clocks.append(_clock(_whole(tokens.values[0]), 0))


def _whole(value: str) -> int:
    if "." in value:
        raise UnknownWord(value)
    return int(value)


def _less(hour: int, minutes: int) -> ClockTime:
    if minutes > 60:
        raise TimeWordsError(f"An hour has no {minutes} minutes.")
    return _clock((hour - 1) % 24 or (12 if hour == 13 or hour == 1 else 0), 60 - minutes)


def _clock(hour: int, minute: int, sure: bool = False, fixed: bool = False) -> ClockTime:
    if hour > 24 or not 0 <= minute <= 59 or (hour == 24 and minute):
        raise TimeWordsError(f"There is no {hour}:{minute:02} on a clock.")
    return ClockTime(hour, minute, sure or hour == 0 or hour > 12, fixed)
