"""Pages kept for an hour in memory, so that one which is read again isn't asked for again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

KEPT_FOR = timedelta(hours=1)
MOST_PAGES, MOST_CHARACTERS = 50, 3_000_000


class KeptPage(NamedTuple):
    """A page as it was read: `url` is where it was found, `turn` the one that fetched it."""

    url: str
    about: str
    text: str
    at: datetime
    turn: int


class KeptPages:
    def __init__(self) -> None:
        self._pages: dict[str, KeptPage] = {}

    def get(self, asked: str, now: datetime) -> KeptPage | None:
        found = self._pages.get(asked)
        return found if found and timedelta() <= now - found.at < KEPT_FOR else None

    def keep(self, asked: str, page: KeptPage) -> None:
        """Keep a page by the address it was asked for at and the one where it was found; the oldest ones go."""
        for url in (asked, page.url):
            self._pages.pop(url, None)
            self._pages[url] = page
        self._pages = {url: one for url, one in self._pages.items() if page.at - one.at < KEPT_FOR}
        while len(self._pages) > MOST_PAGES or self._characters() > MOST_CHARACTERS:
            del self._pages[next(iter(self._pages))]

    def clear(self) -> None:
        self._pages.clear()

    def _characters(self) -> int:
        return sum(len(text) for text in {id(one): one.text for one in self._pages.values()}.values())
