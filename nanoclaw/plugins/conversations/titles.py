"""Titles in the store: those that a model made, and first words where it made none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from nanoclaw.core.plugin import ConversationInfo
from nanoclaw.escapes import one_line
from nanoclaw.outside_text import own_words, without_documents

Rows = Callable[..., list[Any]]
"""The rows of a statement."""

LONGEST = 60
"""Characters of a title."""

SECOND = timedelta(seconds=1)

_MADE = "SELECT conversation, context, title FROM conversations_titles"


def titled(rows: Rows, found: Sequence[ConversationInfo]) -> list[dict[str, Any]]:
    """Describe each conversation: name, title ('' for nothing), number of messages, and time of the last."""
    is_there = rows("SELECT 1 FROM sqlite_master WHERE name = 'conversations_titles'")
    made = {(name, context): title for name, context, title in (rows(_MADE) if is_there else ())}
    titles = [one_line(made.get(one[:2]) or without_documents(own_words(one.words)), LONGEST) for one in found]
    return [
        {"name": one.key, "title": title, "messages": one.messages, "last": one.last}
        for one, title in zip(found, titles, strict=True)
    ]


def age(at: str, now: datetime) -> str:
    """A day of the person's and how long ago that was: "2026-03-06, 2 hours ago"; '' for no time."""
    if not at:
        return ""
    from nanoclaw.time_words.format import distance

    when = datetime.fromisoformat(at)
    when = (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(now.tzinfo)
    return f"{when:%Y-%m-%d}, {distance(min(when - now, -SECOND))}"


def size(row: Mapping[str, Any]) -> str:
    return f"{row['messages']:,} message{'s' * (row['messages'] != 1)}"
