"""Who wants out of the sandbox comes to nothing, and who doesn't works as without it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nanoclaw.sandbox.sandbox import Encloser
from tests.sandbox.enclosed import attacked, effects, house, lines, run, snapshot, strengths
from tests.sandbox.everyday import compared

at_full = pytest.mark.skipif("full" not in strengths(), reason="this machine has no bubblewrap that works")
at_landlock = pytest.mark.skipif("files+net" not in strengths(), reason="this machine has no Landlock")


@at_full
def test_thirty_attacks_in_a_row_come_to_nothing(tmp_path: Path) -> None:
    async def attack() -> None:
        for line in lines("attacks.txt"):
            ended = await run(Encloser(there.grants, strengths()["full"]), there.grants, there.attack(line))
            assert effects(there, before, ended) == [], line

    with house(tmp_path, 1) as there:
        before = snapshot(there)
        asyncio.run(attack())


@at_landlock
def test_with_landlock_what_can_be_read_changed_and_reached_is_the_same(tmp_path: Path) -> None:
    async def attack() -> None:
        for line in lines("attacks.txt")[::3]:
            ended = await run(Encloser(there.grants, strengths()["files+net"]), there.grants, there.attack(line))
            assert effects(there, before, ended) == [], line

    with house(tmp_path, 2) as there:
        before = snapshot(there)
        asyncio.run(attack())


@pytest.mark.live
@pytest.mark.parametrize("name", ["attacks.txt", "attacks_held_out.txt"])
@pytest.mark.parametrize("level", [one for one in strengths() if one != "none"])
def test_each_attack_alone(tmp_path: Path, level: str, name: str) -> None:
    assert attacked(tmp_path, level, name) == {}


@pytest.mark.live
@pytest.mark.parametrize("level", [one for one in strengths() if one != "none"])
def test_everyday_commands_work_as_without_it(tmp_path: Path, level: str) -> None:
    different = compared(tmp_path, level)
    assert len(different) <= 3, different
