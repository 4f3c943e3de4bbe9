"""web_search: asks one engine, and tells no result, a refusal and an outage apart."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Mapping
from datetime import date, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlencode

from nanoclaw.core.errors import ToolError
from nanoclaw.escapes import one_line
from nanoclaw.net.page import BadStatus, fetch
from nanoclaw.net.public import NetError, host_of

if TYPE_CHECKING:
    from nanoclaw.plugins.web.plugin import WebSettings

SECONDS = 25.0
MOST_RESULTS, MOST_BYTES = 20, 2_000_000
SNIPPET = 300
BRAVE, TAVILY = "https://api.search.brave.com", "https://api.tavily.com"

Span = Literal["day", "week", "month", "year"]
_DAYS: dict[str, int] = {"day": 1, "week": 7, "month": 31, "year": 366}


class WebResult(NamedTuple):
    """`date` is '' if the engine doesn't tell."""

    title: str
    url: str
    snippet: str = ""
    date: str = ""


class WebQuery(NamedTuple):
    """`since` is the first day that counts, None for all."""

    words: str
    most: int
    since: date | None
    today: date

    @property
    def span(self) -> Span | None:
        """The shortest span of time with a word that reaches back so far; None if all does."""
        if self.since is None:
            return None
        days = (self.today - self.since).days
        return next((span for span in ("day", "week", "month", "year") if days <= _DAYS[span]), None)


class SearchError(ToolError):
    """Nothing was searched; the text says why, and what to do."""


def query_of(words: str, count: int, since: str, today: date) -> WebQuery:
    """Raises ToolError for what cannot be meant."""
    words, since = " ".join(words.split()), since.strip().casefold()
    if not words:
        raise ToolError("the query is empty: say what to look for.")
    first = today - timedelta(days=_DAYS[since]) if since in _DAYS else None
    if since and first is None:
        try:
            first = date.fromisoformat(since)
        except ValueError:
            raise ToolError(f"since is day, week, month, year or a date such as {today}, not {since!r}.") from None
    return WebQuery(words[:400], min(max(1, count), MOST_RESULTS), first, today)


