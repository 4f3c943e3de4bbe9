"""Who may use the page: one-time codes, the browsers that signed in, and which requests are the page's own."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Host, Reply, Tx
from nanoclaw.escapes import one_line
from nanoclaw.named_tuple import NamedTuple

COOKIE = "nanoclaw"
DAYS = 90  # after so many without use a browser has to sign in again
CODE_MINUTES, GUEST_DAYS = 10, 7  # for which a code is open, and a guest's link with what it opened
MOST_CODES = 5
TRIES, TRIES_SECONDS = 10, 60.0  # most wrong codes in a minute; then nobody can try until it is over

BROWSERS = {"Edg/": "Edge", "OPR/": "Opera", "Firefox/": "Firefox", "Chrome/": "Chrome", "Safari/": "Safari"}
SYSTEMS = dict.fromkeys(("iPhone", "iPad", "Android", "Windows"), "") | {"Mac OS": "macOS", "Linux": "Linux"}
"""By a part of how a browser calls itself, its name and that of its system; '' is the part itself."""


class Browser(NamedTuple):
    """One that is signed in; `agent` is how it calls itself, `only` the conversation that a guest may see."""

    id: int
    agent: str
    made: datetime
    used: datetime
    only: str

    @property
    def name(self) -> str:
        """Names that a person knows, such as "Firefox on Linux"."""
        if self.only and not self.agent:
            return f"a link for a guest of {self.only}"
        browser = next((name for sign, name in BROWSERS.items() if sign in self.agent), "a browser")
        system = next((name or sign for sign, name in SYSTEMS.items() if sign in self.agent), "")
        name = f"{browser} on {system}" if system else browser
        return f"a guest of {self.only}, {name}" if self.only else name

    @property
    def about(self) -> str:
        if self.only and not self.agent:
            return f"not opened yet, open until {self.until:%Y-%m-%d}"
        return f"signed in {self.made:%Y-%m-%d}, used {self.used:%Y-%m-%d}"

    @property
    def until(self) -> datetime:
        return self.made + timedelta(days=GUEST_DAYS) if self.only else self.used + timedelta(days=DAYS)


class SignIns:
    """Codes live in memory and die at their first use, the browsers that they let in are in the store."""

    def __init__(self, host: Host) -> None:
        self._host, self._clock = host, host.now
        self._codes: dict[str, datetime] = {}
        self._wrong: list[datetime] = []

    def new_code(self) -> str:
        """A code that lets one browser in, within ten minutes."""
        code = secrets.token_urlsafe(24)
        self._codes[digest_of(code)] = self._clock() + timedelta(minutes=CODE_MINUTES)
        while len(self._codes) > MOST_CODES:
            del self._codes[next(iter(self._codes))]
        return code

    @property
    def is_locked(self) -> bool:
        since = self._clock() - timedelta(seconds=TRIES_SECONDS)
        self._wrong = [then for then in self._wrong if then > since]
        return len(self._wrong) >= TRIES

    def _takes(self, code: str, password: str) -> bool:
        """True for a code that is open, which ends with this, and for the password, if one is set."""
        until = self._codes.pop(digest_of(code), None)
        is_right = until is not None and self._clock() < until
        if not is_right and password:
            is_right = hmac.compare_digest(digest_of(code), digest_of(password))
        if not is_right:
            self._wrong.append(self._clock())
        return is_right

    async def sign_in(self, code: str, password: str, agent: str) -> str:
        """Let a browser in that has an open code, a guest's link or the password; its cookie's value, '' for others."""
        token, now, agent = secrets.token_urlsafe(32), self._clock(), one_line(agent, 200) or "a browser"

        def sign(tx: Tx) -> str:
            found = self._read("only <> '' AND agent = '' AND sha256 = ?", digest_of(code))
            if found and now < found[0].until:
                sql = "UPDATE page_browsers SET sha256 = ?, agent = ?, used = ? WHERE id = ?"
                tx.execute(sql, digest_of(token), agent, now.isoformat(), found[0].id)
            elif self._takes(code, password):
                self._add(tx, token, agent)
            else:
                return ""
            return token

        return await self._host.write(sign)

    def invite(self, conversation: str, tx: Tx) -> str:
        """A code that lets one guest into one conversation."""
        self._add(tx, code := secrets.token_urlsafe(24), "", conversation)
        return code

    def _add(self, tx: Tx, token: str, agent: str, only: str = "") -> None:
        now = self._clock().isoformat()
        sql = "INSERT INTO page_browsers (sha256, agent, made, used, only) VALUES (?, ?, ?, ?, ?)"
        tx.execute(sql, digest_of(token), agent, now, now, only)

    async def browser(self, token: str) -> Browser | None:
        """The browser with this cookie, None for none that may come in."""
        if not token or len(token) > 200:
            return None
        now, (found, *_) = self._clock(), (*self._read("sha256 = ?", digest_of(token)), None)
        if found is None or now > found.until or not (found.agent or not found.only):
            return None
        if now - found.used > timedelta(hours=1):
            sql = "UPDATE page_browsers SET used = ? WHERE id = ?"
            await self._host.write(lambda tx: tx.execute(sql, now.isoformat(), found.id))
        return found

    def all(self) -> list[Browser]:
        """Those that are signed in, and links of guests, the newest first."""
        return [one for one in self._read("?", 1) if self._clock() < one.until]

    def _read(self, which: str, value: object) -> list[Browser]:
        sql = f"SELECT id, agent, made, used, only FROM page_browsers WHERE {which} ORDER BY id DESC"
        when, rows = datetime.fromisoformat, self._host.read(sql, value)
        return [Browser(id_, agent, when(made), when(used), only) for id_, agent, made, used, only in rows]

    def listed(self) -> Reply:
        found = self.all()
        lines = [f"- {one.id}: {one.name}, {one.about}" for one in found]
        rows = [
            {"id": one.id, "name": one.name, "about": one.about, "made": f"{one.made}", "used": f"{one.used}"}
            for one in found
        ]
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

    def is_open(self, browser: Browser) -> bool:
        return any(self._clock() < one.until for one in self._read("id = ?", browser.id))


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
