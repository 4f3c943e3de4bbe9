"""kill -9 at SQL statements of a process's end: it is told once all the same. `make torture` has each."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.plugins.shell.victim import STORIES, killed, left


@pytest.mark.parametrize("story", STORIES)
def test_wherever_a_program_is_killed_the_end_of_its_process_is_told_once(tmp_path: Path, story: str) -> None:
    statement, died = 0, True
    while died:
        root = tmp_path / str(statement)
        root.mkdir()
        died = killed(root, story, statement)
        person, model = asyncio.run(left(root))
        assert len(model) == 1, f"killed at statement {statement}"
        assert len(person) == 1 or (story == "wait" and not person), f"killed at statement {statement}"
        statement += 17
    assert statement > 50
