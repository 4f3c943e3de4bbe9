"""A damaged state.db: it starts, the damaged file is kept byte by byte, and what can be read goes on."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from nanoclaw import atomic_write as drafts
from nanoclaw.core.errors import StoreError
from nanoclaw.core.log import logger
from nanoclaw.core.store import db as module
from nanoclaw.core.store.db import PAGE_BYTES, Store
from nanoclaw.core.store.inbox import Inbox
from nanoclaw.core.store.outbox import Outbox
from nanoclaw.core.store.sessions import Sessions, list_sessions
from tests.core.store.test_db import MAIN, NOW, filled
from tests.journeys.command import Home
from tests.model_server import ModelServer, says


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
    assert min(count for cut, count in saved.items() if cut > len(whole) / 2) > 100


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
    assert min(found) > 385  # of 401


@pytest.mark.parametrize("fill", [b"\xff", b"\0", b"a", b"\x0d"])
def test_twenty_thousand_bytes_written_over_anywhere_cost_the_messages_that_stood_there_only(
    tmp_path: Path, whole: bytes, fill: bytes
) -> None:
    """The first pages included, where SQLite looks up all others."""
    length = 20_000
    for start in [0, 1000, 2048, 20_000, len(whole) // 2 + 77, len(whole) - length]:
        path = tmp_path / str(start) / "state.db"
        path.parent.mkdir()
        path.write_bytes(whole[:start] + fill * length + whole[start + length :])
        with warnings() as said:
            count = used(path)
        assert count > 401 - 5 * (length / PAGE_BYTES + 2), start  # a page has four or five
        assert f"{count} messages of conversations" in said[0]


def test_conversations_go_on_under_their_name_when_the_list_of_them_is_lost(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as db:
        roots = dict(db.execute("SELECT name, rootpage FROM sqlite_schema WHERE type = 'table'").fetchall())
    for lost in (["sessions"], ["turns"], ["inbox"], ["sessions", "turns"], ["turns", "inbox"]):
        damaged = bytearray(whole)
        for table in lost:
            at = (roots[table] - 1) * PAGE_BYTES
            damaged[at : at + PAGE_BYTES] = b"\xff" * PAGE_BYTES
        path.write_bytes(damaged)
        with warnings() as said:
            used(path)
        assert "401 messages of conversations" in said[0]
        store = Store(path, read_only=True)
        assert [(each.key, each.messages) for each in list_sessions(store)] == [("terminal:main", 401)]
        store.close()
        assert ("lost their names" in said[0]) == (lost == ["sessions", "turns"])
        for each in kept(path):
            each.unlink()


def test_a_damaged_state_of_the_first_format_goes_on_in_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        db.executescript((Path(__file__).parents[2] / "core" / "store" / "format_1.sql").read_text())
        ((root,),) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'sessions'").fetchall()
    content = bytearray(path.read_bytes())
    content[(root - 1) * PAGE_BYTES : root * PAGE_BYTES] = b"\xff" * PAGE_BYTES
    path.write_bytes(content)
    with warnings():
        store = Store(path)
    assert [message.text for message in Sessions(store, lambda: NOW).of(MAIN).history] == ["hi", "Hello."]
    assert [inbound.message.text for _, inbound in Inbox(store, lambda: NOW).waiting()] == ["and more"]
    store.close()


TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'plugins'"
"""Rows of `plugins` look like those of other tables."""


def test_every_row_of_every_table_is_found_without_the_first_page(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    Store(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        tables = [name for (name,) in db.execute(TABLES)]
        for table in tables:
            fill_table(db, table)
        before = {table: db.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid").fetchall() for table in tables}
    assert all(len(rows) == ROWS for rows in before.values())
    content = path.read_bytes()
    path.write_bytes(b"\xff" * PAGE_BYTES + content[PAGE_BYTES:])
    with warnings():
        Store(path).close()
    with closing(sqlite3.connect(path)) as db:
        for table in tables:
            assert db.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid").fetchall() == before[table], table


ROWS = 12


def fill_table(db: sqlite3.Connection, table: str) -> None:
    """Rows of all lengths, with every kind of number, that refer to each other."""
    ((sql,),) = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchall()
    allowed = dict(re.findall(r"CHECK \((\w+) IN \('(\w+)'", sql))
    links = {row[3] for row in db.execute(f"PRAGMA foreign_key_list({table})")}
    columns = db.execute(f"PRAGMA table_info({table})").fetchall()
    for number in range(1, ROWS + 1):
        row: list[object] = []
        for _, name, type_, required, _, key in columns:
            if not required and not key and number % 2:
                row.append(None)
            elif (key and type_ == "INTEGER") or name in links:
                row.append(number)
            elif name in allowed:
                row.append(allowed[name])
            elif type_ == "INTEGER":
                row.append((-1) ** number * 2 ** (5 * number) // 4)
            elif type_ == "REAL":
                row.append(number / (1 + number % 2))
            elif type_ == "BLOB":
                row.append(bytes(range(256)) * number**2)
            else:
                text = f"{number} " + "ü" * 4 ** (number % 8)
                row.append(json.dumps({"text": text, "at": "2026"}) if name == "body" else text)
        db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)


def test_rows_that_were_deleted_do_not_come_back(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA secure_delete = OFF")
        db.execute("DELETE FROM messages WHERE id > 200")
    content = bytearray(path.read_bytes())
    assert b'"199 yyy' in content  # they still stand there
    assert len(content) == len(whole)
    with closing(sqlite3.connect(path)) as db:
        ((root,),) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'messages'").fetchall()
    content[(root - 1) * PAGE_BYTES : root * PAGE_BYTES] = b"\xff" * PAGE_BYTES
    path.write_bytes(content)
    with warnings():
        assert used(path) == 200


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
    newer = whole[:60] + (module.newest_format() + 1).to_bytes(4, "big") + whole[64:9000]
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
    store = Store(path)
    assert store.rows("SELECT text FROM pins") == [("only in the journal",)]
    store.close()


def test_a_state_that_was_emptied_is_told_and_a_new_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with warnings() as said:
        used(path)
    assert said == []
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="is empty, as something has emptied it"):
        Store(path, read_only=True)
    with warnings() as said:
        used(path)
    assert "nothing of it could be read" in said[0]
    assert len(kept(path)) == 1


def test_a_new_state_is_never_empty_however_its_making_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.db"

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    for point in ("put_in_place", "sync_folder"):
        with monkeypatch.context() as patched:
            patched.setattr(drafts, point, broken)
            with pytest.raises(StoreError, match=r"cannot open .*state\.db"):
                Store(path)
        assert not path.exists() or path.stat().st_size
    with warnings() as said:
        used(path)
    assert said == []


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
        assert used(path) > 100


KILLED = """
import os, signal, sys
from pathlib import Path
from nanoclaw.core.store.db import PAGE_BYTES, Store

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
            assert used(path) > 100
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
