"""kill -9 at SQL statements all over a firing: nothing is lost and nothing comes twice. `make torture` has each."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.plugins.schedule.victim import fire, killed, killed_in_a_turn, left, resumed


@pytest.mark.parametrize(
    ("story", "texts", "fewest", "step"),
    [
        ("once", 1, 25, 5),
        ("repeat", 1, 25, 7),
        ("list", 1, 40, 11),
        ("nag", 2, 20, 7),
        ("task", 1, 70, 11),
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


@pytest.mark.parametrize("is_late", [False, True], ids=["before the crash", "after it"])
def test_a_reminder_that_fires_in_a_turn_that_is_killed_stands_behind_the_answer_of_the_resumed_one(
    tmp_path: Path, is_late: bool
) -> None:
    """The question, the model's next request, and the answer know nothing of it; the person has it at once."""
    assert killed_in_a_turn(tmp_path, fires=not is_late)
    asked, said, sent = asyncio.run(resumed(tmp_path, fires=is_late))
    assert asked == ["What is on my list?"], "the question is the last that the model reads"
    assert said == ["What is on my list?", "Milk.", "Reminder 1: call Anna"]
    assert [text.partition("\n")[0] for text in sent] == [
        "Reminder 1: call Anna",
        "(I was interrupted in between and went on.)",
    ]
