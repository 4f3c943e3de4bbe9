"""Ranking of tools and skills by how well they fit some words: BM25 over name, description and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nanoclaw.tokenizer import tokens

NAME_WEIGHT = 3
"""A word of a name counts as often as so many of a description."""

K1, B = 1.2, 0.6
"""Saturation of repeated words, and how much a long text is held against it."""

_SEAMS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")
"""The places where an identifier is made of several words: snake_case, camelCase, HTMLPage, kebab-case."""


class Candidate(NamedTuple):
    """Something that can be found; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


def ranked(query: str, candidates: Sequence[Candidate]) -> list[int]:
    """Positions of the candidates that share a word with the query, the best first. One that is named by it, whole,
    goes before all."""
    asked = terms(query)
    texts = [terms_of(one) for one in candidates]
    named = query.strip().casefold()
    scores = _scores(texts, asked)
    wanted = set(asked)
    found = [at for at, text in enumerate(texts) if candidates[at].name.casefold() == named or wanted & set(text)]
    return sorted(found, key=lambda at: (candidates[at].name.casefold() != named, -scores[at], at))


def terms(text: str) -> list[str]:
    """Stems of the words in a text, those within identifiers too."""
    return tokens(_SEAMS.sub(" ", text))


def terms_of(one: Candidate) -> list[str]:
    """All that is known of a candidate; words of its name count more."""
    return [*terms(one.name) * NAME_WEIGHT, *terms(one.description), *terms(" ".join(_words(one.parameters)))]


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


def _scores(texts: Sequence[Sequence[str]], asked: Sequence[str]) -> Sequence[float]:
    if not any(texts):
        return [0.0] * len(texts)
    from rank_bm25 import BM25Plus  # brings numpy: 60 M instructions, paid at the first search

    scores: Sequence[float] = BM25Plus(texts, k1=K1, b=B).get_scores(asked)
    return scores
