"""Notes parsed for the index: entries (a bullet or a paragraph each) in chunks that are stored together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from typing import NamedTuple

from nanoclaw.plugins.memory.notes import also_of, lines_of, without_also
from nanoclaw.time_words.days import find_dates, telling_words
from nanoclaw.tokenizer import STOP_WORDS, fold, stem, tokens

CHUNK_ENTRIES = 64  # a chunk also ends at a heading, once it has a quarter of these


class NoteEntry(NamedTuple):
    """One entry of a note. Lines count from the first one of its chunk."""

    start: int
    end: int
    characters: int
    length: int  # in terms
    is_question: bool
    has_time: bool
    speaker: str
    day: int  # date.toordinal(), 0 for none
    section: int
    terms: str  # in order, a blank between: read much faster than a table
    heading: str  # terms of the heading above it and of the days that it names: they count as its own


def chunks(text: str, name: str) -> Iterator[tuple[int, list[NoteEntry]]]:
    """Entries of a file in chunks, each with its first line."""
    own = _day(name.rpartition("/")[2].removesuffix(".md"))
    day, section, first_section, row, heading = own, 0, 0, 1, tuple[str, ...]()
    found: list[NoteEntry] = []
    for start, end, title, said, also in entries(text):
        if not said:
            section += 1
            ranges, rest = find_dates(fold(title), own or date.min) if _YEAR.search(title) else ([], title)
            day = ranges[0].first if len(ranges) == 1 and ranges[0].days == 1 else own
            heading = tuple(dict.fromkeys(tokens(rest))) if _LETTER.search(rest) else ()
        if found and (len(found) == CHUNK_ENTRIES or (not said and len(found) >= CHUNK_ENTRIES // 4)):
            yield row, found
            found = []
        if not found:
            row, first_section = start, section
        if said:
            known_by = (*heading, *tokens(also)) if also else heading
            found.append(_entry(start - row, end - row, said, day, section - first_section, known_by))
    if found:
        yield row, found


def entries(text: str) -> Iterator[tuple[int, int, str, str, str]]:
    """First line, last line, heading, text and other words of each bullet and paragraph, without struck words; the text
    of a heading is ''."""
    heading, begun = "", list[tuple[int, str]]()
    for row, line in enumerate([*lines_of(text), ""], 1):
        is_heading = line.startswith("#")
        if begun and (is_heading or not line.strip() or BULLET.match(line)):
            lines = [each for _, each in begun]
            said = clean(lines)
            if said:
                yield begun[0][0], begun[-1][0], heading, said, also_of("\n".join(lines))
            begun = []
        if is_heading:
            heading = line.lstrip("# ").strip()
            yield row, row, heading, "", ""
        elif line.strip():
            begun.append((row, line))


def clean(lines: Sequence[str]) -> str:
    """Text of an entry without its bullet, struck words and search words; '' when nothing is left."""
    text = without_also("\n".join([line.strip() for line in lines]))
    if bullet := BULLET.match(text):
        text = text[bullet.end() :]
    if "~~" in text:
        text = _STRUCK.sub("", text).strip()
    return text if _LETTER.search(text) or _WORD.search(_STAMP.sub("", text)) else ""


def _entry(start: int, end: int, said: str, day: date | None, section: int, heading: tuple[str, ...]) -> NoteEntry:
    terms = tokens(said)
    dated = _DATED.match(said)
    own = (_day(dated[1]) if dated else None) or day
    speaker = _SPEAKER.match(said)
    named = _named_days(fold(CLOCK.sub("", said)), terms, own) if own else []
    return NoteEntry(
        start,
        end,
        len(said),
        len(terms),
        said.endswith(("?", "？")),
        bool(_TIME.search(said)),
        fold(speaker[1]) if speaker else "",
        own.toordinal() if own else 0,
        section,
        " ".join(terms),
        " ".join([*(term for term in heading if term not in terms), *map(day_term, named)]),
    )


def day_term(day: date) -> str:
    """The index's term for an entry that names a day."""
    return f"day{day:%Y%m%d}"


def _named_days(text: str, terms: Sequence[str], today: date) -> list[date]:
    """Single days that a (folded) note of a day names, that day itself left out; `terms` are its words."""
    if _date_terms().isdisjoint(terms) and not _DATE_IN_DIGITS.search(text):  # most notes
        return []
    ranges, _ = find_dates(text, today)
    return list(dict.fromkeys(each.first for each in ranges if each.days == 1 and each.first != today))[:_MOST_NAMED]


@cache
def _date_terms() -> frozenset[str]:
    return frozenset(map(stem, telling_words())) - STOP_WORDS


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


_MOST_NAMED = 6  # days of one entry
_DATE_IN_DIGITS = re.compile(
    r"\d[-/.]\d\d?[-/.]\d|\d\.\d\d?\.|(?:il|el|le|em|dia) \d\d?/\d|\d [^\W\d]+'|in \w+ (?:days|weeks)|오늘|어제|내일"
)
BULLET = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?")
_STRUCK = re.compile(r"~~.+?~~", re.DOTALL)
CLOCK = re.compile(r"^\d\d:\d\d\b")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d|\b\d\d:\d\d\b")
_WORD = re.compile(r"[^\W_]")
_LETTER = re.compile(r"[^\W\d_]")
_YEAR = re.compile(r"\d{4}")
_DATED = re.compile(r"(\d{4}-\d\d-\d\d)\b")
_SPEAKER = re.compile(r"(?:\d\d:\d\d )?([^\W\d_][^\n:：]{0,30})[:：]\s")
_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|weeks?|weekend|months?|years?|days?|morning|recently|since|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july|august|september|october|"
    r"november|december|summer|winter|spring|autumn|fall|\d{4}|\d{1,2}(?::\d\d|th|st|nd|rd))\b|"
    r"[昨今明前后後]天|[年月日号號周週]|星期",
    re.IGNORECASE,
)
