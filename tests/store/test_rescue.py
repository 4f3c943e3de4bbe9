"""A damaged state.db: it starts, the damaged file is kept byte by byte, and what can be read goes on."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from nanoclaw.errors import StoreError
from nanoclaw.log import logger
from nanoclaw.store import db as module
from nanoclaw.store.db import Store
from nanoclaw.store.inbox import Inbox
from nanoclaw.store.outbox import Outbox
from nanoclaw.store.sessions import Sessions
from tests.journeys.command import Home
from tests.model_server import ModelServer, says
from tests.store.test_db import MAIN, NOW, filled


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A state of many pages, in one file."""
    path = tmp_path_factory.mktemp("whole") / "state.db"
    filled(path)
    return path.read_bytes()


@contextmanager
def warnings() -> Iterator[list[str]]:
    said: list[str] = []
    sink = logger.add(lambda line: said.append(str(line)), level="WARNING", format="{message}")
    try:
        yield said
    finally:
        logger.remove(sink)


def used(path: Path) -> int:
    """Everything a start does with the store; how many messages there are."""
    store = Store(path)
    try:
        Inbox(store, lambda: NOW).waiting()
        Inbox(store, lambda: NOW).open_turns()
        Outbox(store, lambda: NOW, lambda: 1.0).pending("terminal")
        session = Sessions(store, lambda: NOW).of(MAIN)
        session.use_model("ollama/x")
        assert store.rows("PRAGMA integrity_check") == [("ok",)]
        assert store.rows("PRAGMA foreign_key_check") == []
        return len(session.history)
    finally:
        store.close()


def kept(path: Path) -> list[Path]:
    return sorted(path.parent.glob("state.db.damaged-*"))


