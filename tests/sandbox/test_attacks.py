"""Who wants out of the sandbox comes to nothing, and who doesn't works as without it."""

import asyncio
from pathlib import Path

import pytest

from nanoclaw.sandbox.sandbox import Encloser
from tests.sandbox.enclosed import attacked, effects, house, lines, run, snapshot, strengths
from tests.sandbox.everyday import compared

at_each_level = pytest.mark.parametrize("level", [one for one in strengths() if one not in ("none", "files")])


@at_each_level
@pytest.mark.parametrize("name", ["attacks.txt", "attacks_more.txt"])
def test_attacks_in_one_sandbox_come_to_nothing(tmp_path: Path, level: str, name: str) -> None:
    """After one another, each in a shell of its own; of the second file some, without those that end the sandbox."""
    tries = lines(name)[2 + 2 * list(strengths()).index(level) :: 6] if "more" in name else lines(name)
    with house(tmp_path, 1) as there:
        before = snapshot(there)
        command = "\n".join(f"({there.attack(one)}\n) < /dev/null" for one in tries)
        ended = asyncio.run(run(Encloser(there.grants, strengths()[level]), there.grants, command))
        assert ended.why == "exited"
        found = effects(there, before, ended)
        assert [one for one in found if level == "full" or not one.endswith("/tree/.git")] == []  # it is moved away


@pytest.mark.live
@pytest.mark.parametrize("name", ["attacks.txt", "attacks_held_out.txt", "attacks_more.txt"])
@pytest.mark.parametrize("level", [one for one in strengths() if one != "none"])
def test_each_attack_alone(tmp_path: Path, level: str, name: str) -> None:
    assert len(attacked(tmp_path, level, name)) <= (level != "full" and name == "attacks.txt")


@pytest.mark.live
@pytest.mark.parametrize("level", [one for one in strengths() if one != "none"])
@pytest.mark.parametrize("name", ["everyday.txt", "everyday_more.txt"])
def test_everyday_commands_work_as_without_it(tmp_path: Path, level: str, name: str) -> None:
    different = compared(tmp_path, level, name)
    assert len(different) <= (3 if level == "full" else 4), different
