"""Budget: holds the money for each request to a model, so that no limit of the person's is passed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from nanoclaw.core.errors import ConfigError, LimitReached
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import AssistantMessage, Limits, ModelRequest
from nanoclaw.core.plugin import Command, Hears, Host, Plugin, Said, Turn, Tx
from nanoclaw.core.provider import estimate_request

if TYPE_CHECKING:
    from nanoclaw.plugins.budget.spending import Reservation, Spending


Span = Literal["day", "month"]


GUEST_SHARE = 0.5
"""Share of the money that all guests and groups together may spend."""


class BudgetSettings(NamedTuple):
    """Limits of spending."""

    day_usd: float = 0.0  # US dollars a day; 0: no limit
    month_usd: float = 0.0  # US dollars a month; 0: no limit
    heartbeat_share: float = 0.2  # share of this money that heartbeats and jobs may spend
    count_local: bool = False  # count requests to a server on this machine too, if it passes them on to a paid provider

    @property
    def is_set(self) -> bool:
        return bool(self.day_usd or self.month_usd)

    def of(self, span: Span) -> float:
        return self.day_usd if span == "day" else self.month_usd

    def check(self) -> None:
        """Raises ConfigError for an invalid share."""
        if not 0 <= (share := self.heartbeat_share) <= 1:
            raise ConfigError(f"limits.heartbeat_share must be a share from 0 to 1, such as 0.2, not {share}.")


class Budget(Plugin):
    name = "budget"
    settings = BudgetSettings
    keys: ClassVar[Mapping[str, str]] = {
        "day_usd": "limits.day_usd",
        "month_usd": "limits.month_usd",
        "heartbeat_share": "limits.heartbeat_share",
        "count_local": "limits.count_local",
    }
    migrations = (
        """CREATE TABLE IF NOT EXISTS reservations (  -- the most that requests under way may cost
            id INTEGER PRIMARY KEY,
            at TEXT NOT NULL,
            origin TEXT NOT NULL,
            usd REAL NOT NULL
        ) STRICT;
        CREATE TABLE budget_marks (                  -- until when there is a yes, and what was told
            name TEXT PRIMARY KEY,
            value TEXT NOT NULL
        ) STRICT""",
    )
    marks = ("reservations.at", "reservations.origin", "budget_marks.name", "budget_marks.value")

    def __init__(self, host: Host, settings: BudgetSettings) -> None:
        self._host, self._settings = host, settings
        self.hears = {} if settings.is_set else dict.fromkeys(("before_model", "after_model"), Hears())
        self._held: dict[int, list[Reservation]] = {}  # of requests under way, by the identity of their history

    @cached_property
    def _spending(self) -> Spending:
        from nanoclaw.plugins.budget.spending import Spending  # without a limit nobody asks

        return Spending(self._host, self._settings)

    def commands(self) -> Iterable[Command]:
        help_ = "what was spent today and this month; /budget yes lifts the limit until the day ends"
        return [Command("budget", help_, self._budget, "safety", private=True)]

    async def before_model(self, request: ModelRequest, turn: Turn | None) -> Limits | None:
        """Reserve what the request may cost; shorten its answer where the money is short, or refuse it."""
        from nanoclaw.plugins.budget.spending import PendingRequest

        def count() -> int:
            return round(estimate_request(request, request.model) * request.factor)

        most = request.limits.output_tokens
        origin = "person" if turn is None else "guest" if turn.profile.name == "guest" else turn.origin
        pending = PendingRequest((request.model, *request.others), count, most, origin)
        held, told = await self._host.write(lambda tx: self._spending.reserve(tx, pending))
        if turn:
            delegate = self._host.get("delegate")
            place = delegate.home_of(turn.address) if delegate else turn.address
            for line in told:
                self._host.show(place, Notice(line))
        if not held.output_tokens:
            raise LimitReached(self._spending.refusal(pending.origin))
        if held.row is not None:
            self._held.setdefault(id(request.history), []).append(held)
        return request.limits._replace(output_tokens=held.output_tokens) if held.output_tokens < most else None

    def after_model(self, request: ModelRequest, answer: AssistantMessage | None, turn: Turn | None) -> None:
        """Free what was held, in the transaction that writes down what the request took."""
        held = self._held.get(id(request.history))
        if not held:
            return
        one = held.pop()
        if not held:
            del self._held[id(request.history)]
        if turn:
            turn.later(lambda tx: self._spending.release(tx, one))
        else:
            self._host.spawn(self._host.write(lambda tx: self._spending.release(tx, one)))

    def _budget(self, said: Said, tx: Tx) -> str:
        word = said.argument.strip().casefold()
        if word == "yes":
            return self._spending.allow(tx)
        if word:
            return "/budget shows what was spent; /budget yes lifts the limit until the day ends."
        return self._spending.in_words()
