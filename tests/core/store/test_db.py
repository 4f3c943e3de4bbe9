"""state.db: one owner, one format, and what is damaged or newer stays as it is."""

import asyncio
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanoclaw.core.delivery import Outbox
from nanoclaw.core.errors import StoreError
from nanoclaw.core.messages import Address, AssistantMessage, Inbound, Message, ToolCall, ToolResult, UserMessage
from nanoclaw.core.store.db import PANIC, Flags, Store, Transactions
from nanoclaw.core.store.history import list_sessions
from nanoclaw.core.store.inbox import Inbox
from nanoclaw.core.store.sessions import Sessions, TurnJournal
from nanoclaw.start import opening as formats
from nanoclaw.start.opening import newest_format, open_store, read_store

NOW = datetime(2026, 3, 6, 12, 0, tzinfo=UTC)
MAIN = Address("terminal", "main")
HOLD = """
import sys
from pathlib import Path
from nanoclaw.start.opening import open_store
store = open_store(Path(sys.argv[1]))
print("mine", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns the store."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "mine\n"
        try:
            yield process
        finally:
            process.kill()


def filled(path: Path, messages: int = 200) -> None:
    """A store with a conversation in it, closed."""
    asyncio.run(_filled(path, messages))


async def _filled(path: Path, messages: int = 200) -> None:
    store = open_store(path)
    transactions = Transactions(store, lambda: NOW)
    row = transactions.write_now(lambda tx: tx.deliver(Inbound(MAIN, "me", "1", UserMessage("hi", NOW), role="owner")))
    assert row
    sessions = Sessions(transactions)
    turn = await TurnJournal(sessions.of(MAIN), sessions.next_turn(), row, "person").begin(
        [row], [UserMessage("hi", NOW)]
    )
    for number in range(messages):
        call = ToolCall(f"c{number}", "exec", "{}")
        await turn.step(
            [AssistantMessage("x" * 300, NOW, (call,)), ToolResult(call.id, "exec", f"{number} " + "y" * 300, NOW)]
        )
    store.close()


def history(store: Store) -> list[Message]:
    return list(Sessions(Transactions(store, lambda: NOW)).of(MAIN).history)


def waiting(store: Store) -> list[Inbound]:
    return [inbound for _, inbound in Inbox(Transactions(store, lambda: NOW)).waiting()]


# -- one owner


def test_a_store_that_could_not_be_opened_has_no_owner(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.mkdir()
    for _ in range(2):
        with pytest.raises(StoreError):
            open_store(path)
    path.rmdir()
    open_store(path).close()


def test_others_can_read_beside_the_owner(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    filled(path, 3)
    with held(path):
        reader = read_store(path)
        assert [info.messages for info in list_sessions(reader)] == [4]
        with pytest.raises(StoreError), reader.transaction() as db:
            db.execute("DELETE FROM messages")
        reader.close()


def test_only_the_person_can_read_the_file(tmp_path: Path) -> None:
    open_store(tmp_path / "state.db").close()
    assert (tmp_path / "state.db").stat().st_mode & 0o077 == 0


# -- what is damaged or newer


def test_a_newer_state_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE dreams (text TEXT)")
        db.execute(f"PRAGMA user_version = {newest_format() + 1}")
    db.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreError, match="newer nanoclaw"):
            (read_store if read_only else open_store)(path)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("state.db.*"))


def test_a_newer_state_whose_last_writes_are_still_beside_it_is_untouched(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    writer = sqlite3.connect(tmp_path / "made.db")
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute(f"PRAGMA user_version = {newest_format() + 1}")
    for suffix in ("", "-wal"):  # as after a crash
        shutil.copy(tmp_path / f"made.db{suffix}", tmp_path / f"state.db{suffix}")
    writer.close()
    before = path.read_bytes(), (tmp_path / "state.db-wal").read_bytes()
    with pytest.raises(StoreError, match="newer nanoclaw"):
        open_store(path)
    assert (path.read_bytes(), (tmp_path / "state.db-wal").read_bytes()) == before


@pytest.mark.parametrize("damage", ["text", "zeros", "header", "folder"])
def test_a_file_that_is_no_database_is_told_to_a_reader_and_untouched(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "state.db"
    if damage == "folder":
        path.mkdir()
    else:
        path.write_bytes({"text": b"dear diary\n" * 500, "zeros": bytes(9000), "header": b"SQLite format 3\0"}[damage])
    before = b"" if damage == "folder" else path.read_bytes()
    with pytest.raises(StoreError, match=r"state\.db"):
        read_store(path)
    if damage != "folder":
        assert path.read_bytes() == before


def test_a_folder_in_its_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    with pytest.raises(StoreError, match=r"state\.db"):
        open_store(tmp_path / "state.db")


# -- formats


def with_one_more(tmp_path: Path, sql: str) -> Path:
    """The migrations of today and one that follows them."""
    folder = shutil.copytree(formats.MIGRATIONS, tmp_path / "migrations")
    (folder / f"{newest_format() + 1:03}.sql").write_text(sql)
    return folder


def test_an_older_format_is_brought_up_and_a_copy_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.db"
    filled(path, 2)
    format_before = newest_format()
    monkeypatch.setattr(formats, "MIGRATIONS", with_one_more(tmp_path, "CREATE TABLE dreams (text TEXT) STRICT;"))
    store = open_store(path)
    assert len(history(store)) == 5
    store.db.execute("INSERT INTO dreams VALUES ('fly')")
    store.close()
    copy = tmp_path / f"state.db.v{format_before}"
    assert copy.stat().st_mode & 0o077 == 0
    monkeypatch.undo()
    with pytest.raises(StoreError, match="newer"):
        open_store(path)
    shutil.copy(copy, path)
    old = open_store(path)
    assert len(history(old)) == 5
    old.close()


def test_a_state_of_the_first_format_is_brought_up_with_all_it_held_and_a_copy_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((Path(__file__).parent / "format_1.sql").read_text())
        held_before = list(db.iterdump())
    store = open_store(path)
    assert [message.text for message in history(store)] == ["hi", "Hello."]
    assert Sessions(Transactions(store, lambda: NOW)).of(MAIN).model == "ollama/x"
    assert [inbound.message.text for inbound in waiting(store)] == ["and more"]
    assert [row.outbound.text for row in Outbox(Transactions(store, lambda: NOW), lambda: 1.0).pending("terminal")] == [
        "Hello."
    ]
    assert store.rows("PRAGMA user_version") == [(newest_format(),)]
    assert store.rows("PRAGMA foreign_key_check") == []
    store.close()
    with closing(sqlite3.connect(tmp_path / "state.db.v1")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert list(db.iterdump()) == held_before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["state.db", "state.db.v1", "state.lock"]


def test_a_state_of_the_second_format_is_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((Path(__file__).parent / "format_2.sql").read_text())
    store = open_store(path)
    assert [message.text for message in history(store)] == ["hi", "Hello."]
    assert [inbound.message.text for inbound in waiting(store)] == ["and more"]
    assert store.rows("SELECT text FROM pins") == [("be brief",)]
    assert Flags(store, lambda: NOW).get(PANIC) == "1"
    assert store.rows("PRAGMA foreign_key_check") == []
    store.close()
    with closing(sqlite3.connect(tmp_path / "state.db.v2")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)


def test_without_room_for_a_copy_an_older_format_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((Path(__file__).parent / "format_1.sql").read_text())
        held_before = list(db.iterdump())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match=r"no copy of it could be kept .* free some space"):
            open_store(path)
    with closing(sqlite3.connect(path)) as db:
        assert list(db.iterdump()) == held_before
    assert not list(tmp_path.glob("state.db.v*"))
    assert not list(tmp_path.glob(".draft*"))


def test_a_new_state_has_no_copy_beside_it(tmp_path: Path) -> None:
    open_store(tmp_path / "state.db").close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["state.db", "state.lock"]


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.db"
    filled(path, 2)
    bad = with_one_more(tmp_path, "CREATE TABLE dreams (text TEXT) STRICT; INSERT INTO nothing VALUES (1);")
    with monkeypatch.context() as patch:
        patch.setattr(formats, "MIGRATIONS", bad)
        for _ in range(2):
            with pytest.raises(StoreError, match="It is as it was"):
                open_store(path)
    store = open_store(path)
    assert len(history(store)) == 5
    assert store.db.execute("SELECT 1 FROM sqlite_master WHERE name = 'dreams'").fetchone() is None
    store.close()


# -- a full disk

FILL = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from nanoclaw.core.errors import StoreError
from nanoclaw.core.messages import Address, Inbound, UserMessage
from nanoclaw.core.store.db import Transactions
from nanoclaw.start.opening import open_store

now = datetime.now(UTC)
transactions = Transactions(open_store(Path(sys.argv[1])), lambda: now)
for number in range(10_000):
    message = UserMessage(f"{number} " + "x" * 5000, now)
    try:
        inbound = Inbound(Address("terminal", "main"), "me", str(number), message)
        transactions.write_now(lambda tx: tx.deliver(inbound))
    except StoreError as error:
        print(number, error)
        break
    else:
        print(number, flush=True)
"""


