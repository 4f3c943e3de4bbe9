"""Money: what a request may cost is reserved before it is made, so that no limit of the person's is passed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal, NamedTuple

from nanoclaw.core.errors import LimitReached
from nanoclaw.core.messages import Origin, Usage
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.flags import Flags
from nanoclaw.core.store.usage import Call, Price, calls_after

Span = Literal["day", "month"]
_OF: dict[Span, str] = {"day": "today", "month": "this month"}

WARN_SHARE = 0.8
SHORTEST_ANSWER = 1024
"""Tokens; a request for whose answer the money is not enough for so many is not made."""

YES, WARNED = "budget.yes", "budget.warned."
_UNPRICED = "budget.unpriced."
_AT_NIGHT = frozenset({"heartbeat", "job"})
"""Origins of what nobody is waiting for: they share `heartbeat_share` of the limit."""


class Reservation(NamedTuple):
    """What is held for one request. `output_tokens` is the longest answer that the money allows."""

    output_tokens: int
    row: int | None = None


@dataclass(frozen=True, slots=True)
class SpendingLimits:
    """US dollars for the person's day and month, 0 for no limit, and the share that heartbeats and jobs may use.
    `counts_local`: what a server on the person's machine answers may cost money elsewhere, by the model's name."""

    day_usd: float = 0.0
    month_usd: float = 0.0
    background_share: float = 1.0
    counts_local: bool = False

    def __bool__(self) -> bool:
        return bool(self.day_usd or self.month_usd)

    def of(self, span: Span) -> float:
        return self.day_usd if span == "day" else self.month_usd


@dataclass(slots=True)
class _Spent:
    """US dollars of a month's days: of all requests, and of those in the background; models without a known price;
    and how many requests were free, being answered on the person's machine."""

    month: date
    upto: int
    days: dict[str, float]
    background: dict[str, float]
    unpriced: set[str]
    local: int = 0


