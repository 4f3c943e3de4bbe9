"""Dates in a question or a note, as ranges of days."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial

from nanoclaw.plugins.memory.date_words import DateWords, date_terms, languages_in
from nanoclaw.tokenizer import stem


@dataclass(frozen=True, slots=True)
class DateRange:
    """Days, the first and the last included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1


def day_term(day: date) -> str:
    """The index's term for an entry that names a day."""
    return f"day{day:%Y%m%d}"


def named_days(text: str, terms: Sequence[str], today: date) -> list[date]:
    """Single days that a (folded) note of a day names, that day itself left out; `terms` are its words."""
    if _DATE_TERMS.isdisjoint(terms) and date_terms().isdisjoint(terms) and not _NUMERIC.search(text):  # most notes
        return []
    ranges, _ = find_dates(text, today)
    return list(dict.fromkeys(each.first for each in ranges if each.days == 1 and each.first != today))[:_MOST_NAMED]


def find_dates(text: str, today: date) -> tuple[list[DateRange], str]:
    """Ranges named in a (folded) text, and the text without them. A day without a year, and a weekday, is the latest
    past one and the next one."""
    ranges: list[DateRange] = []

    def read(match: re.Match[str], meaning: Callable[[re.Match[str], date], Iterator[DateRange]]) -> str:
        try:
            found = list(meaning(match, today))
        except (ValueError, OverflowError):
            return match[0]
        ranges.extend(found)
        return " " if found else match[0]

    said = frozenset(_LETTERS.findall(text))
    has = {
        "digits": bool(_DIGIT.search(text)),
        "words": not _ENGLISH.isdisjoint(said),
        "characters": not text.isascii() and bool(_CJK.search(text)),
    }
    for pattern, meaning, needed in _FORMS:
        if any(has[each] for each in needed):
            text = pattern.sub(lambda match, meaning=meaning: read(match, meaning), text)  # type: ignore[misc]
    for language in languages_in(said, has_year=has["digits"] and bool(_A_YEAR.search(text))):
        for pattern, kind in language.forms:
            text = pattern.sub(lambda match, kind=kind, words=language: read(match, partial(_said, kind, words)), text)  # type: ignore[misc]
    return ranges, text


def _said(kind: str, words: DateWords, match: re.Match[str], today: date) -> Iterator[DateRange]:
    """The meaning of a form of another language than English and Chinese."""
    part = {name: text for name, text in match.groupdict().items() if text}
    kind, _, span = kind.partition(":")
    unit = span or _UNIT_NAMES[words.units[part["unit"]]] if span or "unit" in part else ""
    count = words.counts.get(part.get("count", ""), -1) + 1 or int(part.get("count", 1))
    year = part.get("year")
    if kind == "date":
        yield from _in_year(words.months[part["month"]] + 1, int(part.get("day", 1)), year, today)
    elif kind == "month":
        yield _whole_month(words.months[part["month"]] + 1, year, today)
    elif kind == "year":
        yield _year_of(int(part["year"]))
    elif kind == "season":
        yield _season_of(3 * (words.seasons[part["season"]] + 1), year, "", today)
    elif kind in _BACK and "season" in part:
        yield _season_of(3 * (words.seasons[part["season"]] + 1), None, kind, today)
    elif kind in _BACK and "weekday" in part:
        yield from _weekday_of(words.weekdays[part["weekday"]], _BACK[kind], today)
    elif kind in _BACK:
        yield _span(unit, _BACK[kind], today)
    elif kind == "weekday":
        yield from map(_day, _weekdays(words.weekdays[part["weekday"]], today))
    elif kind == "past":
        yield _latest(count, unit, today)
    elif kind in ("ago", "ahead"):
        yield from _away(-count if kind == "ago" else count, unit, today)
    else:
        yield _day(today + timedelta(int(kind)))


def _ymd(match: re.Match[str], today: date) -> Iterator[DateRange]:
    yield _day(date(int(match[1]), int(match[2]), int(match[3])))


def _slashed(match: re.Match[str], today: date) -> Iterator[DateRange]:
    """5/3/2023 is May 3rd to one and 3 May to another: both, unless one is impossible."""
    a, b, year = int(match[1]), int(match[3]), _year(match[4])
    orders = [(b, a)] if match[2] == "." else [(a, b), (b, a)]
    for month, day in dict.fromkeys(orders):
        if month <= 12 and day <= monthrange(year, month)[1]:
            yield _day(date(year, month, day))


def _day_in_digits(match: re.Match[str], today: date) -> Iterator[DateRange]:
    day, month, year, slashed = match.groups()
    yield from _in_year(int(month or slashed), int(day), year, today)


