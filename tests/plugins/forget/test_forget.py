"""The tool that forgets, as the model uses it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.plugins.conftest import Hands


def test_forgetting_first_lists_and_removes_nothing(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- 2026-01-10: The alarm code is 4711-x\n- Bob likes tea\n")
    hands("memory_add", text="Told Bob the alarm code")
    listed = hands("memory_forget", query="alarm code")
    assert listed == (
        "1. MEMORY.md:1: - 2026-01-10: The alarm code is 4711-x\n"
        "2. memory/2026-05-03.md:1: - 23:30 Told Bob the alarm code\n"
        "[nothing is forgotten yet, and then it cannot come back: which numbers?]"
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
    asked = json.dumps({"query": "zebra", "numbers": [1]})
    assert "only the person" in hands.send("memory_forget", asked, "job").text
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


def test_what_was_forgotten_is_also_out_of_the_copies_kept_for_undo(hands: Hands, tmp_path: Path) -> None:
    hands("memory_add", text="zebra", kind="fact")
    hands("memory_add", text="okapi", kind="fact")
    hands("memory_forget", query="zebra")
    hands("memory_forget", query="zebra", numbers=[1])
    for path in (tmp_path / "undo").iterdir():
        assert b"zebra" not in path.read_bytes()
    assert hands.app.public("undo").undo().tool == "memory_add"  # no other hand
    assert (hands.root / "MEMORY.md").read_text() == ""
