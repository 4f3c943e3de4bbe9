"""Memory in a conversation: what the model is told of notes and facts, once and without changing what was sent."""

from pathlib import Path

import pytest

from nanoclaw.core.messages import Inbound, ModelRequest, ToolResult, UserMessage
from nanoclaw.core.plugin import Plugin, Tx
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from tests.program import GUEST, FakeChannel, Program, running

TODAY = "memory/2026-03-06.md"


class Guests(Plugin):
    name = "guests"

    def on_message(self, inbound: Inbound, tx: Tx) -> Inbound | None:
        return inbound._replace(role="guest") if inbound.address == GUEST else None


def told(request: ModelRequest) -> list[str]:
    """Notes that remarks brought up, the oldest first."""
    lines = [line for message in request.history for line in message.text.split("\n")]
    return [line.removeprefix("Note from memory: ") for line in lines if line.startswith("Note from memory: ")]


def write(here: Program, name: str, text: str) -> None:
    path = here.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_a_context_begins_with_facts_and_notes_that_fit_and_tells_others_later_once(tmp_path: Path) -> None:
    model = ScriptedProvider("In the cellar.", "On Friday.", "On Friday, as I said.")
    async with running(tmp_path, model, plugins=["memory"]) as here:
        write(here, "MEMORY.md", "- Has a dog\n")
        write(here, "memory/2026-03-01.md", "- The pelican is in the cellar\n- Dentist is called Dr Weiss\n")
        await here.ask("Where is my pelican?")
        await here.ask("Who is my dentist?")
        await here.ask("And again, who is my dentist?")
    first, second, third = model.requests
    assert "What you knew when this conversation began:\n\n- Has a dog" in first.system.text
    assert "- memory/2026-03-01.md:1: The pelican is in the cellar" in first.system.text
    assert "Dentist" not in first.system.text
    assert first.system == second.system == third.system
    assert told(first) == []
    assert told(second) == told(third) == ["memory/2026-03-01.md:2: Dentist is called Dr Weiss"]


async def test_what_the_assistant_notes_itself_changes_nothing_that_was_sent(tmp_path: Path) -> None:
    model = ScriptedProvider(call("memory_add", {"text": "Likes tea", "kind": "fact"}), "Noted.", "Tea.", "Hello.")
    async with running(tmp_path, model, plugins=["memory"]) as here:
        await here.ask("I like tea")
        await here.ask("What do I like?")
        await here.ask("hello", chat="other")
    assert model.requests[0].system == model.requests[2].system
    assert told(model.requests[2]) == []
    assert "Likes tea" in model.requests[3].system.text


async def test_what_a_new_note_replaces_is_told_with_the_day_it_ended(tmp_path: Path) -> None:
    added = call("memory_add", {"text": "The Weber family moved to Ulm", "replaces": "Webers live in Bonn"})
    old = "memory/2026-02-01.md"
    async with running(tmp_path, model := ScriptedProvider(added, "Noted.", "In Ulm.")) as here:
        write(here, old, "- The Webers live in Bonn\n")
        await here.ask("The Webers have moved to Ulm")
        await here.ask("Where do the Webers live now?", chat="other")
        assert f"- {old}:1: The Webers live in Bonn (until 2026-03-06)\n" in model.requests[-1].system.text


async def test_facts_added_by_hand_are_told_once_and_cost_no_miss_also_over_a_restart(tmp_path: Path) -> None:
    model = ScriptedProvider(*["Hm."] * 6)
    for number in range(3):
        async with running(tmp_path, model, plugins=["memory"]) as here:
            if not number:
                write(here, "MEMORY.md", "- Has a dog\n")
            if number == 1:
                write(here, "MEMORY.md", "- Has a dog\n- 2026-03-06: Bob plays the oboe\n")
            await here.ask("hello")
            await here.ask("and?")
    assert len({request.system for request in model.requests}) == 1
    assert told(model.requests[1]) == []
    assert told(model.requests[2]) == told(model.requests[-1]) == ["MEMORY.md:2: 2026-03-06: Bob plays the oboe"]


@pytest.mark.parametrize(
    "text", ["- Has a cat\n", "", "- Has a dog\n" + "- a fact\n" * 6, "- Has a dog\nnot a bullet\n", "- Has a dogma\n"]
)
async def test_any_other_change_by_hand_is_taken_up_as_a_whole(tmp_path: Path, text: str) -> None:
    model = ScriptedProvider("Hm.", "Hm.")
    async with running(tmp_path, model, plugins=["memory"]) as here:
        write(here, "MEMORY.md", "- Has a dog\n")
        await here.ask("hello")
        write(here, "MEMORY.md", text)
        await here.ask("hello")
    before, after = model.requests
    assert before.system != after.system
    assert text.strip() in after.system.text
    assert told(after) == []


