"""Small talk recalls nothing, in the person's languages; no question meets silence for its function words."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanoclaw.plugins.memory.search import NoteSearch
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.examples import examples
from tests.program import running

TALK = examples(__file__, "small_talk_notes.jsonl")

NOW = datetime(2026, 5, 3, 12, 0, tzinfo=UTC)
SENTENCES = json.loads(Path(__file__).with_name("small_talk.json").read_text("utf-8"))


def search_of(root: Path, lines: Sequence[str]) -> NoteSearch:
    for day in range(10):
        note = root / "memory" / f"2026-04-{10 + day}.md"
        note.parent.mkdir(exist_ok=True)
        note.write_text("".join(f"- {line}\n" for line in lines[day::10]), encoding="utf-8")
    return NoteSearch(root, root / "index.db", lambda: NOW)


def recalled(notes: NoteSearch, message: str) -> list[str]:
    return [hit.text for hit in notes.recall(message, (), NOW, 1_500, 12)]


@pytest.mark.parametrize("language", SENTENCES)
def test_small_talk_recalls_nothing_and_questions_their_notes(tmp_path: Path, language: str) -> None:
    said, asked = SENTENCES[language]["small_talk"], SENTENCES[language]["asked"]
    notes = search_of(tmp_path, [*(f"Petra: {each}" for each in said[::2]), *asked.values()])
    spoke = [each for each in said[1::2] if recalled(notes, each)]
    missed = [question for question, note in asked.items() if note not in recalled(notes, question)]
    notes.close()
    assert len(spoke) <= len(said[1::2]) // 10, spoke
    assert len(missed) <= 1, missed


@pytest.mark.parametrize(("message", "note"), TALK["a note that shares words of small talk does not come up"])
def test_a_note_that_shares_words_of_small_talk_does_not_come_up(tmp_path: Path, message: str, note: str) -> None:
    notes = search_of(tmp_path, [note, "rain all day", "the plumber came"])
    assert recalled(notes, message) == []
    notes.close()


@pytest.mark.parametrize(("question", "note"), TALK["a question is answered by its one rare word"])
def test_a_question_is_answered_by_its_one_rare_word(tmp_path: Path, question: str, note: str) -> None:
    notes = search_of(tmp_path, [note, "rain all day", "the plumber came"])
    assert recalled(notes, question)[:1] == [note]
    notes.close()


@pytest.mark.parametrize(("message", "note"), TALK["a question about the assistant brings up no note"])
def test_a_question_about_the_assistant_brings_up_no_note(tmp_path: Path, message: str, note: str) -> None:
    notes = search_of(tmp_path, [note, *(f"rain all day, the plumber number {number} came" for number in range(60))])
    assert recalled(notes, message) == []
    notes.close()


@pytest.mark.parametrize(("message", "is_found"), TALK["a name counts at the start of a message too"])
def test_a_name_counts_as_one_at_the_start_of_a_message_too(tmp_path: Path, message: str, is_found: bool) -> None:
    note = "Dinner with Priya: Marc is vegan"
    notes = search_of(tmp_path, [note, *(f"rain all day, the plumber number {number} came" for number in range(60))])
    assert (note in recalled(notes, message)) is is_found
    notes.close()


def test_a_day_alone_is_a_question_and_a_wish_for_it_is_not(tmp_path: Path) -> None:
    notes = search_of(tmp_path, ["swam in the lake"])
    assert recalled(notes, "What happened on 10 April?") == ["swam in the lake"]
    assert recalled(notes, "thanks for the great time on 10 April!") == []
    notes.close()


@pytest.mark.parametrize("word", ["comment", "merci", "haha", "note", "danke schön", "你好"])
async def test_a_search_is_never_silenced_as_small_talk(tmp_path: Path, word: str) -> None:
    with ScriptedProvider(call("memory_search", {"query": word}), "Found.") as model:
        async with running(tmp_path, model) as here:
            await here.ask(f"/note left a {word} under the article")
            assert f"left a {word} under" in await here.ask(f"/search {word}")
            await here.ask("Look for it")
            assert f"left a {word} under" in str(model.requests[1].history[-1])


def test_who_tells_of_a_day_is_reminded_by_three_short_lines_at_most(tmp_path: Path) -> None:
    about = [f"Pottery class, lesson {number}: glazed a bowl{', turned the wheel slowly' * 8}" for number in range(5)]
    notes = search_of(tmp_path, [*about, *(f"rain all day, the bus number {number} was late" for number in range(60))])
    found = recalled(notes, "I went to pottery again this afternoon and it was so calming")
    assert 0 < len(found) <= 3
    assert all(text.startswith("Pottery class") and len(text) <= 110 for text in found)
    assert recalled(notes, "thank you so much, that was really kind of you") == []
    notes.close()
