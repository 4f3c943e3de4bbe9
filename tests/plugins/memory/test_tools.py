"""The memory tools, as the model uses them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nanoclaw.core.messages import Address, ToolCall
from nanoclaw.core.tool import ToolContext
from nanoclaw.plugins.forget.forgetting import Forgetter, memory_command
from nanoclaw.plugins.undo.changes import Changes
from tests.plugins.conftest import Hands


def test_a_fact_and_a_note_are_kept_and_found(hands: Hands) -> None:
    assert hands("memory_add", text="Allergic to nuts", kind="fact") == (
        "Noted in MEMORY.md: - 2026-05-03: Allergic to nuts"
    )
    assert hands("memory_add", text="The plumber\ncame") == "Noted in memory/2026-05-03.md: - 23:30 The plumber came"
    assert hands("memory_add", text="The plumber came").startswith("Already noted in memory/2026-05-03.md")
    assert hands("memory_search", query="allergic to nuts?").startswith("MEMORY.md:1 2026-05-03 (score ")
    assert "The plumber came" in hands("memory_search", query="plumbers")
    assert hands("memory_get", file="memory/2026-05-03.md") == "1\t- 23:30 The plumber came"


def test_nothing_found_says_so_and_never_raises(hands: Hands) -> None:
    for query in ("zebra", "", "the", '"a* OR (', "\0", "🎈", "x" * 100_000, "((((", "hi"):
        assert "nothing in memory matches" in hands("memory_search", query=query)


def test_a_snippet_is_bounded(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- needle " + "x" * 5_000)
    text = hands("memory_search", query="needle", limit=1000)
    assert len(text) < 760
    assert text.endswith("…")


def test_only_memory_files_can_be_read(hands: Hands) -> None:
    (hands.root / "secret.md").write_text("x")
    for file in ("../x.md", "/etc/passwd", "notes/a.md", "memory/../secret.md", "memory/.x", "", "memory/\0"):
        assert "give MEMORY.md or memory/YYYY-MM-DD.md" in hands.error("memory_get", file=file)
    assert "there is no memory/2026-01-01.md" in hands.error("memory_get", file="2026-01-01")


def test_an_empty_note_is_refused(hands: Hands) -> None:
    assert "the text is empty" in hands.error("memory_add", text=" \n ")
    assert not list(hands.root.iterdir())


def test_control_bytes_of_a_note_do_not_come_back(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_bytes(b"- needle \x1b[31m \xff\n")
    assert "needle ␛[31m \ufffd" in hands("memory_get", file="MEMORY.md")
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
    assert error.startswith("2 facts have 'Anna is'; nothing was changed.")
    assert error.endswith("\n1: - Anna is 30\n2: - Anna is tall")
    for words in ("Anna is 29", "Bob", "~~", "."):
        assert "1: - Anna is 30" in hands.error("memory_add", text="Anna is 31", kind="fact", replaces=words)
    assert (hands.root / "MEMORY.md").read_text() == text


def test_a_correction_names_one_fact_by_its_whole_text_when_others_contain_it(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- Likes tea\n- Likes tea with milk\n")
    hands("memory_add", text="Likes coffee", kind="fact", replaces="likes tea")
    assert (hands.root / "MEMORY.md").read_text().splitlines()[:2] == [
        "- ~~Likes tea~~ (2026-05-03)",
        "- Likes tea with milk",
    ]


def test_a_correction_said_twice_is_done_once(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- Anna is 30\n")
    hands("memory_add", text="Anna is 31", kind="fact", replaces="Anna is 30")
    before = (hands.root / "MEMORY.md").read_text()
    hands.error("memory_add", text="Anna is 31", kind="fact", replaces="Anna is 30")
    assert (hands.root / "MEMORY.md").read_text() == before


def test_a_correction_leaves_all_other_bytes_as_they_are(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_bytes(b"\xef\xbb\xbf- Anna is 30\r\n* bad \xff byte\r\nno end")
    hands("memory_add", text="Anna is 31", kind="fact", replaces="Anna is 30")
    assert (hands.root / "MEMORY.md").read_bytes() == (
        b"\xef\xbb\xbf- ~~Anna is 30~~ (2026-05-03)\r\n* bad \xff byte\r\nno end\r\n- 2026-05-03: Anna is 31\r\n"
    )


# -- forgetting


def test_forgetting_first_lists_and_removes_nothing(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- 2026-01-10: The alarm code is 4711-x\n- Bob likes tea\n")
    hands("memory_add", text="Told Bob the alarm code")
    listed = hands("memory_forget", query="alarm code")
    assert listed == (
        "1. MEMORY.md:1: - 2026-01-10: The alarm code is 4711-x\n"
        "2. memory/2026-05-03.md:1: - 23:30 Told Bob the alarm code\n"
        "[nothing is forgotten yet: which numbers?]"
    )
    assert (hands.root / "MEMORY.md").read_text().count("4711-x") == 1


def test_forgetting_takes_out_the_chosen_lines_and_those_that_say_the_same(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- 2026-01-10: The alarm code is 4711-x\n- Bob likes tea\n")
    (hands.root / "memory").mkdir()
    (hands.root / "memory/2026-01-10.md").write_text("# Day\r\n- 10:00 the alarm code is 4711-x.\r\n- other\r\n")
    hands("memory_add", text="Told Bob about an alarm")
    hands("memory_forget", query="alarm code")
    said = hands("memory_forget", query="alarm  code", numbers=[1])
    assert said.startswith("Forgotten: MEMORY.md:1, memory/2026-01-10.md:2;")
    assert "4711" not in said
    assert (hands.root / "MEMORY.md").read_text() == "- Bob likes tea\n"
    assert (hands.root / "memory/2026-01-10.md").read_bytes() == b"# Day\r\n- other\r\n"
    assert "an alarm" in (hands.root / "memory/2026-05-03.md").read_text()


def test_wrong_numbers_and_empty_queries_forget_nothing(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- zebra\n")
    hands("memory_forget", query="zebra")
    assert "it has 1 numbers" in hands.error("memory_forget", query="zebra", numbers=[0, 2])
    assert "the query is empty" in hands.error("memory_forget", query=" ")
    assert "nothing in notes or conversations" in hands("memory_forget", query="okapi")
    assert (hands.root / "MEMORY.md").read_text() == "- zebra\n"


def test_numbers_count_only_for_the_query_that_was_listed(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- okapi\n- zebra\n")
    hands("memory_forget", query="zebra")
    assert "list for 'zebra'" in hands.error("memory_forget", query="okapi zebra", numbers=[1])
    assert (hands.root / "MEMORY.md").read_text() == "- okapi\n- zebra\n"


def test_a_job_forgets_nothing(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- zebra\n")
    context = ToolContext(Address("test", "1"), "me", "job")
    call = ToolCall("1", "memory_forget", '{"query": "zebra", "numbers": [1]}')
    assert asyncio.run(hands.box.run(call, context)).is_error
    assert (hands.root / "MEMORY.md").read_text() == "- zebra\n"


def test_a_line_that_changed_after_it_was_listed_is_not_forgotten(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- zebra\n")
    hands("memory_forget", query="zebra")
    (hands.root / "MEMORY.md").write_text("- new\n- zebra\n")
    assert "List it again" in hands.error("memory_forget", query="zebra", numbers=[1])
    assert (hands.root / "MEMORY.md").read_text() == "- new\n- zebra\n"


def test_other_files_of_the_workspace_are_listed_and_only_change_when_chosen(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- zebra plan\n")
    (hands.root / "projects").mkdir()
    (hands.root / "projects/a.md").write_text("one\nthe zebra plan\n")
    assert "2. projects/a.md:2: the zebra plan" in hands("memory_forget", query="zebra plan")
    said = hands("memory_forget", query="zebra plan", numbers=[1])
    assert "Still in workspace/projects/a.md" in said
    hands("memory_forget", query="zebra plan", numbers=[1])
    assert (hands.root / "projects/a.md").read_text() == "one\n"


def test_what_was_forgotten_comes_back_within_ten_minutes(hands: Hands, changes: Changes, forgetter: Forgetter) -> None:
    text = "- a\n- zebra one\n- b\n- zebra two\n"
    (hands.root / "MEMORY.md").write_text(text)
    hands("memory_forget", query="zebra")
    hands("memory_forget", query="zebra", numbers=[1, 2])
    assert (hands.root / "MEMORY.md").read_text() == "- a\n- b\n"
    assert "something was forgotten (undo until 23:40)" in memory_command(changes, forgetter, "log")
    assert memory_command(changes, forgetter, "undo") == (
        "2 lines of your notes and 0 texts of conversations are back."
    )
    assert (hands.root / "MEMORY.md").read_text() == text


def test_what_was_written_since_stays_when_the_forgotten_comes_back(
    hands: Hands, changes: Changes, forgetter: Forgetter
) -> None:
    (hands.root / "MEMORY.md").write_text("- zebra")
    hands("memory_forget", query="zebra")
    hands("memory_forget", query="zebra", numbers=[1])
    (hands.root / "MEMORY.md").write_text("- by hand\n")
    memory_command(changes, forgetter, "undo")
    assert (hands.root / "MEMORY.md").read_text() == "- zebra\n- by hand\n"


def test_what_was_forgotten_is_also_out_of_the_copies_kept_for_undo(
    hands: Hands, changes: Changes, tmp_path: Path
) -> None:
    hands("memory_add", text="zebra", kind="fact")
    hands("memory_add", text="okapi", kind="fact")
    hands("memory_forget", query="zebra")
    hands("memory_forget", query="zebra", numbers=[1])
    for path in (tmp_path / "undo").iterdir():
        assert b"zebra" not in path.read_bytes()
    assert changes.undo().target == "MEMORY.md"
    assert (hands.root / "MEMORY.md").read_text() == ""
