"""A query taken apart: its terms with their weights, and the days it names."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from heapq import nlargest

from nanoclaw.plugins.memory.chunks import day_term
from nanoclaw.plugins.memory.index import Index
from nanoclaw.plugins.memory.wording import FRAME, RARE, RECALLS, Says, Wording, asks
from nanoclaw.time_words.days import DateRange, find_dates
from nanoclaw.tokenizer import STOP_WORDS, fold, is_cjk, stem, tokens, words

LONGEST_QUERY = 4_000
MOST_TERMS = 64  # the rarest terms of a long query say what it is about
_FRAME_WEIGHT, _REPAIRED, _TALK, _CHARACTER = 0.3, 0.8, 0.5, 0.5  # of a term's weight
_CJK_PAIR = 0.25  # most pairs of characters are no words, so an unknown one means little
_ROOT, _ENDING = 0.5, 3  # share of a word that is its root, letters that another form has more
_MOST_FORMS = 8
_WEEK, _LONGEST_RANGE = 7, 100  # days of a season; notes that name a day of a longer one are not looked for
_STEM = 0.75  # share of a word that is in a compound with it
_SHORTEST_PART = 5  # letters of a word in a compound, one less for a part of the question's
_WORTH_REPAIRING = 1.0  # how much a word says at least
_STATEMENT, _OF_ASSISTANT, _NAMED_ONLY, _QUESTION = RARE + 1, 6.0, 2.4, 1.0
"""Least that a statement says, a question about the assistant, a few words, any other question."""
_TELLS_OF_SELF, _TELLS_OF_OTHERS = 2.0, 3.5
_MISTYPED = 0.75  # of what a word says, for one that may be meant
_BRIEF = 6  # words, or fewer, of a message that may be a name for what is looked for
_MOST_REPAIRS = 4  # words that no note has and that may be mistyped

_ACCENTS = """
aàáâãäåāăą cçćĉċč dďđ eèéêëēĕėęě gĝğġģ hĥħ iìíîïĩīĭįı jĵ kķ lĺļľł nñńņň oòóôõöøōŏő rŕŗř sśŝşšș tţťŧț uùúûüũūŭůűų wŵ
yýÿŷ zźżž
"""
_SPELLED = {letters[0]: f"[{letters}]" for letters in _ACCENTS.split()}
_PLAIN = {ord(letter): letters[0] for letters in _ACCENTS.split() for letter in letters[1:]}
_UMLAUTS = {"ae": "[äæ]", "oe": "[öøœ]", "ue": "[ü]"}
_WITH_E = {ord(letter): plain for plain, letters in _UMLAUTS.items() for letter in letters[1:-1]}


@dataclass(slots=True)
class Query:
    words: frozenset[str]
    values: dict[str, float]
    """Weight times inverse document frequency of each term that some note has."""
    frequencies: dict[str, int]
    days: list[DateRange]
    named: dict[str, DateRange]
    """Terms for single days of those, which notes name."""
    worth: float
    """Sum over all its own terms, those that no note has included."""
    asks_when: bool
    first_person: bool
    content: frozenset[str]
    """Terms of a question that say what about."""
    is_personal: bool
    """About the sender's own affairs, as far as one can tell: any question that is not in English."""
    is_empty: bool
    """Nothing but small talk."""
    is_asked: bool
    asks_of_self: bool
    """A question that names its sender, in whatever language."""
    expected: bool
    """Notes are kept about such things: the sender's own affairs, or a name that is in them (or nearly)."""
    says: Says
    needs: float
    needs_at_all: float
    """The least that the words say together which a note shares, and for a short line: small talk needs the most."""
    says_days: bool
    """Nothing but days."""


