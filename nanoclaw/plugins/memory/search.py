"""One search of the notes for all who look things up: the index is made when somebody asks first."""

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

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.index import Index
    from nanoclaw.plugins.memory.recall import Hit

LONGEST_NOTE = 280
"""Characters of a note that comes up by itself."""


class NoteSearch:
    """May be asked from any thread. Raises nothing: an unreadable note is passed over, a damaged index made anew.

    Much that is new (years of notes, the first time) is taken up in a thread of its own, the newest first: who asks
    from an event loop is answered from what is there so far, anybody else waits for all of it.
    """

    def __init__(self, workspace: Workspace, index_file: Path, clock: Callable[[], datetime]) -> None:
        self._workspace, self._file, self._clock = workspace, index_file, clock
        self._made: Index | None = None
        self._builder: threading.Thread | None = None
        self._lock, self._quiet, self._closing = threading.Lock(), threading.Event(), threading.Event()
        self._quiet.set()

    def search(self, query: str, limit: int) -> list[Hit]:
        """The entries that match best."""
        from nanoclaw.plugins.memory import recall

        return self._asked(lambda index: recall.search(index, query, limit, self._clock()))

    def recall(self, query: str, talk: Sequence[str], now: datetime, budget: int) -> list[Hit]:
        """What a message brings up, the best first, each cut to LONGEST_NOTE characters; often nothing."""
        if not self._has_notes():
            return []
        from nanoclaw.plugins.memory import recall

        return self._asked(lambda index: recall.recall(index, query, talk, now, budget, LONGEST_NOTE))

    def close(self) -> None:
        """What is not taken up yet is left for the next time."""
        self._closing.set()
        if builder := self._builder:
            builder.join()
        if self._made:
            self._made.close()
        self._made = None
        self._closing.clear()

    def _asked(self, ask: Callable[[Index], list[Hit]]) -> list[Hit]:
        hits = self._undisturbed(ask)
        builder = self._builder
        if builder and not _on_event_loop():
            builder.join()
            hits = self._undisturbed(ask)
        return hits

    def _undisturbed(self, ask: Callable[[Index], list[Hit]]) -> list[Hit]:
        self._quiet.clear()  # two threads that both want to compute wait for each other at every turn
        try:
            return ask(self._index())
        finally:
            self._quiet.set()

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
        from nanoclaw.plugins.memory.index import Index

        with self._lock:
            if self._builder is None:
                index = Index(self._workspace, self._file, between=self._between)
                thread = threading.Thread(target=self._take_up, args=(index,), name="notes", daemon=True)
                thread.start()
                self._builder = thread

    def _take_up(self, index: Index) -> None:
        import sqlite3

        from nanoclaw.plugins.memory.index import Stopped

        with suppress(Stopped, sqlite3.Error):  # the next question begins it again
            index.refresh()
        index.close()
        with self._lock:
            self._builder = None
            if self._made:
                self._made.resume()

    def _between(self) -> None:
        from nanoclaw.plugins.memory.index import Stopped

        self._quiet.wait()
        if self._closing.is_set():
            raise Stopped


def _on_event_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.get_running_loop() is not None
    except RuntimeError:
        return False
