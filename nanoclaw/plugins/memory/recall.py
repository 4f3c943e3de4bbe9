"""Finds the notes that speak of what a message is about: the best lines of MEMORY.md and the daily notes."""

from __future__ import annotations

import math
import re
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from heapq import nlargest
from itertools import islice

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.plugins.memory.dates import Span, find_dates
from nanoclaw.plugins.memory.index import Index, Line, Piece, clean
from nanoclaw.plugins.memory.notes import lines_of, read_memory_file
from nanoclaw.tokenizer import FRAME, PHATIC, STOP_CHARACTERS, STOP_WORDS, fold, is_cjk, stem, tokens, words


@dataclass(frozen=True, slots=True)
class Hit:
    """Entries of a memory file that stand near each other; lines count from 1 and include `end`."""

    file: str
    start: int
    end: int
    date: date | None
    score: float
    text: str


def search(index: Index, query: str, limit: int, now: datetime) -> list[Hit]:
    """The best entries first, one a hit. Raises nothing: an unreadable note is passed over."""
    return _looked_up(index, query, (), now, 0, limit, 0, careful=False) if limit > 0 else []


def recall(
    index: Index,
    query: str,
    talk: Sequence[str],
    now: datetime,
    budget: int,
    longest: int = 0,
    careful: bool = True,
) -> list[Hit]:
    """What a message brings up, best first, within a budget in characters; nothing for a greeting or small talk.

    `talk` is what was said before, the oldest first: it helps with a message that only makes sense after it.
    Entries of one file share a hit; with `longest` each has its own, cut to so many characters around what matches.
    Without `careful` a weak match will do, and what only stands near one.
    """
    return _looked_up(index, query, talk, now, budget, 0, longest, careful)


LONGEST_QUERY = 4_000
MOST_TERMS = 64
"""The rarest words of a long query say what it is about."""

_K1, _B = 1.2, 0.75  # BM25, as everywhere
_REACH = 3  # lines above and below that lend a line their words
_ABOVE, _BELOW = 400, 180  # characters over which that fades: what was said before explains more than what comes after
_QUESTION, _FULL_QUESTION = 0.75, 15  # a line that only asks; one of so many words says something besides
_FEW_WORDS, _SHORT = 11, 0.7  # a line of fewer words says less, down to this share
_LONG, _CROWDING = 300, 0.25  # a line of more characters counts less, by this power of how many times as long it is
_PIECE = 0.15  # share of the top score for all lines of a piece that has many of the words
_WHEN, _SPEAKER, _PERSON, _DATE = 0.15, 0.15, 0.3, 1.3  # shares of the top score, see _bonus
_RELATED = 0.25  # share of the top score for the line with most of the words that the best lines have
_TEACHING, _LEARNED, _LEARNING = 20, 30, 60  # lines whose words they are, so many words, lines that get a share
_SMOOTHED = 5  # words more that a line counts as having, or the shortest would have all
_FRAME_WEIGHT, _REPAIRED, _TALK, _CHARACTER = 0.3, 0.8, 0.5, 0.5  # of a word's weight
_CJK_PAIR = 0.25  # most pairs of characters are no words, so an unknown one means little, with a particle nothing
_FEWEST_PIECES = 12  # that are looked at closely, however small the budget
_SHORTEST = 60  # characters of a line and of what it costs to name it: so many fit a budget at most
_MOST_POSTINGS = 3_000  # lines that have a word, the rarest words first: bounds the time in a large memory
_MOST_REPAIRS = 4  # words that no note has and that may be mistyped
_ALL: Set[int] = frozenset()  # in place of pairs of lines: every line
_NO_ROWS: Set[int] = frozenset()
_FAIR = 0.2  # share of the best line's own words that a line needs to come up by itself
_ENOUGH, _ENOUGH_EXPECTED = 0.5, 0.3  # what the best line has of a message, times that in words that no note has: less
# is chance, and less will do where notes are expected
_ONE_WORD = 1.5  # times that, where no line has more than one word of a message of several


