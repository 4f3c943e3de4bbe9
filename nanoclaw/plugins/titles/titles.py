"""Titles in the store: those that a model made, and first words where it made none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nanoclaw.documents.marks import without_documents
from nanoclaw.escapes import one_line

Rows = Callable[..., list[Any]]
"""The rows of a statement."""

LONGEST = 60
"""Characters of a title."""

_FIRST = """SELECT key, (
    SELECT json_extract(body, '$.text') FROM messages
    WHERE messages.session = sessions.id AND messages.context = sessions.context AND json_valid(body)
    AND json_extract(body, '$.kind') = 'user' AND json_extract(body, '$.origin') <> 'runtime'
    ORDER BY id LIMIT 1
) FROM sessions"""
_MADE = """SELECT conversation, title FROM titles_made
    JOIN sessions ON sessions.key = titles_made.conversation AND sessions.context = titles_made.context"""


def titles(rows: Rows) -> dict[str, str]:
    """The title of the newest context of each conversation, by its name; '' if nothing was said in it."""
    found = {key: one_line(without_documents(text or ""), LONGEST) for key, text in rows(_FIRST)}
    if rows("SELECT 1 FROM sqlite_master WHERE name = 'titles_made'"):
        found.update((key, one_line(title, LONGEST)) for key, title in rows(_MADE))
    return found
