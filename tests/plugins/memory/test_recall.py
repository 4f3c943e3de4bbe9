"""Finding notes: the right one first, in any size of memory and any language."""

import os
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from nanoclaw.plugins.memory import recall as recalling
from nanoclaw.plugins.memory.index import Index
from nanoclaw.plugins.memory.notes import Hit, MemoryStore
from nanoclaw.plugins.memory.search import NoteSearch
from nanoclaw.tokenizer import tokens
from tests.examples import examples

WORDS = examples(__file__, "recall.jsonl")

NOW = datetime(2026, 5, 3, 12, 0, tzinfo=UTC)


def workspace(root: Path, **notes: str) -> Path:
    (root / "memory").mkdir()
    for name, text in notes.items():
        path = root / "MEMORY.md" if name == "MEMORY" else root / "memory" / f"{name.strip('_').replace('_', '-')}.md"
        path.write_text(text, encoding="utf-8")
    return root


def search(workspace: Path, query: str, limit: int, now: datetime) -> list[Hit]:
    index = Index(workspace, workspace / "index.db")
    try:
        return recalling.search(index, query, limit, now)
    finally:
        index.close()


def recall(workspace: Path, query: str, *talk: str, budget: int = 1_500) -> list[Hit]:
    index = Index(workspace, workspace / "index.db")
    try:
        return recalling.recall(index, query, talk, NOW, budget)
    finally:
        index.close()


def texts(hits: list[Hit]) -> list[str]:
    return [hit.text for hit in hits]


def test_notes_are_split_at_headings_bullets_and_blank_lines(tmp_path: Path) -> None:
    text = "# Garden\n\nThe apple tree\nneeds water\n\n- apple one\n  more of it\n  - apple two\n1. apple three\n"
    text += "## Food\napple pie\n"
    hits = search(workspace(tmp_path, MEMORY=text), "apple", 10, NOW)
    assert sorted((hit.start, hit.end, hit.text) for hit in hits) == [
        (3, 4, "The apple tree\nneeds water"),
        (6, 7, "apple one\nmore of it"),
        (8, 8, "apple two"),
        (9, 9, "apple three"),
        (11, 11, "apple pie"),
    ]


def test_a_heading_counts_for_what_stands_below_it(tmp_path: Path) -> None:
    ws = workspace(tmp_path, MEMORY="# Garden\n- roses\n# Kitchen\n- pots\n")
    assert texts(search(ws, "garden", 5, NOW)) == ["roses"]


def test_a_rare_word_outweighs_common_ones(tmp_path: Path) -> None:
    ws = workspace(tmp_path, MEMORY="- walk in the park\n- walk to the zoo\n- walk home\n- the zebra in the park\n")
    assert texts(search(ws, "walk park zebra", 1, NOW)) == ["the zebra in the park"]


def test_age_only_breaks_ties(tmp_path: Path) -> None:
    ws = workspace(
        tmp_path,
        _2020_01_01="- the red bicycle was stolen",
        _2026_05_01="- a bicycle lane was planned",
        _2026_05_02="- a bicycle race was watched",
    )
    assert texts(search(ws, "stolen bicycle", 1, NOW)) == ["the red bicycle was stolen"]
    assert texts(search(ws, "bicycle", 3, NOW))[:2] == ["a bicycle race was watched", "a bicycle lane was planned"]


def test_facts_carry_their_own_date(tmp_path: Path) -> None:
    ws = workspace(tmp_path, MEMORY="- 2024-02-29: Moved to Lviv\n- Born in Kyiv, Lviv later\n")
    assert {hit.date for hit in search(ws, "Lviv", 5, NOW)} == {date(2024, 2, 29), None}


def test_struck_words_are_not_returned(tmp_path: Path) -> None:
    ws = workspace(
        tmp_path, MEMORY="- ~~Birthday on 4 May~~\n- Birthday on 5 May\n- 2026-01-01: ~~birthday cake~~ (2026-02-02)\n"
    )
    assert texts(search(ws, "birthday", 5, NOW)) == ["Birthday on 5 May"]


@pytest.mark.parametrize(("query", "note"), WORDS["words are found in other forms and languages"])
def test_words_are_found_in_other_forms_and_languages(tmp_path: Path, query: str, note: str) -> None:
    assert texts(search(workspace(tmp_path, MEMORY=f"- something else\n{note}\n"), query, 5, NOW)) == [note[2:]]


