"""Ranks entries of the notes: BM25, with terms lent by neighbours, named days, and rare terms of the best matches."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from heapq import nlargest
from typing import TYPE_CHECKING

from nanoclaw.plugins.memory.chunks import NoteEntry
from nanoclaw.plugins.memory.enough import WEAK_MATCHES, is_enough, is_of_the_day, named_of, own_terms, weak
from nanoclaw.plugins.memory.index import Index
from nanoclaw.plugins.memory.notes import Hit
from nanoclaw.plugins.memory.packing import NEAR, Match, Room, packed
from nanoclaw.plugins.memory.query import Query, analyze
from nanoclaw.time_words.days import DateRange

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.vectors import Nearness


Vector = Sequence[float] | None  # of a query, if there is one


def search(index: Index, query: str, limit: int, now: datetime, vector: Vector = None) -> list[Hit]:
    """The best entries first, one a hit. Raises nothing: an unreadable note is passed over."""
    if limit <= 0:
        return []
    matches, values = _rank(index, query, (), now, False, vector)
    found = [
        each
        for each in matches
        if not values
        or each.near >= NEAR
        or not values.keys().isdisjoint(f"{each.entry.terms} {each.entry.heading}".split())
    ]
    return packed(index, found, values, Room(sys.maxsize, sys.maxsize, limit), False, lambda hit: False)


def recall(
    index: Index,
    query: str,
    talk: Sequence[str],
    now: datetime,
    budget: int,
    most: int = 0,
    is_known: Callable[[Hit], bool] = lambda hit: False,
    vector: Vector = None,
) -> list[Hit]:
    """Entries that fit a message, best first, within a budget in characters; nothing for a greeting or small talk.

    `talk` is what was said before, the oldest first: it helps with a message that only makes sense after it. Each entry
    is cut to LONGEST_NOTE characters around what matches. With `most` there are no more hits than that. Hits that are
    known are passed over, they cost nothing.
    """
    matches, values = _rank(index, query, talk, now, True, vector)
    return packed(index, matches, values, Room(budget, LONGEST_NOTE, most), True, is_known)


LONGEST_NOTE = 280  # characters of a recalled note
K1, B = 1.2, 0.75  # BM25, as everywhere
_REACH = 3  # entries above and below that lend an entry their terms
_ABOVE, _BELOW = 400, 180  # characters over which that fades: what was said before explains more than what comes after
_QUESTION, _FULL_QUESTION = 0.75, 15  # an entry that only asks; one of so many words says something besides
_FEW_WORDS, _SHORT = 11, 0.7  # an entry of fewer words says less, down to this share
_CHUNK = 0.15  # share of the top score for all entries of a chunk that has many of the terms
_WHEN, _SPEAKER, _PERSON, _DATE = 0.15, 0.15, 0.3, 1.3  # shares of the top score, see _bonus
_RELATED = 0.25  # share of the top score for the entry with most of the terms that the best entries have
_TEACHING, _LEARNED, _LEARNING = 20, 30, 60  # entries whose terms they are, so many terms, entries that get a share
_SMOOTHED = 5  # terms more that an entry counts as having, or the shortest would have all
_CHUNKS = 12  # that are scored
_MOST_POSTINGS = 3_000  # entries that have a term, the rarest terms first: bounds the time in a large memory
_ALL: Set[int] = frozenset()  # in place of pairs of entries: every entry
_NAMED = 0.9  # of what a note of the day gets, for one that names it
_FAIR = 0.2  # share of the best entry's own score that an entry needs to come up by itself
_COMPARED = 100  # entries whose vectors are compared, besides the nearest ones
_NEAREST, _NEXT = 2, 1.01  # lines that the vectors put right after the best by words, which gets so much more
_NEAR_CLOSE, _NEAR_ANY = 4.2, 7.0  # least, for any question and what one tells of oneself; for any other message


def _rank(
    index: Index,
    text: str,
    talk: Sequence[str],
    now: datetime,
    careful: bool,
    vector: Vector,
    chunks: int = _CHUNKS,
) -> tuple[list[Match], Mapping[str, object]]:
    index.refresh()
    if not index.entries:
        return [], {}
    query = analyze(index, text, talk, now.date(), is_search=not careful)
    near = index.vectors.near(vector) if vector and index.vectors and not query.is_empty else None
    if not query.values and not query.days and not near:
        return [], {}
    matches, top = _scored(index, query, _candidates(index, query, chunks, near), near)
    nearest = _nearest(query, matches, careful)
    if careful and not is_enough(index, query, matches, top):
        weaks = nlargest(WEAK_MATCHES, weak(query, matches), key=lambda each: each.score)
        matches = [*{id(each): each for each in [*nearest, *weaks]}.values()]
    for each in nearest:
        each.is_close, each.is_weak = True, False
    matches.sort(key=lambda each: (-each.score, abs(now.toordinal() - each.entry.day), each.chunk.file, each.rows))
    if query.says_days:
        return [each for each in matches if own_terms(query, each) or is_of_the_day(query, each.entry)], {}
    return matches, query.values


def _nearest(query: Query, matches: Sequence[Match], careful: bool) -> list[Match]:
    """The entries nearest by vector, where they are near enough for such a message; they come next to the best."""
    least = _NEAR_CLOSE if query.is_asked or query.first_person else _NEAR_ANY
    if not careful or (query.is_personal and query.asks_of_self):
        least = NEAR
    near = nlargest(_NEAREST, (each for each in matches if each.near >= least), key=lambda each: each.near)
    if near:
        top = (best := max(matches, key=lambda each: each.score)).score or 1.0
        for each in near:
            each.score = max(each.score, top * (_NEXT + each.near / 10_000))
        best.score *= _NEXT * _NEXT
    return near


def _candidates(index: Index, query: Query, most: int, near: Nearness | None) -> dict[int, Set[int]]:
    """Chunks worth scoring, with the pairs of neighbouring entries that have the rarest terms, or are near."""
    found = _by_terms(index, query, most)
    for id in near.entries if near else ():
        pairs = found.get(id >> 8)
        found[id >> 8] = pairs | {id >> 1 & 127} if pairs else _ALL if pairs is _ALL else frozenset({id >> 1 & 127})
    return found


def _by_terms(index: Index, query: Query, most: int) -> dict[int, Set[int]]:
    dated = [id for days in query.days for id in index.between(days.first, days.last, most)]
    dated += [id >> 8 for term in query.named for id in index.postings(term, most)]
    if index.chunks <= most:
        return dict.fromkeys({*dated, *(id >> 8 for term in query.values for id in index.postings(term))}, _ALL)
    worth: dict[int, float] = {}
    left = _MOST_POSTINGS
    for term in sorted(query.values, key=query.frequencies.__getitem__):
        postings = index.postings(term, left)  # the newest of a term that is everywhere
        newest = dict.fromkeys([id >> 1 for id in postings], query.values[term])
        for pair in worth.keys() & newest.keys():
            newest[pair] += worth[pair]
        worth |= newest
        left -= query.frequencies[term]
        if left <= 0:
            break
    found = dict.fromkeys(dated, _ALL)
    for pair in nlargest(2 * most, worth, key=worth.__getitem__):
        if (chunk := pair >> 7) in found:
            found[chunk] = found[chunk] and found[chunk] | {pair & 127}
        elif len(found) < most + len(dated):
            found[chunk] = {pair & 127}
    return found


def bm25(entry: NoteEntry, values: Mapping[str, float], average_length: float) -> dict[str, float]:
    """Score of each term of the query in an entry; a term of its heading counts as one of its own."""
    said = entry.terms.split()
    norm = K1 * (1 - B + B * entry.length / average_length)
    scores: dict[str, float] = {}
    for term in values.keys() & said:
        count = said.count(term)
        scores[term] = values[term] * count * (K1 + 1) / (count + norm)
    for term in entry.heading.split():
        if term in values:
            scores.setdefault(term, values[term] * (K1 + 1) / (1 + norm))
    return scores


def _scored(
    index: Index, query: Query, candidates: Mapping[int, Set[int]], near: Nearness | None
) -> tuple[list[Match], float]:
    """The entries with their scores, and the best score of terms alone."""
    found, owns, most = list[Match](), list[tuple[float, float]](), 0.0
    chunks = {id: index.chunk(id) for id in candidates}
    shares = {id: sum(value for term, value in query.values.items() if term in one.terms) for id, one in chunks.items()}
    most_shared = max(shares.values(), default=0.0) or 1.0
    for id, pairs in candidates.items():
        entries = chunks[id].entries
        scores = _entry_scores(entries, _around(len(entries), pairs), query.values, index.average_length)
        for at, (score, own, is_talk) in scores.items():
            worth, is_dated = score * _worth(entries[at]), is_of_the_day(query, entries[at])
            found.append(Match(entries[at], chunks[id], worth, is_talk or is_dated, is_dated))
            owns.append((own, shares[id] / most_shared))
            most = max(most, score)
    best, _ = max(owns, default=(0.0, 0.0))
    top = max((each.score for each in found), default=0.0)
    for each, (own, share) in zip(found, owns, strict=True):
        each.is_close |= 0 < own >= _FAIR * best
        share = _CHUNK * share if each.score else 0.0
        each.score += (top or 1.0) * (_bonus(query, each.entry, each.score > 0) + share)
    if near:
        near.compare(each.entry for each in nlargest(_COMPARED, found, key=lambda each: each.score))
        for each in found:
            each.near = near.of(each.entry)
    found = [each for each in found if each.score > 0 or each.near >= NEAR]
    if query.values:
        _learn(index, query, found)
    return found, most


def _around(count: int, pairs: Set[int]) -> Sequence[int]:
    """Places of the pairs in a chunk of so many entries, and of the entries near enough to share terms with them."""
    if not pairs:
        return range(count)
    return sorted(
        {
            near
            for at in range(count)
            if at >> 1 in pairs
            for near in range(max(0, at - _REACH), min(count, at + _REACH + 1))
        }
    )


def _entry_scores(
    entries: Sequence[NoteEntry], wanted: Sequence[int], values: dict[str, float], average_length: float
) -> dict[int, tuple[float, float, bool]]:
    """BM25 of each entry, where a term also counts for the entries near it; BM25 of its own terms alone; and whether a
    neighbour that lends it terms belongs to the same talk."""
    scores: dict[int, dict[str, float]] = {at: {} for at in wanted}
    owns = dict.fromkeys(wanted, 0.0)
    voices, talk = _voices(entries), set[int]()
    for at in wanted:
        own = bm25(entries[at], values, average_length)
        owns[at] = sum(own.values())
        for other, share in _near(entries, at) if own else ():
            into = scores.get(other, {})
            if entries[at].speaker in voices and entries[other].speaker in voices:
                talk.add(other)
            for term, value in own.items():
                if value * share > into.get(term, 0.0):
                    into[term] = value * share
    return {at: (sum(each.values()), owns[at], at in talk) for at, each in scores.items()}


def _voices(entries: Sequence[NoteEntry]) -> Set[str]:
    """Names of speakers: a name before a colon that is there once may be a label."""
    names = Counter(entry.speaker for entry in entries if entry.speaker)
    return {name for name, times in names.items() if times > 1 or name in _TALKING}


def _near(entries: Sequence[NoteEntry], at: int) -> Iterator[tuple[int, float]]:
    """An entry itself and its neighbours in the section, each with the share of its terms that they get."""
    yield at, 1.0
    section = entries[at].section
    for step, fades in ((1, _ABOVE), (-1, _BELOW)):
        characters, other = 0, at + step
        while 0 <= other < len(entries) and abs(other - at) <= _REACH and entries[other].section == section:
            characters += entries[other].characters
            yield other, math.exp(-characters / fades)
            other += step


def _worth(entry: NoteEntry) -> float:
    """Less for an entry that says little, or only asks."""
    share = min(1.0, _SHORT + (1 - _SHORT) * entry.length / _FEW_WORDS)
    return share * _QUESTION if entry.is_question and entry.length < _FULL_QUESTION else share


def _bonus(query: Query, entry: NoteEntry, matches: bool) -> float:
    """Share of the top score for an entry with a time for "when", one by who is named, one of the day that is named."""
    bonus = 0.0
    if matches:
        if query.asks_when and entry.has_time:
            bonus += _WHEN
        if entry.speaker not in _TALKING and not query.words.isdisjoint(entry.speaker.split()):
            bonus += _SPEAKER
        if query.first_person and entry.speaker in _THE_PERSON:
            bonus += _PERSON
    meant = [days for days in query.days if days.first.toordinal() <= entry.day <= days.last.toordinal()]
    of_day = max(map(_exactness, meant), default=0.0)
    names_day = max((_NAMED * _exactness(query.named[term]) for term in named_of(query, entry)), default=0.0)
    return bonus + _DATE * max(of_day, names_day)


def _exactness(days: DateRange) -> float:
    """1 for a day, less for one of a longer range."""
    return 1.0 if days.days == 1 else 0.8 if days.days <= 7 else 0.5


def _learn(index: Index, query: Query, found: Sequence[Match]) -> None:
    """The rare terms of the best entries tell what the query is about: an entry that has many of them is worth more."""
    best = sorted(found, key=lambda each: each.score, reverse=True)[:_LEARNING]
    said = [dict.fromkeys(each.entry.terms.split()) for each in best]
    weights: dict[str, float] = {}
    for each, terms in zip(best[:_TEACHING], said, strict=False):
        for term in terms:
            weights[term] = weights.get(term, 0.0) + each.score
    entries = index.frequencies(weights)
    for term in weights:
        is_shared = term not in query.values and entries.get(term, 0) > 1
        weights[term] *= index.idf(entries[term]) ** 2 if is_shared else 0.0
    learned = set(nlargest(_LEARNED, weights, key=weights.__getitem__))
    shares = [
        math.fsum([weights[term] for term in learned & terms.keys()]) / math.sqrt(len(terms) + _SMOOTHED)
        for terms in said
    ]
    if most := max(shares, default=0.0):
        top = best[0].score
        for each, share in zip(best, shares, strict=True):
            each.score += _RELATED * top * share / most


_THE_PERSON = frozenset({"user", "me", "i"})
_TALKING = _THE_PERSON | {"assistant", "ai", "bot", "nanoclaw", "用户", "助手", "我"}
