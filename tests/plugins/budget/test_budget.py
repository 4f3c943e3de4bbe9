"""Money: no limit is passed, nobody is told twice, and a yes holds until the day ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from nanoclaw.core.commands import NOT_NOW
from nanoclaw.core.errors import ConfigError, LimitReached, ProviderRefused
from nanoclaw.core.messages import Origin, Usage
from nanoclaw.plugins.budget.plugin import Budget, BudgetSettings
from nanoclaw.plugins.budget.spending import PendingRequest, Reservation, Spending
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider
from tests.plugins.paper_host import NOON, PaperHost
from tests.program import GUEST, FakeChannel, Program, everybody_is, running

MODEL = "acme/clever"
USAGE = """CREATE TABLE IF NOT EXISTS usage (id INTEGER PRIMARY KEY, at TEXT, session INTEGER, turn INTEGER,
    origin TEXT, model TEXT, input_tokens INTEGER, output_tokens INTEGER, cached_tokens INTEGER, is_local INTEGER);
    CREATE TABLE IF NOT EXISTS sessions (id INTEGER PRIMARY KEY, key TEXT)"""


@dataclass
class PaperPrices:
    """A dollar for a thousand tokens of one model, whichever; the others have no price."""

    costs: dict[str, float] = field(default_factory=lambda: {MODEL: 1.0})
    local: str = ""

    def cost(self, model: str, usage: Usage) -> float | None:
        return (usage.input_tokens + usage.output_tokens) / 1000 * self.costs[model] if model in self.costs else None

    def is_local(self, model: str) -> bool:
        return model == self.local


@dataclass
class Purse:
    """A person's spending on a store of its own; `told` are the lines that they got."""

    path: Path
    limit: BudgetSettings
    prices: PaperPrices = field(default_factory=PaperPrices)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host = cast(Any, PaperHost(self.path, Budget, {"models": self.prices}))
        self.host.db.executescript(USAGE)
        self.spending = Spending(self.host, self.limit)

    def spend(self, usd: float, origin: Origin = "person", model: str = MODEL, at: datetime | None = None) -> None:
        """As if a request had been made and written down."""
        is_local = not self.limit.count_local and self.prices.is_local(model)
        sql = "INSERT INTO usage VALUES (NULL, ?, NULL, NULL, ?, ?, ?, 0, 0, ?)"
        when = (at or self.host.now()).isoformat()
        self.host.read(sql, when, origin, model, round(usd * 1000), is_local)

    def reserve(
        self, tokens: int, most: int, origin: str = "person", model: str = MODEL, others: tuple[str, ...] = ()
    ) -> Reservation:
        """Raises LimitReached."""
        pending = PendingRequest((model, *others), lambda: tokens, most, origin)
        held, told = self.host.written(lambda tx: self.spending.reserve(tx, pending))
        self.told += told
        if not held.output_tokens:
            raise LimitReached(self.spending.refusal(origin))
        return held  # type: ignore[no-any-return]

    def ask(self, usd: float, origin: Origin = "person", model: str = MODEL, *, settle: bool = True) -> int:
        """Reserve as much for input, with 1,024 tokens of answer; how many the answer may have."""
        held = self.reserve(round(usd * 1000), 1024, origin, model)
        if settle:
            self.release(held)
            self.spend(usd, origin, model)
        return held.output_tokens

    def release(self, held: Reservation) -> None:
        self.host.written(lambda tx: self.spending.release(tx, held))

    def allow(self) -> str:
        said: str = self.host.written(self.spending.allow)
        return said

    def rows(self) -> list[Any]:
        found: list[Any] = self.host.read("SELECT usd FROM reservations")
        return found

    def reopened(self) -> Purse:
        self.host.db.close()
        made = Purse(self.path, self.limit, self.prices, self.told)
        made.host.time = self.host.time
        return made


@pytest.fixture
def purse(tmp_path: Path) -> Callable[..., Purse]:
    return lambda **limits: Purse(tmp_path / "state.db", BudgetSettings(**{"heartbeat_share": 1.0, **limits}))


def test_the_dearest_model_that_may_answer_is_reserved_for(tmp_path: Path) -> None:
    prices = PaperPrices({MODEL: 1.0, "test/dear": 3.0})
    mine = Purse(tmp_path / "state.db", BudgetSettings(day_usd=10), prices)
    others = ("test/unknown", "test/dear")
    assert mine.reserve(2000, 1000, others=others).output_tokens == 1000
    assert mine.rows() == [(9.0,)]
    with pytest.raises(LimitReached):
        mine.reserve(100, 1000, others=others)
    assert not [line for line in mine.told if "no price" in line]


def test_what_is_settled_frees_what_was_held(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=10)
    mine.ask(1, settle=False)
    assert mine.spending.in_words().startswith("Today: $0 spent of $10.00, $2.02 reserved for what is under way.")
    mine.release(mine.reserve(1000, 1024))
    assert len(mine.rows()) == 1
    mine.host.read("DELETE FROM reservations")
    mine.ask(2)
    assert mine.spending.in_words().startswith("Today: $2.00 spent of $10.00.\nThis month: $2.00 spent.")


