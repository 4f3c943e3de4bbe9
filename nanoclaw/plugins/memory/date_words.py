"""The words that languages other than English and Chinese have for days, as patterns: date_words.txt is the table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

from nanoclaw.tokenizer import STOP_WORDS, stem


class DateWords:
    """The words and the patterns of one language."""

    def __init__(self) -> None:
        self.months, self.weekdays, self.seasons = dict[str, int](), dict[str, int](), dict[str, int]()
        self.units, self.counts = dict[str, int](), dict[str, int]()
        self.unsure, self.shared, self.signs = frozenset[str](), frozenset[str](), frozenset[str]()
        self._written: list[tuple[str, str]] = []
        self._endings: list[str] = []

    def read(self, kind: str, said: str) -> None:
        """Take a line of the table."""
        names = {
            "month": self.months,
            "weekday": self.weekdays,
            "season": self.seasons,
            "unit": self.units,
            "number": self.counts,
        }.get(kind)
        if kind == "endings":
            self._endings = said.split()
        elif kind == "unsure":
            self.unsure = frozenset(said.split())
        elif kind == "shared":
            self.shared = frozenset(said.split())
        elif kind == "signs":
            self.signs = frozenset(said.split())
        elif names is None or names:
            self._written.append((kind, said))
        else:
            names.update((word, number) for number, words in enumerate(said.split("|")) for word in words.split())

    def vocabulary(self) -> Iterator[str]:
        """Words of which a text needs one to have any of the forms except a year."""
        for names in (self.months, self.weekdays, self.seasons, self.units):
            for name in names:
                yield from _LETTERS.findall(name)
                yield from (_LETTERS.findall(name)[-1] + ending for ending in self._endings)
        for _, pattern in self._written:
            if "{" not in pattern:
                yield from _LETTERS.findall(_NOT_BEHIND.sub("", pattern))

    def beside_a_year(self) -> Iterator[str]:
        """Words without one of which a year is not a date."""
        for meaning, pattern in self._written:
            if meaning == "year":
                yield from _LETTERS.findall(pattern.replace("{year}", ""))

    @cached_property
    def forms(self) -> list[tuple[re.Pattern[str], str]]:
        """Patterns, and what they mean."""
        ending = f"(?:'?(?:{'|'.join(self._endings)}))?" if self._endings else ""
        parts = {
            "day": r"(?P<day>\d{1,2})",
            "year": r"(?P<year>(?:19|20)\d\d)",
            "count": rf"(?P<count>\d{{1,3}}|{_any(self.counts)})",
            "month": rf"(?P<month>{_any(self.months)}){ending}\b",
            "weekday": rf"(?P<weekday>{_any(self.weekdays)}){ending}\b",
            "season": rf"(?P<season>{_any(self.seasons)}){ending}\b",
            "unit": rf"(?P<unit>{_any(self.units)}){ending}\b",
        }
        parts["span"] = f"(?:{parts['unit']}|{parts['weekday']}|{parts['season']})"
        return [
            (re.compile(rf"(?<!\w)(?:{_PART.sub(lambda part: parts[part[1]], pattern)})(?!\w)"), meaning)
            for meaning, pattern in self._written
        ]


def languages_in(said: frozenset[str], *, has_year: bool) -> list[DateWords]:
    """Languages whose words for days are among those of a folded text."""
    languages, *tables = _table()
    hits: dict[str, set[str]] = {}
    for by_word in tables if has_year else tables[:1]:
        for word in said & by_word.keys():
            for name in by_word[word]:
                hits.setdefault(name, set()).add(word)
    return [
        language
        for name, language in languages.items()
        if (words := hits.get(name)) and (words - language.unsure or not language.signs.isdisjoint(said))
    ]


@cache
def date_terms() -> frozenset[str]:
    """Terms of the index for all these words."""
    return frozenset(map(stem, _table()[1])) - STOP_WORDS


@cache
def _table() -> tuple[dict[str, DateWords], dict[str, list[str]], dict[str, list[str]]]:
    """Languages by name, and their names by word, and by word beside a year."""
    languages, by_word, by_year = dict[str, DateWords](), dict[str, list[str]](), dict[str, list[str]]()
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            language = languages[line.strip("[]")] = DateWords()
        elif line and not line.startswith("#"):
            kind, _, said = line.partition(" ")
            language.read(kind, said)
    for name, language in languages.items():
        for names, words in ((by_word, language.vocabulary()), (by_year, language.beside_a_year())):
            for word in set(words) - language.shared:
                names.setdefault(word, []).append(name)
    return languages, by_word, by_year


def _any(names: dict[str, int]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


_LETTERS = re.compile(r"[^\W\d_]{2,}")
_NOT_BEHIND = re.compile(r"\(\?<!.*?\)|\\w|\(\?[:P]")
_PART = re.compile(r"\{(\w+)\}")
