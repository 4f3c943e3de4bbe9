"""The plugin: the tool that lists what has the words, then takes it out everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nanoclaw.core.errors import Refused
from nanoclaw.core.messages import Effect, ToolExample
from nanoclaw.core.plugin import Host, Plugin, Tool
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import visible
from nanoclaw.plugins.forget.undo_file import UndoFile

if TYPE_CHECKING:
    from nanoclaw.plugins.forget.forgetting import Forgetter


class Forget(Plugin):
    name = "forget"

    def __init__(self, host: Host, settings: None) -> None:
        home = host.program_home
        self._undo_file = UndoFile(home / "plugins" / self.name / "undo.json", host.now)
        self._undo_file.newest()  # what is too old goes at every start
        for old in home.glob("forgotten.*"):  # earlier versions kept it there, in two files
            old.unlink(missing_ok=True)
        self._host = host
        examples = [ToolExample("Forget my old address", {"query": "address"})]
        made = tool(self._memory_forget, reach="workspace", examples=examples, open_to=("person", "job", "heartbeat"))
        self._tool = made._replace(audit=_planned)

    @cached_property
    def public(self) -> Forgetter:
        from nanoclaw.plugins.forget.forgetting import Forgetter

        return Forgetter(self._host, self._undo_file)

    def tools(self) -> Iterable[Tool]:
        return [self._tool]

    def files(self) -> Mapping[Path, Literal["kept", "derived"]]:
        return {self._undo_file.path: "derived"}

    async def run(self) -> None:
        await self._undo_file.expire()

    async def _memory_forget(self, context: ToolContext, query: str, numbers: list[int] | None = None) -> str:
        """Forget for good. First lists what has the words; then call again with the numbers the person confirms."""
        if numbers:
            if context.origin != "person":
                raise Refused("only the person can have something forgotten: tell them, they can ask for it.")
            forgotten = self.public.forget(query, numbers, context.conversation)
            if context.turn:
                await context.write(lambda tx: None)  # a crash from here on is told as "took effect"
            return f"{forgotten.summary()} Tell the person: {forgotten.way_back('/memory undo')}"
        listing = self.public.find(query)
        if not listing.count:
            return "[nothing in notes or conversations has these words]"
        return visible(listing.shown()) + "\n[nothing is forgotten yet: which numbers?]"


def _planned(arguments: dict[str, Any]) -> Effect | None:
    if not arguments.get("numbers"):
        return None
    return Effect("memory_forget", "forgetting", "", "forgot what was asked for")
