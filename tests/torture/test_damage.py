"""Some of the damaged homes of `make torture`, and damages that once cost all."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nanoclaw.start.opening import PAGE_BYTES, open_store
from tests.core.store.test_recovery import roots, warnings
from tests.torture.damage import KINDS, Home, disturbed, kinds, left, lived_in, rows_of, shell


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A week's, with all plugins; its last writes are in the journal."""
    return lived_in(tmp_path_factory.mktemp("lived"))


@pytest.fixture
def path(tmp_path: Path, home: Home) -> Path:
    """The store of such a home in one file, without a copy."""
    found = Path(shutil.copytree(home.folder, tmp_path / "home")) / "state.db"
    with closing(sqlite3.connect(found)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return found


def write(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def rescued(path: Path) -> tuple[str, dict[str, dict[int, tuple[object, ...]]]]:
    """What the person is told, and the rows that are there."""
    with warnings() as said:
        store = open_store(path, plugins=kinds())
        found = rows_of(store.db)
        store.close()
    return "".join(said), found


@pytest.mark.parametrize("kind", KINDS)
def test_a_home_damaged_at_random_keeps_all_that_is_undamaged_and_names_the_rest(
    tmp_path: Path, home: Home, kind: str
) -> None:
    assert disturbed(tmp_path / "home", home, kind, 2).broken == []


def test_a_damaged_home_starts_and_answers(tmp_path: Path, home: Home) -> None:
    assert disturbed(tmp_path / "home", home, "bytes", 5, lives=True).broken == []


def test_no_row_is_lost_that_the_recovery_of_sqlite_itself_reads(tmp_path: Path, home: Home) -> None:
    if not (program := shell()):
        pytest.skip("no sqlite3 with .recover is installed")
    assert disturbed(tmp_path / "home", home, "bytes", 5, program=program).broken == []


def test_a_zeroed_page_of_usage_costs_no_message_and_is_told_in_one_sentence(path: Path, home: Home) -> None:
    write(path, (roots(path)["usage"] - 1) * PAGE_BYTES, bytes(PAGE_BYTES))
    said, found = rescued(path)
    assert said.endswith("What could be read is used. Missing of what it held: some records of usage.\n")
    assert left(home.rows, found) == {}  # the rows' own pages are whole
    assert len(found["messages"]) > 200


def test_a_row_that_says_nothing_any_more_is_named_though_its_table_is_whole(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE page_files SET name = CAST(x'ff' AS TEXT) WHERE rowid = 2")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    write(path, (roots(path)["usage"] - 1) * PAGE_BYTES, bytes(PAGE_BYTES))
    said, _ = rescued(path)
    assert "Missing of what it held: some records of usage, at most 1 rows of page files." in said


@pytest.mark.parametrize("table", ["usage", "approvals_grants", "sqlite_sequence", "messages"])
def test_a_flipped_byte_in_any_table_costs_no_row_of_another(path: Path, home: Home, table: str) -> None:
    at = (roots(path)[table] - 1) * PAGE_BYTES
    write(path, at + 4, bytes([path.read_bytes()[at + 4] ^ 0x80]))
    said, found = rescued(path)
    assert "was damaged" in said
    assert left(home.rows, found).keys() <= {table}


def test_a_number_that_was_given_is_not_given_again_after_a_rescue(path: Path, home: Home) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        last = db.execute("SELECT max(id) FROM approvals_grants").fetchone()[0]
        db.execute("DELETE FROM approvals_grants WHERE id > 3")
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    write(path, (roots(path)["usage"] - 1) * PAGE_BYTES, bytes(PAGE_BYTES))
    rescued(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'approvals_grants'").fetchone() == (last,)
