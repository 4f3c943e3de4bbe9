"""Reads the audit log, which is the core's, and marks in it which effects were undone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from nanoclaw.core.messages import Address, Effect
from nanoclaw.core.plugin import Host, Tx
from nanoclaw.core.store.audit import COLUMNS, INSERT, effect_of, row_of

LOOKED_AT = 1_000
"""So many changes of files are looked at, the newest ones."""


class AuditLog:
    """Lists are newest first."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def of(self, conversation: Address, count: int, before: Effect | None = None) -> list[Effect]:
        """The last ones of a conversation, or the last before one."""
        first = before.id if before else 2**63 - 1
        return self._effects("address = ? AND id < ? ORDER BY id DESC LIMIT ?", str(conversation), first, count)

    def of_files(self, *, undone: bool = False) -> list[Effect]:
        """Those of files in all conversations that left something to undo, or with those that were `undone`."""
        states = "('done', 'failed', 'undone')" if undone else "('done', 'failed')"
        where = f"before IS NOT NULL AND before <> after AND state IN {states}"
        return self._effects(f"{where} ORDER BY id DESC LIMIT ?", LOOKED_AT)

    def untold(self, conversation: Address) -> list[Effect]:
        """Undone, and the model of the conversation has not been told."""
        return self._effects("state = 'undone' AND told = 0 AND address = ? ORDER BY id DESC", str(conversation))

    def add(self, tx: Tx, effect: Effect, conversation: Address | None = None, turn: int | None = None) -> None:
        """A further effect; `conversation` is None if it belongs to none."""
        tx.execute(INSERT, *row_of(effect, str(conversation or ""), turn or None, self._host.now()))

    def mark_undone(self, tx: Tx, effect: Effect) -> None:
        tx.execute("UPDATE ledger SET state = 'undone', told = 0 WHERE id = ?", effect.id)

    def mark_told(self, tx: Tx, conversation: Address) -> None:
        """The model of a conversation is told of all that was undone."""
        tx.execute("UPDATE ledger SET told = 1 WHERE state = 'undone' AND told = 0 AND address = ?", str(conversation))

    def rename(self, tx: Tx, hashes: Mapping[str, str]) -> list[tuple[int, str | None, str | None]]:
        """Note that contents have changed, because words were removed from them. Returns what the lines said until
        now: number, before, after."""
        among = "IN (SELECT value FROM json_each(?1))"
        old = tx.execute(
            f"SELECT id, before, after FROM ledger WHERE before {among} OR after {among}", json.dumps(list(hashes))
        )
        for column in ("before", "after"):
            for one, other in hashes.items():
                tx.execute(f"UPDATE ledger SET {column} = ? WHERE {column} = ?", other, one)
        return [(row[0], row[1], row[2]) for row in old]

    def put_back(self, tx: Tx, lines: Iterable[tuple[int, str | None, str | None]]) -> None:
        """Undo `rename`."""
        for number, before, after in lines:
            tx.execute("UPDATE ledger SET before = ?, after = ? WHERE id = ?", before, after, number)

    def _effects(self, where: str, *values: object) -> list[Effect]:
        return [effect_of(row) for row in self._host.read(f"SELECT {COLUMNS} FROM ledger WHERE {where}", *values)]


def when(effect: Effect) -> str:
    """The time of an effect, in words."""
    return f"{effect.at:%Y-%m-%d %H:%M}" if effect.at else "an unknown time"
