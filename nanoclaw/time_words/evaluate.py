"""Words for a time: what a person says about when, read by code, and times said back in words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache

from nanoclaw.core.errors import ScheduleError
from nanoclaw.plugins.schedule import cron

DAY = 86_400

LONGEST = 200
"""Characters of a phrase; a longer text is not words for a time."""


@dataclass(frozen=True, slots=True)
class At:
    """Once; `note` says what was decided that the words did not say, such as a time that the clocks skip."""

    when: datetime
    note: str = ""


@dataclass(frozen=True, slots=True)
class Every:
    """Again and again, `seconds` apart; `start` is the first time and the phase of all later ones.

    With a `zone` it is whole days apart, as the calendar there counts them: the clock's time stays the same.
    """

    seconds: int
    start: datetime
    note: str = ""
    zone: str | tzinfo = ""


@dataclass(frozen=True, slots=True)
class Cron:
    """Whenever a clock in `zone` fits the expression."""

    expression: str
    zone: str | tzinfo
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unclear:
    """The words have more than one meaning, or lack one: `question` is for the person, `readings` what it may be."""

    question: str
    readings: tuple[Reading, ...] = ()


Reading = At | Every | Cron
Heard = At | Every | Cron | Unclear


def read(words: str, now: datetime, zone: str | tzinfo) -> Heard:
    """What the words mean, said at `now` by a person in `zone`.

    Raises ScheduleError, with a sentence for the person, for the past, for intervals under a minute, and for words
    that name no time. Where people differ it asks: "next friday" unless it is in the coming week anyway, 03/04/2026,
    "tomorrow" between midnight and four, hours from one to five without a word for the part of the day. A bare hour
    without a day, such as "at 7", is the next time that a clock's face shows it. A time that the clocks skip becomes
    the first moment after, one that they repeat the first of both.
    """
    from nanoclaw.time_words import parser as grammar
    from nanoclaw.time_words.lexicon import folded

    now = now.astimezone(cron.zone_named(zone))
    if len(words) > LONGEST:
        raise ScheduleError(f"Give only the words for the time: {len(words):,} characters are too many.")
    text = folded(_QUOTED.sub(r"\2", words.strip()))
    if not text:
        raise ScheduleError("No time was given. Say it like 'tomorrow at 9' or 'every weekday at 7:30'.")
    if _CRON.fullmatch(text):
        cron.check(words.strip())
        return Cron(" ".join(words.split()), zone)
    if found := _ISO.fullmatch(text):
        return _from_iso(found, now)
    heard = grammar.read(text, now, zone, zones_in(text))
    if isinstance(heard, str):
        return _from_library(words, text, now, heard)
    return heard


def understood(words: str, now: datetime, zone: str | tzinfo) -> Heard | None:
    """The same for words that the grammar has; None for any others, and for what can never be."""
    from nanoclaw.time_words import parser as grammar
    from nanoclaw.time_words.lexicon import folded

    try:
        heard = grammar.read(folded(words), now, zone, zones_in(folded(words)))
    except ScheduleError:
        return None
    return None if isinstance(heard, str) else heard


def agree(reading: Reading, iso: str, now: datetime, zone: str | tzinfo) -> str:
    """'' when a model's own ISO time is within a minute of the reading; otherwise the question that shows both.

    Raises ScheduleError when it is no ISO time.
    """
    there = cron.zone_named(zone)
    try:
        other = datetime.fromisoformat(iso.strip())
        other = other.replace(tzinfo=other.tzinfo or there).astimezone(there)
        mine = upcoming(reading, now)
        at_the_minute = mine.replace(second=0, microsecond=0)  # a model is told the time without seconds
        if min(abs(apart(mine, other)), abs(apart(at_the_minute, other))) <= timedelta(minutes=1):
            return ""
    except (ValueError, OverflowError):
        raise ScheduleError(f"Not an ISO time: {_shown(iso)}. Write it like '2026-11-27T17:05+01:00'.") from None
    return f"The words say {in_words(mine, now, zone)}; the date given is {in_words(other, now, zone)}. Which one?"


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
    from nanoclaw.time_words.parser import wall

    there = cron.zone_named(reading.zone)
    start, days = reading.start.astimezone(there), reading.seconds // DAY
    rounds = max(0, (now.astimezone(there).date() - start.date()).days // days)
    due = reading.start if not rounds else wall(start + timedelta(days=rounds * days), there).when
    if apart(due, now) <= timedelta():
        due = wall(start + timedelta(days=(rounds + 1) * days), there).when
    return due.astimezone(now.tzinfo)


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


def apart(later: datetime, earlier: datetime) -> timedelta:
    """The time that passes between both; a plain difference within one zone is that of the clocks on the wall."""
    return later.astimezone(UTC) - earlier.astimezone(UTC)


def distance(delta: timedelta) -> str:
    """How far ahead, or how long ago, in the one or two units that matter."""
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


def question(readings: tuple[Reading, ...], now: datetime, zone: str | tzinfo, why: str = "") -> str:
    """Asks which of the readings is meant."""
    said = [_said(reading, now, zone) for reading in readings]
    meant = f"{'; '.join(said[:-1])}; or {said[-1]}" if len(said) > 1 else said[0]
    return f"{why} Do you mean {meant}?".strip()


def _said(reading: Reading, now: datetime, zone: str | tzinfo) -> str:
    return in_words(reading.when, now, zone) if isinstance(reading, At) else repeat_in_words(reading, now, zone)


def passed(when: datetime, now: datetime, zone: str | tzinfo) -> ScheduleError:
    """The refusal of a time that is over."""
    return ScheduleError(
        f"{date_and_time(when, zone)} has passed: it is {date_and_time(now, zone)} {_zone_name(now, zone)} now. "
        "Name a later time."
    )


def unknown(words: str) -> ScheduleError:
    """The refusal of words that name no time; `words` are those in question."""
    return ScheduleError(
        f"Cannot read {_shown(words)} as a time. Say it like 'tomorrow at 9', 'in 20 minutes', 'every weekday at 7:30' "
        "or '2026-11-27 17:05'."
    )


_QUOTED = re.compile(r"""(['"])([^'"]*)\1$""")
_FIELD = r"(?:[\d*,/?#lw-]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat)+"
_CRON = re.compile(rf"@[a-z]+|(?=.*[*/,-])[\d*,/-]+(?: {_FIELD}){{4,6}}|\d+ \d+ \d+ \d+ \d")
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[t ](\d\d:\d\d(?::\d\d)?)(?:[.,]\d{1,9})?)?(?: ?(z|[+-]\d\d:?\d\d(?:\[.*\])?))?",
)