async def test_facts_beside_each_other_and_struck_ones(tmp_path: Path) -> None:
    model = ScriptedProvider("Hm.")
    async with running(tmp_path, model, plugins=["memory"]) as here:
        write(here, "MEMORY.md", "# Memory\n- ~~Likes tea~~ (2026-01-01)\n- Likes coffee <!-- a lot -->\n# Skills\n")
        await here.ask("hello")
    text = model.requests[0].system.text
    assert "Likes coffee" in text
    assert "tea" not in text and "a lot" not in text
    assert "\n# Skills" not in text, "it cannot pass as a section of ours"


async def test_a_fact_is_told_also_where_memory_is_a_link_within_the_workspace(tmp_path: Path) -> None:
    model = ScriptedProvider("Hm.", "Hm.")
    async with running(tmp_path, model, plugins=["memory"]) as here:
        (here.workspace / "MEMORY.md").unlink(missing_ok=True)
        write(here, "facts.md", "- Has a dog\n")
        (here.workspace / "MEMORY.md").symlink_to("facts.md")
        await here.ask("hello")
        write(here, "facts.md", "- Has a dog\n- Has a cat\n")
        await here.ask("hello")
    assert told(model.requests[1]) == ["MEMORY.md:1: Has a cat"]


async def test_a_file_of_notes_that_is_read_in_part_is_named(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(), plugins=["memory"]) as here:
        write(here, "memory/2026-03-01.md", "- a line\n" * 600_000)
        write(here, "memory/2026-03-02.md", "- a line\n")
        (plugin,) = (one for one in here.app.plugins if one.name == "memory")
        (found,) = await plugin.check(deep=False)
    assert not found.is_well
    assert found.text == "only the first 5 MB are read of 2026-03-01.md: split it up"


async def test_without_the_section_nothing_is_recalled_or_told_of_memory(tmp_path: Path) -> None:
    model = ScriptedProvider("Hm.", "Hm.")
    settings = "[context]\nsections = { memory = false }\n"
    async with running(tmp_path, model, plugins=["memory"], settings=settings) as here:
        write(here, "memory/2026-03-01.md", "- The pelican is in the cellar\n")
        await here.ask("hello")
        write(here, "MEMORY.md", "- Has a dog\n")
        await here.ask("Where is my pelican?")
    assert "pelican is" not in model.requests[1].system.text + "".join(m.text for m in model.requests[1].history)
    assert "Has a dog" not in model.requests[1].system.text
    assert told(model.requests[1]) == []


async def test_a_guest_hears_nothing_of_it(tmp_path: Path) -> None:
    model, chat = ScriptedProvider("Hm."), FakeChannel("chat")
    async with running(tmp_path, model, plugins=["memory", Guests], others=[chat]) as here:
        write(here, "MEMORY.md", "- Has a dog\n")
        write(here, "memory/2026-03-01.md", "- The pelican is in the cellar\n")
        await here.write_from(GUEST, "777", "Where is the pelican?")
        assert (await chat.sent.get()).text == "Hm."
    (request,) = model.requests
    assert "dog" not in request.system.text and "pelican is" not in request.system.text
    assert told(request) == []
    assert not any(spec.name.startswith("memory") for spec in request.tools)


# --- commands --------------------------------------------------------------------------------------------------------


async def test_a_note_is_written_and_found_while_the_model_is_asked(tmp_path: Path) -> None:
    hang = Hang()
    async with running(tmp_path, ScriptedProvider(hang), plugins=["memory"]) as here:
        await here.say("think long")
        await hang.reached.wait()
        assert (
            await here.ask("/note The plumber came\nand left") == f"Noted in {TODAY}: - 12:00 The plumber came and left"
        )
        assert await here.ask("/search plumber") == f"- {TODAY}:1: 12:00 The plumber came and left"
        assert (here.workspace / TODAY).read_text() == "- 12:00 The plumber came and left\n"


async def test_the_date_of_what_is_found_is_shown_once(tmp_path: Path) -> None:
    async with running(tmp_path, plugins=["memory"]) as here:
        write(here, "MEMORY.md", "- 2026-02-01: Her birthday is in May\n")
        assert await here.ask("/search birthday") == "- MEMORY.md:1: 2026-02-01: Her birthday is in May"


