"""robots.txt: the pages that a site asks programs not to read by themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from urllib.parse import urljoin
from urllib.robotparser import RobotFileParser

from nanoclaw.net.page import FetchedPage
from nanoclaw.net.public import NetError

KEPT_FOR = timedelta(hours=1)
MOST_SITES = 100
MOST_BYTES = 500_000


class Robots:
    """Asks each site once an hour."""

    def __init__(self, fetch: Callable[[str, int], Awaitable[FetchedPage]], agent: str) -> None:
        self._fetch, self._agent = fetch, agent
        self._sites: dict[str, tuple[datetime, RobotFileParser]] = {}

    async def forbid(self, url: str, now: datetime) -> bool:
        """True if a site asks programs not to read an address. One without a robots.txt forbids nothing."""
        where = urljoin(url, "/robots.txt")
        at, rules = self._sites.get(where, (None, None))
        if at is None or rules is None or now - at >= KEPT_FOR:
            rules = RobotFileParser()
            try:
                lines = (await self._fetch(where, MOST_BYTES)).text.splitlines()
            except NetError:
                lines = []
            rules.parse(lines)
            self._sites[where] = (now, rules)
            while len(self._sites) > MOST_SITES:
                del self._sites[next(iter(self._sites))]
        return not rules.can_fetch(self._agent, url)

    def clear(self) -> None:
        self._sites.clear()
