"""Commands in the background: they run on after the answer, their end is told once, and they end with the program."""

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nanoclaw.core.messages import UserMessage
from nanoclaw.outside_text import inside
from nanoclaw.plugins.shell.output import FILE_BYTES
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, call
from tests.program import HAS_SANDBOX, FakeChannel, Program, assert_legal, results, running


def begin(command: str) -> Say:
    return call("exec", {"command": command, "background": True})


def process(action: str, **arguments: object) -> Say:
    return call("process", {"action": action, **arguments})


GATE = "mkfifo gate; echo waits; cat gate; echo built"
"""Goes on once something is written to the gate."""


def open_gate(program: Program, text: str = "") -> None:
    (program.workspace / "gate").write_text(text)


async def until_it_waits(program: Program, number: int = 1) -> None:
    while not program.rows("SELECT 1 FROM shell_processes") or "waits" not in output(program, number):  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.01)


def processes_waited_for(program: Program) -> int:
    """The number of calls that wait for processes to end."""
    (shell,) = (one for one in program.app.plugins if one.name == "shell")
    return sum(one.claims for one in shell._processes._running.values())  # type: ignore[attr-defined]


def output(program: Program, number: int = 1) -> str:
    ((path,),) = program.rows("SELECT path FROM shell_processes WHERE id = ?", number)
    return str((program.workspace / path).read_text())


def states(program: Program) -> list[tuple[str, str]]:
    return [tuple(row) for row in program.rows("SELECT state, outcome FROM shell_processes ORDER BY id")]


async def test_a_yes_that_the_end_of_the_program_overtook_begins_a_command_at_the_next_start(tmp_path: Path) -> None:
    settings = '[tools]\nask = ["exec"]\n'
    async with running(tmp_path, ScriptedProvider(begin("sleep 600")), settings=settings) as program:
        await program.ask("Go")
        await program.app.conversations.idle()
        program.app.store.db.execute("UPDATE approvals_asks SET answer = 'yes', by = 'owner'")
    async with running(tmp_path, ScriptedProvider("It runs."), wakes=True, after=100) as program:
        assert await program.answer() == "It runs."
        assert results(program.history)[0].text.startswith("Process 1 keeps running")


async def test_the_end_of_a_command_is_told_to_person_and_model_after_talk_went_on(tmp_path: Path) -> None:
    model = ScriptedProvider(begin(GATE), "It builds.", "Fine.", "Your build is done.")
    async with running(tmp_path, model, wakes=True) as program:
        assert await program.ask("Build it, and tell me") == "It builds."
        begun = results(program.history)[0].text
        assert begun.startswith("Process 1 keeps running; its output goes to outputs/process-")
        await until_it_waits(program)
        assert await program.ask("How are you?") == "Fine."
        open_gate(program)
        told = await program.answer()
        said = "Process 1 (`mkfifo gate; echo waits; cat gate; echo built`) has ended after 0 s: exit status 0."
        assert told == f"{said} Its last lines:\n```\nwaits\nbuilt\n```"
        assert await program.answer() == "Your build is done."
        read = [one for one in program.history if isinstance(one, UserMessage) and one.origin == "process"]
        assert [(inside(one.text), one.outside) for one in read] == [(told, "process 1")]
        assert "The person reads this too" in model.requests[-1].history[-2].text
        assert model.requests[-1].history[: len(model.requests[1].history)] == model.requests[1].history
        assert_legal(program.history)
        assert program.channel.sent.empty()
        assert states(program) == [("told", "exit status 0")]
    async with running(tmp_path, wakes=True) as program:
        assert await program.ask("/processes") == f"1 exit status 0: `{GATE}`, output {output_path(program)}"


def output_path(program: Program) -> str:
    return str(program.rows("SELECT path FROM shell_processes")[0][0])


async def test_output_input_and_wait(tmp_path: Path) -> None:
    script = "echo waits; read name; echo hello $name; cat"
    model = ScriptedProvider(begin(script), "Begun.")
    async with running(tmp_path, model, wakes=True) as program:
        await program.ask("Begin")
        await until_it_waits(program)
        path = output_path(program)
        model.add(
            [
                process("output", id=1),
                process("output", id=1),
                process("input", id=1, text="Ada"),
                process("input", id=1, text=""),
                process("wait", id=1),
                process("output", id=1),
                process("input", id=1, text="late"),
                "It has ended.",
            ]
        )
        assert await program.ask("Go on") == "It has ended."
        first, nothing, sent, closed, waited, again, late = (one.text for one in results(program.history)[1:])
        assert first == f"waits\n[process 1: running for 0 s; all of its output: {path}]"
        assert nothing.startswith("(no new output)")
        assert (sent.split()[0], closed) == ("Sent.", "Its input is closed.")
        assert waited == f"hello Ada\n[process 1: exit status 0; all of its output: {path}]"
        assert again.startswith("(no new output)\n[process 1: exit status 0")
        assert late.startswith("process 1 isn't running.")
        assert output(program) == "waits\nhello Ada\n"
        assert states(program) == [("told", "exit status 0")]
        assert program.channel.sent.empty()  # the answer tells it