async def test_a_note_by_hand_is_in_the_audit_log_and_the_model_finds_it(tmp_path: Path) -> None:
    model = ScriptedProvider(call("memory_search", {"query": "plumber"}), "He came.")
    async with running(tmp_path, model) as here:
        await here.ask("/note The plumber Hansen came at nine")
        await here.ask("When did the plumber Hansen come?")
        (found,) = (message for message in here.history if isinstance(message, ToolResult))
        assert "plumber Hansen came at nine" in found.text
        if here.public("undo"):
            assert here.rows("SELECT tool, kind, target, state FROM ledger") == [("/note", "note", TODAY, "done")]


async def test_memory_alone_shows_what_is_remembered(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(), plugins=["memory"]) as here:
        assert (await here.ask("/memory")).startswith("MEMORY.md has no facts.\n\nThere are 0 daily notes.")
        facts = "".join(f"- Fact {number} {'word ' * 60}<!-- also: x -->\n" for number in range(1, 23))
        write(here, "MEMORY.md", f"# Memory\n\n<!-- a comment -->\n- ~~Old~~ (2026-01-01)\n{facts}- Has a dog\n")
        write(here, "memory/2026-03-01.md", "- The pelican is in the cellar\n")
        shown = (await here.ask("/memory")).split("\n")
    assert shown[0] == "(3 older ones are in MEMORY.md)" and len(shown) == 23
    assert shown[1].startswith("- Fact 4 word word") and len(shown[1]) == 202 and shown[20] == "- Has a dog"
    assert shown[-1].startswith("There is 1 daily note. More: `/search TEXT`, `/note TEXT`")


async def test_what_cannot_be_noted_or_found_is_said(tmp_path: Path) -> None:
    async with running(tmp_path, plugins=["memory"]) as here:
        assert "/note TEXT" in await here.ask("/note")
        assert "/search TEXT" in await here.ask("/search")
        assert "Nothing found" in await here.ask("/search zebra")
        assert "Noted" in await here.ask("/note twice")
        assert "Already noted" in await here.ask("/note twice")
        assert "at most 4,000 characters" in await here.ask(f"/note {'x' * 5000}")


async def test_the_flush_notes_what_is_worth_keeping_before_a_summary(tmp_path: Path) -> None:
    flushed = call("memory_add", {"text": "The boat is called Nele", "kind": "fact"})
    model = ScriptedProvider(*["Ahoy. " * 400] * 12, flushed, "They spoke of a boat.")
    async with running(tmp_path, model, plugins=["compaction", "memory"]) as here:
        for number in range(12):
            await here.ask(f"Tell me more of boat {number}. " + "It is a long story. " * 300)
        said = await here.ask("/compact")
        assert "are now a summary" in said
        assert (here.workspace / "MEMORY.md").read_text().endswith("The boat is called Nele\n")
    asked = model.requests[12].history[-1]
    assert isinstance(asked, UserMessage)
    assert "memory_add once for each" in asked.text


def recalled(request: ModelRequest) -> list[str]:
    """Texts of all notes that a request shows, those of its system message first."""
    _, _, listed = request.system.text.partition("Notes that may matter here")
    lines = [line.removeprefix("- ") for line in listed.split("\n") if line.startswith("- memory/")]
    return [line.split(": ", 1)[1] for line in [*lines, *told(request)]]


async def test_a_message_brings_up_twelve_notes_at_most_within_1500_characters(tmp_path: Path) -> None:
    model = ScriptedProvider(*["Hm."] * 3)
    async with running(tmp_path, model, plugins=["memory"]) as here:
        write(here, "memory/2026-03-01.md", "".join(f"- the heron ate fish number {n}\n" for n in range(40)))
        long = "".join(f"- okapi {n} {'stood in the reeds and ' * 30}left\n" for n in range(40))
        write(here, "memory/2026-03-02.md", long)
        await here.ask("What did the heron eat?")
        await here.ask("Where did the okapi stand?")
        await here.ask("And what did the heron eat?")
    first, second, third = map(recalled, model.requests)
    assert len(first) == 12
    assert all("heron" in text for text in first)
    okapis = second[12:]
    assert 1_400 < sum(map(len, okapis)) <= 1_500 and max(map(len, okapis)) <= 280
    assert len(set(third)) == 24 + len(okapis), "others of the same kind, none twice"


async def test_what_it_keeps_of_the_facts_may_be_damaged_in_any_way(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("ok")) as here:
        write(here, "MEMORY.md", "# Memory\n- Anna likes tea")
        kept = tmp_path / "plugins/memory/facts.json"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("[" * 100_000)
        assert await here.ask("hi") == "ok"
        assert "Anna likes tea" in here.app.builder.begin().system.text
