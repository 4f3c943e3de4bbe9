"""One search of the notes for all who look things up: the index is made when somebody asks first."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw.workspace.paths import Workspace

if TYPE_CHECKING:
    from nanoclaw.workspace.index import Index
    from nanoclaw.workspace.recall import Hit

LONGEST_NOTE = 280
"""Characters of a note that comes up by itself."""


class NoteSearch:
    """May be asked from any thread. Raises nothing: an unreadable note is passed over, a damaged index made anew."""

    def __init__(self, workspace: Workspace, index_file: Path, clock: Callable[[], datetime]) -> None:
        self._workspace, self._file, self._clock = workspace, index_file, clock
        self._made: Index | None = None

    def search(self, query: str, limit: int) -> list[Hit]:
        """The entries that match best."""
        from nanoclaw.workspace import recall  # dear to import, and not every run looks back

        return recall.search(self._index(), query, limit, self._clock())

    def recall(self, query: str, talk: Sequence[str], now: datetime, budget: int) -> list[Hit]:
        """What a message brings up, the best first, each cut to LONGEST_NOTE characters; often nothing."""
        if not self._has_notes():
            return []
        from nanoclaw.workspace import recall

        return recall.recall(self._index(), query, talk, now, budget, LONGEST_NOTE)

    def _has_notes(self) -> bool:
        try:
            with os.scandir(self._workspace.notes) as entries:
                return any(entries)
        except OSError:
            return False

    def close(self) -> None:
        if self._made:
            self._made.close()
        self._made = None

    def _index(self) -> Index:
        from nanoclaw.workspace.index import Index

        if self._made is None:
            self._made = Index(self._workspace, self._file)
        return self._made