def test_requests_at_the_same_time_cannot_pass_the_limit_together(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=5)
    mine.ask(1, settle=False)
    mine.ask(1, settle=False)
    with pytest.raises(LimitReached):
        mine.ask(1, settle=False)
    assert sum(usd for (usd,) in mine.rows()) <= 5


def test_the_last_money_is_for_a_shorter_answer(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=10)
    held = mine.reserve(1000, 20_000)
    assert held.output_tokens == 9000
    assert mine.rows() == [(pytest.approx(10),)]


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
    mine.host.time += timedelta(days=1)
    mine.spend(75)
    with pytest.raises(LimitReached):
        mine.ask(0.05)
    assert mine.told[1:] == [
        "$75.00 of the $10.00 for today are spent (/budget)",
        "$83.10 of the $100.00 for this month are spent (/budget)",
    ]


@pytest.mark.parametrize("origin", ["guest", "job"])
def test_the_line_at_80_percent_waits_for_a_request_of_the_owners(purse: Callable[..., Purse], origin: Origin) -> None:
    mine = purse(day_usd=100)
    mine.spend(85)
    mine.ask(1, origin)
    assert not mine.told
    mine.ask(1)
    assert mine.told == ["$86.00 of the $100.00 for today are spent (/budget)"]


def test_at_the_limit_no_request_is_made_until_the_next_day(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=10)
    mine.spend(10)
    with pytest.raises(LimitReached, match=r"\$10.00 of the \$10.00 for today .*/budget yes"):
        mine.ask(0.01)
    mine.host.time = NOON.replace(hour=23, minute=59)
    with pytest.raises(LimitReached):
        mine.ask(0.01)
    mine.host.time += timedelta(minutes=2)
    mine.ask(0.01)


def test_a_month_has_a_limit_of_its_own(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=10, month_usd=15)
    mine.spend(9, at=NOON - timedelta(days=2))
    mine.spend(90, at=NOON - timedelta(days=20))  # the month before
    mine.ask(1)
    mine.spend(4)
    with pytest.raises(LimitReached, match="for this month"):
        mine.ask(1)
    assert "This month: $14.00 spent of $15.00." in mine.spending.in_words()


def test_a_yes_holds_until_the_day_ends_over_a_restart(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=1, month_usd=2)
    mine.spend(2)
    assert "until the day ends" in mine.allow()
    mine.ask(5)
    mine = mine.reopened()
    assert mine.ask(5) == 1024
    assert "today the limit does not apply" in mine.spending.in_words()
    mine.host.time += timedelta(days=1)
    with pytest.raises(LimitReached, match="for this month"):
        mine.ask(0.1)


@pytest.mark.parametrize("origin", ["heartbeat", "job"])
def test_what_nobody_waits_for_has_a_share_only(purse: Callable[..., Purse], origin: Origin) -> None:
    mine = purse(day_usd=20, heartbeat_share=0.2)
    mine.ask(1, origin)
    mine.ask(1, origin)
    with pytest.raises(LimitReached, match=r"heartbeats and jobs have used \$2.00 of the \$4.00"):
        mine.ask(1, origin)
    mine.allow()
    with pytest.raises(LimitReached):
        mine.ask(1, origin)
    assert mine.ask(1, "person") == 1024
    assert "Heartbeats and jobs: $2.00 of $4.00 today." in mine.spending.in_words()


def test_guests_leave_money_for_the_owner(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=6)
    mine.ask(1, "guest")
    mine.ask(1, "job")
    with pytest.raises(LimitReached, match=r"guests and groups have used \$1.00 of the \$3.00"):
        mine.ask(1, "guest")
    assert mine.ask(1, "person") == mine.ask(1, "job") == 1024
    assert "Guests and groups: $1.00 of $3.00 today." in mine.spending.in_words()


def test_what_was_under_way_at_a_crash_counts_as_spent(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=10)
    mine.ask(7, settle=False)
    mine = mine.reopened()
    assert mine.spending.in_words().startswith("Today: $8.02 spent of $10.00.")
    assert "$8.02 of that was under way when the program ended" in mine.spending.in_words()
    with pytest.raises(LimitReached):
        mine.ask(2)
    mine.host.time += timedelta(days=31)
    mine = mine.reopened()
    mine.ask(2)
    assert mine.rows() == []


def test_a_model_without_a_price_is_told_once_and_goes_on(purse: Callable[..., Purse]) -> None:
    mine = purse(day_usd=2)
    mine.ask(5, model="acme/new")
    mine = mine.reopened()
    mine.ask(5, model="acme/new")
    mine.ask(5, model="acme/newer")
    assert mine.told == [
        "no price is known for acme/new, so the limit cannot apply to it",
        "no price is known for acme/newer, so the limit cannot apply to it",
    ]
    assert "No price is known for acme/new, acme/newer: not counted." in mine.spending.in_words()
    mine.ask(0)  # and it took nothing of the limit


