"""kill -9 at SQL statements of a plan: nothing is done before a yes, lost, or asked twice. `make torture` has more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.kills import killed
from tests.plugins.plan.victim import STORIES, Left, go_on, left


@pytest.mark.parametrize("story", STORIES)
def test_wherever_a_program_is_killed_the_plan_is_asked_about_once_and_carried_out_after_the_yes(
    tmp_path: Path, story: str
) -> None:
    statement, died = 5, True
    while died:
        root = tmp_path / str(statement)
        root.mkdir()
        died = killed(go_on(story, root, statement))
        asyncio.run(go_on(story, root, None))
        found = asyncio.run(left(root))
        assert found == Left(STORIES[story], 1, 0, found.ran, found.steps), f"killed at statement {statement}"
        assert found.ran == (story != "no") or (died and found.ran == 0), f"killed at statement {statement}"
        statement += 71
    assert statement > 100
