"""What tools did: a line before each effect and its outcome after it, in the transactions that a turn makes anyway."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from nanoclaw.core.messages import Address, Effect
from nanoclaw.core.store.db import Store

RECENT = 1_000
"""Among so many lines a turn's own are looked for."""

_COLUMNS = "tool, kind, target, text, state, before, after, id, at, turn"


class Ledger:
    """Kept for good. What is asked for comes newest first, but for the effects of one turn."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store, self._clock = store, clock

    def add(self, effect: Effect, address: str) -> None:
        """A effect that no turn did; `address` is its conversation, '' for none."""
        with self._store.transaction() as db:
            insert(db, address, None, self._clock(), [effect])

    def of_turn(self, turn: int) -> list[Effect]:
        """In the order in which they were done; of a turn that is not long past."""
        # an index would cost a page of the journal for each step of each turn
        return self._effects("id > (SELECT max(id) FROM ledger) - ? AND turn = ? ORDER BY id", RECENT, turn)

    def of(self, address: Address, count: int) -> list[Effect]:
        return self._effects("address = ? ORDER BY id DESC LIMIT ?", str(address), count)

    def of_files(self, count: int) -> list[Effect]:
        """Those of files in all conversations that left something to undo."""
        return self._effects(
            "before IS NOT NULL AND before <> after AND state IN ('done', 'failed') ORDER BY id DESC LIMIT ?", count
        )

    def mark_undone(self, effect: Effect) -> None:
        with self._store.transaction() as db:
            db.execute("UPDATE ledger SET state = 'undone', told = 0 WHERE id = ?", (effect.id,))

    def untold(self, address: Address) -> list[Effect]:
        """Undone, and the model of the conversation has not been told."""
        return self._effects("state = 'undone' AND told = 0 AND address = ? ORDER BY id DESC", str(address))

    def rename(self, hashes: Mapping[str, str]) -> list[tuple[int, str | None, str | None]]:
        """Contents have become others: words were taken out of them. What the lines said until now: number, before,
        after."""
        sql = "SELECT id, before, after FROM ledger WHERE before IN (SELECT value FROM json_each(?1))"
        old = self._store.rows(f"{sql} OR after IN (SELECT value FROM json_each(?1))", json.dumps(list(hashes)))
        with self._store.transaction() as db:
            for column in ("before", "after"):
                sql = f"UPDATE ledger SET {column} = ? WHERE {column} = ?"
                db.executemany(sql, [(new, old) for old, new in hashes.items()])
        return [(row[0], row[1], row[2]) for row in old]

    def put_back(self, lines: Iterable[tuple[int, str | None, str | None]]) -> None:
        """What lines said before `rename`."""
        with self._store.transaction() as db:
            sql = "UPDATE ledger SET before = ?, after = ? WHERE id = ?"
            db.executemany(sql, [(before, after, number) for number, before, after in lines])

    def _effects(self, where: str, *values: object) -> list[Effect]:
        return [_effect(row) for row in self._store.rows(f"SELECT {_COLUMNS} FROM ledger WHERE {where}", *values)]


def insert(
    db: sqlite3.Connection, address: str, turn: int | None, now: datetime, effects: Sequence[Effect]
) -> list[int | None]:
    """Add lines inside the caller's transaction; their numbers."""
    sql = (
        "INSERT INTO ledger (at, address, turn, tool, kind, target, text, state, before, after)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    return [db.execute(sql, (now.isoformat(), address, turn, *_values(effect))).lastrowid for effect in effects]


def settle(db: sqlite3.Connection, rows: Sequence[int | None], effects: Sequence[Effect]) -> None:
    """Write the outcome of effects over the lines that `insert` made of them, inside the caller's transaction."""
    sql = "UPDATE ledger SET tool = ?, kind = ?, target = ?, text = ?, state = ?, before = ?, after = ? WHERE id = ?"
    db.executemany(sql, [(*_values(effect), row) for effect, row in zip(effects, rows, strict=True)])


def tell_undone(db: sqlite3.Connection, address: str) -> None:
    """The model of a conversation is told of all that was undone, inside the caller's transaction."""
    db.execute("UPDATE ledger SET told = 1 WHERE state = 'undone' AND told = 0 AND address = ?", (address,))


def _values(effect: Effect) -> tuple[str | None, ...]:
    words = (
        text.encode("utf-8", "replace").decode() for text in (effect.tool, effect.kind, effect.target, effect.text)
    )
    return (*words, effect.state, effect.before, effect.after)


def _effect(row: Any) -> Effect:
    tool, kind, target, text, state, before, after, id_, at, turn = row
    return Effect(tool, kind, target, text, state, before, after, id_, datetime.fromisoformat(at), turn)
