"""Audit log: a line before each effect of a tool and its outcome after it, in transactions that a turn makes anyway."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from nanoclaw.core.messages import Effect

if TYPE_CHECKING:
    from nanoclaw.core.store.db import Store

RECENT = 1_000
"""Number of newest lines among which those of a turn are searched."""

COLUMNS = "tool, kind, target, text, state, before, after, id, at, turn"


INSERT = (
    "INSERT INTO ledger (at, address, turn, tool, kind, target, text, state, before, after)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def of_turn(store: Store, turn: int) -> list[Effect]:
    """Effects of a recent turn in order, including those that have only begun."""
    # an index would cost a page of the journal for each step of each turn
    sql = f"SELECT {COLUMNS} FROM ledger WHERE id > (SELECT max(id) FROM ledger) - ? AND turn = ? ORDER BY id"
    return [effect_of(row) for row in store.rows(sql, RECENT, turn)]


def insert(
    db: sqlite3.Connection, address: str, turn: int | None, now: datetime, effects: Sequence[Effect]
) -> list[int | None]:
    """Add lines inside the caller's transaction; their numbers."""
    return [db.execute(INSERT, row_of(effect, address, turn, now)).lastrowid for effect in effects]


def finish(db: sqlite3.Connection, rows: Sequence[int | None], effects: Sequence[Effect]) -> None:
    """Write the outcome of effects over the lines that `insert` made of them, inside the caller's transaction."""
    sql = "UPDATE ledger SET tool = ?, kind = ?, target = ?, text = ?, state = ?, before = ?, after = ? WHERE id = ?"
    db.executemany(sql, [(*_values(effect), row) for effect, row in zip(effects, rows, strict=True)])


def row_of(effect: Effect, address: str, turn: int | None, now: datetime) -> tuple[object, ...]:
    """The values of INSERT."""
    return (now.isoformat(), address, turn, *_values(effect))


def _values(effect: Effect) -> tuple[str | None, ...]:
    words = (
        text.encode("utf-8", "replace").decode() for text in (effect.tool, effect.kind, effect.target, effect.text)
    )
    return (*words, effect.state, effect.before, effect.after)


def effect_of(row: Any) -> Effect:
    """An effect from the columns of COLUMNS."""
    tool, kind, target, text, state, before, after, id_, at, turn = row
    return Effect(tool, kind, target, text, state, before, after, id_, datetime.fromisoformat(at), turn)
