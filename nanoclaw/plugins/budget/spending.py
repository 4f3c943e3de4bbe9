"""Money: what a request may cost is reserved before it is made, so that no limit of the person's is passed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, NamedTuple

from nanoclaw.core.messages import Usage
from nanoclaw.core.plugin import Host, KnownModels, Tx
from nanoclaw.dollars import dollars
from nanoclaw.plugins.budget.plugin import GUEST_SHARE, BudgetSettings, Span

_OF: dict[Span, str] = {"day": "today", "month": "this month"}

WARN_SHARE = 0.8
SHORTEST_ANSWER = 1024
"""Tokens; a request for whose answer the money is not enough for so many is not made."""

YES, WARNED, _UNPRICED = "yes", "warned.", "unpriced."
Sharing = Literal["background", "guests"]
_SHARED: dict[str, Sharing] = {"heartbeat": "background", "job": "background", "guest": "guests"}
"""Origins that have a share of the limit together: of what nobody is waiting for, and what others ask."""
_WHO: dict[Sharing, str] = {"background": "heartbeats and jobs", "guests": "guests and groups"}


class Reservation(NamedTuple):
    """The money held for one request. `output_tokens` is the longest answer that it allows."""

    output_tokens: int
    row: int | None = None


class PendingRequest(NamedTuple):
    """A request that is about to be made: the models that may answer it, the first one first, its estimated input, and
    the longest answer that is wanted."""

    models: tuple[str, ...]
    input_tokens: Callable[[], int]
    output_tokens: int
    origin: str = "person"


@dataclass(slots=True)
class _Spent:
    """US dollars of a month's days: of all requests, and of those that have a share; models without a known price; and
    how many requests were free, being answered on the person's machine."""

    month: date
    upto: int
    days: dict[str, float]
    shared: dict[Sharing, dict[str, float]]
    unpriced: set[str]
    local: int = 0