def _from_iso(found: re.Match[str], now: datetime) -> Heard:
    day, time, offset = found.groups()
    zone = now.tzinfo
    try:
        if not time:
            if date.fromisoformat(day) < now.date():
                raise passed(datetime.fromisoformat(f"{day}T23:59").replace(tzinfo=zone), now, zone or UTC)
            return Unclear(f"At what time on {day_in_words(date.fromisoformat(day))}?")
        when = datetime.fromisoformat(f"{day}T{time}{(offset or '').upper()}")
        if when.tzinfo is None:
            from nanoclaw.time_words.parser import wall

            at = wall(when, zone or UTC)
        else:
            at = At(when.astimezone(zone))
        if apart(at.when, now) <= timedelta():
            raise passed(at.when, now, zone or UTC)
    except (ValueError, OverflowError):
        raise ScheduleError(f"There is no {found[0]}. Look at the month's days and the hour.") from None
    return at


# -- zones that are named in the words

_CITY = re.compile(
    r"([a-z]+(?:/[a-z_]+)+)|\b(utc|gmt)\b(?![+-]?\d)|"
    r"\b(?:heure de|hora de|ora di) ([a-z]+(?: [a-z]+)?)|\b([a-z]+ )?([a-z]+?)(?:er)?(?: time| zeit)\b|"
    r"(北京|上海|中国|东京|東京|日本|伦敦|ロンドン|纽约|紐約|ニューヨーク)(?:时间|時間)(?:的)?"
)
_AREAS = ("africa", "america", "antarctica", "arctic", "asia", "atlantic", "australia", "europe", "indian", "pacific")
_CITIES = {
    "北京": "Asia/Shanghai",
    "上海": "Asia/Shanghai",
    "中国": "Asia/Shanghai",
    "东京": "Asia/Tokyo",
    "東京": "Asia/Tokyo",
    "日本": "Asia/Tokyo",
    "伦敦": "Europe/London",
    "ロンドン": "Europe/London",
    "纽约": "America/New_York",
    "紐約": "America/New_York",
    "ニューヨーク": "America/New_York",
    "londres": "Europe/London",
    "londra": "Europe/London",
    "nueva york": "America/New_York",
    "utc": "UTC",
    "gmt": "UTC",
}


