"""Where there is no sandbox a command that names the program's own files is refused, before anybody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from nanoclaw.beneath.reach import Reach
from nanoclaw.plugins.sandbox.own_files import COURTESY, named
from nanoclaw.providers.scripted import ScriptedProvider, call
from nanoclaw.sandbox import sandbox as library
from nanoclaw.sandbox.sandbox import Strength
from tests.examples import examples
from tests.program import FakeChannel, results, running

COMMANDS = examples(__file__, "own_files.jsonl")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    home = tmp_path / "me" / ".nanoclaw"
    (home / "workspace" / "src").mkdir(parents=True)
    for name in ("config.toml", "secrets.env", "state.db", "workspace/notes.txt", "workspace/config.toml"):
        (home / name).touch()
    (home / "workspace" / "link-to-home").symlink_to(home)
    return home


def judged(house: Path, line: str) -> str:
    reach = Reach(house / "workspace", closed=(house,))
    return named(line.format(home=house), reach, {"HOME": str(house.parent), "NANOCLAW_HOME": str(house)})


@pytest.mark.parametrize("line", COMMANDS["names them"])
def test_a_command_that_names_them_is_known(house: Path, line: str) -> None:
    assert judged(house, line)


@pytest.mark.parametrize("line", COMMANDS["harmless"])
def test_others_are_not_touched(house: Path, line: str) -> None:
    assert not judged(house, line)


async def test_it_is_refused_before_the_question_and_that_it_is_a_courtesy_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(library._known, library.facts(), Strength("none", "", ("it needs Linux",)))
    model = ScriptedProvider(
        call("exec", {"command": "cat ../config.toml"}),
        call("exec", {"command": "cat ../config.toml", "background": True}),
        call("exec", {"command": "echo one"}),
        "Hm.",
        call("exec", {"command": "echo two"}),
        "Hm.",
    )
    settings = '[model]\napi_key = "canary-4711-own"\n[sandbox]\nlevel = "files"\n'
    async with running(tmp_path, model, settings=settings, channel=FakeChannel()) as program:
        asked = await program.ask("go")
        refused, again = results(program.history)[:2]
        assert refused.text == again.text and "config.toml belongs to the program" in refused.text
        assert COURTESY in asked and "```\necho one\n```" in asked
        await program.say("yes")
        while await program.answer() != "Hm.":
            pass
        assert "\necho two\n" in (asked := await program.ask("go")) and COURTESY not in asked
        assert "canary-4711" not in str(program.history)


async def test_it_holds_where_commands_run_unasked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(library._known, library.facts(), Strength("none", "", ("it needs Linux",)))
    model = ScriptedProvider(call("exec", {"command": "cat ../config.toml; echo it ran"}), "Hm.")
    async with running(tmp_path, model, settings='[sandbox]\nlevel = "none"\n') as program:
        assert await program.ask("go") == "Hm."
        (refused,) = results(program.history)
        assert "belongs to the program" in refused.text and "it ran" not in refused.text
