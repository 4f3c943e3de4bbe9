"""Models in the store, beside the way of a message: facts learned of each, and what was spent on them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from functools import partial
from typing import Literal, get_args

from nanoclaw.core.messages import Usage
from nanoclaw.core.provider import Abilities, Ability
from nanoclaw.core.store.db import Store

By = Literal["day", "model", "session", "origin"]
BY: tuple[By, ...] = get_args(By)


def spent(store: Store, by: By, since: date | None = None) -> Iterator[tuple[str, str, Usage, bool, bool]]:
    """Requests: what each counts for, its model, its tokens, if they were reported, and if it was answered here. A day
    is that of the person's zone then."""
    key = {"day": "substr(at, 1, 10)", "model": "usage.model", "session": "coalesce(key, '')", "origin": "origin"}[by]
    sql = (
        f"SELECT {key}, usage.model, is_reported, {_local(store)}, input_tokens, output_tokens, cached_tokens"
        " FROM usage LEFT JOIN sessions ON sessions.id = usage.session WHERE substr(at, 1, 10) >= ? ORDER BY usage.id"
    )
    for name, model, told, is_local, *tokens in store.rows(sql, since.isoformat() if since else ""):
        yield name, model, Usage(*tokens), bool(told), bool(is_local)


def _local(store: Store) -> str:
    """The column if the format has it: older formats are read, too."""
    return "is_local" if store.rows("PRAGMA user_version")[0][0] > 1 else "0"


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
        found = self._store.rows("SELECT window_tokens FROM models WHERE name = ?", name)
        return found[0][0] if found else None

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

    def _learn(self, column: str, name: str, value: int) -> None:
        with self._store.transaction() as db:
            sql = (
                f"INSERT INTO models (name, {column}) VALUES (?, ?)"
                f" ON CONFLICT (name) DO UPDATE SET {column} = excluded.{column}"
            )
            db.execute(sql, (name, value))
