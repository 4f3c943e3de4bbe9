"""Commands in the background: what they take away is told when they end, and /undo brings it back."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.plugins.card.test_card import NAMES, fill, texts, there
from tests.program import running


def behind(command: str) -> Say:
    return call("exec", {"command": command, "background": True})


WAITS = behind("read go; r=rm; $r -f *.txt")
"""Goes on when it gets a line."""


def process(action: str, **given: object) -> Say:
    return call("process", {"action": action, "id": 1, **given})


GO, WAIT = process("input", text="go"), process("wait")
TOLD = "It deletes 5 files (`five.txt`, `four.txt`, `one.txt` and 2 more). /undo brings back what has a copy."


async def test_what_one_took_away_is_told_at_its_end_and_one_undo_brings_all_back(tmp_path: Path) -> None:
    model = ScriptedProvider(behind("r=rm; $r -f *.txt"), "Begun.", "It ended.")
    async with running(tmp_path, model, wakes=True) as program:
        fill(program, *NAMES, *(f"{number:02}.txt" for number in range(55)))
        await program.say("Go")
        assert "It deletes 60 files (`00.txt`" in await program.answer_with("has ended")
        assert not there(program)
        await program.say("/undo")
        await program.answer_with("60 files (00.txt")
        assert len(list(program.workspace.glob("*.txt"))) == 60


async def test_a_call_that_waits_for_the_end_hears_of_it_and_nothing_is_asked(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(WAITS, GO, WAIT, "Fine."), wakes=True) as program:
        fill(program)
        await program.say("Go")
        await program.answer_with("Fine.")
        assert TOLD in texts(program)[2] and not program.rows("SELECT 1 FROM approvals_asks")


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


async def test_a_yes_to_the_words_of_a_command_is_not_told_again(tmp_path: Path) -> None:
    model = ScriptedProvider(behind("rm -rf *.txt .git"), WAIT, "Gone.")
    async with running(tmp_path, model, wakes=True, without={"sandbox"}) as program:
        fill(program, *NAMES, ".git/x")
        await program.say("Go")
        await program.answer_with("Delete 6 files")
        await program.say("yes")
        await program.answer_with("Gone.")
        assert there(program) == [] and "/undo" not in "".join(texts(program))


async def test_what_one_that_is_stopped_took_away_is_told(tmp_path: Path) -> None:
    model = ScriptedProvider(behind("r=rm; $r -f *.txt; echo > gone; sleep 600"), "Begun.")
    async with running(tmp_path, model, wakes=True) as program:
        fill(program)
        await program.say("Go")
        await program.answer_with("Begun.")
        while not (program.workspace / "gone").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await program.say("/processes stop 1")
        assert TOLD in await program.answer_with("was ended by /processes")


async def test_files_that_one_names_to_be_deleted_are_asked_about_and_can_be_brought_back(tmp_path: Path) -> None:
    model = ScriptedProvider(behind("rm -f *.txt"), WAIT, "Gone.")
    async with running(tmp_path, model, wakes=True) as program:
        fill(program)
        await program.say("Go")
        assert "After that /undo brings the files back." in await program.answer_with("Delete 5 files")
        assert len(there(program)) == 5
        await program.say("yes")
        await program.answer_with("Gone.")
        assert there(program) == [] and TOLD in texts(program)[1]
