"""Web: pages of the net are read for the model, and the net is searched."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import ToolExample
from nanoclaw.core.plugin import Finding, Host, Plugin, Profile, Section, Tool, ToolOutput
from nanoclaw.core.tool import ToolContext, tool

if TYPE_CHECKING:
    from nanoclaw.plugins.web.fetching import Fetching
    from nanoclaw.plugins.web.search import WebSearch


OPEN_TO = ("person", "job", "helper")
CITE = "Web: name the addresses that your answer is based on."


class WebSettings(NamedTuple):
    """Web search."""

    # "ddgs" needs no key, brave and tavily BRAVE_API_KEY or TAVILY_API_KEY; "searxng" is a server of your own
    search: Literal["ddgs", "brave", "tavily", "searxng"] = "ddgs"
    searxng: str = ""  # address of your SearXNG server, which may be private

    def check(self) -> None:
        if self.search == "searxng" and not self.searxng:
            raise ConfigError(
                'web.searxng is missing: write the address of your server, such as "http://nas.lan:8888".'
            )
        if self.searxng and not self.searxng.startswith(("http://", "https://")):
            how = 'must be an address such as "http://nas.lan:8888"'
            raise ConfigError(f"web.searxng {how}, not {self.searxng[:100]!r}.")


class Web(Plugin):
    name = "web"
    settings = WebSettings
    secrets = ("key",)
    stamp = "the profile alone"

    def __init__(self, host: Host, settings: WebSettings) -> None:
        self._host, self._settings = host, settings

    @cached_property
    def _fetching(self) -> Fetching:
        from nanoclaw.plugins.web.fetching import Fetching

        return Fetching(self._host, self._host.setting("net.allow"))

    @cached_property
    def _search(self) -> WebSearch:
        from nanoclaw.plugins.web.search import WebSearch

        return WebSearch(self._settings, self._host.environment)

    def tools(self) -> Iterable[Tool]:
        """`reach` is none: nothing of the person's is changed, so a rehearsal reads too. What an address carries out is
        for guards to judge, whose `before_tool` sees all of it."""
        searching = tool(self._web_search, reach="none", examples=_SEARCH, open_to=OPEN_TO)
        can_search = self._settings.search != "ddgs" or find_spec("ddgs") is not None
        reading = tool(self._web_fetch, reach="none", examples=_FETCH, open_to=OPEN_TO)
        return [reading, searching._replace(is_there=can_search)]

    async def _web_search(
        self,
        query: str,
        count: Annotated[int, "at most 20"] = 8,
        since: Annotated[str, "day, week, month, year or YYYY-MM-DD"] = "",
    ) -> ToolOutput:
        """Search the web; web_fetch reads what it finds."""
        from nanoclaw.plugins.web.search import query_of, shown

        today: date = self._host.now().date()
        asked = query_of(query, count, since, today)
        found = await self._search.results(asked)
        return ToolOutput(shown(asked, self._search.engine, found), outside="web search" if found else "")

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

    async def check(self, deep: bool) -> Iterable[Finding]:
        lacking, is_chosen = self._search.lacks(), self._settings.search != WebSettings().search
        return [Finding(not is_chosen, f"web_search is off: {lacking}")] if lacking else []

    def reload(self) -> None:
        """Words may be forgotten: no page that was read before is shown again."""
        if "_fetching" in self.__dict__:
            self._fetching.clear()


_SEARCH = (ToolExample("Search the web for flats in Lyon", {"query": "flats in Lyon"}),)
_FETCH = (
    ToolExample("What does example.org/news say?", {"url": "https://example.org/news"}),
    ToolExample("Summarise https://shop.example/lamp", {"url": "https://shop.example/lamp"}),
)
