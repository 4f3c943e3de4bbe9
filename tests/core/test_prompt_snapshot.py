"""The system message stays what the context began with, but for what another hand changes."""

from pathlib import Path

from nanoclaw.core import prompt_snapshot
from nanoclaw.core.events import Notice
from nanoclaw.core.plugin import PERSON, Host, Plugin, Profile, Section, Tool
from nanoclaw.core.provider import chat_tools
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.core.builders import builder_for
from tests.core.small_files import small_file_tools
from tests.program import bare


class Pins(Plugin):
    """A section of what stands in a table of its own, which a tool fills; its version is the same however the tool
    changes it, and another one where another hand does."""

    name = "pins"

    def __init__(self, host: Host, settings: None) -> None:
        self._pins: list[str] = []
        self._by_hand: list[str] = []
        self.public = self._by_hand

    def tools(self) -> list[Tool]:
        async def pin(text: str) -> str:
            """Keeps a text."""
            self._pins.append(text)
            return "kept"

        return [tool(pin, reach="workspace")]

    def sections(self, query: str, profile: Profile) -> list[Section]:
        return [Section("pins", "Pins", " ".join(self._pins + self._by_hand), version=f"{len(self._by_hand)}")]


def systems(model: ScriptedProvider) -> list[str]:
    return [request.system.text for request in model.requests]


async def test_what_the_assistant_itself_writes_changes_nothing_in_the_system_message(tmp_path: Path) -> None:
    model = ScriptedProvider(
        call("write_file", {"path": "SOUL.md", "content": "Dry and exact."}),
        "done",
        call("pin", {"text": "Anna is vegetarian"}),
        "noted",
        "third",
    )
    tools = small_file_tools(tmp_path / "workspace")
    async with bare(tmp_path, model, tools=tools, plugins=[Pins]) as program:
        for text in ("be dry", "Anna is vegetarian", "and now?"):
            await program.ask(text)
    assert len(set(systems(model))) == 1
    assert "Dry and exact." in (tmp_path / "workspace" / "SOUL.md").read_text()


async def test_an_edit_by_another_hand_costs_exactly_one_miss_and_brings_all_up_to_date(tmp_path: Path) -> None:
    model = ScriptedProvider(call("pin", {"text": "Anna is vegetarian"}), "noted", "second", "third")
    async with bare(tmp_path, model, plugins=[Pins]) as program:
        await program.ask("Anna is vegetarian")
        (program.workspace / "SOUL.md").write_text("You speak like a sailor.")
        await program.ask("second")
        await program.ask("third")
    before, _, after, last = systems(model)
    assert "sailor" not in before and "sailor" in after and "vegetarian" in after
    assert after == last


async def test_a_section_that_another_hand_changed_is_taken_up_at_the_next_message(tmp_path: Path) -> None:
    model = ScriptedProvider("first", "second", "third")
    async with bare(tmp_path, model, plugins=[Pins]) as program:
        await program.ask("first")
        program.public("pins").append("Never mention elephants.")
        await program.ask("second")
        await program.ask("third")
    assert ["elephants" in system for system in systems(model)] == [False, True, True]


def test_a_section_that_is_switched_off_costs_nothing_when_it_changes(tmp_path: Path) -> None:
    pins = Pins(None, None)  # type: ignore[arg-type]
    builder = builder_for(tmp_path, plugins=[pins], off=("pins",))
    begun = builder.begin("hello")
    pins.public.append("Never mention elephants.")
    again = builder.resume(begun, "hello", PERSON, "")
    assert again.system == begun.system
    assert "elephants" not in again.system.text


async def test_the_system_message_is_the_same_after_a_restart(tmp_path: Path) -> None:
    first = ScriptedProvider(call("write_file", {"path": "SOUL.md", "content": "Dry."}), "a")
    second = ScriptedProvider("b")
    tools = small_file_tools(tmp_path / "workspace")
    async with bare(tmp_path, first, tools=tools) as program:
        await program.ask("be dry")
    async with bare(tmp_path, second, tools=tools) as program:
        await program.ask("still there?")
    assert systems(second)[0] == systems(first)[0]


async def test_the_tools_of_a_context_are_sent_as_they_were_though_some_are_gone_or_new(tmp_path: Path) -> None:
    async def look() -> str:
        """Looks."""
        return "seen"

    async def newer() -> str:
        """Came later."""
        return "found"

    first, second = ScriptedProvider("a"), ScriptedProvider(call("newer"), call("look"), "b")
    async with bare(tmp_path, first, tools=[tool(look)]) as program:
        await program.ask("hello")
    async with bare(tmp_path, second, tools=[tool(newer)]) as program:
        await program.ask("still there?")
        found, gone = (message.text for message in program.history if getattr(message, "call_id", ""))
        assert found == "found", "what comes meanwhile is run by its name"
        assert "there is no tool 'look'" in gone
    assert [spec.name for spec in second.requests[0].tools] == ["look"]
    assert chat_tools(second.requests[0].tools) == chat_tools(first.requests[0].tools)


def test_a_stored_snapshot_that_is_damaged_begins_anew(tmp_path: Path) -> None:
    builder = builder_for(tmp_path)
    for damaged in ("", "{", "[]", "null", '{"files": 1}', builder.begin().dump()[:-20]):
        assert prompt_snapshot.load(damaged) is None


async def test_the_person_is_told_once_that_a_file_is_too_long_to_be_seen_whole(tmp_path: Path) -> None:
    model = ScriptedProvider("a", "b", "c")
    async with bare(tmp_path, model) as program:
        (program.workspace / "SOUL.md").write_text("x" * 50_000)
        await program.ask("one")
        await program.ask("two")
        (program.workspace / "SOUL.md").write_text("short")
        await program.ask("three")
        (notice,) = [event.text for _, event in program.channel.events if isinstance(event, Notice)]
    assert "SOUL.md" in notice


async def test_a_section_switched_off_in_the_config_is_left_out_of_a_context_that_goes_on(tmp_path: Path) -> None:
    model = ScriptedProvider("one", "two", "three")
    for settings in ("", "[context.sections]\nsoul = false\n", ""):
        (tmp_path / "config.toml").write_text(settings)
        async with bare(tmp_path, model, settings=settings) as program:
            (program.workspace / "SOUL.md").write_text("Dry and exact. " * 200)
            await program.ask("hi")
    assert [system.count("Dry and exact.") for system in systems(model)] == [200, 0, 200]


async def test_a_file_that_the_assistant_removed_is_gone_from_the_context_that_goes_on(tmp_path: Path) -> None:
    async def exec_(command: str) -> str:
        """Runs a command."""
        (tmp_path / "workspace" / "BOOTSTRAP.md").unlink()
        return "(no output)"

    exec_.__name__ = "exec"
    model = ScriptedProvider("Who are you?", call("exec", {"command": "rm BOOTSTRAP.md"}), "Nice to meet you.", "Yes?")
    async with bare(tmp_path, model, tools=[tool(exec_)]) as program:
        (program.workspace / "BOOTSTRAP.md").write_text("Ask the person for their name.")
        for text in ("hi", "Bob", "you know me?"):
            await program.ask(text)
    *before, after = ("Ask the person for their name." in system for system in systems(model))
    assert (before, after) == ([True, True, True], False)
