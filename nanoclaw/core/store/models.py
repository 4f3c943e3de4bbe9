"""Facts learned of each model while talking to it, so that a refusal is met once and not at each start."""

from __future__ import annotations

from nanoclaw.core.store.db import Store


class ModelFacts:
    """By the names that people give models. None is what nobody has learned yet."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def sees_images(self, name: str) -> bool | None:
        found = self._fact("sees_images", name)
        return None if found is None else bool(found)

    def refused_images(self, name: str) -> None:
        self._learn("sees_images", name, 0)

    def window(self, name: str) -> int | None:
        """Tokens that a request and its answer may have together."""
        return self._fact("window_tokens", name)

    def learned_window(self, name: str, tokens: int) -> None:
        """The newest word on it counts: a server may be started with another window."""
        if tokens > 0:
            self._learn("window_tokens", name, tokens)

    def forget_window(self, name: str) -> bool:
        """True if one had been learned."""
        known = self.window(name) is not None
        if known:
            with self._store.transaction() as db:
                db.execute("UPDATE models SET window_tokens = NULL WHERE name = ?", (name,))
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
