"""The plan card: what goes far is collected, shown as one list, and exactly that is done after one yes."""

from __future__ import annotations

from pathlib import Path

import pytest

from nanoclaw.core.events import Receipt
from nanoclaw.core.messages import Address, CheckedCall, Inbound, UserMessage
from nanoclaw.core.plugin import Plugin, Refuse, Turn, Verdict
from nanoclaw.plugins.card.plugin import NOTED, SAID_NO
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.program import NOON, FakeChannel, HandClock, Program, assert_legal, new_id, results, running

NAMES = [f"{name}.txt" for name in ("one", "two", "three", "four", "five")]


def fill(program: Program, *names: str, length: int = 400) -> None:
    for name in names or NAMES:
        (program.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (program.workspace / name).write_text("x" * length)


def rm(name: str) -> Say:
    return call("exec", {"command": f"rm {name}"})


def there(program: Program) -> list[str]:
    return [name for name in NAMES if (program.workspace / name).exists()]


def texts(program: Program) -> list[str]:
    return [one.text for one in results(program.history)]


ONE_BY_ONE: list[Say | str] = [*map(rm, NAMES), call("write_file", {"path": "done.md", "content": "done"}), "Noted."]
CARD = (
    "1. `rm four.txt` deletes 1 file (`four.txt`)\n"
    "2. `rm five.txt` deletes 1 file (`five.txt`)\n\n"
    "None of this is done yet. Shall I do exactly this? After that /undo brings the files back.\n\n"
    "```\ndelete four.txt\ndelete five.txt\n```"
)


async def test_from_the_fourth_deletion_on_all_is_put_back_and_one_yes_does_exactly_that(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(*ONE_BY_ONE, "All gone.")) as program:
        fill(program)
        assert (await program.ask("Delete them one by one")).startswith(CARD)
        assert there(program) == ["four.txt", "five.txt"]
        assert texts(program)[3].endswith(f"[put back as it was: this command deletes 1 file (`four.txt`). {NOTED}]")
        assert (program.workspace / "done.md").read_text() == "done"
        assert "going ahead" in await program.ask("yes")
        assert await program.answer() == "All gone."
        assert there(program) == []
        told = [line.partition(" ")[2][17:] for line in (await program.ask("/receipts")).splitlines()]
        assert told.count("four.txt deleted by `rm four.txt`") == 1
        assert "ran `rm four.txt` (what it deleted was put back)" in told
        *_, noted, asked, yes, _, answer = [line[19:] for line in (await program.ask("/history")).splitlines()]
        assert (
            noted == "nanoclaw: Noted. [file_changes rm four.txt; rm five.txt]" and "Shall I do exactly this?" in asked
        )
        assert (yes, answer) == ("you: yes", "nanoclaw: All gone.")
        assert texts(program)[6:] == ["Done with 1 of 1 files\nDone with 1 of 1 files"]
        assert len(program.rows("SELECT 1 FROM approvals_asks")) == 1
        assert not program.rows("SELECT 1 FROM card_held")
        assert_legal(program.history)


async def test_a_no_does_nothing_and_what_goes_far_is_not_collected_again(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(*ONE_BY_ONE, rm("four.txt"), "Kept.")) as program:
        fill(program)
        await program.ask("Delete them one by one")
        assert "Question 1 is open, and nothing of it is done: /yes 1 does it" in await program.ask("/undo")
        assert (program.workspace / "done.md").exists()
        await program.ask("/no 1")
        assert await program.answer() == "Kept."
        assert there(program) == ["four.txt", "five.txt"]
        assert "the person said no" in texts(program)[6]
        assert texts(program)[7].endswith(f"`four.txt`). {SAID_NO}]")


async def test_what_was_put_back_is_nobody_elses_text_though_the_turn_has_read_some(tmp_path: Path) -> None:
    both = call("exec", {"command": "rm *.txt; echo new > new.md"})
    async with running(tmp_path, ScriptedProvider(both, "Kept.", "Kept.")) as program:
        fill(program)
        await program.ask("/ran curl example.org\nA page says: Hello there, all of you.")
        await program.ask("Delete them")
        assert "waiting for your answer to question 1" in str(program.channel.events)
        await program.ask("no")
        assert await program.answer() == "Kept."
        assert there(program) == NAMES
        assert [event.text for _, event in program.channel.events if isinstance(event, Receipt)] == [
            "put back what 1 command deleted"
        ]
        assert "- new.md: " in (marked := await program.ask("/taint")) and ".txt" not in marked


async def test_time_over_does_nothing(tmp_path: Path) -> None:
    clock = HandClock()
    async with running(tmp_path, ScriptedProvider(*ONE_BY_ONE, "Kept."), clock=clock) as program:
        fill(program)
        await program.ask("Delete them one by one")
        clock.now = NOON.replace(hour=13)
        program.public("approvals").expire()
        assert await program.answer() == "Kept."
        assert there(program) == ["four.txt", "five.txt"]


async def test_a_card_waits_over_a_restart_and_the_yes_of_the_next_process_does_it(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with running(tmp_path, ScriptedProvider(*ONE_BY_ONE), channel=channel) as program:
        fill(program)
        await program.ask("Delete them one by one")
    async with running(tmp_path, ScriptedProvider("All gone.")) as program:
        assert there(program) == ["four.txt", "five.txt"]
        await program.ask("/yes 1")
        assert await program.answer() == "All gone."
        assert there(program) == []


@pytest.mark.parametrize(
    ("command", "did"),
    [
        ("rm -r photos", "deletes 6 files (`photos/0.jpg`, `photos/1.jpg`, `photos/2.jpg` and 3 more)"),
        ("r=rm; $r *.txt", "deletes 5 files (`five.txt`, `four.txt`, `one.txt` and 2 more)"),
        ("python3 -c 'import os; [os.unlink(p) for p in os.listdir() if p[-4:] == \".txt\"]'", "deletes 5 files"),
        ("echo > long.md", "takes away most of 1 file (`long.md`)"),
        ("ln -sf one.txt long.md", "takes away most of 1 file (`long.md`)"),
        ("rm -r photos; echo > photos", "deletes 6 files"),
    ],
)
async def test_what_a_command_took_away_is_put_back_and_one_yes_does_it_without_running_it_again(
    tmp_path: Path, command: str, did: str
) -> None:
    ran = call("exec", {"command": f"echo . >> ran.log; {command}"})
    async with running(tmp_path, ScriptedProvider(ran, "Look at the list.", "Done.")) as program:
        fill(program)
        fill(program, *(f"photos/{n}.jpg" for n in range(6)))
        fill(program, "long.md", length=3000)
        (program.workspace / "long.md").chmod(0o640)
        before = state(program)
        question = await program.ask("Go")
        assert did in question and "\n\nNone of this is done yet. Shall I do exactly this? " in question
        assert state(program) == before
        assert "[put back as it was: this command" in texts(program)[0]
        await program.ask("yes")
        assert await program.answer() == "Done."
        assert state(program) != before
        assert (program.workspace / "ran.log").read_text() == ".\n"
        assert not any(one.is_error for one in results(program.history))
        assert (program.workspace / "photos").exists() == (not command.startswith("rm -r photos"))
        await program.ask("/undo 12")
        assert state(program).keys() == before.keys()


def state(program: Program) -> dict[str, tuple[bytes, int]]:
    """Content and mode of all that was there before."""
    paths = (path for pattern in ("*.txt", "*.md", "photos/*.jpg") for path in program.workspace.glob(pattern))
    return {str(path): (path.read_bytes(), path.lstat().st_mode) for path in paths if path.name != "ran.log"}


async def test_most_of_a_file_is_taken_away_after_a_yes(tmp_path: Path) -> None:
    some, most = (call("write_file", {"path": "x/../long.md", "content": "x" * count}) for count in (1600, 100))
    async with running(tmp_path, ScriptedProvider(some, most, "Done.")) as program:
        fill(program, "long.md", length=3000)
        asked = await program.ask("Go")
        assert "Take away more than half of `x/../long.md`? /undo brings it back." in asked
        assert (program.workspace / "long.md").stat().st_size == 1600
        await program.ask("yes")
        assert (await program.answer()).startswith("Done.")
        assert (program.workspace / "long.md").stat().st_size == 100


async def test_what_the_turn_itself_made_may_go_and_so_may_small_and_remade_things(tmp_path: Path) -> None:
    steps: list[Say | str] = [
        call("exec", {"command": "mkdir new; for n in 1 2 3 4 5 6; do echo $n > new/$n; done"}),
        call("exec", {"command": "rm -r new node_modules"}),
        call("write_file", {"path": "draft.md", "content": "x" * 3000}),
        call("write_file", {"path": "draft.md", "content": "short"}),
        call("write_file", {"path": "tiny.txt", "content": "y"}),
        "Well?",
    ]
    async with running(tmp_path, ScriptedProvider(*steps)) as program:
        fill(program, "tiny.txt", length=40)
        fill(program, *(f"node_modules/{n}.js" for n in range(9)))
        assert (await program.ask("Go")).startswith("Well?")
        assert not any(one.is_error for one in results(program.history)), texts(program)


async def test_a_message_to_a_new_person_is_asked_about_while_nothing_else_is(tmp_path: Path) -> None:
    settings = '[channels.telegram]\ntoken = "1:a"\nallow_from = ["555"]\n'
    send = call("message", {"to": "telegram:555", "text": "Hello"})
    chat = FakeChannel("telegram")
    async with running(tmp_path, ScriptedProvider(send, "Sent."), settings=settings, others=[chat]) as program:
        await program.ask("/elevated 30m")
        asked = await program.ask("Greet them")
        assert "Write to `telegram:555`, to whom you have not written before?" in asked
        assert chat.sent.empty()
        await program.ask("yes")
        assert await program.answer() == "Sent."
        assert chat.sent.get_nowait().text == "Hello"


class Judge(Plugin):
    """Refuses it by the time that it is made."""

    name = "judge"

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        return Refuse("never") if call.name == "file_changes" else None


async def test_what_is_carried_out_passes_the_gate_again(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(*ONE_BY_ONE, "Well?"), extra=[Judge]) as program:
        fill(program)
        await program.ask("Go")
        assert there(program) == ["four.txt", "five.txt"]
        assert texts(program)[6] == "never"


async def test_elevated_time_does_not_lift_the_card(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(call("exec", {"command": "rm *.txt"}), "Well?")) as program:
        fill(program)
        await program.ask("/elevated 30m")
        assert "deletes 5 files" in await program.ask("Go")
        assert there(program) == NAMES


async def test_where_nobody_can_say_yes_it_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(*ONE_BY_ONE[:4], "Well?")) as program:
        fill(program)
        inbound = Inbound(Address("terminal", "main"), "", new_id(), UserMessage("Go", NOON, "job"), role="owner")
        await program.app.transactions.write(lambda tx: tx.deliver(inbound, program.app.chain.profiles["job"]))
        await program.app.conversations.of(Address("terminal", "main")).idle()
        await program.answer()
        assert there(program) == ["four.txt", "five.txt"]
        refused = texts(program)[3]
        assert "put back as it was: this command deletes 1 file (`four.txt`)" in refused
        assert "nobody is there to ask" in refused


async def test_a_turn_that_ends_otherwise_says_what_is_not_done(tmp_path: Path) -> None:
    settings = "[limits]\nrounds = 4\n"
    async with running(tmp_path, ScriptedProvider(*ONE_BY_ONE), settings=settings) as program:
        fill(program)
        said = await program.ask("Go")
        assert "none of it was done:\n1. `rm four.txt` deletes 1 file (`four.txt`)" in said
        assert there(program) == ["four.txt", "five.txt"]
        assert not program.rows("SELECT 1 FROM card_held")
