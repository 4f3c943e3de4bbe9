"""Accounts in the store: those linked or let in, the code that links the owner, and strangers who ask to be let in."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, Protocol

from nanoclaw.core.messages import Address, Role
from nanoclaw.core.plugin import Tx
from nanoclaw.plugins.access.groups import remember

ALPHABET, LENGTH = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789", 8
"""Of codes: 32 signs of which no two look alike."""
VALID, TRIES = timedelta(hours=1), 5
"""A code holds so long, and who wrote so many wrong ones isn't heard for as long. Codes of other senders don't matter:
thousands of senders find none of 32^8 codes within the hour."""
TRIERS = 1_000
"""Senders of wrong codes who are remembered; the oldest go."""

ASKING = timedelta(days=1)
"""The time in which the owner may let a stranger in who was told a code."""
ASKERS, TOLD_AN_HOUR = 1_000, 300
"""Strangers of a channel who are remembered, the newest, and those who are told a code in an hour, each once. The owner
can let in the others, too."""

LinkState = Literal["open", "used", "void", "expired"]
"""void: it was said where others read it, or another one took its place."""
Outcome = Literal["linked", "over", "locked", "wrong"]
"""The result of a text that may be the code. over: it is right, and too late, or said where others read it."""


class LinkedAccount(NamedTuple):
    channel: str
    sender: str
    role: Role
    name: str
    since: datetime


class LinkCode(NamedTuple):
    """State of a channel's code; `wrong` counts the wrong ones that came, `sender` is the account that it linked."""

    state: LinkState
    until: datetime
    wrong: int = 0
    sender: str = ""
    name: str = ""


class PairingRequest(NamedTuple):
    """A stranger who may be let in by `code`, and where they wait for it."""

    code: str
    sender: str
    name: str
    address: Address
    until: datetime


def new_code() -> str:
    """Make a code with a digit and a letter in it, as no ordinary word has both."""
    while True:
        code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        if _is_mixed(code):
            return code


def _is_mixed(code: str) -> bool:
    return not code.isalpha() and not code.isdigit()


def shown(code: str) -> str:
    """As a person reads it: ABCD-2345."""
    return f"{code[:4]}-{code[4:]}"


def code_in(text: str) -> str:
    """The code that a text is, with spaces, dashes and small letters tolerated; '' for an invalid one."""
    if len(text) > 40:
        return ""
    bare = "".join(text.upper().replace("-", " ").replace("–", " ").split())
    return bare if len(bare) == LENGTH and all(sign in ALPHABET for sign in bare) and _is_mixed(bare) else ""


class AccountSource(Protocol):
    """The store as it is read, and the time: a plugin's host, or a command beside the process that serves."""

    def read(self, sql: str, *values: object) -> list[Any]: ...

    def now(self) -> datetime: ...


