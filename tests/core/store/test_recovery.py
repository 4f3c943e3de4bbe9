"""A damaged state.db: it starts, the file is kept byte by byte, what can be read goes on over the newest copy."""

import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import date
from pathlib import Path

import pytest

from nanoclaw import atomic_write as drafts
from nanoclaw.core.delivery import Outbox
from nanoclaw.core.errors import StoreError
from nanoclaw.core.store.db import Transactions
from nanoclaw.core.store.history import list_sessions
from nanoclaw.core.store.inbox import Inbox
from nanoclaw.core.store.sessions import Sessions
from nanoclaw.log import logger
from nanoclaw.sqlite_salvage.copies import KEPT, daily_copies, keep_daily_copy
from nanoclaw.start.opening import PAGE_BYTES, newest_format, open_store, read_store
from tests.core.store.test_db import MAIN, NOW, filled, history, waiting
from tests.journeys.command import Home
from tests.kills import die_at_step, killed
from tests.model_server import ModelServer, says


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A state of many pages, in one file."""
    path = tmp_path_factory.mktemp("whole") / "state.db"
    filled(path)
    return path.read_bytes()


@contextmanager
def warnings() -> Iterator[list[str]]:
    """All that the store warns of; what an earlier test left behind in this process may warn at any time."""
    said: list[str] = []
    sink = logger.add(lambda line: said.append(str(line)), level="WARNING", format="{message}", filter="nanoclaw")
    try:
        yield said
    finally:
        with suppress(ValueError):  # a program that starts sets up its own
            logger.remove(sink)


def used(path: Path) -> int:
    """Everything a start does with the store; how many messages there are."""
    with closing(open_store(path)) as store:
        transactions = Transactions(store, lambda: NOW)
        Inbox(transactions).waiting()
        Inbox(transactions).open_turns()
        Outbox(Transactions(store, lambda: NOW)).pending("terminal")
        session = Sessions(transactions).of(MAIN)
        session.use_model("ollama/x")
        assert store.rows("PRAGMA integrity_check") == [("ok",)]
        assert store.rows("PRAGMA foreign_key_check") == []
        return len(session.history)


def messages(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM messages").fetchone()[0])


def kept(path: Path) -> list[Path]:
    return sorted(path.parent.glob("state.db.damaged-*"))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The checked copy of the day before, when half of it was said."""
    path = tmp_path_factory.mktemp("copy") / "state.db"
    filled(path, 100)
    keep_daily_copy(path, DAY)
    return daily_copies(path)[0].read_bytes()


DAY = date(2026, 3, 5)


def damaged_home(folder: Path, content: bytes, copy: bytes = b"") -> Path:
    path = folder / "state.db"
    folder.mkdir(exist_ok=True)
    path.write_bytes(content)
    if copy:
        (folder / "copies").mkdir()
        (folder / "copies" / f"state-{DAY}.db").write_bytes(copy)
    return path