class Spending:
    """Reservations are rows that outlive a crash: what was under way then counts as spent, as nobody knows better."""

    def __init__(self, host: Host, limit: BudgetSettings) -> None:
        self._host, self._limit = host, limit
        self._known: _Spent | None = None
        self._left: int = host.read("SELECT coalesce(max(id), 0) FROM reservations")[0][0]  # by an earlier process

    @property
    def _prices(self) -> KnownModels:
        return self._host.models

    # --- around a request --------------------------------------------------------------------------------------------

    def reserve(self, tx: Tx, request: PendingRequest) -> tuple[Reservation, list[str]]:
        """Hold what a request may cost at most, and say what is to be told of it. Where less than that is left, the
        answer may be shorter; of no tokens at all where no request can be made."""
        models = [name for name in request.models if not self._prices.is_local(name)]
        if not models:
            return Reservation(request.output_tokens), []
        input_tokens, output_tokens = request.input_tokens(), request.output_tokens
        most, told = self._dearest(models, Usage(input_tokens, output_tokens)), list[str]()
        if self._prices.cost(models[0], Usage(input_tokens)) is None:
            line = f"no price is known for {models[0]}, so the limit cannot apply to it"
            told += self._once(tx, _UNPRICED + models[0], "told", line)
        if not most or most <= 0:
            return Reservation(output_tokens), told
        told += [] if request.origin in _SHARED else self._warnings(tx)  # the owner reads none of these as they come
        left = self._left_for(request.origin)
        if most > left:
            least = self._dearest(models, Usage(input_tokens, 0)) or 0.0
            each = (most - least) / output_tokens
            output_tokens = int((left - least) / each) if each > 0 else 0
            if output_tokens < SHORTEST_ANSWER:
                return Reservation(0), told
            most = least + each * output_tokens
        now = self._host.now().date().replace(day=1).isoformat()
        tx.execute("DELETE FROM reservations WHERE at < ?", now)
        sql = "INSERT INTO reservations (at, origin, usd) VALUES (?, ?, ?) RETURNING id"
        ((row,),) = tx.execute(sql, self._host.now().isoformat(), request.origin, most)
        return Reservation(output_tokens, row), told

    def release(self, tx: Tx, held: Reservation) -> None:
        """The request is written down, or cost nothing after all."""
        if held.row is not None:
            tx.execute("DELETE FROM reservations WHERE id = ?", held.row)

    def _dearest(self, models: Sequence[str], usage: Usage) -> float | None:
        """The most that a request to one of them costs, as far as prices are known."""
        known = [price for model in models if (price := self._prices.cost(model, usage)) is not None]
        return max(known, default=None)

    # --- what the person sees ----------------------------------------------------------------------------------------

    def in_words(self) -> str:
        """The sums of day and month, and what else there is to know about them."""
        lines = [self._line(span) for span in ("day", "month")]
        if not self._limit.is_set:
            lines.append("No limit is set: [limits] day_usd and month_usd in config.toml.")
        for sharing, who in _WHO.items() if self._limit.is_set else ():
            spent = self._sum(self._span, sharing)
            if self._share(sharing) < 1 and (spent or sharing == "background"):
                most = dollars(self._most(sharing))
                lines.append(f"{who.capitalize()}: {dollars(spent)} of {most} {_OF[self._span]}.")
        if self._is_allowed:
            lines.append("You said yes: today the limit does not apply.")
        if crashed := self._reserved("month", before=self._left):
            lines.append(f"{dollars(crashed)} of that was under way when the program ended, and counts as spent.")
        if unpriced := sorted(self._spent().unpriced):
            lines.append(f"No price is known for {', '.join(unpriced)}: not counted.")
        if free := self._spent().local:
            hint = "" if self._limit.count_local else "; [limits] count_local = true counts them from then on"
            lines.append(
                f"{free} request{'s' if free > 1 else ''} of this month went to this machine and count"
                f"{'' if free > 1 else 's'} as free{hint}."
            )
        return "\n".join(lines)

    def _line(self, span: Span) -> str:
        limit = self._limit.of(span)
        of = f" of {dollars(limit)}" if limit else ""
        under_way = self._reserved(span, after=self._left)
        held = f", {dollars(under_way)} reserved for what is under way" if under_way else ""
        return f"{_OF[span].capitalize()}: {dollars(self._sum(span) - under_way)} spent{of}{held}."

    def allow(self, tx: Tx) -> str:
        """Let it continue beyond the limit until the day ends."""
        if not self._limit.is_set:
            return "No limit is set, so there is nothing to allow."
        self._set(tx, YES, self._host.now().date().isoformat())
        stays = "Heartbeats, jobs and guests stay limited."
        return f"The limit does not apply until the day ends. {stays}"

    def refusal(self, origin: str) -> str:
        """Why no request can be made."""
        sharing = _SHARED.get(origin)
        if sharing and self._left_for("person") > self._most(sharing) * 0.01:
            return (
                f"{_WHO[sharing]} have used {dollars(self._sum(self._span, sharing))} of the "
                f"{dollars(self._most(sharing))} that they may use {_OF[self._span]}."
            )
        span = min(self._limited(), key=lambda span: self._limit.of(span) - self._sum(span))
        spent, limit = dollars(self._sum(span)), dollars(self._limit.of(span))
        return (
            f"{spent} of the {limit} for {_OF[span]} are spent or reserved, too much for another request. "
            "Say /budget yes to continue until the day ends; a higher limit is [limits] in config.toml. "
            "/note, /search and all other commands work without a model."
        )

    def _warnings(self, tx: Tx) -> list[str]:
        """A line, once for each day and month, when much of its limit is spent."""
        today, told = self._host.now().date().isoformat(), list[str]()
        for span in self._limited():
            spent, limit = self._sum(span), self._limit.of(span)
            if spent >= WARN_SHARE * limit:
                line = f"{dollars(spent)} of the {dollars(limit)} for {_OF[span]} are spent (/budget)"
                told += self._once(tx, WARNED + span, today if span == "day" else today[:7], line)
        return told

    def _once(self, tx: Tx, name: str, value: str, line: str) -> list[str]:
        if self._get(name) == value:
            return []
        self._set(tx, name, value)
        return [line]

    def _get(self, name: str) -> str:
        found = self._host.read("SELECT value FROM budget_marks WHERE name = ?", name)
        return str(found[0][0]) if found else ""

    def _set(self, tx: Tx, name: str, value: str) -> None:
        tx.execute("INSERT INTO budget_marks VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = ?2", name, value)

    # --- sums --------------------------------------------------------------------------------------------------------

    @property
    def _is_allowed(self) -> bool:
        return self._get(YES) == self._host.now().date().isoformat()

    @property
    def _span(self) -> Span:
        """The one whose limit they have a share of."""
        return "day" if self._limit.day_usd else "month"

    def _limited(self) -> list[Span]:
        spans: tuple[Span, ...] = ("day", "month")
        return [span for span in spans if self._limit.of(span)]

    def _share(self, sharing: Sharing) -> float:
        return self._limit.heartbeat_share if sharing == "background" else GUEST_SHARE

    def _most(self, sharing: Sharing) -> float:
        return self._limit.of(self._span) * self._share(sharing)

    def _left_for(self, origin: str) -> float:
        lefts = [] if self._is_allowed else [self._limit.of(span) - self._sum(span) for span in self._limited()]
        if sharing := _SHARED.get(origin):
            lefts.append(self._most(sharing) - self._sum(self._span, sharing))
        return min(lefts, default=math.inf)

    def _sum(self, span: Span, sharing: Sharing | None = None) -> float:
        """Money spent and reserved, in all or by those with a share."""
        spent = self._spent()
        days = spent.shared.get(sharing, {}) if sharing else spent.days
        today = self._host.now().date().isoformat()
        settled = days.get(today, 0.0) if span == "day" else sum(days.values())
        return settled + self._reserved(span, sharing)

    def _reserved(
        self, span: Span, sharing: Sharing | None = None, *, after: int = 0, before: int | None = None
    ) -> float:
        today = self._host.now().date().isoformat()
        sql = "SELECT coalesce(sum(usd), 0) FROM reservations WHERE substr(at, 1, ?) = ? AND id > ?"
        start = today if span == "day" else today[:7]
        values: list[object] = [len(start), start, after]
        if before is not None:
            sql += " AND id <= ?"
            values.append(before)
        if sharing:
            sql += " AND origin IN (SELECT value FROM json_each(?))"
            values.append(json.dumps([origin for origin, of in _SHARED.items() if of == sharing]))
        return float(self._host.read(sql, *values)[0][0])

    def _spent(self) -> _Spent:
        """The month's requests that were written down; each row is looked at once."""
        month = self._host.now().date().replace(day=1)
        known = self._known
        if known is None or known.month != month:
            known = self._known = _Spent(month, 0, {}, {}, set())
        for row, day, origin, _, is_local, model, usage in self._host.records.spent(month, known.upto):
            known.upto = row
            known.local += bool(is_local)
            cost = 0.0 if is_local else self._prices.cost(model, usage)
            if cost is None:
                known.unpriced.add(model)
                continue
            known.days[day] = known.days.get(day, 0.0) + cost
            if sharing := _SHARED.get(origin):
                days = known.shared.setdefault(sharing, {})
                days[day] = days.get(day, 0.0) + cost
        return known