class Accounts:
    """The tables of people. In memory are wrong tries alone: another process may write beside the one that serves."""

    def __init__(self, source: AccountSource) -> None:
        self._read, self._now = source.read, source.now
        self._wrong: OrderedDict[tuple[str, str], tuple[int, datetime]] = OrderedDict()
        """By channel and sender: so many, and until when they count."""

    # --- who is linked -----------------------------------------------------------------------------------------------

    def role(self, channel: str, sender: str) -> Role | None:
        found = self._read("SELECT role FROM people WHERE channel = ? AND sender = ?", channel, sender)
        return found[0][0] if found else None

    def all(self) -> list[LinkedAccount]:
        sql = "SELECT channel, sender, role, name, at FROM people ORDER BY channel, role DESC, at"
        return [
            LinkedAccount(channel, sender, role, name, datetime.fromisoformat(at))
            for channel, sender, role, name, at in self._read(sql)
        ]

    def admit(self, tx: Tx, address: Address, sender: str, role: Role, name: str) -> None:
        """Let an account in. An owner stays one."""
        sql = (
            "INSERT INTO people (channel, sender, role, name, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
            " role = CASE role WHEN 'owner' THEN role ELSE excluded.role END, name = excluded.name, at = excluded.at"
        )
        tx.execute(sql, address.channel, sender, role, name, stamp(self._now()))

    def remove(self, tx: Tx, channel: str, sender: str) -> bool:
        """End what an account may do; False if nobody is linked by that id."""
        for table in ("chats", "asking"):
            tx.execute(f"DELETE FROM {table} WHERE channel = ? AND sender = ?", channel, sender)
        return bool(tx.execute("DELETE FROM people WHERE channel = ? AND sender = ? RETURNING id", channel, sender))

    # --- the owner's own chats ---------------------------------------------------------------------------------------

    def meet(self, tx: Tx, address: Address, sender: str) -> None:
        """Note a chat that the owner has alone with the assistant."""
        if not self.is_owners(address):
            sql = "INSERT INTO chats (channel, chat, sender) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET sender = ?3"
            tx.execute(sql, address.channel, address.chat, sender)

    def part(self, tx: Tx, address: Address) -> None:
        """Note that others read a chat that the owner had alone with the assistant."""
        if self.is_owners(address):
            tx.execute("DELETE FROM chats WHERE channel = ? AND chat = ?", *address)

    def owners_chats(self) -> list[Address]:
        """All of them, the one that was met last first."""
        sql = (
            "SELECT channel, chat FROM chats JOIN people USING (channel, sender) WHERE people.role = 'owner'"
            " ORDER BY chats.rowid DESC"
        )
        return [Address(*row) for row in self._read(sql)]

    def is_owners(self, address: Address) -> bool:
        sql = (
            "SELECT 1 FROM chats JOIN people USING (channel, sender)"
            " WHERE channel = ? AND chat = ? AND people.role = 'owner'"
        )
        return bool(self._read(sql, address.channel, address.chat))

    def name_of(self, address: Address) -> str:
        """The name of the person who writes in a chat alone, '' for none; to be shown, never to be trusted."""
        sql = (
            "SELECT name FROM people LEFT JOIN chats USING (channel, sender)"
            " WHERE channel = ? AND ?2 IN (chats.chat, sender) ORDER BY chats.chat = ?2 DESC LIMIT 1"
        )
        found = self._read(sql, address.channel, address.chat)
        return str(found[0][0]) if found else ""

    # --- the code that makes an account the owner's ------------------------------------------------------------------

    def new_link(self, tx: Tx, channel: str) -> str:
        """A new code in place of the one before, to be shown to the owner."""
        code = new_code()
        sql = "INSERT OR REPLACE INTO links (channel, sha256, until) VALUES (?, ?, ?)"
        tx.execute(sql, channel, _digest(code), stamp(self._now() + VALID))
        return code

    def withdraw(self, tx: Tx, channel: str) -> None:
        """End a code before its time: it is not to be typed any more."""
        tx.execute("UPDATE links SET state = 'void' WHERE channel = ? AND state = 'open'", channel)

    def link(self, channel: str) -> LinkCode | None:
        """None if no code was ever made. Its times are in the person's zone."""
        now, sql = self._now(), "SELECT state, until, wrong, sender, name FROM links WHERE channel = ?"
        for state, at, *rest in self._read(sql, channel):
            until = datetime.fromisoformat(at).astimezone(now.tzinfo)
            return LinkCode("expired" if state == "open" and now >= until else state, until, *rest)
        return None

    def has_linked(self, channel: str, sender: str) -> bool:
        """True if the last code has linked this account."""
        link = self.link(channel)
        return link is not None and link.state == "used" and link.sender == sender

    def try_code(self, tx: Tx, code: str, address: Address, sender: str, name: str, *, may_link: bool) -> Outcome:
        """Compare a text that may be a code with the one that is awaited. A right one links its sender if it
        `may_link`; wrong ones count for whoever wrote them, while there is one to be typed."""
        channel, now, who = address.channel, self._now(), (address.channel, sender)
        link = self.link(channel)
        wrong, until = self._wrong.get(who, (0, now))
        wrong = wrong if now < until else 0
        if link and link.state == "open" and wrong >= TRIES:
            return "locked"
        if not self._read("SELECT 1 FROM links WHERE channel = ? AND sha256 = ?", channel, _digest(code)):
            if link and link.state == "open":
                until = now + VALID if wrong + 1 in (1, TRIES) else until
                remember(self._wrong, who, (wrong + 1, until), TRIERS)
                tx.execute("UPDATE links SET wrong = wrong + 1 WHERE channel = ?", channel)
            return "wrong"
        if not link or link.state != "open":
            return "over"
        sql = "UPDATE links SET state = ?, sender = ?, name = ? WHERE channel = ?"
        tx.execute(sql, "used" if may_link else "void", sender if may_link else "", name, channel)
        if may_link:
            self.admit(tx, address, sender, "owner", name)
        return "linked" if may_link else "over"

    # --- strangers who ask -------------------------------------------------------------------------------------------

    def request(self, tx: Tx, address: Address, sender: str, name: str) -> str:
        """A code to tell a stranger; '' when they were told one recently, or many others were. Whoever isn't told one
        waits to be let in like the others."""
        now, channel = self._now(), address.channel
        since = stamp(now - timedelta(hours=1))
        sql = "SELECT 1 FROM asking WHERE channel = ? AND sender = ? AND at > ?"
        if not sender or self._read(sql, channel, sender, since):
            return ""
        code = new_code()
        tx.execute("DELETE FROM asking WHERE at <= ?", stamp(now - ASKING))
        ((told,),) = self._read("SELECT count(*) FROM asking WHERE channel = ? AND at > ?", channel, since)
        sql = (
            "INSERT INTO asking (channel, sender, name, chat, code, at) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET name = ?3, chat = ?4, code = ?5, at = ?6"
        )
        tx.execute(sql, channel, sender, name, address.chat, code, stamp(now))
        newest = "SELECT id FROM asking WHERE channel = ?1 ORDER BY at DESC, id DESC LIMIT ?2"
        tx.execute(f"DELETE FROM asking WHERE channel = ?1 AND id NOT IN ({newest})", channel, ASKERS)
        return code if told < TOLD_AN_HOUR else ""

    def requests(self) -> list[PairingRequest]:
        """Accounts that wait to be let in, the oldest first."""
        since = stamp(self._now() - ASKING)
        sql = "SELECT code, sender, name, channel, chat, at FROM asking WHERE at > ? ORDER BY at"
        return [
            PairingRequest(code, sender, name, Address(channel, chat), datetime.fromisoformat(at) + ASKING)
            for code, sender, name, channel, chat, at in self._read(sql, since)
        ]

    def approve(self, tx: Tx, code: str) -> PairingRequest | None:
        """Let the stranger in who was told this code, as a guest; None when nobody waits by it."""
        for one in self.requests():
            if hmac.compare_digest(one.code, code):
                self.admit(tx, one.address, one.sender, "guest", one.name)
                tx.execute("DELETE FROM asking WHERE channel = ? AND sender = ?", one.address.channel, one.sender)
                return one
        return None


def stamp(when: datetime) -> str:
    """In UTC, so that its text sorts as the time does."""
    return when.astimezone(UTC).isoformat()


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
