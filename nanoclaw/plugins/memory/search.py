"""Search of the notes, for anybody and from any thread; the index is opened by the first query."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.plugins.memory.notes import Hit

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.index import Index
    from nanoclaw.plugins.memory.vectors import VectorTable

T = TypeVar("T")

PATIENCE_STEPS = 16
"""Steps of a megabyte that a query off the event loop reads before its answer, where so much is unread: three seconds,
or however long the machine takes."""

PAUSE_SECONDS = 0.005


class NoteSearch:
    """Raises nothing: an unreadable note is passed over, a damaged index made again.

    Years of notes are read in a thread, the newest first: a query is answered from what is there so far.
    """

    def __init__(
        self, workspace: Path, index_file: Path, clock: Callable[[], datetime], vector_model: str = ""
    ) -> None:
        self._workspace, self._file, self._clock = workspace, index_file, clock
        self._vector_model = vector_model
        self.remark = ""
        """A sentence about the last query that was not answered from all the notes."""
        self._made: Index | None = None
        self._reader: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()

    def search(self, query: str, limit: int, vector: Sequence[float] | None = None) -> list[Hit]:
        """The entries that match best."""
        from nanoclaw.plugins.memory import recall

        return self._asked(lambda index: recall.search(index, query, limit, self._clock(), vector))

    def recall(
        self,
        query: str,
        talk: Sequence[str],
        now: datetime,
        budget: int,
        most: int = 0,
        is_known: Callable[[Hit], bool] = lambda hit: False,
        vector: Sequence[float] | None = None,
    ) -> list[Hit]:
        """Notes that fit a message, the best first, each cut to 280 characters; often none. At most so many (0
        for all that fit the budget), without those that are known."""
        from nanoclaw.plugins.memory import recall

        return self._asked(lambda index: recall.recall(index, query, talk, now, budget, most, is_known, vector))

    def with_vectors(
        self, do: Callable[[VectorTable], T], otherwise: T, *, follows: bool = False, writes: bool = False
    ) -> T:
        """Ask the vectors; `otherwise` where there are none. With `follows`, changed notes are indexed
        first. What `writes` raises WorkspaceError; a damaged index is made again by the next query."""
        index = self._index()
        with index.lock:
            try:
                if follows:
                    index.refresh()
                    if index.unread:
                        self._read_on()
                return do(index.vectors) if index.vectors else otherwise
            except (sqlite3.Error, ValueError, TypeError, EOFError) as error:
                if writes:
                    raise WorkspaceError(f"vectors cannot be saved in {self._file.name}: {error}") from None
                return otherwise

    def close(self) -> None:
        """Notes that are not read yet are left for the next time."""
        self._closing.set()
        if reader := self._reader:
            reader.join()
        if self._made:
            self._made.close()
        self._made = None
        self._closing.clear()

    def drop_index(self) -> None:
        """Delete the index, to the byte; the next query builds it again."""
        self.close()
        for path in self._file.parent.glob(f"{self._file.name}*"):
            path.unlink(missing_ok=True)

    def _asked(self, ask: Callable[[Index], list[Hit]]) -> list[Hit]:
        hits = self._answered(ask)
        for _ in range(PATIENCE_STEPS):
            if not self.remark or _on_event_loop() or not self._read_step():
                break
            hits = self._answered(ask)
        return hits

    def _read_step(self) -> bool:
        """Read some of what is unread, beside the reader's thread or in its place; False when that cannot be."""
        index = self._index()
        with index.lock, suppress(sqlite3.Error):
            return index.go_on()
        return False

    def _answered(self, ask: Callable[[Index], list[Hit]]) -> list[Hit]:
        index = self._index()
        try:
            with index.lock:
                try:
                    hits = ask(index)
                except (sqlite3.Error, ValueError, TypeError, EOFError):  # a damaged index: away with it, once
                    index.discard()
                    hits = ask(index)
                self.remark = _unread_remark(index)
        except sqlite3.Error as error:
            self.remark = f"notes cannot be searched: {error}"
            if "fts5" in self.remark:
                self.remark += "; a Python whose SQLite has FTS5 is needed"
            return []
        if self.remark:
            self._read_on()
        return hits

    def _new_index(self) -> Index:
        from nanoclaw.plugins.memory.index import Index

        return Index(self._workspace, self._file)

    def _index(self) -> Index:
        with self._lock:
            if self._made is None:
                self._made = self._new_index()
                if self._vector_model:
                    from nanoclaw.plugins.memory.vectors import VectorTable

                    self._made.vectors = VectorTable(self._made, self._vector_model)
            return self._made

    def _read_on(self) -> None:
        with self._lock:
            if self._reader is None and self._made:
                self._reader = threading.Thread(target=self._read, args=(self._made,), name="notes", daemon=True)
                self._reader.start()

    def _read(self, index: Index) -> None:
        """Read what is unread, a step at a time, after each of which a query gets its turn."""
        goes_on = True
        while goes_on and not self._closing.wait(PAUSE_SECONDS):
            goes_on = False
            with index.lock, suppress(sqlite3.Error):
                goes_on = index.go_on() and bool(index.unread)
        self._reader = None  # the next query begins it again


def _unread_remark(index: Index) -> str:
    read, unread = index.read_bytes, index.unread_bytes
    return f"{index.about} are still being read ({100 * read // (read + unread)} %)" if unread else ""


def _on_event_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.get_running_loop() is not None
    except RuntimeError:
        return False
