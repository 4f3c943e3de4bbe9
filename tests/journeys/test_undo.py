"""/undo and /receipts: what tools did is told by code and taken back, and nobody else's work is overwritten."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from nanoclaw.core.messages import ToolResult, UserMessage
from nanoclaw.core.provider import chat_messages
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Say, ScriptedProvider, Step, call
from tests.journeys.command import Home
from tests.journeys.test_one_answer import calls
from tests.model_server import ModelServer, says
from tests.program import Program, running, tools_plugin

REPOSITORY = Path(__file__).parents[2]
FACTS = "".join(f"- fact number {number}\n" for number in range(20))


def write(path: str, content: str) -> tuple[str, dict[str, object]]:
    return "write_file", {"path": path, "content": content}


def run(
    root: Path,
    story: Callable[[Program, ScriptedProvider], Awaitable[None]],
    *steps: Step,
    clock: Callable[[], datetime] | None = None,
) -> None:
    async def whole() -> None:
        with ScriptedProvider(*steps) as model:
            async with running(root, model, clock=clock) as home:
                await story(home, model)

    asyncio.run(whole())


def test_undo_takes_back_the_newest_change_and_receipts_say_so(tmp_path: Path) -> None:
    async def story(home: Program, model: ScriptedProvider) -> None:
        await home.ask("write it")
        plan = home.workspace / "notes/plan.txt"
        assert await home.ask("/undo") == "notes/plan.txt put back as before (2026-03-06 12:00, edited notes/plan.txt)."
        assert plan.read_text() == "one\n"
        assert await home.ask("/receipts") == (
            "- 2026-03-06 12:00 wrote notes/plan.txt\n- 2026-03-06 12:00 edited notes/plan.txt (undone)"
        )
        assert await home.ask("/receipts 1") == "- 2026-03-06 12:00 edited notes/plan.txt (undone)"
        assert await home.ask("/undo") == "notes/plan.txt removed again (2026-03-06 12:00, wrote notes/plan.txt)."
        assert not plan.exists()
        assert await home.ask("/undo") == "There is nothing to undo in this conversation."

    run(
        tmp_path,
        story,
        Say(
            calls=(
                write("notes/plan.txt", "one\n"),
                ("edit_file", {"path": "notes/plan.txt", "old": "one", "new": "two"}),
            )
        ),
        "Done.",
    )


def test_several_are_taken_back_the_newest_first_and_what_commands_did_is_named(tmp_path: Path) -> None:
    async def story(home: Program, model: ScriptedProvider) -> None:
        await home.ask("go")
        assert (await home.ask("/undo 9")).splitlines() == [
            "a.txt put back as before (2026-03-06 12:00, wrote a.txt).",
            "memory/2026-03-06.md removed again (2026-03-06 12:00, noted “pelican”).",
            "a.txt removed again (2026-03-06 12:00, wrote a.txt).",
            "Not undoable: ran `touch b.txt`.",
            "3 of 9 undone.",
        ]
        assert (home.workspace / "b.txt").exists()
        assert await home.ask("/undo") == (
            "There is nothing to undo in this conversation.\nNot undoable: ran `touch b.txt`."
        )
        assert "takes a number" in await home.ask("/undo all")
        assert "takes a number" in await home.ask("/receipts 0")

    did = (
        write("a.txt", "1"),
        ("memory_add", {"text": "pelican"}),
        ("exec", {"command": "touch b.txt"}),
        write("a.txt", "2"),
    )
    run(tmp_path, story, Say(calls=did), "Done.")


def test_a_file_that_another_hand_changed_since_is_left_alone_and_stands_in_no_ones_way(tmp_path: Path) -> None:
    async def story(home: Program, model: ScriptedProvider) -> None:
        await home.ask("go")
        (home.workspace / "c.txt").write_text("by hand")
        told = (await home.ask("/undo")).splitlines()
        assert told[0].startswith("c.txt was changed by something else since, so its last change")
        assert told[1:] == ["/undo 2 goes on to the change before."]
        assert (home.workspace / "b.txt").exists()
        told = (await home.ask("/undo 2")).splitlines()
        assert told[0] == "b.txt removed again (2026-03-06 12:00, wrote b.txt)."
        assert told[1].startswith("c.txt was changed by something else since")
        assert told[2:] == ["1 of 2 undone."]
        assert (home.workspace / "c.txt").read_text() == "by hand"
        assert (home.workspace / "a.txt").exists()

    run(tmp_path, story, Say(calls=(write("a.txt", "1"), write("b.txt", "1"), write("c.txt", "1"))), "Done.")


def test_each_conversation_undoes_its_own(tmp_path: Path) -> None:
    async def story(home: Program, model: ScriptedProvider) -> None:
        await home.ask("go")
        assert await home.ask("/undo", chat="other") == "There is nothing to undo in this conversation."
        assert await home.ask("/receipts", chat="other") == "Nothing was changed in this conversation."
        assert (home.workspace / "a.txt").exists()

    run(tmp_path, story, Say(calls=(write("a.txt", "1"),)), "Done.")


def test_the_model_is_told_once_of_what_was_undone_and_requests_only_grow(tmp_path: Path) -> None:
    async def story(home: Program, model: ScriptedProvider) -> None:
        await home.ask("remember it")
        await home.ask("/undo")
        await home.ask("what do you know?")
        await home.ask("and now?")
        remarks = [message for message in home.history if isinstance(message, UserMessage) and "Undone" in message.text]
        assert len(remarks) == 1
        assert remarks[0].origin == "runtime"
        assert "Undone by the person, so it is as it was before: noted “likes tea”" in remarks[0].text
        bodies = [chat_messages(request) for request in model.requests]
        for before, after in pairwise(bodies):
            assert after[: len(before)] == before

    fact = {"text": "likes tea", "kind": "fact"}
    run(tmp_path, story, call("memory_add", fact), "Noted.", "Nothing.", "Nothing.")


def test_a_file_of_character_that_was_undone_is_seen_as_it_is_at_the_next_message(tmp_path: Path) -> None:
    async def story(home: Program, model: ScriptedProvider) -> None:
        (home.workspace / "SOUL.md").write_text("You are a pelican.")
        await home.ask("be a stork")
        await home.ask("and?")
        await home.ask("/undo")
        await home.ask("who are you?")
        assert all("You are a pelican." in request.system.text for request in model.requests)
        assert (home.workspace / "SOUL.md").read_text() == "You are a pelican."

    run(tmp_path, story, Say(calls=(write("SOUL.md", "You are a stork."),)), "Done.", "Yes.", "A pelican.")


def test_an_effect_cut_off_by_a_kill_stays_begun_and_is_told_as_such(tmp_path: Path) -> None:
    child = "import sys; from tests.journeys import test_undo; test_undo.die_in_a_tool(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", child, str(tmp_path)], cwd=REPOSITORY, timeout=100)
    assert done.returncode == -signal.SIGKILL

    async def story(home: Program, model: ScriptedProvider) -> None:
        assert "was running and may have been done in part: `pull_the_plug`." in await home.answer()
        assert [result.is_error for result in home.history if isinstance(result, ToolResult)] == [False, True]
        assert await home.ask("/receipts") == (
            "- 2026-03-06 12:00 wrote a.txt\n- 2026-03-06 12:00 used pull_the_plug {} (unknown outcome)"
        )
        assert (await home.ask("/undo")).splitlines() == [
            "a.txt removed again (2026-03-06 12:00, wrote a.txt).",
            "Not undoable: used pull_the_plug {} (unknown outcome).",
        ]

    run(tmp_path, story)


def die_in_a_tool(root: str) -> None:
    """Write a file, then die within another tool of the same answer."""

    async def pull_the_plug() -> str:
        """Ends all."""
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    async def whole() -> None:
        model = ScriptedProvider(Say(calls=(write("a.txt", "1"), ("pull_the_plug", {}))))
        async with running(Path(root), model, extra=[tools_plugin(tool(pull_the_plug))]) as home:
            await home.ask("go")

    asyncio.run(whole())


def test_the_command_line_notes_and_undoes_and_the_chat_hears_of_it(home: Home, server: ModelServer) -> None:
    server.script(calls("memory_add", {"text": "a pelican", "kind": "fact"}), says("Noted."))
    home.run("-m", "remember it")
    facts = home.workspace / "MEMORY.md"
    before = facts.read_text()
    home.run("memory", "add", "--fact", "Likes tea")
    assert "Likes tea" in facts.read_text()
    home.run("memory", "undo")
    assert facts.read_text() == before
    home.run("memory", "undo")
    assert "pelican" not in facts.read_text()
    assert home.run("memory", "log").out.count("undone)") == 2
    server.script(says("Nothing."))
    home.run("-m", "what do you know?")
    assert "Undone by the person" in json.dumps(server.asked[-1].json["messages"])


@pytest.mark.parametrize("as_json", [False, True])
def test_where_nobody_looks_no_receipt_is_shown(home: Home, server: ModelServer, as_json: bool) -> None:
    server.script(calls("write_file", {"path": "a.txt", "content": "x"}), says("Done."))
    ended = home.run("-m", "write", *(["--json"] if as_json else []))
    assert "wrote a.txt" not in ended.out + ended.err
