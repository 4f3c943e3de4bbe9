"""A home that the version before left in the middle of a day opens with everything in it.

tests/fixtures/home_0 was made by the program of commit 48bd35c, with a scripted model: state.db as SQL, and the files.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.core.store.db import Store
from nanoclaw.core.store.format import newest_format
from nanoclaw.providers.scripted import ScriptedProvider
from tests.program import MAIN, NOON, FakeChannel, HandClock, assert_legal, running

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
    store = Store(home / "state.db")
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
