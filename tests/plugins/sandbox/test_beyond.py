"""A command that the sandbox keeps from something is run outside of it, where the owner says yes."""

from __future__ import annotations

from pathlib import Path

import pytest

from nanoclaw.core.messages import Inbound, UserMessage
from nanoclaw.plugins.sandbox import wording
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.program import MAIN, Program, new_id, results, running
from tests.sandbox.enclosed import strengths

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
        await program.say("Delete the PDFs in my downloads")
        asked = await program.answer()
        reason = "The model's reason, in its own words: `you want room`"
        assert asked.startswith(f"Delete 3 files in ~/Downloads?\n\n{reason}\n\n")
        assert "\n\n```\nrm ~/Downloads/*.pdf\n```\n" in asked
        await program.say("yes")
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
        assert asked.startswith(f"{BEYOND} {keys}\n\nThe model's") and f"```\ntouch {home}/x\n```" in asked
        await program.say("no")
        await until(program, "Not done.")
        message = UserMessage("Do it", program.clock(), "job")
        await program.deliver(Inbound(MAIN, "me", new_id(), message, role="owner"))
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
    model = ScriptedProvider(
        call("exec", {"command": "read a; echo got $a; cat", "beyond": "it serves you", "background": True}),
        call("process", {"action": "wait", "id": 1}),
        call("process", {"action": "input", "id": 1, "text": "rm x"}),
        "Hm.",
    )
    async with running(tmp_path, model, wakes=True) as program:
        await program.say("Go")
        assert (await program.answer()).startswith("Run this outside of the sandbox in the background? It can")
        await program.say("yes")
        await until(program, "Hm.")
        begun, waited, written = (one.text for one in results(program.history)[-3:])
        assert begun.endswith("[outside of the sandbox]")
        assert waited.startswith("got\n[process 1: exit status 0") and "doesn't run" in written


async def test_without_the_plugin_nothing_is_said_of_it(tmp_path: Path) -> None:
    for name, settings in (("with", ""), ("without", '[plugins]\noff = ["sandbox"]\n')):
        model = ScriptedProvider("Hm.")
        async with running(tmp_path / name, model, settings=settings) as program:
            await program.ask("Go")
        (spec,) = [one for one in model.requests[0].tools if one.name == "exec"]
        assert ("beyond" in spec.parameters["properties"]) == (name == "with")


BEYOND = "Run this outside of the sandbox?"
SENTENCES = {
    "rm ~/Downloads/a.pdf": "Delete the file ~/Downloads/a.pdf?",
    "rm -f ~/Downloads/a.pdf ~/Downloads/b.pdf": "Delete 2 files in ~/Downloads?",
    "rm -rf ~/Downloads": "Delete the folder ~/Downloads, with all that is in it?",
    "rm ~/Downloads/[ab].pdf": "Delete 2 files in ~/Downloads?",
    "rm ~/Downloads/a.pdf notes.md": "Delete 2 files in ~/Downloads and {work}?",
    **dict.fromkeys(
        ("rm ~/Downloads/none", "rm -rf ~/Downloads && rm x", "rm $FILE", "rm '~/Downloads/a.pdf'"), BEYOND
    ),
    **dict.fromkeys(("rm --no-preserve-root -rf /", "git push origin main", "echo a\necho b"), BEYOND),
}


@pytest.mark.parametrize("command", SENTENCES)
def test_the_question_is_a_sentence(tmp_path: Path, command: str) -> None:
    home, _ = person(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.md").touch()
    asked = wording.question(command, "", work, home, is_background=False)
    free = f" {wording.FREE}" if SENTENCES[command].startswith("Run") else ""
    assert asked == SENTENCES[command].replace("{work}", str(work)) + free


SHAPES = {
    "apt install tree": "apt install",
    "apt-get install -y tree jq": "apt-get install -y",
    "docker ps -a": "docker ps -a",
    "systemctl status nginx": "systemctl status",
    "ls -la ~/Downloads": "ls -la",
    "df -h /": "df -h",
    **{command: command for command in ("ps", "ps aux", "ps auxeww", "ps -e -o pid,args", "pgrep -a ssh")},
}
NONE = (
    "git push origin main, npm install x, pip install x, make, docker run -v /:/m x sh, apt install ./x.deb, "
    "dnf install x.rpm, apt install -o DPkg::Pre-Invoke=sh x, apt edit-sources, sudo apt install x, bash -c ls, "
    "python3 x.py, curl x | sh, ls; rm x, ls $(rm x), ls > x, rm -rf x, env ls, A=1 ls, /tmp/ls, ./ls, ls `rm x`, "
    "find . -delete, xargs ls, cat x"
)


@pytest.mark.parametrize(("command", "shape"), [*SHAPES.items(), *((one, "") for one in NONE.split(", "))])
def test_a_yes_covers_only_what_can_do_no_more_than_its_name_says(command: str, shape: str) -> None:
    found = wording.scope(command)
    assert (found.key if found else "") == (f"beyond:{shape}" if shape else "")
    assert found is None or found.lifts_boundary
