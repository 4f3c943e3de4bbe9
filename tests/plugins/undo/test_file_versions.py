"""Changes of files by tools: each can be undone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.core.messages import Address, Effect
from nanoclaw.plugins.undo import file_versions as module
from nanoclaw.plugins.undo.file_versions import FileVersions
from nanoclaw.start.host import PluginHost
from tests.plugins.conftest import NOW, Hands

FACTS = "".join(f"- fact number {number}\n" for number in range(20))


@pytest.fixture
def facts(root: Path) -> Path:
    path = root / "MEMORY.md"
    path.write_text(FACTS)
    return path


@pytest.fixture
def undo(hands: Hands) -> FileVersions:
    found = hands.app.public("undo")
    assert isinstance(found, FileVersions)
    return found


def copies(tmp_path: Path) -> list[bytes]:
    return sorted(path.read_bytes() for path in (tmp_path / "undo").iterdir())


# --- undo


def test_every_change_of_a_memory_file_can_be_undone_in_turn(hands: Hands, facts: Path, undo: FileVersions) -> None:
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
    first, *_, last = undo.memory.all()
    assert (last.target, last.text, last.tool) == ("MEMORY.md", "noted “x”", "memory_add")
    assert first.tool == "write_file"
    for state in reversed(states[:-1]):
        assert undo.undo().target == "MEMORY.md"
        assert facts.read_bytes() == state
    with pytest.raises(WorkspaceError, match="no change of a memory file to undo"):
        undo.undo()


def test_a_new_note_is_taken_away_again(hands: Hands, undo: FileVersions) -> None:
    hands("memory_add", text="x")
    undo.undo()
    assert not (hands.root / "memory").exists(), "an empty folder is left"


def test_a_change_under_one_by_another_hand_is_not_taken_back(hands: Hands, facts: Path, undo: FileVersions) -> None:
    hands("memory_add", text="x", kind="fact")
    facts.write_text("by hand")
    with pytest.raises(WorkspaceError, match="was changed by something else since"):
        undo.revert(hands.effects[0])
    assert facts.read_text() == "by hand"


def test_edits_by_hand_are_versions_that_are_undone_in_their_turn_and_can_be_brought_back(
    hands: Hands, facts: Path, undo: FileVersions
) -> None:
    before = facts.read_text()
    hands("memory_add", text="x", kind="fact")
    noted = facts.read_text()
    facts.write_text(noted + "- typed\n")
    hands("memory_add", text="y", kind="fact")
    facts.write_text(facts.read_text() + "- typed later\n")
    whole = facts.read_text()
    assert [change.tool for change in undo.memory.all()] == ["by hand", "memory_add", "by hand", "memory_add"]
    assert undo.memory.blame("MEMORY.md", "- typed") == "2026-05-03 23:30, another hand"
    assert undo.memory.blame("MEMORY.md", "- 2026-05-03: x") == "2026-05-03 23:30, memory_add"
    assert [undo.memory.diff(change) for change in undo.memory.all()] == [
        ["+ - typed later"],
        ["+ - 2026-05-03: y"],
        ["+ - typed"],
        ["+ - 2026-05-03: x"],
    ]
    for expected in (f"{noted}- typed\n- 2026-05-03: y\n", f"{noted}- typed\n", noted, before):
        undo.undo()
        assert facts.read_text() == expected
    assert {change.state for change in undo.memory.all()} == {"undone"}
    (latest,) = (change for change in undo.memory.all() if undo.memory.diff(change) == ["+ - typed later"])
    undo.restore(latest)
    assert facts.read_text() == whole
    undo.undo()
    assert facts.read_text() == before


def test_odd_bytes_come_back_as_they_were(hands: Hands, undo: FileVersions) -> None:
    content = b"\xff\xfe odd \x00 \xed\xa0\x80 bytes\r\n"
    (hands.root / "MEMORY.md").write_bytes(content)
    hands("append_file", path="MEMORY.md", content="x")
    undo.undo()
    assert (hands.root / "MEMORY.md").read_bytes() == content


def test_what_fails_or_changes_nothing_is_no_change(hands: Hands, facts: Path, undo: FileVersions) -> None:
    hands.error("edit_file", path="MEMORY.md", old="nowhere", new="x")
    hands("write_file", path="MEMORY.md", content=FACTS)
    hands("write_file", path="other.md", content="x")
    hands.error("write_file", path="../MEMORY.md", content="x")
    assert undo.memory.all() == []


def test_a_file_is_put_back_by_its_own_place_though_it_was_named_otherwise(hands: Hands, undo: FileVersions) -> None:
    (hands.root / "real").mkdir()
    (hands.root / "link").symlink_to("real")
    hands("write_file", path="link/../link/a.txt", content="x")
    (effect,) = hands.effects
    assert (effect.target, effect.text) == ("real/a.txt", "wrote real/a.txt")
    undo.revert(effect)
    assert list((hands.root / "real").iterdir()) == []


def test_nothing_is_put_back_through_a_link_set_since(hands: Hands, undo: FileVersions, tmp_path: Path) -> None:
    hands("write_file", path="notes/a.txt", content="one")
    hands("write_file", path="notes/a.txt", content="two")
    (hands.root / "notes").rename(tmp_path / "outside")
    (hands.root / "notes").symlink_to(tmp_path / "outside")
    with pytest.raises(WorkspaceError, match="is not undone"):
        undo.revert(hands.effects[0])
    assert (tmp_path / "outside/a.txt").read_text() == "two"


def test_when_no_copy_can_be_kept_nothing_is_written(hands: Hands, tmp_path: Path) -> None:
    (hands.root / "a.txt").write_text("one")
    (tmp_path / "undo").write_text("a file in the way")
    error = hands.error("write_file", path="a.txt", content="two")
    assert error.startswith("a.txt was not changed: no copy could be kept, so the change could not be undone")
    assert (hands.root / "a.txt").read_text() == "one"


def test_a_file_too_large_to_be_kept_is_written_and_cannot_be_put_back(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_BYTES", 1_000)
    (hands.root / "a.txt").write_text("x" * 1_001)
    hands("append_file", path="a.txt", content="y")
    (effect,) = hands.effects
    assert (effect.state, effect.before, effect.after) == ("done", None, None)


# --- copies


def test_a_copy_is_kept_once_however_often_it_is_needed(hands: Hands, tmp_path: Path) -> None:
    for content in ("one", "two", "one", "two", "one"):
        hands("write_file", path="a.txt", content=content)
    assert copies(tmp_path) == [b"one", b"two"]


def test_copies_older_than_their_days_and_beyond_their_bytes_are_dropped_the_oldest_first(
    hands: Hands, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [NOW]
    monkeypatch.setattr(hands.app, "clock", lambda: now[0])
    host = PluginHost(hands.app, "undo")
    kept = FileVersions(host, tmp_path / "undo", days=30, most_bytes=2_500)
    for number, day in enumerate((0, 1, 2, 3)):
        now[0] = NOW + timedelta(days=day)
        (root / "a.txt").write_text(str(number) * 1_000)
        kept.keep("a.txt")
    assert copies(tmp_path) == [b"2" * 1_000, b"3" * 1_000]
    now[0] = NOW + timedelta(days=33)
    (root / "a.txt").write_text("new")
    kept.keep("a.txt")
    assert copies(tmp_path) == [b"3" * 1_000, b"new"]


def test_a_change_whose_copy_is_dropped_or_damaged_is_not_undone(
    hands: Hands, facts: Path, undo: FileVersions, tmp_path: Path
) -> None:
    hands("memory_add", text="x", kind="fact")
    for copy in (tmp_path / "undo").iterdir():
        copy.write_text("damaged")
    with pytest.raises(WorkspaceError, match=r"its copy from 2026-05-03 23:30 is no longer kept \(30 days, 200 MB\)"):
        undo.undo()
    assert facts.read_text().startswith(FACTS)


def test_forgotten_words_leave_the_copies_and_the_rest_can_still_be_undone(
    hands: Hands, undo: FileVersions, tmp_path: Path
) -> None:
    path = hands.root / "plan.txt"
    path.write_text("a\nzebra\nb\n")
    hands("append_file", path="plan.txt", content="c")
    hands("append_file", path="plan.txt", content="d")
    undo.forget(lambda line: "zebra" in line)
    path.write_text(path.read_text().replace("zebra\n", ""))
    assert not any(b"zebra" in copy for copy in copies(tmp_path))
    for effect in hands.effects:
        undo.revert(effect)
    assert path.read_text() == "a\nb\n"


def test_a_change_made_without_a_turn_belongs_to_the_conversation_it_was_made_in(
    hands: Hands, undo: FileVersions
) -> None:
    with undo.of(Effect("/note", "note", "memory/a.md", "noted “x”"), conversation=Address("test", "2")):
        (hands.root / "memory").mkdir()
        (hands.root / "memory/a.md").write_text("x")
    (effect,) = hands.effects
    assert [row[0] for row in hands.app.store.rows("SELECT address FROM ledger")] == ["test:2"]
    assert (effect.state, effect.before, effect.text) == ("done", "", "noted “x”")
