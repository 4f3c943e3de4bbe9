"""Dates in questions and in notes: a day is found by the notes of it, and by those that name it."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from nanoclaw.plugins.memory.search import NoteSearch
from nanoclaw.time_words.days import find_dates
from nanoclaw.tokenizer import fold

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


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("what is on 3 December?", "09:00 Doctor moved to 3 December"),
        ("what is on 2026-12-03?", "09:00 Doctor moved to 3 December"),
        ("what happens in two days?", "09:00 Doctor moved to 3 December"),
        ("12月3日有什么事？", "09:00 Doctor moved to 3 December"),
        ("what happened on 8 November?", "10:00 yesterday Ben broke his arm"),
        ("what is on 4 December?", "09:00 choir sings next Friday"),
        ("what is on this Friday?", "09:00 choir sings next Friday"),
        ("what is on 14 December?", "10:00 weaving course in two weeks"),
        ("12月9日我要做什么？", "11:00 下周三交房租"),
        ("what did I do one year ago?", "09:00 planted forty tulips"),
        ("what did I do the week before last?", "09:00 painted the kitchen"),
        ("what did I see in spring?", "09:00 saw the first swallows"),
        ("今年春天我看到了什么？", "09:00 saw the first swallows"),
        ("Was ist am 3. Dezember?", "09:00 Doctor moved to 3 December"),
        ("Was war vor einem Jahr?", "09:00 planted forty tulips"),
        ("Was habe ich vorletzte Woche gemacht?", "09:00 painted the kitchen"),
        ("et le 12 décembre ?", "Rendez-vous chez le coiffeur le 12 décembre"),
        ("el 13 de diciembre", "Поезд в Казань 13 декабря"),
        ("13 декабря", "Поезд в Казань 13 декабря"),
        ("15 Aralık'ta ne var?", "Ali 15 Aralık'ta geliyor"),
        ("весной", "09:00 saw the first swallows"),
        ("vor einem Jahr", "09:00 planted forty tulips"),
    ],
)
def test_a_day_is_found_by_its_notes_and_by_those_that_name_it(
    ask: Callable[[str], list[str]], question: str, note: str
) -> None:
    assert ask(question)[:1] == [note]


@pytest.mark.parametrize(
    ("said", "first", "last"),
    [
        ("the month before last", date(2026, 10, 1), date(2026, 10, 31)),
        ("the weekend before last", date(2026, 11, 21), date(2026, 11, 22)),
        ("next month", date(2027, 1, 1), date(2027, 1, 31)),
        ("last summer", date(2026, 6, 1), date(2026, 8, 31)),
        ("in the winter of 2024", date(2024, 12, 1), date(2025, 2, 28)),
        ("tomorrow", date(2026, 12, 2), date(2026, 12, 2)),
        ("the day after tomorrow", date(2026, 12, 3), date(2026, 12, 3)),
        ("后天", date(2026, 12, 3), date(2026, 12, 3)),
        ("下周五", date(2026, 12, 11), date(2026, 12, 11)),
        ("去年秋天", date(2025, 9, 1), date(2025, 11, 30)),
    ],
)
def test_days_in_words(said: str, first: date, last: date) -> None:
    ((days,), rest) = find_dates(said, NOW.date())
    assert (days.first, days.last, rest.strip()) == (first, last, "")


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


@pytest.mark.parametrize(
    ("said", "first", "last"),
    [
        ("am 3.12.", date(2025, 12, 3), date(2025, 12, 3)),
        ("wo waren wir im märz 2025?", date(2025, 3, 1), date(2025, 3, 31)),
        ("hier ?", date(2026, 11, 30), date(2026, 11, 30)),
        ("im März 2025", date(2025, 3, 1), date(2025, 3, 31)),
        ("gestern", date(2026, 11, 30), date(2026, 11, 30)),
        ("was steht morgen an?", date(2026, 12, 2), date(2026, 12, 2)),
        ("la semaine dernière", date(2026, 11, 23), date(2026, 11, 29)),
        ("hace dos días", date(2026, 11, 29), date(2026, 11, 29)),
        ("на прошлой неделе", date(2026, 11, 23), date(2026, 11, 29)),
        ("iki gün önce", date(2026, 11, 29), date(2026, 11, 29)),
        ("dün", date(2026, 11, 30), date(2026, 11, 30)),
        ("en été", date(2026, 6, 1), date(2026, 8, 31)),
    ],
)
def test_dates_are_read_in_other_languages(said: str, first: date, last: date) -> None:
    found = find_dates(said.casefold(), NOW.date())[0][0]
    assert (found.first, found.last) == (first, last)


@pytest.mark.parametrize(
    "said", ["guten morgen", "bis morgen!", "à demain !", "до завтра", "3 mais", "vor dem haus", "hier"]
)
def test_no_day_is_meant_by_greetings_and_words_that_look_like_dates(said: str) -> None:
    assert find_dates(said, NOW.date())[0] == []


@pytest.mark.parametrize(
    "said", ["Guten Morgen!", "hier ist es schön", "hasta mañana", "до завтра", "par avion", "an ape"]
)
def test_words_that_are_no_days(said: str) -> None:
    assert find_dates(fold(said), NOW.date()) == ([], fold(said))


@pytest.mark.parametrize(
    ("note", "question"),
    [
        ("09:00 der Arzttermin ist am 3. Dezember", "Was steht am 3. Dezember an?"),
        ("09:00 übermorgen kommt der Klempner", "Was war am 11. November?"),
        ("09:00 dentiste le 3 décembre", "Qu'est-ce que j'ai le 3 décembre ?"),
        ("09:00 hier, Ben s'est cassé le bras", "Que s'est-il passé le 8 novembre ?"),
        ("09:00 dentista el 3 de diciembre", "¿Qué tengo el 3 de diciembre?"),
        ("09:00 ayer se rompió la lavadora", "¿Qué pasó el 8 de noviembre?"),
        ("09:00 3 Aralık'ta dişçi", "3 Aralık'ta ne var?"),
        ("09:00 dün kolu kırıldı", "8 Kasım'da ne oldu?"),
        ("09:00 зубной 3 декабря", "Что у меня 3 декабря?"),
        ("09:00 вчера сломалась машина", "Что случилось 8 ноября?"),
        ("09:00 dentista il 3 dicembre", "Che cosa c'è il 3 dicembre?"),
        ("09:00 ieri si è rotta la lavatrice", "Che cosa è successo l'8 novembre?"),
        ("09:00 dentista a 3 de dezembro", "O que tenho a 3 de dezembro?"),
        ("09:00 ontem o carro avariou", "O que aconteceu a 8 de novembro?"),
    ],
)
def test_notes_in_other_languages_name_days(tmp_path: Path, note: str, question: str) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "2026-11-09.md").write_text(f"- {note}\n- 10:00 xyz\n", encoding="utf-8")
    (tmp_path / "memory" / "2026-10-20.md").write_text(
        "- 10:00 rain, regen, pluie, lluvia, yağmur, дождь\n", encoding="utf-8"
    )
    notes = NoteSearch(tmp_path, tmp_path / "index.db", lambda: NOW)
    assert [hit.text for hit in notes.recall(question, (), NOW, 1_500, 12)][:1] == [note]
    notes.close()
