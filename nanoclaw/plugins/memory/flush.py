"""The flush: what is worth keeping of a conversation is noted before a summary takes its place.

`flushes` does the same for conversations that have ended; its table and place, which each start needs, are here."""

from __future__ import annotations

from nanoclaw.core.messages import Address, ModelRequest, UserMessage
from nanoclaw.core.plugin import Host, Turn

PLACE = Address("memory", "flush")
"""The conversation in which the model is asked."""

MIGRATION = """
    CREATE TABLE memory_flushes (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        after INTEGER NOT NULL,             -- the messages behind this one, up to the next one, are to be written down
        upto INTEGER NOT NULL,
        reached INTEGER NOT NULL,           -- up to here the model was asked
        is_new INTEGER NOT NULL,            -- 1: the person began anew; 0: a silence
        tries INTEGER NOT NULL DEFAULT 0,
        due REAL,                           -- when it is asked, in seconds since 1970; NULL: it is, or that is over
        kept TEXT NOT NULL DEFAULT '[]'     -- what the model wants to keep, as JSON: [is a fact, text, other words]
    ) STRICT;
    CREATE INDEX memory_flushes_of_session ON memory_flushes (session, upto);
"""

FLUSH = (
    "This conversation has grown long: a summary will take the place of everything above. Before that, keep what will "
    "matter on another day and is not in memory yet: decisions, dates, names, preferences, promises, results. Call "
    "memory_add once for each, in one sentence that can be understood alone, with its names and numbers, and in `also` "
    "other words that somebody may look for it with; kind fact only for what stays true. No other tool runs now, and "
    "the person does not see your answer. When nothing is worth keeping, answer: nothing."
)


async def flush(host: Host, request: ModelRequest, turn: Turn) -> None:
    """Ask the model for its calls of memory_add, and run them. Raises ProviderError."""
    if not any(spec.name == "memory_add" for spec in request.tools):
        return
    asked = UserMessage(FLUSH, turn.now(), "runtime")
    answer = await host.complete(request._replace(history=(*request.history, asked)), turn)
    whole = answer.tool_calls[:-1] if answer.finish == "length" else answer.tool_calls
    for call in whole:
        if call.name.strip().casefold() == "memory_add":
            await host.call(call, turn)