def test_tokens() -> None:
    assert " ".join(tokens("The 3 dogs' kennel, my_file and 東京x!")) == "3 dog kennel file 東 京 東京 x"


def test_odd_files_are_passed_over(tmp_path: Path) -> None:
    ws = workspace(tmp_path, _2026_13_40="- needle in an impossible day\n", _2026_05_01="- needle in May\n")
    (tmp_path / "memory/bad.md").write_bytes(b"- needle \xff\xfe\n")
    (tmp_path / "memory/folder.md").mkdir()
    os.mkfifo(tmp_path / "memory/pipe.md")
    (tmp_path / "MEMORY.md").symlink_to("/etc/passwd")
    names = {hit.file.removeprefix("memory/") for hit in search(ws, "needle", 9, NOW)}
    assert names == {"2026-13-40.md", "2026-05-01.md", "bad.md"}


def test_a_message_about_something_else_recalls_nothing(tmp_path: Path) -> None:
    ws = workspace(tmp_path, _2026_05_01="- the capital letters of the sign were painted\n- tea with Bob\n")
    assert recall(ws, "What is the population of Brazil's capital Brasilia?") == []


def test_a_word_like_many_is_not_taken_for_a_typo_of_one(tmp_path: Path) -> None:
    ws = workspace(tmp_path, _2026_05_01="- the fire was warm\n- fresh air at last\n- a tie for the wedding\n- rain\n")
    assert recall(ws, "I'm tired") == []


def test_less_of_a_message_will_do_when_it_is_about_the_own_affairs(tmp_path: Path) -> None:
    ws = workspace(tmp_path, _2026_05_01="- rain all day and night\n- a recipe from Lviv\n- bread and butter for tea\n")
    assert recall(ws, "What is the recipe for gnocchi?") == []
    assert texts(recall(ws, "Where is my recipe for gnocchi?")) == ["a recipe from Lviv"]


def test_words_that_stand_far_apart_do_not_make_a_message_one_about_the_notes(tmp_path: Path) -> None:
    weather = "\n# Weather\n- rain, wind, thunder, hail, fog, frost, drizzle, sleet and mist from dawn till dusk\n"
    notes = {"_2026_04_01": "coffee", "_2026_04_02": "marble", "_2026_04_03": "stain"}
    ws = workspace(tmp_path, **{day: f"- {word}\n{weather}" for day, word in notes.items()})
    assert recall(ws, "How does coffee stain marble?") == []
    assert set(texts(recall(ws, "How does my coffee stain marble?"))) == {"coffee", "marble", "stain"}


def test_a_year_that_no_note_is_of_brings_up_nothing(tmp_path: Path) -> None:
    ws = workspace(tmp_path, _2026_04_01="- Bob won at chess again\n", _2026_05_02="- swam in the lake\n")
    assert recall(ws, "Who won the World Cup in 1998?") == []
    assert texts(recall(ws, "Who won at chess in 2026?"))[0] == "Bob won at chess again"


@pytest.mark.parametrize(("then", "now", "question"), WORDS["of what has changed the newest comes first"])
def test_of_what_has_changed_the_newest_comes_first(tmp_path: Path, then: str, now: str, question: str) -> None:
    ws = workspace(tmp_path, _2026_02_01=f"- {then}\n- rain\n", _2026_04_02=f"- {now}\n- tea with Bob\n")
    assert texts(recall(ws, question)) == [now, then]


@pytest.mark.parametrize(("then", "now", "question"), WORDS["moves"])
def test_a_move_is_found_and_says_until_when_the_old_home_may_have_been_one(
    tmp_path: Path, then: str, now: str, question: str
) -> None:
    moved = {"_2026_04_02": f"- 10:30 {now}\n- tea with Bob\n"}
    ws = workspace(tmp_path, _2026_02_01=f"- 09:30 {then}\n", **moved)
    assert texts(recall(ws, question)) == [f"10:30 {now}", f"09:30 {then} (until 2026-04-02?)"]
    (ws / "memory" / "2026-02-01.md").write_text(f"- {then} (until 2026-03-06)\n", encoding="utf-8")
    assert f"{then} (until 2026-03-06)" in texts(recall(ws, question))


