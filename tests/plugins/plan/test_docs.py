"""The examples of docs/plan.md work as they are shown."""

import re
import shlex
from pathlib import Path

from nanoclaw.commands.plugins import as_said
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.program import REPOSITORY, results, running

PAGE = (REPOSITORY / "docs" / "plan.md").read_text()
_BLOCKS = re.findall(r"^```(\w*)\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)
SAID, QUESTION, STEPS = (text for language, text in _BLOCKS if not language)


async def test_the_example_works_as_it_is_shown(tmp_path: Path) -> None:
    plan = QUESTION.split("\n\n")[1]
    acts = Say(
        "", (("write_file", {"path": "final.txt", "content": "words"}, "a"), ("exec", {"command": "rm draft.txt"}, "b"))
    )
    model = ScriptedProvider(
        call("read_file", {"path": "draft.txt"}),
        acts,
        call("call_tool", {"name": "exit_plan_mode", "arguments": {"plan": plan}}),
        call("exit_plan_mode", {"plan": f"{plan}\n3. Not: draft.txt stays"}),
        acts,
        "It is final.txt from here on?",
    )
    async with running(tmp_path, model) as program:
        draft, final = program.workspace / "draft.txt", program.workspace / "final.txt"
        draft.write_text("words")
        assert await program.ask(SAID) == QUESTION
        words = re.findall("`/answer 1 (.*)`: the model", PAGE)[0]
        assert await program.ask(f"/answer 1 {words}") == "OK."
        assert "3. Not: draft.txt stays" in await program.answer()
        assert words in results(program.history)[3].text
        assert draft.exists() and not final.exists()
        await program.ask("Okay, go ahead")
        await program.answer()
        assert final.read_text() == "words" and not draft.exists()
        assert (await program.ask("/plan show")).startswith(plan)


async def test_the_list_looks_as_it_is_shown_and_the_task_is_one_that_shows_its_plan(tmp_path: Path) -> None:
    steps = [step[2:] for step in STEPS.splitlines()[1:]]
    model = ScriptedProvider(call("todo", {"steps": steps, "done": [1], "doing": 2}), "Which one?")
    async with running(tmp_path, model) as program:
        await program.ask("Compare them")
        assert await program.ask("/todo") == STEPS
        (command,) = re.findall(r"^```sh\nnanoclaw (.*)\n```$", PAGE, re.MULTILINE)
        name, *words = shlex.split(command)
        assert "is set" in await program.ask(f"/{name} {as_said(name, words)}")
        assert "is set" in await program.ask(re.findall("`(/jobs add .*)`", PAGE)[0])
        assert program.rows("SELECT kind, plans FROM jobs") == [("task", 1), ("task", 1)]
