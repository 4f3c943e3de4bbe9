"""Hits from ranked entries: texts from the files themselves, as many as there is room for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from nanoclaw.plugins.memory.chunks import CLOCK, NoteEntry, clean
from nanoclaw.plugins.memory.contradictions import MOST_WORDS, contradict, moves
from nanoclaw.plugins.memory.index import Chunk, Index
from nanoclaw.plugins.memory.notes import UNTIL, Hit, lines_of
from nanoclaw.tokenizer import tokens


@dataclass(slots=True)
class Match:
    entry: NoteEntry
    chunk: Chunk
    score: float
    is_close: bool  # to the point by itself, by its day, or as a part of the talk about it
    is_dated: bool  # of a day that the query names
    near: float = 0.0  # by its vector, see NEAR
    is_weak: bool = False  # shown only as a short line

    @property
    def rows(self) -> tuple[int, int]:
        return self.chunk.row + self.entry.start, self.chunk.row + self.entry.end


_Shown = tuple[Match, str]


class Room(NamedTuple):
    """Characters in all and of each hit, and the number of hits, 0 for no limit."""

    characters: int
    each: int
    hits: int


def packed(
    index: Index,
    matches: Sequence[Match],
    values: Mapping[str, object],
    room: Room,
    careful: bool,
    is_known: Callable[[Hit], bool],
) -> list[Hit]:
    """The best entries that fit. When `careful`, only those close to the point, and the items below them."""
    texts, seen, left = _Texts(index), set[str](), room.characters
    close: dict[str, set[int]] = {}
    for each in matches if careful else ():
        if each.is_close:
            close.setdefault(each.chunk.file, set()).add(each.rows[0])
    shown = list[_Shown]()
    for each in matches:
        if left < _LEAST or (room.hits and len(shown) == room.hits):
            break
        if careful and not each.is_close and not texts.is_below(each, close.get(each.chunk.file, _NO_ROWS)):
            continue
        most = min(left, _CUT if each.is_weak else room.each)
        if each.entry.terms in seen or each.entry.characters > most < _CUT or not (text := texts.of(each)):
            continue
        text = window(text, values, most) if len(text) > most else text
        if is_known(_hit(each, text)):
            continue
        seen.add(each.entry.terms)
        left -= len(text)
        newer = (careful and values and _is_newer(each, other) for other, _ in shown)
        shown.insert(next((at for at, is_newer in enumerate(newer) if is_newer), len(shown)), (each, text))
    if careful and not any(each.is_dated for each, _ in shown):
        for one in shown[:_ENDABLE]:
            if one[0].entry.day > 0 and one[0].entry.length <= MOST_WORDS and not UNTIL.search(one[1]):
                _succeed(index, texts, one, shown, is_known)
    return [_hit(*one) for one in shown]


def _succeed(index: Index, texts: _Texts, one: _Shown, shown: list[_Shown], is_known: Callable[[Hit], bool]) -> None:
    """Say of an entry that a later one contradicts until when it may have held, and put the later one before it."""
    (old, text), others = one, [each for each, _ in shown[:_ENDABLE]]
    for id in [id for term in moves(text) for id in index.postings(term, _MOVES)]:
        chunk = index.chunk(id >> 8)
        moved = Match(chunk.entries[id & 255], chunk, old.score, True, False)
        others += [moved] if all(each.rows != moved.rows or each.chunk.file != chunk.file for each in others) else []
    for last in sorted(others, key=lambda each: -each.entry.day):
        if last.entry.day > old.entry.day and contradict(CLOCK.sub("", text), CLOCK.sub("", said := texts.of(last))):
            at = shown.index(one)
            shown[at] = old, f"{text} (until {date.fromordinal(last.entry.day)}?)"
            known = next((place for place, (each, _) in enumerate(shown) if each is last), None)
            if known is not None:
                shown.insert(min(at, known), shown.pop(known))
            elif not is_known(_hit(last, said)):
                shown.insert(at, (last, said))
            return


def _is_newer(one: Match, other: Match) -> bool:
    """Tell an entry of a later day that fits about as well: things change. None is newer than one of the day that is
    asked about."""
    is_later = one.entry.day > other.entry.day and one.is_dated >= other.is_dated
    return is_later and one.score > _AS_WELL * other.score


NEAR = 2.5  # least nearness of an entry that is worth anything without a word of the query
_AS_WELL = 0.75  # share of another's score with which an entry fits about as well
_ENDABLE, _MOVES = 4, 8  # entries that are compared with each other, and with so many of the newest about a move
_LEAST, _CUT = 40, 100  # fewer characters of an entry are not worth it; of one that is cut among others


def window(text: str, values: Mapping[str, object], room: int) -> str:
    """So much of a long text, from shortly before the first word that matches."""
    at = next((match.start() for match in _SPOT.finditer(text) if not values.keys().isdisjoint(tokens(match[0]))), 0)
    begin = max(0, min(at - room // 4, len(text) - room))
    cut = text[begin : begin + room - 2]
    return ("…" if begin else "") + cut + ("…" if begin + len(cut) < len(text) else "")


def _hit(match: Match, text: str) -> Hit:
    day = date.fromordinal(match.entry.day) if match.entry.day else None
    return Hit(match.chunk.file, *match.rows, day, match.score, text)


class _Texts:
    """Texts of matches, from the files themselves, each read once."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._files: dict[str, list[str]] = {}

    def of(self, match: Match) -> str:
        first, last = match.rows
        return clean(self._lines(match.chunk.file)[first - 1 : last])

    def is_below(self, match: Match, entries: Set[int]) -> bool:
        """Tell whether it is an indented item below one of these, named by their rows in its file."""
        row = match.rows[0]
        if not entries or row < min(entries):
            return False
        lines = self._lines(match.chunk.file)
        depth = _depth(lines[row - 1]) if row <= len(lines) else 0
        while depth and row > 1:
            row -= 1
            if lines[row - 1].strip() and _depth(lines[row - 1]) < depth:
                if row in entries:
                    return True
                depth = _depth(lines[row - 1])
        return False

    def _lines(self, file: str) -> list[str]:
        if file not in self._files:
            self._files[file] = lines_of(self._index.text(file))
        return self._files[file]


def _depth(line: str) -> int:
    """Columns before its first letter."""
    return len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())


_SPOT = re.compile(r"[^\W_]+")
_NO_ROWS: Set[int] = frozenset()