def test_of_what_is_both_true_nothing_is_said_to_have_ended(tmp_path: Path) -> None:
    ws = workspace(tmp_path, _2026_02_01="- my sister lives in Oslo\n", _2026_04_02="- my brother moved to Bergen\n")
    assert "my sister lives in Oslo" in texts(recall(ws, "Where does my sister live?"))


def test_what_is_asked_about_a_day_that_is_named_comes_before_what_is_newer(tmp_path: Path) -> None:
    ws = workspace(tmp_path, _2026_02_01="- rent is 840 euros\n", _2026_04_02="- rent went up to 905 euros\n")
    assert texts(recall(ws, "How much was my rent on 1 February?"))[0] == "rent is 840 euros"


def test_of_equal_lines_the_one_that_shares_rare_words_with_another_good_one_comes_first(tmp_path: Path) -> None:
    ws = workspace(
        tmp_path,
        _2026_04_01="- boat: the spinnaker tore near Usedom\n",
        _2026_04_02="- boat: mended spinnaker in Usedom\n",
        _2026_05_01="- boat: ate lentil soup with Karl\n",
    )
    assert texts(search(ws, "boat", 3, NOW))[-1] == "boat: ate lentil soup with Karl"


FOUND = WORDS["a day is found though no word matches"]


@pytest.mark.parametrize(("question", "day"), FOUND)
def test_a_day_is_found_though_no_word_matches(tmp_path: Path, question: str, day: str) -> None:
    notes = {f"_{each.replace('-', '_')}": f"- swam in lake {each}" for _, each in FOUND}
    assert recall(workspace(tmp_path, **notes), question)[0].file == f"memory/{day}.md"


@pytest.mark.parametrize("query", ["Carolien", "karoline", "Carolne", "Carolinne"])
def test_a_mistyped_name_is_found(tmp_path: Path, query: str) -> None:
    ws = workspace(tmp_path, _2026_05_01="- coffee with Caroline\n- nothing else\n- rain\n")
    assert texts(search(ws, query, 1, NOW)) == ["coffee with Caroline"]


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("who is Wisniewska?", "coffee with Wiśniewska"),
        ("who is Dvorak?", "a quartet by Dvořák"),
        ("who is Dvořák?", "tea with Anton Dvorak"),
        ("who is Mueller?", "Müller came by"),
        ("who is Müller?", "Mueller came by"),
        ("who is Zoe?", "Zoë called"),
        ("where is Lodz", "the train to Łódź"),
        ("what is Mueller's number?", "Müller came by"),
        ("who is Oezil?", "tea with Özil"),
        ("who is Jørgensen?", "tea with Joergensen"),
        ("who is Hélène?", "Helene called"),
    ],
)
def test_a_name_is_found_whatever_its_accents(tmp_path: Path, query: str, note: str) -> None:
    ws = workspace(tmp_path, _2026_05_01=f"- {note}\n- nothing else\n- rain\n")
    assert texts(recall(ws, query)) == texts(search(ws, query, 1, NOW)) == [note]


@pytest.mark.parametrize(("query", "note"), [("who is Sue?", "su is water"), ("who is Poe?", "the Po in flood")])
def test_a_name_with_an_e_is_not_one_without(tmp_path: Path, query: str, note: str) -> None:
    assert recall(workspace(tmp_path, _2026_05_01=f"- {note}\n- nothing else\n- rain\n"), query) == []


def test_a_pronoun_is_understood_from_the_talk_before(tmp_path: Path) -> None:
    ws = workspace(tmp_path, _2026_05_01="- Anna moved to Lviv\n", _2026_05_02="- Bob moved to Kyiv\n")
    assert texts(recall(ws, "Where did she move?", "Let us speak of Anna"))[0] == "Anna moved to Lviv"


def test_a_changed_note_is_seen_by_an_open_index(tmp_path: Path) -> None:
    ws = workspace(tmp_path, _2026_05_01="- the first line\n- a heron\n")
    index = Index(ws, tmp_path / "index.db")
    note = tmp_path / "memory/2026-05-01.md"
    for text in ("- the first line\n- an okapi came\n- a heron\n", "- okapi again\n", "- an okapi stayed\n- more\n"):
        note.write_text(text)
        found = recalling.search(index, "okapi", 1, NOW)
        assert [hit.text for hit in found] == [next(x[2:] for x in text.split("\n") if "okapi" in x)]
        assert recalling.search(index, "heron", 1, NOW) == recalling.search(
            Index(ws, tmp_path / "b.db"), "heron", 1, NOW
        )
    note.unlink()
    assert recalling.search(index, "okapi", 1, NOW) == []
    index.close()


