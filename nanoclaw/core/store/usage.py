"""Models in the store: tokens of each request, with the turn that it belongs to, and facts learned of each model."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from typing import Literal, NamedTuple, get_args

from nanoclaw.core.messages import Origin, Usage
from nanoclaw.core.provider import Abilities, Ability
from nanoclaw.core.store.db import Store

By = Literal["day", "model", "session", "origin"]
BY: tuple[By, ...] = get_args(By)

Price = Callable[[str, Usage], float | None]
"""US dollars for a model's usage; None if unknown."""


class Call(NamedTuple):
    """One request to a model. `estimated` is our own count of its input, 0 if none was made.

    Where the provider reported nothing (`is_reported` is False), `usage` is our own count too. `is_local`: answered on
    the person's own machine, whatever the model is called.
    """

    model: str
    usage: Usage
    estimated: int = 0
    is_reported: bool = True
    is_local: bool = False


@dataclass(slots=True)
class Total:
    """The sum of some calls. `cost` is that of the calls with a known price; `unpriced` counts the others by model."""

    key: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    unreported: int = 0
    cost: float = 0.0
    unpriced: dict[str, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def add(self, call: Call, cost: float | None) -> None:
        self.calls += 1
        self.input_tokens += call.usage.input_tokens
        self.output_tokens += call.usage.output_tokens
        self.cached_tokens += call.usage.cached_tokens
        self.unreported += not call.is_reported
        if cost is None:
            self.unpriced[call.model] = self.unpriced.get(call.model, 0) + 1
        else:
            self.cost += cost


def record(
    db: sqlite3.Connection,
    calls: Iterable[Call],
    at: datetime,
    *,
    session: int | None = None,
    turn: int | None = None,
    origin: Origin = "person",
) -> None:
    """Record calls inside the caller's transaction."""
    rows = [
        (
            *(at.isoformat(), session, turn, origin, call.model),
            *(call.usage.input_tokens, call.usage.output_tokens, call.usage.cached_tokens),
            *(call.estimated, call.is_reported, call.is_local),
        )
        for call in calls
    ]
    sql = (
        "INSERT INTO usage (at, session, turn, origin, model, input_tokens, output_tokens, cached_tokens, estimated,"
        " is_reported, is_local) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    db.executemany(sql, rows)


def totals(store: Store, by: By, price: Price, since: date | None = None) -> list[Total]:
    """Totals by day in order, by anything else the largest first. A day is that of the person's zone then."""
    key = {"day": "substr(at, 1, 10)", "model": "usage.model", "session": "coalesce(key, '')", "origin": "origin"}[by]
    sql = (
        f"SELECT {key}, usage.model, input_tokens, output_tokens, cached_tokens, is_reported, {_local(store)}"
        " FROM usage LEFT JOIN sessions ON sessions.id = usage.session WHERE substr(at, 1, 10) >= ? ORDER BY usage.id"
    )
    found: dict[str, Total] = {}
    for name, model, input_, output, cached, told, is_local in store.rows(sql, since.isoformat() if since else ""):
        call = Call(model, Usage(input_, output, cached), is_reported=bool(told), is_local=bool(is_local))
        found.setdefault(name, Total(name)).add(call, 0.0 if is_local else price(model, call.usage))
    if by == "day":
        return [found[name] for name in sorted(found)]
    return sorted(found.values(), key=lambda total: -total.tokens)


def _local(store: Store) -> str:
    """The column if the format has it: older formats are read, too."""
    return "is_local" if store.rows("PRAGMA user_version")[0][0] > 1 else "0"


def past_counts(store: Store, model: str, limit: int = 20) -> list[tuple[int, int]]:
    """The newest pairs of our own count and the provider's, oldest first."""
    sql = (
        "SELECT estimated, input_tokens FROM usage WHERE model = ? AND estimated > 0 AND is_reported"
        " ORDER BY id DESC LIMIT ?"
    )
    return [(estimated, reported) for estimated, reported in reversed(store.rows(sql, model, limit))]


class ModelFacts:
    """Facts learned while talking to a model, so that a refusal is met once and not at each start. Names are those that
    people use."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def abilities(self, name: str) -> Abilities:
        found = self._store.rows("SELECT sees_images, calls_tools, takes_schema FROM models WHERE name = ?", name)
        sees, calls, takes = (can != 0 for can in (found[0] if found else (None, None, None)))
        return Abilities(sees, calls, takes, partial(self.lacks, name))

    def lacks(self, name: str, ability: Ability) -> None:
        self._learn(ability, name, 0)

    def window(self, name: str) -> int | None:
        """Tokens that a request and its answer may have together; None if unknown."""
        return self._fact("window_tokens", name)

    def learned_window(self, name: str, tokens: int) -> None:
        """Store a window; the newest counts, as a server may be restarted with another one."""
        if tokens > 0:
            self._learn("window_tokens", name, tokens)

    def forget_window(self, name: str) -> bool:
        """Forget a window. True if one was known. Abilities that were refused are tried again after the next start."""
        known = self.window(name) is not None
        sql = "UPDATE models SET window_tokens = NULL, calls_tools = NULL, takes_schema = NULL WHERE name = ?"
        if known or not all(self.abilities(name)[1:3]):
            with self._store.transaction() as db:
                db.execute(sql, (name,))
        return known

    def _fact(self, column: str, name: str) -> int | None:
        found = self._store.rows(f"SELECT {column} FROM models WHERE name = ?", name)
        return found[0][0] if found else None

    def _learn(self, column: str, name: str, value: int) -> None:
        with self._store.transaction() as db:
            sql = (
                f"INSERT INTO models (name, {column}) VALUES (?, ?)"
                f" ON CONFLICT (name) DO UPDATE SET {column} = excluded.{column}"
            )
            db.execute(sql, (name, value))
