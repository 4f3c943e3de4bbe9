"""Grants: approvals of calls of one scope, or of all that have one, in a conversation, for an hour or until revoked."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from nanoclaw.clock import short_time
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.events import Notice, StatusLines
from nanoclaw.core.messages import Address, Outbound, Scope
from nanoclaw.core.plugin import Host, NamedTuple, Reply, Said, Tx
from nanoclaw.escapes import one_line

LASTS, USUAL = timedelta(hours=1), "30m"

ELEVATED = Scope("*", "whatever would ask here and offer a yes for an hour")
OPENS = (
    "While it is on, what would ask here and offer a yes for an hour, such as messages to others, is done unasked. "
    "Still asked: whatever offers no yes for an hour, such as deletions, or actions that follow from others' "
    "text. Still refused: tools under [tools] deny. It does not apply to tasks, guests and other chats."
)

TABLE = """
CREATE TABLE approvals_grants (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    scope TEXT NOT NULL,                    -- the key of what is allowed
    words TEXT NOT NULL,                    -- the same for people
    sender TEXT NOT NULL,                   -- whose calls; where all are allowed, the place in which that was said
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

    def holds(self, now: datetime) -> bool:
        """False also where the clock was set back by more than it lasts."""
        return self.until is None or now < self.until <= now + 2 * LASTS

    def in_words(self, now: datetime) -> str:
        how_long = f"until {short_time(self.until, now)}" if self.until else "until you revoke it"
        return f"{one_line(self.words, 200)}, in {self.conversation}, {how_long}"


class OwnerGrants:
    """The table of grants."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def all(self) -> list[Grant]:
        """Those that hold, the oldest first."""
        now = self._host.now()
        return [one for one in self._rows("1") if one.holds(now)]

    def elevated(self, conversation: Address) -> Grant | None:
        """The time in which nothing is asked there that may be allowed for an hour."""
        found = (one for one in self.all() if (one.scope, one.conversation) == (ELEVATED.key, conversation))
        return next(found, None)

    def covers(self, scope: Scope, sender: str, conversation: Address) -> bool:
        now, values = self._host.now(), (scope.key, sender, *conversation)
        found = self._rows("scope = ? AND sender = ? AND channel = ? AND chat = ?", *values)
        return any(one.holds(now) for one in found)

    def give(self, tx: Tx, question: Any, *, always: bool) -> str:
        """Extend the yes to a question; what is said of that."""
        scope, now = question.ask.scope, self._host.now()
        ends = None if always else now + LASTS
        self._add(tx, scope, question.sender, question.conversation, ends)
        how_long = f"Until {short_time(ends, now)}" if ends else "From now on"
        return f"{how_long} I don't ask about {scope.words} here; /grants takes that back."

    def _add(self, tx: Tx, scope: Scope, sender: str, conversation: Address, ends: datetime | None) -> None:
        row = (scope.key, scope.words, sender, *conversation)
        tx.execute("DELETE FROM approvals_grants WHERE (scope, sender, channel, chat) = (?, ?, ?, ?)", row[0], *row[2:])
        sql = f"INSERT INTO approvals_grants (scope, words, sender, channel, chat, until, given) VALUES (?{', ?' * 6})"
        tx.execute(sql, *row, ends.isoformat() if ends else "", self._host.now().isoformat())

    def _remove(self, tx: Tx, grant: Grant) -> None:
        tx.execute("DELETE FROM approvals_grants WHERE id = ?", grant.number)
        if grant.scope == ELEVATED.key:
            tx.after(lambda: self._host.show(_place(grant), StatusLines("elevated", "")))

    def ended(self, tx: Tx) -> None:
        """Remove those whose time is over, and say so."""
        now = self._host.now()
        for one in [one for one in self._rows("until != ''") if not one.holds(now)]:
            self._remove(tx, one)
            if one.scope == ELEVATED.key:
                tx.send(Outbound(_place(one), "Elevated has ended: I ask again."), is_news=False)
            else:
                told = Notice(f"the hour for {one.words} is over: I ask again")
                tx.after(lambda one=one, told=told: self._host.show(one.conversation, told))  # type: ignore[misc]

    def next_end(self) -> datetime | None:
        now = self._host.now()
        ends = (one.until if one.holds(now) else now for one in self._rows("until != ''"))
        return min((one for one in ends if one), default=None)

    def banner(self) -> str:
        """A line for each conversation that is elevated, for /status."""
        now, there = self._host.now(), [one for one in self.all() if one.scope == ELEVATED.key]
        told = (f"Elevated, asks less: {one.conversation} until {short_time(one.until or now, now)}" for one in there)
        return "\n".join(told)

    def show_elevated(self) -> None:
        """Show that less is asked, where that is so."""
        for one in self.all():
            if one.scope == ELEVATED.key and one.until:
                text = f"elevated until {short_time(one.until, self._host.now())}: asks less (/elevated off)"
                self._host.show(_place(one), StatusLines("elevated", text))

    # --- the commands ------------------------------------------------------------------------------------------------

    def elevate(self, said: Said, tx: Tx) -> str:
        """/elevated, which shows it; /elevated 30m, /elevated on, /elevated off. Raises NanoclawError."""
        word, now, there = said.argument.strip().casefold(), self._host.now(), self.elevated(said.conversation)
        if not word:
            state = f"Elevated is off here: I ask. /elevated {USUAL} switches it on, for an hour at most."
            if there and there.until:
                state = f"Elevated until {short_time(there.until, now)}; /elevated off ends it."
            return f"{state}\n\n{OPENS}"
        ends = now if word == "off" else now + _span(USUAL if word == "on" else word)
        if there:
            self._remove(tx, there)
        if ends == now:
            return "Elevated is off: I ask again." if there else "Elevated is not on here."
        self._add(tx, ELEVATED, str(said.address), said.conversation, ends)
        tx.after(self.show_elevated)
        return f"Elevated until {short_time(ends, now)}, in this conversation alone; /elevated off ends it.\n\n{OPENS}"

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
            self._remove(tx, one)
        named = "; ".join(one_line(one.words, 200) for one in gone)
        return Reply(f"Revoked: {named}. I ask again." if gone else "There are no grants.", {"revoked": len(gone)})

    def _listed(self) -> Reply:
        now, there = self._host.now(), self.all()
        lines = [f"{one.number}. {one.in_words(now)}" for one in there]
        times = [{"until": one.until and one.until.isoformat(), "given": one.given.isoformat()} for one in there]
        every = zip(there, times, strict=True)
        data = [{**one._asdict(), "conversation": str(one.conversation), **at} for one, at in every]
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


def _place(grant: Grant) -> Address:
    """The chat in which elevated time was asked for."""
    return Address(*grant.sender.split(":", 1))


def _span(word: str) -> timedelta:
    """The time that words name. Raises NanoclawError."""
    found = re.fullmatch(r"(\d{1,4})\s*(m|min|minutes?|h|hours?)?", word)
    span = timedelta(**{"hours" if (found[2] or "m")[0] == "h" else "minutes": int(found[1])}) if found else timedelta()
    if not timedelta() < span <= LASTS:
        raise NanoclawError(f"{one_line(word, 30)!r}: say /elevated {USUAL}, an hour at most, or /elevated off.")
    return span
