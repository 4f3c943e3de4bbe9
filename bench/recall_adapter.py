"""Lets a harness measure recall: (workspace, query, history, now, budget) to (file, first line, last line, text)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.memory.index import Index
from nanoclaw.plugins.memory.recall import recall

_indexes: dict[str, Index] = {}
_folder = tempfile.TemporaryDirectory()


def ranked(
    workspace: str, query: str, history: Sequence[Mapping[str, str]], now: str, budget: int, careful: bool = False
) -> list[tuple[str, int, int, str]]:
    """The ranking itself, also where the match is weak."""
    if workspace not in _indexes:
        file = Path(_folder.name) / f"{len(_indexes)}.db"
        _indexes[workspace] = Index(Workspace(Path(workspace)), file)
    talk = [message["content"] for message in history]
    hits = recall(_indexes[workspace], query, talk, datetime.fromisoformat(now), budget, careful=careful)
    return [(hit.file, hit.start, hit.end, hit.text) for hit in hits]


def automatic(
    workspace: str, query: str, history: Sequence[Mapping[str, str]], now: str, budget: int
) -> list[tuple[str, int, int, str]]:
    """What comes up by itself: nothing when the match is weak."""
    return ranked(workspace, query, history, now, budget, careful=True)
