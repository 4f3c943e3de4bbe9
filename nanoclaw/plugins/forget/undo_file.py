"""The one private file that can bring back what was forgotten, for ten minutes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from nanoclaw.atomic_write import write_atomically
from nanoclaw.core.errors import WorkspaceError

KEEP_FOR = timedelta(minutes=10)


class UndoFile:
    """Removed texts of the last forgettings, newest last. Whatever is asked of it first deletes those that are too old,
    and with the last of them the file."""

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self.path, self._clock = path, clock

    def keep(self, removed: Mapping[str, Any]) -> None:
        """Raises WorkspaceError if it cannot be written."""
        self._save([*self._current(), {"at": self._clock().isoformat(), **removed}])

    def newest(self) -> Mapping[str, Any] | None:
        return current[-1] if (current := self._current()) else None

    def since(self) -> datetime | None:
        """Time of the newest forgetting that can be undone."""
        newest = self.newest()
        return datetime.fromisoformat(newest["at"]) if newest else None

    def drop_newest(self) -> None:
        self._save(self._current()[:-1])

    async def expire(self) -> None:
        """Wait until the time of the newest is over, so that all are deleted."""
        while self.since():  # noqa: ASYNC110  (other processes write it, too)
            await asyncio.sleep(KEEP_FOR.total_seconds() + 1)

    def _current(self) -> list[dict[str, Any]]:
        try:
            kept: list[dict[str, Any]] = json.loads(self.path.read_bytes())
            current = [each for each in kept if self._is_current(datetime.fromisoformat(each["at"]))]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            kept, current = [], []
        if not current or len(current) < len(kept):
            self._save(current)
        return current

    def _is_current(self, at: datetime) -> bool:
        return abs(self._clock() - at) <= KEEP_FOR  # of a clock that was set back nobody knows how far

    def _save(self, kept: list[dict[str, Any]]) -> None:
        if not kept:
            with suppress(OSError):
                self.path.unlink()
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self.path, json.dumps(kept), 0o600)
        except OSError as error:
            raise WorkspaceError(f"no copy could be kept in {self.path}: {error.strerror}.") from None
