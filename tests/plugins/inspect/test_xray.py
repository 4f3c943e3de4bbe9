"""Looking inside: the manifest, /context, /why."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date
from io import BytesIO
from pathlib import Path

import PIL.Image
import pytest
from nanoclaw.core.parts import open_image

from nanoclaw.core import manifest, sections
from nanoclaw.core import prompt_snapshot as openings
from nanoclaw.core.context import attachment
from nanoclaw.core.messages import Usage
from nanoclaw.core.sections import Ingredients, Section
from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.files.tools import file_tools
from nanoclaw.plugins.inspect import xray
from nanoclaw.plugins.memory.recall import Hit
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.core.house import HandClock, builder_for, house, new_home

NOTE = Hit("memory/2026-03-01.md", 4, 5, date(2026, 3, 1), 3.25, "Dentist said come back in June")


def test_the_manifest_of_a_turn_is_stored_without_the_text(tmp_path: Path) -> None:
    model = ScriptedProvider("hello")

    async def story() -> str:
        async with house(tmp_path, model) as home:
            (home.workspace / "SOUL.md").write_text("Dry and exact.")
            await home.ask("hi")
            ((text,),) = home.store.rows("SELECT manifest FROM turns")
            return str(text)

    text = asyncio.run(story())
    stored = manifest.load(text)
    assert stored is not None
    assert "Dry and exact." not in text
    assert (stored.mode, stored.files["SOUL.md"], stored.files["USER.md"]) == ("full", "loaded", "empty")
    assert {"identity", "soul", "tools"} <= {part.id for part in stored.parts}
    assert all(part.tokens > 0 and part.characters > 0 for part in stored.parts)
    assert set(stored.sha256) == {"stable", "dynamic", "full", "tools"}


def test_the_hashes_change_with_what_they_are_of(tmp_path: Path) -> None:
    builder = builder_for(new_home(tmp_path), HandClock())
    before = builder.open()

    def hashes() -> dict[str, str]:
        opening = builder.open()
        return manifest.manifest("full", builder.sections("full", opening), opening, (), ()).sha256

    first = hashes()
    (tmp_path / "workspace" / "MEMORY.md").write_text("- 2026-03-01: Anna is vegetarian")
    second = hashes()
    assert before != builder.open()
    assert (first["stable"], first["tools"]) == (second["stable"], second["tools"])
    assert first["dynamic"] != second["dynamic"] and first["full"] != second["full"]


def test_context_shows_a_table_and_what_is_shared_with_the_last_request(tmp_path: Path) -> None:
    model = ScriptedProvider(Say("hello", usage=Usage(1000, 5, 900)), "again")

    async def story() -> tuple[str, str, str]:
        async with house(tmp_path, model) as home:
            fresh = await home.ask("/context")
            await home.ask("hi")
            same = await home.ask("/context")
            (home.workspace / "SOUL.md").write_text("Dry.")
            return fresh, same, await home.ask("/context")

    fresh, same, edited = asyncio.run(story())
    assert "Nothing was sent in this conversation yet." in fresh
    assert "| Identity |" in same and "| History |" in same
    assert "begins with the whole of the last one. The provider reported 900 of 1,000 input tokens as cached." in same
    assert "stable part is another" in edited
    assert model.left == 1, "looking inside asks no model"


def test_why_names_what_the_last_answer_came_from(tmp_path: Path) -> None:
    model = ScriptedProvider(
        call("read_file", {"path": "list.txt"}),
        call("read_file", {"path": "gone.txt"}),
        call("memory_get", {"file": "MEMORY.md"}),
        Say("milk", usage=Usage(50, 2)),
    )

    async def story() -> tuple[str, str]:
        async with house(tmp_path, model) as home:
            assert "/why not TEXT" in await home.ask("/why not") == await home.ask("/why so")
            (home.workspace / "list.txt").write_text("milk")
            before = await home.ask("/why")
            await home.ask("what is on the list?")
            return before, await home.ask("/why")

    before, after = asyncio.run(story())
    assert before == "There is no answer in this conversation yet."
    assert "No notes were recalled" in after
    assert "Files it read: list.txt, MEMORY.md\n" in after, "but not what could not be read"
    assert "Tools it ran: read_file, read_file (failed), memory_get" in after
    assert "scripted/model" in after


def test_why_shows_our_own_count_where_the_provider_told_no_figures(tmp_path: Path) -> None:
    model = ScriptedProvider(Say("one", usage=Usage(4_000, 5)), Say("two", usage=None))

    async def story() -> tuple[str, int, str, str]:
        async with house(tmp_path, model) as home:
            await home.ask("hi")
            await home.ask("hi again")
            ((counted, learned),) = home.store.rows(
                "SELECT last.input_tokens, 1.0 * first.input_tokens / first.estimated FROM usage AS first"
                " JOIN usage AS last ON last.id = first.id + 1"
            )
            assert learned != 1
            return await home.ask("/why"), counted, await home.ask("/context"), str(learned)

    why, counted, context, _ = asyncio.run(story())
    assert f"≈ {counted:,} tokens in (0 cached)" in why
    assert "counted here: the provider told no figures" in why
    assert "reported" not in context


def test_context_counts_as_the_model_does_and_counts_pictures(tmp_path: Path) -> None:
    model = ScriptedProvider(Say("a red one", usage=Usage(4_000, 5)), model="openai/gpt-5")
    buffer = BytesIO()
    PIL.Image.effect_noise((600, 600), 90).save(buffer, "PNG")
    (tmp_path / "cat.png").write_bytes(buffer.getvalue())

    async def story() -> tuple[str, str, float]:
        async with house(tmp_path / "home", model) as home:
            before = await home.ask("/context")
            await home.ask("what is it?", files=(attachment(tmp_path / "cat.png"),))
            ((learned,),) = home.store.rows("SELECT 1.0 * input_tokens / estimated FROM usage")
            return before, await home.ask("/context"), learned

    before, after, learned = asyncio.run(story())

    def tokens(shown: str, row: str) -> int:
        return int(next(line for line in shown.splitlines() if f"| {row} |" in line).split("|")[3].replace(",", ""))

    assert learned > 1.2
    assert abs(tokens(after, "Identity") - tokens(before, "Identity") * min(learned, 2)) <= 1
    assert tokens(after, "History") > (85 + 170 * 4) * min(learned, 2)
    assert "3 messages, 1 image |" in after


def test_what_is_missing_left_out_or_shortened_is_in_the_manifest_and_told(tmp_path: Path) -> None:
    root = new_home(tmp_path)
    for name in ("SOUL.md", "BOOTSTRAP.md"):
        (root / "workspace" / name).unlink()
    (root / "workspace" / "MEMORY.md").write_text("- ~~Anna is 30~~ (2026-05-03)\n- Anna is 31\n")
    for number in range(300):
        (root / "skills" / f"s{number}").mkdir(parents=True)
        text = f"---\nname: s{number}\ndescription: {'x' * 500}\nalways: {number < 3}\n---\n{'y' * 10_000}"
        (root / "skills" / f"s{number}" / "SKILL.md").write_text(text)
    builder = builder_for(root, HandClock(), skills=(root / "skills",), tools=file_tools(Workspace(root), open_image))
    opening = builder.open()
    assert openings.load(opening.dump()) == opening
    made_of = manifest.manifest("full", builder.sections("full", opening), opening, (), ())
    assert manifest.load(made_of.dump()) == made_of
    wanted = {
        "missing_file SOUL.md",
        "section_truncated skills",
        "section_truncated active_skills",
        "section_omitted soul",
    }
    assert wanted <= set(made_of.diagnostics)
    assert "section_omitted identity" not in made_of.diagnostics
    assert made_of.struck == 1
    assert "Anna is 30" not in builder.build_system_prompt() and "Anna is 31" in builder.build_system_prompt()
    told = xray.remarks(made_of, None)
    assert "Struck in MEMORY.md and left out: 1 line." in told
    assert "Not there: SOUL.md." in told
    assert "Shortened: active_skills, skills." in told
    assert (
        "file_filtered_by_mode SOUL.md"
        in manifest.manifest("minimal", (), builder.open("", "minimal"), (), ()).diagnostics
    )


def test_a_source_names_the_files_that_a_section_is_from(tmp_path: Path) -> None:
    root = new_home(tmp_path)
    (root / "workspace" / "SOUL.md").write_text("Dry.")
    (root / "workspace" / "TOOLS.md").write_text("A printer.")
    builder = builder_for(root, HandClock(), recall=lambda query, talk, now, budget: [NOTE])
    sources = {section.id: section.source for section in builder.sections("full", builder.open("dentist"))}
    assert (sources["soul"], sources["instructions"], sources["memory"]) == (
        "SOUL.md",
        "TOOLS.md, BOOTSTRAP.md",
        "notes",
    )


@pytest.mark.parametrize("width", [20, 40, 60, 76, 92, 200])
def test_the_table_fits_the_screen_and_keeps_what_matters_most(width: int) -> None:
    shown = [
        xray.Row("12 tools", 4_304, 1_049, "stable", "code"),
        xray.Row("Memory", 40_000, 12_000, "this context", "MEMORY.md, notes"),
        xray.Row("Empty", 0, 0, "new", "2 messages"),
    ]
    lines = xray.plain_table(shown, width).splitlines()
    assert max(map(len, lines)) <= max(width, 29)
    assert len(lines) == 5
    assert lines[2].split()[0] == "Memory" and "12,000" in lines[2] and "92%" in lines[2]
    assert ("40,000" in lines[2]) == ("chars" in lines[0]) == (width >= 60)
    assert ("MEMORY.md, notes" in lines[2]) == ("from" in lines[0]) == (width >= 76)
    assert ("█" in lines[2]) == (width >= 60)
    assert xray.plain_table([], width)


def test_context_says_nothing_of_a_cache_where_no_figures_came() -> None:
    made_of = manifest.Manifest("full", (), {"tools": "a", "full": "b", "stable": "c"})
    last = xray.PastTurn(made_of, (), "m", "cancelled", Usage())
    assert xray.remarks(made_of, last) == ["The request begins with the whole of the last one."]


def past(*notes: Hit) -> xray.PastTurn:
    refs = tuple(manifest.NoteRef(note.file, note.start, note.end, note.score) for note in notes)
    return xray.PastTurn(manifest.Manifest("full", (), {}, notes=refs), (), "m", "answered", Usage())


def test_why_names_recalled_notes_with_file_lines_and_score() -> None:
    told = xray.why(past(NOTE), lambda model, usage: "price unknown")
    assert "memory/2026-03-01.md:4-5 (score 3.25)" in told


@pytest.mark.parametrize("answer", ["On 3 March.", "Anna's birthday is in March."])
def test_why_names_the_facts_that_the_answer_states(tmp_path: Path, answer: str) -> None:
    async def story() -> None:
        root = new_home(tmp_path)
        with (root / "workspace/MEMORY.md").open("a") as file:
            file.write("- Anna's birthday is 3 March\n- Anna likes tea\n- The march to the sea\n")
        with ScriptedProvider(answer, "I don't know.") as model:
            async with house(root, model) as home:
                await home.ask("when is Anna's birthday?")
                assert "- Facts of MEMORY.md with words of it: “Anna's birthday is 3 March”\n" in await home.ask("/why")
                await home.ask("and what does she like?")
                assert "MEMORY.md" not in await home.ask("/why")

    asyncio.run(story())


def test_why_not_tells_the_reason() -> None:
    def why_not(found: list[Hit], ranked: list[Hit], last: xray.PastTurn | None) -> str:
        return xray.why_not("dentist", "when is my flight?", last, lambda query, limit: found if limit == 1 else ranked)

    fact = replace(NOTE, file="MEMORY.md")
    assert "No note speaks of" in why_not([], [], None)
    assert "sees as a whole" in why_not([fact], [], None)
    assert "was recalled" in why_not([NOTE], [NOTE], past(NOTE))
    assert "shares no word" in why_not([NOTE], [], past())
    assert "not among what a search" in why_not([replace(NOTE, text="My flight to June")], [], past())
    assert "place 2 with a score of 3.25" in why_not([NOTE], [replace(NOTE, start=9, score=8.0), NOTE], past())


def test_a_section_can_be_switched_off_added_and_replaced(tmp_path: Path) -> None:
    builder = builder_for(new_home(tmp_path), HandClock())
    run = Ingredients(tmp_path, frozenset(), ("Reminders can be set.",), builder.open())

    def extend(built: list[Section], run: Ingredients) -> list[Section]:
        kept = [section for section in built if section.id != "identity"]
        return [
            *kept,
            Section("identity", "Identity", "You are Ada.", True),
            Section("weather", "Weather", "Rain.", False),
        ]

    built = sections.build("full", run, frozenset({"capabilities"}), [extend])
    texts = {section.id: section.text for section in built}
    assert texts["identity"] == "You are Ada."
    assert "capabilities" not in texts
    assert built[-1].id == "weather"
    assert "Reminders" in {section.id: section.text for section in sections.build("full", run)}["capabilities"]


def test_recalled_notes_come_with_the_first_message_and_later_only_new_ones(tmp_path: Path) -> None:
    other = replace(NOTE, start=9, end=9, text="Dentist is called Dr Weiss", score=2.0)
    long = replace(NOTE, start=12, end=12, text="dentist " * 100)
    fact = replace(NOTE, file="MEMORY.md", text="Dentist: Dr Weiss")
    answers = [[NOTE, fact], [NOTE, other, long]]
    builder = builder_for(new_home(tmp_path), HandClock())
    builder._recall = lambda query, talk, now, budget: answers.pop(0)
    opening, late = builder.reopen(None, "dentist?", ())
    assert (opening.notes, late) == ((NOTE,), ())
    assert "memory/2026-03-01.md:4-5: Dentist said" in builder.build_system_prompt("full", opening)
    opening, late = builder.reopen(opening.dump(), "his name?", ("dentist?",))
    assert [note.text[:20] for note in late] == ["Dentist is called Dr", "dentist dentist dent"]
    assert all(len(note.text) <= 280 for note in late)
    metadata, _ = builder.user_messages("his name?", notes=late)
    assert "Note from memory: memory/2026-03-01.md:9: Dentist is called Dr Weiss" in metadata.text


def test_why_tells_what_this_message_recalled_from_what_was_shown_for_an_earlier_one(tmp_path: Path) -> None:
    model = ScriptedProvider("It is llama.", "You are welcome.", "On Friday.")

    async def story() -> tuple[str, str, str]:
        async with house(tmp_path, model) as home:
            await home.ask("/note the router password hint is llama")
            await home.ask("/note dentist on Friday at 9")
            shown = []
            for said in ("what is the router password hint?", "thanks", "when is the dentist?"):
                await home.ask(said)
                shown.append(await home.ask("/why"))
            return shown[0], shown[1], shown[2]

    first, thanks, other = asyncio.run(story())
    assert "Notes recalled for it: memory/2026-03-06.md:1 " in first
    assert "earlier message" not in first
    assert "No notes were recalled for it." in thanks
    assert "Notes shown since an earlier message of this conversation: memory/2026-03-06.md:1 " in thanks
    assert "Notes recalled for it: memory/2026-03-06.md:2 " in other
    assert "Notes shown since an earlier message of this conversation: memory/2026-03-06.md:1 " in other
