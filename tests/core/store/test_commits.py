"""The number of times that a turn waits for the disk, and that nobody else waits with it."""

import asyncio
import os
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.channel import Hints
from nanoclaw.core.conversation import QueuePolicy
from nanoclaw.core.errors import StoreError
from nanoclaw.core.messages import ModelRequest, UserMessage
from nanoclaw.core.plugin import Said
from nanoclaw.core.store.db import Store, Transaction, Transactions
from nanoclaw.core.store.sessions import Sessions, TurnJournal
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from nanoclaw.start.opening import drop_bytes, open_store
from tests.core.store.test_sessions import accept, inbound
from tests.program import MAIN, NOON, FakeChannel, Program, everybody_is, running

FULL = 2
"""The value of PRAGMA synchronous with which SQLite waits for the disk."""


class Disk(sqlite3.Connection):
    """Counts how often it is to keep something, and keeps nothing until it is let: the slowest disk there is."""

    commits = 0
    wal_bytes = 0
    """That were in the journal then."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.free, self.reached = threading.Event(), threading.Event()
        self.error: sqlite3.Error | None = None
        self.free.set()

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        is_synced = sql == "COMMIT" and super().execute("PRAGMA synchronous").fetchone() == (FULL,)
        if is_synced:
            self.commits += 1
            self.reached.set()
            on_loop = threading.current_thread() is threading.main_thread()
            assert self.free.is_set() or not on_loop, "all chats wait"
            self.free.wait()
            if self.error:
                raise self.error
        done = super().execute(sql, *values)
        if is_synced:
            self.wal_bytes = Path(f"{super().execute('PRAGMA database_list').fetchone()[2]}-wal").stat().st_size
        return done


def disk_of(store: Store) -> Disk:
    """Put such a disk under a store."""
    store.db.close()
    store.db = sqlite3.connect(store.path, isolation_level=None, check_same_thread=False, factory=Disk)
    store.db.execute("PRAGMA foreign_keys = ON")
    assert isinstance(store.db, Disk)
    return store.db


async def commits_of(program: Program, disk: Disk, text: str) -> int:
    before = disk.commits
    await program.ask(text)
    await program.app.conversations.idle()
    while program.app.outbox.pending(program.channel.name):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    return disk.commits - before


@pytest.mark.parametrize("name", ["terminal", "chat"])
async def test_a_plain_turn_waits_for_the_disk_three_times_a_round_of_tools_twice(tmp_path: Path, name: str) -> None:
    """It is accepted and answered, its answer is out; a round is noted before it runs and when it has ended."""
    write = call("write_file", {"path": "a.md", "content": "x"})
    model = ScriptedProvider("Hi.", "Hi again.", call("list_dir"), "Listed.", write, write, "Written.")
    channel = FakeChannel(name, Hints(bursts=name == "chat"))
    options: dict[str, Any] = {
        "extra": [everybody_is("owner")],
        "without": ["access"],
        "policy": QueuePolicy(burst_seconds=0),
    }
    async with running(tmp_path, model, channel=channel, **options) as program:
        disk = disk_of(program.app.store)
        assert [await commits_of(program, disk, text) for text in ("one", "two", "list", "write")] == [3, 3, 5, 7]


async def test_no_other_chat_waits_while_the_disk_keeps_something_and_what_comes_meanwhile_is_kept_together(
    tmp_path: Path,
) -> None:
    model, hang = ScriptedProvider(), Hang("Still at ")
    model.add([hang, "Hello.", "Hello.", "Hello."])
    async with running(tmp_path, model) as program:
        disk = disk_of(program.app.store)
        program.app.store.committer = ThreadPoolExecutor(1)
        await program.say("A long one", chat="busy")
        await hang.reached.wait()
        disk.free.clear()
        disk.reached.clear()
        first = asyncio.create_task(program.say("hi", chat="first"))
        await asyncio.to_thread(disk.reached.wait)
        before = disk.commits
        others = [asyncio.create_task(program.say("hi", chat=f"other-{number}")) for number in range(2)]
        await asyncio.sleep(0)
        assert program.rows("SELECT chat FROM inbox") == [("busy",)]  # none is accepted, and who looks need not wait
        assert not first.done()
        disk.free.set()
        await asyncio.gather(first, *others)
        assert {await program.answer() for _ in range(3)} == {"Hello."}
        assert disk.commits - before < 3 * 3  # together they took fewer than each for itself
        await program.say("/stop", chat="busy")


class Accounts:
    """A store in which each change is a line."""

    def __init__(self, folder: Path) -> None:
        self.store = open_store(folder / "state.db")
        self.transactions = Transactions(self.store, lambda: NOON)
        self.disk = disk_of(self.store)
        self.after: list[str] = []

    async def write(self, name: str, *, is_synced: bool = True) -> None:
        def change(tx: Transaction) -> None:
            tx.execute("INSERT INTO flags (name, value, at) VALUES (?, '', '')", name)
            tx.after(lambda: self.after.append(name))
            if name.startswith("bad"):
                raise ValueError(name)

        await self.transactions.write(change, is_synced=is_synced)

    @property
    def kept(self) -> list[str]:
        return [name for (name,) in self.store.rows("SELECT name FROM flags ORDER BY rowid")]


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    return Accounts(tmp_path)


async def test_what_comes_while_a_commit_runs_shares_the_next_and_one_that_fails_fails_alone(
    accounts: Accounts,
) -> None:
    accounts.disk.free.clear()
    writing = asyncio.gather(*map(accounts.write, ("a", "b", "bad", "c")), return_exceptions=True)
    await asyncio.to_thread(accounts.disk.reached.wait)
    accounts.disk.free.set()
    wrote = await writing
    assert [repr(one) for one in wrote] == ["None", "None", "ValueError('bad')", "None"]
    assert (accounts.kept, accounts.after, accounts.disk.commits) == (["a", "b", "c"], ["a", "b", "c"], 2)


async def test_what_the_disk_does_not_take_is_told_to_all_who_wait_and_nothing_of_it_stays(accounts: Accounts) -> None:
    accounts.disk.error = sqlite3.OperationalError("disk I/O error")
    wrote = await asyncio.gather(*map(accounts.write, ("a", "b")), return_exceptions=True)
    assert [type(one) for one in wrote] == [StoreError, StoreError]
    accounts.disk.error = None
    await accounts.write("c")
    assert (accounts.kept, accounts.after) == (["c"], ["c"])


async def test_only_a_few_changes_in_a_row_wait_for_no_disk_so_that_a_power_cut_looks_like_no_damage(
    accounts: Accounts,
) -> None:
    waits, last = list[str](), 0
    for name in ("a", "b", "c", "d", "e"):
        accounts.disk.error = sqlite3.OperationalError("disk I/O error") if name == "c" else None
        with suppress(StoreError):
            await accounts.write(name, is_synced=False)
        waits, last = [*waits, name] if accounts.disk.commits > last else waits, accounts.disk.commits
    assert (waits, accounts.kept) == (["c", "d"], ["a", "b", "d", "e"])  # c was not kept: d waits in its place


async def test_a_change_whose_writer_is_cancelled_is_kept_and_the_cancellation_comes_after_it(
    accounts: Accounts,
) -> None:
    went_on = []

    async def write() -> None:
        await accounts.write("a")
        went_on.append(True)
        await asyncio.sleep(0)
        went_on.append(False)

    accounts.disk.free.clear()
    writing = asyncio.create_task(write())
    await asyncio.to_thread(accounts.disk.reached.wait)
    writing.cancel()
    await asyncio.sleep(0)
    accounts.disk.free.set()
    await asyncio.wait([writing])
    assert (writing.cancelled(), went_on, accounts.kept) == (True, [True], ["a"])


async def test_what_is_written_at_once_waits_for_the_commit_under_way_and_comes_after_it(accounts: Accounts) -> None:
    accounts.disk.free.clear()
    writing = asyncio.create_task(accounts.write("a"))
    await asyncio.to_thread(accounts.disk.reached.wait)
    threading.Timer(0.05, accounts.disk.free.set).start()
    with accounts.transactions.open() as tx:
        tx.execute("INSERT INTO flags (name, value, at) VALUES ('b', '', '')")
        tx.after(lambda: accounts.after.append("b"))
    await writing
    assert accounts.kept == accounts.after == ["a", "b"]


async def test_bytes_of_what_was_deleted_are_dropped_after_the_commit_under_way(accounts: Accounts) -> None:
    accounts.disk.free.clear()
    writing = asyncio.create_task(accounts.write("a"))
    await asyncio.to_thread(accounts.disk.reached.wait)
    threading.Timer(0.05, accounts.disk.free.set).start()
    drop_bytes(accounts.store)
    await writing
    assert accounts.kept == ["a"]


async def test_what_was_read_when_the_disk_had_it_and_before_its_writer_went_on_is_in_the_history_once(
    accounts: Accounts,
) -> None:
    session = Sessions(accounts.transactions).of(MAIN)
    row = accept(accounts.store, inbound("hi", "1"))
    assert row
    said = UserMessage("hi", NOON)
    accounts.disk.free.clear()
    writing = asyncio.create_task(TurnJournal(session, 1, row, "person").begin([row], [said]))
    await asyncio.sleep(0)
    accounts.disk.free.set()
    accounts.store.wait()
    assert session.history == [said]
    await writing
    assert session.history == [said]


async def test_a_message_whose_turn_a_power_cut_takes_is_answered_once(tmp_path: Path) -> None:
    """That a turn has begun outlives a kill. The disk need not have it: nothing was done yet."""
    hang = Hang("Still at ")
    async with running(tmp_path / "cut", ScriptedProvider(hang)) as program:
        disk = disk_of(program.app.store)
        await program.say("hi")
        await hang.reached.wait()
        assert program.rows("SELECT state FROM inbox") == [("running",)]
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("state.db", "state.db-wal"):
            shutil.copy(tmp_path / "cut" / name, copy / name)
        os.truncate(copy / "state.db-wal", disk.wal_bytes)
        await program.say("/stop")
    async with running(copy, ScriptedProvider("Hello.")) as program:
        assert await program.answer() == "Hello."
        await program.app.conversations.idle()
        assert program.rows("SELECT state FROM inbox") == [("done",)]
        assert program.channel.sent.empty()


async def test_an_answer_that_the_disk_does_not_take_is_nowhere_and_the_next_one_is_whole(tmp_path: Path) -> None:
    def fails(request: ModelRequest) -> str:
        disk.error = sqlite3.OperationalError("disk I/O error")
        return "Lost."

    async with running(tmp_path, ScriptedProvider(fails, "Hello.")) as program:
        disk = disk_of(program.app.store)
        program.app.store.committer = ThreadPoolExecutor(1)
        await program.say("hi")
        await program.app.conversations.idle()
        (told,) = program.channel.ended
        assert told.reason == "failed"
        assert "Lost." not in str(program.history)
        assert program.channel.sent.empty()
        disk.error = None
        assert await program.ask("again") == "Hello."
        await program.app.conversations.idle()
        kept = program.history
        program.app.sessions.reload()
        assert program.history == kept


@pytest.mark.parametrize("text", ["/new", "/model scripted/other", "/status", "/nonsense"])
async def test_no_chat_waits_for_a_command_of_another(tmp_path: Path, text: str) -> None:
    async with running(tmp_path, ScriptedProvider("Hello.")) as program:
        await program.ask("hi")
        await program.app.conversations.idle()
        program.app.store.committer = ThreadPoolExecutor(1)
        disk = disk_of(program.app.store)
        for commits in (1, 2, 3):  # it is accepted, carried out, and what it says is out
            disk.free.clear()
            disk.reached.clear()
            if commits == 1:
                saying = asyncio.create_task(program.say(text))
            reached = asyncio.create_task(asyncio.to_thread(disk.reached.wait))
            ended = asyncio.create_task(program.app.conversations.idle())
            await asyncio.wait([reached], timeout=None if commits < 3 else 0.2)
            disk.free.set()
            disk.reached.set()
            await ended
        await saying
        assert program.channel.sent.get_nowait().text


async def test_what_the_program_is_ended_in_is_whole_afterwards(accounts: Accounts) -> None:
    accounts.disk.free.clear()
    writing = [asyncio.create_task(accounts.write(name)) for name in ("a", "b")]
    await asyncio.to_thread(accounts.disk.reached.wait)
    for task in writing:
        task.cancel()
    accounts.disk.free.set()
    await asyncio.wait(writing)
    accounts.store.close()
    assert Accounts(accounts.store.path.parent).kept == ["a", "b"]


async def test_a_time_limit_that_is_over_while_its_last_work_is_kept_stops_nothing_later(accounts: Accounts) -> None:
    accounts.disk.free.clear()
    limit = asyncio.timeout(None)

    async def work() -> str:
        async with limit:
            await accounts.write("a")
        for _ in range(9):
            await asyncio.sleep(0)
        return "went on"

    working = asyncio.create_task(work())
    await asyncio.to_thread(accounts.disk.reached.wait)
    limit.reschedule(0)
    while not limit.expired() and not working.cancelling():  # noqa: ASYNC110
        await asyncio.sleep(0)
    accounts.disk.free.set()
    assert await working == "went on"


async def test_what_a_change_brings_about_is_written_after_all_that_was_kept_with_it(accounts: Accounts) -> None:
    tasks: list[asyncio.Task[None]] = []

    def change(tx: Transaction) -> None:
        tx.after(lambda: accounts.transactions.write_now(lambda tx: tx.after(lambda: accounts.after.append("now"))))
        tx.after(lambda: tasks.append(asyncio.create_task(accounts.write("later"))))

    accounts.disk.free.clear()
    first = asyncio.create_task(accounts.write("first"))
    await asyncio.to_thread(accounts.disk.reached.wait)
    others = [asyncio.create_task(accounts.transactions.write(change)), asyncio.create_task(accounts.write("second"))]
    await asyncio.sleep(0)
    accounts.disk.free.set()
    await asyncio.wait([first, *others])
    await asyncio.wait(tasks)
    assert accounts.after == ["first", "now", "second", "later"]


async def test_a_rehearsal_ends_when_nothing_of_it_is_left(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> str:
        disk.free.clear()
        disk.reached.clear()
        return "The report is written."

    async with running(tmp_path, ScriptedProvider(answer)) as program:
        await program.ask("/cron add --task every day at 8: write the report")
        await program.app.conversations.idle()
        program.app.store.committer = ThreadPoolExecutor(1)
        disk = disk_of(program.app.store)
        rehearsing = asyncio.create_task(
            program.app.commands.for_said("rehearse", Said("1", MAIN, MAIN, "me", "owner"))
        )
        while disk.free.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.to_thread(disk.reached.wait)
        for _ in range(9):
            await asyncio.sleep(0)
        was_told = rehearsing.done()
        disk.free.set()
        assert not was_told
        assert "The report is written." in (await rehearsing).text
        left = [program.rows(f"SELECT count(*) FROM {table} {where}") for table, where in LEFT]
        assert left == [[(0,)]] * 3


LEFT = (("inbox", "WHERE channel = 'rehearsal'"), ("turns", ""), ("sessions", "WHERE key LIKE 'rehearsal%'"))
