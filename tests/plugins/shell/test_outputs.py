"""What a command writes beyond what is shown is in a file."""

import asyncio
import re
import tracemalloc

import pytest

from tests.plugins.conftest import Hands


def path_in(text: str) -> str:
    """The path that an output names."""
    found = re.search(r"all of it is in (outputs/\S+?):", text)
    assert found, text[-300:]
    return found[1]


def test_a_command_that_writes_more_than_is_shown_has_all_of_it_in_a_file(hands: Hands) -> None:
    said = hands("exec", command="seq 1 3000")
    assert (hands.root / path_in(said)).read_text().split() == [str(number) for number in range(1, 3001)]
    assert "[exit status 0]" in said


def test_a_command_that_writes_more_than_memory_should_hold_has_all_of_it_in_a_file(hands: Hands) -> None:
    hands("exec", command="true")  # what is imported first is not output
    tracemalloc.start()
    said = hands("exec", command="head -c 30000000 /dev/zero | tr '\\0' x; echo; echo the end")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kept = hands.root / path_in(said)
    assert kept.stat().st_size == 30_000_009
    assert kept.read_bytes().endswith(b"x\nthe end\n")
    assert "the end" in said
    assert len(said) < 11_000
    assert peak < 3_000_000
    assert [path.name for path in kept.parent.iterdir()] == [kept.name], "no draft is left"


def test_a_flood_of_output_is_stopped_and_what_came_is_in_a_file(hands: Hands) -> None:
    said = hands.error("exec", command="yes | head -c 200000000")
    assert "[stopped: more than" in said
    assert (hands.root / path_in(said)).stat().st_size > 60_000_000


async def test_a_command_that_is_stopped_leaves_no_draft(hands: Hands) -> None:
    command = '{"command": "head -c 1000000 /dev/zero; echo > begun; mkfifo gate; cat gate"}'
    running = asyncio.create_task(hands.run("exec", command))
    while not (hands.root / "begun").exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert list((hands.root / "outputs").iterdir()) == []


def test_where_no_file_can_be_made_the_output_is_told_without_one(hands: Hands) -> None:
    (hands.root / "outputs").write_text("a file of the person's")
    for command in ("seq 1 3000", "seq 1 100000"):
        said = hands("exec", command=command)
        assert "the rest could not be kept" in said
        assert "\n3000\n" in said or "\n100000\n" in said
    assert (hands.root / "outputs").read_text() == "a file of the person's"