def test_a_full_disk_is_told_in_a_sentence_and_what_was_accepted_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    open_store(path).close()
    limit = 300_000

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    ended = subprocess.run(
        [sys.executable, "-c", FILL, str(path)], capture_output=True, text=True, preexec_fn=small_files, timeout=100
    )
    *accepted, refused = ended.stdout.splitlines()
    assert ended.stderr == ""
    assert "this step could not be saved" in refused
    assert "What was saved before is intact" in refused
    assert "rollback" not in refused
    store = open_store(path)
    assert [inbound.external_id for inbound in waiting(store)] == accepted
    assert len(accepted) > 10
    store.close()


def test_a_write_that_was_cut_off_before_the_journal_mode_was_changed_is_taken_back(tmp_path: Path) -> None:
    """A kill in the very first start leaves a journal that only a writer can roll back."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE first (text TEXT)")
        db.execute("BEGIN EXCLUSIVE")
        db.execute("PRAGMA cache_size = 1")
        db.execute("PRAGMA cache_spill = 1")
        db.executemany("INSERT INTO first VALUES (?)", [("x" * 900,) for _ in range(200)])
        hot = tmp_path / "hot"
        hot.mkdir()
        for name in ("state.db", "state.db-journal"):
            shutil.copy(tmp_path / name, hot / name)
        db.execute("ROLLBACK")
    store = open_store(hot / "state.db")
    assert store.rows("SELECT count(*) FROM first") == [(0,)]
    store.close()
