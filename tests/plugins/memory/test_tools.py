"""The memory tools, as the model uses them."""

from pytest import MonkeyPatch

from nanoclaw.plugins.memory.tools import UNTRUE
from nanoclaw.providers.scripted import ScriptedProvider
from tests.plugins.conftest import Hands


def test_a_fact_and_a_note_are_kept_and_found(hands: Hands) -> None:
    assert hands("memory_add", text="Allergic to nuts", kind="fact") == (
        "Noted in MEMORY.md: - 2026-05-03: Allergic to nuts"
    )
    assert hands("memory_add", text="The plumber\ncame") == "Noted in memory/2026-05-03.md: - 23:30 The plumber came"
    assert hands("memory_add", text="The plumber came").startswith("Already noted in memory/2026-05-03.md")
    assert hands("memory_search", query="allergic to nuts?").startswith("MEMORY.md:1 2026-05-03 (score ")
    assert "The plumber came" in hands("memory_search", query="plumbers")


def test_nothing_found_says_so_and_never_raises(hands: Hands) -> None:
    for query in ("zebra", "", "the", '"a* OR (', "\0", "🎈", "x" * 100_000, "((((", "hi"):
        assert "nothing in memory matches" in hands("memory_search", query=query)


def test_a_snippet_is_bounded(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- needle " + "x" * 5_000)
    text = hands("memory_search", query="needle", limit=1000)
    assert len(text) < 760
    assert text.endswith("…")


def test_control_bytes_of_a_note_do_not_come_back(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_bytes(b"- needle \x1b[31m \xff\n")
    assert "needle ␛[31m \ufffd" in hands("memory_search", query="needle")


# -- corrections


def test_a_correction_strikes_the_old_fact_with_the_date_and_adds_the_new_one(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("# Memory\n- 2026-01-10: Anna's birthday is 4 May.\n- Bob likes tea\n")
    said = hands("memory_add", text="Anna's birthday is 5 May.", kind="fact", replaces="birthday is 4 may")
    assert said == (
        "Noted in MEMORY.md: - 2026-05-03: Anna's birthday is 5 May.\n"
        "Corrected: - ~~2026-01-10: Anna's birthday is 4 May.~~ (2026-05-03)"
    )
    assert (hands.root / "MEMORY.md").read_text() == (
        "# Memory\n- ~~2026-01-10: Anna's birthday is 4 May.~~ (2026-05-03)\n- Bob likes tea\n"
        "- 2026-05-03: Anna's birthday is 5 May.\n"
    )
    found = hands("memory_search", query="When is Anna's birthday, 4 May?")
    assert "5 May" in found
    assert "4 May" not in found


def test_a_correction_of_nothing_or_of_several_shows_the_facts_and_changes_nothing(hands: Hands) -> None:
    text = "- Anna is 30\n- Anna is tall\n- ~~Anna is 29~~ (2026-01-01)\n"
    (hands.root / "MEMORY.md").write_text(text)
    error = hands.error("memory_add", text="Anna is 31", kind="fact", replaces="Anna is")
    assert error.startswith("2 entries have 'Anna is'; nothing was changed.")
    assert error.endswith("\nMEMORY.md:1: - Anna is 30\nMEMORY.md:2: - Anna is tall")
    for words in ("Anna is 29", "Bob", "~~", "."):
        assert "MEMORY.md:1: - Anna is 30" in hands.error("memory_add", text="Anna is 31", kind="fact", replaces=words)
    assert (hands.root / "MEMORY.md").read_text() == text


def test_a_correction_names_one_fact_by_its_whole_text_when_others_contain_it(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- Likes tea\n- Likes tea with milk\n")
    hands("memory_add", text="Likes coffee", kind="fact", replaces="likes tea")
    assert (hands.root / "MEMORY.md").read_text().splitlines()[:2] == [
        "- ~~Likes tea~~ (2026-05-03)",
        "- Likes tea with milk",
    ]


def test_a_note_that_a_new_one_replaces_says_until_when_it_held_and_is_not_replaced_again(hands: Hands) -> None:
    note = hands.root / "memory/2026-02-01.md"
    note.parent.mkdir()
    note.write_text("- 09:00 Lives in Bonn <!-- also: flat -->\n- rain in Bonn\n")
    assert hands("memory_add", text="Moved to Hamburg", replaces="lives in Bonn") == (
        "Noted in memory/2026-05-03.md: - 23:30 Moved to Hamburg\n"
        "Corrected: - 09:00 Lives in Bonn <!-- also: flat --> (until 2026-05-03)"
    )
    note.write_text(before := note.read_text() + "- Bonn again")
    assert "no current entry has 'lives in Bonn'" in hands.error("memory_add", text="Gone", replaces="lives in Bonn")
    assert "memory/2026-02-01.md:3: - Bonn again" in hands.error("memory_add", text="Gone", replaces="Bonn")
    assert hands("memory_add", text="Tea", kind="fact", replaces="Bonn again").startswith("Noted in MEMORY.md")
    assert note.read_text() == f"{before} (until 2026-05-03)"


def test_a_note_names_what_it_may_end_and_the_same_text_again_ends_one(hands: Hands, monkeypatch: MonkeyPatch) -> None:
    note = hands.root / "memory/2026-02-01.md"
    note.parent.mkdir()
    note.write_text("- 09:00 Choir on Wednesdays at seven\n- 09:10 Choir in Bonn (until 2026-02-20)\n- Rain\n")
    said = hands("memory_add", text="The choir meets on Fridays now")
    assert said == (
        f"Noted in memory/2026-05-03.md: - 23:30 The choir meets on Fridays now\n{UNTRUE}\n"
        "- memory/2026-02-01.md:1: 09:00 Choir on Wednesdays at seven"
    )
    assert hands("memory_add", text="The choir meets on Fridays now", replaces="choir") == (
        "Already noted in memory/2026-05-03.md: - 23:30 The choir meets on Fridays now\n"
        "Corrected: - 09:00 Choir on Wednesdays at seven (until 2026-05-03)"
    )
    assert hands("memory_add", text="The plumber came") == "Noted in memory/2026-05-03.md: - 23:30 The plumber came"
    monkeypatch.setattr(ScriptedProvider, "cuts_history", True, raising=False)  # a small model
    assert UNTRUE not in hands("memory_add", text="The choir sings Bach on Fridays")


def test_a_note_that_ends_a_fact_is_moved_to_the_facts(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- 2026-01-10: Choir on Wednesdays\n")
    assert hands("memory_add", text="Choir now on Fridays").endswith(
        f"\n{UNTRUE}\n- MEMORY.md:1: 2026-01-10: Choir on Wednesdays"
    )
    said = hands("memory_add", text="Choir now on Fridays", replaces="Choir on Wednesdays")
    assert said.startswith("Noted in MEMORY.md: - 2026-05-03: Choir now on Fridays\nCorrected: ")
    assert (hands.root / "memory/2026-05-03.md").read_text() == ""
    assert "~~2026-01-10: Choir on Wednesdays~~" in (hands.root / "MEMORY.md").read_text()


def test_a_correction_leaves_all_other_bytes_as_they_are(hands: Hands) -> None:
    odd = b"* bad \0\xff\xfe bytes \xed\xa0\x80\r\nno end"
    (hands.root / "MEMORY.md").write_bytes(b"\xef\xbb\xbf- Anna is 30\r\n" + odd)
    hands("memory_add", text="Anna is 31", kind="fact", replaces="Anna is 30")
    assert (hands.root / "MEMORY.md").read_bytes() == (
        b"\xef\xbb\xbf- ~~Anna is 30~~ (2026-05-03)\r\n" + odd + b"\r\n- 2026-05-03: Anna is 31\r\n"
    )
