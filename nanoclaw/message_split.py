"""A long Markdown text in pieces that a platform accepts: cut where it hurts least, fences of code whole in each."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

Units = Literal["characters", "utf-16", "bytes"]


class Piece(NamedTuple):
    """`body` is a part of the text as it is there; `opening` and `closing` are lines of a fence that were added, '' if
    none is needed."""

    body: str
    opening: str = ""
    closing: str = ""

    @property
    def text(self) -> str:
        return self.opening + self.body + self.closing


def pieces(text: str, limit: int, units: Units = "characters") -> list[str]:
    """The text in pieces of at most `limit` units each, all of it in one for a `limit` of 0; no text is not a piece.

    A border is where a paragraph ends, else a line, a sentence or a word, else between two characters as a person sees
    them. Only a single character that is larger than the limit makes a longer piece.
    """
    return [piece.text for piece in cut(text, limit, units)]


def cut(text: str, limit: int, units: Units = "characters") -> Iterator[Piece]:
    """The same piece by piece. All bodies, joined, are the text."""
    if limit <= 0 or size(text, units) <= limit:
        if text:
            yield Piece(text)
        return
    cutter, start = _Cutter(text, limit, units), 0
    while start < len(text):
        piece = cutter.piece(start)
        yield piece
        start += len(piece.body)


def size(text: str, units: Units) -> int:
    """The length of a text as a platform counts it."""
    if units == "characters":
        return len(text)
    if units == "utf-16":
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "replace"))


_LEAST = 4
"""A border is good when the piece before it is at least so manieth a part of the limit."""

# patterns as texts: compiled when first used
_GAP = r"\r?\n(?:[ \t\r]*\n)*"
_FENCE = (
    r"(?P<quote>(?:[ \t]{0,3}>[ \t]?)*)(?P<lead>[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*)"
    r"(?P<mark>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)"
)
_ITEM_BEGINS = (*" \t-*+0123456789",)
_ITEM = r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+"
_SENTENCE = r"[.!?…]+[\"'”’»)\]*_]*\s+|[。！？]+[」』”）]*"
_WORD = r"\s+"
_WHOLE = r"""(?x)
    (?=[!\[<*_~])(?:
    !?\[[^\[\]\n]{1,500}\]\([^()\n]{0,2000}(?:\([^()\n]{0,500}\)[^()\n]{0,2000})?\)
    | <https?://[^<>\s]{1,2000}>
    | \*\*[^*\n]{1,500}\*\* | __[^_\n]{1,500}__ | ~~[^~\n]{1,500}~~
    | (?<![*\w])\*(?![\s*])[^*\n]{1,500}\*(?!\w) | (?<![_\w])_(?![\s_])[^_\n]{1,500}_(?!\w)
    )
"""


class _Cutter:
    def __init__(self, text: str, limit: int, units: Units) -> None:
        # halves of characters count as what takes their place on the way out
        self._text = text if text.isascii() else re.sub("[\ud800-\udfff]", "?", text)
        self._original, self._limit, self._units = text, limit, units
        self._map = _survey(self._text)
        self._inner = [fence.inner for fence in self._map.fences]
        self._spans = [first for first, _ in self._map.spans]

    def piece(self, start: int) -> Piece:
        """The piece that begins at `start`."""
        fence, opening = self._fence_at(start), ""
        if fence:
            opening = fence.opening + (fence.quote if self._text[start - 1] != "\n" else "")
        budget = self._limit - size(opening, self._units)
        end = self._reach(start, budget)
        if end == len(self._text):
            return Piece(self._original[start:], opening)
        at = self._border(start, end, self._reach(start, budget - self._closing(start, end)))
        if fence := self._fence_at(at):
            line_end = "" if self._text[at - 1] == "\n" else "\n"
            return Piece(self._original[start:at], opening, line_end + fence.closing)
        return Piece(self._original[start:at], opening)

    def _border(self, start: int, end: int, code_end: int) -> int:
        """End of the piece: not behind `end`, and within code not behind `code_end`."""
        least = start + max(1, (end - start) // _LEAST)
        for low in (least, start + 1):
            found = (
                self._gap(self._map.paragraphs, low, end)
                or self._gap(self._map.lines, low, end)
                or self._gap(self._map.code_lines, low, code_end)
                or self._last(_SENTENCE, low, end, code_end)
                or self._last(_WORD, low, end, code_end)
                or self._sign(low, end, code_end)
            )
            if found:
                return found
            span = self._span_at(end)
            if span and size(self._text[slice(*span)], self._units) > self._limit:  # it must be cut in two anyway
                break
        return self._sign(start + 1, end, code_end, cuts_spans=True) or max(start + 1, min(end, code_end))

    def _gap(self, gaps: list[tuple[int, int]], low: int, high: int) -> int:
        """The end of the last gap that begins within the bounds; 0 for none."""
        last = bisect_right(gaps, (high, len(self._text)))
        return self._latest((gaps[number][1] for number in reversed(range(last))), low, high, high)

    def _last(self, pattern: str, low: int, end: int, code_end: int) -> int:
        """Behind the last match within the bounds; 0 for none."""
        matches = list(re.compile(pattern).finditer(self._text, low - 1, end + 1))
        return self._latest((match.end() for match in reversed(matches)), low, end, code_end)

    def _latest(self, ends: Iterable[int], low: int, end: int, code_end: int) -> int:
        """The first of these borders, of which the last comes first, at which it may be cut; 0 for none."""
        for at in ends:
            if (at := min(at, end)) < low:
                return 0
            if not self._span_at(at) and self._is_good(at, code_end):
                return at
        return 0

    def _sign(self, low: int, end: int, code_end: int, *, cuts_spans: bool = False) -> int:
        """The last place between two characters as a person sees them within the bounds; 0 for none."""
        from wcwidth import grapheme_boundary_before

        at = end
        while at >= low:
            if not self._is_good(at, code_end):
                at = min(code_end, at - 1)
            elif not cuts_spans and (span := self._span_at(at)):
                at = span[0]
            else:
                border = grapheme_boundary_before(self._text, at + 1)
                if border == at:
                    return at
                at = border
        return 0

    def _is_good(self, at: int, code_end: int) -> bool:
        """Check a border within code: it needs room for what is added, and is behind the end of a line."""
        return (at <= code_end and self._text[at] not in "\r\n") or not self._fence_at(at)

    def _fence_at(self, at: int) -> _Fence | None:
        """The fence in which a piece ends or begins, if its lines are short enough to be added."""
        number = bisect_right(self._inner, at) - 1
        if number < 0:
            return None
        fence = self._map.fences[number]
        is_within = at < fence.inner_end or (at == fence.inner_end < fence.end)
        return fence if is_within and self._added(fence) <= self._limit // 2 else None

    def _added(self, fence: _Fence) -> int:
        return size(fence.opening + fence.quote + fence.closing, self._units) + 1

    def _closing(self, start: int, end: int) -> int:
        """The most that closing a fence at a border within the bounds adds."""
        first = max(0, bisect_right(self._inner, start) - 1)
        fences = self._map.fences[first : bisect_right(self._inner, end)]
        mendable = [fence for fence in fences if self._added(fence) <= self._limit // 2]
        return max((size(fence.closing, self._units) + 1 for fence in mendable), default=0)

    def _span_at(self, at: int) -> tuple[int, int] | None:
        number = bisect_left(self._spans, at) - 1
        return self._map.spans[number] if number >= 0 and self._map.spans[number][1] > at else None

    def _reach(self, start: int, budget: int) -> int:
        """The place that so many units reach."""
        chunk = self._text[start : start + max(0, budget)]
        if self._units == "utf-16":
            chunk = chunk.encode("utf-16-le")[: 2 * budget].decode("utf-16-le", "ignore") if chunk else ""
        elif self._units == "bytes":
            chunk = chunk.encode()[:budget].decode("utf-8", "ignore") if chunk else ""
        return start + len(chunk)


# --- what a text is made of ------------------------------------------------------------------------------------------


class _Fence(NamedTuple):
    """From its first line to behind its last one; what stands between is from `inner` to `inner_end`. Both ends are the
    same where no line closes it. `quote` begins each of its lines."""

    start: int
    inner: int
    inner_end: int
    end: int
    opening: str
    closing: str
    quote: str


class _Map:
    """Places where a text can be cut. Gaps are between two lines or paragraphs, from the end of one to the beginning of
    the next; spans stay whole where they can."""

    def __init__(self) -> None:
        self.fences: list[_Fence] = []
        self.paragraphs: list[tuple[int, int]] = []
        self.lines: list[tuple[int, int]] = []
        self.code_lines: list[tuple[int, int]] = []
        self.spans: list[tuple[int, int]] = []


class _Open(NamedTuple):
    """A fence whose end was not reached yet. `column` is where its text begins, `in_item` that its own line begins an
    item of a list."""

    start: int
    end: int
    mark: str
    info: str
    quote: str
    column: int
    in_item: bool

    def is_left_by(self, line: str) -> bool:
        """True when the quote or item that contains it ends with this line."""
        if self.quote:
            return not line.lstrip().startswith(">")
        return self.in_item and _width(line) < self.column

    def is_closed_by(self, line: str) -> bool:
        mark = line.strip("> \t\r" if self.quote else " \t\r")
        is_mark = len(mark) >= len(self.mark) and not mark.strip(self.mark[0])
        return is_mark and (self.quote != "" or _width(line) <= self.column + 3)

    def ended(self, text: str, inner_end: int, end: int) -> _Fence:
        inner = text.find("\n", self.end) + 1 or len(text)
        lead = self.quote + " " * self.column + self.mark
        return _Fence(
            self.start, inner, max(inner, inner_end), max(inner, end), lead + self.info + "\n", lead, self.quote
        )


def _survey(text: str) -> _Map:
    """One walk over the lines that are not blank."""
    found, fence, column, is_edge = _Map(), None, 0, False
    start = re.compile(r"(?:[ \t\r]*\n)*").match(text).end()  # type: ignore[union-attr]
    gap: tuple[int, int] | None = (0, start) if start else None
    is_edge = start > 0
    for match in (*re.compile(_GAP).finditer(text, start), None):
        end, following = match.span() if match else (len(text), len(text))
        line = text[start:end]
        if fence and gap and fence.is_left_by(line):
            found.fences.append(fence.ended(text, gap[0], gap[0]))
            fence, is_edge = None, True
        if fence is None:
            fence = _opened(line, start, end, column) if "```" in line or "~~~" in line else None
            if gap:
                is_paragraph = is_edge or fence is not None or text.count("\n", *gap) > 1
                (found.paragraphs if is_paragraph else found.lines).append(gap)
            if fence:
                found.spans.append((start, end))
            column, is_edge = _column(line, column) if line[:1] in _ITEM_BEGINS else 0, False
        elif fence.is_closed_by(line):
            found.fences.append(fence.ended(text, start, end))
            found.spans.append((start, end))
            fence, is_edge = None, True
        elif gap and gap[0] != fence.end:
            found.code_lines.append(gap)
        gap, start = (end, following), following
    if fence:
        found.fences.append(fence.ended(text, len(text), len(text)))
    found.spans = _merged([*found.spans, *_inline(text, found.fences)])
    return found


def _opened(line: str, start: int, end: int, column: int) -> _Open | None:
    """The fence that a line begins, in a list whose text begins at `column`."""
    match = re.match(_FENCE, line.rstrip("\r"))
    if match is None:
        return None
    lead = match["lead"].expandtabs(4)
    if _width(lead) > column + 3:  # lines that are indented so far are code without a fence
        return None
    in_item = bool(lead.strip())
    return _Open(start, end, match["mark"], match["info"], match["quote"], len(lead), in_item)


def _column(line: str, before: int) -> int:
    """Column where the text of a line's list item begins; 0 outside of lists."""
    if match := re.match(_ITEM, line):
        return len(match[0].expandtabs(4))
    return before if line[:1] in (" ", "\t") else 0


def _width(line: str) -> int:
    """Columns that a line is indented by."""
    return len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4))


def _inline(text: str, fences: list[_Fence]) -> Iterator[tuple[int, int]]:
    """Code, links and emphasis within paragraphs."""
    whole, run, start = re.compile(_WHOLE), re.compile(r"`+|\n[ \t\r]*\n"), 0
    for fence in (*fences, None):
        end = fence.start if fence else len(text)
        yield from (match.span() for match in whole.finditer(text, start, end))
        runs: list[tuple[int, int]] = []
        for match in run.finditer(text, start, end):
            if match[0][0] == "`":
                runs.append(match.span())
            else:
                yield from _code(runs)
                runs = []
        yield from _code(runs)
        start = fence.end if fence else end


def _code(runs: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """From a run of backticks to the next one that is as long."""
    of_length: dict[int, list[int]] = {}
    for number, (start, end) in enumerate(runs):
        of_length.setdefault(end - start, []).append(number)
    number = 0
    while number < len(runs):
        start, end = runs[number]
        same = of_length[end - start]
        following = bisect_right(same, number)
        if following < len(same):
            number = same[following]
            yield start, runs[number][1]
        number += 1


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
