"""The plugin: the tool that lists what has the words, then takes it out everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nanoclaw.core.errors import Refused
from nanoclaw.core.messages import Effect, ToolExample
from nanoclaw.core.plugin import Host, Plugin, Tool
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import visible

if TYPE_CHECKING:
    from nanoclaw.plugins.forget.forgetting import Forgetter


class Forget(Plugin):
    name = "forget"

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        # of earlier versions, with what was forgotten
        (host.program_home / "plugins" / self.name / "undo.json").unlink(missing_ok=True)
        examples = [ToolExample("Forget my old address", {"query": "address"})]
        made = tool(self._memory_forget, reach="workspace", examples=examples, open_to=("person", "job", "heartbeat"))
        self._tool = made._replace(audit=_planned)

    @cached_property
    def public(self) -> Forgetter:
        from nanoclaw.plugins.forget.forgetting import Forgetter

        return Forgetter(self._host)

    def tools(self) -> Iterable[Tool]:
        return [self._tool]

    async def _memory_forget(self, context: ToolContext, query: str, numbers: list[int] | None = None) -> str:
        """Forget for good. First lists what has the words; then call again with the numbers the person confirms."""
        if numbers:
            if context.origin != "person":
                raise Refused("only the person can have something forgotten: tell them, they can ask for it.")
            forgotten = self.public.forget(query, numbers, context.conversation)
            if context.turn:
                await context.write(lambda tx: None)  # a crash from here on is told as "took effect"
            return forgotten.summary()
        listing = self.public.find(query)
        if not listing.count:
            return "[nothing in notes or conversations has these words]"
        return visible(listing.shown()) + "\n[nothing is forgotten yet, and then it cannot come back: which numbers?]"


def _planned(arguments: dict[str, Any]) -> Effect | None:
    if not arguments.get("numbers"):
        return None
    return Effect("memory_forget", "forgetting", "", "forgot what was asked for")
