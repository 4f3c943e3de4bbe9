"""Looking inside: the manifest, /context, /why."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import PIL.Image
import pytest

from nanoclaw.core.messages import Attachment, NoteRef, Usage
from nanoclaw.core.plugin import Plugin, Profile
from nanoclaw.core.prompt_snapshot import Manifest, load_manifest
from nanoclaw.core.tool import tool
from nanoclaw.plugins.inspect import request, why
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.program import MAIN, running, tools_plugin


@dataclass(frozen=True)
class Note:
    """A note that a search found."""

    file: str = "memory/2026-03-01.md"
    start: int = 4
    end: int = 5
    score: float = 3.25
    text: str = "Dentist said come back in June"


NOTE = Note()


async def test_the_manifest_of_a_turn_is_stored_without_the_text(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("hello")) as home:
        (home.workspace / "SOUL.md").write_text("Dry and exact.")
        await home.ask("hi")
        ((text,),) = home.rows("SELECT manifest FROM turns")
        stored = load_manifest(text)
        assert stored is not None
        assert "Dry and exact." not in text
        assert (stored.mode, stored.files["SOUL.md"], stored.files["BOOTSTRAP.md"]) == ("full", "loaded", "loaded")
        assert {"identity", "soul", "tools"} <= {part.id for part in stored.parts}
        assert all(part.tokens > 0 and part.characters > 0 for part in stored.parts)
        assert set(stored.sha256) == {"stable", "dynamic", "full", "tools"}


async def test_the_hashes_change_with_what_they_are_of(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider()) as home:
        inspection = home.public("inspect")
        first = (await inspection.preview(MAIN, "")).manifest.sha256
        (home.workspace / "MEMORY.md").write_text("- 2026-03-01: Anna is vegetarian")
        second = (await inspection.preview(MAIN, "")).manifest.sha256
    assert (first["stable"], first["tools"]) == (second["stable"], second["tools"])
    assert first["dynamic"] != second["dynamic"] and first["full"] != second["full"]


async def test_what_a_mode_leaves_out_is_in_the_manifest(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider()) as home:
        made_of = (await home.public("inspect").preview(MAIN, "", Profile("none", "none"))).manifest
        assert [part.id for part in made_of.parts if part.id != "tools"] == ["identity"]
        assert "file_filtered_by_mode SOUL.md" in made_of.diagnostics
        full = (await home.public("inspect").preview(MAIN, "")).manifest
        assert "section_omitted soul" in full.diagnostics and "section_omitted identity" not in full.diagnostics
        assert load_manifest(full.dump()) == full


async def test_context_shows_a_table_and_what_is_shared_with_the_last_request(tmp_path: Path) -> None:
    model = ScriptedProvider(Say("hello", usage=Usage(1000, 5, 900)), "again")
    async with running(tmp_path, model) as home:
        fresh = await home.ask("/context")
        await home.ask("hi")
        same = await home.ask("/context")
        (home.workspace / "SOUL.md").write_text("Dry.")
        edited = await home.ask("/context")
    assert "Nothing was sent in this conversation yet." in fresh
    assert "| Identity |" in same and "| History |" in same
    assert "begins with the whole of the last one. The provider reported 900 of 1,000 input tokens as cached." in same
    assert "stable part differs from that of the last request" in edited
    assert model.left == 1, "looking inside asks no model"


async def test_looking_changes_nothing_of_the_conversation(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("hello")) as home:
        await home.ask("hi")
        before = home.rows("SELECT memory, context FROM sessions"), home.history
        (home.workspace / "MEMORY.md").write_text("- Anna is vegetarian\n")
        await home.ask("/context")
        await home.ask("/why")
        assert (home.rows("SELECT memory, context FROM sessions"), home.history) == before


async def test_why_names_what_the_last_answer_came_from(tmp_path: Path) -> None:
    async def read_file(path: str) -> str:
        """Reads a file."""
        if path == "gone.txt":
            raise OSError("no such file")
        return "milk"

    model = ScriptedProvider(
        call("read_file", {"path": "list.txt"}),
        call("read_file", {"path": "gone.txt"}),
        Say("milk", usage=Usage(50, 2)),
    )
    plugins: list[str | type[Plugin]] = ["inspect", tools_plugin(tool(read_file, reach="none"))]
    async with running(tmp_path, model, plugins=plugins) as home:
        assert await home.ask("/why") == "There is no answer in this conversation yet."
        await home.ask("what is on the list?")
        after = await home.ask("/why")
    assert "No notes were recalled" in after
    assert "Files it read: list.txt\n" in after, "but not what could not be read"
    assert "Tools it ran: read_file, read_file (failed)" in after
    assert "scripted/model" in after


async def test_why_shows_our_own_count_where_the_provider_told_no_figures(tmp_path: Path) -> None:
    model = ScriptedProvider(Say("one", usage=Usage(4_000, 5)), Say("two", usage=None))
    async with running(tmp_path, model) as home:
        await home.ask("hi")
        await home.ask("hi again")
        ((counted, learned),) = home.rows(
            "SELECT last.input_tokens, 1.0 * first.input_tokens / first.estimated FROM usage AS first"
            " JOIN usage AS last ON last.id = first.id + 1"
        )
        assert learned != 1
        said = await home.ask("/why")
        assert f"≈ {counted:,} tokens in (0 cached)" in said
        assert "counted here: the provider gave no figures" in said
        assert "reported" not in await home.ask("/context")


async def test_context_counts_as_the_model_does_and_counts_pictures(tmp_path: Path) -> None:
    model = ScriptedProvider(Say("a red one", usage=Usage(5_000, 5)), model="openai/gpt-5")
    buffer = BytesIO()
    PIL.Image.effect_noise((600, 600), 90).save(buffer, "PNG")
    (tmp_path / "cat.png").write_bytes(buffer.getvalue())
    async with running(tmp_path / "home", model) as home:
        before = await home.ask("/context")
        await home.ask("what is it?", files=(Attachment(str(tmp_path / "cat.png"), "cat.png", "image/png"),))
        ((learned,),) = home.rows("SELECT 1.0 * input_tokens / estimated FROM usage")
        after = await home.ask("/context")

    def tokens(shown: str, row: str) -> int:
        return int(next(line for line in shown.splitlines() if f"| {row} |" in line).split("|")[3].replace(",", ""))

    assert learned > 1.2
    assert abs(tokens(after, "Identity") - tokens(before, "Identity") * min(learned, 2)) <= 1
    assert tokens(after, "History") > (85 + 170 * 4) * min(learned, 2)
    assert "3 messages, 1 image |" in after


async def test_what_is_missing_or_struck_is_told(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("hello")) as home:
        (home.workspace / "SOUL.md").unlink()
        (home.workspace / "MEMORY.md").write_text("- ~~Anna is 30~~ (2026-05-03)\n- Anna is 31\n")
        said = await home.ask("/context")
    assert "Struck in MEMORY.md and left out: 1 line." in said
    assert "Not there: SOUL.md." in said


def test_context_says_nothing_of_a_cache_where_no_figures_came() -> None:
    made_of = Manifest("full", (), {"tools": "a", "full": "b", "stable": "c"}, {})
    last = why.PastTurn(made_of, (), "m", "cancelled", Usage())
    assert request.remarks(made_of, last) == ["The request begins with the whole of the last one."]


def past(*notes: Note) -> why.PastTurn:
    refs = tuple(NoteRef(note.file, note.start, note.end, note.score) for note in notes)
    return why.PastTurn(Manifest("full", (), {}, {}, notes=refs), (), "m", "answered", Usage())


def test_why_names_recalled_notes_with_file_lines_and_score() -> None:
    told = why.why(past(NOTE), lambda model, usage: "price unknown")
    assert "memory/2026-03-01.md:4-5 (score 3.25)" in told


@pytest.mark.parametrize("answer", ["On 3 March.", "Anna's birthday is in March."])
async def test_why_names_the_facts_that_the_answer_states(tmp_path: Path, answer: str) -> None:
    async with running(tmp_path, ScriptedProvider(answer, "I don't know.")) as home:
        with (home.workspace / "MEMORY.md").open("a") as file:
            file.write("- Anna's birthday is 3 March\n- Anna likes tea\n- The march to the sea\n")
        await home.ask("when is Anna's birthday?")
        assert "- Facts of MEMORY.md with words of it: “Anna's birthday is 3 March”\n" in await home.ask("/why")
        await home.ask("and what does she like?")
        assert "MEMORY.md" not in await home.ask("/why")


async def test_why_tells_what_this_message_recalled_from_what_was_shown_for_an_earlier_one(tmp_path: Path) -> None:
    model = ScriptedProvider("It is llama.", "You are welcome.", "On Friday.")
    async with running(tmp_path, model) as home:
        await home.ask("/note the router password hint is llama")
        await home.ask("/note dentist on Friday at 9")
        shown = []
        for said in ("what is the router password hint?", "thanks", "when is the dentist?"):
            await home.ask(said)
            shown.append(await home.ask("/why"))
    first, thanks, other = shown
    assert "Notes recalled for it: memory/2026-03-06.md:1 " in first
    assert "earlier message" not in first
    assert "No notes were recalled for it." in thanks
    assert "Notes shown since an earlier message of this conversation: memory/2026-03-06.md:1 " in thanks
    assert "Notes recalled for it: memory/2026-03-06.md:2 " in other
    assert "Notes shown since an earlier message of this conversation: memory/2026-03-06.md:1 " in other
