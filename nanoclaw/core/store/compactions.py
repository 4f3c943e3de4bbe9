"""Texts that a model is shown in place of a conversation's older messages; the messages stay as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from nanoclaw.core.messages import AssistantMessage, Message, ToolResult

SHORT = 1_000
"""Characters kept of an old tool result when room is needed."""

OTHER_TEXTS, PICTURE = 10, 6_000
"""Other texts keep so many times more; a picture counts as so many characters."""

NOTE = 80
"""Characters added by the note about what is left out: a shortened text is not shortened again."""


class Placed(NamedTuple):
    """A message of the history and its row in the store; 0 for a summary, which has none."""

    id: int
    turn: int
    message: Message


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


def shortened_upto(placed: Iterable[Placed], upto: int, chars: int) -> list[Placed]:
    """Shorten the long texts up to an id."""
    return [one._replace(message=shortened(one.message, chars)) if 0 < one.id <= upto else one for one in placed]
