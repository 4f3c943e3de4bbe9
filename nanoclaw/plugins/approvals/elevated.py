"""Elevated time: up to an hour in which what the policy would ask is taken as allowed, in one conversation."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.events import StatusLines
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.core.plugin import Host, Said, Turn, Tx
from nanoclaw.escapes import one_line
from nanoclaw.plugins.approvals.choices import until

USUAL, MOST = timedelta(minutes=30), timedelta(hours=1)

TABLE = """
CREATE TABLE approvals_elevated (
    conversation TEXT PRIMARY KEY,
    channel TEXT NOT NULL,                  -- where it was asked for, and its end is told
    chat TEXT NOT NULL,
    until TEXT NOT NULL
) STRICT;
"""
MARKS = ("approvals_elevated.conversation", "approvals_elevated.channel", "approvals_elevated.chat")

OPENS = (
    "What would ask for your yes here, and offer one for an hour, is done without asking: such as messages to others. "
    "Still asked: what offers no hour, such as what others' text led to, the card of a plan, tools under [tools] ask. "
    "Still refused: tools under [tools] deny. Tasks, guests and other chats get none of it."
)
STATUS = "elevated"


class Elevated:
    """The table of conversations that are elevated."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def covers(self, turn: Turn) -> bool:
        """True in a turn of the person's own, in a conversation that is elevated."""
        return turn.profile.name == "person" and self.until(turn.conversation) is not None

    def until(self, conversation: Address) -> datetime | None:
        rows = self._host.read("SELECT until FROM approvals_elevated WHERE conversation = ?", str(conversation))
        ends = datetime.fromisoformat(rows[0][0]) if rows else None
        return ends if ends and self._host.now() < ends else None

    def command(self, said: Said, tx: Tx) -> str:
        """/elevated, /elevated 30m, /elevated off. Raises NanoclawError."""
        word, now, ends = said.argument.strip().casefold(), self._host.now(), self.until(said.conversation)
        if word == "off":
            if ends:
                self._end(tx, said.conversation, said.address)
            return "Elevated is off: I ask again." if ends else "Elevated is not on here."
        if not word and ends:
            return f"Elevated until {until(ends, now)}; /elevated off ends it.\n\n{OPENS}"
        ends = now + _span(word)
        sql = "INSERT OR REPLACE INTO approvals_elevated (conversation, channel, chat, until) VALUES (?, ?, ?, ?)"
        tx.execute(sql, str(said.conversation), *said.address, ends.isoformat())
        tx.after(lambda: self._show(said.address, ends))
        return f"Elevated until {until(ends, now)}, in this conversation alone; /elevated off ends it.\n\n{OPENS}"

    def ended(self, tx: Tx) -> None:
        """Say so where the time is over."""
        now = self._host.now()
        for conversation, channel, chat, ends in self._rows():
            if datetime.fromisoformat(ends) <= now:
                self._end(tx, Address(*conversation.split(":", 1)), Address(channel, chat))
                tx.send(Outbound(Address(channel, chat), "Elevated has ended: I ask again."), is_news=False)

    def show_all(self) -> None:
        """Show it again at a start."""
        for _, channel, chat, ends in self._rows():
            if (when := datetime.fromisoformat(ends)) > self._host.now():
                self._show(Address(channel, chat), when)

    def open(self) -> list[tuple[str, datetime]]:
        """Conversations that are elevated now, and until when."""
        rows = [(conversation, datetime.fromisoformat(ends)) for conversation, _, _, ends in self._rows()]
        return [(conversation, ends) for conversation, ends in rows if ends > self._host.now()]

    def next_end(self) -> datetime | None:
        return min((datetime.fromisoformat(ends) for *_, ends in self._rows()), default=None)

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return self._host.read("SELECT conversation, channel, chat, until FROM approvals_elevated")

    def _end(self, tx: Tx, conversation: Address, place: Address) -> None:
        tx.execute("DELETE FROM approvals_elevated WHERE conversation = ?", str(conversation))
        tx.after(lambda: self._host.show(place, StatusLines(STATUS, "")))

    def _show(self, place: Address, ends: datetime) -> None:
        text = f"elevated until {until(ends, self._host.now())}: not asked (/elevated off)"
        self._host.show(place, StatusLines(STATUS, text))


def _span(word: str) -> timedelta:
    """The time that words name. Raises NanoclawError."""
    if not word:
        return USUAL
    found = re.fullmatch(r"(\d{1,4})\s*(m|min|minutes?|h|hours?)?", word)
    if found is None:
        raise NanoclawError(f"{one_line(word, 30)!r} is no time: say /elevated 30m, or /elevated off.")
    number = int(found[1])
    span = timedelta(hours=number) if (found[2] or "m").startswith("h") else timedelta(minutes=number)
    if not timedelta() < span <= MOST:
        raise NanoclawError(
            f"elevated lasts an hour at most, such as /elevated 30m; {one_line(word, 30)!r} was not set."
        )
    return span
