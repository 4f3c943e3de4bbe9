"""Money: no limit is passed, nobody is told twice, and a yes holds until the day ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.errors import LimitReached, ProviderUnavailable
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import Origin, Usage
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.flags import Flags
from nanoclaw.core.store.usage import Call, record
from nanoclaw.plugins.budget.budget import Budget, SpendingLimits
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider
from tests.core.house import NOON, FakeChannel, HandClock, house

MODEL = "acme/clever"


def price(model: str, usage: Usage) -> float | None:
    """A dollar for a thousand tokens, whichever."""
    return (usage.input_tokens + usage.output_tokens) / 1000 if model == MODEL else None


def dollars(amount: float) -> str:
    return f"${amount:.2f}"


@dataclass
class Purse:
    """A budget on a store of its own; `told` are the lines that a person got."""

    path: Path
    limits: SpendingLimits
    clock: HandClock = field(default_factory=HandClock)
    local: str = ""
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = Store(self.path)
        flags = Flags(self.store, self.clock)
        self.budget = Budget(
            self.store, flags, self.clock, price, dollars, self.limits, lambda model: model == self.local
        )

    def spend(self, usd: float, origin: Origin = "person", model: str = MODEL, at: datetime | None = None) -> None:
        """As if a request had been made and written down."""
        with self.store.transaction() as db:
            record(db, [Call(model, Usage(round(usd * 1000)))], at or self.clock(), origin=origin)

    def ask(self, usd: float, origin: Origin = "person", model: str = MODEL, *, settle: bool = True) -> int:
        """Reserve as much for input, with 1,024 tokens of answer; how many the answer may have."""
        held = self.budget.reserve(model, lambda: round(usd * 1000), 1024, origin, self.told.append)
        if settle:
            call = self.budget.settled(held, Call(model, Usage(round(usd * 1000))))
            with self.store.transaction() as db:
                record(db, [call], self.clock(), origin=origin)
        return held.output_tokens

    def reopened(self) -> Purse:
        self.store.close()
        return Purse(self.path, self.limits, self.clock, self.local, self.told)


@pytest.fixture
def purse(tmp_path: Path) -> Callable[..., Purse]:
    return lambda **limits: Purse(tmp_path / "state.db", SpendingLimits(**limits))


def test_without_a_limit_nothing_is_looked_up_or_written(purse: Callable[..., Purse]) -> None:
    free = purse()

    def count() -> int:
        raise AssertionError("counted for nothing")

    held = free.budget.reserve(MODEL, count, 8192, "person", free.told.append)
    assert (held.output_tokens, held.row) == (8192, None)
    assert free.store.rows("SELECT * FROM reservations") == []
    assert "No limit is set" in free.budget.command("")


def test_the_dearest_model_that_may_answer_is_reserved_for(tmp_path: Path) -> None:
    def dear(model: str, usage: Usage) -> float | None:
        cost = price(MODEL, usage)
        return {MODEL: cost, "test/dear": 3 * (cost or 0)}.get(model)

    told: list[str] = []
    store, clock = Store(tmp_path / "state.db"), HandClock()
    mine = Budget(
        store,
        Flags(store, clock),
        clock,
        dear,
        dollars,
        SpendingLimits(day_usd=10),
        fallback=("test/unknown", "test/dear"),
    )
    assert mine.reserve(MODEL, lambda: 2000, 1000, "person", told.append).output_tokens == 1000
    assert store.rows("SELECT usd FROM reservations") == [(9.0,)]
    with pytest.raises(LimitReached):
        mine.reserve(MODEL, lambda: 100, 1000, "person", told.append)
    assert not [line for line in told if "no price" in line]


def test_what_is_settled_frees_what_was_held(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=10)
    mine.ask(1, settle=False)
    assert mine.budget.command("").startswith("Today: $0.00 spent of $10.00, $2.02 reserved for what is under way.")
    held = mine.budget.reserve(MODEL, lambda: 1000, 1024, "person", mine.told.append)
    mine.budget.release(held)
    with mine.store.transaction() as db:
        db.execute("DELETE FROM reservations")
    mine.ask(2)
    assert mine.budget.command("").startswith("Today: $2.00 spent of $10.00.\nThis month: $2.00 spent.")


def test_requests_at_the_same_time_cannot_pass_the_limit_together(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=5)
    mine.ask(1, settle=False)
    mine.ask(1, settle=False)
    with pytest.raises(LimitReached):
        mine.ask(1, settle=False)
    (total,) = mine.store.rows("SELECT sum(usd) FROM reservations")[0]
    assert total <= 5


def test_the_last_money_is_for_a_shorter_answer(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=10)
    held = mine.budget.reserve(MODEL, lambda: 1000, 20_000, "person", mine.told.append)
    assert held.output_tokens == 9000
    assert mine.store.rows("SELECT usd FROM reservations") == [(pytest.approx(10),)]


def test_the_person_is_told_once_at_80_percent_of_a_day_and_of_a_month(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=10, month_usd=100)
    mine.spend(7.9)
    mine.ask(0.05)
    assert mine.told == []
    mine.ask(0.05)
    mine.ask(0.05)
    mine = mine.reopened()
    mine.ask(0.05)
    assert mine.told == ["$8.00 of the $10.00 for today are spent (/budget)"]
    mine.clock.now += timedelta(days=1)
    mine.spend(75)
    with pytest.raises(LimitReached):
        mine.ask(0.05)
    assert mine.told[1:] == [
        "$75.00 of the $10.00 for today are spent (/budget)",
        "$83.10 of the $100.00 for this month are spent (/budget)",
    ]


def test_at_the_limit_no_request_is_made_until_the_next_day(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=10)
    mine.spend(10)
    with pytest.raises(LimitReached, match=r"\$10.00 of the \$10.00 for today .*/budget yes"):
        mine.ask(0.01)
    mine.clock.now = NOON.replace(hour=23, minute=59)
    with pytest.raises(LimitReached):
        mine.ask(0.01)
    mine.clock.now += timedelta(minutes=2)
    mine.ask(0.01)


def test_a_month_has_a_limit_of_its_own(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=10, month_usd=15)
    mine.spend(9, at=NOON - timedelta(days=2))
    mine.spend(90, at=NOON - timedelta(days=20))  # the month before
    mine.ask(1)
    mine.spend(4)
    with pytest.raises(LimitReached, match="for this month"):
        mine.ask(1)
    assert "This month: $14.00 spent of $15.00." in mine.budget.command("")


def test_a_yes_holds_until_the_day_ends_over_a_restart(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=1, month_usd=2)
    mine.spend(2)
    assert "Until the day ends" in mine.budget.command("yes")
    mine.ask(5)
    mine = mine.reopened()
    assert mine.ask(5) == 1024
    assert "today it goes on beyond the limit" in mine.budget.command("")
    mine.clock.now += timedelta(days=1)
    with pytest.raises(LimitReached, match="for this month"):
        mine.ask(0.1)


@pytest.mark.parametrize("origin", ["heartbeat", "job"])
def test_what_nobody_waits_for_has_a_share_only(purse: Callable[..., Purse], origin: Origin) -> None:
    mine = purse(day_usd=20, background_share=0.2)
    mine.ask(1, origin)
    mine.ask(1, origin)
    with pytest.raises(LimitReached, match=r"heartbeats and jobs have used \$2.00 of the \$4.00"):
        mine.ask(1, origin)
    mine.budget.command("yes")
    with pytest.raises(LimitReached):
        mine.ask(1, origin)
    assert mine.ask(1, "person") == 1024
    assert "Heartbeats and jobs: $2.00 of $4.00 today." in mine.budget.command("")


def test_what_was_under_way_at_a_crash_counts_as_spent(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=10)
    mine.ask(7, settle=False)
    mine = mine.reopened()
    assert mine.budget.command("").startswith("Today: $8.02 spent of $10.00.")
    assert "$8.02 of that was under way when the program ended" in mine.budget.command("")
    with pytest.raises(LimitReached):
        mine.ask(2)
    mine.clock.now += timedelta(days=31)
    mine = mine.reopened()
    assert mine.store.rows("SELECT * FROM reservations") == []
    mine.ask(2)


def test_a_model_without_a_price_is_told_once_and_goes_on(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=2)
    mine.ask(5, model="acme/new")
    mine = mine.reopened()
    mine.ask(5, model="acme/new")
    mine.ask(5, model="acme/newer")
    assert mine.told == [
        "no price is known for acme/new, so the limit cannot hold for it",
        "no price is known for acme/newer, so the limit cannot hold for it",
    ]
    assert "No price is known for acme/new, acme/newer: not counted." in mine.budget.command("")
    mine.ask(0)  # and it took nothing of the limit


def test_a_model_on_this_machine_costs_nothing_whatever_it_is_called(tmp_path: Path) -> None:
    mine = Purse(tmp_path / "state.db", SpendingLimits(day_usd=1), local=MODEL)
    mine.ask(50)
    mine.ask(50)
    assert mine.budget.command("").startswith("Today: $0.00 spent of $1.00.")
    elsewhere = Purse.reopened(mine)
    elsewhere.local = ""
    assert elsewhere.budget.command("").startswith("Today: $0.00 spent of $1.00.")  # it was local when it was asked


def test_what_went_to_this_machine_is_told_as_free_and_can_be_made_to_count(tmp_path: Path) -> None:
    mine = Purse(tmp_path / "state.db", SpendingLimits(day_usd=100), local=MODEL)
    assert "this machine" not in mine.budget.command("")
    mine.ask(1)
    assert mine.budget.command("").endswith(
        "1 request of this month went to this machine and counts as free; "
        "[limits] count_local = true counts them from then on."
    )
    mine.ask(1)
    assert "2 requests of this month went to this machine and count as free;" in mine.budget.command("")
    mine.limits = SpendingLimits(day_usd=100, counts_local=True)
    counting = mine.reopened()
    counting.ask(3)
    said = counting.budget.command("")
    assert said.startswith("Today: $3.00 spent of $100.00.")
    assert said.endswith("2 requests of this month went to this machine and count as free.")


# --- in a whole assistant --------------------------------------------------------------------------------------------


def money(clock: HandClock, **limits: Any) -> Callable[[Store, Flags], Budget]:
    return lambda store, flags: Budget(store, flags, clock, price, dollars, SpendingLimits(**limits))


def test_a_refused_request_never_reaches_the_model_and_commands_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = HandClock()
        model = ScriptedProvider(Say("hello", usage=Usage(9_000, 500)), "more", model=MODEL)
        async with house(tmp_path, model, clock=clock, money=money(clock, day_usd=20)) as here:
            assert await here.ask("hello") == "hello"
            assert here.store.rows("SELECT * FROM reservations") == []
            with here.store.transaction() as db:
                record(db, [Call(MODEL, Usage(10_000))], clock())
            refused = await here.ask("hello again")
            assert "$19.50 of the $20.00 for today are spent" in refused and "/budget yes" in refused
            assert len(model.requests) == 1
            assert "$19.50 spent of $20.00" in await here.ask("/budget")
            await here.ask("/budget yes")
            assert await here.ask("hello again") == "more"

    asyncio.run(scenario())


def test_the_line_at_80_percent_is_shown_with_the_next_request(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock, channel = HandClock(), FakeChannel()
        model = ScriptedProvider(Say("one", usage=Usage(85_000, 0)), "two", "three", model=MODEL)
        async with house(tmp_path, model, clock=clock, channel=channel, money=money(clock, day_usd=100)) as here:
            for _ in range(3):
                await here.ask("hello")
        notices = [event.text for _, event in channel.events if isinstance(event, Notice)]
        assert [text for text in notices if "$100.00 for today" in text] == [
            "$85.00 of the $100.00 for today are spent (/budget)"
        ]

    asyncio.run(scenario())


def test_a_request_that_cost_nothing_holds_nothing_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = HandClock()
        model = ScriptedProvider(ProviderUnavailable("down"), model=MODEL)
        setup = money(clock, day_usd=100)
        async with house(tmp_path, model, clock=clock, money=setup, waits=lambda address: False) as here:
            await here.ask("hello")
            assert here.store.rows("SELECT * FROM reservations") == []
            assert "Today: $0.00 spent" in await here.ask("/budget")

    asyncio.run(scenario())


def test_a_stopped_request_is_paid_and_holds_nothing_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock, hang = HandClock(), Hang("begun")
        model = ScriptedProvider(hang, model=MODEL)
        async with house(tmp_path, model, clock=clock, money=money(clock, day_usd=100)) as here:
            await here.say("hello")
            await hang.reached.wait()
            assert len(here.store.rows("SELECT * FROM reservations")) == 1
            assert "reserved for what is under way" in await here.ask("/budget")
            await here.ask("/stop")
            await here.assistant.idle()
            assert here.store.rows("SELECT * FROM reservations") == []
            assert "Today: $0.00 spent" not in await here.ask("/budget")

    asyncio.run(scenario())
