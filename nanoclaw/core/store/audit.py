"""What tools did: a line before each effect and its outcome after it, in the transactions that a turn makes anyway."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from nanoclaw.core.messages import Address, Deed
from nanoclaw.core.store.db import Store

RECENT = 1_000
"""Among so many lines a turn's own are looked for."""

_COLUMNS = "tool, kind, target, text, state, before, after, id, at, turn"


class Ledger:
    """Kept for good. What is asked for comes newest first, but for the deeds of one turn."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store, self._clock = store, clock

    def add(self, deed: Deed, address: str) -> None:
        """A deed that no turn did; `address` is its conversation, '' for none."""
        with self._store.transaction() as db:
            insert(db, address, None, self._clock(), [deed])

    def of_turn(self, turn: int) -> list[Deed]:
        """In the order in which they were done; of a turn that is not long past."""
        # an index would cost a page of the journal for each step of each turn
        return self._deeds("id > (SELECT max(id) FROM ledger) - ? AND turn = ? ORDER BY id", RECENT, turn)

    def of(self, address: Address, count: int) -> list[Deed]:
        return self._deeds("address = ? ORDER BY id DESC LIMIT ?", str(address), count)

    def of_files(self, count: int) -> list[Deed]:
        """Those of files in all conversations that left something to undo."""
        return self._deeds(
            "before IS NOT NULL AND before <> after AND state IN ('done', 'failed') ORDER BY id DESC LIMIT ?", count
        )

    def mark_undone(self, deed: Deed) -> None:
        with self._store.transaction() as db:
            db.execute("UPDATE ledger SET state = 'undone', told = 0 WHERE id = ?", (deed.id,))

    def untold(self, address: Address) -> list[Deed]:
        """Undone, and the model of the conversation has not been told."""
        return self._deeds("state = 'undone' AND told = 0 AND address = ? ORDER BY id DESC", str(address))

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

    def _deeds(self, where: str, *values: object) -> list[Deed]:
        return [_deed(row) for row in self._store.rows(f"SELECT {_COLUMNS} FROM ledger WHERE {where}", *values)]


def insert(
    db: sqlite3.Connection, address: str, turn: int | None, now: datetime, deeds: Sequence[Deed]
) -> list[int | None]:
    """Add lines inside the caller's transaction; their numbers."""
    sql = (
        "INSERT INTO ledger (at, address, turn, tool, kind, target, text, state, before, after)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    return [db.execute(sql, (now.isoformat(), address, turn, *_values(deed))).lastrowid for deed in deeds]


def settle(db: sqlite3.Connection, rows: Sequence[int | None], deeds: Sequence[Deed]) -> None:
    """Write the outcome of deeds over the lines that `insert` made of them, inside the caller's transaction."""
    sql = "UPDATE ledger SET tool = ?, kind = ?, target = ?, text = ?, state = ?, before = ?, after = ? WHERE id = ?"
    db.executemany(sql, [(*_values(deed), row) for deed, row in zip(deeds, rows, strict=True)])


def tell_undone(db: sqlite3.Connection, address: str) -> None:
    """The model of a conversation is told of all that was undone, inside the caller's transaction."""
    db.execute("UPDATE ledger SET told = 1 WHERE state = 'undone' AND told = 0 AND address = ?", (address,))


def _values(deed: Deed) -> tuple[str | None, ...]:
    words = (text.encode("utf-8", "replace").decode() for text in (deed.tool, deed.kind, deed.target, deed.text))
    return (*words, deed.state, deed.before, deed.after)


def _deed(row: Any) -> Deed:
    tool, kind, target, text, state, before, after, id_, at, turn = row
    return Deed(tool, kind, target, text, state, before, after, id_, datetime.fromisoformat(at), turn)
