"""Projects: what is told, noted and recalled in their conversations, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from nanoclaw.core.events import GoTo
from nanoclaw.core.messages import ToolResult
from nanoclaw.core.plugin import ToolOutput
from nanoclaw.core.tool import tool
from nanoclaw.plugins.projects.plugin import FEW, recalled
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.program import Program, running, tools_plugin

QUEEN = "The queen lives in hive seven."


def seen(model: ScriptedProvider, request: int = -1) -> str:
    return "\n".join(one.text for one in model.requests[request].history)


def opened(program: Program) -> list[str]:
    return [event.chat for _, event in program.channel.events if isinstance(event, GoTo)]


async def test_a_project_brings_its_wishes_and_notes_to_its_conversations_alone(tmp_path: Path) -> None:
    model = ScriptedProvider("Goed.", "Zeven.", "What queen?", "Weer.", "Ja.")
    notes = tmp_path / "workspace" / "projects" / "bees" / "NOTES.md"
    async with running(tmp_path, model) as program:
        assert "PROJECT.md; “Folder: PATH”" in await program.ask("/project new bees Answer in Dutch.")
        await program.ask("Hello")
        assert "in projects/bees" in seen(model) and seen(model).count("Answer in Dutch.") == 1
        rows = {line.split(" | ")[0]: line for line in (await program.ask("/context")).splitlines()}
        assert "| this context | 1 message |" in rows["| The project's wishes"] and "| 3 messages" in rows["| History"]
        notes.write_text("- 2026-03-01: Bought wax.")
        assert await program.ask(f"/project note {QUEEN}") == "Noted in projects/bees/NOTES.md."
        assert notes.read_text() == f"- 2026-03-01: Bought wax.\n- 2026-03-06: {QUEEN}\n"
        await program.ask("Where is she?")
        assert seen(model).count(QUEEN) == 1 and seen(model).count("Answer in Dutch.") == 1
        await program.ask("Where is the queen?", "other")
        assert QUEEN not in seen(model) and "Dutch" not in seen(model)
        assert await program.ask("/project search QUEEN", "other") == f"- bees: 2026-03-06: {QUEEN}"
        assert "- bees: terminal:main ← here" in await program.ask("/project")
        await program.ask("/new")
        await program.ask("And now?")
        assert QUEEN in seen(model) and seen(model).count("Answer in Dutch.") == 1
        assert not [*(tmp_path / "workspace" / "memory").glob("2026*")] and not program.rows(
            "SELECT * FROM memory_flushes"
        )
        await program.ask("/project none")
        (tmp_path / "workspace" / "projects" / "bees" / "PROJECT.md").write_text("Sing.")
        await program.ask("And now?")
        assert "Sing." not in seen(model)


async def test_what_would_go_to_memory_is_sent_to_the_notes_of_the_project(tmp_path: Path) -> None:
    steps = (
        call("memory_add", {"text": QUEEN}),
        call("append_file", {"path": "projects/bees/NOTES.md", "content": "x"}),
    )
    model = ScriptedProvider(*steps, "Kept.", call("memory_add", {"text": QUEEN}), "Kept.")
    async with running(tmp_path, model) as program:
        await program.ask("/project new bees")
        await program.ask("Keep it")
        (refused, _) = [one.text for one in model.requests[2].history if isinstance(one, ToolResult)]
        assert "projects/bees/NOTES.md by append_file" in refused
        await program.ask("Keep it", "other")
        (kept,) = [one.text for one in model.requests[4].history if isinstance(one, ToolResult)]
        assert "project" not in kept


async def test_where_a_conversation_has_begun_another_one_begins(tmp_path: Path) -> None:
    model = ScriptedProvider("Hi.", "Ok.", "Hi.")
    async with running(tmp_path, model) as program:
        await program.ask("Hello")
        assert "`bees` belongs to the project bees. You are there now." in await program.ask("/project new bees Hum.")
        assert opened(program) == ["bees"]
        await program.ask("Hello", "bees")
        assert "Hum." in seen(model)
        await program.ask("/project bees")
        assert opened(program) == ["bees", "bees-2"]
        told = await program.ask("/project note secret")
        assert "in the project of its conversation" in told  # main has none
        for wrong, why in (
            ("/project beez", "Did you mean bees?"),
            ("/project new bees", "already"),
            ("/project new ../x", "one word"),
            ("/project new note", "one word"),
        ):
            assert why in await program.ask(wrong)


async def test_a_folder_that_tools_may_not_open_is_said(tmp_path: Path) -> None:
    (tmp_path / "hives").mkdir()
    settings = f'[files]\nread = ["{tmp_path / "hives"}"]\n'
    async with running(tmp_path / "home", ScriptedProvider(), settings=settings) as program:
        told = await program.ask("/project new bees Folder: /elsewhere")
        assert "Tools may not open /elsewhere: read or write in [files] can name it." in told
        (program.workspace / "projects" / "bees" / "PROJECT.md").write_text(f"- Folder: `{tmp_path / 'hives'}`\n")
        assert "may not open" not in await program.ask("/project")


async def test_others_text_in_its_files_is_told_as_others(tmp_path: Path) -> None:
    async def look() -> ToolOutput:
        """Look at a page."""
        return ToolOutput("Honey costs 9", outside="https://honey.example")

    note = {"path": "projects/bees/NOTES.md", "content": "Honey costs nine.\n"}
    model = ScriptedProvider(call("look", {}), call("append_file", note), "Noted.", "Nine.")
    async with running(tmp_path, model, extra=[tools_plugin(tool(look, reach="none"))]) as program:
        await program.ask("/project new bees")
        await program.ask("Look what honey costs, and note it")
        await program.ask("/new")
        await program.ask("What does honey cost?")
        block = seen(model).partition("[outside ")[2].partition("[end of outside")[0]
        assert "honey.example" in block and "Honey costs nine." in block
        assert seen(model).count("Honey costs nine.") == 1


def test_of_many_notes_those_with_rare_words_of_the_message_come() -> None:
    notes = [f"- note {number} about wax" for number in range(FEW)] + [f"- {QUEEN}", "- wax and honey"]
    assert recalled(notes, "Where does the queen live, about?", lambda line: False)[-1] == f"- {QUEEN}"
    assert recalled(notes, "Where does the queen live?", lambda line: "queen" in line) == []
    assert recalled(notes[-2:], "anything", lambda line: False) == notes[-2:]
