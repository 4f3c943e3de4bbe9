"""Dates in questions and in notes: a day is found by the notes of it, and by those that name it."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from nanoclaw.plugins.memory.search import NoteSearch
from nanoclaw.time_words.days import find_dates
from nanoclaw.tokenizer import fold
from tests.examples import examples

DAYS = examples(__file__, "days.jsonl")

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)  # a Tuesday
NOTES = {
    "2025-12-02": "- 09:00 planted forty tulips\n",
    "2026-04-14": "- 09:00 saw the first swallows\n",
    "2026-11-09": "- 09:00 Doctor moved to 3 December\n- 10:00 yesterday Ben broke his arm\n- rain\n",
    "2026-11-18": "- 09:00 painted the kitchen\n",
    "2026-10-20": "- Rendez-vous chez le coiffeur le 12 décembre\n- Поезд в Казань 13 декабря\n",
    "2026-10-21": "- Ali 15 Aralık'ta geliyor\n",
    "2026-11-30": "- 09:00 choir sings next Friday\n- 10:00 weaving course in two weeks\n- 11:00 下周三交房租\n",
}


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[[str], list[str]]]:
    (tmp_path / "memory").mkdir()
    for day, text in NOTES.items():
        (tmp_path / "memory" / f"{day}.md").write_text(text, encoding="utf-8")
    notes = NoteSearch(tmp_path, tmp_path / "index.db", lambda: NOW)
    yield lambda question: [hit.text for hit in notes.recall(question, (), NOW, 1_500, 12)]
    notes.close()


@pytest.mark.parametrize(("question", "note"), DAYS["a day is found by its notes and by those that name it"])
def test_a_day_is_found_by_its_notes_and_by_those_that_name_it(
    ask: Callable[[str], list[str]], question: str, note: str
) -> None:
    assert ask(question)[:1] == [note]


@pytest.mark.parametrize(("said", "first", "last"), DAYS["days in words"])
def test_days_in_words(said: str, first: str, last: str) -> None:
    ((days,), rest) = find_dates(said, NOW.date())
    assert (str(days.first), str(days.last), rest.strip()) == (first, last, "")


def test_a_day_without_a_year_is_the_latest_and_the_next() -> None:
    ranges, _ = find_dates("29 february", NOW.date())
    assert [each.first for each in ranges] == [date(2024, 2, 29), date(2028, 2, 29)]


PHRASES = (Path(__file__).parent / "date_phrases.txt").read_text("utf-8").splitlines()


def test_days_in_the_words_of_other_languages() -> None:
    wrong = []
    for days, _, said in (line.split(" ", 2) for line in PHRASES if ".." in line):
        found = [f"{each.first}..{each.last}" for each in find_dates(fold(said), NOW.date())[0]]
        wrong += [(said, days, found)] if days not in found else []
    assert wrong == []


@pytest.mark.parametrize("said", DAYS["words that are no days"])
def test_words_that_are_no_days(said: str) -> None:
    assert find_dates(fold(said), NOW.date()) == ([], fold(said))


@pytest.mark.parametrize(("note", "question"), DAYS["notes in other languages name days"])
def test_notes_in_other_languages_name_days(tmp_path: Path, note: str, question: str) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "2026-11-09.md").write_text(f"- {note}\n- 10:00 xyz\n", encoding="utf-8")
    (tmp_path / "memory" / "2026-10-20.md").write_text(
        "- 10:00 rain, regen, pluie, lluvia, yağmur, дождь\n", encoding="utf-8"
    )
    notes = NoteSearch(tmp_path, tmp_path / "index.db", lambda: NOW)
    assert [hit.text for hit in notes.recall(question, (), NOW, 1_500, 12)][:1] == [note]
    notes.close()