def cuts(whole: bytes) -> list[int]:
    """Some in the header, at pages and their neighbours, and at random."""
    pages = [page + by for page in range(0, len(whole), 4096) for by in (-1, 0, 1, 100)]
    chosen = {*range(0, 120, 40), *pages[:: max(1, len(pages) // 6)]}
    chosen.update(random.Random(5).sample(range(len(whole)), 3))
    return sorted(cut for cut in chosen if 0 < cut < len(whole))


@pytest.mark.parametrize("has_copy", [True, False])
def test_a_state_cut_at_any_byte_starts_and_the_damaged_one_is_kept_whole(
    tmp_path: Path, whole: bytes, copy: bytes, has_copy: bool
) -> None:
    saved = {}
    for cut in cuts(whole):
        path = damaged_home(tmp_path / str(cut), whole[:cut], copy if has_copy else b"")
        with warnings() as said:
            saved[cut] = used(path)
        (aside,) = kept(path)
        assert aside.read_bytes() == whole[:cut]
        assert len(said) == 1
        assert "was damaged" in said[0]
        assert aside.name in said[0]
        assert "Missing" in said[0] or "Nothing of it could be read" in said[0]
        assert used(path) == saved[cut]
        shutil.rmtree(path.parent)
    assert saved[max(saved)] > 300
    assert min(count for cut, count in saved.items() if cut > len(whole) / 2) > 140
    assert min(saved.values()) == (201 if has_copy else 0)


def test_a_damaged_page_in_the_middle_costs_what_is_on_it_only(tmp_path: Path, whole: bytes) -> None:
    found = []
    for page in range(LISTS // 4096, len(whole) // 4096, 9):
        damaged = whole[: page * 4096] + b"\xff" * 4096 + whole[(page + 1) * 4096 :]
        path = damaged_home(tmp_path / str(page), damaged)
        with warnings():
            found.append(used(path))
        assert [aside.read_bytes() for aside in kept(path)] == [damaged]
    assert min(found) > 385  # of 401


LISTS = 45_000
"""So far the file says where the rest of it is. What is lost there takes all of a table with it."""


@pytest.mark.parametrize("fill", [b"\xff", b"\0", b"a", b"\x0d"])
def test_twenty_thousand_bytes_written_over_anywhere_cost_what_stood_there(
    tmp_path: Path, whole: bytes, copy: bytes, fill: bytes
) -> None:
    length = 20_000
    for start in [0, 1000, 2048, 20_000, LISTS, len(whole) // 2 + 77, len(whole) - length]:
        path = damaged_home(tmp_path / str(start), whole[:start] + fill * length + whole[start + length :], copy)
        with warnings() as said:
            count = used(path)
        if start < LISTS:
            assert count == (201 if start < 20_000 else 401)
            assert f"the copy of {DAY}" in said[0]
        else:
            assert count > 401 - 5 * (length / PAGE_BYTES + 2), start  # a page has four or five


def roots(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as db:
        return dict(db.execute("SELECT name, rootpage FROM sqlite_schema WHERE type = 'table'").fetchall())


def without(whole: bytes, path: Path, *tables: str) -> bytes:
    """The first page of each of these written over."""
    path.write_bytes(whole)
    damaged = bytearray(whole)
    for at in ((roots(path)[table] - 1) * PAGE_BYTES for table in tables):
        damaged[at : at + PAGE_BYTES] = b"\xff" * PAGE_BYTES
    return bytes(damaged)


def conversations(path: Path) -> list[tuple[str, int]]:
    store = read_store(path)
    try:
        return [(each.key, each.messages) for each in list_sessions(store)]
    finally:
        store.close()


@pytest.mark.parametrize("lost", ["sessions", "turns", "inbox", "sessions turns", "turns inbox"])
def test_messages_go_on_when_the_rows_that_they_belong_to_are_lost(
    tmp_path: Path, whole: bytes, copy: bytes, lost: str
) -> None:
    damaged = without(whole, tmp_path / "made.db", *lost.split())
    path = damaged_home(tmp_path / "copied", damaged, copy)
    with warnings():
        used(path)
    assert conversations(path) == [("terminal:main", 201)]
    path = damaged_home(tmp_path / "alone", damaged)
    with warnings() as said:
        used(path)
    assert (f"some {'conversations' if 'sessions' in lost else lost.split()[0]}" in said[0]) or "inbox" in lost
    assert ("recovered:1" if "sessions" in lost else "terminal:main", 201) in conversations(path)


def test_what_was_removed_or_changed_since_the_copy_stays_so(tmp_path: Path, whole: bytes, copy: bytes) -> None:
    path = damaged_home(tmp_path / "home", whole, copy)
    with closing(sqlite3.connect(tmp_path / "home" / "copies" / f"state-{DAY}.db", isolation_level=None)) as db:
        db.execute("INSERT INTO flags VALUES ('panic', '1', 'then'), ('old', '1', 'then')")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("INSERT INTO flags VALUES ('old', '2', 'now')")
    path.write_bytes(without(path.read_bytes(), tmp_path / "made.db", "usage"))
    with warnings() as said:
        assert used(path) == 401
    store = open_store(path)
    assert store.rows("SELECT name, value FROM flags") == [("old", "2")]
    store.close()
    assert f"What could be read is used, over the copy of {DAY}." in said[0]
    assert "Missing of what it held: some records of usage." in said[0]


def test_nothing_of_the_copy_is_done_once_more(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "home" / "state.db"
    path.parent.mkdir()
    path.write_bytes(whole)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE inbox SET state = 'running'")
        db.execute("UPDATE turns SET ended = NULL")
    keep_daily_copy(path, DAY)
    path.write_bytes(without(whole, tmp_path / "made.db", "inbox", "turns"))
    with warnings():
        store = open_store(path)
    assert waiting(store) == []
    assert Inbox(Transactions(store, lambda: NOW)).open_turns() == []
    store.close()


def test_a_text_that_is_none_any_more_is_damage(tmp_path: Path, whole: bytes, copy: bytes) -> None:
    at = whole.index(b'"177 yyy')
    path = damaged_home(tmp_path / "new", whole[:at] + b"\xff" + whole[at + 1 :])
    with warnings() as said:
        assert used(path) < 401
    assert "Missing of what it held: at most 1 messages of conversations." in said[0]
    at = whole.index(b'"77 yyy')
    path = damaged_home(tmp_path / "old", whole[:at] + b"\xff" + whole[at + 1 :], copy)
    with warnings() as said:
        assert used(path) == 401
    assert "Nothing is missing" in said[0]


def test_what_is_whole_and_yet_says_nothing_is_passed_over(tmp_path: Path, whole: bytes, log: list[str]) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE messages SET body = '5' WHERE id = 2")
        db.execute('UPDATE messages SET body = \'{"kind": "result"}\' WHERE id = 3')
        db.execute("UPDATE inbox SET body = '{}'")
    assert 390 < used(path) < 401
    assert kept(path) == []
    assert any("message 1 of the inbox is damaged and was left out" in line for line in log)


def test_a_damaged_state_of_the_first_format_goes_on_in_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        db.executescript((Path(__file__).parent / "format_1.sql").read_text())
    path.write_bytes(without(path.read_bytes(), tmp_path / "made.db", "outbox"))
    with warnings() as said:
        store = open_store(path)
    assert "Missing of what it held: some messages that went out." in said[0]
    assert [message.text for message in history(store)] == ["hi", "Hello."]
    assert [inbound.message.text for inbound in waiting(store)] == ["and more"]
    store.close()


def test_tables_that_the_core_does_not_know_go_on_with_their_rows(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript("CREATE TABLE dreams (a TEXT PRIMARY KEY, n REAL); CREATE INDEX dreams_n ON dreams (n)")
        db.execute("INSERT INTO dreams VALUES ('fly', 1.5)")
        db.execute("INSERT INTO plugins VALUES ('dreams', 3)")
    path.write_bytes(without(path.read_bytes(), tmp_path / "made.db", "usage"))
    with warnings():
        store = open_store(path)
    assert store.rows("SELECT * FROM dreams INDEXED BY dreams_n WHERE n > 1") == [("fly", 1.5)]
    assert store.rows("SELECT * FROM plugins") == [("dreams", 3)]
    store.close()


def test_a_copy_that_is_damaged_itself_is_passed_over(tmp_path: Path, whole: bytes, copy: bytes) -> None:
    path = damaged_home(tmp_path / "home", whole[:PAGE_BYTES], copy)
    (path.parent / "copies" / "state-2026-03-06.db").write_bytes(copy[:-9000])
    with warnings() as said:
        assert used(path) == 201
    assert f"the copy of {DAY}" in said[0]


def test_rows_that_were_deleted_do_not_come_back(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA secure_delete = OFF")
        db.execute("DELETE FROM messages WHERE id > 200")
    content = bytearray(path.read_bytes())
    assert b'"199 yyy' in content  # they still stand there
    assert len(content) == len(whole)
    path.write_bytes(without(bytes(content), tmp_path / "made.db", "usage"))
    with warnings():
        assert used(path) == 200


@pytest.mark.parametrize("damage", [b"dear diary\n" * 500, bytes(9000), b"SQLite format 3\0"])
def test_a_file_that_is_no_database_is_kept_and_a_new_one_begun(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(damage)
    with warnings() as said:
        assert used(path) == 0
    assert [aside.read_bytes() for aside in kept(path)] == [damage]
    assert "Nothing of it could be read" in said[0]


def test_a_damaged_state_that_says_it_is_newer_is_left_alone(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "state.db"
    newer = whole[:60] + (newest_format() + 1).to_bytes(4, "big") + whole[64:9000]
    path.write_bytes(newer)
    with pytest.raises(StoreError, match="newer nanoclaw"):
        open_store(path)
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
        db.execute("INSERT INTO flags VALUES ('only', 'in the journal', 'now')")
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
    store = open_store(path)
    assert store.rows("SELECT name, value FROM flags") == [("only", "in the journal")]
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


def test_a_state_that_was_emptied_is_told_and_a_new_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with warnings() as said:
        used(path)
    assert said == []
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="is empty, as something has emptied it"):
        read_store(path)
    with warnings() as said:
        used(path)
    assert "Nothing of it could be read" in said[0]
    assert len(kept(path)) == 1


def test_a_new_state_is_never_empty_however_its_making_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.db"

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    for point in ("put_in_place", "sync_folder"):
        with monkeypatch.context() as patched:
            patched.setattr(drafts, point, broken)
            with pytest.raises(StoreError, match=r"cannot open .*state\.db"):
                open_store(path)
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
        with pytest.raises(StoreError, match=r"damaged, and can't be moved aside .* the disk is full"):
            open_store(path)
    assert path.read_bytes() == whole[: len(whole) // 2]
    with warnings():
        assert used(path) > 50


async def rescue(path: Path, at: int) -> None:
    """Open a store, and kill this process at that step of what is done to its files."""
    steps = ("os.link", "os.remove", "os.rename", "sqlite3.connect", "open")
    die_at_step(at, lambda event, given: event in steps and "state.db" in given)
    open_store(path)


def test_a_kill_while_it_is_rescued_costs_nothing_at_the_next_start(tmp_path: Path, whole: bytes) -> None:
    was_killed = True
    for at in range(1, 40):
        path = crashed(tmp_path / str(at), whole)
        damaged = path.read_bytes()[: 4096 * 60]
        path.write_bytes(damaged)
        was_killed = killed(rescue(path, at))
        with warnings():
            assert used(path) > 100
        assert len(kept(path)) == 2
        assert kept(path)[0].read_bytes() == damaged
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("SELECT name, value FROM flags").fetchall() == [("only", "in the journal")]
        if not was_killed:
            break
    assert not was_killed and at > 6


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


# -- copies


def test_one_copy_a_day_is_kept_and_seven_of_them(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    filled(path, 2)
    store = open_store(path)  # beside its owner
    for day in range(1, 11):
        keep_daily_copy(path, date(2026, 3, day))
    assert [copy.name for copy in daily_copies(path)] == [f"state-2026-03-{day:02}.db" for day in range(10, 3, -1)]
    assert len(daily_copies(path)) == KEPT
    assert all(copy.stat().st_mode & 0o077 == 0 for copy in (path.parent / "copies", *daily_copies(path)))
    before = daily_copies(path)[0].stat().st_ino
    keep_daily_copy(path, date(2026, 3, 10))
    assert daily_copies(path)[0].stat().st_ino == before
    assert conversations(daily_copies(path)[0]) == conversations(path)
    store.close()


def test_a_damaged_state_makes_no_copy(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "state.db"
    at = whole.index(b'"177 yyy')
    for damaged in (whole[:-9000], whole[:at] + b"\xff" + whole[at + 1 :]):
        path.write_bytes(damaged)
        assert keep_daily_copy(path, DAY).startswith(f"no copy of {path} could be kept today")
        assert daily_copies(path) == []
