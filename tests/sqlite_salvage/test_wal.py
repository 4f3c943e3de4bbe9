"""A damaged write-ahead log costs the frame that was hit, and not all that was written after it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from nanoclaw.sqlite_salvage import UNSYNCED
from nanoclaw.sqlite_salvage.wal import WriteAheadLog
from nanoclaw.start.opening import PAGE_BYTES, open_store
from tests.core.store.test_recovery import kept, warnings

STEP = PAGE_BYTES + 24


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with sixty writes in its log."""
    store = open_store(tmp_path / "made.db")
    store.db.execute("PRAGMA wal_autocheckpoint = 0")
    for number in range(60):
        with store.transaction() as db:
            db.execute("INSERT INTO flags VALUES (?, ?, 'now')", (f"flag {number:02}", "x" * 400))
    for suffix in ("", "-wal"):
        (tmp_path / f"state.db{suffix}").write_bytes((tmp_path / f"made.db{suffix}").read_bytes())
    store.close()
    return tmp_path / "state.db"


def log_of(path: Path) -> Path:
    return path.with_name("state.db-wal")


def change(log: Path, at: int) -> None:
    content = bytearray(log.read_bytes())
    content[at] ^= 0x55
    log.write_bytes(content)


def flags(path: Path) -> int:
    with closing(open_store(path)) as store:
        return len(store.rows("SELECT name FROM flags"))


def test_a_whole_log_is_read_as_sqlite_does(path: Path) -> None:
    log = WriteAheadLog(log_of(path))
    assert all(frame.is_whole for frame in log.frames)
    assert sum(frame.is_last for frame in log.frames) == 60
    assert log.lost == 0
    assert flags(path) == 60
    assert kept(path) == []


@pytest.mark.parametrize(
    "place",
    [lambda size: 0, lambda size: 9, lambda size: 17, lambda size: 30, lambda size: 32 + 10 * STEP + 3,
     lambda size: 32 + 10 * STEP + 9, lambda size: 32 + 10 * STEP + 17, lambda size: 32 + 10 * STEP + 900],
)  # fmt: skip
def test_what_follows_a_damaged_place_goes_on_and_the_person_is_told(path: Path, place: Callable[[int], int]) -> None:
    log = log_of(path)
    change(log, place(log.stat().st_size))
    damaged = log.read_bytes()
    with warnings() as said:
        assert flags(path) >= 50
    assert "Its journal is damaged: some of the last" in said[0]
    assert damaged in [aside.read_bytes() for aside in kept(path)]


@pytest.mark.parametrize("many", range(1, UNSYNCED + 3))
def test_a_log_is_torn_by_a_power_failure_as_far_back_as_nothing_waited_for_the_disk(path: Path, many: int) -> None:
    log = log_of(path)
    ends = [number for number, frame in enumerate(WriteAheadLog(log).frames) if frame.is_last]
    change(log, 32 + (ends[-many - 1] + 1) * STEP + 100)
    is_torn = many <= UNSYNCED + 1
    with warnings() as said:
        assert flags(path) == 60 - many if is_torn else flags(path) >= 50
    assert [*said, *kept(path)] == [] if is_torn else "Its journal is damaged" in said[0]


def test_frames_that_are_left_from_before_are_let_be(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("PRAGMA wal_checkpoint(RESTART)")
        db.execute("INSERT INTO flags VALUES ('newest', '', 'now')")
        log = WriteAheadLog(log_of(path))
        assert 0 < len(log.frames) < 10
        assert log.lost == 0
