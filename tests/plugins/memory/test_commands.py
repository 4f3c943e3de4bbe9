"""Notes without a model: written and found at once, also while a turn runs or no model can be reached."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nanoclaw.core.errors import ProviderUnavailable
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from tests.core.house import house

TODAY = "memory/2026-03-06.md"


def test_a_note_is_written_and_found_while_the_model_is_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        hang = Hang()
        async with house(tmp_path, ScriptedProvider(hang)) as here:
            await here.say("think long")
            await hang.reached.wait()
            assert (
                await here.ask("/note The plumber came\nand left")
                == f"Noted in {TODAY}: - 12:00 The plumber came and left"
            )
            assert await here.ask("/search plumber") == f"- {TODAY}:1: 12:00 The plumber came and left"
            assert (here.workspace / TODAY).read_text() == "- 12:00 The plumber came and left\n"

    asyncio.run(scenario())


def test_the_date_of_what_is_found_is_shown_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as here:
            here.workspace.mkdir(exist_ok=True)
            (here.workspace / "MEMORY.md").write_text("- 2026-02-01: Her birthday is in May\n")
            assert await here.ask("/search birthday") == "- MEMORY.md:1: 2026-02-01: Her birthday is in May"

    asyncio.run(scenario())


def test_commands_answer_while_the_model_is_down(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, ScriptedProvider(ProviderUnavailable("down"))) as here:
            assert "I can't reach the model" in await here.ask("hello")
            assert "Noted in" in await here.ask("/note milk is out")
            assert "milk is out" in await here.ask("/search milk")
            assert "nanoclaw under test" in await here.ask("/status")
            assert "identity" in (await here.ask("/context")).lower()
            assert await here.ask("/why")
            assert "Pinned" in await here.ask("/pin Be brief")

    asyncio.run(scenario())


def test_commands_answer_without_any_model(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as here:
            assert "Noted in" in await here.ask("/note milk is out")
            assert "none (there is no model '')" in await here.ask("/status")
            assert await here.ask("/context")
            assert await here.ask("/why")

    asyncio.run(scenario())


def test_a_note_by_hand_can_be_undone_and_the_model_recalls_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedProvider(call("memory_search", {"query": "plumber"}), "He came.")
        async with house(tmp_path, model) as here:
            await here.ask("/note The plumber Hansen came at nine")
            await here.ask("When did the plumber Hansen come?")
            assert "plumber Hansen came at nine" in here.history[-2].text
            assert here.store.rows("SELECT tool, kind, target, state FROM ledger") == [("/note", "note", TODAY, "done")]

    asyncio.run(scenario())


def test_what_cannot_be_noted_or_found_is_said(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as here:
            assert "/note TEXT" in await here.ask("/note")
            assert "/search TEXT" in await here.ask("/search")
            assert "Nothing found" in await here.ask("/search zebra")
            assert "Noted" in await here.ask("/note twice")
            assert "Already noted" in await here.ask("/note twice")
            assert "at most 4,000 characters" in await here.ask(f"/note {'x' * 5000}")

    asyncio.run(scenario())
