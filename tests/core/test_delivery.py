"""The way out: rows in parts that fit, each part sent once, whatever breaks off in between."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanoclaw.beneath.paths import Reach
from nanoclaw.core.channel import Hints
from nanoclaw.core.channel_registry import Channels
from nanoclaw.core.delivery import RETRY_SECONDS, Delivery, Judge, Outbox, Row, failures, parts
from nanoclaw.core.errors import ChannelError, Undeliverable
from nanoclaw.core.messages import Address, Button, Inbound, Outbound, UserMessage
from nanoclaw.core.store.db import PANIC, Flags, Store, Transaction, Transactions
from nanoclaw.message_split import size
from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.start.host import ConversationStore
from nanoclaw.start.opening import open_store
from tests.program import MAIN, NOON, FakeChannel, HandClock, running

CHAT, OTHER = Address("chat", "1"), Address("chat", "2")
SMALL = Hints(length=21, caption=12, file_bytes=1000, units="utf-16")


class Platform(FakeChannel):
    """Numbers what it takes; `refuses` is asked before."""

    def __init__(self, hints: Hints) -> None:
        super().__init__("chat")
        self.hints = hints
        self.taken: list[Outbound] = []
        self.refuses: Callable[[Outbound], Exception | None] = lambda outbound: None

    async def send(self, outbound: Outbound) -> str:
        if error := self.refuses(outbound):
            raise error
        self.taken.append(outbound)
        return f"p{len(self.taken)}"

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.taken]


class LookedAt(Flags):
    """Counts how often it is asked."""

    looks = 0

    def get(self, name: str) -> str | None:
        self.looks += 1
        return super().get(name)


class Office:
    """An outbox with one channel."""

    def __init__(self, root: Path, hints: Hints = SMALL, judge: Judge | None = None) -> None:
        self.root, self.judge = root / "workspace", judge
        self.root.mkdir(exist_ok=True)
        self.clock = HandClock(NOON)
        self.loop = asyncio.Runner()
        self.store = open_store(root / "state.db")
        transactions = Transactions(self.store, self.clock)
        self.outbox = Outbox(transactions, lambda: 1.0)
        self.channel = Platform(hints)
        self.flags = LookedAt(self.store, self.clock)
        channels = Channels([self.channel], self.clock)
        reach = Reach(self.root)
        self.delivery = Delivery(self.outbox, channels, self.flags, transactions, reach, self.owners_chats, judge)

    def owners_chats(self) -> list[Address]:
        return []

    def add(self, outbound: Outbound) -> None:
        """Put a message into the outbox."""
        with self.store.transaction() as db:
            Transaction(db, self.clock()).send(outbound)

    def flush(self, after: float = 0) -> None:
        self.clock.now += timedelta(seconds=after)
        self.loop.run(self.delivery.flush("chat"))

    def close(self) -> None:
        self.loop.close()
        self.store.close()

    def send(self, text: str, *files: str, address: Address = CHAT, reply_to: str = "") -> None:
        self.add(Outbound(address, text, files, reply_to))
        self.flush()

    def rows(self) -> list[tuple[str, str, str, int]]:
        return self.store.rows("SELECT state, platform_id, parts, attempts FROM outbox ORDER BY id")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    yield made
    made.close()


def transactions(store: Store, work: Callable[[], None]) -> int:
    begun: list[str] = []
    store.db.set_trace_callback(lambda sql: begun.append(sql) if sql.startswith("BEGIN") else None)
    try:
        work()
    finally:
        store.db.set_trace_callback(None)
    return len(begun)


def test_a_long_text_goes_out_in_parts_with_the_reply_first_and_the_buttons_last(office: Office) -> None:
    buttons = (Button("Yes", "/yes 3"),)
    office.add(Outbound(CHAT, "one two three four five six seven eight nine", (), "in-1", buttons=buttons))
    office.flush()
    assert office.channel.taken == [
        Outbound(CHAT, "one two three four ", (), "in-1", "1.1"),
        Outbound(CHAT, "five six seven eight ", (), "", "1.2"),
        Outbound(CHAT, "nine", (), "", "1.3", buttons),
    ]
    assert office.rows()[0][:2] == ("delivered", "p1 p2 p3")


def test_a_text_that_fits_is_sent_as_it_is_in_one_transaction(office: Office) -> None:
    office.add(Outbound(CHAT, " exactly as it is \n", (), "in-1"))
    assert transactions(office.store, office.flush) == 1
    assert office.channel.taken == [Outbound(CHAT, " exactly as it is \n", (), "in-1", "1.1")]
    assert office.rows() == [("delivered", "p1", "[]", 0)]


def test_a_retry_goes_on_with_the_part_that_failed_of_what_a_plugin_made_also_after_a_restart(tmp_path: Path) -> None:
    office = Office(tmp_path, judge=lambda outbound, why, tx: outbound._replace(text=outbound.text.upper()))
    office.channel.refuses = lambda outbound: ConnectionError("down") if outbound.key == "1.2" else None
    office.send("one two three four five six seven eight nine")
    assert office.rows() == [("pending", "", '["p1"]', 1)]
    office.close()
    again = Office(tmp_path, judge=office.judge)
    again.channel.taken = office.channel.taken
    again.flush(after=5)
    assert again.channel.texts == ["ONE TWO THREE FOUR ", "FIVE SIX SEVEN EIGHT ", "NINE"]
    assert [one.key for one in again.channel.taken] == ["1.1", "1.2", "1.3"]
    assert again.rows()[0][:2] == ("delivered", "p1 p2 p3")
    again.close()


def test_parts_that_go_out_begin_the_attempts_anew(office: Office) -> None:
    text = "one two three four " * 8
    failed = list[str]()

    def refuses(outbound: Outbound) -> Exception | None:
        if failed.count(outbound.key) == 2:
            return None
        failed.append(outbound.key)
        return ConnectionError("down")

    office.channel.refuses = refuses
    office.send(text)
    for _ in range(16):
        office.flush(after=25)
    assert len(failed) == 16
    assert "".join(office.channel.texts) == text
    assert office.rows()[0][0] == "delivered"


def test_nothing_overtakes_a_part_that_waits(office: Office) -> None:
    office.channel.refuses = lambda outbound: ConnectionError("down") if outbound.key == "1.2" else None
    office.send("one two three four five six seven eight nine")
    office.send("later")
    office.send("elsewhere", address=OTHER)
    assert office.channel.texts == ["one two three four ", "elsewhere"]
    office.channel.refuses = lambda outbound: None
    office.flush(after=5)
    assert office.channel.texts == ["one two three four ", "elsewhere", "five six seven eight ", "nine", "later"]


def test_what_cannot_be_delivered_has_failed_at_once_and_the_others_go_on(office: Office) -> None:
    office.channel.refuses = lambda outbound: Undeliverable("no such chat") if outbound.address == CHAT else None
    for text, address in (("a", CHAT), ("b", OTHER), ("c", CHAT)):
        office.add(Outbound(address, text))
    office.flush()
    assert office.channel.texts == ["b"]
    assert [state for state, *_ in office.rows()][:3] == ["failed", "delivered", "failed"]
    assert failures(office.store) == [("chat:1", "c", "no such chat"), ("chat:1", "a", "no such chat")]
    assert office.outbox.pending("chat") == []


def test_delivering_sleeps_until_the_pause_is_over(office: Office) -> None:
    async def scene() -> None:
        office.channel.refuses = lambda outbound: ChannelError("too many requests", retry_after=3600)
        office.add(Outbound(CHAT, "a"))
        await office.delivery.flush("chat")
        office.add(Outbound(CHAT, "b"))
        delivering = asyncio.create_task(office.delivery.run())
        for _ in range(50):
            await asyncio.sleep(0)
        assert not delivering.done()
        assert office.flags.looks <= 4
        delivering.cancel()
        await asyncio.gather(delivering, return_exceptions=True)

    office.loop.run(scene())
    assert [row.due for row in office.outbox.pending("chat")] == [NOON + timedelta(seconds=3600), NOON]


def test_what_is_frozen_in_the_midst_of_a_text_stays_until_it_goes_on(office: Office) -> None:
    def freezes(outbound: Outbound) -> None:
        office.flags.set(PANIC, "1")

    office.channel.refuses = freezes
    office.send("one two three four five six seven eight nine")
    assert office.channel.texts == ["one two three four "]
    office.channel.refuses = lambda outbound: None
    office.flags.clear(PANIC)
    office.flush()
    assert office.channel.texts == ["one two three four ", "five six seven eight ", "nine"]


def test_a_file_has_the_text_as_its_caption_where_it_fits(office: Office) -> None:
    path = office.root / "a.png"
    path.write_bytes(b"png")
    office.send("Look, 😀!", str(path), reply_to="in-1")
    assert office.channel.taken == [Outbound(CHAT, "Look, 😀!", (str(path),), "in-1", "1.1")]
    assert office.rows() == [("delivered", "p1", "[]", 0)]


def test_a_longer_text_and_several_files_are_sent_one_after_the_other(office: Office) -> None:
    for name in ("a.png", "b.png"):
        (office.root / name).write_bytes(b"png")
    real = [str(office.root / name) for name in ("a.png", "b.png")]
    office.send("longer than caption", "a.png", reply_to="in-1")
    office.send("two", *real, reply_to="in-2")
    office.send("", *real)
    assert [(one.text, one.files, one.reply_to) for one in office.channel.taken] == [
        ("longer than caption", (), "in-1"),
        ("", (real[0],), ""),
        ("two", (), "in-2"),
        ("", (real[0],), ""),
        ("", (real[1],), ""),
        ("", (real[0],), ""),
        ("", (real[1],), ""),
    ]


def test_where_a_message_holds_several_files_they_go_with_the_text(tmp_path: Path) -> None:
    office = Office(tmp_path, Hints(length=200, caption=100, file_bytes=1000, files=2))
    names = ("a.png", "b.png", "c.png")
    for name in names:
        (office.root / name).write_bytes(b"png")
    real = [str(office.root / name) for name in names]
    office.send("Two.", *names[:2], reply_to="in-1")
    office.send("Three.", *names, reply_to="in-2")
    office.send("One is gone.", "gone.png", "c.png")
    office.channel.refuses = lambda outbound: Undeliverable("too much.") if outbound.files else None
    office.send("Refused.", *names[:2])
    assert [(one.text, list(one.files), one.reply_to) for one in office.channel.taken] == [
        ("Two.", real[:2], "in-1"),
        ("Three.", [], "in-2"),
        ("", real[:2], ""),
        ("", real[2:], ""),
        ("One is gone.\n\n(could not send gone.png: it is no longer there)", real[2:], ""),
        ("Refused.\n\n(could not send a.png, b.png: too much)", [], ""),
    ]
    office.close()


def test_a_file_that_cannot_be_sent_is_named_with_the_reason(office: Office, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    (office.root / "link.txt").symlink_to(tmp_path / "secret")
    (office.root / "big.bin").write_bytes(b"x" * 1001)
    (office.root / "empty").touch()
    for name in ("gone.txt", "link.txt", "../secret", "big.bin", "empty", ".", "a\nb"):
        office.send("Here.", name)
    assert office.channel.texts == [
        "Here.\n\n(could not send gone.txt: it is no longer there)",
        "Here.\n\n(could not send link.txt: it is not in the workspace)",
        "Here.\n\n(could not send secret: it is not in the workspace)",
        "Here.\n\n(could not send big.bin: it has 0.0 MB, and 0.0 MB can be sent here)",
        "Here.\n\n(could not send empty: it is empty)",
        "Here.\n\n(could not send : it is not a plain file)",
        "Here.\n\n(could not send a b: it is no longer there)",
    ]
    assert all(not one.files for one in office.channel.taken)


def test_a_file_that_is_gone_at_the_retry_does_not_shift_the_parts(office: Office) -> None:
    path = office.root / "a.png"
    path.write_bytes(b"png")
    office.channel.refuses = lambda outbound: ConnectionError("down") if outbound.files else None
    office.send("longer than caption", str(path), str(path))
    path.unlink()
    office.flush(after=5)
    line = "(could not send a.png: it is no longer there)"
    assert office.channel.texts == ["longer than caption", line, line]
    assert [one.key for one in office.channel.taken] == ["1.1", "1.2", "1.3"]


def test_a_terminal_gets_the_text_whole_with_the_paths_of_files(tmp_path: Path) -> None:
    office = Office(tmp_path, Hints())
    office.send("a" * 50_000 + "\n", "/w/a.png", "/w/b.png")
    office.send("", "/w/a.png")
    office.send("")
    assert office.channel.texts == ["a" * 50_000 + "\n\n/w/a.png\n/w/b.png", "/w/a.png", ""]
    assert all(not one.files for one in office.channel.taken)
    office.close()


def test_a_text_of_nothing_is_not_sent_to_a_chat(office: Office) -> None:
    office.send(" \n ")
    office.send("\n" * 100)
    office.send("\u200b")
    assert office.channel.taken == []
    assert [state for state, *_ in office.rows()] == ["delivered"] * 3


@given(
    st.text(alphabet="ab \n`😀.", max_size=120),
    st.lists(st.sampled_from(["here", "gone"]), max_size=3),
    st.integers(0, 30),
    st.integers(0, 3),
    st.sampled_from(["characters", "utf-16", "bytes"]),
)
@settings(max_examples=150)
def test_parts_fit_and_are_as_many_whatever_becomes_of_the_files(
    tmp_path_factory: pytest.TempPathFactory, text: str, files: list[str], caption: int, most: int, units: str
) -> None:
    root = tmp_path_factory.getbasetemp()
    (root / "here").write_text("x")
    hints = Hints(length=30, caption=caption, files=most, file_bytes=100, units=units)  # type: ignore[arg-type]
    row = Row(7, Outbound(CHAT, text, tuple(files), "in-1", "", (Button("a", "b"),)), 0, NOON, True)
    made = parts(row, hints, Reach(root))
    assert [one.key for one in made] == [f"7.{number}" for number in range(1, len(made) + 1)]
    assert [one.reply_to for one in made] == ["in-1", *[""] * (len(made) - 1)][: len(made)]
    assert sum(bool(one.buttons) for one in made) == bool(made)
    assert all(one.text.strip() or one.files for one in made)
    assert all(len(one.files) <= most for one in made)
    told = "could not send"
    assert all(size(one.text, hints.units) <= (caption if one.files else 30) for one in made if told not in one.text)
    gone = parts(Row(7, Outbound(CHAT, text, tuple("gone" for _ in files), "in-1"), 0, NOON, True), hints, Reach(root))
    assert [one.key for one in gone] == [one.key for one in made]


def test_a_delivery_that_cannot_be_noted_is_not_sent_again_and_noted_when_it_can_be(office: Office) -> None:
    office.add(Outbound(CHAT, "one two three four five six seven eight nine"))
    office.add(Outbound(CHAT, "next"))
    office.store.db.execute("PRAGMA query_only = ON")
    for pause in (0.0, 0.1, 5.0, 5.0):
        office.flush(after=pause)
        assert len(office.channel.taken) == 1
    office.store.db.execute("PRAGMA query_only = OFF")
    office.flush(after=5)
    assert [state for state, *_ in office.rows()] == ["delivered", "delivered"]
    assert "".join(office.channel.texts).replace(" ", "") == "onetwothreefourfivesixseveneightninenext"
    assert office.rows()[0][1].split() == [f"p{number + 1}" for number in range(len(office.channel.texts) - 1)]


def test_without_an_id_of_the_platform_nothing_counts_as_delivered(office: Office) -> None:
    office.channel.send = lambda outbound: asyncio.sleep(0, "")  # type: ignore[method-assign]
    office.send("hello")
    assert [state for state, *_ in office.rows()] == ["pending"]
    for pause in RETRY_SECONDS:
        office.flush(after=pause)
    assert failures(office.store) == [("chat:1", "hello", "chat gave no id for the message")]


# --- what was just written -------------------------------------------------------------------------------------------


async def test_an_answer_goes_out_as_it_was_written_and_nothing_of_the_outbox_is_read(tmp_path: Path) -> None:
    async with running(tmp_path / "home", ScriptedProvider("One.", "Two \udcff.")) as program:
        await program.ask("first")
        read: list[str] = []
        program.app.store.db.set_trace_callback(lambda sql: read.append(sql) if "FROM outbox" in sql else None)
        await program.say("second")
        sent = await program.channel.sent.get()
        await program.app.conversations.idle()
        program.app.store.db.set_trace_callback(None)
        assert sent.text == "Two ?."
        assert read == []
        (kept,) = program.app.outbox.shown_since(sent.address, sent.row - 1)
        assert sent == kept


async def test_what_is_written_while_another_message_to_its_chat_is_under_way_comes_after_it(tmp_path: Path) -> None:
    async with running(tmp_path / "home", ScriptedProvider("One.")) as program:
        await program.ask("first")
        texts = [f"number {one}" for one in range(30)]
        for one in texts:
            await program.app.transactions.write(partial(Transaction.send, outbound=Outbound(MAIN, one)))
        assert [await program.answer() for _ in texts] == texts


async def test_an_answer_that_is_erased_as_it_is_written_is_not_sent(tmp_path: Path) -> None:
    async with running(tmp_path / "home", ScriptedProvider("One.", "Two.")) as program:
        await program.ask("first")

        def write_and_erase(tx: Transaction) -> None:
            asked = Inbound(MAIN, "me", "asked", UserMessage("And?", NOON), conversation=MAIN)
            tx.send(Outbound(MAIN, "Never."), inbox=tx.accept(asked, "done"))
            ConversationStore(program.app).erase(MAIN, tx)

        await program.app.transactions.write(write_and_erase)
        assert await program.ask("second") == "Two."
