"""Standing rules: what the person wants to hold in every conversation, whatever becomes of its history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from nanoclaw.core.store.db import Store


class Pins:
    """In the order in which they were given. Asked anew each time, as forgetting may change them."""

    def __init__(self, store: Store | None, clock: Callable[[], datetime]) -> None:
        """Without a store, or with one of an older format that is only read, there are none."""
        self._store, self._clock = store, clock

    def all(self) -> list[str]:
        return [text for _, text in self._rows()]

    def add(self, text: str) -> None:
        assert self._store
        with self._store.transaction() as db:
            db.execute("INSERT INTO pins (at, text) VALUES (?, ?)", (self._clock().isoformat(), text))

    def remove(self, number: int) -> str:
        """Take one away by its place in the list, counted from 1; its text. Raises IndexError."""
        if number < 1:
            raise IndexError(number)
        id_, text = self._rows()[number - 1]
        assert self._store
        with self._store.transaction() as db:
            db.execute("DELETE FROM pins WHERE id = ?", (id_,))
        return text

    def _rows(self) -> list[tuple[int, str]]:
        if self._store is None or not self._store.rows("SELECT 1 FROM sqlite_schema WHERE name = 'pins'"):
            return []
        return [(id_, text) for id_, text in self._store.rows("SELECT id, text FROM pins ORDER BY id") if text.strip()]
