"""kill -9 at SQL statements all over a firing: nothing is lost and nothing comes twice. `make torture` has each."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.plugins.schedule.victim import fire, killed, left


@pytest.mark.parametrize(
    ("story", "texts", "fewest", "step"),
    [
        ("once", 1, 10, 1),
        ("repeat", 1, 10, 2),
        ("list", 1, 20, 3),
        ("nag", 2, 10, 2),
        ("task", 1, 20, 3),
    ],
)
def test_wherever_a_firing_is_killed_it_is_sent_once_and_remembered_once(
    tmp_path: Path, story: str, texts: int, fewest: int, step: int
) -> None:
    statement = 0
    while True:
        root = tmp_path / str(statement)
        root.mkdir()
        died = killed(root, story, statement)
        asyncio.run(fire(root, story, None))
        keys, sent, said, states = asyncio.run(left(root))
        assert (len(keys), len(sent), said) == (texts, texts, sent), f"killed at statement {statement}"
        assert set(states) == {"sent"}
        statement += step
        if not died:
            break
    assert statement > fewest
