"""Each story of kill -9 at three of its statements, and at none; `make torture` has them all."""

from __future__ import annotations

import pytest

from tests.kills import sample, stories, trial, undisturbed


@pytest.mark.parametrize("name", stories())
def test_wherever_a_program_is_killed_nothing_is_lost_and_nothing_comes_twice(name: str) -> None:
    story = stories()[name]
    whole, broken = undisturbed(story)
    assert not broken, "where nothing disturbs it"
    outcomes = {statement: trial(story, statement) for statement in sample(name, whole)}
    assert {statement: broken for statement, (_, broken) in outcomes.items() if broken} == {}
    assert sum(kills for kills, _ in outcomes.values()) >= 2  # the last statements are not the same each time
