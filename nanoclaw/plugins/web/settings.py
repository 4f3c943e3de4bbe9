"""The settings of the plugin: `[web]`."""

from __future__ import annotations

from typing import Literal, NamedTuple

from nanoclaw.core.errors import ConfigError


class WebSettings(NamedTuple):
    """`search` is the engine; `key` that of brave or tavily, whose address `api_base` replaces; `searxng` the address
    of a server of one's own, which may be private; `region` where ddgs searches, such as "de-de"."""

    search: Literal["ddgs", "brave", "tavily", "searxng"] = "ddgs"
    key: str = ""
    api_base: str = ""
    searxng: str = ""
    region: str = "us-en"

    def check(self) -> None:
        if self.search == "searxng" and not self.searxng:
            raise ConfigError(
                'web.searxng is missing: write the address of your server, such as "http://nas.lan:8888".'
            )
        for key, value in (("web.searxng", self.searxng), ("web.api_base", self.api_base)):
            if value and not value.startswith(("http://", "https://")):
                raise ConfigError(f'{key} must be an address such as "http://nas.lan:8888", not {value[:100]!r}.')
        country, dash, language = self.region.partition("-")
        if not (dash and country.isalpha() and language.isalpha()):
            raise ConfigError(f'web.region must be country and language, such as "us-en", not {self.region[:40]!r}.')
