"""Our weighting held against rank_bm25: the same scores, with an inverse document frequency that is never negative."""

import math
import random
from pathlib import Path

import pytest
from rank_bm25 import BM25Okapi

from nanoclaw.plugins.memory.index import Index
from nanoclaw.plugins.memory.recall import K1, B, bm25
from nanoclaw.tokenizer import tokens

WORDS = [f"{first}{second}" for first in ("bark", "gold", "lemon", "tulip", "wren") for second in "abcdefghij"]


def random_lines(seed: int, count: int = 300) -> list[str]:
    """Words as frequent as in any language: the n-th one 1/n as often as the first."""
    rnd = random.Random(seed)
    weights = [1 / (n + 1) for n in range(len(WORDS))]
    return [" ".join(rnd.choices(WORDS, weights, k=rnd.randint(3, 25))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_each_line_has_the_score_that_rank_bm25_gives_it(tmp_path: Path, seed: int) -> None:
    lines = random_lines(seed)
    (tmp_path / "MEMORY.md").write_text("".join(f"- {line}\n" for line in lines))
    index = Index(tmp_path, tmp_path / "index.db")
    index.refresh()
    oracle = BM25Okapi([list(tokens(line)) for line in lines], k1=K1, b=B)
    rare = {term: idf for term, idf in oracle.idf.items() if len(index.postings(term)) < len(lines) / 2}
    assert len(rare) > 40
    for term, idf in rare.items():  # the oracle's is log(x), below 0 for a term of most lines; ours log(1 + x)
        assert index.idf(len(index.postings(term))) == pytest.approx(math.log1p(math.exp(idf)))
    oracle.idf = {term: index.idf(len(index.postings(term))) for term in oracle.idf}
    query = random.Random(seed + 100).sample(sorted({token for line in lines for token in tokens(line)}), 6)
    values = {term: oracle.idf[term] for term in query}
    entries = [
        entry
        for id in sorted({id >> 8 for term in oracle.idf for id in index.postings(term)})
        for entry in index.chunk(id).entries
    ]
    ours = [sum(bm25(entry, values, index.average_length).values()) for entry in entries]
    assert ours == pytest.approx(list(oracle.get_scores(query)))
    index.close()
    assert len(ours) == len(lines)
