"""The system message stays what the context began with, but for what another hand changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nanoclaw.core import prompt_snapshot as openings
from nanoclaw.core.events import Notice
from nanoclaw.plugins.memory.recall import Hit
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.core.house import HandClock, builder_for, house, new_home


def systems(model: ScriptedProvider) -> list[str]:
    return [request.system.text for request in model.requests]


def test_what_the_assistant_itself_writes_changes_nothing_in_the_system_message(tmp_path: Path) -> None:
    model = ScriptedProvider(
        call("write_file", {"path": "SOUL.md", "content": "Dry and exact."}),
        "done",
        call("memory_add", {"text": "Anna is vegetarian", "kind": "fact"}),
        "noted",
        "third",
    )

    async def story() -> None:
        async with house(tmp_path, model) as home:
            for text in ("be dry", "Anna is vegetarian", "and now?"):
                await home.ask(text)

    asyncio.run(story())
    assert len(set(systems(model))) == 1
    assert "Dry and exact." in (tmp_path / "workspace" / "SOUL.md").read_text()


def test_an_edit_by_another_hand_costs_exactly_one_miss_and_brings_all_up_to_date(tmp_path: Path) -> None:
    model = ScriptedProvider(
        call("memory_add", {"text": "Anna is vegetarian", "kind": "fact"}), "noted", "second", "third"
    )

    async def story() -> None:
        async with house(tmp_path, model) as home:
            await home.ask("Anna is vegetarian")
            (home.workspace / "SOUL.md").write_text("You speak like a sailor.")
            await home.ask("second")
            await home.ask("third")

    asyncio.run(story())
    before, _, after, last = systems(model)
    assert "sailor" not in before and "sailor" in after and "vegetarian" in after
    assert after == last


def test_facts_that_another_hand_adds_are_told_once_with_the_next_message_and_cost_no_miss(tmp_path: Path) -> None:
    model = ScriptedProvider(
        "first", call("memory_add", {"text": "Anna is vegetarian", "kind": "fact"}), "noted", "third", "fourth", "fifth"
    )

    async def story() -> None:
        async with house(tmp_path, model) as home:
            facts = home.workspace / "MEMORY.md"
            await home.ask("first")
            await home.ask("Anna is vegetarian")
            facts.write_text(facts.read_text() + "- 2026-03-06: Bob plays the oboe\n")
            await home.ask("third")
            await home.ask("fourth")
            facts.write_text(facts.read_text().replace("oboe", "flute"))
            await home.ask("fifth")

    asyncio.run(story())
    *alike, last = systems(model)
    assert len(set(alike)) == 1 and "oboe" not in alike[0]
    told = [message.text for message in model.requests[4].history if "Note from memory" in message.text]
    assert len(told) == 1 and "Note from memory: MEMORY.md:5: 2026-03-06: Bob plays the oboe\n" in told[0]
    assert "vegetarian" not in told[0], "that is in the conversation already"
    assert "flute" in last and "vegetarian" in last


def test_many_facts_by_another_hand_are_taken_up_as_a_whole(tmp_path: Path) -> None:
    builder = builder_for(new_home(tmp_path), HandClock())
    stored = builder.open().dump()
    (tmp_path / "workspace" / "MEMORY.md").write_text("# Memory\n\n" + "".join(f"- fact {n}\n" for n in range(6)))
    opening, late = builder.reopen(stored, "hello", ())
    assert (opening.files["MEMORY.md"].text.count("fact"), late) == (6, ())


def test_a_fact_is_told_also_where_memory_is_a_link_within_the_workspace(tmp_path: Path) -> None:
    builder = builder_for(new_home(tmp_path), HandClock())
    facts = tmp_path / "workspace" / "MEMORY.md"
    facts.rename(tmp_path / "workspace" / "facts.md")
    facts.symlink_to("facts.md")
    stored = builder.open().dump()
    facts.write_text(facts.read_text() + "- Anna is vegetarian\n")
    _, late = builder.reopen(stored, "hello", ())
    assert [fact.text for fact in late] == ["Anna is vegetarian"]


def test_without_a_memory_section_nothing_is_recalled_or_told_of_memory(tmp_path: Path) -> None:
    note = Hit("memory/2026-03-01.md", 1, 1, None, 9.0, "The dentist said June")
    builder = builder_for(new_home(tmp_path), HandClock(), recall=lambda *asked: [note], off=("memory",))
    opening = builder.open("dentist?")
    assert opening.notes == ()
    (tmp_path / "workspace" / "MEMORY.md").write_text("- Anna is vegetarian\n")
    same, late = builder.reopen(opening.dump(), "dentist?", ())
    assert late == () and builder.build_system_prompt(opening=same) == builder.build_system_prompt(opening=opening)


def test_the_system_message_is_the_same_after_a_restart(tmp_path: Path) -> None:
    first, second = (
        ScriptedProvider(call("write_file", {"path": "SOUL.md", "content": "Dry."}), "a"),
        ScriptedProvider("b"),
    )

    async def story() -> None:
        async with house(tmp_path, first) as home:
            await home.ask("be dry")
        async with house(tmp_path, second) as home:
            await home.ask("still there?")

    asyncio.run(story())
    assert systems(second)[0] == systems(first)[0]


def test_a_stored_opening_that_is_damaged_begins_anew(tmp_path: Path) -> None:
    builder = builder_for(new_home(tmp_path), HandClock())
    for damaged in ("", "{", "[]", "null", '{"files": 1}', builder.open().dump()[:-20]):
        opening, late = builder.reopen(damaged, "hello", ())
        assert (opening, late) == (builder.open("hello"), ())


def test_an_opening_survives_being_stored(tmp_path: Path) -> None:
    opening = builder_for(new_home(tmp_path), HandClock()).open("hello")
    assert openings.load(opening.dump()) == opening


def test_the_person_is_told_once_that_a_file_is_too_long_to_be_seen_whole(tmp_path: Path) -> None:
    model = ScriptedProvider("a", "b", "c")

    async def story() -> list[str]:
        async with house(tmp_path, model) as home:
            (home.workspace / "SOUL.md").write_text("x" * 50_000)
            await home.ask("one")
            await home.ask("two")
            (home.workspace / "SOUL.md").write_text("short")
            await home.ask("three")
            return [event.text for _, event in home.channel.events if isinstance(event, Notice)]

    (notice,) = asyncio.run(story())
    assert "SOUL.md" in notice
