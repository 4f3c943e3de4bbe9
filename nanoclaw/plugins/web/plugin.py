"""Web: pages of the net are read for the model, and the net is searched."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from nanoclaw.core.messages import ToolExample
from nanoclaw.core.plugin import Host, Plugin, Profile, Section
from nanoclaw.core.tool import Tool, ToolContext, ToolOutput, tool

if TYPE_CHECKING:
    from nanoclaw.plugins.web.fetching import Fetching

OPEN_TO = ("person", "job", "helper")
CITE = "Web: name the addresses that your answer rests on."


class Web(Plugin):
    name = "web"

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host

    @cached_property
    def _fetching(self) -> Fetching:
        from nanoclaw.plugins.web.fetching import Fetching

        return Fetching(self._host, self._host.get("core").config.net.allow)

    def tools(self) -> Iterable[Tool]:
        """`reach` is none: nothing of the person's is changed, so a rehearsal reads too. What an address carries out is
        for guards to judge, whose `before_tool` sees all of it."""
        return [tool(self._web_fetch, reach="none", examples=_FETCH, open_to=OPEN_TO)]

    async def _web_fetch(
        self,
        context: ToolContext,
        url: str,
        question: Annotated[str, "shows the passages of a long page that fit it"] = "",
    ) -> ToolOutput:
        """Read a web page, or a PDF, office file, picture or JSON of the web."""
        return await self._fetching.fetch(context, url, question)

    def sections(self, query: str, profile: Profile) -> Iterable[Section]:
        return [Section("capabilities", "Web", CITE)] if profile.name in OPEN_TO else []

    def reload(self) -> None:
        """Words may be forgotten: no page that was read before is shown again."""
        if "_fetching" in self.__dict__:
            self._fetching.clear()


_FETCH = (ToolExample("What does example.org/news say?", {"url": "https://example.org/news"}),)
