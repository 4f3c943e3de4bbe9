"""Days that a text names, as ranges, for those who look back on them or ahead; languages/days.txt has the words."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, cached_property, partial
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DateRange:
    """Days, the first and the last included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1


def find_dates(text: str, today: date) -> tuple[list[DateRange], str]:
    """Ranges named in a (folded) text, and the text without them. A day without a year, and a weekday, is the latest
    past one and the next one."""
    ranges: list[DateRange] = []

    def read(match: re.Match[str], kind: str, words: DateWords) -> str:
        try:
            found = list(_meant(kind, words, match, today))
        except (ValueError, OverflowError):
            return match[0]
        ranges.extend(found)
        return " " if found else match[0]

    for language in _languages_in(text):
        for pattern, kind in language.forms:
            text = pattern.sub(partial(read, kind=kind, words=language), text)
    return ranges, text


def telling_words() -> Iterator[str]:
    """Words of which a text needs one to name a single day, unless it does in digits."""
    for language in _table()[0].values():
        yield from language.lists["terms"] or language.vocabulary() - language.lists["shared"]


def names(language: str, kind: str) -> dict[str, int]:
    """Names of months or weekdays, with their places."""
    return _table()[0].get(language, DateWords()).names[kind]


class DateWords:
    """The words and the patterns of one language, or of what all of them share."""

    def __init__(self) -> None:
        self.names: dict[str, dict[str, int]] = {kind: {} for kind in ("month", "weekday", "season", "unit", "number")}
        self.lists = {kind: frozenset[str]() for kind in ("endings", "unsure", "shared", "signs", "terms")}
        self.glyphs = ""
        """Characters one of which a text has, in a script without spaces; a pattern of such characters."""
        self._written: list[tuple[str, str]] = []

    def take(self, kind: str, said: str) -> None:
        """Take a line of the table."""
        if kind in self.names and not self.names[kind]:
            by_place = enumerate(said.split("|"))
            self.names[kind] = {word.replace("_", " "): at for at, words in by_place for word in words.split()}
        elif kind in self.lists:
            self.lists[kind] = frozenset(said.split())
        elif kind == "glyphs":
            self.glyphs = said
        else:
            self._written.append((kind, said))

    def vocabulary(self) -> frozenset[str]:
        """Words of which a text needs one to have any of the forms except a year."""
        named = [name for kind in ("month", "weekday", "season", "unit") for name in self.names[kind]]
        inflected = [name + ending for name in named for ending in self.lists["endings"]]
        fixed = (_NOT_BEHIND.sub("", pattern) for _, pattern in self._written if "{" not in pattern)
        return frozenset(word for said in (*named, *inflected, *fixed) for word in _WORD.findall(said))

    def beside_a_year(self) -> frozenset[str]:
        """Words without one of which a year is not a date."""
        years = (pattern.replace("{year}", "") for kind, pattern in self._written if kind == "year")
        return frozenset(word for pattern in years for word in _WORD.findall(pattern))

    def number(self, text: str) -> int:
        if text.isdecimal():
            return int(text)
        tens, is_ten, ones = text.rpartition("十")
        names = self.names["number"]
        if is_ten:
            return 10 * (names[tens] + 1 if tens else 1) + (names[ones] + 1 if ones else 0)
        return names[text] + 1

    @cached_property
    def forms(self) -> list[tuple[re.Pattern[str], str]]:
        """Patterns, and what they mean."""
        endings = "|".join(sorted(self.lists["endings"]))
        edge = "" if self.glyphs else rf"(?:'?(?:{endings}))?\b" if endings else r"\b"
        digits = "[一二三四五六七八九十两几]{1,3}" if self.glyphs else _any(self.names["number"])
        parts = {kind: f"(?P<{kind}>{_any(names)}){edge}" for kind, names in self.names.items()}
        parts["day"] = r"(?P<day>\d{1,2}|[一二三四五六七八九十]{1,3})" if self.glyphs else r"(?P<day>\d{1,2})"
        parts["year"] = r"(?P<year>(?:19|20)\d\d)"
        parts["count"] = rf"(?P<count>\d{{1,3}}|{digits})"
        parts["span"] = f"(?:{parts['unit']}|{parts['weekday']}|{parts['season']})"
        before, behind = ("", "") if self.glyphs else (r"(?<!\w)", r"(?!\w)")
        return [
            (re.compile(f"{before}(?:{_PART.sub(lambda part: parts[part[1]], pattern)}){behind}"), meaning)
            for meaning, pattern in self._written
        ]