def zones_in(text: str) -> Mapping[str, str]:
    """The words of a folded text that name a zone, such as "london time", and that zone's name."""
    zones: dict[str, str] = {}
    for found in _CITY.finditer(text):
        names = [name for name in found.groups() if name]
        if found[5]:
            whole = f"{found[4] or ''}{found[5]}"
            for city, words in ((whole, found[0]), (found[5], found[0].removeprefix(found[4] or ""))):
                if zone := _city(city) or _city(f"{city}er"):
                    zones[words] = zone
                    break
            continue
        for name in names:
            words = found[0]
            zone = _city(name)
            if zone is None and " " in name:
                name = name.split()[0]
                zone = _city(name)
                words = words[: words.index(name) + len(name)]
            if zone:
                zones[words] = zone
            elif name.partition("/")[0] in _AREAS:
                raise ScheduleError(f"Unknown time zone {_shown(name)}. Write it like 'Europe/Berlin'.")
    return zones


def _city(name: str) -> str | None:
    return _CITIES.get(name) or _all_cities().get(name.replace("_", " "))


@cache
def _all_cities() -> Mapping[str, str]:
    import zoneinfo

    found: dict[str, str] = {}
    for zone in sorted(zoneinfo.available_timezones(), reverse=True):
        place, _, city = zone.rpartition("/")
        if place and not place.startswith("Etc"):
            found[city.casefold().replace("_", " ")] = zone
            found[zone.casefold().replace("_", " ")] = zone
    return found


# -- words that the grammar has not


def _from_library(words: str, text: str, now: datetime, strange: str) -> Heard:
    """A date in words of another language, or in a form of its own; asks unless each word of it was used.

    Raises ScheduleError for one whose time of the day would be that of now, since it was not understood.
    """
    if re.search(r"\b[A-Z]{2,4}T\b", words):  # EST, CEST: the library takes them for any zone
        raise unknown(_as_written(strange, words))
    when = _parsed(words, now)
    if when and timedelta() <= apart(now, when) < timedelta(minutes=1):
        raise ScheduleError("That is now. Name a later time.")
    if when is None or (not _CLOCK.search(text) and _follows_now(words, when, now)):
        raise unknown(_as_written(strange, words))
    if apart(when, now) <= timedelta():
        raise passed(when, now, now.tzinfo or UTC) if _all_used(words, when, now) else unknown(words)
    if not _CLOCK.search(text):
        return Unclear(f"Is {_shown(words)} the {date_and_time(when, now.tzinfo or UTC)}? Say it with date and time.")
    at = At(when)
    if _all_used(words, when, now):
        return at
    return Unclear(question((at,), now, now.tzinfo or UTC, f"Not all of {_shown(words)} is clear."), (at,))