@dataclass(slots=True)
class _Question:
    """A query taken apart: its words with what each is worth, and the days it names."""

    words: frozenset[str]
    values: dict[str, float]
    postings: dict[str, array[int]]
    spans: list[Span]
    idf_of_none: float
    worth: float  # of all its own words, those that no note has included
    when: bool
    first_person: bool
    expected: bool  # of what notes are kept about: the sender's own affairs, or a name that is in them (or nearly)


@dataclass(slots=True)
class _Found:
    line: Line
    piece: Piece
    score: float
    share: float  # of the question's words that its piece has
    is_close: bool  # to the point by itself, by its day, or as a part of the talk about it

    @property
    def rows(self) -> tuple[int, int]:
        return self.piece.row + self.line.start, self.piece.row + self.line.end


def _looked_up(
    index: Index,
    query: str,
    talk: Sequence[str],
    now: datetime,
    budget: int,
    limit: int,
    longest: int,
    careful: bool,
) -> list[Hit]:
    with index.lock:
        try:
            found, values = _found(index, query[:LONGEST_QUERY], talk, now, budget, longest, careful)
        except (sqlite3.Error, ValueError, TypeError, EOFError):  # a damaged index: away with it, once
            index.discard()
            found, values = _found(index, query[:LONGEST_QUERY], talk, now, budget, longest, careful)
        return (
            _single(index, found, values, limit) if limit else _packed(index, found, values, budget, longest, careful)
        )