def _languages_in(text: str) -> list[DateWords]:
    """Languages whose words for days are among those of a folded text."""
    languages, *tables = _table()
    said = frozenset(_LETTERS.findall(text))
    hits: dict[str, set[str]] = {}
    for by_word in tables if _A_YEAR.search(text) else tables[:1]:
        for word in said & by_word.keys():
            for name in by_word[word]:
                hits.setdefault(name, set()).add(word)

    def is_said(name: str, language: DateWords) -> bool:
        if language.glyphs:
            return not text.isascii() and re.search(f"[{language.glyphs}]", text) is not None
        words = hits.get(name, set[str]())
        return bool(words - language.lists["unsure"] or (words and not language.lists["signs"].isdisjoint(said)))

    has_digits = _DIGIT.search(text) is not None
    return [one for name, one in languages.items() if (has_digits if name == "digits" else is_said(name, one))]


@cache
def _table() -> tuple[dict[str, DateWords], dict[str, list[str]], dict[str, list[str]]]:
    """Languages by name, and their names by word, and by word beside a year."""
    languages, by_word, by_year = dict[str, DateWords](), dict[str, list[str]](), dict[str, list[str]]()
    for line in (Path(__file__).parent / "languages" / "days.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            language = languages[line.strip("[]")] = DateWords()
        elif line and not line.startswith("#"):
            kind, _, said = line.partition(" ")
            language.take(kind, said)
    for name, language in languages.items():
        for names, words in ((by_word, language.vocabulary()), (by_year, language.beside_a_year())):
            for word in words - language.lists["shared"]:
                names.setdefault(word, []).append(name)
    return languages, by_word, by_year


# --- what a form means -----------------------------------------------------------------------------------------------


def _meant(kind: str, words: DateWords, match: re.Match[str], today: date) -> Iterator[DateRange]:
    part = {name: text for name, text in match.groupdict().items() if text}
    kind, _, span = kind.partition(":")
    unit = span or (_UNITS[words.names["unit"][part["unit"]]] if "unit" in part else "")
    weekday, season = (words.names[each].get(part.get(each, ""), -1) for each in ("weekday", "season"))
    month = words.names["month"].get(part.get("month", ""), -1) + 1
    count = words.number(part.get("count", "1"))
    century = 2000 if len(part.get("year", "")) == 2 else 0
    year = (
        int(part["year"]) + century if "year" in part else today.year - _SINCE[part["since"]] if "since" in part else 0
    )
    if kind == "date":
        yield from _in_year(month, words.number(part.get("day", "1")), year, today)
    elif kind == "slashed":  # 5/3/2023 is May 3rd to one and 3 May to another: both, unless one is impossible
        one, other = int(part["one"]), int(part["other"])
        for first, second in dict.fromkeys([(one, other), (other, one)]):
            if first <= 12 and second <= monthrange(year, first)[1]:
                yield _day(date(year, first, second))
    elif kind == "month":
        yield _month_of(date(year or today.year - (month > today.month), month, 1))
    elif kind == "year":
        yield _year_of(year)
    elif season >= 0:
        yield _season_of(3 * (season + 1), year, kind, today)
    elif kind in _BACK and weekday >= 0 and words.glyphs:  # 上周二 is Tuesday of the week before
        yield _day(today - timedelta(today.weekday() - weekday + 7 * _BACK[kind]))
    elif kind in _BACK and weekday >= 0:
        yield from _weekday_of(weekday, _BACK[kind], today)
    elif kind in _BACK:
        yield _span(unit, _BACK[kind], today)
    elif kind == "weekday":
        yield from map(_day, _weekdays(weekday, today))
    elif kind == "past":
        length = {"day": 1, "week": 7, "month": 31, "year": 366}[unit]
        yield DateRange(today - timedelta(length * count), today)
    elif kind in ("ago", "ahead"):
        yield from _away(-count if kind == "ago" else count, unit, today)
    else:
        yield _day(today + timedelta(int(kind)))


def _away(number: int, unit: str, today: date) -> Iterator[DateRange]:
    if unit == "day":
        yield _day(today + timedelta(number))
    elif unit == "week":
        middle = today + timedelta(7 * number)
        yield _day(middle)  # best, but people count roughly
        yield DateRange(middle - timedelta(3), middle + timedelta(3))
    else:
        middle = _shift_months(today, number if unit == "month" else 12 * number)
        yield DateRange(middle - timedelta(10), middle + timedelta(10))
        if unit == "year":
            yield _year_of(middle.year)


def _weekday_of(weekday: int, back: int, today: date) -> Iterator[DateRange]:
    past, coming = _weekdays(weekday, today)
    if back >= 0:  # "last Tuesday" is the latest one before today
        yield _day(past - timedelta(7 * max(0, back - 1)))
    if back <= 0:
        yield _day(coming)
    if back < 0:  # to some "next Friday" is never this week's
        yield _day(coming + timedelta(7))


def _weekdays(weekday: int, today: date) -> tuple[date, date]:
    """The latest such day before today, and the next one."""
    past = today - timedelta((today.weekday() - weekday - 1) % 7 + 1)
    return past, today + timedelta((weekday - today.weekday() - 1) % 7 + 1)


def _span(unit: str, back: int, today: date) -> DateRange:
    """The week, month, year or weekend so many before this one."""
    monday = today - timedelta(today.weekday())
    if unit == "weekend":
        saturday = monday + timedelta(5 - 7 * (back if back or today.weekday() >= 5 else 1))
        return DateRange(saturday, saturday + timedelta(1))
    if unit == "week":
        return DateRange(monday - timedelta(7 * back), monday - timedelta(7 * back - 6))
    if unit == "month":
        return _month_of(_shift_months(today.replace(day=1), -back))
    if unit == "day":
        return _day(today - timedelta(back))
    return _year_of(today.year - back)


def _season_of(month: int, year: int, which: str, today: date) -> DateRange:
    """The latest one that has begun, of a named year, or the one before or after: winter begins in December."""
    first = date(year or today.year - (month > today.month), month, 1)
    if which == "next":
        first = _shift_months(first, 12)
    elif which in ("last", "before_last") and _shift_months(first, 3) > today:
        first = _shift_months(first, -12)
    if which == "before_last":
        first = _shift_months(first, -12)
    return DateRange(first, _shift_months(first, 3) - timedelta(1))


def _in_year(month: int, day: int, year: int, today: date) -> Iterator[DateRange]:
    if year:
        yield _day(date(year, month, day))
        return
    years = range(max(1, today.year - 4), today.year + 5)  # 29 February may be years away
    dates = [date(each, month, day) for each in years if 1 <= month <= 12 and day <= monthrange(each, month)[1]]
    yield _day(max(each for each in dates if each <= today))
    yield from (_day(each) for each in [min(each for each in dates if each > today)])


def _day(day: date) -> DateRange:
    return DateRange(day, day)


def _month_of(first: date) -> DateRange:
    return DateRange(first, first.replace(day=monthrange(first.year, first.month)[1]))


def _year_of(year: int) -> DateRange:
    return DateRange(date(year, 1, 1), date(year, 12, 31))


def _shift_months(day: date, months: int) -> date:
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _any(names: dict[str, int]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


_BACK = {"this": 0, "last": 1, "before_last": 2, "next": -1}
_UNITS = ("day", "week", "month", "year", "weekend")
_SINCE = {"今年": 0, "去年": 1, "昨年": 1, "작년": 1, "前年": 2, "明年": -1}
_LETTERS = re.compile(r"[^\W\d_]+|(?<= )\?")  # the French write a blank before their question marks
_A_YEAR = re.compile(r"(?:19|20)\d\d")
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"[^\W\d_]{2,}")
_NOT_BEHIND = re.compile(r"\(\?<!.*?\)|\\w|\(\?[:P]")
_PART = re.compile(r"\{(\w+)\}")