_CLOCK = re.compile(r"\d{1,2}[:.h]\d\d")
_TOKEN = r"(?:[^\W\d_]+\.?|\d+(?:[.:/-]\d+)*(?:\.|[^\W\d_a-zA-Z]+)?)"
_PLAIN = re.compile(rf"{_TOKEN}(?:,? {_TOKEN})*[.!?]?")
_LITTLE = frozenset(["o", "w", "v", "ve", "в", "во", "о", "у", "об", "om", "op", "på", "kl", "na"])
"""Words such as "at" that say nothing in the languages that only the library knows."""


def _follows_now(words: str, when: datetime, now: datetime) -> bool:
    """Whether the time of the day comes from the clock and not from the words."""
    other = now.replace(hour=(now.hour + 5) % 24, minute=(now.minute + 17) % 60)
    again = _parsed(words, other)
    return again is None or (again.hour, again.minute) != (when.hour, when.minute)


def _as_written(strange: str, words: str) -> str:
    """A folded word, or all of the phrase, as it was said."""
    from nanoclaw.time_words.lexicon import folded

    words = unicodedata.normalize("NFC", " ".join(words.split()))
    said = [word.strip(",;.!?") for word in words.split()]
    whole = (word for word in said if folded(word) == strange)
    return next(whole, next((word for word in said if strange in folded(word)), words))


def _parsed(words: str, now: datetime) -> datetime | None:
    import dateparser

    try:
        found = dateparser.parse(
            words,
            languages=["en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "pl", "cs", "ru", "uk", "tr", "ko"],
            settings={
                "PREFER_DATES_FROM": "future",
                "RELATIVE_BASE": now.replace(tzinfo=None),
                "TIMEZONE": str(now.tzinfo),
                "RETURN_AS_TIMEZONE_AWARE": False,
                "REQUIRE_PARTS": ["day", "month"],
                "DATE_ORDER": "DMY",
            },
        )
    except Exception:  # a library for any text, which also raises what it does not name
        return None
    if found is None:
        return None
    from nanoclaw.time_words.parser import wall

    try:
        return wall(found.replace(tzinfo=None, second=0, microsecond=0), now.tzinfo or UTC).when
    except (ValueError, OverflowError):
        return None


def _all_used(words: str, when: datetime, now: datetime) -> bool:
    """Each number is part of the date, and without any word of three letters the date would be another one; no sign
    or letter stands in it that the library would drop."""
    little = re.findall(r"(?<!\w)[^\W\d_]{1,2}(?!\w)", words.casefold())
    last = re.split(r"\W+", words.casefold().rstrip(" .!?"))[-1]
    if not _PLAIN.fullmatch(" ".join(words.split())) or not _LITTLE.issuperset(little) or last in _LITTLE:
        return False
    parts = {when.day, when.month, when.year, when.year % 100, when.hour, when.minute, (when.date() - now.date()).days}
    if any(int(number) not in parts for number in re.findall(r"\d+", words)):
        return False
    content = list(re.finditer(r"[^\W\d_]{3,}", words))
    if len(content) > 6:
        return False
    return all(_parsed(words[: one.start()] + words[one.end() :], now) != when for one in content)


# -- how times are said

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NTH = {"1": "first", "2": "second", "3": "third", "4": "fourth", "5": "fifth"}


def date_and_time(when: datetime, zone: str | tzinfo) -> str:
    """Such as "Fri 27 Nov 2026, 17:05", with seconds where there are any."""
    when = when.astimezone(cron.zone_named(zone))
    return f"{day_in_words(when)}, {when:{'%H:%M:%S' if when.second else '%H:%M'}}"


def _zone_name(when: datetime, zone: str | tzinfo) -> str:
    if isinstance(zone, str):
        return zone
    return getattr(zone, "key", None) or when.astimezone(zone).tzname() or "UTC"


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


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
