"""Elevated time: up to an hour in which what the policy would ask is taken as allowed, in one conversation."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from time import monotonic
from typing import NamedTuple

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
    "Whatever would ask here and offer a yes for an hour is done without asking, such as messages to others. "
    "Still asked: whatever offers no yes for an hour, such as the card of a plan or actions that follow from others' "
    "text. Still refused: tools under [tools] deny. It does not apply to tasks, guests and other chats."
)
STATUS = "elevated"


class _Row(NamedTuple):
    conversation: str
    place: Address
    until: datetime


class Elevated:
    """The table of conversations that are elevated. The time ends when the clock says so, and at the latest when
    as much of it has passed in this process: a clock that is set back makes it no longer."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._deadlines: dict[tuple[str, str], float] = {}

    def covers(self, turn: Turn) -> bool:
        """True in a turn of the person's own, in a conversation that is elevated."""
        return turn.profile.name == "person" and self.until(turn.conversation) is not None

    def until(self, conversation: Address) -> datetime | None:
        return next((ends for name, ends in self.open() if name == str(conversation)), None)

    def banner(self) -> str:
        """A line for each conversation that is elevated, for /status."""
        now = self._host.now()
        return "\n".join(f"Elevated: {name} until {until(ends, now)}, not asked" for name, ends in self.open())

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
        tx.after(self.open)  # its time begins to count
        tx.after(lambda: self._show(said.address, ends))
        return f"Elevated until {until(ends, now)}, in this conversation alone; /elevated off ends it.\n\n{OPENS}"

    def ended(self, tx: Tx) -> None:
        """Say so where the time is over."""
        for row in self._rows():
            if self._left(row) <= timedelta():
                self._end(tx, Address(*row.conversation.split(":", 1)), row.place)
                tx.send(Outbound(row.place, "Elevated has ended: I ask again."), is_news=False)

    def show_all(self) -> None:
        """Show it again at a start."""
        for row in self._rows():
            if self._left(row) > timedelta():
                self._show(row.place, row.until)

    def open(self) -> list[tuple[str, datetime]]:
        """Conversations that are elevated now, and until when."""
        return [(row.conversation, row.until) for row in self._rows() if self._left(row) > timedelta()]

    def next_end(self) -> datetime | None:
        return min((self._host.now() + self._left(row) for row in self._rows()), default=None)

    def _rows(self) -> list[_Row]:
        sql = "SELECT conversation, channel, chat, until FROM approvals_elevated WHERE datetime(until) NOT NULL"
        rows, at = self._host.read(sql), datetime.fromisoformat
        return [_Row(name, Address(*place), at(ends)) for name, *place, ends in rows]

    def _left(self, row: _Row) -> timedelta:
        """The time until it ends."""
        left = row.until - self._host.now()
        if left > MOST:  # the clock was set back while nobody ran
            return timedelta()
        key = row.conversation, row.until.isoformat()
        if key not in self._deadlines:
            for other in [one for one in self._deadlines if one[0] == row.conversation]:
                del self._deadlines[other]
            self._deadlines[key] = monotonic() + left.total_seconds()
        return left if self._deadlines[key] > monotonic() else timedelta()

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
        raise NanoclawError(f"{one_line(word, 30)!r} is not a time: say /elevated 30m, or /elevated off.")
    number = int(found[1])
    span = timedelta(hours=number) if (found[2] or "m").startswith("h") else timedelta(minutes=number)
    if not timedelta() < span <= MOST:
        raise NanoclawError(
            f"elevated lasts an hour at most, such as /elevated 30m; {one_line(word, 30)!r} was not set."
        )
    return span