async def test_the_model_stops_one_and_lists_what_there_is(tmp_path: Path) -> None:
    steps = begin("sleep 600"), begin("sleep 601"), process("stop", id=1), process("list"), "Stopped."
    async with running(tmp_path, ScriptedProvider(*steps, "Bye."), wakes=True) as program:
        assert await program.ask("Try") == "Stopped."
        stopped, listed = (one.text for one in results(program.history)[2:])
        assert "[process 1: was ended; all" in stopped
        assert re.sub(r"outputs/process-\w+\.txt", "O", listed) == (
            "2 running for 0 s: `sleep 601`, output O\n1 was ended: `sleep 600`, output O"
        )
        assert states(program) == [("told", "was ended"), ("running", "")]


async def test_a_stop_leaves_them_and_the_end_that_a_stopped_call_waited_for_is_told(tmp_path: Path) -> None:
    model = ScriptedProvider(begin(GATE), process("wait", id=1), "Well.")
    async with running(tmp_path, model, wakes=True) as program:
        await program.say("Build it")
        await until_it_waits(program)
        while not processes_waited_for(program):  # noqa: ASYNC110 - the model is asked meanwhile
            await asyncio.sleep(0.01)
        assert await program.ask("/stop") == "Stopped."
        assert await program.ask("/processes") == f"1 running for 0 s: `{GATE}`, output {output_path(program)}"
        open_gate(program)
        assert "has ended" in await program.answer()
        assert await program.answer() == "Well."


async def test_the_person_stops_one_and_reads_of_it(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(begin("sleep 600"), "Runs."), wakes=True) as program:
        await program.ask("Sleep")
        assert "no such process" in await program.ask("/processes stop 7")
        assert await program.ask("/processes stop 1") == "Stopping process 1."
        assert await program.answer() == "Process 1 (`sleep 600`) was ended by /processes."
        assert "Process 1 (`sleep 600`) was ended by /processes." in program.history[-1].text


async def test_panic_ends_all_and_it_is_told_when_it_is_over(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(begin("sleep 600"), "Runs."), wakes=True) as program:
        await program.ask("Sleep")
        assert "Everything is frozen" in await program.ask("/panic")
        while states(program)[0][0] == "running":  # noqa: ASYNC110 - another process ends
            await asyncio.sleep(0.01)
        assert program.channel.sent.empty()
        assert await program.ask("/resume") == "Process 1 (`sleep 600`) was ended when everything was stopped."
        assert "Going on" in await program.answer()


async def test_they_end_with_the_program_which_tells_at_its_end_or_the_next_start(tmp_path: Path) -> None:
    channel, model = FakeChannel(), ScriptedProvider(begin("echo $$ > pid; echo waits; sleep 600"), "Runs.")
    without = {"sandbox"}  # so that $$ is a number of this machine
    async with running(tmp_path, model, channel=channel, wakes=True, without=without) as program:
        await program.ask("Sleep")
        await until_it_waits(program)
    assert not Path(f"/proc/{(program.workspace / 'pid').read_text().strip()}").exists()
    async with running(tmp_path, channel=channel, wakes=True) as program:
        assert "was ended when everything was stopped." in await program.answer()
    async with running(tmp_path, channel=channel, wakes=True) as program:
        await program.ask("/processes")
        assert channel.sent.empty()


async def test_one_that_a_killed_program_left_is_not_said_to_run(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(begin("sleep 600"), "Runs."), wakes=True) as program:
        await program.ask("Sleep")
        path = program.rows("SELECT path FROM shell_processes")[0][0]
    with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
        db.execute("UPDATE shell_processes SET state = 'running', outcome = ''")  # as kill -9 leaves it
    async with running(tmp_path, ScriptedProvider(process("output", id=1), "It ended.")) as program:  # as with -m
        await program.answer()  # what was said at its end
        assert await program.ask("/processes") == f"1 was ended: I was stopped while it ran: `sleep 600`, output {path}"
        await program.ask("How far is it?")
        assert results(program.history)[-1].text.startswith("Process 1 was ended: I was stopped while it ran. Its")


