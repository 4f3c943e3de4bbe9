"""A command that the sandbox keeps from something is run outside of it, where the owner says yes."""

import asyncio
import re
from pathlib import Path

import pytest

from nanoclaw.core.messages import Inbound, UserMessage
from nanoclaw.plugins.sandbox import wording
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.examples import examples
from tests.net.web_server import reply, serving
from tests.program import MAIN, Program, new_id, results, running
from tests.sandbox.enclosed import strengths

EXAMPLES = examples(__file__, "beyond.jsonl")
at_full = pytest.mark.skipif("full" not in strengths(), reason="this machine has no bubblewrap that works")
at_any = pytest.mark.skipif("none" in strengths(), reason="this machine has no sandbox")


def person(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A home with some downloads, and the environment that says so."""
    home = tmp_path / "person"
    (home / "Downloads").mkdir(parents=True)
    for name in ("a.pdf", "b.pdf", "c.pdf"):
        (home / "Downloads" / name).touch()
    return home, {"HOME": str(home), "PATH": "/usr/bin:/bin"}


async def until(program: Program, said: str) -> None:
    while said not in await program.answer():
        pass


@at_any
async def test_it_is_asked_in_a_sentence_and_runs_as_the_person_after_a_yes(tmp_path: Path) -> None:
    home, environment = person(tmp_path)
    step = call("exec", {"command": "rm ~/Downloads/*.pdf", "beyond": "you want room"})
    model = ScriptedProvider(step, "Done.")
    async with running(tmp_path / "home", model, environment=environment) as program:
        asked = await program.ask("Delete the PDFs in my downloads")
        reason = "The model's reason, in its own words: `you want room`"
        assert asked.startswith(f"Delete 3 files in ~/Downloads?\n\n{reason}\n\n")
        assert "\n\n```\nrm ~/Downloads/*.pdf\n```\n" in asked
        assert "(“Delete 3 files in ~/Downloads?”) wants yes" in await program.ask("/answer 1 perhaps")
        await program.say("/yes 1")
        await until(program, "Done.")
        assert results(program.history)[-1].text == "[exit status 0; outside of the sandbox]"
        assert not list((home / "Downloads").iterdir())


@at_any
async def test_a_no_runs_nothing_and_a_task_is_refused(tmp_path: Path) -> None:
    home, environment = person(tmp_path)
    step = call("exec", {"command": f"touch {home}/x", "beyond": "it says so", "timeout_seconds": 5})
    model = ScriptedProvider(step, "Not done.", step, "Hm.")
    async with running(tmp_path / "home", model, environment=environment) as program:
        await program.say("Go")
        keys = "It can do whatever you may, and read the program's keys."
        asked = await program.answer()
        assert (
            asked.startswith(f"Run this outside of the sandbox? {keys}\n\nThe model's")
            and f"```\ntouch {home}/x\n```" in asked
        )
        await program.say("no")
        await until(program, "Not done.")
        message = UserMessage("Do it", program.clock(), "job")
        inbound = Inbound(MAIN, "me", new_id(), message, role="owner")
        program.app.transactions.write_now(lambda tx: tx.deliver(inbound, program.app.chain.profiles["job"]))
        await until(program, "Hm.")
        assert results(program.history)[-1].text.startswith("not run: a command can leave the sandbox only")
        assert not (home / "x").exists()


@at_any
async def test_what_was_not_done_is_not_told_as_done_and_can_be_asked_for(tmp_path: Path) -> None:
    home, environment = person(tmp_path)
    kept = ("rm -rf ~/Downloads", "echo hi > ~/x", "rm -rf $HOME/Downloads/a.pdf; true", "cd ~ && rm Downloads/*")
    closed = ("curl -s https://example.org/x", "git config --global user.name Bob", "ls ~/Downloads", "touch /usr/x")
    seen = ("ls nowhere", "cat ~/nowhere", "exit 3", 'mkdir "$XDG_CACHE_HOME"')
    model = ScriptedProvider(*(call("exec", {"command": one}) for one in (*kept, *closed, *seen)), "Hm.")
    async with running(tmp_path / "home", model, environment=environment) as program:
        await program.ask("Go")
        ended = [(one.is_error, "`beyond` asks the person for more" in one.text) for one in results(program.history)]
    assert ended == [(True, True)] * 8 + [(True, False)] * 3 + [(False, False)]
    assert len(list((home / "Downloads").iterdir())) == 3


@at_any
async def test_in_the_background_it_reads_nothing_that_nobody_was_asked_about(tmp_path: Path) -> None:
    command = "read a; echo got $a > heard; cat; mv heard read; sleep 1000"
    model = ScriptedProvider(
        call("exec", {"command": command, "beyond": "it serves you", "background": True}),
        call("process", {"action": "input", "id": 1, "text": "rm x"}),
        "Hm.",
    )
    async with running(tmp_path, model, wakes=True) as program:
        await program.say("Go")
        assert (await program.answer()).startswith("Run this outside of the sandbox in the background? It can")
        await program.say("yes")
        await until(program, "Hm.")
        begun, written = (one.text for one in results(program.history)[-2:])
        assert begun.endswith("[outside of the sandbox]")
        assert "its input is closed" in written
        while not (read := program.workspace / "read").exists():  # noqa: ASYNC110  (another process makes it)
            await asyncio.sleep(0.01)
        assert read.read_text() == "got\n"


async def test_without_the_plugin_nothing_is_said_of_it(tmp_path: Path) -> None:
    for name, settings in (("with", ""), ("without", '[plugins]\noff = ["sandbox"]\n')):
        model = ScriptedProvider("Hm.")
        async with running(tmp_path / name, model, settings=settings) as program:
            await program.ask("Go")
        (spec,) = [one for one in model.requests[0].tools if one.name == "exec"]
        assert ("beyond" in spec.parameters["properties"]) == (name == "with")


@pytest.mark.parametrize(("command", "sentence"), EXAMPLES["sentences"])
def test_the_question_is_a_sentence(tmp_path: Path, command: str, sentence: str) -> None:
    home, _ = person(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.md").touch()
    asked = wording.question(command, "", work, home, is_background=False)
    free = f" {wording.FREE}" if sentence.startswith("Run") else ""
    assert asked == sentence.replace("{work}", str(work)) + free


@pytest.mark.parametrize(("command", "shape"), EXAMPLES["shapes"])
def test_a_yes_covers_only_what_can_do_no_more_than_its_name_says(command: str, shape: str) -> None:
    found = wording.scope(command)
    assert (found.key if found else "") == (f"beyond:{shape}" if shape else "")
    assert found is None or found.lifts_boundary


@at_any
async def test_a_word_that_looks_like_a_place_is_no_failure(tmp_path: Path) -> None:
    _, environment = person(tmp_path)
    works = ("echo ~/Downloads > notes; grep -c ~/Downloads notes", "echo 'it is in ~/Downloads/a.pdf'")
    fails = ("cat ~/Downloads/a.pdf 2>/dev/null; true", "rm ~/Downloads/a.pdf || true")
    model = ScriptedProvider(*(call("exec", {"command": one}) for one in (*works, *fails)), "Hm.")
    async with running(tmp_path / "home", model, environment=environment) as program:
        await program.ask("Go")
        told = [(one.is_error, "is outside of it, so it was neither" in one.text) for one in results(program.history)]
    assert told == [(False, False)] * 2 + [(True, True)] * 2


@at_any
async def test_a_place_that_a_command_only_reads_is_opened_for_it_alone(tmp_path: Path) -> None:
    home, environment = person(tmp_path)
    (home / "Documents").mkdir()
    (home / "Documents" / "a").write_text("the letter\n")
    steps = ("cat ~/Documents/a", "cat ~/Documents/a | head -1", "ls ~/Documents")
    model = ScriptedProvider(*(call("exec", {"command": one, "beyond": "you asked"}) for one in steps), "Done.")
    async with running(tmp_path / "home", model, environment=environment) as program:
        asked = await program.ask("What does it say?")
        assert asked.startswith("Let this command read ~/Documents/a? It stays in the sandbox.\n\nThe model's")
        assert "3. Yes always: commands that read ~/Documents/a" in asked
        await program.say("yes for an hour")
        await until(program, "read ~/Documents?")
        await program.say("no")
        await until(program, "Done.")
        told = [one.text for one in results(program.history)]
    assert all(one.startswith("the letter\n[exit status 0; in the sandbox") for one in told[:2]), told


@at_full
async def test_the_servers_of_a_command_are_opened_for_it_alone(tmp_path: Path) -> None:
    _, environment = person(tmp_path)
    async with serving(reply(b"hello"), reply(b"hello")) as (address, asked):
        place = address.removeprefix("http://")
        steps = (f"curl -s {address}/a", f"curl -s {address}/b; curl -s http://127.0.0.1:9/", f"curl -s {address}/c")
        model = ScriptedProvider(
            call("exec", {"command": steps[0]}),
            *(call("exec", {"command": one, "beyond": "you asked"}) for one in steps),
            "Done.",
        )
        async with running(tmp_path / "home", model, environment=environment) as program:
            first = await program.ask("Fetch it")
            assert first.startswith(f"Let this command reach {place}? It stays in the sandbox. What is in the work")
            await program.say("yes always")
            await until(program, f"Let this command reach {place} and 127.0.0.1:9?")
            await program.say("no")
            await until(program, "Done.")
            told = [one.text for one in results(program.history)]
    assert len(asked) == 2 and told[0].endswith("no network; `beyond` asks the person for more]")
    assert ["hello" in one for one in told] == [False, True, False, True], told


@at_full
async def test_what_was_opened_and_not_enough_can_leave_the_sandbox(tmp_path: Path) -> None:
    _home, environment = person(tmp_path)
    step = call("exec", {"command": "curl -so ~/page http://127.0.0.1:9/", "beyond": "you asked"})
    async with running(tmp_path / "home", ScriptedProvider(step, step, "Hm."), environment=environment) as program:
        assert (await program.ask("Fetch it")).startswith("Let this command reach 127.0.0.1:9?")
        await program.say("yes")
        await until(program, "Run this outside of the sandbox?")
        await program.say("no")
        await until(program, "Hm.")
        assert "of the network only 127.0.0.1:9; `beyond` asks" in results(program.history)[0].text


@pytest.mark.parametrize(("command", "words"), EXAMPLES["opened"])
def test_what_is_enough_is_read_from_the_command(tmp_path: Path, command: str, words: str) -> None:
    named = re.findall(r"(?:~|\$HOME)/Downloads[^ *]*", command)
    found = wording.opening(command, {one.rstrip("/"): tmp_path / one for one in named})
    assert (found.words if found else "") == words


@pytest.mark.parametrize(("command", "is_one"), EXAMPLES["settings of git"])
def test_an_hours_yes_for_settings_of_git_covers_the_harmless_ones(command: str, *, is_one: bool) -> None:
    assert (wording.scope(command) is not None) == is_one