def analyze(index: Index, text: str, talk: Sequence[str], today: date, *, is_search: bool = False) -> Query:
    """`talk` helps with a message that only makes sense after it. The words of a search are meant, also where in a
    message they would be small talk."""
    text = text[:LONGEST_QUERY]
    days, rest = find_dates(fold(text), today)
    weights: dict[str, float] = {}
    said = [*words(rest)]
    wording = Wording(said)
    is_asked, is_personal = asks(rest), bool(_PERSONAL.search(rest))
    content = wording.content(said)
    says = wording.says(said)
    own = _weigh(index, content or said if is_search else content, 1.0, weights, says, wording, is_asked)
    is_brief = not is_asked and 1 < len(said) <= _BRIEF and wording.is_phrase(said, rest)
    is_talk = not is_asked and not _tells(says)
    if is_talk:
        talk = ()
        days = [] if content else days
    if not is_asked or (_PRONOUN.search(rest) and not _NAME.search(text)):
        for before in talk:
            told = [*words(find_dates(fold(before[:LONGEST_QUERY]), today)[1])]
            before_wording = Wording(told)
            says = before_wording.says(told) | says
            _weigh(index, before_wording.content(told), _TALK, weights, says)
    needs = 0.0 if is_search else _NAMED_ONLY if is_brief else _needs(is_asked, wording, rest)
    is_of_self = is_personal or wording.is_first_person(rest)
    needs_at_all = 0.0 if is_asked else _TELLS_OF_SELF if is_of_self else _TELLS_OF_OTHERS
    if is_talk or needs == _OF_ASSISTANT or (is_asked and not is_of_self):
        needs_at_all = math.inf
    frequencies = index.frequencies(weights)
    idf = {term: index.idf(frequencies[term]) for term in weights}
    best = nlargest(MOST_TERMS, weights, key=lambda term: weights[term] * idf[term])
    values = {term: weights[term] * idf[term] for term in best}
    if says_days := bool(days) and all(term in FRAME for term in values):
        values = {}  # "what happened on 3 May?" says nothing but the day, and "in March" a word that notes may have
        named = {*words(fold(text))} - {*words(rest)} if min(each.days for each in days) > _WEEK else ()
        for term, count in index.frequencies({term for word in named for term in tokens(word)} - FRAME).items():
            values[term], frequencies[term] = index.idf(count), count
    unknown = index.idf(0)
    called = [*_NAME.findall(text), *(_FIRST_NAME.findall(text) if is_asked else ())]
    names = {stem(fold(name)) for name in called}
    is_own = is_personal or is_brief or (is_asked and not wording.is_english)
    return Query(
        frozenset(word.removesuffix("'s") for word in words(rest)) - STOP_WORDS,
        values,
        frequencies,
        days,
        _terms_of(index, days),
        sum(w * idf.get(term, unknown * (_CJK_PAIR if is_cjk(term) else 1.0)) for term, w in own.items()),
        bool(_ASKS_WHEN.search(rest)),
        wording.is_first_person(rest),
        frozenset(term for term, weight in own.items() if is_asked and weight > _FRAME_WEIGHT and len(term) > 1),
        is_own,
        not is_search and (is_talk or (is_asked and needs == _OF_ASSISTANT)),
        is_asked,
        is_asked and is_of_self,
        is_own or any(name in values or own.get(name) == _REPAIRED for name in names),
        says,
        needs,
        needs_at_all,
        says_days,
    )


def is_small_talk(text: str) -> bool:
    """Tell a message that no note is about, without looking at the notes."""
    rest = fold(text)
    wording, is_asked = Wording(said := [*words(rest)]), asks(rest)
    return _needs(is_asked, wording, rest) == _OF_ASSISTANT if is_asked else not _tells(wording.says(said))


def _tells(says: Says) -> bool:
    return any(rarity >= _TELLS for _, rarity in says.values())


def _needs(is_asked: bool, wording: Wording, text: str) -> float:
    """The least that a message has to say: a statement more than a question, and most one about the assistant."""
    if not is_asked:
        return _STATEMENT
    is_of_both = wording.is_first_person(text) or RECALLS.search(text)
    return _OF_ASSISTANT if wording.is_second_person(text) and not is_of_both else _QUESTION


def _terms_of(index: Index, days: Sequence[DateRange]) -> dict[str, DateRange]:
    """Terms that notes have for days of the ranges, each with the shortest of these."""
    every = {
        day_term(each.first + timedelta(number)): each
        for each in sorted(days, key=lambda each: each.days, reverse=True)
        for number in range(each.days if each.days <= _LONGEST_RANGE else 0)
    }
    return {term: every[term] for term in index.frequencies(every)}


