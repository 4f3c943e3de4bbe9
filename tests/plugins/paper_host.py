"""A host on paper: one SQLite file with a plugin's own tables, a clock that is moved by hand, and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from nanoclaw.core.messages import Address, Outbound
from nanoclaw.core.plugin import Plugin
from nanoclaw.core.records import Records

T = TypeVar("T")
NOON = datetime(2026, 5, 3, 12, tzinfo=UTC)


class PaperTx:
    def __init__(self, host: PaperHost) -> None:
        self._host = host
        self.calls: list[Callable[[], object]] = []

    def execute(self, sql: str, *values: object) -> list[Any]:
        return self._host.read(sql, *values)

    def send(self, outbound: Outbound, remark: str = "", *, is_news: bool = True) -> int:
        self._host.sent.append(outbound)
        return len(self._host.sent)

    def deliver(self, inbound: Any, profile: Any = None) -> int | None:
        raise NotImplementedError

    def after(self, call: Callable[[], object]) -> None:
        self.calls.append(call)


class PaperHost:
    def __init__(self, path: Path, plugin: type[Plugin], services: Mapping[str, Any] | None = None) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        for script in plugin.migrations[self.read("PRAGMA user_version")[0][0] :]:
            self.db.executescript(script)
        self.db.execute(f"PRAGMA user_version = {len(plugin.migrations)}")
        self.time, self.sent, self._services = NOON, list[Outbound](), services or {}
        self.log: Any = None
        self.models = self._services.get("models")
        self.records = Records(self.read)

    def later(self, **span: float) -> None:
        self.time += timedelta(**span)

    def now(self) -> datetime:
        return self.time

    def read(self, sql: str, *values: object) -> list[Any]:
        return self.db.execute(sql, values).fetchall()

    async def write(self, change: Callable[[Any], T]) -> T:
        return self.written(change)

    def written(self, change: Callable[[Any], T]) -> T:
        """A change of which all is kept or nothing."""
        tx = PaperTx(self)
        self.db.execute("BEGIN IMMEDIATE")
        try:
            result = change(tx)
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")
        for call in tx.calls:
            call()
        return result

    def get(self, name: str) -> Any:
        return self._services.get(name)

    def channel(self, name: str) -> Any:
        return None

    def owner(self) -> Address | None:
        return None
