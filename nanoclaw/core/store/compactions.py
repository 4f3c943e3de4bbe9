"""Summaries that a model is shown in place of a conversation's older messages; the messages stay as they are."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from nanoclaw.core.messages import Message, ToolResult, UserMessage
from nanoclaw.core.store.db import Store

LONG_RESULT = 4_000
"""A tool's result with more characters than this is shortened where room is needed."""

KEPT = 1_500
"""Characters that are left of each of its ends."""


class ShownInstead(NamedTuple):
    """`summary` stands for all messages of a context up to `upto`; long results up to `short` are shown shortened."""

    summary: UserMessage | None = None
    upto: int = 0
    short: int = 0


def instead(store: Store, session: int, context: int) -> ShownInstead:
    """The summary and the shortening that hold for a context now."""
    where = "FROM compactions WHERE session = ? AND context = ? AND kind = ? ORDER BY id DESC LIMIT 1"
    short = store.rows(f"SELECT upto {where}", session, context, "short")
    found = store.rows(f"SELECT summary, at, upto {where}", session, context, "summary")
    shown = ShownInstead(short=short[0][0] if short else 0)
    if not found:
        return shown
    text, at, upto = found[0]
    sql = (
        "SELECT DISTINCT body ->> 'outside' FROM messages WHERE session = ? AND context = ? AND id <= ?"
        " AND json_valid(body) AND body ->> 'outside' <> ''"
    )
    sources = ", ".join(source for (source,) in store.rows(sql, session, context, upto))
    return shown._replace(summary=UserMessage(text, datetime.fromisoformat(at), "runtime", (), sources), upto=upto)


def shortened(message: Message) -> Message:
    """A long tool result with its middle left out; any other message as it is."""
    if not isinstance(message, ToolResult) or len(message.text) <= LONG_RESULT:
        return message
    left_out = f"\n[... {len(message.text) - 2 * KEPT:,} characters were left out later, to make room ...]\n"
    return message._replace(text=message.text[:KEPT] + left_out + message.text[-KEPT:])
