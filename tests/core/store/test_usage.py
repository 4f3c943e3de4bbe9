"""What the models took: written with the turn, whatever became of it, and summed up."""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from nanoclaw.commands.showing import By, spent
from nanoclaw.core.errors import ProviderRefused, StoreError
from nanoclaw.core.messages import AssistantMessage, Origin, Usage, UserMessage
from nanoclaw.core.plugin import Ended
from nanoclaw.core.store.db import Store, Transactions
from nanoclaw.core.store.sessions import Call, Session, Sessions, TurnJournal, past_counts, record
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider
from nanoclaw.start.opening import open_store
from nanoclaw.usage_totals import Total, totals
from tests.core.store.test_sessions import accept, inbound
from tests.program import MAIN, NOON, HandClock, Program, running, tools_plugin


@pytest.fixture
def store(tmp_path: Path) -> Iterable[Store]:
    opened = open_store(tmp_path / "state.db")
    yield opened
    opened.close()


def price(model: str, usage: Usage) -> float | None:
    """A dollar for a thousand tokens, but for models of nobody's."""
    return None if model.startswith("unknown/") else (usage.input_tokens + usage.output_tokens) / 1000


def keep(
    store: Store, *calls: Call, at: datetime = NOON, session: int | None = None, origin: Origin = "person"
) -> None:
    with store.transaction() as db:
        record(db, calls, at, session=session, origin=origin)


def test_calls_are_summed_by_day_where_the_person_was_from_the_first_one_asked_for(store: Store) -> None:
    keep(store, Call("a/b", Usage(100, 10, 50)), Call("a/b", Usage(200, 20)))
    late = datetime.fromisoformat("2026-03-06T23:30:00-08:00")  # the 7th in Berlin
    keep(store, Call("a/b", Usage(1, 1)), at=late)
    for days in (1, 2):
        keep(store, Call("a/b", Usage(5, 5)), at=NOON - timedelta(days=days))
    assert totals(spent(store, "day", date(2026, 3, 5)), price) == [
        Total("2026-03-06", 3, 301, 31, 50, cost=0.11 + 0.22 + 0.002),
        Total("2026-03-05", 1, 5, 5, cost=0.01),
    ]


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("model", ["big/model", "small/model"]),
        ("session", ["telegram:7", "terminal:main", ""]),
        ("origin", ["heartbeat", "person", "subagent"]),
    ],
)
def test_the_largest_sum_comes_first(store: Store, by: By, keys: list[str]) -> None:
    with store.transaction() as db:
        db.execute("INSERT INTO sessions (id, key) VALUES (1, 'terminal:main'), (2, 'telegram:7')")
    keep(store, Call("small/model", Usage(20, 0)), session=1)
    keep(store, Call("big/model", Usage(100, 5)), session=2, origin="heartbeat")
    keep(store, Call("big/model", Usage(1, 0)), origin="subagent")
    assert [total.key for total in totals(spent(store, by), price)] == keys


def test_a_price_nobody_knows_is_not_taken_for_nothing(store: Store) -> None:
    keep(store, Call("unknown/x", Usage(100, 10)), Call("a/b", Usage(1000, 0)), Call("unknown/x", Usage(1, 1)))
    (total,) = totals(spent(store, "day"), price)
    assert (total.cost, total.unpriced, total.calls) == (1.0, {"unknown/x": 2}, 3)


def test_lessons_are_the_newest_reported_counts_of_one_model(store: Store) -> None:
    for count in range(1, 31):
        keep(store, Call("a/b", Usage(count * 10, 1), count))
    keep(store, Call("a/b", Usage(7, 7)), Call("a/b", Usage(9, 9), 9, is_reported=False), Call("c/d", Usage(3, 3), 3))
    assert past_counts(store, "a/b") == [(count, count * 10) for count in range(11, 31)]


def begun(store: Store) -> tuple[Session, int]:
    """A session with a message for it."""
    row = accept(store, inbound())
    assert row
    return Sessions(Transactions(store, HandClock())).of(MAIN), row


async def test_calls_are_on_disk_before_the_tools_run(store: Store) -> None:
    session, row = begun(store)
    turn = await TurnJournal(session, 1, row, "person").begin([row], [UserMessage("hi", NOON)])
    turn.called(Call("a/b", Usage(10, 1)))
    assert store.rows("SELECT count(*) FROM usage") == [(0,)]
    await turn.acting(AssistantMessage("", NOON))
    await turn.step(())
    assert store.rows("SELECT turn, origin, input_tokens FROM usage") == [(1, "person", 10)]


async def test_a_call_is_written_once_though_the_first_write_failed(store: Store) -> None:
    session, row = begun(store)
    turn = await TurnJournal(session, 1, row, "job").begin([row], [UserMessage("hi", NOON, "job")])
    turn.called(Call("a/b", Usage(10, 1)))
    store.db.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError):
        await turn.change(lambda tx: turn.end(tx, Ended("answered", None, "hello"), (), "a/b"))
    store.db.execute("PRAGMA query_only = OFF")
    await turn.change(lambda tx: turn.end(tx, Ended("answered", None, "hello"), (), "a/b"))
    assert store.rows("SELECT origin, input_tokens FROM usage") == [("job", 10)]


async def _look(path: str) -> str:
    """Look at a file."""
    return "seen"


LOOKS = tools_plugin(tool(_look, reach="none"))


def calls_of(program: Program) -> list[tuple[object, ...]]:
    sql = (
        "SELECT turn, key, usage.model, input_tokens, output_tokens, cached_tokens, is_reported FROM usage"
        " JOIN sessions ON sessions.id = usage.session ORDER BY usage.id"
    )
    return [tuple(row) for row in program.rows(sql)]


async def test_every_request_of_a_turn_is_a_row(tmp_path: Path) -> None:
    steps = (
        Say("", (("look", {"path": "."}),), usage=Usage(100, 10, 0)),
        Say("", usage=Usage(150, 0, 100)),  # an empty answer is asked for again, and paid
        Say("done", usage=Usage(160, 5, 100)),
    )
    async with running(tmp_path, ScriptedProvider(*steps), plugins=[LOOKS]) as program:
        await program.ask("what is here?")
        model = ("scripted/model",)
        assert calls_of(program) == [
            (1, "terminal:main", *model, 100, 10, 0, 1),
            (1, "terminal:main", *model, 150, 0, 100, 1),
            (1, "terminal:main", *model, 160, 5, 100, 1),
        ]


async def test_what_was_paid_before_a_turn_failed_is_counted(tmp_path: Path) -> None:
    first = Say("", (("look", {"path": "."}),), usage=Usage(100, 10))
    async with running(tmp_path, ScriptedProvider(first, ProviderRefused("no quota")), plugins=[LOOKS]) as program:
        assert "no quota" in await program.ask("what is here?")
        assert [row[3:] for row in calls_of(program)] == [(100, 10, 0, 1)]


async def test_a_request_that_was_stopped_is_counted_by_ourselves(tmp_path: Path) -> None:
    hang = Hang("I was about to say that")
    async with running(tmp_path, ScriptedProvider(hang), plugins=[LOOKS]) as program:
        await program.say("tell me all")
        await hang.reached.wait()
        await program.say("/stop")
        assert "Stopped" in await program.answer()
        ((_, _, _, input_, output, _, is_reported),) = calls_of(program)
        assert isinstance(input_, int) and input_ > 300
        assert (output, is_reported) == (6, 0)
