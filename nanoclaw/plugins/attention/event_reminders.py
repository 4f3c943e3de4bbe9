"""Reminders of events: one for each date of the calendar, which moves and goes with it, and is told once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from nanoclaw.clock import short_time
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.core.plugin import Host, Tx

LOOK, AHEAD = timedelta(minutes=5), timedelta(days=2)
"""The time between looks whether the calendar has changed, and how far each reads."""
LATE = timedelta(minutes=30)
"""After its beginning, as when the machine slept, an event is still told; later that is of no use."""
TABLE = """CREATE TABLE attention_events (
    id TEXT PRIMARY KEY,                       -- of UID and RECURRENCE-ID
    starts TEXT NOT NULL, words TEXT NOT NULL, is_told INTEGER NOT NULL
) STRICT"""


class EventReminders:
    """Those of events that begin within two days, as the calendar had them at the last look."""

    def __init__(self, host: Host, minutes: int) -> None:
        self._host, self._before = host, timedelta(minutes=minutes)
        self._tokens, self._looks, self._reads = list[str](), host.now(), host.now()

    async def look(self, calendar: Any) -> None:
        """Take up what has changed in the calendar; while it cannot be asked, what was known is told."""
        if (now := self._host.now()) < self._looks:
            return
        self._looks = now + LOOK
        try:
            tokens = await calendar.dav.tokens()
            if tokens == self._tokens and all(tokens) and now < self._reads:
                return
            found, _ = await calendar.between(now, now + 2 * AHEAD)
        except NanoclawError as error:
            self._host.log.info("the calendar could not be asked: {}", error)
            return
        await self._host.write(partial(self._keep, [one for one in found if not one.is_all_day]))
        self._tokens, self._reads = tokens, now + AHEAD

    def _keep(self, found: Sequence[Any], tx: Tx) -> None:
        """Keep what was told so, unless it was moved; drop what the calendar has no more."""
        for one in found:
            words, starts = one.title + f" @ {one.place}" * bool(one.place), one.start.astimezone(UTC).isoformat()
            moved = "is_told = is_told AND starts = ?2, starts = ?2, words = ?3"
            sql = f"INSERT INTO attention_events VALUES (?1, ?2, ?3, 0) ON CONFLICT (id) DO UPDATE SET {moved}"
            tx.execute(sql, one.id, starts, words)
        gone = "DELETE FROM attention_events WHERE id NOT IN (SELECT value FROM json_each(?))"
        tx.execute(gone, json.dumps([one.id for one in found]))

    async def tell(self) -> None:
        """Send what is due."""
        due, place = (self._host.now() + self._before).astimezone(UTC).isoformat(), self._host.owner()
        sql = "SELECT id, starts, words FROM attention_events WHERE NOT is_told AND starts <= ? ORDER BY starts"
        if place and (rows := self._host.read(sql, due)):
            await self._host.write(partial(self._send, rows, place))

    def _send(self, rows: Sequence[tuple[str, str, str]], place: Address, tx: Tx) -> None:
        now = self._host.now()
        for id_, starts, words in rows:
            tx.execute("UPDATE attention_events SET is_told = 1 WHERE id = ?", id_)
            start = datetime.fromisoformat(starts)
            if now - start < LATE:
                text = f"{'At' if start > now else 'Since'} {short_time(start, now)}: {words}"
                tx.send(Outbound(place, text, at=now, outside="calendar"), "A reminder of the calendar.")
