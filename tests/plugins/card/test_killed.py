"""kill -9 at SQL statements of a turn with a card: nothing of it is done before a yes, after a no, or twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.kills import killed
from tests.plugins.card.victim import ALL, FREE, STORIES, go_on, kept, left, with_command


@pytest.mark.parametrize("story", STORIES)
def test_wherever_a_program_is_killed_the_card_is_done_once_after_the_yes_and_never_without(
    tmp_path: Path, story: str
) -> None:
    statement, died = 31, True
    while died:
        root = tmp_path / str(statement)
        root.mkdir()
        died = killed(go_on(story, root, statement))
        asyncio.run(go_on(story, root, None))
        found = asyncio.run(left(root))
        assert (found.early, found.twice) == (0, 0) and found.cards <= 1, f"killed at statement {statement}"
        if not died:
            assert found.done == (ALL - FREE) * (story == "yes")
        assert story == "yes" or not found.done, f"killed at statement {statement}"
        statement += 131
    assert statement > 200


@pytest.mark.parametrize("story", STORIES)
def test_wherever_a_program_is_killed_nothing_is_half_put_back_or_half_carried_out(tmp_path: Path, story: str) -> None:
    statement, died, begun = 130, True, 0
    while died:
        root = tmp_path / str(statement)
        root.mkdir()
        with_command(root)
        died = killed(go_on(story, root, statement))
        asyncio.run(go_on(story, root, None))
        found = asyncio.run(left(root))
        assert kept(root) in (0, ALL), f"killed at statement {statement}"
        begun += not found.cards  # before the command, or before what it took was noted: it isn't run again
        if found.cards and (story == "no" or not died):  # what was begun after a yes isn't done again
            assert (kept(root) == 0) == (story == "yes"), f"killed at statement {statement}"
        statement += 97
    assert statement > 200 and begun <= 4


@pytest.mark.parametrize("story", STORIES)
def test_wherever_a_program_is_killed_what_a_command_in_the_background_took_away_is_back_or_allowed(
    tmp_path: Path, story: str
) -> None:
    statement, died = 130, True
    while died:
        root = tmp_path / str(statement)
        root.mkdir()
        with_command(root, "behind")
        died = killed(go_on(story, root, statement))
        asyncio.run(go_on(story, root, None))
        found = asyncio.run(left(root))
        assert kept(root) in ((0, ALL) if story == "yes" and found.cards else (ALL,)), f"killed at {statement}"
        assert died or kept(root) == (0 if story == "yes" else ALL)
        assert found.cards <= 1 and not list((root / "home" / "snapshots" / "begun").glob("*"))
        statement += 97
    assert statement > 200
