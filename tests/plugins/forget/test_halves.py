"""A text in two files that hold nothing of it, for a time."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.plugins.forget.halves import Halves

NOON = datetime(2026, 5, 3, 12, 0, tzinfo=UTC)
TEXT = "the parrot is called Zebulon " * 100 + "\ud800 ü 🙂"


class Clock:
    now = NOON

    def __call__(self) -> datetime:
        return self.now


def halves(folder: Path, clock: Clock) -> Halves:
    return Halves(folder, clock, timedelta(minutes=10))


def test_a_text_comes_back_from_two_files_of_which_none_has_a_word_of_it(tmp_path: Path) -> None:
    halves(tmp_path / "undo", Clock()).keep(TEXT)
    files = sorted((tmp_path / "undo").iterdir())
    assert len(files) == 2
    for file in files:
        assert b"parrot" not in file.read_bytes() and b"Zebulon" not in file.read_bytes()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert halves(tmp_path / "undo", Clock()).read() == (NOON, TEXT)


def test_each_text_comes_back_within_its_own_time_the_newest_first(tmp_path: Path) -> None:
    clock = Clock()
    kept = halves(tmp_path, clock)
    for minute, text in enumerate(("one", "two", "three")):
        clock.now = NOON + timedelta(minutes=4 * minute)
        kept.keep(text)
    assert (kept.read() or ("", ""))[1] == "three"
    kept.drop()
    assert (kept.read() or ("", ""))[1] == "two"
    clock.now = NOON + timedelta(minutes=11)
    assert kept.read() == (NOON + timedelta(minutes=4), "two")
    assert len(list(tmp_path.iterdir())) == 2
    kept.drop()
    assert kept.read() is None


def test_another_text_deletes_what_is_too_old(tmp_path: Path) -> None:
    clock = Clock()
    halves(tmp_path, clock).keep("one")
    clock.now = NOON + timedelta(minutes=11)
    halves(tmp_path, clock).keep("two")
    assert len(list(tmp_path.iterdir())) == 2
    assert halves(tmp_path, clock).read() == (clock.now, "two")


@pytest.mark.parametrize("minutes", [10.1, 60 * 24, -11])
def test_after_its_time_it_is_gone_from_the_disk_as_soon_as_somebody_looks(tmp_path: Path, minutes: float) -> None:
    clock = Clock()
    halves(tmp_path, clock).keep(TEXT)
    clock.now += timedelta(minutes=10)
    assert halves(tmp_path, clock).read()
    clock.now = NOON + timedelta(minutes=minutes)
    assert halves(tmp_path, clock).read() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"x", b"\0" * 5000])
def test_a_damaged_or_missing_half_leaves_nothing(tmp_path: Path, damage: bytes) -> None:
    kept = halves(tmp_path, Clock())
    assert kept.read() is None
    kept.keep(TEXT)
    sorted(tmp_path.iterdir())[0].write_bytes(damage)
    assert kept.read() is None
    kept.keep(TEXT)
    sorted(tmp_path.iterdir())[1].unlink()
    assert kept.read() is None
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "undo").write_text("a file in the way")
    with pytest.raises(WorkspaceError, match="no copy could be kept"):
        halves(tmp_path / "undo", Clock()).keep(TEXT)
