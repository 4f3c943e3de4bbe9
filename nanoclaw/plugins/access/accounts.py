"""Accounts in the store: those linked or let in, the code that links the owner, and strangers who ask to be let in."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, Protocol

from nanoclaw.core.messages import Address, Role
from nanoclaw.core.plugin import Tx

ALPHABET, LENGTH = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789", 8
"""Of codes: 32 signs of which no two look alike."""

VALID, LOCKED = timedelta(hours=1), timedelta(hours=1)
TRIES = 5
"""Wrong codes of a sender until none of theirs is looked at any more, for as long as they are LOCKED. Other senders'
codes don't matter: thousands of senders find none of 32^8 codes within the hour."""
TRIERS = 1_000
"""Senders of wrong codes who are remembered; the oldest go."""
HINT_BITS = 10
"""Bits of a code that are looked at before it is compared, which is slow on purpose: of wrong ones 1 of 1,024 is."""
ROUNDS = 100_000
"""Rounds of the digest that a code is kept as: tens of milliseconds."""
LOOKS = 20
"""As many codes are compared with one that is over while as long passes."""

ASKING = timedelta(days=1)
"""The time in which the owner may let a stranger in who was told a code."""
TOLD_AN_HOUR = 300
"""Strangers of a channel who are told a code in an hour, each once. The owner can let in the others, too."""
ASKERS = 1_000
"""Strangers of a channel who are remembered. Then the oldest ones go of the server that most of them are from: whoever
has a server, and with it any number of accounts, crowds out nobody but their own."""

LinkState = Literal["open", "used", "exposed", "expired"]
Outcome = Literal["linked", "again", "wrong", "expired", "used", "exposed", "locked", "none"]
"""The result of a text that may be the code. again: the same account wrote the code that linked it once more. exposed:
the right one, said where others read it, or by nobody knows whom. none: no code is expected there now, or was recently.
"""


class LinkedAccount(NamedTuple):
    channel: str
    sender: str
    role: Role
    name: str
    since: datetime