@pytest.mark.parametrize("damage", [b"", b"not a database at all" * 500, None])
def test_a_damaged_index_is_made_anew(tmp_path: Path, damage: bytes | None) -> None:
    ws = workspace(tmp_path, _2026_05_01="- a heron\n")
    assert texts(search(ws, "heron", 1, NOW)) == ["a heron"]
    file = tmp_path / "index.db"
    file.write_bytes(file.read_bytes()[:5000] + b"\xff" * 9000 if damage is None else damage)
    assert texts(search(ws, "heron", 1, NOW)) == ["a heron"]


def test_two_processes_share_an_index(tmp_path: Path) -> None:
    ws = workspace(tmp_path, _2026_05_01="- a heron\n")
    one, two = Index(ws, tmp_path / "index.db"), Index(ws, tmp_path / "index.db")
    for text in ("- a heron\n", "- a heron and an okapi\n", "- two herons\n"):
        (tmp_path / "memory/2026-05-01.md").write_text(text)
        assert recalling.search(one, "heron", 1, NOW) == recalling.search(two, "heron", 1, NOW) != []
    one.discard()
    assert texts(recalling.search(two, "heron", 1, NOW)) == ["two herons"]


DAYS = {date.fromisoformat(day): notes for day, notes in WORDS["notes of some days"]}
"""One-line notes that have nothing to do with each other, as memory_add writes them."""


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    search = NoteSearch(tmp_path, tmp_path / "index.db", lambda: NOW)
    for day, notes in DAYS.items():
        for number, text in enumerate(notes):
            now = datetime(day.year, day.month, day.day, 9 + number, 10 * number, tzinfo=UTC)
            store = MemoryStore(tmp_path, lambda now=now: now, search)  # type: ignore[misc]
            store.add_note(text)
    return tmp_path


@pytest.mark.parametrize(("question", "shown"), WORDS["a note beside the right one does not come up"])
def test_a_note_that_only_stands_beside_the_right_one_does_not_come_up(
    noted: Path, question: str, shown: list[str]
) -> None:
    assert {text.partition(" ")[2] for text in texts(recall(noted, question, budget=3_000))} == set(shown)


def test_the_turn_after_the_right_one_of_a_talk_comes_up_with_it(tmp_path: Path) -> None:
    talk = "- Anna: Which zoo did you like best?\n- Ben: Rotterdam, by far.\n- Anna: Oh!\n- Ben: We go again soon.\n"
    shown = texts(recall(workspace(tmp_path, _2026_05_01=talk), "which zoo did Ben like?"))
    assert "Ben: Rotterdam, by far." in shown


def test_items_below_the_right_one_come_up_with_it_and_those_below_another_do_not(tmp_path: Path) -> None:
    note = "- Trip to Zanzibar\n  - plane at nine\n    - seat 12A\n- Plumber\n  - leak under the sink\n"
    shown = texts(recall(workspace(tmp_path, _2026_05_01=note), "what about Zanzibar?"))
    assert shown == ["Trip to Zanzibar", "plane at nine", "seat 12A"]


@pytest.mark.parametrize(("query", "days"), [("in March", ["2026-03-14"]), ("what is in May 2027?", [])])
def test_a_month_finds_notes_of_its_days_and_those_that_name_it(tmp_path: Path, query: str, days: list[str]) -> None:
    facts = "- The boiler is serviced in March\n- A trip to Lisbon in May 2027\n- Anna likes tea\n"
    ws = workspace(tmp_path, MEMORY=facts, _2026_03_14="- bought a red bike\n", _2026_05_02="- signed the lease\n")
    found = [(hit.file, hit.text) for hit in search(ws, query, 9, NOW)]
    fact = facts.splitlines()[bool("2027" in query)].removeprefix("- ")
    assert found == [("MEMORY.md", fact), *((f"memory/{day}.md", "bought a red bike") for day in days)]
