"""Each story of kill -9, undisturbed, and killed once and once more at its next start; `make torture` has all kills."""

import pytest

from tests.kills import sample, stories, trial, undisturbed


@pytest.mark.parametrize("name", stories())
def test_wherever_a_program_is_killed_nothing_is_lost_and_nothing_comes_twice(name: str) -> None:
    story = stories()[name]
    whole, broken = undisturbed(story)
    assert not broken, "where nothing disturbs it"
    at = sample(name, whole)
    kills, broken = trial(story, *at)
    assert (kills > 0, broken) == (True, []), f"killed at {at}"
