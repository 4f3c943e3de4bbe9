"""Titles in the store: those that a model made, and first words where it made none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nanoclaw.documents.marks import without_documents
from nanoclaw.escapes import one_line

Rows = Callable[..., list[Any]]
"""The rows of a statement."""

LONGEST = 60
"""Characters of a title."""

_MADE = "SELECT conversation, context, title FROM titles_made"


def titles(rows: Rows, first: Iterable[tuple[str, int, str]]) -> dict[str, str]:
    """The title of each conversation, by its name. `first` are, with name and context, the first words of each; '' for
    nothing."""
    is_there = rows("SELECT 1 FROM sqlite_master WHERE name = 'titles_made'")
    made = {(name, context): title for name, context, title in (rows(_MADE) if is_there else ())}
    return {
        name: one_line(made.get((name, context)) or without_documents(words), LONGEST) for name, context, words in first
    }
