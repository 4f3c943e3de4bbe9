"""Changes of memory files by tools: each can be undone, and none takes most of a file away without a yes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.errors import WorkspaceError
from nanoclaw.tools.forgetting import memory_command
from nanoclaw.workspace.changes import KEPT, Changes

from .conftest import NOW, Hands

FACTS = "".join(f"- fact number {number}\n" for number in range(20))


@pytest.fixture
def facts(root: Path) -> Path:
    path = root / "MEMORY.md"
    path.write_text(FACTS)
    return path


@pytest.mark.parametrize("path", ["MEMORY.md", "./MEMORY.md", "x/../MEMORY.md"])
def test_a_change_that_takes_more_than_half_of_a_memory_file_needs_a_yes(hands: Hands, facts: Path, path: str) -> None:
    error = hands.error("write_file", path=path, content="- fact number 3\n")
    assert error.startswith("this would take 19 of 20 lines out of MEMORY.md, so nothing was done. Ask the person,")
    error = hands.error("edit_file", path=path, old=FACTS[:300], new="")
    assert "out of MEMORY.md" in error
    assert facts.read_text() == FACTS


def test_a_yes_holds_once(hands: Hands, facts: Path, changes: Changes) -> None:
    assert "once, for ten minutes" in memory_command(changes, None, "allow")
    hands("write_file", path="MEMORY.md", content="- one\n")
    facts.write_text(FACTS)
    hands.error("write_file", path="MEMORY.md", content="- one\n")


def test_an_old_yes_is_none(hands: Hands, facts: Path, changes: Changes, tmp_path: Path) -> None:
    Changes(tmp_path / "undo", changes.workspace, lambda: NOW - timedelta(minutes=11)).allow_shrinking()
    hands.error("write_file", path="MEMORY.md", content="- one\n")


def test_small_changes_additions_and_other_files_need_no_yes(hands: Hands, facts: Path) -> None:
    hands("edit_file", path="MEMORY.md", old="- fact number 3\n", new="")
    hands("append_file", path="MEMORY.md", content="- new")
    hands("write_file", path="MEMORY.md", content=FACTS[: len(FACTS) * 2 // 3])
    (hands.root / "other.md").write_text(FACTS)
    hands("write_file", path="other.md", content="")
    (hands.root / "memory").mkdir()
    (hands.root / "memory/a.md").write_text("- short\n")
    hands("write_file", path="memory/a.md", content="")


def test_daily_notes_are_looked_after_too(hands: Hands) -> None:
    (hands.root / "memory").mkdir()
    (hands.root / "memory/2026-05-01.md").write_text(FACTS)
    assert "out of memory/2026-05-01.md" in hands.error("write_file", path="memory/2026-05-01.md", content="")


def test_every_change_of_a_memory_file_can_be_undone_in_turn(hands: Hands, facts: Path, changes: Changes) -> None:
    states = [facts.read_bytes()]
    for name, arguments in (
        ("memory_add", {"text": "x", "kind": "fact"}),
        ("memory_add", {"text": "y", "replaces": "x"}),
        ("append_file", {"path": "MEMORY.md", "content": "- z"}),
        ("edit_file", {"path": "MEMORY.md", "old": "number 3", "new": "no. 3"}),
        ("write_file", {"path": "MEMORY.md", "content": FACTS}),
    ):
        hands(name, **arguments)
        states.append(facts.read_bytes())
    log = memory_command(changes, None, "log").splitlines()
    assert log[-1] == "- 2026-05-03 23:30 MEMORY.md +1 −0 (memory_add)"
    assert len(log) == 5
    for state in reversed(states[:-1]):
        assert memory_command(changes, None, "undo").startswith("MEMORY.md is as it was before 2026-05-03 23:30")
        assert facts.read_bytes() == state
    with pytest.raises(WorkspaceError, match="no change of a memory file to undo"):
        memory_command(changes, None, "undo")


def test_a_new_note_is_taken_away_again(hands: Hands, changes: Changes) -> None:
    hands("memory_add", text="x")
    changes.undo()
    assert not (hands.root / "memory/2026-05-03.md").exists()


def test_what_another_hand_changed_since_is_not_overwritten(hands: Hands, facts: Path, changes: Changes) -> None:
    hands("memory_add", text="x", kind="fact")
    facts.write_text("by hand")
    with pytest.raises(WorkspaceError, match="changed since by another hand"):
        changes.undo()
    assert facts.read_text() == "by hand"


def test_odd_bytes_come_back_as_they_were(hands: Hands, changes: Changes) -> None:
    content = b"\xff\xfe odd \x00 \xed\xa0\x80 bytes\r\n"
    (hands.root / "MEMORY.md").write_bytes(content)
    hands("append_file", path="MEMORY.md", content="x")
    changes.undo()
    assert (hands.root / "MEMORY.md").read_bytes() == content


def test_what_fails_or_changes_nothing_is_no_change(hands: Hands, facts: Path, changes: Changes) -> None:
    hands.error("edit_file", path="MEMORY.md", old="nowhere", new="x")
    hands("write_file", path="MEMORY.md", content=FACTS)
    hands("write_file", path="other.md", content="x")
    hands.error("write_file", path="../MEMORY.md", content="x")
    assert changes.last() == []


def test_only_the_last_changes_are_kept(hands: Hands, changes: Changes, tmp_path: Path) -> None:
    for number in range(KEPT + 5):
        with changes.of("test", "MEMORY.md"):
            (hands.root / "MEMORY.md").write_text(str(number))
    assert len(list((tmp_path / "undo").iterdir())) == KEPT
    assert changes.last(1)[0].after == str(KEPT + 4)


def test_a_damaged_copy_is_passed_over(hands: Hands, facts: Path, changes: Changes, tmp_path: Path) -> None:
    hands("memory_add", text="x", kind="fact")
    (tmp_path / "undo/000002.json").write_text('{"at": "2026')
    assert changes.undo().by == "memory_add"
    assert facts.read_text() == FACTS
