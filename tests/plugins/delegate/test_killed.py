"""kill -9 at SQL statements of turns with helpers: each report is told once all the same. `make torture` has 300."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.plugins.delegate.victim import STORIES, killed, left


@pytest.mark.parametrize(("story", "second"), [("foreground", None), ("foreground", 40), ("background", None)])
def test_wherever_a_program_is_killed_each_helper_is_told_once(tmp_path: Path, story: str, second: int | None) -> None:
    statement, died = 5, True
    while died:
        root = tmp_path / str(statement)
        root.mkdir()
        died = killed(root, story, statement)
        if died and second:
            killed(root, story, second)
        begun, lost, doubled = asyncio.run(left(root, story))
        assert (lost, doubled) == (0, 0), f"killed at statement {statement}"
        assert begun <= len(STORIES[story][0])
        statement += 67
    assert statement > 120
