"""A home that the version before left in the middle of a day opens with everything in it.

tests/fixtures/home_0 was made by the program of commit 48bd35c, with a scripted model: state.db as SQL, and the files.
"""

import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.core.messages import Address
from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.start.opening import newest_format, open_store
from tests.examples import examples
from tests.program import MAIN, NOON, FakeChannel, HandClock, assert_legal, running

KNOWN = examples(__file__, "old_home.jsonl")

FIXTURE = Path(__file__).parents[1] / "fixtures" / "home_0"
LATER = NOON + timedelta(hours=6)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    shutil.copytree(FIXTURE, home)
    with closing(sqlite3.connect(home / "state.db")) as db:
        db.executescript((home / "state.sql").read_text("utf-8"))
    (home / "state.sql").unlink()
    (home / "config.toml").rename(tmp_path / "config.toml")  # for the test of the settings
    return home


def columns(path: Path) -> dict[str, str]:
    """The names in each table."""
    with closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: ", ".join(row[1] for row in db.execute(f"PRAGMA table_info({name})")) for name in names}


def rows(path: Path, wanted: dict[str, str]) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as db:
        return {
            name: db.execute(f"SELECT {which} FROM {name} ORDER BY rowid").fetchall() for name, which in wanted.items()
        }


def test_every_row_of_it_is_there(home: Path) -> None:
    wanted = columns(home / "state.db")
    before = rows(home / "state.db", wanted)
    store = open_store(home / "state.db")
    assert store.rows("PRAGMA user_version") == [(newest_format(),)]
    assert store.rows("PRAGMA foreign_key_check") == []
    store.close()
    assert rows(home / "state.db", wanted) == before
    assert rows(home / "state.db.v4", wanted) == before
    empty = {name for name, found in before.items() if not found}
    assert empty == {"images", "flags", "models", "reservations"}


async def test_what_was_left_open_goes_on(home: Path) -> None:
    """A turn under way, a message that waits behind it, and an answer that could not be delivered."""
    model = ScriptedProvider("I went on.", "I read it.")
    telegram = FakeChannel("telegram")
    async with running(home, model, others=[telegram], clock=HandClock(LATER)) as program:
        assert (await program.answer()).endswith("I went on.")
        assert await program.answer() == "I read it."
        assert (await telegram.sent.get()).text == "ok"
        assert program.rows("SELECT channel, state FROM inbox WHERE state <> 'done'") == []
    assert "begin something long" in "".join(message.text for message in model.requests[0].history)
    assert "and this waits" in model.requests[1].history[-1].text
    async with running(home, clock=HandClock(LATER)) as program:
        assert program.channel.sent.empty()


@pytest.fixture
def settled(home: Path) -> Path:
    """The same with nothing left open."""
    with closing(sqlite3.connect(home / "state.db", isolation_level=None)) as db:
        db.execute("UPDATE inbox SET state = 'done'")
        db.execute("UPDATE turns SET ended = started, reason = 'cancelled', running = '[]' WHERE ended IS NULL")
        db.execute("UPDATE outbox SET state = 'delivered'")
    return home


async def test_a_conversation_goes_on_with_its_summary(settled: Path) -> None:
    model = ScriptedProvider("12 beds.")
    async with running(settled, model) as program:
        assert "the garden has 12 beds" in program.history[0].text
        assert_legal(program.history)
        assert await program.ask("How many beds?") == "12 beds."
        assert program.history[0] == model.requests[0].history[0]
        whole = "".join(message.text for message in program.app.sessions.of(MAIN).whole())
        assert "the plumber came" in whole
        assert "oat milk, please" in whole


@pytest.mark.parametrize(("said", "answer"), KNOWN["a command knows what was said and done before"])
async def test_a_command_knows_what_was_said_and_done_before(settled: Path, said: str, answer: str) -> None:
    async with running(settled, clock=HandClock(NOON + timedelta(hours=4))) as program:
        assert answer in await program.ask(said)


async def test_what_was_written_can_still_be_undone(settled: Path) -> None:
    async with running(settled) as program:
        list_ = program.workspace / "lists" / "shopping.md"
        assert list_.read_text() == "bread\noat milk\n"
        await program.ask("/undo")
        assert list_.read_text() == "bread\nmilk\n"


async def test_accounts_that_were_linked_and_let_in_still_are(settled: Path) -> None:
    telegram, model = FakeChannel("telegram"), ScriptedProvider("Hello Anna.", "Hello Dora.")
    async with running(settled, model, others=[telegram]) as program:
        for sender, answer in (("1", "Hello Anna."), ("4", "Hello Dora.")):
            await program.write_from(Address("telegram", sender), sender, "hello")
            assert (await telegram.sent.get()).text == answer
        await program.write_from(Address("telegram", "3"), "3", "hello")  # who has only asked
        await program.app.conversations.idle()
        assert telegram.sent.empty()
    owners, guests = (request.tools for request in model.requests)
    assert {tool.name for tool in guests} < {tool.name for tool in owners}


async def test_a_note_is_recalled(settled: Path) -> None:
    model = ScriptedProvider("The plumber.")
    async with running(settled, model) as program:
        await program.ask("/new")
        assert await program.ask("Who came, the plumber or the painter?") == "The plumber."
    assert "The plumber came." in model.requests[0].system.text
    assert "Likes tea" in model.requests[0].system.text


async def test_every_key_of_its_configuration_means_what_it_meant(settled: Path, tmp_path: Path) -> None:
    text = (tmp_path / "config.toml").read_text("utf-8")
    telegram = FakeChannel("telegram")
    async with running(settled, ScriptedProvider("Hello Bob."), settings=text, others=[telegram]) as program:
        assert "$0 spent of $5.00" in await program.ask("/budget")
        assert "Heartbeats and jobs: $0 of $0.50 today" in await program.ask("/budget")
        await program.write_from(Address("telegram", "2"), "2", "hello")  # allow_from
        assert (await telegram.sent.get()).text == "Hello Bob."
        await program.write_from(Address("telegram", "7"), "7", "hello", name="Eve")  # policy = pairing
        told = {sent.address.chat: sent.text for sent in (await telegram.sent.get(), await telegram.sent.get())}
        assert "code" in told["7"] and "Eve" in told["1"]
        config = program.app.config
        assert (config.model.fallback, config.model.tool_mode, config.limits.rounds) == (
            ("ollama/smaller",),
            "native",
            20,
        )
        assert program.app.redact.values == ("123456:not-a-real-token",)
