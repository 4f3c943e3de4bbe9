"""Finds the notes that speak of something: BM25 over the entries of MEMORY.md and the daily notes."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime

from nanoclaw.errors import WorkspaceError
from nanoclaw.workspace.notes import lines_of, memory_files, read_memory_file
from nanoclaw.workspace.paths import Workspace


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry of a memory file; lines count from 1 and include `end`."""

    file: str
    start: int
    end: int
    date: date | None
    score: float
    text: str


def search(workspace: Workspace, query: str, limit: int, now: datetime) -> list[Hit]:
    """The best entries first. Raises nothing: an unreadable note is passed over."""
    terms = list(dict.fromkeys(tokens(query[:LONGEST_QUERY])))
    if not terms or limit < 1:
        return []
    entries = [entry for name in memory_files(workspace) for entry in _entries_of(workspace, name)]
    best = sorted(_scored(entries, terms), key=lambda hit: (-hit.score, _age(hit, now), hit.file, hit.start))
    seen: set[str] = set()
    hits = []
    for hit in best:
        if hit.text not in seen:
            seen.add(hit.text)
            hits.append(hit)
            if len(hits) == limit:
                break
    return hits


def tokens(text: str) -> Iterator[str]:
    """Words by their stems, without the most common ones; Chinese, Japanese and Korean as characters and pairs."""
    for match in _WORD.finditer(_folded(text)):
        for word in (match[0],) if match[0].isascii() else re.split(_CJK, match[0]):
            if re.match(_CJK, word):
                yield from word
                yield from (word[at : at + 2] for at in range(len(word) - 1))
            elif word and word not in _STOP_WORDS:
                yield _stem(word)


LONGEST_QUERY = 4_000
_K1, _B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class _Entry:
    file: str
    start: int
    end: int
    date: date | None
    text: str
    heading: str


def _scored(entries: list[_Entry], terms: list[str]) -> Iterator[Hit]:
    """BM25 with an idf that stays above zero, so that one of two notes can be found."""
    wanted = frozenset(terms)
    any_term = re.compile("|".join(map(re.escape, terms)))
    average = sum(len(entry.text) for entry in entries) / max(1, len(entries)) or 1.0
    counted: list[tuple[_Entry, Counter[str]]] = []
    for entry in entries:
        whole = _folded(f"{entry.heading}\n{entry.text}")
        if any_term.search(whole):  # a stem is always the beginning of its words, so the rest cannot match
            counts = Counter(token for token in tokens(whole) if token in wanted)
            if counts:
                counted.append((entry, counts))
    found_in = Counter(term for _, counts in counted for term in counts)
    idf = {term: math.log(1 + (len(entries) - n + 0.5) / (n + 0.5)) for term, n in found_in.items()}
    for entry, counts in counted:
        norm = _K1 * (1 - _B + _B * len(entry.text) / average)
        score = sum(idf[term] * count * (_K1 + 1) / (count + norm) for term, count in counts.items())
        yield Hit(entry.file, entry.start, entry.end, entry.date, score, entry.text)


def _age(hit: Hit, now: datetime) -> int:
    return abs((now.date() - hit.date).days) if hit.date else 1_000_000


def _entries_of(workspace: Workspace, name: str) -> Iterator[_Entry]:
    try:
        text = read_memory_file(workspace, name)
    except WorkspaceError:
        return
    day = _day_of(name.rpartition("/")[2].removesuffix(".md"))
    heading = ""
    lines: list[tuple[int, str]] = []
    for number, line in enumerate([*lines_of(text or ""), ""], 1):
        is_heading = line.startswith("#")
        if lines and (is_heading or not line.strip() or _BULLET.match(line)):
            yield from _entry(name, lines, day, heading)
            lines = []
        if is_heading:
            heading = line.lstrip("# ").strip()
        elif line.strip():
            lines.append((number, line))


def _entry(name: str, lines: list[tuple[int, str]], day: date | None, heading: str) -> Iterator[_Entry]:
    text = _STRUCK.sub("", "\n".join(line.strip() for _, line in lines))
    dated = _DATED_BULLET.match(text)
    if _WORD.search(_folded(_PREFIX.sub("", text))):  # something is left besides bullet, date and time
        own = _day_of(dated[1]) if dated else None
        yield _Entry(name, lines[0][0], lines[-1][0], own or day, text.strip(), heading)


def _day_of(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _stem(word: str) -> str:
    """The word without its commonest English endings; always its beginning."""
    for endings in (("'s", "s"), ("ingly", "edly", "ing", "ied", "ed", "ly", "ie", "e", "y")):
        for ending in endings:
            if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
                word = word[: -len(ending)]
                break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] in "bdfgmnprt":
        return word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


_CJK = "([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+)"
_WORD = re.compile(r"[^\W_]+(?:'s\b)?")
_BULLET = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
_PREFIX = re.compile(r"^\s*[-*+]?\s*(?:\[[ xX]\]\s*)?(?:\d{4}-\d\d-\d\d:?|\d\d:\d\d)?\s*")
_DATED_BULLET = re.compile(r"\s*[-*+]\s+(\d{4}-\d\d-\d\d)\b")
_STRUCK = re.compile(r"~~.+?~~", re.DOTALL)
_COMMON = """
a about all am an and any are as at be been but by can could did do does for from had has have he hello her hi him his
how i if in into is it its just me more my no not of ok okay on or our please she should so some than thank thanks
that the their them then there these they this to up us was we were what when where which who why will with would yes
you your
"""
_STOP_WORDS = frozenset(_COMMON.split())
