"""The phrases of phrases.tsv with what each means at each moment, worked out by rules that share no code with ours."""

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

FOLDER = Path(__file__).parent

MOMENTS = {
    "Europe/Berlin": ("2026-11-18", "2027-03-27", "2026-10-24"),
    "America/New_York": ("2026-11-18", "2027-03-13", "2026-10-31"),
    "Asia/Kolkata": ("2026-11-18", "2026-12-31", "2028-02-28"),
    "Australia/Lord_Howe": ("2026-11-20", "2026-10-03", "2027-04-03"),
    "Asia/Shanghai": ("2026-11-22", "2026-12-31", "2027-02-05"),
}
"""Zones and days on which each phrase is said at 10:00: an ordinary day, and the days before the clocks change."""

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True)
class Phrase:
    language: str
    words: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Case:
    """A phrase said at one moment; `expected` is what `meaning` comes to there."""

    phrase: Phrase
    now: datetime
    zone: str
    expected: object


def lines(name: str, folder: Path = FOLDER) -> list[list[str]]:
    text = (folder / name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if not line.startswith("#")]


def phrases(name: str = "phrases.tsv") -> list[Phrase]:
    return [Phrase(*line) for line in lines(name)]


def cases(name: str = "phrases.tsv") -> Iterator[Case]:
    for phrase in phrases(name):
        for zone, days in MOMENTS.items():
            for day in days:
                now = datetime.fromisoformat(f"{day}T10:00").replace(tzinfo=ZoneInfo(zone))
                yield Case(phrase, now, zone, expected(phrase.meaning, now, zone))


def expected(meaning: str, now: datetime, zone: str) -> object:
    """A UTC datetime, ("cron", expression), ("every", seconds), "ask" or "refuse"."""
    words = meaning.split()
    if words[-1].startswith("@"):
        zone = words.pop()[1:]
        now = now.astimezone(ZoneInfo(zone))
    match words:
        case ["ask" | "refuse"]:
            return words[0]
        case ["cron", *fields]:
            return "cron", " ".join(fields)
        case ["every", seconds]:
            return "every", int(seconds)
        case ["in", minutes]:
            return now.astimezone(UTC) + timedelta(minutes=int(minutes.removesuffix("m")))
        case [*rule, clock]:
            found = [at for day in days(rule, now.date()) if (at := instant(day, clock, zone)) > now]
            if rule[:1] == ["next"] and len(set(found)) > 1:
                return "ask"
            return min(found, default="refuse")
    raise AssertionError(meaning)


def days(rule: list[str], today: date) -> Iterator[date]:
    """The days that a rule may mean, the nearest first."""
    coming = _from(today)
    match rule:
        case ["clock"]:
            yield from coming[:2]
        case ["ymd", text]:
            yield date.fromisoformat(text)
        case ["date", text]:
            yield next(day for day in coming if f"{day:%m-%d}" == text)
        case ["dom", "L"]:
            yield next(day for day in coming if day.day == calendar.monthrange(day.year, day.month)[1])
        case ["dom", number]:
            yield from [day for day in coming if day.day == int(number)][:2]
        case ["next", name]:
            weekday = DAYS.index(name)
            yield next(day for day in coming[1:] if day.weekday() == weekday)
            monday = next(day for day in coming[1:] if day.weekday() == 0)
            yield monday + timedelta(days=weekday)
            sunday = next(day for day in coming[1:] if day.weekday() == 6)
            if today.weekday() == 6:  # where weeks begin on Sunday, this one has just begun
                yield sunday + timedelta(days=(weekday + 1) % 7)
        case [week, name] if week.startswith("week+"):
            monday = today - timedelta(days=today.weekday())
            yield monday + timedelta(weeks=int(week[5:]), days=DAYS.index(name))
        case [name] if name in DAYS:
            yield from [day for day in coming[:14] if day.weekday() == DAYS.index(name)]
        case [number]:
            yield coming[int(number)]
        case _:
            raise AssertionError(rule)


@cache
def _from(today: date) -> list[date]:
    return [today + timedelta(days=number) for number in range(800)]


@cache
def instant(day: date, clock: str, zone: str) -> datetime:
    """The first minute, looked for one by one, at which a clock there shows that time of that day or is past it."""
    wanted = datetime.fromisoformat(f"{day}T{clock}")
    minute = wanted.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) - timedelta(minutes=65)
    while minute.astimezone(ZoneInfo(zone)).replace(tzinfo=None) < wanted:
        minute += timedelta(minutes=1)
    return minute