async def test_where_nothing_runs_on_they_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(begin("sleep 600"), "No.")) as program:
        await program.ask("Sleep")
        (refused,) = results(program.history)
        assert refused.is_error
        assert "Leave background out" in refused.text
        assert states(program) == []


async def test_input_obeys_the_rules_that_hold_for_commands(tmp_path: Path) -> None:
    forbids = '{"forbids": [{"command": "git push"}]}'
    model = ScriptedProvider(forbids, begin("cat"), process("input", id=1, text="git push"), "Hm.")
    async with running(tmp_path, model, wakes=True) as program:
        await program.ask("/pin Never run `git push`")
        assert await program.ask("Try it") == "Hm."
        refused = results(program.history)[-1]
        assert refused.is_error
        assert "git push" in refused.text
        assert output(program) == ""


async def test_there_are_no_more_than_eight_at_once(tmp_path: Path) -> None:
    model = ScriptedProvider(*(begin("sleep 600") for _ in range(9)), "Enough.")
    async with running(tmp_path, model, wakes=True) as program:
        await program.ask("Sleep")
        assert [one.is_error for one in results(program.history)] == [False] * 8 + [True]
        assert "8 processes run already" in results(program.history)[-1].text


async def test_much_output_keeps_its_beginning_and_its_end_and_a_limit_ends_it_in_words(tmp_path: Path) -> None:
    much = f"echo first; head -c {FILE_BYTES + 500_000} /dev/zero | tr '\\0' x; echo; echo last"
    model = ScriptedProvider(begin(much), process("wait", id=1), "Much.")
    async with running(tmp_path, model, wakes=True) as program:
        assert await program.ask("Go") == "Much."
        waited = results(program.history)[-1].text
        assert waited.startswith("[... 50,49")
        assert "xxx\nlast\n[process 1: exit status 0" in waited
        kept = output(program)
        assert kept.startswith("first\nxxx")
        assert re.search(r"xxx\n\[\.\.\. \d{6} bytes left out \.\.\.\]\nxxx", kept)
        assert kept.endswith("xxx\nlast\n")
        assert len(kept) < FILE_BYTES + 100_000


@pytest.mark.parametrize(
    ("limit", "command", "said"),
    [
        ("PROCESSES = 3", "for n in 1 2 3 4; do sleep 60 & done; wait", "more than 3 processes at once"),
        ("MEMORY_MB = 50", "head -c 90000000 /dev/zero | tail | sleep 60", "used more than 50 MB of memory"),
        ("FILE_MB = 1", "exec yes >much", "killed by SIGXFSZ: a file grew to 1 MB"),
        ("FILE_MB = 1", "yes > much; exit $?", ": a file grew to 1 MB"),
    ],
)
@pytest.mark.parametrize("background", [False, True])
async def test_a_limit_that_ends_a_command_is_said(
    tmp_path: Path, limit: str, command: str, said: str, background: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, value = limit.partition(" = ")
    monkeypatch.setattr(f"nanoclaw.plugins.shell.plugin.{name}", int(value))
    model = ScriptedProvider(call("exec", {"command": command, "background": background}), "Hm.", "Oh.")
    async with running(tmp_path, model, wakes=True) as program:
        await program.ask("Go")
        told = await program.answer() if background else results(program.history)[0].text
        assert said in told


@pytest.mark.skipif(not HAS_SANDBOX, reason="commands run in no sandbox here")
async def test_a_disk_that_is_nearly_full_ends_a_command_in_words(small_disk: Path) -> None:
    model = ScriptedProvider(call("exec", {"command": "head -c 60M /dev/zero > much; sleep 60"}), "Hm.")
    async with running(small_disk / "home", model) as program:
        await program.ask("Go")
        assert "stopped: the disk was nearly full" in results(program.history)[0].text


async def test_an_end_is_no_news_of_a_turn_that_hangs(tmp_path: Path) -> None:
    """It is told to the person at once, and to the model after the turn."""
    hang = Hang("I think")
    async with running(tmp_path, ScriptedProvider(begin(GATE), "Builds.", hang, "Done."), wakes=True) as program:
        await program.ask("Build it")
        await until_it_waits(program)
        await program.say("Think")
        await hang.reached.wait()
        open_gate(program)
        assert "has ended" in await program.answer()
        assert "Stopped." in await program.ask("/stop")
