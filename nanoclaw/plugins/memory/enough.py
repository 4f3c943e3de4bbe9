"""Decides whether notes have what a message is about, or only words that small talk shares with any note."""

from __future__ import annotations

from collections.abc import Sequence, Set

from nanoclaw.plugins.memory.chunks import NoteEntry
from nanoclaw.plugins.memory.index import Index
from nanoclaw.plugins.memory.packing import Match
from nanoclaw.plugins.memory.query import Query
from nanoclaw.plugins.memory.wording import RARE

_ENOUGH, _ENOUGH_EXPECTED = 0.5, 0.3  # of a message's worth, times the idf of a term that no note has, where expected
_RARE = 0.55  # of the idf of a term that no note has: a match where notes are expected
_SAYS_IT_ALL = 0.5  # how much all the words of a question have to say
_ONE_WORD = 1.5  # times that, where no entry has more than one term of a message of several
WEAK_MATCHES = 3
_NONE: Set[str] = frozenset()


def is_enough(index: Index, query: Query, found: Sequence[Match], top: float) -> bool:
    """Decide whether an entry has what the message is about: enough of its terms in all, and not one of many."""
    dated = bool(query.days) and any(is_of_the_day(query, each.entry) for each in found)
    if not query.values or (dated and query.says_days):
        return dated
    if not dated and not any(_said(query, own := own_terms(query, each)) >= _least(query, own) for each in found):
        return False
    if any(_is_answer(index, query, each) for each in found):
        return True
    enough = _ENOUGH_EXPECTED if query.expected or dated else _ENOUGH
    if not query.expected and len(query.words) > 2 and not any(len(own_terms(query, each)) > 1 for each in found):
        enough *= _ONE_WORD
    return top * top >= enough * query.worth * index.idf(0)


def weak(query: Query, found: Sequence[Match]) -> list[Match]:
    """Entries that are not enough but worth a short line, as they share so much with the message."""
    worth = [each for each in found if (own := own_terms(query, each)) and _said(query, own) >= query.needs_at_all]
    for each in worth:
        each.is_close = each.is_weak = True
    return worth


def _is_answer(index: Index, query: Query, match: Match) -> bool:
    """Tell an entry with all that a question is about, or with a rare term of it where notes are expected."""
    own = own_terms(query, match)
    if query.content and (query.content <= own or _has_all_rare(query, own)):
        return True
    is_rare = query.expected and any(_is_rare(index, query, term) for term in own if len(term) > 1)
    return is_rare and (query.is_personal or len(own) > 1)


def _has_all_rare(query: Query, own: Set[str]) -> bool:
    """Tell terms with the words of a question that are rare in the language, if there are any."""
    rare = {term: word for term, (word, rarity) in query.says.items() if rarity >= RARE}
    asked = {rare[term] for term in query.content & rare.keys()}
    return bool(asked) and asked <= {rare[term] for term in own & rare.keys()}


def _is_rare(index: Index, query: Query, term: str) -> bool:
    """Tell a term that few notes have, or that is rare in the language, as names are."""
    return query.says.get(term, ("", 0.0))[1] >= RARE or index.idf(query.frequencies[term]) >= _RARE * index.idf(0)


def _least(query: Query, own: Set[str]) -> float:
    return min(query.needs, _SAYS_IT_ALL) if query.needs <= 1 and query.content <= own else query.needs


def _said(query: Query, own: Set[str]) -> float:
    """Weigh the words of a message that an entry has."""
    says: dict[str, float] = {}
    for word, rarity in (query.says[term] for term in own if term in query.says):
        says[word] = max(rarity, says.get(word, 0.0))
    return sum(says.values()) + (max(says.values(), default=0.0) >= RARE)


def own_terms(query: Query, match: Match) -> Set[str]:
    return query.values.keys() & f"{match.entry.terms} {match.entry.heading}".split()


def is_of_the_day(query: Query, entry: NoteEntry) -> bool:
    """Tell an entry of a day that is meant, or one that names it."""
    is_of_it = any(days.first.toordinal() <= entry.day <= days.last.toordinal() for days in query.days)
    return is_of_it or bool(named_of(query, entry))


def named_of(query: Query, entry: NoteEntry) -> Set[str]:
    return query.named.keys() & entry.heading.split() if query.named else _NONE