def test_a_model_on_this_machine_costs_nothing_whatever_it_is_called(tmp_path: Path) -> None:
    mine = Purse(tmp_path / "state.db", BudgetSettings(day_usd=1), prices=PaperPrices(local=MODEL))
    mine.ask(50)
    mine.ask(50)
    assert mine.spending.in_words().startswith("Today: $0 spent of $1.00.")
    elsewhere = mine.reopened()
    elsewhere.prices.local = ""
    assert elsewhere.spending.in_words().startswith("Today: $0 spent of $1.00.")  # it was local when it was asked


def test_what_went_to_this_machine_is_told_as_free_and_can_be_made_to_count(tmp_path: Path) -> None:
    mine = Purse(tmp_path / "state.db", BudgetSettings(day_usd=100), prices=PaperPrices(local=MODEL))
    assert "this machine" not in mine.spending.in_words()
    mine.ask(1)
    assert mine.spending.in_words().endswith(
        "1 request of this month went to this machine and counts as free; "
        "[limits] count_local = true counts them from then on."
    )
    mine.ask(1)
    assert "2 requests of this month went to this machine and count as free;" in mine.spending.in_words()
    mine.limit = BudgetSettings(day_usd=100, count_local=True)
    counting = mine.reopened()
    counting.ask(3)
    said = counting.spending.in_words()
    assert said.startswith("Today: $3.00 spent of $100.00.")
    assert said.endswith("2 requests of this month went to this machine and count as free.")


# --- in the whole program --------------------------------------------------------------------------------------------


async def ended(program: Program) -> None:
    await program.app.conversations.idle()


@asynccontextmanager
async def spending(
    root: Path, model: ScriptedProvider, day_usd: float, channel: FakeChannel | None = None
) -> AsyncIterator[Program]:
    async with running(
        root, model, settings=f"[limits]\nday_usd = {day_usd}\nheartbeat_share = 1\n", channel=channel
    ) as program:
        program.app.models.cost = PaperPrices().cost  # type: ignore[method-assign]
        yield program


def spend(program: Program, usd: float) -> None:
    sql = (
        "INSERT INTO usage (at, origin, model, input_tokens, output_tokens, cached_tokens, estimated, is_reported)"
        " VALUES (?, 'person', ?, ?, 0, 0, 0, 1)"
    )
    with program.app.transactions.open() as tx:
        tx.execute(sql, program.clock().isoformat(), MODEL, round(usd * 1000))


async def test_a_refused_request_never_reaches_the_model_and_commands_go_on(tmp_path: Path) -> None:
    model = ScriptedProvider(Say("hello", usage=Usage(9_000, 500)), "more", model=MODEL)
    async with spending(tmp_path, model, 20) as here:
        assert await here.ask("hello") == "hello"
        assert here.rows("SELECT * FROM reservations") == []
        spend(here, 10)
        refused = await here.ask("hello again")
        assert "$19.50 of the $20.00 for today are spent" in refused and "/budget yes" in refused
        assert len(model.requests) == 1
        assert "$19.50 spent of $20.00" in await here.ask("/budget")
        await here.ask("/budget yes")
        assert await here.ask("hello again") == "more"


async def test_what_a_guest_asks_is_counted_as_a_guests_over_a_restart(tmp_path: Path) -> None:
    settings = "[limits]\nday_usd = 20\n"
    for reply in ("one", NOT_NOW):
        model = ScriptedProvider(Say("one", usage=Usage(9_000, 500)), model=MODEL)
        chat, guests = FakeChannel("chat"), everybody_is("guest")
        async with running(
            tmp_path, model, settings=settings, others=[chat], extra=[guests], without={"access"}
        ) as here:
            here.app.models.cost = PaperPrices().cost  # type: ignore[method-assign]
            await here.write_from(GUEST, "777", "hello")
            assert (await chat.sent.get()).text == reply
            assert here.rows("SELECT DISTINCT origin FROM usage") == [("guest",)]


async def test_a_request_that_cost_nothing_holds_nothing_back(tmp_path: Path) -> None:
    model = ScriptedProvider(ProviderRefused("no"), model=MODEL)
    async with spending(tmp_path, model, 100) as here:
        await here.ask("hello")
        assert here.rows("SELECT * FROM reservations") == []
        assert "Today: $0 spent" in await here.ask("/budget")


async def test_a_stopped_request_is_paid_and_holds_nothing_back(tmp_path: Path) -> None:
    hang = Hang("begun")
    async with spending(tmp_path, ScriptedProvider(hang, model=MODEL), 100) as here:
        await here.say("hello")
        await hang.reached.wait()
        assert len(here.rows("SELECT * FROM reservations")) == 1
        assert "reserved for what is under way" in await here.ask("/budget")
        await here.ask("/stop")
        await ended(here)
        assert here.rows("SELECT * FROM reservations") == []
        assert "Today: $0 spent" not in await here.ask("/budget")


@pytest.mark.parametrize("line", ["day_usd = -1", "month_usd = nan", "heartbeat_share = 20"])
async def test_an_amount_that_is_none_stops_the_start(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match=line.partition(" ")[0]):
        async with running(tmp_path, ScriptedProvider(), settings=f"[limits]\n{line}\n"):
            pass