def cuts(whole: bytes) -> list[int]:
    """Every sign of the header, every page and its neighbours, and some at random."""
    pages = [page + by for page in range(0, len(whole), 4096) for by in (-1, 0, 1, 100)]
    chosen = {*range(0, 120, 17), *pages[:: max(1, len(pages) // 12)]}
    chosen.update(random.Random(5).sample(range(len(whole)), 9))
    return sorted(cut for cut in chosen if 0 < cut < len(whole))


def test_a_state_cut_at_any_byte_starts_and_the_damaged_one_is_kept_whole(tmp_path: Path, whole: bytes) -> None:
    saved = {}
    for cut in cuts(whole):
        path = tmp_path / str(cut) / "state.db"
        path.parent.mkdir()
        path.write_bytes(whole[:cut])
        with warnings() as said:
            saved[cut] = used(path)
        (aside,) = kept(path)
        assert aside.read_bytes() == whole[:cut]
        assert len(said) == 1
        assert "was damaged" in said[0]
        assert aside.name in said[0]
        assert used(path) == saved[cut]
        shutil.rmtree(path.parent)
    assert saved[max(saved)] > 300
    assert min(count for cut, count in saved.items() if cut > len(whole) / 2) > 50


def test_a_damaged_page_in_the_middle_costs_what_is_on_it_only(tmp_path: Path, whole: bytes) -> None:
    found = []
    for page in range(3, len(whole) // 4096, 9):
        path = tmp_path / str(page) / "state.db"
        path.parent.mkdir()
        damaged = whole[: page * 4096] + b"\xff" * 4096 + whole[(page + 1) * 4096 :]
        path.write_bytes(damaged)
        with warnings():
            found.append(used(path))
        assert [aside.read_bytes() for aside in kept(path)] == [damaged]
    assert sorted(found)[len(found) // 2] > 380  # of 401


@pytest.mark.parametrize("damage", [b"dear diary\n" * 500, bytes(9000), b"SQLite format 3\0"])
def test_a_file_that_is_no_database_is_kept_and_a_new_one_begun(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(damage)
    with warnings() as said:
        assert used(path) == 0
    assert [aside.read_bytes() for aside in kept(path)] == [damage]
    assert "nothing of it could be read" in said[0]


def test_a_damaged_state_that_says_it_is_newer_is_left_alone(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "state.db"
    newer = whole[:60] + (len(module.MIGRATIONS) + 1).to_bytes(4, "big") + whole[64:9000]
    path.write_bytes(newer)
    with pytest.raises(StoreError, match="newer nanoclaw"):
        Store(path)
    assert path.read_bytes() == newer
    assert kept(path) == []


def crashed(folder: Path, whole: bytes) -> Path:
    """A state with its last writes still in the journal, as a kill leaves it."""
    folder.mkdir(exist_ok=True)
    path = folder / "state.db"
    made = folder / "made.db"
    made.write_bytes(whole)
    with closing(sqlite3.connect(made, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("INSERT INTO pins (at, text) VALUES ('now', 'only in the journal')")
        for suffix in ("", "-wal"):
            shutil.copy(f"{made}{suffix}", f"{path}{suffix}")
    made.unlink()
    return path


def test_what_is_in_the_journal_of_a_damaged_state_goes_on(tmp_path: Path, whole: bytes) -> None:
    path = crashed(tmp_path, whole)
    journal = (tmp_path / "state.db-wal").read_bytes()
    page = 4096 * 20
    path.write_bytes(whole[:page] + b"\xff" * 4096 + whole[page + 4096 :])
    with warnings():
        used(path)
    aside, wal = kept(path)
    assert wal.name == aside.name + "-wal"
    assert wal.read_bytes() == journal
    store = Store(path)
    assert store.rows("SELECT text FROM pins") == [("only in the journal",)]
    store.close()


def test_a_journal_cut_at_any_byte_costs_what_it_held_and_nothing_else(tmp_path: Path, whole: bytes) -> None:
    path = crashed(tmp_path, whole)
    journal, state = (tmp_path / "state.db-wal").read_bytes(), path.read_bytes()
    for cut in [0, 1, 31, 32, 33, 60, 4096, len(journal) - 1, *random.Random(6).sample(range(len(journal)), 5)]:
        path.write_bytes(state)
        (tmp_path / "state.db-wal").write_bytes(journal[:cut])
        assert used(path) == 401
        assert kept(path) == []


def test_an_emptied_state_beside_its_journal_is_kept_aside_with_it(tmp_path: Path, whole: bytes) -> None:
    path = crashed(tmp_path, whole)
    journal = (tmp_path / "state.db-wal").read_bytes()
    path.write_bytes(b"")
    with warnings():
        used(path)
    assert [aside.read_bytes() for aside in kept(path)] == [b"", journal]


def test_without_room_a_damaged_state_is_told_and_left_as_it_was(
    tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(whole[: len(whole) // 2])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match=r"damaged, and it could not be put aside .* the disk is full"):
            Store(path)
    assert path.read_bytes() == whole[: len(whole) // 2]
    with warnings():
        assert used(path) > 30


KILLED = """
import os, signal, sys
from pathlib import Path
from nanoclaw.store.db import Store

at, calls = int(sys.argv[2]), 0
def hook(event, arguments):
    global calls
    if event in ("os.link", "os.remove", "os.rename", "sqlite3.connect", "open") and "state.db" in str(arguments):
        calls += 1
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
Store(Path(sys.argv[1]))
print("done")
"""


def test_a_kill_while_it_is_rescued_costs_nothing_at_the_next_start(tmp_path: Path, whole: bytes) -> None:
    killed = 0
    for at in range(1, 40):
        path = crashed(tmp_path / str(at), whole)
        damaged = path.read_bytes()[: 4096 * 60]
        path.write_bytes(damaged)
        ended = subprocess.run([sys.executable, "-c", KILLED, str(path), str(at)], capture_output=True, text=True)
        killed += ended.returncode == -signal.SIGKILL
        with warnings():
            assert used(path) > 50
        assert len(kept(path)) == 2
        assert kept(path)[0].read_bytes() == damaged
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("SELECT text FROM pins").fetchall() == [("only in the journal",)]
        if ended.stdout == "done\n":
            break
    assert ended.stdout == "done\n"
    assert killed > 5


def test_the_person_reads_one_sentence_and_gets_an_answer(tmp_path: Path, whole: bytes) -> None:
    server = ModelServer()
    home = Home(tmp_path / "home")
    home.configure(server.base)
    (home.root / "state.db").write_bytes(whole[: len(whole) // 2])
    try:
        looked = home.run("sessions", "list", check=1)
        assert "The next chat keeps the damaged file aside" in looked.err
        assert kept(home.root / "state.db") == []
        server.script(says("Yes."))
        ended = home.run("-m", "hi")
    finally:
        server.stop()
    assert ended.out == "Yes.\n"
    assert ended.err.count("was damaged") == 1
    (aside,) = kept(home.root / "state.db")
    assert aside.name in ended.err
    assert "was damaged" not in home.run("status").err
