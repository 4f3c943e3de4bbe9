"""Changes of events, each kept for a while so that it can be undone."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from nanoclaw.core.errors import NanoclawError, ToolError
from nanoclaw.core.messages import Address, Effect, Outbound
from nanoclaw.core.plugin import Host, Tx
from nanoclaw.core.tool import ToolContext
from nanoclaw.plugins.calendar.dav import Dav, EventConflict, StoredEvent
from nanoclaw.plugins.calendar.events import EventDate, differences, occurrences


class EventChanges:
    """Reads events, makes changes, and takes them back for /undo: what the plugin makes public."""

    def __init__(self, host: Host, *login: str) -> None:
        self._host, self.dav, self._one_by_one = host, Dav(*login), asyncio.Lock()

    async def between(self, start: datetime, end: datetime) -> tuple[list[EventDate], list[str]]:
        """All dates in a time range in order, and what could not be read, in words. Raises CalendarError."""
        return await asyncio.to_thread(occurrences, await self.dav.between(start, end), start, end)

    async def make(self, context: ToolContext, stored: StoredEvent, text: str, told: str) -> None:
        """Store an object in place of another one, or remove that where `text` is ''. Raises ToolError."""
        row = await self._host.write(lambda tx: self._begin(tx, stored, context.address))
        try:
            etag = await self.dav.put(stored, text)
        except EventConflict:
            now = await self.dav.get(stored.href)
            why = f"changed it meanwhile ({differences(stored.text, now.text)})" if now else "deleted it meanwhile"
            raise ToolError(f"somebody else has {why}. Nothing was changed: look again.") from None
        context.report(Effect("calendar", "calendar", f"calendar {row}", told))
        sql = "UPDATE calendar_changes SET etag = ? WHERE id = ?"
        await context.write(lambda tx: tx.execute(sql, etag, row), f"{told}.")

    def _begin(self, tx: Tx, stored: StoredEvent, place: Address) -> int:
        now = self._host.now()
        tx.execute("DELETE FROM calendar_changes WHERE at < ?", (now - timedelta(days=30)).isoformat())
        sql = "INSERT INTO calendar_changes (href, before, channel, chat, at) VALUES (?, ?, ?, ?, ?) RETURNING id"
        return int(tx.execute(sql, stored.href, stored.text, *place, now.isoformat())[0][0])

    def undo(self, tx: Tx, effect: Effect) -> str:
        """Take a change back, as soon as the server answers; '' where that is too late."""
        number = effect.target.removeprefix("calendar ")
        if not tx.execute("SELECT 1 FROM calendar_changes WHERE id = ?", number):
            return ""
        tx.after(lambda: self._host.spawn(self._put_back(number, effect.text)))
        return f"Taking back in the calendar: {effect.text}. I say so if the server refuses."

    async def _put_back(self, number: str, told: str) -> None:
        async with self._one_by_one:  # of one event the later change first
            sql = "SELECT href, before, etag, channel, chat FROM calendar_changes WHERE id = ?"
            href, before, etag, *place = self._host.read(sql, number)[0]
            made = StoredEvent(href, etag or "", "")
            try:
                if etag is None:  # it was broken off before the server had answered
                    made = await self.dav.get(href) or made
                now = await self.dav.put(made, before) if before or made.etag else ""
                await self._host.write(lambda tx: _was_put_back(tx, number, href, now))
            except NanoclawError as error:
                text = f"This could not be taken back in the calendar: {told}. The reason: {error}"
                await self._host.write(lambda tx: tx.send(Outbound(Address(*place), text), "From the calendar."))


def _was_put_back(tx: Tx, number: str, href: str, etag: str) -> None:
    """The change before, of the same event, has made what is there now."""
    tx.execute("DELETE FROM calendar_changes WHERE id = ?", number)
    last = "SELECT max(id) FROM calendar_changes WHERE href = ?1 AND id < ?3"
    tx.execute(f"UPDATE calendar_changes SET etag = ?2 WHERE id = ({last})", href, etag, number)
