"""Commands in the background: what they take away is told by the disk when they end, and is never another one's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from nanoclaw.snapshots.listing import FileLister, changes
from nanoclaw.snapshots.saved import load, save
from tests.plugins.card.test_card import NAMES, fill, texts, there
from tests.program import running, tools_plugin


def behind(command: str) -> Say:
    return call("exec", {"command": command, "background": True})


WAITS = behind("read go; r=rm; $r -f *.txt")
"""Goes on when it gets a line."""


def process(action: str, **given: object) -> Say:
    return call("process", {"action": action, "id": 1, **given})


GO, WAIT, STOP = process("input", text="go"), process("wait"), process("stop")


@pytest.mark.parametrize(("answer", "left"), [("yes", []), ("no", NAMES)])
async def test_too_much_is_put_back_at_the_end_and_asked_about_by_the_turn_that_hears_of_it(
    tmp_path: Path, answer: str, left: list[str]
) -> None:
    model = ScriptedProvider(behind("r=rm; $r -f *.txt"), "Begun.", "It ended.", "Fine.")
    async with running(tmp_path, model, wakes=True) as program:
        fill(program)
        await program.say("Go")
        told = await program.answer_with("has ended")
        assert "Put back as it was: `r=rm; $r -f *.txt` deletes 5 files (`five.txt`, `four.txt`, `one.txt`" in told
        question = await program.answer_with("None of this is done yet")
        assert "1. `r=rm; $r -f *.txt` deletes 5 files" in question
        assert there(program) == NAMES
        await program.say(answer)
        await program.answer_with("Fine.")
        assert there(program) == left
        assert not program.rows("SELECT 1 FROM card_held")
        assert not list((tmp_path / "snapshots" / "begun").iterdir())


@pytest.mark.parametrize("last", [WAIT, STOP])
async def test_a_call_that_hears_of_the_end_asks_in_its_turn(tmp_path: Path, last: Say) -> None:
    async def until_gone() -> str:
        """Wait until the files are gone."""
        while there(program):  # noqa: ASYNC110  (another process takes them away)
            await asyncio.sleep(0.01)
        return "gone"

    steps = [behind("r=rm; $r -f *.txt; sleep 600"), call("until_gone")] if last is STOP else [WAITS, GO]
    model, brought = ScriptedProvider(*steps, last, "Well?", "Gone."), tools_plugin(tool(until_gone, reach="none"))
    async with running(tmp_path, model, wakes=True, extra=[brought]) as program:
        fill(program)
        await program.say("Go")
        assert "deletes 5 files" in await program.answer_with("None of this is done yet")
        assert "It is on the list that the person is asked about next." in texts(program)[2]
        await program.say("yes")
        await program.answer_with("Gone.")
        assert there(program) == []


async def test_what_other_calls_do_meanwhile_is_theirs(tmp_path: Path) -> None:
    steps = [
        behind("read go; r=rm; $r -f five.txt; echo ended > ended"),
        call("exec", {"command": "r=rm; $r one.txt two.txt; echo short > long.md; mv four.txt moved.txt"}),
        call("write_file", {"path": "three.txt", "content": "x" * 390}),
        call("append_file", {"path": "three.txt", "content": "more"}),
        GO,
        WAIT,
    ]
    async with running(tmp_path, ScriptedProvider(*steps, "Fine."), wakes=True) as program:
        fill(program)
        fill(program, "long.md", length=90)
        await program.say("Go")
        await program.answer_with("Fine.")
        assert (program.workspace / "ended").exists()
        assert there(program) == ["three.txt"]
        assert "put back" not in "".join(texts(program))
        assert "five.txt deleted by" in "".join(t for (t,) in program.rows("SELECT text FROM ledger"))
        await program.say("/undo")
        await program.answer_with("put back as before")  # its end may have begun a turn, before anybody waited for it
        assert there(program) == ["three.txt", "five.txt"]


async def test_after_a_yes_to_another_command_its_files_stay_gone(tmp_path: Path) -> None:
    steps = [WAITS, call("exec", {"command": "r=rm; $r -f one.txt two.txt three.txt four.txt"})]
    model = ScriptedProvider(*steps, "Well?", GO, WAIT, "All.", "Over.")
    async with running(tmp_path, model, wakes=True) as program:
        fill(program)
        await program.say("Go")
        assert "or process 1 (`read go; r=rm; $r -f *.txt`) meanwhile," in await program.answer_with("None of this")
        assert there(program) == NAMES
        await program.say("yes")
        await program.answer_with("All.")
        assert there(program) == []
        assert "put back" not in "".join(texts(program)[2:])


async def test_files_that_the_turn_made_and_a_few_others_may_go(tmp_path: Path) -> None:
    make = [call("write_file", {"path": f"{name}.new", "content": "x" * 300}) for name in "abcde"]
    steps = [*make, behind("r=rm; $r -f *.new one.txt two.txt three.txt"), WAIT]
    async with running(tmp_path, ScriptedProvider(*steps, "Fine."), wakes=True) as program:
        fill(program)
        await program.say("Go")
        await program.answer_with("Fine.")
        assert there(program) == NAMES[3:]
        assert not list(program.workspace.glob("*.new"))


async def test_what_is_counted_in_the_turn_counts_for_its_command_in_the_background(tmp_path: Path) -> None:
    steps = [call("exec", {"command": "r=rm; $r one.txt two.txt"}), behind("r=rm; $r -f three.txt four.txt"), WAIT]
    async with running(tmp_path, ScriptedProvider(*steps, "Well?", "Kept."), wakes=True) as program:
        fill(program)
        await program.say("Go")
        assert "deletes 2 files (`four.txt`, `three.txt`)" in await program.answer_with("None of this is done")
        assert there(program) == NAMES[2:]


async def test_a_file_that_was_cut_is_put_back(tmp_path: Path) -> None:
    model = ScriptedProvider(behind("echo new > one.txt"), WAIT, "Well?", "Kept.")
    async with running(tmp_path, model, wakes=True) as program:
        fill(program)
        await program.say("Go")
        assert "overwrites `one.txt`: 400 bytes become 4 bytes" in await program.answer_with("None of this")
        assert (program.workspace / "one.txt").stat().st_size == 400
        await program.say("no")
        await program.answer_with("Kept.")


async def test_a_yes_to_the_words_of_a_command_is_not_asked_for_again(tmp_path: Path) -> None:
    model = ScriptedProvider(behind("rm -rf *.txt .git"), WAIT, "Gone.")
    async with running(tmp_path, model, wakes=True, without={"sandbox"}) as program:
        fill(program, *NAMES, ".git/x")
        await program.say("Go")
        await program.answer_with("Delete 6 files")
        await program.say("yes")
        await program.answer_with("Gone.")
        assert there(program) == []


async def test_what_one_that_is_stopped_took_away_is_put_back_and_told(tmp_path: Path) -> None:
    model = ScriptedProvider(behind("r=rm; $r -f *.txt; echo > gone; sleep 600"), "Begun.")
    async with running(tmp_path, model, wakes=True) as program:
        fill(program)
        await program.say("Go")
        await program.answer_with("Begun.")
        while not (program.workspace / "gone").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await program.say("/processes stop 1")
        told = await program.answer_with("was ended by /processes")
        assert "Put back" in told and "list" not in told
        assert there(program) == NAMES
        assert not program.rows("SELECT 1 FROM card_held")


async def test_of_two_that_run_at_once_each_loss_counts_for_one(tmp_path: Path) -> None:
    second = behind("r=rm; $r -f three.txt four.txt")
    steps = [behind("read go; r=rm; $r -f one.txt two.txt"), second, call("process", {"action": "wait", "id": 2})]
    async with running(tmp_path, ScriptedProvider(*steps, GO, WAIT, "Fine."), wakes=True) as program:
        fill(program)
        await program.say("Go")
        await program.answer_with("Fine.")
        assert there(program) == ["five.txt"]


def test_a_listing_is_the_same_from_disk(tmp_path: Path) -> None:
    root, path = tmp_path / "root", tmp_path / "kept"
    root.mkdir()
    for name in ("a", "b", "c", "d\udcff\n"):
        (root / name).write_text(name * 9, errors="surrogateescape")
    save(path, FileLister().scan([root]), {"free": 3})
    (root / "b").write_text("other")
    (root / "d\udcff\n").unlink()
    (root / "new").touch()
    before, note = load(path)
    found = changes(before, FileLister().scan([root]))
    assert (found.gone, found.changed) == ([str(root / "d\udcff\n")], [str(root / "b")])
    assert (found.new, note) == ([str(root / "new")], {"free": 3})