def _day_month(match: re.Match[str], today: date) -> Iterator[DateRange]:
    yield from _in_year(_MONTHS[match["month"][:3]], int(match["day"]), match["year"], today)


def _month(match: re.Match[str], today: date) -> Iterator[DateRange]:
    yield _whole_month(_MONTHS[match["month"][:3]], match.groupdict().get("year"), today)


def _cjk_date(match: re.Match[str], today: date) -> Iterator[DateRange]:
    year = {"去年": today.year - 1, "昨年": today.year - 1, "작년": today.year - 1}.get(match[1] or "", 0)
    named = str(year) if year else re.sub(r"\D", "", match[1] or "")
    month = _number(match[2])
    if match[3]:
        yield from _in_year(month, _number(match[3]), named, today)
    else:
        yield _whole_month(month, named, today)


def _whole_year(match: re.Match[str], today: date) -> Iterator[DateRange]:
    yield _year_of(int(match[1]))


def _near_day(match: re.Match[str], today: date) -> Iterator[DateRange]:
    yield _day(today - timedelta(_NEAR[match[0].split()[0] if match[0].isascii() else match[0]]))


def _away_by(days: int, match: re.Match[str], today: date) -> Iterator[DateRange]:
    yield _day(today + timedelta(days))


def _ahead(match: re.Match[str], today: date, sign: int = 1) -> Iterator[DateRange]:
    yield from _away(sign * _number(match[1]), _UNITS[match[2]], today)


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


def _past_units(match: re.Match[str], today: date) -> Iterator[DateRange]:
    yield _latest(_number(match[1]), _UNITS[match[2]], today)


def _latest(count: int, unit: str, today: date) -> DateRange:
    length = {"day": 1, "week": 7, "month": 31, "year": 366}[unit]
    return DateRange(today - timedelta(length * count), today)


def _relative(match: re.Match[str], today: date) -> Iterator[DateRange]:
    """This, last or next week, month, year, weekend or weekday; "past" and "previous" are "last"."""
    back = 0 if match[1] in _THIS else 2 if match[1] in _TWICE else -1 if match[1] in _NEXT else 1
    word = match[2]
    if word not in _WEEKDAYS:
        yield _span(_UNITS[word], back, today)
    elif not word.isascii():  # 上周二 is Tuesday of the week before
        yield _day(today - timedelta(today.weekday() - _WEEKDAYS[word] + 7 * back))
    else:
        yield from _weekday_of(_WEEKDAYS[word], back, today)


def _weekday_of(weekday: int, back: int, today: date) -> Iterator[DateRange]:
    past, coming = _weekdays(weekday, today)
    if back >= 0:  # "last Tuesday" is the latest one before today
        yield _day(past - timedelta(7 * max(0, back - 1)))
    if back <= 0:
        yield _day(coming)
    if back < 0:  # to some "next Friday" is never this week's
        yield _day(coming + timedelta(7))


def _before_last(match: re.Match[str], today: date) -> Iterator[DateRange]:
    yield _span(_UNITS[match[1]], 2, today)


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


def _weekdays(weekday: int, today: date) -> tuple[date, date]:
    """The latest such day before today, and the next one."""
    past = today - timedelta((today.weekday() - weekday - 1) % 7 + 1)
    return past, today + timedelta((weekday - today.weekday() - 1) % 7 + 1)


def _season(match: re.Match[str], today: date) -> Iterator[DateRange]:
    """The latest one that has begun, of a named year, or the one before or after: winter begins in December."""
    yield _season_of(_SEASONS[match["season"]], match["year"], match["which"] or "", today)


def _season_of(month: int, named: str | None, which: str, today: date) -> DateRange:
    years = {"去年": 1, "前年": 2, "今年": 0, "明年": -1}
    year = int(named) if named else today.year - years.get(which, month > today.month)
    first = date(year, month, 1)
    if which == "next":
        first = _shift_months(first, 12)
    elif which in ("last", "before_last") and _shift_months(first, 3) > today:
        first = _shift_months(first, -12)
    if which == "before_last":
        first = _shift_months(first, -12)
    return DateRange(first, _shift_months(first, 3) - timedelta(1))


def _day(day: date) -> DateRange:
    return DateRange(day, day)


def _in_year(month: int, day: int, year: str | None, today: date) -> Iterator[DateRange]:
    if year:
        yield _day(date(_year(year), month, day))
        return
    years = range(max(1, today.year - 4), today.year + 5)  # 29 February may be years away
    dates = [date(each, month, day) for each in years if 1 <= month <= 12 and day <= monthrange(each, month)[1]]
    yield _day(max(each for each in dates if each <= today))
    yield from (_day(each) for each in [min(each for each in dates if each > today)])


