"""A query taken apart: its terms with their weights, and the days it names."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from heapq import nlargest

from nanoclaw.plugins.memory.dates import DateRange, day_term, find_dates
from nanoclaw.plugins.memory.index import Index
from nanoclaw.plugins.memory.small_talk import FRAME, Wording
from nanoclaw.tokenizer import STOP_CHARACTERS, STOP_WORDS, fold, is_cjk, stem, tokens, words

LONGEST_QUERY = 4_000
MOST_TERMS = 64
"""The rarest terms of a long query say what it is about."""

_FRAME_WEIGHT, _REPAIRED, _TALK, _CHARACTER = 0.3, 0.8, 0.5, 0.5  # of a term's weight
_CJK_PAIR = 0.25  # most pairs of characters are no words, so an unknown one means little, with a particle nothing
_ROOT, _ENDING, _MOST_FORMS = 0.6, 3, 8  # share of a word that is its root, letters that another form has more
_LONGEST_RANGE = 100  # days of a season; notes that name a day of a longer one are not looked for
_MOST_REPAIRS = 4  # words that no note has and that may be mistyped


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
    asks_of_self: bool
    """A question that names its sender, in whatever language."""
    expected: bool
    """Notes are kept about such things: the sender's own affairs, or a name that is in them (or nearly)."""


def analyze(index: Index, text: str, talk: Sequence[str], today: date, *, is_search: bool = False) -> Query:
    """`talk` helps with a message that only makes sense after it. The words of a search are meant, also where in a
    message they would be small talk."""
    text = text[:LONGEST_QUERY]
    days, rest = find_dates(fold(text), today)
    weights: dict[str, float] = {}
    said = [*words(rest)]
    wording = Wording(said)
    asks, is_personal = bool(_ASKS.search(rest)), bool(_PERSONAL.search(rest))
    is_empty = all(map(wording.is_empty, said))
    own = _weigh(index, said if is_search and is_empty else wording.telling(said), 1.0, weights, wording)
    if is_empty and not is_search and not (asks and is_personal):
        weights.clear()
        talk = ()
        if not all(map(wording.is_function, said)) and (wording.is_english or not asks):
            days = []
    if not asks or (_PRONOUN.search(rest) and not _NAME.search(text)):
        for before in talk:
            told = [*words(find_dates(fold(before[:LONGEST_QUERY]), today)[1])]
            _weigh(index, Wording(told).telling(told), _TALK, weights)
    frequencies = index.frequencies(weights)
    idf = {term: index.idf(frequencies[term]) for term in weights}
    best = nlargest(MOST_TERMS, weights, key=lambda term: weights[term] * idf[term])
    values = {term: weights[term] * idf[term] for term in best}
    if days and all(term in FRAME for term in values):
        values = {}  # "what happened on 3 May?" says nothing but the day
    unknown = index.idf(0)
    called = [*_NAME.findall(text), *(_FIRST_NAME.findall(text) if asks else ())]
    names = {stem(fold(name)) for name in called}
    return Query(
        frozenset(word.removesuffix("'s") for word in words(rest)) - STOP_WORDS,
        values,
        frequencies,
        days,
        _terms_of(index, days),
        sum(weight * (idf[term] if term in idf else unknown * _cjk_share(term)) for term, weight in own.items()),
        bool(_ASKS_WHEN.search(rest)),
        bool(_FIRST_PERSON.search(rest)),
        frozenset(term for term, weight in own.items() if asks and weight > _FRAME_WEIGHT and len(term) > 1),
        is_personal or (asks and not wording.is_english),
        is_empty and not is_search and not (asks and is_personal),
        asks and (is_personal or not _SELF.isdisjoint(said)),
        is_personal
        or (asks and not wording.is_english)
        or any(name in values or own.get(name) == _REPAIRED for name in names),
    )


def _terms_of(index: Index, days: Sequence[DateRange]) -> dict[str, DateRange]:
    """Terms that notes have for days of the ranges, each with the shortest of these."""
    every = {
        day_term(each.first + timedelta(number)): each
        for each in sorted(days, key=lambda each: each.days, reverse=True)
        for number in range(each.days if each.days <= _LONGEST_RANGE else 0)
    }
    return {term: every[term] for term in index.frequencies(every)}


def _weigh(
    index: Index, said: Sequence[str], weight: float, weights: dict[str, float], wording: Wording | None = None
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
        for word in strange[:_MOST_REPAIRS]:
            near = _repaired(index, word) or ([] if wording.is_english else _of_one_root(index, stem(word)))
            for term in near:  # any of them may be meant, or none: the word itself is still one that no note has
                weights.setdefault(term, weight * _REPAIRED / len(near))
            if near:
                own[stem(word)] = weight * _REPAIRED
    return own


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
    begin = word[: max(3, math.ceil(_ROOT * len(word)))]
    near = index.beginning(begin, _MOST_FORMS)
    return [term for term in near if len(term) <= len(word) + _ENDING]


def _cjk_share(term: str) -> float:
    if not is_cjk(term):
        return 1.0
    return _CJK_PAIR if STOP_CHARACTERS.isdisjoint(term) else 0.0


_PRONOUN = re.compile(
    r"\b(?:he|she|they|him|her|his|hers|them|their|theirs|it|its|that|this|those|these|there)\b|[他她它那这彼]"
)
_NAME = re.compile(r"(?<=[\w,'’] )(?!I\b)[A-Z][a-z]\w*")  # within the message itself, for a pronoun to mean
_FIRST_NAME = re.compile(r"^[A-Z][a-z]\w*(?=['’]s | (?:is|was|has|had|will|wants|and)\b)")
_ASKS = re.compile(
    r"[?？]|^\s*(?:who|what|when|where|which|why|how|whose|do|does|did|is|are|was|were|has|have|had|can|could|will|would|"
    r"should|tell|remind|show|list|find|any|anything)\b|[吗呢]|什么|怎么|哪|谁|几|多少"
)
_ASKS_WHEN = re.compile(
    r"\bwhen\b|\bwhat (?:date|day|month|year|time)\b|\bhow long\b|什么时候|几[月号点]|哪天|何时|いつ|언제"
)
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|i'd|my|me|mine|myself)\b|我")
_PERSONAL = re.compile(
    r"\b(?:my|mine|ours?|(?:did|have|had|was|were|am|are) (?:i|we)|(?<!how )(?:do|should|will|must) (?:i|we)|"
    r"(?:i|we)(?:'ve|'d| did| have| had| was| were))\b|我"
)
_SELF_WORDS = """
i me my mine we us our ours ich mir mich mein meine meinen meinem meiner wir uns unser unsere unseren unserem je moi
mon ma mes nous notre nos yo mi mis nuestro nuestra nuestros nuestras io mio mia miei mie noi nostro nostra eu meu
minha meus minhas nosso nossa ik mij mijn wij ons onze ben bana beni benim bizim я мне меня мой моя моё мои моего моей
мою моих мы нам нас наш наша наше наши нашего нашей мій моє мої mój moja moje mnie jag mig min mitt mina
"""
_SELF = frozenset(_SELF_WORDS.split())
"""Words for the sender, in whatever language."""
