"""The private file that can bring back what was forgotten, for a time."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.plugins.forget.undo_file import UndoFile

NOON = datetime(2026, 5, 3, 12, 0, tzinfo=UTC)
TEXT = "the parrot is called Zebulon " * 100 + "\ud800 ü 🙂"


class Clock:
    now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file(tmp_path: Path, clock: Clock) -> UndoFile:
    return UndoFile(tmp_path / "forget" / "undo.json", clock)


def newest(file: UndoFile) -> str | None:
    """As another process finds it."""
    found = UndoFile(file.path, file._clock).newest()
    return str(found["text"]) if found else None


def test_a_text_comes_back_from_a_file_that_only_its_owner_can_read(file: UndoFile) -> None:
    file.keep({"text": TEXT})
    assert list(file.path.parent.iterdir()) == [file.path]
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert newest(file) == TEXT
    assert file.since() == NOON


def test_each_text_comes_back_within_its_own_time_the_newest_first(file: UndoFile, clock: Clock) -> None:
    for minute, text in enumerate(("one", "two", "three")):
        clock.now = NOON + timedelta(minutes=4 * minute)
        file.keep({"text": text})
    assert newest(file) == "three"
    file.drop_newest()
    assert newest(file) == "two"
    clock.now = NOON + timedelta(minutes=11)
    assert file.since() == NOON + timedelta(minutes=4)
    assert "one" not in file.path.read_text()
    file.drop_newest()
    assert newest(file) is None
    assert not file.path.exists()


def test_another_text_deletes_what_is_too_old(file: UndoFile, clock: Clock) -> None:
    file.keep({"text": "one"})
    clock.now = NOON + timedelta(minutes=11)
    file.keep({"text": "two"})
    assert "one" not in file.path.read_text()
    assert file.since() == clock.now


@pytest.mark.parametrize("minutes", [10.1, 60 * 24, -11])
def test_after_its_time_it_is_gone_from_the_disk_as_soon_as_somebody_looks(
    file: UndoFile, clock: Clock, minutes: float
) -> None:
    file.keep({"text": TEXT})
    clock.now += timedelta(minutes=10)
    assert newest(file) == TEXT
    clock.now = NOON + timedelta(minutes=minutes)
    assert newest(file) is None
    assert not file.path.exists()


@pytest.mark.parametrize("damage", [b"", b"x", b"\0" * 5000, b"{}", b'[{"at": 1}]', b'["x"]'])
def test_a_damaged_file_is_deleted(file: UndoFile, damage: bytes) -> None:
    assert file.newest() is None
    file.keep({"text": TEXT})
    file.path.write_bytes(damage)
    assert file.newest() is None
    assert not file.path.exists()


def test_what_cannot_be_written_is_told(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "undo").write_text("a file in the way")
    with pytest.raises(WorkspaceError, match="no copy could be kept"):
        UndoFile(tmp_path / "undo" / "undo.json", clock).keep({"text": TEXT})


def test_brackets_without_end_are_a_damaged_file(file: UndoFile) -> None:
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_text("[" * 100_000)
    assert newest(file) is None