class LinkCode(NamedTuple):
    """State of a channel's code; `wrong` counts the wrong ones that
    came, `sender` is the account that it has linked."""

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
    """The tables of people. Nothing is kept in memory: another process may write beside the one that serves."""

    def __init__(self, source: AccountSource) -> None:
        self._read, self._now = source.read, source.now
        self._looks: list[datetime] = []

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

    def remove(self, tx: Tx, channel: str, sender: str) -> bool:
        """End what an account may do; False if nobody is linked by that id."""
        for table in ("chats", "asking", "access_tries"):
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
        """The name of the person who writes in a chat alone, '' if it is not known."""
        sql = (
            "SELECT name FROM people LEFT JOIN chats USING (channel, sender)"
            " WHERE channel = ? AND ?2 IN (chats.chat, sender) ORDER BY chats.chat = ?2 DESC LIMIT 1"
        )
        found = self._read(sql, address.channel, address.chat)
        return str(found[0][0]) if found else ""

    # --- the code that makes an account the owner's ------------------------------------------------------------------

    def new_link(self, tx: Tx, channel: str) -> str:
        """A new code in place of the one before, to be shown to the owner."""
        code, salt = new_code(), secrets.token_hex(16)
        sql = (
            "INSERT INTO links (channel, salt, sha256, until, hint) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
            " salt = ?2, sha256 = ?3, until = ?4, hint = ?5, state = 'open', sender = '', name = '', wrong = 0"
        )
        tx.execute(sql, channel, salt, _digest(code, salt), stamp(self._now() + VALID), _hint(code, salt))
        return code

    def withdraw(self, tx: Tx, channel: str) -> None:
        """End a code before its time: it is not to be typed any more."""
        tx.execute("UPDATE links SET state = 'used' WHERE channel = ? AND state = 'open'", channel)

    def link(self, channel: str) -> LinkCode | None:
        """None if no code was ever made. Its times are in the person's zone."""
        row = self._row(channel)
        if row is None:
            return None
        now = self._now()
        until = datetime.fromisoformat(row.until).astimezone(now.tzinfo)
        state: LinkState = "expired" if row.state == "open" and now >= until else row.state
        return LinkCode(state, until, row.wrong, row.sender, row.name)

    def try_code(self, tx: Tx, code: str, address: Address, sender: str, name: str, *, may_link: bool) -> Outcome:
        """Compare a text that may be a code with the one that is awaited. A right one links its sender if it
        `may_link`; wrong ones count for whoever wrote them, while there is one to be typed."""
        channel, now = address.channel, self._now()
        row = self._row(channel)
        if row is None or now >= datetime.fromisoformat(row.until) + VALID:
            return "none"
        if row.state != "open" or now >= datetime.fromisoformat(row.until):
            if not self._may_look(now) or not row.fits(code):
                return "none"
            if row.state == "used" and row.sender == sender:
                return "again"
            return "expired" if row.state == "open" else "used"
        if self._wrong(channel, sender, now) >= TRIES:
            return "locked"
        if not row.fits(code):
            self._count(tx, channel, sender, now)
            return "wrong"
        outcome: Outcome = "linked" if may_link else "exposed"
        sql = "UPDATE links SET state = ?, sender = ?, name = ? WHERE channel = ?"
        tx.execute(sql, "used" if may_link else "exposed", sender, name, channel)
        if may_link:
            _admit(tx, LinkedAccount(channel, sender, "owner", name, now))
        return outcome

    def _may_look(self, now: datetime) -> bool:
        """Bound how often a code that opens nothing is compared: it is slow on purpose, and anybody can ask for it."""
        self._looks = [then for then in self._looks if now - then < LOCKED]
        if len(self._looks) >= LOOKS:
            return False
        self._looks.append(now)
        return True

    def _wrong(self, channel: str, sender: str, now: datetime) -> int:
        sql = "SELECT wrong FROM access_tries WHERE channel = ? AND sender = ? AND until > ?"
        found = self._read(sql, channel, sender, stamp(now))
        return int(found[0][0]) if found else 0

    def _count(self, tx: Tx, channel: str, sender: str, now: datetime) -> None:
        """A sender's first wrong code is forgotten after an hour with those that follow it; the last one locks them for
        an hour."""
        tx.execute("DELETE FROM access_tries WHERE until <= ?", stamp(now))
        sql = (
            "INSERT INTO access_tries (channel, sender, wrong, until) VALUES (?, ?, 1, ?) ON CONFLICT DO UPDATE SET"
            " wrong = wrong + 1, until = CASE WHEN wrong + 1 >= ? THEN excluded.until ELSE until END"
        )
        tx.execute(sql, channel, sender[:200], stamp(now + LOCKED), TRIES)
        sql = "DELETE FROM access_tries WHERE id <= (SELECT id FROM access_tries ORDER BY id DESC LIMIT 1 OFFSET ?)"
        tx.execute(sql, TRIERS)
        tx.execute("UPDATE links SET wrong = wrong + 1 WHERE channel = ?", channel)

    def _row(self, channel: str) -> _Row | None:
        sql = "SELECT salt, sha256, hint, until, state, sender, name, wrong FROM links WHERE channel = ?"
        found = self._read(sql, channel)
        return _Row(*found[0]) if found else None

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
            " ON CONFLICT DO UPDATE SET name = ?3, chat = ?4, code = ?5, at = ?6, heard = ''"
        )
        tx.execute(sql, channel, sender, name, address.chat, code, stamp(now))
        self._bound(tx, channel)
        return code if told < TOLD_AN_HOUR else ""

    def _bound(self, tx: Tx, channel: str) -> None:
        ((count,),) = tx.execute("SELECT count(*) FROM asking WHERE channel = ?", channel)
        if count > ASKERS:
            sql = f"SELECT {_SERVER} FROM asking WHERE channel = ? GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"
            ((server,),) = tx.execute(sql, channel)
            oldest = f"SELECT id FROM asking WHERE channel = ? AND {_SERVER} = ? ORDER BY at, id LIMIT ?"
            tx.execute(f"DELETE FROM asking WHERE id IN ({oldest})", channel, server, ASKERS // 20)

    def unheard(self) -> list[PairingRequest]:
        """Strangers not yet reported to the owner, the oldest first; none if some were reported within the hour."""
        lately = stamp(self._now() - timedelta(hours=1))
        if self._read("SELECT 1 FROM asking WHERE heard > ? LIMIT 1", lately):
            return []
        waiting = {(channel, sender) for channel, sender in self._read(_UNHEARD)}
        return [one for one in self.requests() if (one.address.channel, one.sender) in waiting]

    @property
    def has_unheard(self) -> bool:
        return bool(self._read(f"{_UNHEARD} LIMIT 1"))

    def mark_reported(self, tx: Tx) -> None:
        """Note that all who ask were reported to the owner."""
        tx.execute("UPDATE asking SET heard = ? WHERE heard = ''", stamp(self._now()))

    def requests(self) -> list[PairingRequest]:
        """Accounts that wait to be let in, the oldest first."""
        since = stamp(self._now() - ASKING)
        sql = "SELECT code, sender, name, channel, chat, at FROM asking WHERE at > ? ORDER BY at"
        return [
            PairingRequest(code, sender, name, Address(channel, chat), datetime.fromisoformat(at) + ASKING)
            for code, sender, name, channel, chat, at in self._read(sql, since)
        ]

    def approve(self, tx: Tx, code: str, channel: str = "") -> PairingRequest | None:
        """Let the stranger in who was told this code, as a guest; None when nobody waits by it. '' is any channel."""
        for one in self.requests():
            if hmac.compare_digest(one.code, code) and channel in ("", one.address.channel):
                _admit(tx, LinkedAccount(one.address.channel, one.sender, "guest", one.name, self._now()))
                tx.execute("DELETE FROM asking WHERE channel = ? AND sender = ?", one.address.channel, one.sender)
                return one
        return None


_UNHEARD = "SELECT channel, sender FROM asking WHERE heard = ''"
_SERVER = (
    "CASE WHEN sender LIKE '@%' THEN substr(sender, instr(sender || ':', ':')) "
    "ELSE substr(sender, instr(sender || '@', '@')) END"
)
"""The server of an account such as @ann:example.org or ann@example.org; '' if there is but one."""


class _Row(NamedTuple):
    salt: str
    sha256: str
    hint: str
    until: str
    state: Literal["open", "used", "exposed"]
    sender: str
    name: str
    wrong: int

    def fits(self, code: str) -> bool:
        is_near = hmac.compare_digest(_hint(code, self.salt), self.hint)
        return is_near and hmac.compare_digest(_digest(code, self.salt), self.sha256)


def stamp(when: datetime) -> str:
    """In UTC, so that its text sorts as the time does."""
    return when.astimezone(UTC).isoformat()


def _digest(code: str, salt: str) -> str:
    """Slow enough that somebody who has the file cannot try all codes within the hour."""
    return hashlib.pbkdf2_hmac("sha256", code.encode(), bytes.fromhex(salt), ROUNDS).hex()


def _hint(code: str, salt: str) -> str:
    """The first bits of a fast digest: who gets hold of the file has as many codes fewer to try."""
    return f"{int.from_bytes(hashlib.sha256(f'{salt} {code}'.encode()).digest()[:4]) >> (32 - HINT_BITS):x}"


def _admit(tx: Tx, one: LinkedAccount) -> None:
    """An owner stays one."""
    sql = (
        "INSERT INTO people (channel, sender, role, name, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
        " role = CASE role WHEN 'owner' THEN role ELSE excluded.role END, name = excluded.name, at = excluded.at"
    )
    tx.execute(sql, one.channel, one.sender, one.role, one.name, stamp(one.since))
