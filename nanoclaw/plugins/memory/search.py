"""Search of the notes, for anybody and from any thread; the index is opened by the first query."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.memory.notes import Hit

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.index import Index

LONGEST_NOTE = 280
"""Characters of a recalled note."""


class NoteSearch:
    """Raises nothing: an unreadable note is passed over, a damaged index made anew.

    Years of notes are indexed in a thread, the newest first: a query on an event loop is answered from what is there so
    far, any other waits for all of it.
    """

    def __init__(self, workspace: Workspace, index_file: Path, clock: Callable[[], datetime]) -> None:
        self._workspace, self._file, self._clock = workspace, index_file, clock
        self._made: Index | None = None
        self._builder: threading.Thread | None = None
        self._lock, self._closing = threading.Lock(), threading.Event()

    def search(self, query: str, limit: int) -> list[Hit]:
        """The entries that match best."""
        from nanoclaw.plugins.memory import recall

        return self._asked(lambda index: recall.search(index, query, limit, self._clock()))

    def recall(
        self,
        query: str,
        talk: Sequence[str],
        now: datetime,
        budget: int,
        most: int = 0,
        is_known: Callable[[Hit], bool] = lambda hit: False,
    ) -> list[Hit]:
        """Notes that fit a message, the best first, each cut to LONGEST_NOTE characters; often none. At most so many (0
        for all that fit the budget), without those that are known."""
        if not self._has_notes():
            return []
        from nanoclaw.plugins.memory import recall

        return self._asked(
            lambda index: recall.recall(index, query, talk, now, budget, LONGEST_NOTE, True, most, is_known)
        )

    def close(self) -> None:
        """Notes that are not indexed yet are left for the next time."""
        self._closing.set()
        if builder := self._builder:
            builder.join()
        if self._made:
            self._made.close()
        self._made = None
        self._closing.clear()

    def drop_index(self) -> None:
        """Delete the index, to the byte; the next query builds it anew."""
        self.close()
        for path in self._file.parent.glob(f"{self._file.name}*"):
            path.unlink(missing_ok=True)

    def _asked(self, ask: Callable[[Index], list[Hit]]) -> list[Hit]:
        hits = ask(self._index())
        if (builder := self._builder) and not _on_event_loop():
            builder.join()
            hits = ask(self._index())
        return hits

    def _has_notes(self) -> bool:
        try:
            with os.scandir(self._workspace.notes) as entries:
                return any(entries)
        except OSError:
            return False

    def _index(self) -> Index:
        from nanoclaw.plugins.memory.index import Index

        with self._lock:
            if self._made is None:
                self._made = Index(self._workspace, self._file, self._build)
            return self._made

    def _build(self) -> None:
        """Take up what is new in a thread of its own, with a connection of its own to the same file."""
        from nanoclaw.plugins.memory.index import Index

        with self._lock:
            if self._builder is None:
                index = Index(self._workspace, self._file, is_stopped=self._closing.is_set)
                self._builder = threading.Thread(target=self._take_up, args=(index,), name="notes", daemon=True)
                self._builder.start()

    def _take_up(self, index: Index) -> None:
        import sqlite3

        from nanoclaw.plugins.memory.index import Stopped

        with suppress(Stopped, sqlite3.Error):  # the next query begins it again
            index.refresh()
        index.close()
        with self._lock:
            self._builder = None
            if self._made:
                self._made.is_delegated = False


def _on_event_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.get_running_loop() is not None
    except RuntimeError:
        return False