def _whole_month(month: int, year: str | None, today: date) -> DateRange:
    number = _year(year) if year else today.year - (month > today.month)
    return _month_of(date(number, month, 1))


def _year_of(year: int) -> DateRange:
    return DateRange(date(year, 1, 1), date(year, 12, 31))


def _month_of(first: date) -> DateRange:
    return DateRange(first, first.replace(day=monthrange(first.year, first.month)[1]))


def _shift_months(day: date, months: int) -> date:
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _year(text: str) -> int:
    return int(text) + (2000 if len(text) == 2 else 0)


def _needs(pattern: str) -> tuple[str, ...]:
    """Kinds of characters or words one of which a text must have for a pattern to fit."""
    return ("characters",) if not pattern.isascii() else ("words",) if _WORD.search(pattern) else ("digits",)


def _number(text: str) -> int:
    if text.isdigit():
        return int(text)
    if "十" in text:
        tens, _, ones = text.partition("十")
        return 10 * _NUMBERS.get(tens, 1) + _NUMBERS.get(ones, 0)
    return _NUMBERS[text]


_NAMES = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTHS = {name[:3]: number for number, name in enumerate(_NAMES, 1)}
_MONTH = "(?P<month>" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in _NAMES).replace("sep(", "sept?(") + r")\b\.?"
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_WEEKDAYS = {name: number for number, name in enumerate(_DAYS)}
_WEEKDAYS |= {name[:3]: number for number, name in enumerate(_DAYS)}
_WEEKDAYS |= {
    f"{week}{character}": number for week in ("周", "星期", "礼拜") for number, character in enumerate("一二三四五六日")
}
_WEEKDAYS |= {"周天": 6, "星期天": 6, "礼拜天": 6}
_COUNTED = "zero one two three four five six seven eight nine ten eleven twelve"
_NUMBERS = {word: n for words in (_COUNTED.split(), "零一二三四五六七八九") for n, word in enumerate(words)}
_NUMBERS |= {"a": 1, "an": 1, "a couple of": 2, "a few": 3, "两": 2, "几": 3}
_UNIT_WORDS = {
    "day": "day days 天 日",
    "week": "week weeks 周 星期 个星期 礼拜 个礼拜 週 週間",
    "month": "month months 个月 月",
    "year": "year years 年",
    "weekend": "weekend 周末",
}
_UNITS = {word: unit for unit, words in _UNIT_WORDS.items() for word in words.split()}
_DAYS_AGO = ("today tonight this 今天 今日 오늘", "yesterday last 昨天 昨日 昨晚 어제", "前天 一昨日 그저께", "大前天")
_NEAR = {word: days for days, words in enumerate(_DAYS_AGO) for word in words.split()}
_NEAR |= {"tomorrow": -1, "明天": -1, "明日": -1, "明晚": -1, "내일": -1, "后天": -2, "大后天": -3}
_NEXT = frozenset({"next", "下", "下个", "明", "来"})
_QUARTERS = ("spring 春", "summer 夏", "autumn fall 秋", "winter 冬")
_SEASONS = {word: 3 * number for number, words in enumerate(_QUARTERS, 1) for word in words.split()}
_MOST_NAMED = 6  # days of one entry
_THIS = frozenset({"this", "on", "这", "这个", "本", "今", "今年", "今週", "今月"})
_TWICE = frozenset({"上上", "上上个"})
_COUNT = "(" + "|".join(sorted((re.escape(w) for w in _NUMBERS if w.isascii()), key=len, reverse=True)) + r"|\d{1,3})"
_CJK_COUNT = r"(\d{1,3}|[一二三四五六七八九十两几]{1,3})"
_CJK_NUMBER = r"(\d{1,2}|[一二三四五六七八九十]{1,3})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_BACK = {"this": 0, "last": 1, "before_last": 2, "next": -1}
_UNIT_NAMES = ("day", "week", "month", "year", "weekend")
_LETTERS = re.compile(r"[^\W\d_]+|(?<= )\?")  # the French write a blank before their question marks
_WORD = re.compile(r"january|jan\(|day|year|tonight|spring")  # of the English forms
_A_YEAR = re.compile(r"(?:19|20)\d\d")
_DIGIT = re.compile(r"\d")
_CJK = re.compile("[年月日天周週季前后後星礼祝年월오어그내晚]")
_HINTS = """
today tonight tomorrow yesterday night morning day days week weeks weekend month months year years
spring summer autumn fall winter sept mon tue wed thu fri sat sun
"""
_ENGLISH = frozenset(_HINTS.split()) | {*_NAMES, *_MONTHS, *_DAYS}
_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], date], Iterator[DateRange]], tuple[str, ...]], ...] = (
    tuple(
        (re.compile(pattern), meaning, _needs(pattern))
        for pattern, meaning in (
            (r"\b((?:19|20)\d\d)[-/.](\d{1,2})[-/.](\d{1,2})\b", _ymd),
            (r"\b(\d{1,2})([/.])(\d{1,2})[/.]((?:19|20)?\d\d)\b", _slashed),
            (rf"\b(?:on )?(?:the )?{_DAY}(?: of)? {_MONTH}(?:,? ?{_YEAR})?", _day_month),
            (rf"\b(?:on )?{_MONTH} (?:the )?{_DAY}\b(?:,? ?{_YEAR})?", _day_month),
            (rf"\b(?:in |of |during |since )?(?:early |late |mid )?{_MONTH},? (?:of )?{_YEAR}", _month),
            (rf"\b(?:in|during|since|of|last|this) (?:early |late |mid )?{_MONTH}", _month),
            (
                rf"(去年|昨年|작년|今年|(?:19|20)\d\d ?[年년])? ?{_CJK_NUMBER}[月월] ?(?:{_CJK_NUMBER}[日号號일])?",
                _cjk_date,
            ),
            (
                r"\b(?:am|vom|zum|bis|seit|den|il|el|le|em|dia) (\d{1,2})(?:\.(1[0-2]|0?[1-9])\.((?:19|20)\d\d)?"
                r"|/(1[0-2]|0?[1-9])(?![\d/]))",
                _day_in_digits,
            ),
            (r"\b(?:the )?day before yesterday\b", partial(_away_by, -2)),
            (r"\b(?:the )?day after tomorrow\b", partial(_away_by, 2)),
            (r"\b(?:the )?(weekend|week|month|year) before last\b", _before_last),
            (
                rf"\b(?:(?:in|during|since|of) (?:the )?|(?P<which>last|this|next) )(?:early |late |mid )?"
                rf"(?P<season>spring|summer|autumn|fall|winter)(?:,? (?:of )?{_YEAR})?\b",
                _season,
            ),
            (rf"(?:(?P<which>[去前今明]年)|{_YEAR} ?年)?的?(?P<season>[春夏秋冬])[天季]", _season),
            (
                r"\b(?:today|tonight|(?:tomorrow|yesterday)(?: (?:morning|evening|afternoon|night))?|"
                r"last night|this morning)\b",
                _near_day,
            ),
            (
                r"大前天|前天|昨天|昨日|昨晚|今天|今日|一昨日|明天|明日|明晚|大后天|后天|오늘|어제|그저께|내일",
                _near_day,
            ),
            (rf"\b{_COUNT} (days?|weeks?|months?|years?) (?:ago|before today|back)\b", partial(_ahead, sign=-1)),
            (rf"{_CJK_COUNT} ?(天|日|周|个星期|星期|个礼拜|週間|个月|年)(?:之前|以前|前)", partial(_ahead, sign=-1)),
            (rf"\bin {_COUNT} (days?|weeks?|months?|years?)\b", _ahead),
            (rf"\b{_COUNT} (days?|weeks?|months?|years?) from (?:now|today)\b", _ahead),
            (rf"{_CJK_COUNT} ?(天|日|周|个星期|星期|个礼拜|週間|个月|年)(?:之后|以后|后)", _ahead),
            (rf"\b(?:last|past|previous) {_COUNT} (days?|weeks?|months?|years?)\b", _past_units),
            (rf"(?:最近|过去){_CJK_COUNT}(天|日|周|个星期|个月|年)", _past_units),
            (
                r"\b(?:on |during |in )?(?:the )?(this|last|past|previous|next) (weekend|week|month|year|"
                + "|".join(_DAYS)
                + r"|mon|tue|wed|thu|fri|sat|sun)\b",
                _relative,
            ),
            (
                r"(上上个?|上个?|下个?|这个?|本|先|今|去|明|来)(周末|(?:周|星期|礼拜)[一二三四五六日天]|周|星期|礼拜|週|月|年)",
                _relative,
            ),
            (r"\b(on) (" + "|".join(_DAYS) + r")\b", _relative),
            (r"\b(?:in|during|since|of) ((?:19|20)\d\d)\b", _whole_year),
            (r"((?:19|20)\d\d) ?年", _whole_year),
        )
    )
)
_DATE_TERMS = frozenset(map(stem, (*_NAMES, *_MONTHS, *_DAYS, *"日号天周週期拜月", "yesterday", "tomorrow", "ago")))
_NUMERIC = re.compile(
    r"\d[-/.]\d\d?[-/.]\d|\d\.\d\d?\.|(?:il|el|le|em|dia) \d\d?/\d|\d [^\W\d]+'|in \w+ (?:days|weeks)|오늘|어제|내일"
)
