"""Texts that a model is shown in place of a conversation's older messages; the messages stay as they are."""

from __future__ import annotations

from datetime import datetime

from nanoclaw.core.messages import AssistantMessage, Message, ToolResult, UserMessage
from nanoclaw.core.store.db import Store

SHORT = 1_000
"""Characters kept of an old tool result when room is needed."""

OTHER_TEXTS, PICTURE = 10, 6_000
"""Other texts keep so many times more; a picture counts as so many characters."""

NOTE = 80
"""Characters added by the note about what is left out: a shortened text is not shortened again."""


def instead(
    store: Store, session: int, context: int, with_lines: bool
) -> tuple[list[UserMessage], int, list[tuple[int, int]]]:
    """Texts that stand for all messages of a context up to an id: a summary, then lines for turns that none was written
    of; and how many characters are left of results up to which ids."""
    where = "FROM compactions WHERE session = ? AND context = ? AND kind = ?"
    short = store.rows(f"SELECT chars, max(upto) {where} AND summary = '' GROUP BY chars", session, context, "short")
    texts, last, upto = list[UserMessage](), 0, 0
    outside = (
        "SELECT DISTINCT body ->> 'outside' FROM messages WHERE session = ? AND context = ? AND id <= ?"
        " AND instr(body, '\"outside\"') AND json_valid(body) AND body ->> 'outside' <> ''"
    )
    for kind in ("summary", "short") if with_lines else ("summary",):  # a summary takes the place of earlier lines
        sql = f"SELECT id, summary, at, upto {where} AND summary <> '' AND id > ? ORDER BY id DESC LIMIT 1"
        for row in store.rows(sql, session, context, kind, last):
            last, text, at, upto = row
            sources = ", ".join(source for (source,) in store.rows(outside, session, context, upto))
            texts.append(UserMessage(text, datetime.fromisoformat(at), "runtime", (), sources))
    return texts, upto, short


def shortened(message: Message, chars: int = SHORT) -> Message:
    """Leave out the middle of a long text, and the oldest of many pictures; 0: none."""
    most, pictures = chars if isinstance(message, ToolResult) else chars * OTHER_TEXTS, getattr(message, "images", ())
    gone = pictures[: max(0, len(pictures) - most // PICTURE)] if most else ()
    if most and len(message.text) > most:
        end = (most - NOTE) // 2
        left_out = f"\n[... {len(message.text) - 2 * end:,} characters were left out later, to make room ...]\n"
        message = message._replace(text=message.text[:end] + left_out + message.text[-end:])
    if not gone or isinstance(message, AssistantMessage):
        return message
    lines = [f"[image {one.name or 'without a name'} was left out later, to make room]" for one in gone]
    return message._replace(text="\n".join(filter(None, (message.text, *lines))), images=pictures[len(gone) :])
