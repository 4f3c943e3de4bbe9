"""kill -9 at SQL statements around a yes for an hour: it is not lost, nothing comes twice. `make torture` has more."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.kills import killed
from tests.plugins.approvals.victim import Left, go_on, left


def test_wherever_a_program_is_killed_a_yes_for_an_hour_holds_and_nothing_comes_twice(tmp_path: Path) -> None:
    statement, died = 3, True
    while died:
        root = tmp_path / str(statement)
        root.mkdir()
        died = killed(go_on(root, statement))
        asyncio.run(go_on(root, None))
        found = asyncio.run(left(root))
        assert found == Left(True, 1, found.ran, 1, True), f"killed at statement {statement}"
        assert found.ran == 1 or (died and found.ran == 0), f"killed at statement {statement}"
        statement += 47
    assert statement > 47
