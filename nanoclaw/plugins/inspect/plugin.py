"""Inspect: /context shows what is sent, /why where the last answer came from, /show the result of a call of a tool."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address, Inbound, UserMessage
from nanoclaw.core.plugin import Command, Host, Plugin, Profile, Said

if TYPE_CHECKING:
    from nanoclaw.core.plugin import TurnRecord
    from nanoclaw.core.prompt_snapshot import Preview
    from nanoclaw.plugins.inspect.request import PromptRow

SHOW_USAGE = "/show shows the last result of a tool as a whole, /show 3 that of call 3: its line ends in #3."


class Inspect(Plugin):
    name = "inspect"

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        self.public = self._inspection = Inspection(host)

    def commands(self) -> Iterable[Command]:
        context = "what the model sees, part by part, and what it costs"
        return [
            Command("context", context, self._context, "talk", private=True),
            Command("why", "where the last answer came from", self._why, private=True, part_of="undo"),
            Command("show", "the last result of a tool as a whole: /show 3", self._show, private=True, part_of="undo"),
        ]

    async def _context(self, said: Said) -> str:
        from nanoclaw.plugins.inspect.request import table

        profile = self._host.profile(said.profile)
        preview = await self._inspection.preview(said.conversation, "", profile, said.address)
        rows = self._inspection.rows(preview._replace(new=()))
        return "\n\n".join([table(rows), *self._inspection.remarks(said.conversation, preview)])

    async def _why(self, said: Said) -> str:
        return await self._inspection.why(said.conversation)

    async def _show(self, said: Said) -> str:
        from nanoclaw.plugins.inspect.results import IN_CHATS, WIDEST, whole

        session = self._host.conversations.of(said.conversation)
        last, wanted = session.results(), said.argument.strip().removeprefix("#")
        if not last:
            return "No tool has been used in this conversation."
        if wanted and not (wanted.isdecimal() and len(wanted) < 10):
            return SHOW_USAGE
        number = int(wanted or last)
        if not 1 <= number <= last:
            return f"There is no call {number}: the last one is {last}."
        found = session.result(number)
        if found is None:
            return f"The result of call {number} cannot be read: its row in the store is damaged."
        call, result = found
        at = result.at.astimezone(self._host.now().tzinfo)
        most = WIDEST if said.address.channel == "terminal" else IN_CHATS
        return whole(number, last, call, result._replace(at=at), most)


class Inspection:
    """Looks at requests as the core's own builder makes them, for /context, `nanoclaw context` and other plugins."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def preview(
        self, conversation: Address, text: str, profile: Profile | None = None, address: Address | None = None
    ) -> Preview:
        """The request that a message of the owner's would be part of, were it said now. Changes nothing."""
        place = address or conversation
        sender = "owner" if place.channel == "terminal" and (profile is None or profile.mode == "full") else ""
        message = UserMessage(text, self._host.now())
        inbound = Inbound(place, sender, "", message, role="owner", conversation=conversation)
        return await self._host.preview(conversation, inbound, profile)

    def rows(self, preview: Preview) -> list[PromptRow]:
        from nanoclaw.plugins.inspect import request

        projects = self._host.get("projects")
        wishes = [one for one in preview.history if projects and projects.tells(one)]
        return request.rows(preview, wishes)

    def remarks(self, conversation: Address, preview: Preview) -> list[str]:
        from nanoclaw.plugins.inspect import request, why

        memory = self._host.get("memory")
        facts = memory.read("MEMORY.md") if memory and preview.manifest.mode == "full" else ""
        struck = len(re.findall(r"(?m)^[ \t]*[-*+][ \t]+~~", facts or ""))
        remarks = request.remarks(preview.manifest, why.past(self._last(conversation)), struck)
        return [*self._deferred(preview), f"It goes to {preview.model}.", *remarks]

    def _deferred(self, preview: Preview) -> list[str]:
        """A sentence about tools that the request leaves out."""
        search, profile = self._host.get("tool_search"), Profile(preview.snapshot.profile)
        left_out = search.of(preview.snapshot.tools, profile) if search else None
        if not left_out or not left_out.tools:
            return []
        many = f"{left_out.tools} tool{'s' * (left_out.tools > 1)}"
        return [f"Left to tool_search: {many}, whose schemas would take ≈ {left_out.tokens:,} tokens more."]

    async def why(self, conversation: Address) -> str:
        from nanoclaw.plugins.inspect import why

        last, facts = why.past(self._last(conversation)), await self._facts(conversation)
        return why.why(last, self._host.models.cost_in_words, facts, self._origin)

    def _last(self, conversation: Address) -> TurnRecord | None:
        return self._host.conversations.of(conversation).last_turn()

    async def _facts(self, conversation: Address) -> str:
        """The memory section as the conversation's model is shown it."""
        sections = (await self.preview(conversation, "")).snapshot.sections
        return "\n".join(section.text for section in sections if section.id == "memory")

    def _origin(self, file: str, line: int | str) -> str:
        memory = self._host.get("memory")
        if memory is None:
            return ""
        if isinstance(line, int):
            with suppress(NanoclawError, IndexError):
                return str(memory.origins.in_words(file, memory.lines(file)[line - 1]))
            return ""
        return str(memory.origins.in_words(file, line))
