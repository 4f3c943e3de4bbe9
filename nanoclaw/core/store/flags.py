"""Switches that outlive the process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from nanoclaw.core.store.db import Store

PANIC = "panic"
"""On while everything is frozen; its value is the last outbox row before it."""


class Flags:
    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store, self._clock = store, clock
        self._on: dict[str, str] = dict(store.rows("SELECT name, value FROM flags"))

    def get(self, name: str) -> str | None:
        """The value of a switch that is on, None when it is off."""
        return self._on.get(name)

    def set(self, name: str, value: str) -> None:
        with self._store.transaction() as db:
            sql = "INSERT INTO flags (name, value, at) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET value = ?2"
            db.execute(sql, (name, value, self._clock().isoformat()))
        self._on[name] = value

    def clear(self, name: str) -> None:
        with self._store.transaction() as db:
            db.execute("DELETE FROM flags WHERE name = ?", (name,))
        self._on.pop(name, None)