class WebSearch:
    """The engine of the configuration."""

    def __init__(self, settings: WebSettings, environment: Mapping[str, str]) -> None:
        self._settings, self._environment = settings, environment

    @property
    def engine(self) -> str:
        return self._settings.search

    def lacks(self) -> str:
        """The thing without which the engine cannot be asked, in a sentence; '' if it can."""
        if self.engine in _KEYS and not self._key:
            return f"{self.engine} needs a key: {_KEYS[self.engine]}=… in secrets.env."
        if self.engine == "ddgs" and find_spec("ddgs") is None:
            from nanoclaw.installation import install_command

            others = 'or [web] search = "brave", "tavily" or "searxng" in config.toml'
            return f"searching without a key needs the library ddgs: {install_command('web')} ({others})."
        return ""

    @property
    def _key(self) -> str:
        return self._environment.get(_KEYS.get(self.engine, ""), "")

    async def results(self, query: WebQuery) -> list[WebResult]:
        """Raises SearchError."""
        if lacking := self.lacks():
            raise SearchError(f"Nothing was searched: {lacking}")
        try:
            async with asyncio.timeout(SECONDS):
                found = await self._asked(query)
        except TimeoutError:
            raise SearchError(f"{self.engine} gave no answer within {SECONDS:.0f} s. Try again later.") from None
        dated = (one for one in found if one.url.startswith(("http://", "https://")) and _is_in(one, query.since))
        return list(dated)[: query.most]

    async def _asked(self, query: WebQuery) -> list[WebResult]:
        match self.engine:
            case "brave":
                return await self._brave(query)
            case "tavily":
                return await self._tavily(query)
            case "searxng":
                return await self._searxng(query)
        from nanoclaw.plugins.web.keyless import results

        return await results(query, self._environment)

    async def _brave(self, query: WebQuery) -> list[WebResult]:
        """https://api-dashboard.search.brave.com/app/documentation/web-search"""
        asked = {"q": query.words, "count": str(query.most)}
        if query.since:
            asked["freshness"] = f"{query.since}to{query.today}"
        url = f"{BRAVE}/res/v1/web/search?{urlencode(asked)}"
        said = await self._json(url, {"x-subscription-token": self._key, "accept": "application/json"})
        web = said.get("web")
        return _made(web if isinstance(web, dict) else {}, "description", ("page_age", "age"))

    async def _tavily(self, query: WebQuery) -> list[WebResult]:
        """https://docs.tavily.com/documentation/api-reference/endpoint/search"""
        asked: dict[str, Any] = {"query": query.words, "max_results": query.most}
        if query.since:
            asked["start_date"] = str(query.since)
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
        url = f"{TAVILY}/search"
        said = await self._json(url, headers, json.dumps(asked).encode())
        return _made(said, "content", ("published_date",))

    async def _searxng(self, query: WebQuery) -> list[WebResult]:
        """https://docs.searxng.org/dev/search_api.html"""
        asked = {"q": query.words, "format": "json"}
        if query.span:
            asked["time_range"] = query.span
        said = await self._json(f"{self._settings.searxng.rstrip('/')}/search?{urlencode(asked)}", {})
        found = _made(said, "content", ("publishedDate",))
        silent = [": ".join(map(str, one)) for one in _list(said.get("unresponsive_engines")) if isinstance(one, list)]
        if not found and silent:
            raise SearchError(
                f"No engine that {self._settings.searxng} asks has answered ({'; '.join(silent)[:300]}), so this says "
                "nothing about whether there are results. Try again later, or have it ask others (its settings.yml)."
            )
        return found

    async def _json(self, url: str, headers: Mapping[str, str], send: bytes | None = None) -> dict[str, Any]:
        """The answer of an engine's own address, which may be private: the configuration names it. Raises
        SearchError."""
        host = host_of(url)
        allow = (f"[{host.host}]:{host.port}" if ":" in host.host else f"{host.host}:{host.port}",)
        try:
            page = await fetch(url, MOST_BYTES, allow=allow, headers=headers, send=send)
        except BadStatus as error:
            raise SearchError(self._refusal(error)) from None
        except NetError as error:
            raise SearchError(f"Nothing was searched: {self.engine} is down or out of reach: {error}.") from None
        try:
            said = json.loads(page.body)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise SearchError(f"Nothing was searched: what answers at {host.named} is not {self.engine} (no JSON).")
        return said

    def _refusal(self, error: BadStatus) -> str:
        """The sentence about a reply that has no results."""
        status, said = error.page.status[:3], " ".join(error.page.text.split())[:300]
        wait = error.page.headers.get("retry-after", "")
        if self.engine == "searxng" and status == "403":
            why = "it gives no JSON: add json to search.formats in its settings.yml"
        elif status in ("401", "403", "422") and self.engine in _KEYS:
            why = f"it refuses the key: check {_KEYS[self.engine]}"
        elif status == "429":
            why = f"too many requests: {f'it asks to wait ({wait[:40]})' if wait else 'wait some minutes'}"
        elif status in ("402", "432", "433"):
            why = "the quota of the key is used up: wait for the next month, or take a larger plan"
        elif status.startswith("5"):
            why = "it is down: try again later"
        else:
            why = "it refused the request"
        return f"Nothing was searched: {self.engine} answered {error.page.status}: {why}. {said}".strip()


_KEYS = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}


def shown(query: WebQuery, engine: str, found: list[WebResult]) -> str:
    """The results, numbered."""
    since = f" since {query.since}" if query.since else ""
    if not found:
        undated = " So may leaving out since: many engines don't know dates, and are skipped then." if since else ""
        return f"No result for {query.words!r}{since}. {engine} answered: fewer or other words may find more.{undated}"
    lines = [f"{len(found)} results for {query.words!r}{since}, by {engine}:"]
    for number, one in enumerate(found, 1):
        lines += ["", f"{number}. {one.title or one.url}", f"   {one.url}"]
        lines += [f"   {text}" for text in (one.date, one.snippet) if text]
    return "\n".join(lines)


def _made(said: Mapping[str, Any], snippet: str, dates: tuple[str, ...]) -> list[WebResult]:
    """Results of an engine's JSON; what has no address is left out."""
    made = []
    for one in _list(said.get("results")):
        if isinstance(one, dict) and isinstance(one.get("url"), str):
            day = next((str(one[name]) for name in dates if one.get(name)), "")
            made.append(
                WebResult(
                    _plain(one.get("title"), 200), one["url"].strip(), _plain(one.get(snippet), SNIPPET), _day(day)
                )
            )
    return made


def _plain(value: object, most: int) -> str:
    """Text without the marks of HTML that engines put around words they found."""
    text = re.sub(r"</?(?:strong|em|b|i|mark|span)\b[^<>]*>", "", value) if isinstance(value, str) else ""
    return one_line(html.unescape(text), most)


def _day(text: str) -> str:
    found = re.match(r"\d{4}-\d{2}-\d{2}", text)
    if found:
        return found[0]
    from email.utils import parsedate_to_datetime

    try:
        return str(parsedate_to_datetime(text).date())
    except (ValueError, TypeError):
        return text[:40]


def _is_in(one: WebResult, since: date | None) -> bool:
    """False for a result that is known to be older."""
    try:
        return since is None or not one.date or date.fromisoformat(one.date) >= since
    except ValueError:
        return True


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
