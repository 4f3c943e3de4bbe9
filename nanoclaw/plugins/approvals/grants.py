"""Grants: approvals of calls of the same scope in one conversation, for an hour or until they are revoked."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address, Scope
from nanoclaw.core.plugin import Host, Reply, Said, Tx
from nanoclaw.escapes import one_line
from nanoclaw.plugins.approvals.choices import until

LASTS = timedelta(hours=1)

TABLE = """
CREATE TABLE approvals_grants (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    scope TEXT NOT NULL,                    -- the key of what is allowed
    words TEXT NOT NULL,                    -- the same for people
    sender TEXT NOT NULL,                   -- whose calls
    channel TEXT NOT NULL,                  -- and in which conversation
    chat TEXT NOT NULL,
    until TEXT NOT NULL,                    -- '' for one that is revoked only
    given TEXT NOT NULL
) STRICT;
"""
MARKS = ("approvals_grants.sender", "approvals_grants.channel", "approvals_grants.chat")


class Grant(NamedTuple):
    number: int
    scope: str
    words: str
    sender: str
    conversation: Address
    until: datetime | None
    given: datetime

    def in_words(self, now: datetime) -> str:
        how_long = f"until {until(self.until, now)}" if self.until else "until you revoke it"
        return f"{one_line(self.words, 200)}, in {self.conversation}, {how_long}"


class OwnerGrants:
    """The table of grants."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def all(self) -> list[Grant]:
        """Those that hold, the oldest first."""
        now = self._host.now()
        return [one for one in self._rows("1") if one.until is None or now < one.until]

    def covers(self, scope: Scope, sender: str, conversation: Address) -> bool:
        now, values = self._host.now(), (scope.key, sender, *conversation)
        found = self._rows("scope = ? AND sender = ? AND channel = ? AND chat = ?", *values)
        return any(one.until is None or now < one.until for one in found)

    def give(self, tx: Tx, question: Any, *, always: bool) -> str:
        """Extend the yes to a question; what is said of that."""
        scope, now = question.ask.scope, self._host.now()
        ends = None if always else now + LASTS
        row = (scope.key, scope.words, question.sender, *question.conversation)
        tx.execute("DELETE FROM approvals_grants WHERE (scope, sender, channel, chat) = (?, ?, ?, ?)", row[0], *row[2:])
        columns = "scope, words, sender, channel, chat, until, given"
        sql = f"INSERT INTO approvals_grants ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)"
        tx.execute(sql, *row, ends.isoformat() if ends else "", now.isoformat())
        how_long = f"Until {until(ends, now)}" if ends else "From now on"
        return f"{how_long} I don't ask about {scope.words} here; /grants takes that back."

    def ended(self, tx: Tx) -> list[Grant]:
        """Remove those whose time is over."""
        now = self._host.now()
        ended = [one for one in self._rows("until != ''") if one.until and one.until <= now]
        for one in ended:
            tx.execute("DELETE FROM approvals_grants WHERE id = ?", one.number)
        return ended

    def next_end(self) -> datetime | None:
        return min((one.until for one in self._rows("until != ''") if one.until), default=None)

    # --- the command -------------------------------------------------------------------------------------------------

    def command(self, said: Said, tx: Tx) -> Reply:
        """/grants, /grants revoke 2, /grants revoke all. Raises NanoclawError."""
        word, _, which = said.argument.strip().casefold().partition(" ")
        if not word:
            return self._listed()
        which = which.strip().removeprefix("#")
        if word != "revoke" or not which:
            raise NanoclawError("Say /grants, /grants revoke 2 or /grants revoke all.")
        there = self.all()
        gone = there if which == "all" else [one for one in there if str(one.number) == which]
        if not gone and which != "all":
            raise NanoclawError(f"There is no grant {one_line(which, 20)}; /grants lists them.")
        for one in gone:
            tx.execute("DELETE FROM approvals_grants WHERE id = ?", one.number)
        named = "; ".join(one_line(one.words, 200) for one in gone)
        return Reply(f"Revoked: {named}. I ask again." if gone else "There are no grants.", {"revoked": len(gone)})

    def _listed(self) -> Reply:
        now, there = self._host.now(), self.all()
        lines = [f"{one.number}. {one.in_words(now)}" for one in there]
        data = list[dict[str, Any]]()
        for one in there:
            times = {"until": one.until and one.until.isoformat(), "given": one.given.isoformat()}
            data.append({**one._asdict(), "conversation": str(one.conversation), **times})
        how = "/grants revoke NUMBER takes one back, /grants revoke all takes back all."
        told = "\n".join(["Not asked about:", *lines, "", how])
        return Reply(told if lines else "There are no grants: whatever needs your yes asks for it.", {"grants": data})

    def _rows(self, condition: str, *values: object) -> list[Grant]:
        whole = "datetime(given) NOT NULL AND (coalesce(until, '') = '' OR datetime(until) NOT NULL)"
        sql = f"SELECT id, scope, words, sender, channel, chat, until, given FROM approvals_grants WHERE {whole}"
        found, at = self._host.read(f"{sql} AND {condition} ORDER BY id", *values), datetime.fromisoformat
        return [
            Grant(number, scope, words, sender, Address(channel, chat), at(ends) if ends else None, at(given))
            for number, scope, words, sender, channel, chat, ends, given in found
        ]