class Budget:
    """Reservations are rows that outlive a crash: what was under way then counts as spent, as nobody knows better."""

    def __init__(
        self,
        store: Store,
        flags: Flags,
        clock: Callable[[], datetime],
        price: Price,
        dollars: Callable[[float], str],
        limits: SpendingLimits = SpendingLimits(),
        is_local: Callable[[str], bool] = lambda model: False,
        fallback: Sequence[str] = (),
    ) -> None:
        """`clock` gives the person's local time; `is_local(model)`: it costs nothing, being on the person's machine.
        The models of `fallback` may answer in place of any: the dearest is reserved for."""
        self._store, self._flags, self._clock = store, flags, clock
        self._price, self._dollars, self._limits = price, dollars, limits
        self._is_local: Callable[[str], bool] = (lambda model: False) if limits.counts_local else is_local
        self._fallback = tuple(fallback)
        self._known: _Spent | None = None
        self._left = 0  # the last row that an earlier process reserved
        if limits:
            month = clock().date().replace(day=1).isoformat()
            if store.rows("SELECT 1 FROM reservations WHERE at < ? LIMIT 1", month):
                with store.transaction() as db:
                    db.execute("DELETE FROM reservations WHERE at < ?", (month,))
            self._left = store.rows("SELECT coalesce(max(id), 0) FROM reservations")[0][0]

    # --- around a request --------------------------------------------------------------------------------------------

    def reserve(
        self, model: str, count: Callable[[], int], output_tokens: int, origin: Origin, tell: Callable[[str], None]
    ) -> Reservation:
        """Hold what a request may cost at most; `tell` gets a line when much is spent. Raises LimitReached.

        `count` estimates its tokens of input. Where less than that is left, the answer may be shorter. Without a limit
        nothing is looked up or written.
        """
        models = [name for name in (model, *self._fallback) if not self._is_local(name)]
        if not self._limits or not models:
            return Reservation(output_tokens)
        input_tokens = count()
        most = self._dearest(models, Usage(input_tokens, output_tokens))
        if self._price(models[0], Usage(input_tokens)) is None:
            self._once(
                _UNPRICED + models[0],
                "told",
                f"no price is known for {models[0]}, so the limit cannot hold for it",
                tell,
            )
        if not most or most <= 0:
            return Reservation(output_tokens)
        self._warn(tell)
        left = self._left_for(origin)
        if most > left:
            least = self._dearest(models, Usage(input_tokens, 0)) or 0.0
            each = (most - least) / output_tokens
            output_tokens = int((left - least) / each) if each > 0 else 0
            if output_tokens < SHORTEST_ANSWER:
                raise LimitReached(self._refusal(origin))
            most = least + each * output_tokens
        with self._store.transaction() as db:
            sql = "INSERT INTO reservations (at, origin, usd) VALUES (?, ?, ?)"
            row = db.execute(sql, (self._clock().isoformat(), origin, most)).lastrowid
        return Reservation(output_tokens, row)

    def _dearest(self, models: Sequence[str], usage: Usage) -> float | None:
        """What a request to one of them costs at most, as far as prices are known."""
        known = [price for model in models if (price := self._price(model, usage)) is not None]
        return max(known, default=None)

    def settled(self, held: Reservation, call: Call) -> Call:
        """The call as it is to be written down: with that, what was held for it is free again."""
        return call._replace(is_local=self._is_local(call.model), reservation=held.row)

    def release(self, held: Reservation) -> None:
        """The request cost nothing after all."""
        if held.row is not None:
            with self._store.transaction() as db:
                db.execute("DELETE FROM reservations WHERE id = ?", (held.row,))

    # --- what the person sees ----------------------------------------------------------------------------------------

    def command(self, argument: str) -> str:
        """What /budget answers."""
        word = argument.strip().casefold()
        if word == "yes":
            return self._allow()
        if word:
            return "/budget shows what was spent; /budget yes lets it go on until the day ends, whatever the limit."
        lines = [self._line(span) for span in ("day", "month")]
        if not self._limits:
            lines.append("No limit is set: [limits] day_usd and month_usd in config.toml.")
        elif self._limits.background_share < 1:
            lines.append(
                f"Heartbeats and jobs: {self._dollars(self._sum(self._span, background=True))} of "
                f"{self._dollars(self._most(self._span))} {_OF[self._span]}."
            )
        if self._is_allowed:
            lines.append("You said yes: today it goes on beyond the limit.")
        if crashed := self._reserved("month", before=self._left):
            lines.append(f"{self._dollars(crashed)} of that was under way when the program ended, and counts as spent.")
        if unpriced := sorted(self._spent().unpriced):
            lines.append(f"No price is known for {', '.join(unpriced)}: not counted.")
        if free := self._spent().local:
            hint = "" if self._limits.counts_local else "; [limits] count_local = true counts them from then on"
            lines.append(
                f"{free} request{'s' if free > 1 else ''} of this month went to this machine and count"
                f"{'' if free > 1 else 's'} as free{hint}."
            )
        return "\n".join(lines)

    def _line(self, span: Span) -> str:
        limit = self._limits.of(span)
        of = f" of {self._dollars(limit)}" if limit else ""
        under_way = self._reserved(span, after=self._left)
        held = f", {self._dollars(under_way)} reserved for what is under way" if under_way else ""
        return f"{_OF[span].capitalize()}: {self._dollars(self._sum(span) - under_way)} spent{of}{held}."

    def _allow(self) -> str:
        if not self._limits:
            return "No limit is set, so there is nothing to allow."
        self._flags.set(YES, self._clock().date().isoformat())
        return "Until the day ends it goes on, whatever the limit. What heartbeats and jobs may use stays as it is."

    def _refusal(self, origin: Origin) -> str:
        if origin in _AT_NIGHT and self._left_for("person") > self._most(self._span) * 0.01:
            return (
                f"heartbeats and jobs have used {self._dollars(self._sum(self._span, background=True))} of the "
                f"{self._dollars(self._most(self._span))} that they may use {_OF[self._span]}."
            )
        span = min(self._limited(), key=lambda span: self._limits.of(span) - self._sum(span))
        spent, limit = self._dollars(self._sum(span)), self._dollars(self._limits.of(span))
        return (
            f"{spent} of the {limit} for {_OF[span]} are spent or reserved, too much for another request. "
            "Say /budget yes to go on until the day ends; a higher limit is [limits] in config.toml. "
            "/note, /search and all other commands work without a model."
        )

    def _warn(self, tell: Callable[[str], None]) -> None:
        """Once for each day and month."""
        today = self._clock().date().isoformat()
        for span in self._limited():
            spent, limit = self._sum(span), self._limits.of(span)
            if spent >= WARN_SHARE * limit:
                line = f"{self._dollars(spent)} of the {self._dollars(limit)} for {_OF[span]} are spent (/budget)"
                self._once(WARNED + span, today if span == "day" else today[:7], line, tell)

    def _once(self, flag: str, value: str, line: str, tell: Callable[[str], None]) -> None:
        if self._flags.get(flag) != value:
            self._flags.set(flag, value)
            tell(line)

    # --- sums --------------------------------------------------------------------------------------------------------

    @property
    def _is_allowed(self) -> bool:
        return self._flags.get(YES) == self._clock().date().isoformat()

    @property
    def _span(self) -> Span:
        """The one whose limit heartbeats and jobs have a share of."""
        return "day" if self._limits.day_usd else "month"

    def _limited(self) -> list[Span]:
        spans: tuple[Span, ...] = ("day", "month")
        return [span for span in spans if self._limits.of(span)]

    def _most(self, span: Span) -> float:
        """What is for heartbeats and jobs."""
        return self._limits.of(span) * self._limits.background_share

    def _left_for(self, origin: Origin) -> float:
        lefts = [] if self._is_allowed else [self._limits.of(span) - self._sum(span) for span in self._limited()]
        if origin in _AT_NIGHT:
            lefts.append(self._most(self._span) - self._sum(self._span, background=True))
        return min(lefts, default=math.inf)

    def _sum(self, span: Span, *, background: bool = False) -> float:
        """Spent and reserved."""
        spent = self._spent()
        days = spent.background if background else spent.days
        today = self._clock().date().isoformat()
        settled = days.get(today, 0.0) if span == "day" else sum(days.values())
        return settled + self._reserved(span, background=background)

    def _reserved(self, span: Span, *, background: bool = False, after: int = 0, before: int | None = None) -> float:
        today = self._clock().date().isoformat()
        sql = "SELECT coalesce(sum(usd), 0) FROM reservations WHERE substr(at, 1, ?) = ? AND id > ?"
        start = today if span == "day" else today[:7]
        values: list[object] = [len(start), start, after]
        if before is not None:
            sql += " AND id <= ?"
            values.append(before)
        if background:
            sql += " AND origin IN (SELECT value FROM json_each(?))"
            values.append('["heartbeat", "job"]')
        return float(self._store.rows(sql, *values)[0][0])

    def _spent(self) -> _Spent:
        """What was written down this month; each row is looked at once."""
        month = self._clock().date().replace(day=1)
        known = self._known
        if known is None or known.month != month:
            known = self._known = _Spent(month, 0, {}, {}, set())
        for row, day, origin, call in calls_after(self._store, known.upto, month):
            known.upto = row
            known.local += call.is_local
            cost = call.cost(self._price)
            if cost is None:
                known.unpriced.add(call.model)
                continue
            known.days[day] = known.days.get(day, 0.0) + cost
            if origin in _AT_NIGHT:
                known.background[day] = known.background.get(day, 0.0) + cost
        return known
