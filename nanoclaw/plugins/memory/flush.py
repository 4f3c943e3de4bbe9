"""The flush: what is worth keeping of a conversation is noted before a summary takes its place."""

from __future__ import annotations

from nanoclaw.core.messages import ModelRequest, UserMessage
from nanoclaw.core.plugin import Host, Turn

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
