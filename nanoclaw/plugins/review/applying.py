"""Taking up what the person accepted: a fact is noted, an outdated one struck, a promise becomes a reminder."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Effect
from nanoclaw.core.plugin import Host, Said
from nanoclaw.plugins.review.plugin import OTHER_WORDS


async def apply(host: Host, said: Said, kind: str, text: str) -> str:
    """Apply one proposal; the result, in words."""
    try:
        if kind == "promise":
            return (await host.carry_out("remind", said._replace(argument=text))).text
        memory = host.get("memory")
        if kind == "fact":
            fact, _, also = text.partition(OTHER_WORDS)
            words = f' --also "{also.replace(chr(34), " ")}"' if also.strip() else ""
            return (await host.carry_out("memory", said._replace(argument=f"add --fact{words} {fact}"))).text
        return _strike(host, memory, said, text)
    except NanoclawError as error:
        return f"Not done: {error}"


def _strike(host: Host, memory: Any, said: Said, text: str) -> str:
    undo, line = host.get("undo"), memory.outdated(text)
    effect = Effect("/review", "fact", line.file, f"struck “{text[:60]}”")
    with undo.of(effect, conversation=said.conversation) if undo else nullcontext():
        return f"Struck in {line.file}: {memory.end(line)}"
