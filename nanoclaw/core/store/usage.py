"""Requests to models in the store: the tokens of each, with the turn that it belongs to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from nanoclaw.core.messages import Origin, Usage
from nanoclaw.core.store.db import Store


class Call(NamedTuple):
    """One request to a model. `estimated` is our own count of its input, 0 if none was made; where the provider told
    nothing (`is_reported` is False), so is `usage`. `is_local`: answered on the person's own machine."""

    model: str
    usage: Usage
    estimated: int = 0
    is_reported: bool = True
    is_local: bool = False


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


def past_counts(store: Store, model: str, limit: int = 20) -> list[tuple[int, int]]:
    """The newest pairs of our own count and the provider's, oldest first."""
    sql = (
        "SELECT estimated, input_tokens FROM usage WHERE model = ? AND estimated > 0 AND is_reported"
        " ORDER BY id DESC LIMIT ?"
    )
    return [(estimated, reported) for estimated, reported in reversed(store.rows(sql, model, limit))]