def _weigh(
    index: Index,
    said: Sequence[str],
    weight: float,
    weights: dict[str, float],
    says: Says,
    wording: Wording | None = None,
    is_asked: bool = False,
) -> dict[str, float]:
    """Add terms of words that notes have, with `wording` also near ones, to `weights`; returns all their own with their
    weights."""
    own: dict[str, float] = {}
    for word in said:
        for term in tokens(word):
            share = _CHARACTER if len(term) == 1 and is_cjk(term) else _FRAME_WEIGHT if term in FRAME else 1.0
            own[term] = weight * share
    known = index.frequencies(own)
    for term in known:
        weights[term] = max(weights.get(term, 0.0), own[term])
    if wording:
        strange = [word for word in dict.fromkeys(said) if word not in STOP_WORDS and stem(word) not in known]
        strange = [word for word in strange if wording.rarity(word) >= _WORTH_REPAIRING]
        for word in strange[:_MOST_REPAIRS]:
            near, share = _accented(index, word), 1.0 if is_asked else _REPAIRED
            if not near and not wording.is_english:
                near = _of_one_root(index, stem(word))
            if not near:
                near, share = _repaired(index, word), _MISTYPED
            if not near and not wording.is_english:
                near, share = _compounds(index, word), 1.0 if is_asked else _REPAIRED
            for term in near:  # any of them may be meant, or none: the word itself is still one that no note has
                weights.setdefault(term, weight * _REPAIRED / len(near))
                says.setdefault(term, (word, share * wording.rarity(word)))
            if near:
                own[stem(word)] = weight * _REPAIRED
    return own


def _accented(index: Index, word: str) -> list[str]:
    """Terms of the notes that differ from a word in accents alone, or have ä where it has ae."""
    word = word.removesuffix("'s")
    if not 3 <= len(word) <= 30 or not word.isalpha() or is_cjk(word):
        return []
    plain = word.translate(_PLAIN)
    umlauts = re.sub("|".join(_UMLAUTS), lambda found: _UMLAUTS[found[0]], plain)
    forms = {plain, stem(plain), umlauts, word.translate(_WITH_E).translate(_PLAIN)}
    patterns = {"".join(_SPELLED.get(letter, letter) for letter in form) for form in forms}
    return list(dict.fromkeys(term for one in sorted(patterns) for term in index.spelled(one, _MOST_FORMS)))


def _repaired(index: Index, word: str) -> list[str]:
    """Terms of the notes at an edit distance of 1 from a word, two swapped letters counting as one edit."""
    if not 4 <= len(word) <= 30 or not word.isalpha() or is_cjk(word):
        return []
    block = ord(min(word)) & ~63  # the word's own alphabet
    letters = "abcdefghijklmnopqrstuvwxyz" if word.isascii() else "".join(map(chr, range(block, block + 64)))
    splits = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    near = {left + right[1:] for left, right in splits if right}
    near |= {left + right[1] + right[0] + right[2:] for left, right in splits if len(right) > 1}
    near |= {left + letter + right[1:] for left, right in splits if right for letter in letters}
    near |= {left + letter + right for left, right in splits for letter in letters}
    return [] if near & STOP_WORDS else list(index.frequencies({stem(each) for each in near}))


def _of_one_root(index: Index, word: str) -> list[str]:
    """Terms of the notes that begin as a word of a language with many forms does, and are about as long."""
    if len(word) < 4 or not word.isalpha() or is_cjk(word):
        return []
    begin = word[: max(3 if len(word) < 5 else 4, math.ceil(_ROOT * len(word)))]
    return [term for term in index.spelled(f"{begin}*", _MOST_FORMS) if len(term) <= len(word) + _ENDING]


def _compounds(index: Index, word: str) -> list[str]:
    """Terms of the notes that a word is made of, or that are made of it."""
    if len(word) < _SHORTEST_PART or not word.isalpha() or is_cjk(word):
        return []
    cuts = range(_SHORTEST_PART - 1, len(word) - _SHORTEST_PART + 2)
    parts = index.frequencies({part for at in cuts for part in (word[:at], word[at:])})
    return [*parts, *index.spelled(f"*{word[: math.ceil(_STEM * len(word))]}*", _MOST_FORMS)]


_TELLS = 2.0  # how much a word of a message says that is more than small talk
_PRONOUN = re.compile(
    r"\b(?:he|she|they|him|her|his|hers|them|their|theirs|it|its|that|this|those|these|there)\b|[他她它那这彼]"
)
_NAME = re.compile(r"(?<=[\w,'’] )(?!I\b)[A-Z][a-z]\w*")  # within the message itself, for a pronoun to mean
_FIRST_NAME = re.compile(r"^[A-Z][a-z]\w*(?=['’]s | (?:is|was|has|had|will|wants|and)\b)")
_ASKS_WHEN = re.compile(
    r"\bwhen\b|\bwhat (?:date|day|month|year|time)\b|\bhow long\b|什么时候|几[月号点]|哪天|何时|いつ|언제"
)
_PERSONAL = re.compile(
    r"\b(?:my|mine|ours?|(?:did|have|had|was|were|am|are) (?:i|we)|(?<!how )(?:do|should|will|must) (?:i|we)|"
    r"(?:i|we)(?:'ve|'d| did| have| had| was| were))\b|我"
)