def _found(
    index: Index, query: str, talk: Sequence[str], now: datetime, budget: int, longest: int, careful: bool
) -> tuple[list[_Found], Mapping[str, object]]:
    index.refresh()
    if not index.lines:
        return [], {}
    question = _taken_apart(index, query, talk, now.date())
    if not question.values and not question.spans:
        return [], {}
    pieces = _candidates(index, question, max(_FEWEST_PIECES, budget // (longest or _SHORTEST)))
    found, top = _scored(index, question, pieces, longest)
    if careful and not _is_enough(question, found, top):
        return [], {}
    today = now.toordinal()
    found.sort(key=lambda each: (-each.score, abs(today - each.line.day), each.piece.file, each.rows))
    return found, question.values


# --- the question ------------------------------------------------------------------------------------------------


def _taken_apart(index: Index, query: str, talk: Sequence[str], today: date) -> _Question:
    spans, rest = find_dates(fold(query), today)
    weights: dict[str, float] = {}
    own = _weigh(index, rest, 1.0, weights, repair=True)
    if own.keys() <= PHATIC | FRAME and not spans:
        weights.clear()
        talk = ()
    if not _is_question(rest) or (_PRONOUN.search(rest) and not _NAME.search(query)):
        for text in talk:
            _weigh(index, find_dates(fold(text[:LONGEST_QUERY]), today)[1], _TALK, weights, repair=False)
    postings = {term: index.postings(term) for term in weights}
    idf = {term: index.idf(len(postings[term])) for term in weights}
    best = nlargest(MOST_TERMS, weights, key=lambda term: weights[term] * idf[term])
    values = {term: weights[term] * idf[term] for term in best}
    if spans and all(term in FRAME for term in values):
        values = {}  # "what happened on 3 May?" says nothing but the day
    unknown = index.idf(0)
    names = {stem(fold(name)) for name in _NAME.findall(query)}
    worth = sum(
        weight * (idf[term] if term in idf else unknown * (_cjk_share(term) if is_cjk(term) else 1))
        for term, weight in own.items()
    )
    return _Question(
        frozenset(word.removesuffix("'s") for word in words(rest)) - STOP_WORDS,
        values,
        postings,
        spans,
        unknown,
        worth,
        bool(_ASKS_WHEN.search(rest)),
        bool(_FIRST_PERSON.search(rest)),
        bool(_PERSONAL.search(rest)) or any(name in values or own.get(name) == _REPAIRED for name in names),
    )


def _weigh(index: Index, text: str, weight: float, weights: dict[str, float], repair: bool) -> dict[str, float]:
    """Add the text's words to `weights` with what notes have in their place; the text's own with their weights."""
    own: dict[str, float] = {}
    for word in words(text):
        for term in tokens(word):
            share = _CHARACTER if len(term) == 1 and is_cjk(term) else _FRAME_WEIGHT if term in FRAME else 1.0
            own[term] = weight * share
    known = set(index.known(own))
    for term in known:
        weights[term] = max(weights.get(term, 0.0), own[term])
    if repair:
        strange = [word for word in dict.fromkeys(words(text)) if word not in STOP_WORDS and stem(word) not in known]
        for word in strange[:_MOST_REPAIRS]:
            near = _repaired(index, word)
            for term in near:  # any of them may be meant, or none: the word itself is still one that no note has
                weights.setdefault(term, weight * _REPAIRED / len(near))
            if near:
                own[stem(word)] = weight * _REPAIRED
    return own


def _repaired(index: Index, word: str) -> list[str]:
    """Words of the notes that are one slip of the finger away: a letter too many, too few, wrong or swapped."""
    if not 4 <= len(word) <= 30 or not word.isalpha() or is_cjk(word):
        return []
    first = min(word)
    block = ord(first) & ~63  # the word's own alphabet
    letters = "abcdefghijklmnopqrstuvwxyz" if word.isascii() else "".join(map(chr, range(block, block + 64)))
    halves = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    near = {left + right[1:] for left, right in halves if right}
    near |= {left + right[1] + right[0] + right[2:] for left, right in halves if len(right) > 1}
    near |= {left + letter + right[1:] for left, right in halves if right for letter in letters}
    near |= {left + letter + right for left, right in halves for letter in letters}
    return [] if near & STOP_WORDS else index.known({stem(each) for each in near})


def _cjk_share(term: str) -> float:
    return _CJK_PAIR if STOP_CHARACTERS.isdisjoint(term) else 0.0


def _is_question(text: str) -> bool:
    return bool(_ASKS.search(text))


# --- the lines ---------------------------------------------------------------------------------------------------


def _candidates(index: Index, question: _Question, most: int) -> dict[int, Set[int]]:
    """The pieces worth a close look, with the pairs of lines that have the rarest words."""
    dated = [number for span in question.spans for number in index.between(span.first, span.last + _TOLD_LATER, most)]
    lists = [(question.postings[term], value) for term, value in question.values.items()]
    lists.sort(key=lambda each: len(each[0]))
    if index.pieces <= most:
        return dict.fromkeys({*dated, *(number >> 8 for numbers, _ in lists for number in numbers)}, _ALL)
    worth: dict[int, float] = {}
    left = _MOST_POSTINGS
    for numbers, value in lists:
        # of a word that is everywhere, the newest
        newest = dict.fromkeys([number >> 1 for number in reversed(numbers[-left:])], value)
        for pair in worth.keys() & newest.keys():
            newest[pair] += worth[pair]
        worth |= newest
        left -= len(numbers)
        if left <= 0:
            break
    found = dict.fromkeys(dated, _ALL)
    for pair in _best(worth, 2 * most):
        if (number := pair >> 7) in found:
            found[number] |= {pair & 127}
        elif len(found) < most + len(dated):
            found[number] = {pair & 127}
    return found


def _best(worth: Mapping[int, float], most: int) -> list[int]:
    """The keys with the largest values, the first of equals first; quicker than to compare all with a key function."""
    least = sorted(worth.values(), reverse=True)[:most][-1:]
    above = [key for key, value in worth.items() if value > least[0]] if least else []
    above.sort(key=worth.__getitem__, reverse=True)
    equal = (key for key, value in worth.items() if value == least[0])
    return [*above, *islice(equal, most - len(above))]


def _scored(
    index: Index, question: _Question, candidates: Mapping[int, Set[int]], longest: int
) -> tuple[list[_Found], float]:
    """The lines with their scores, and the best score of words alone, whatever the line that has them is worth."""
    found, owns, most = list[_Found](), list[float](), 0.0
    pieces = {number: index.piece(number) for number in candidates}
    shares = _piece_shares(question, pieces)
    for number, pairs in candidates.items():
        lines = pieces[number].lines
        wanted = _around(lines, pairs)
        for at, (score, own, is_talk) in _line_scores(lines, wanted, question.values, index.average).items():
            is_close = is_talk or _is_of_the_day(question, lines[at])
            found.append(
                _Found(lines[at], pieces[number], score * _worth(lines[at], longest), shares[number], is_close)
            )
            owns.append(own)
            most = max(most, score)
    best = max(owns, default=0.0)
    for each, own in zip(found, owns, strict=True):
        each.is_close |= 0 < own >= _FAIR * best
    top = max((each.score for each in found), default=0.0)
    for each in found:
        each.score += (top or 1.0) * (
            _bonus(question, each.line, each.score > 0) + (_PIECE * each.share if each.score else 0.0)
        )
    found = [each for each in found if each.score > 0]
    if question.values:
        _learn(index, question, found)
    return found, most


def _around(lines: Sequence[Line], pairs: Set[int]) -> Sequence[int]:
    """Where the pairs stand, and what they may lend words to or get words from."""
    if not pairs:
        return range(len(lines))
    return sorted(
        {
            near
            for at, line in enumerate(lines)
            if line.serial >> 1 in pairs
            for near in range(max(0, at - _REACH), min(len(lines), at + _REACH + 1))
        }
    )


def _line_scores(
    lines: Sequence[Line], wanted: Sequence[int], values: dict[str, float], average: float
) -> dict[int, tuple[float, float, bool]]:
    """BM25 of each line, where a word also counts for the lines near the one it stands in; the same of its own words
    alone; and whether a neighbour that lends it words belongs to the same talk."""
    scores: dict[int, dict[str, float]] = {at: {} for at in wanted}
    owns = dict.fromkeys(wanted, 0.0)
    voices, talk = _voices(lines), set[int]()
    for at in wanted:
        line = lines[at]
        said = line.terms.split()
        matching = values.keys() & said
        if not matching and not line.heading:
            continue
        norm = _K1 * (1 - _B + _B * line.words / average)
        own: dict[str, float] = {}
        for term in matching:
            count = said.count(term)
            own[term] = values[term] * count * (_K1 + 1) / (count + norm)
        for term in line.heading.split():
            if term in values:
                own.setdefault(term, values[term] * (_K1 + 1) / (1 + norm))
        owns[at] = sum(own.values())
        for other, share in _near(lines, at) if own else ():
            into = scores.get(other, {})
            if lines[at].speaker in voices and lines[other].speaker in voices:
                talk.add(other)
            for term, value in own.items():
                if value * share > into.get(term, 0.0):
                    into[term] = value * share
    return {at: (sum(each.values()), owns[at], at in talk) for at, each in scores.items()}


def _voices(lines: Sequence[Line]) -> Set[str]:
    """Who speaks here: a name before a colon that stands there once may be a label."""
    names = Counter(line.speaker for line in lines if line.speaker)
    return {name for name, times in names.items() if times > 1 or name in _TALKING}


def _near(lines: Sequence[Line], at: int) -> Iterator[tuple[int, float]]:
    """A line itself and its neighbours in the section, each with the share of its words that they get."""
    yield at, 1.0
    section = lines[at].section
    for step, fades in ((1, _ABOVE), (-1, _BELOW)):
        characters, other = 0, at + step
        while 0 <= other < len(lines) and abs(other - at) <= _REACH and lines[other].section == section:
            characters += lines[other].characters
            yield other, math.exp(-characters / fades)
            other += step


def _worth(line: Line, longest: int) -> float:
    """Less for a line that says little, that only asks, or that takes the room of others."""
    share = min(1.0, _SHORT + (1 - _SHORT) * line.words / _FEW_WORDS)
    shown = min(line.characters, longest or line.characters)
    share /= math.pow(max(1.0, shown / _LONG), _CROWDING)
    return share * _QUESTION if line.is_question and line.words < _FULL_QUESTION else share


def _piece_shares(question: _Question, pieces: dict[int, Piece]) -> dict[int, float]:
    """How much of the question each piece has anywhere, from 0 to 1."""
    shares = {
        number: sum(value for term, value in question.values.items() if f" {term} " in piece.terms)
        for number, piece in pieces.items()
    }
    top = max(shares.values(), default=0.0) or 1.0
    return {number: share / top for number, share in shares.items()}


def _bonus(question: _Question, line: Line, matches: bool) -> float:
    """In shares of the top score: a line with a time for "when", one by who is named, one of the day that is named."""
    bonus = 0.0
    if matches:
        if question.when and line.has_time:
            bonus += _WHEN
        if _names_speaker(question, line):
            bonus += _SPEAKER
        if question.first_person and line.speaker in _THE_PERSON:
            bonus += _PERSON
    if question.spans and line.day:
        bonus += _DATE * max(_date_match(span, line.day, matches) for span in question.spans)
    return bonus


def _is_of_the_day(question: _Question, line: Line) -> bool:
    return any(span.first.toordinal() <= line.day <= span.last.toordinal() for span in question.spans)


def _date_match(span: Span, day: int, matches: bool) -> float:
    """1 for the day meant, less for one of a longer span, and a little for the days after: things are told later."""
    exactness = 1.0 if span.days == 1 else 0.8 if span.days <= 7 else 0.5
    if span.first.toordinal() <= day <= span.last.toordinal():
        return exactness
    return 0.3 * exactness if matches and 0 < day - span.last.toordinal() <= _TOLD_LATER.days else 0.0


def _learn(index: Index, question: _Question, found: Sequence[_Found]) -> None:
    """The rare words of the best lines tell what the question is about: a line that has many of them is worth more."""
    best = sorted(found, key=lambda each: each.score, reverse=True)[:_LEARNING]
    said = [dict.fromkeys(each.line.terms.split()) for each in best]
    weights: dict[str, float] = {}
    for each, terms in zip(best[:_TEACHING], said, strict=False):
        for term in terms:
            weights[term] = weights.get(term, 0.0) + each.score
    rarities = index.rarities(weights)
    for term in weights:
        weights[term] *= 0.0 if term in question.values else rarities.get(term, 0.0) ** 2
    learned = set(nlargest(_LEARNED, weights, key=weights.__getitem__))
    shares = [
        math.fsum([weights[term] for term in learned & terms.keys()]) / math.sqrt(len(terms) + _SMOOTHED)
        for terms in said
    ]
    if most := max(shares, default=0.0):
        top = best[0].score
        for each, share in zip(best, shares, strict=True):
            each.score += _RELATED * top * share / most


def _names_speaker(question: _Question, line: Line) -> bool:
    return line.speaker not in _TALKING and not question.words.isdisjoint(line.speaker.split())


def _is_enough(question: _Question, found: Sequence[_Found], top: float) -> bool:
    """Whether a line has what the message is about: enough of its words in all, and not one of many."""
    dated = any(_is_of_the_day(question, each.line) for each in found) if question.spans else False
    if not question.values:
        return dated
    enough = _ENOUGH_EXPECTED if question.expected or dated else _ENOUGH
    if not question.expected and len(question.words) > 2 and not any(_has_several(question, each) for each in found):
        enough *= _ONE_WORD
    return top * top >= enough * question.worth * question.idf_of_none


def _has_several(question: _Question, found: _Found) -> bool:
    return len(question.values.keys() & f"{found.line.terms} {found.line.heading}".split()) > 1


# --- the hits ----------------------------------------------------------------------------------------------------


def _single(index: Index, found: Sequence[_Found], values: Mapping[str, object], limit: int) -> list[Hit]:
    """Entries that have a word of the query themselves, or are of the day that is all the query says."""
    texts, seen, hits = _Texts(index), set[str](), list[Hit]()
    for each in found:
        own = f"{each.line.terms} {each.line.heading}".split()
        if each.line.terms in seen or (values and values.keys().isdisjoint(own)):
            continue
        if text := texts.of(each):
            seen.add(each.line.terms)
            hits.append(_hit(each, text))
            if len(hits) == limit:
                break
    return hits


def _packed(
    index: Index, found: Sequence[_Found], values: Mapping[str, object], budget: int, longest: int, careful: bool
) -> list[Hit]:
    """The best lines that fit, those of one file together, so that its name is paid for once. When `careful`, only what
    is close to the point, and the items below it."""
    texts, seen, left = _Texts(index), set[str](), budget
    close: dict[str, set[int]] = {}
    for each in found if careful else ():
        if each.is_close:
            close.setdefault(each.piece.file, set()).add(each.rows[0])
    groups: dict[str, list[tuple[_Found, str]]] = {}
    for each in found:
        if left < _LEAST:
            break
        if careful and not each.is_close and not texts.is_below(each, close.get(each.piece.file, _NO_ROWS)):
            continue
        key = f"{each.piece.file}:{each.rows}" if longest else each.piece.file
        cost = 1 if key in groups else len(each.piece.file) + _HEADER
        room = min(left - cost, longest or left)
        too_long = each.line.characters > room
        if each.line.terms in seen or (too_long and (room < _LEAST or (seen and not longest))):
            continue
        text = texts.of(each)
        if not text:
            continue
        text = _window(text, values, room) if len(text) > room else text
        seen.add(each.line.terms)
        left -= cost + len(text)
        groups.setdefault(key, []).append((each, text))
    return [_joined(group) for group in groups.values()]


_HEADER, _LEAST = 11, 40  # characters: a file's name costs "[:123-125]" and a line end besides; less is not worth it


def _window(text: str, values: Mapping[str, object], room: int) -> str:
    """So much of a long text, from shortly before the first word that matches."""
    at = next((match.start() for match in _SPOT.finditer(text) if not values.keys().isdisjoint(tokens(match[0]))), 0)
    begin = max(0, min(at - room // 4, len(text) - room))
    cut = text[begin : begin + room - 2]
    return ("…" if begin else "") + cut + ("…" if begin + len(cut) < len(text) else "")


def _joined(group: list[tuple[_Found, str]]) -> Hit:
    in_order = sorted(group, key=lambda each: each[0].rows)
    first, last = in_order[0][0].rows[0], in_order[-1][0].rows[1]
    hit = _hit(group[0][0], "\n".join(text for _, text in in_order))
    return replace(hit, start=first, end=last)


def _hit(found: _Found, text: str) -> Hit:
    day = date.fromordinal(found.line.day) if found.line.day else None
    return Hit(found.piece.file, *found.rows, day, found.score, text)


class _Texts:
    """The words of what was found, from the files themselves, each read once."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._files: dict[str, list[str]] = {}

    def of(self, found: _Found) -> str:
        first, last = found.rows
        return clean(self._lines(found.piece.file)[first - 1 : last])

    def is_below(self, found: _Found, entries: Set[int]) -> bool:
        """Whether it is an indented item below one of these, named by their rows in its file."""
        row = found.rows[0]
        if not entries or row < min(entries):
            return False
        lines = self._lines(found.piece.file)
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
            try:
                self._files[file] = lines_of(read_memory_file(self._index.workspace, file) or "")
            except WorkspaceError:
                self._files[file] = []
        return self._files[file]


def _depth(line: str) -> int:
    """Columns before its first letter."""
    wide = line.expandtabs(4)
    return len(wide) - len(wide.lstrip())


_SPOT = re.compile(r"[^\W_]+")
_TOLD_LATER = timedelta(7)
_THE_PERSON = frozenset({"user", "me", "i"})
_TALKING = _THE_PERSON | {"assistant", "ai", "bot", "nanoclaw", "用户", "助手", "我"}
_PRONOUN = re.compile(
    r"\b(?:he|she|they|him|her|his|hers|them|their|theirs|it|its|that|this|those|these|there)\b|[他她它那这彼]"
)
_NAME = re.compile(r"(?<=[\w,'’] )(?!I\b)[A-Z][a-z]\w*")  # within the message itself, for a pronoun to mean
_ASKS = re.compile(
    r"[?？]|^\s*(?:who|what|when|where|which|why|how|whose|do|does|did|is|are|was|were|has|have|had|can|could|will|would|"
    r"should|tell|remind|show|list|find|any|anything)\b|[吗呢]|什么|怎么|哪|谁|几|多少"
)
_ASKS_WHEN = re.compile(
    r"\bwhen\b|\bwhat (?:date|day|month|year|time)\b|\bhow long\b|什么时候|几[月号点]|哪天|何时|いつ|언제"
)
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|i'd|my|me|mine|myself)\b|我")
_PERSONAL = re.compile(
    r"\b(?:my|mine|ours?|(?:did|have|had|was|were|am|are) (?:i|we)|(?:i|we)(?:'ve|'d| did| have| had| was| were))\b|我"
)
