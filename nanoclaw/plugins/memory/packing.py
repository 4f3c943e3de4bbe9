"""Hits from ranked entries: texts from the files themselves, as many as there is room for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from nanoclaw.plugins.memory.chunks import NoteEntry, clean
from nanoclaw.plugins.memory.index import Chunk, Index
from nanoclaw.plugins.memory.notes import Hit, lines_of
from nanoclaw.tokenizer import tokens


@dataclass(slots=True)
class Match:
    entry: NoteEntry
    chunk: Chunk
    score: float
    share: float  # of the query's terms that its chunk has
    is_close: bool  # to the point by itself, by its day, or as a part of the talk about it
    is_dated: bool  # of a day that the query names
    near: float = 0.0  # by its vector, see NEAR
    is_weak: bool = False  # shown only as a short line

    @property
    def rows(self) -> tuple[int, int]:
        return self.chunk.row + self.entry.start, self.chunk.row + self.entry.end


class Room(NamedTuple):
    """Characters in all and of each hit, and the number of hits; 0 for no limit.

    With a limit for each, a text costs its characters; without, entries of one file share a hit and pay for its name.
    """

    characters: int
    each: int = 0
    hits: int = 0


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
    groups: dict[str, list[tuple[Match, str]]] = {}
    for each in matches:
        if left < _LEAST or (room.hits and len(groups) == room.hits):
            break
        if careful and not each.is_close and not texts.is_below(each, close.get(each.chunk.file, _NO_ROWS)):
            continue
        key = f"{each.chunk.file}:{each.rows}" if room.each else each.chunk.file
        cost = 0 if room.each else 1 if key in groups else len(each.chunk.file) + _HEADER
        most = min(left - cost, _CUT if each.is_weak else room.each or left)
        too_long = each.entry.characters > most
        if each.entry.terms in seen or (
            too_long and (most < (_CUT if room.each else _LEAST) or (seen and not room.each))
        ):
            continue
        text = texts.of(each)
        if not text:
            continue
        text = window(text, values, most) if len(text) > most else text
        if is_known(_hit(each, text)):
            continue
        seen.add(each.entry.terms)
        left -= cost + len(text)
        groups.setdefault(key, []).append((each, text))
    ordered = list[list[tuple[Match, str]]]()
    for group in groups.values():
        newer = (careful and values and _is_newer(group[0][0], other[0][0]) for other in ordered)
        ordered.insert(next((at for at, is_newer in enumerate(newer) if is_newer), len(ordered)), group)
    return [_joined(group) for group in ordered]


def _is_newer(one: Match, other: Match) -> bool:
    """Tell an entry of a later day that fits about as well: things change. None is newer than one of the day that is
    asked about."""
    is_later = one.entry.day > other.entry.day and one.is_dated >= other.is_dated
    return is_later and one.score > _AS_WELL * other.score


NEAR = 2.5  # least nearness of an entry that is worth anything without a word of the query
_HEADER = 11  # characters that a file's name costs besides: "[:123-125]" and a line end
_AS_WELL = 0.75  # share of another's score with which an entry fits about as well
_LEAST, _CUT = 40, 100  # fewer characters of an entry are not worth it; of one that is cut among others


def window(text: str, values: Mapping[str, object], room: int) -> str:
    """So much of a long text, from shortly before the first word that matches."""
    at = next((match.start() for match in _SPOT.finditer(text) if not values.keys().isdisjoint(tokens(match[0]))), 0)
    begin = max(0, min(at - room // 4, len(text) - room))
    cut = text[begin : begin + room - 2]
    return ("…" if begin else "") + cut + ("…" if begin + len(cut) < len(text) else "")


def _joined(group: list[tuple[Match, str]]) -> Hit:
    in_order = sorted(group, key=lambda each: each[0].rows)
    first, last = in_order[0][0].rows[0], in_order[-1][0].rows[1]
    hit = _hit(group[0][0], "\n".join(text for _, text in in_order))
    return hit._replace(start=first, end=last)


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
