"""Who may use the page: one-time codes, the browsers that signed in, and which requests are the page's own."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Host, Reply, Tx
from nanoclaw.escapes import one_line

COOKIE = "nanoclaw"
DAYS = 90
"""After so many without use a browser has to sign in again."""
CODE_MINUTES = 10
MOST_CODES = 5
TRIES, TRIES_SECONDS = 10, 60.0
"""Most wrong codes in a minute; then nobody can try until it is over."""

MIGRATION = """CREATE TABLE page_browsers (  -- that are signed in
    id INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL UNIQUE,              -- of the cookie's value
    agent TEXT NOT NULL,
    made TEXT NOT NULL,
    used TEXT NOT NULL                        -- the day
) STRICT"""

LINES = """CREATE TABLE page_lines (  -- that the history of a conversation does not have: commands, replies, failures
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    place INTEGER NOT NULL,                   -- so many messages of the history stand before it
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX page_lines_of ON page_lines (session, id)"""

PLACES = """DELETE FROM page_lines;  -- their place was a count before
ALTER TABLE page_lines RENAME COLUMN place TO after"""

FILES = """CREATE TABLE page_files (  -- that were dropped into the page, kept for a day
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    mime TEXT NOT NULL,
    data BLOB NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE TABLE page_drafts (conversation TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT"""

BROWSERS = {"Edg/": "Edge", "OPR/": "Opera", "Firefox/": "Firefox", "Chrome/": "Chrome", "Safari/": "Safari"}
SYSTEMS = dict.fromkeys(("iPhone", "iPad", "Android", "Windows"), "") | {"Mac OS": "macOS", "Linux": "Linux"}
"""By a part of how a browser calls itself, its name and that of its system; '' is the part itself."""


class Browser(NamedTuple):
    """One that is signed in; `agent` is how it calls itself."""

    id: int
    agent: str
    made: datetime
    used: datetime

    @property
    def name(self) -> str:
        """Names that a person knows, such as "Firefox on Linux"."""
        browser = next((name for sign, name in BROWSERS.items() if sign in self.agent), "a browser")
        system = next((name or sign for sign, name in SYSTEMS.items() if sign in self.agent), "")
        return f"{browser} on {system}" if system else browser


class SignIns:
    """Codes live in memory and die at their first use, the browsers that they let in are in the store."""

    def __init__(self, host: Host) -> None:
        self._host, self._clock = host, host.now
        self._codes: dict[str, datetime] = {}
        self._wrong: list[datetime] = []

    def new_code(self) -> str:
        """A code that lets one browser in, within ten minutes."""
        code = secrets.token_urlsafe(24)
        self._codes[_digest(code)] = self._clock() + timedelta(minutes=CODE_MINUTES)
        while len(self._codes) > MOST_CODES:
            del self._codes[next(iter(self._codes))]
        return code

    @property
    def is_locked(self) -> bool:
        since = self._clock() - timedelta(seconds=TRIES_SECONDS)
        self._wrong = [then for then in self._wrong if then > since]
        return len(self._wrong) >= TRIES

    def takes(self, code: str, password: str = "") -> bool:
        """True for a code that is open, which ends with this, and for the password, if one is set."""
        until = self._codes.pop(_digest(code), None)
        is_right = until is not None and self._clock() < until
        if not is_right and password:
            is_right = hmac.compare_digest(_digest(code), _digest(password))
        if not is_right:
            self._wrong.append(self._clock())
        return is_right

    async def sign_in(self, agent: str) -> str:
        """Let a browser in; the value of its cookie."""
        token, now = secrets.token_urlsafe(32), self._clock().isoformat()
        values = _digest(token), one_line(agent, 200), now, now
        sql = "INSERT INTO page_browsers (sha256, agent, made, used) VALUES (?, ?, ?, ?)"
        await self._host.write(lambda tx: tx.execute(sql, *values))
        return token

    async def browser(self, token: str) -> Browser | None:
        """The browser with this cookie, None for none that may come in."""
        if not token or len(token) > 200:
            return None
        now, (found, *_) = self._clock(), (*self._read("sha256 = ?", _digest(token)), None)
        if found is None or now - found.used > timedelta(days=DAYS):
            return None
        if now - found.used > timedelta(hours=1):
            sql = "UPDATE page_browsers SET used = ? WHERE id = ?"
            await self._host.write(lambda tx: tx.execute(sql, now.isoformat(), found.id))
        return found

    def all(self) -> list[Browser]:
        """Those that are signed in, the newest first."""
        return self._read("used > ?", (self._clock() - timedelta(days=DAYS)).isoformat())

    def _read(self, which: str, value: str) -> list[Browser]:
        sql = f"SELECT id, agent, made, used FROM page_browsers WHERE {which} ORDER BY id DESC"
        return [
            Browser(id_, agent, datetime.fromisoformat(made), datetime.fromisoformat(used))
            for id_, agent, made, used in self._host.read(sql, value)
        ]

    def listed(self) -> Reply:
        found = self.all()
        lines = [f"- {one.id}: {one.name}, signed in {one.made:%Y-%m-%d}, used {one.used:%Y-%m-%d}" for one in found]
        rows = [{"id": one.id, "name": one.name, "made": f"{one.made}", "used": f"{one.used}"} for one in found]
        how = "\n\n`nanoclaw web browser --revoke 3` signs one out."
        return Reply("\n".join(lines) + how if lines else "No browser is signed in.", {"browsers": rows})

    def revoked(self, number: str, then: Callable[[], object]) -> Reply:
        """End what a browser may do, at once."""
        found = next((one for one in self.all() if str(one.id) == number), None)
        if found is None:
            raise ConfigError(f"There is no browser {number!r}: `nanoclaw web browsers` lists them.")

        def revoke(tx: Tx) -> None:
            tx.execute("DELETE FROM page_browsers WHERE id = ?", found.id)
            tx.after(then)

        return Reply(f"{found.name} is signed out.", {"id": found.id}, revoke)

    def is_open(self, id_: int) -> bool:
        return bool(self._host.read("SELECT 1 FROM page_browsers WHERE id = ?", id_))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
