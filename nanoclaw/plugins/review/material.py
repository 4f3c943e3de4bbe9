"""The material of a review: MEMORY.md, the day's note, and what was said with the owner that day."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from nanoclaw.core.messages import Address, AssistantMessage, UserMessage
from nanoclaw.core.plugin import Host
from nanoclaw.outside_text import own_words

PROMPT = (
    "Look back on this day for the person. Below are MEMORY.md, the day's notes, and what was said. Call propose "
    "once: facts that will matter on another day and are not in MEMORY.md, its lines that the day shows to be "
    "outdated, and what was promised or planned and is open. At most eight in all, in the person's language; empty "
    "lists where there is nothing. The person decides; nothing is written before."
)
MOST_FACTS, MOST_NOTES, MOST_TALK = 6_000, 6_000, 12_000
"""Characters of each; of talk the last ones."""
MOST_OF_ONE = 1_000


def question(host: Host, now: datetime) -> UserMessage | None:
    """The question about a day; None if nothing was noted or said."""
    memory = host.get("memory")
    if memory is None:
        return None
    notes = memory.own(memory.today()).strip()
    talk = "\n".join(line for place in _owners(host) for line in _said(host, place, now))
    if not notes and not talk:
        return None
    facts = memory.own("MEMORY.md").strip()
    parts = [
        PROMPT,
        f"## MEMORY.md\n{facts[:MOST_FACTS] or '(empty)'}",
        f"## Notes of the day\n{notes[-MOST_NOTES:] or '(none)'}",
        f"## Said\n{talk[-MOST_TALK:] or '(nothing)'}",
    ]
    return UserMessage("\n\n".join(parts), now, "job")


def _owners(host: Host) -> Iterator[Address]:
    """Conversations that only the owner reads, except those that are not kept."""
    access = host.get("access")
    for place in (Address(*one.key.partition(":")[::2]) for one in host.conversations.all()):
        if place.channel == "terminal" or (access and access.is_owners(place)):
            yield place


def _said(host: Host, place: Address, now: datetime) -> Iterator[str]:
    """Lines of either side on that day; what others wrote is left out, and answers after reading it."""
    is_of_today = has_read = False
    for message in host.conversations.of(place).whole():
        if isinstance(message, UserMessage):
            has_read = has_read and message.origin != "person"
            is_of_today = message.at.astimezone(now.tzinfo).date() == now.date()
        has_read = has_read or bool(getattr(message, "outside", ""))
        if not is_of_today or not message.text.strip():
            continue
        if isinstance(message, UserMessage) and message.origin == "person" and (words := own_words(message.text)):
            yield f"Person: {words[:MOST_OF_ONE]}"
        elif isinstance(message, AssistantMessage) and not has_read:
            yield f"You: {message.text[:MOST_OF_ONE]}"
