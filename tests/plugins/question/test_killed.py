"""kill -9 at SQL statements of a question: no answer is lost, nothing comes twice. `make torture` has more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nanoclaw.core.build import BUILT_IN
from tests.kills import killed
from tests.plugins.question.victim import STORIES, Left, go_on, left

pytestmark = pytest.mark.skipif("approvals" not in BUILT_IN, reason="nobody asks without approvals")


@pytest.mark.parametrize("story", STORIES)
def test_wherever_a_program_is_killed_the_answer_is_there_and_nothing_comes_twice(tmp_path: Path, story: str) -> None:
    statement, died = 3, True
    while died:
        root = tmp_path / str(statement)
        root.mkdir()
        died = killed(go_on(story, root, statement))
        asyncio.run(go_on(story, root, None))
        found = asyncio.run(left(root, story))
        assert found == Left(True, [STORIES[story]], 1, found.ran), f"killed at statement {statement}"
        assert found.ran == (story == "with a call") or (died and found.ran == 0), f"killed at statement {statement}"
        statement += 41
    assert statement > 40
