"""CalDAV, as much of it as a person's calendar needs: find the calendars, read a time range, put and delete events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

from nanoclaw.core.errors import ToolError

if TYPE_CHECKING:
    from nanoclaw.net.slim_httpx import httpx

SECONDS, MOST_BYTES = 20.0, 20_000_000
DAV, CAL = "{DAV:}", "{urn:ietf:params:xml:ns:caldav}"
_NAMES = 'xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"'
_KINDS = (
    f"<d:propfind {_NAMES}><d:prop><d:resourcetype/><d:displayname/><d:current-user-principal/>"
    "<c:calendar-home-set/><c:supported-calendar-component-set/></d:prop></d:propfind>"
)
_TOKEN = f"<d:propfind {_NAMES}><d:prop><d:sync-token/></d:prop></d:propfind>"
_BETWEEN = (
    f"<c:calendar-query {_NAMES}><d:prop><d:getetag/><c:calendar-data/></d:prop><c:filter>"
    '<c:comp-filter name="VCALENDAR"><c:comp-filter name="VEVENT"><c:time-range start="{}" end="{}"/>'
    "</c:comp-filter></c:comp-filter></c:filter></c:calendar-query>"
)


class CalendarError(ToolError):
    """The server could not do it; the sentence says why."""


class EventConflict(CalendarError):
    """The event was changed or deleted by somebody else since it was read."""


class StoredEvent(NamedTuple):
    """One object of a calendar: an event, or a series with its changed dates."""

    href: str
    etag: str
    text: str


class Dav:
    """A login at a server. `url` is that of a calendar, of a person, or of the server. All raise CalendarError."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self._url, self._user, self._password = url, user, password
        self._calendars: list[tuple[str, str]] = []

    async def calendars(self) -> list[tuple[str, str]]:
        """Address and name of each calendar with events."""
        if not self._calendars and not (found := await self._found()):
            raise CalendarError(f"{self._url} has no calendar: give the address that your server shows for it.")
        self._calendars = self._calendars or found
        return self._calendars

    async def tokens(self) -> list[str]:
        """The sync-token of each calendar: another one once something has changed, '' where the server has none."""
        asked = [await self._ask("PROPFIND", place, _TOKEN, Depth="0") for place, _ in await self.calendars()]
        return [_text(each, f"{DAV}sync-token") for one in asked for _, each in _resources(one)]

    async def between(self, start: datetime, end: datetime) -> list[StoredEvent]:
        """The objects of all calendars with something in a time range."""
        body = _BETWEEN.format(*(f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}" for at in (start, end)))
        found = list[StoredEvent]()
        for place, _ in await self.calendars():
            answer = await self._ask("REPORT", place, body, Depth="1")
            for href, each in _resources(answer):
                if data := _text(each, f"{CAL}calendar-data"):
                    found.append(StoredEvent(str(answer.url.join(href)), _text(each, f"{DAV}getetag"), data))
        return found

    async def get(self, href: str) -> StoredEvent | None:
        """An object as it is now; None where there is none."""
        answer = await self._ask("GET", href, may_be=(404, 410))
        return StoredEvent(href, answer.headers.get("etag", ""), answer.text) if answer.status_code < 400 else None

    async def put(self, stored: StoredEvent, text: str) -> str:
        """Store a text in place of an object, a new one where it has no etag; remove it where that is ''. Its etag."""
        condition = {"If-Match": stored.etag} if stored.etag else {"If-None-Match": "*"}
        if not text:
            await self._ask("DELETE", stored.href, **condition)
            return ""
        kind = {"Content-Type": "text/calendar; charset=utf-8"}
        made = str((await self._ask("PUT", stored.href, text, **condition, **kind)).headers.get("etag", ""))
        if not made and (now := await self.get(stored.href)):  # a server that changed it says no etag
            return now.etag
        return made

    async def _found(self) -> list[tuple[str, str]]:
        """Follow the server from the address to the person, and from there to the calendars."""
        places, known = [self._url], "/".join([*self._url.split("/")[:3], ".well-known/caldav"])
        for place in places:
            answer = await self._ask("PROPFIND", place, _KINDS, may_be=(403, 404, 405), Depth="0")
            found = next(_resources(answer), ("", {}))[1] if answer.status_code < 400 else {}
            if one := _calendar(answer, "", found):
                return [one]
            if home := _text(found, f"{CAL}calendar-home-set"):
                there = await self._ask("PROPFIND", str(answer.url.join(home)), _KINDS, Depth="1")
                return [one for href, each in _resources(there) if (one := _calendar(there, href, each))]
            person = _text(found, f"{DAV}current-user-principal")
            more = str(answer.url.join(person)) if person else known
            places += [more] * (more not in places and len(places) < 4)
        return []

    async def _ask(self, method: str, url: str, body: str = "", **more: Any) -> httpx.Response:
        """The answer to a request with further headers; `may_be` are statuses that are no failure."""
        from nanoclaw.net.slim_httpx import httpx

        may_be, host = more.pop("may_be", ()), url.split("/")[2]
        headers = {"User-Agent": "nanoclaw", "Accept-Encoding": "identity", "Content-Type": "application/xml", **more}
        if self._url.startswith("https:") and not url.startswith("https:"):
            raise CalendarError(f"{self._url} leads to {url}, without encryption: nothing was sent there.")
        data, login = bytearray(), (self._user, self._password)
        try:
            async with (
                httpx.AsyncClient(auth=login, headers=headers, timeout=SECONDS, follow_redirects=True) as client,
                client.stream(method, url, content=body.encode()) as answer,
            ):
                async for piece in answer.aiter_raw():
                    data += piece
                    if len(data) > MOST_BYTES:
                        raise CalendarError(f"{host} sends more than {MOST_BYTES / 1e6:.0f} MB: ask for less time.")
        except httpx.TimeoutException:
            raise CalendarError(f"{host} did not answer within {SECONDS:.0f} s.") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            raise CalendarError(f"{host} cannot be reached: {str(error) or type(error).__name__}.") from None
        status = answer.status_code
        if status == 401:
            raise CalendarError(f"{host} refuses the login: look at user and password in [calendar] of config.toml.")
        if status == 412 or (status in (404, 409) and "If-Match" in more):
            raise EventConflict("somebody else has changed or deleted the event meanwhile.")
        if status >= 400 and status not in may_be:
            raise CalendarError(f"{host} answers {method} with HTTP {status}. Nothing was changed.")
        return httpx.Response(status, headers=answer.headers, content=bytes(data), request=answer.request)


def _resources(answer: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    """The address of each resource of a multistatus, and the properties that it has. Raises CalendarError."""
    try:
        if re.search(rb"<!(?:DOCTYPE|ENTITY)", answer.content):
            raise ValueError("it defines entities")
        root = ElementTree.fromstring(answer.content)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise CalendarError(f"{answer.url.host} is no CalDAV server, or its answer is damaged: {error}.") from None
    for one in root.iter(f"{DAV}response"):
        there = [part for part in one.iter(f"{DAV}propstat") if " 200" in part.findtext(f"{DAV}status", "")]
        found = {each.tag: each for part in there for each in part.iterfind(f"{DAV}prop/*")}
        yield one.findtext(f"{DAV}href", ""), found


def _calendar(answer: httpx.Response, href: str, found: dict[str, Any]) -> tuple[str, str] | None:
    """A calendar that can have events; None for anything else."""
    kind, parts = found.get(f"{DAV}resourcetype"), found.get(f"{CAL}supported-calendar-component-set", ())
    names = [one.get("name") for one in parts]
    if kind is None or kind.find(f"{CAL}calendar") is None or (names and "VEVENT" not in names):
        return None
    url = str(answer.url.join(href)).rstrip("/")
    return f"{url}/", _text(found, f"{DAV}displayname") or url.rpartition("/")[2]


def _text(found: dict[str, Any], name: str) -> str:
    """The text of a property, or the address in it."""
    return "".join(found[name].itertext()).strip() if name in found else ""
