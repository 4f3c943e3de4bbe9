"""The settings of the plugin: `[web]`."""

from __future__ import annotations

from typing import Literal, NamedTuple

from nanoclaw.core.errors import ConfigError


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
