"""The settings of the plugin: `[web]`."""

from __future__ import annotations

from typing import Literal, NamedTuple

from nanoclaw.core.errors import ConfigError


class WebSettings(NamedTuple):
    """Web search."""

    # search engine; "ddgs" needs no key, "searxng" is a server of your own
    search: Literal["ddgs", "brave", "tavily", "searxng"] = "ddgs"
    key: str = ""  # key of brave or tavily; in secrets.env it is BRAVE_API_KEY or TAVILY_API_KEY
    searxng: str = ""  # address of your SearXNG server, which may be private
    region: str = "us-en"  # country and language of ddgs, such as "de-de"

    def check(self) -> None:
        if self.search == "searxng" and not self.searxng:
            raise ConfigError(
                'web.searxng is missing: write the address of your server, such as "http://nas.lan:8888".'
            )
        if self.searxng and not self.searxng.startswith(("http://", "https://")):
            how = 'must be an address such as "http://nas.lan:8888"'
            raise ConfigError(f"web.searxng {how}, not {self.searxng[:100]!r}.")
        country, dash, language = self.region.partition("-")
        if not (dash and country.isalpha() and language.isalpha()):
            raise ConfigError(f'web.region must be country and language, such as "us-en", not {self.region[:40]!r}.')
