"""Ranking of tools and skills by how well they fit some words: BM25 over name, description and parameters."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from nanoclaw.tokenizer import fold, is_cjk, stem, tokens

NAME = 3
"""A word of a name counts as often as so many of a description."""

SYNONYM, SAID = 0.65, 0.3
"""Weight of a word that only means the same, and of what the person said beside the query."""

K1, B = 1.2, 0.6
"""BM25's k1 and b: saturation of repeated words, and penalty for long texts."""

_SEAMS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")
"""The places where an identifier is made of several words: snake_case, camelCase, HTMLPage, kebab-case."""

_EMPTY = """
a an the this that these those of to for from with and or is are was be been by at in into as i me my mine we our you
your it its there their them do does did can could would will please what how when which has have had
"""
_STOP = frozenset(_EMPTY.split())
"""Words that say nothing of a tool; “on” and “off” do."""


class Candidate(NamedTuple):
    """Something that can be found; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class QueryWord(NamedTuple):
    """A word of a query, '' for several in a row that mean something together, and words for the same."""

    term: str
    synonyms: Set[str]


def ranked(query: str, candidates: Sequence[Candidate], said: str = "") -> list[int]:
    """Positions of the candidates that share a word with the query, the best first; what the person `said` decides
    among them. One that is named by the query, whole, goes before all."""
    texts, named = [terms_of(one) for one in candidates], query.strip().casefold()
    is_named = [one.name.casefold() == named for one in candidates]
    scores, beside = _scores(texts, wanted(query), wanted(said))
    found = [at for at, score in enumerate(scores) if score > 0 or is_named[at]]
    return sorted(found, key=lambda at: (not is_named[at], -scores[at] - SAID * beside[at], at))


def terms_of(one: Candidate) -> list[str]:
    """All that is known of a candidate; words of its name count more."""
    return [*terms(one.name) * NAME, *terms(one.description), *terms(" ".join(_words(one.parameters)))]


def terms(text: str) -> list[str]:
    """Stems of the words in a text, those within identifiers too."""
    if not text.isascii() and any(map(is_cjk, text)):
        return tokens(text)
    words = fold(_SEAMS.sub(" ", text)).split()
    return [stem(word) for word in words if word not in _STOP]


def wanted(query: str) -> list[QueryWord]:
    """The words of a query, each with those that mean the same."""
    single, several = _synonyms()
    row = f" {' '.join(fold(_SEAMS.sub(' ', query)).split())} "
    phrases = [QueryWord("", others) for phrase, others in several.items() if f" {phrase} " in row]
    return [*(QueryWord(term, single.get(term, frozenset())) for term in dict.fromkeys(terms(query))), *phrases]


@cache
def _synonyms() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Words that mean the same, by a stem and by several words in a row."""
    single, several = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for line in Path(__file__).with_name("synonyms.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        first, *others = line.split()
        for word in others:
            if "_" in word:
                several[word.replace("_", " ")].add(stem(first))
            else:
                single[stem(word)].add(stem(first))
                single[stem(first)].add(stem(word))
    return dict(single), dict(several)


def _words(schema: object, depth: int = 0) -> Iterator[str]:
    """Names, descriptions and choices of the parameters of a JSON schema, also of those within others."""
    if not isinstance(schema, Mapping) or depth > 4:
        return
    if depth and isinstance(schema.get("description"), str):
        yield schema["description"]
    if isinstance(schema.get("enum"), list):
        yield from (one for one in schema["enum"] if isinstance(one, str))
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        yield str(name)
        yield from _words(inner, depth + 1)
    yield from _words(schema.get("items"), depth + 1)


def _scores(texts: Sequence[Sequence[str]], *queries: Sequence[QueryWord]) -> list[list[float]]:
    """For each query, of each text the sum over the words asked for, each with the best that stands for it."""
    if not any(texts):
        return [[0.0] * len(texts) for _ in queries]
    import numpy
    from rank_bm25 import BM25Plus  # brings numpy: 60 M instructions, paid at the first search

    index = BM25Plus(texts, k1=K1, b=B, delta=0)  # of which no word has a negative weight
    score_of: Callable[[str], Any] = cache(lambda term: index.get_scores([term]))
    sums = []
    for asked in queries:
        total = numpy.zeros(len(texts))
        for term, synonyms in asked:
            weight = SYNONYM if term in index.idf else 1.0  # a word that no tool has stands for what it means
            total += numpy.max([score_of(term), *(weight * score_of(other) for other in synonyms)], axis=0)
        sums.append(total.tolist())
    return sums
