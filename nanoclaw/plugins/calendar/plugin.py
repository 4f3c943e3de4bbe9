"""The plugin: the agenda, free times, and events that the model adds, changes and removes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from functools import cached_property
from importlib.util import find_spec
from typing import Annotated, NamedTuple

from nanoclaw import time_words
from nanoclaw.core.errors import ConfigError, NanoclawError, ToolError
from nanoclaw.core.messages import CheckedCall, Effect, ToolExample
from nanoclaw.core.plugin import Ask, Command, Finding, Host, Plugin, Reply, Said, Tool, ToolOutput, Turn, Verdict
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.installation import install_command
from nanoclaw.plugins.calendar import events
from nanoclaw.plugins.calendar.changes import EventChanges
from nanoclaw.plugins.calendar.dav import StoredEvent
from nanoclaw.plugins.calendar.events import EventDate

PLANNED = Effect("calendar", "calendar", "", "changed the calendar")


class CalendarSettings(NamedTuple):
    """Your calendar on a CalDAV server."""

    url: str = ""  # address of the server, or of one calendar
    user: str = ""  # login name
    password: str = ""  # its password
    name: str = ""  # calendar for new events; empty: the first

    def check(self) -> None:
        if self.url and not self.url.startswith(("https://", "http://")):
            raise ConfigError(f"calendar.url must begin with https:// or http://, not {self.url!r}.")


class Calendar(Plugin):
    name = "calendar"
    settings = CalendarSettings
    secrets = ("password",)
    seconds = 60.0
    migrations = (
        """CREATE TABLE calendar_changes (
            id INTEGER PRIMARY KEY, href TEXT NOT NULL,
            before TEXT NOT NULL,               -- the object until then; '' where there was none
            etag TEXT,                          -- of what was made of it; '' where it was removed, NULL if unknown
            channel TEXT NOT NULL, chat TEXT NOT NULL, at TEXT NOT NULL
        ) STRICT""",
    )
    marks = tuple(f"calendar_changes.{one}" for one in ("href", "etag", "channel", "chat", "at"))

    def __init__(self, host: Host, settings: CalendarSettings) -> None:
        self._host, self._settings = host, settings
        self._seen: dict[str, EventDate] = {}

    @cached_property
    def public(self) -> EventChanges | None:
        is_ready = self._settings.url and find_spec("recurring_ical_events")
        return EventChanges(self._host, *self._settings[:3]) if is_ready else None

    @property
    def _changes(self) -> EventChanges:
        if not self._settings.url:
            raise ToolError("no calendar is set: write url, user and password into [calendar] of config.toml.")
        if not self.public:
            raise ToolError(f"the calendar needs more libraries: {install_command('calendar')}")
        return self.public

    def tools(self) -> Iterable[Tool]:
        example = ToolExample("Dentist on Friday at 10", {"title": "Dentist", "when": "Friday at 10"})
        changes = (tool(self._add_event, examples=[example]), tool(self._change_event))
        judged = (one._replace(audit=lambda _: PLANNED, check=self._check) for one in changes)
        return [tool(self._agenda, reach="none"), *judged] if self.public else []

    def commands(self) -> Iterable[Command]:
        told = "your calendar: /agenda, /agenda tomorrow, /agenda 14 (days)"
        return [Command("agenda", told, self._shown, "time", cli=True, private=True, part_of="jobs")]

    async def check(self, deep: bool) -> Iterable[Finding]:
        if not (deep and self._settings.url):
            return []
        try:
            return [Finding(True, ", ".join(name for _, name in await self._changes.dav.calendars()), self.name)]
        except NanoclawError as error:
            return [Finding(False, str(error), self.name)]

    async def _shown(self, said: Said) -> Reply:
        words = said.argument.strip()
        days = int(words[:4]) if words.isascii() and words.isdigit() else 1 if words else 7
        found, problems = await self._between("" if words.isdigit() else words, days)
        data = [{"title": one.title, "start": one.start.isoformat(), "end": one.end.isoformat()} for one in found]
        return Reply(_told(found, problems), {"events": data, "problems": problems})

    async def _agenda(
        self,
        start: Annotated[str, "first day, such as today, Friday or 2026-12-01"] = "today",
        days: Annotated[int, "number of days"] = 7,
        free_in: Annotated[str, "hours such as 09:00-18:00: list what is free in them instead"] = "",
    ) -> ToolOutput:
        """Events in the person's calendar, each with the id that other tools take; or free times."""
        found, problems = await self._between(start, days)
        if free_in:
            return ToolOutput(self._free(found, self._day(start), days, free_in), outside=self.name)
        return ToolOutput(_told(found, problems, with_ids=True), outside=self.name)

    def _free(self, found: list[EventDate], first: date, days: int, hours: str) -> str:
        try:
            begin, end = (time.fromisoformat(one.strip()) for one in hours.split("-"))
        except ValueError:
            raise ToolError("free_in must be hours like 09:00-18:00.") from None
        now, lines = self._host.now(), list[str]()
        for day in (first + timedelta(days=number) for number in range(days)):
            first_of, last_of = (datetime.combine(day, one, now.tzinfo) for one in (begin, end))
            free = events.gaps(found, max(first_of, now), last_of)
            whole = [one.title for one in found if one.is_all_day and one.start.date() <= day < one.end.date()]
            told = ", ".join(f"{one:%H:%M}–{two:%H:%M}" for one, two in free) or "nothing free"
            lines.append(f"{day:%a %d %b %Y}: {told}" + f" (all day: {', '.join(whole)})" * bool(whole))
        return "\n".join(lines)

    async def _between(self, start: str, days: int) -> tuple[list[EventDate], list[str]]:
        if not 0 < days <= 366:
            raise ToolError(f"days must be 1 to 366, not {days}.")
        first = datetime.combine(self._day(start), time(), zone := self._host.now().tzinfo)
        end = datetime.combine(first.date() + timedelta(days=days), time(), zone)
        found, problems = await self._changes.between(first, end)
        self._seen.update((one.id, one) for one in found)
        return found, problems

    def _day(self, words: str) -> date:
        """The day that is meant. Raises ToolError."""
        try:
            return date.fromisoformat(words.strip())
        except ValueError:
            return time_words.upcoming(self._read(words.strip() or "today", is_all_day=True), self._host.now()).date()

    def _read(self, words: str, *, is_all_day: bool = False) -> time_words.Reading:
        """A time in words, or a day. Raises ToolError, with the question to ask where it is not clear."""
        now, zone = self._host.now(), self._host.now().tzinfo or "UTC"
        try:
            noon = time_words.read_known(f"{words} at 23:59", now, zone) if is_all_day else None
            found = time_words.read(words, now, zone) if isinstance(noon, time_words.Unclear | None) else noon
        except time_words.TimeWordsError as error:
            raise ToolError(str(error)) from None
        if isinstance(found, time_words.Unclear):
            raise ToolError(f"ask the person: {found.question}")
        return found

    async def _check(self, call: CheckedCall, turn: Turn) -> Verdict:
        """The owner is asked before others get a mail about it from the server."""
        one = self._seen.get(str(call.arguments.get("event", "")))
        return Ask(f"Change “{one.title}”, to which {one.people} people are invited?") if one and one.people else None

    async def _add_event(
        self,
        context: ToolContext,
        title: str,
        when: Annotated[str, "in the person's words, such as tomorrow at 9, or every Tuesday at 18:00"],
        minutes: Annotated[int, "how long it takes"] = 60,
        all_day: bool = False,
        place: str = "",
        notes: str = "",
    ) -> str:
        """Add an event to the person's calendar. The result says how the time was understood: repeat it."""
        if not title.strip() or not 0 < minutes <= 60 * 24 * 31:
            raise ToolError("an event needs a title, and takes 1 minute to 31 days.")
        now, reading = self._host.now(), self._read(when, is_all_day=all_day)
        start = time_words.upcoming(reading, now)
        wish = events.Wish(start, minutes, title.strip()[:200], place[:200], notes[:4_000])
        wanted, calendars = self._settings.name, await self._changes.dav.calendars()
        if not (places := [place for place, name in calendars if wanted in ("", name)]):
            raise ToolError(f"there is no calendar {wanted!r}.")
        made, text = events.new(places[0], wish, events.rule_of(reading), now, is_all_day=all_day)
        end, zone = start + timedelta(minutes=minutes), now.tzinfo or "UTC"
        said = f"{time_words.in_words(start, now, zone)}, until {end:%H:%M}"
        if not isinstance(reading, time_words.At):
            said = time_words.repeat_in_words(reading, now, zone)
        elif all_day:
            said = f"{start:%a %d %b %Y}, all day"
        return await self._make(context, made, text, f"added “{wish.title}”, {said}")

    async def _change_event(
        self,
        context: ToolContext,
        event: Annotated[str, "its id in the agenda"],
        when: Annotated[str, "its new time, in words"] = "",
        minutes: Annotated[int, "its new length; 0: as it is"] = 0,
        title: str = "",
        place: str = "",
        notes: str = "",
        remove: bool = False,
        whole_series: Annotated[bool, "all dates of a series, not this one alone"] = False,
    ) -> str:
        """Move, change or remove an event, or one date of a series."""
        if not (one := self._seen.get(event.strip())):
            raise ToolError(f"there is no event {event[:40]!r}: call agenda, and take the id that it shows.")
        now, zone = self._host.now(), self._host.now().tzinfo or "UTC"
        which = "" if one.recurrence is None else " (the whole series)" if whole_series else " (this date alone)"
        if remove:
            text = events.without(one, now) if one.recurrence is not None and not whole_series else ""
            told = f"removed “{one.title}” of {one.start:%a %d %b %Y, %H:%M}{which}"
            return await self._make(context, one.stored, text, told)
        start = time_words.upcoming(self._read(when, is_all_day=one.is_all_day), now) if when else None
        if not (start or minutes or title or place or notes):
            raise ToolError("say what shall change: when, minutes, title, place, notes, or remove.")
        text = events.changed(one, events.Wish(start, minutes, title, place, notes), now, is_series=whole_series)
        moved = f"{start:%a %d %b %Y}" if start and one.is_all_day else start and time_words.in_words(start, now, zone)
        at = f", now {moved}" if moved else ""
        return await self._make(context, one.stored, text, f"changed “{title or one.title}”{at}{which}")

    async def _make(self, context: ToolContext, stored: StoredEvent, text: str, told: str) -> str:
        await self._changes.make(context, stored, text, told)
        self._seen = {key: one for key, one in self._seen.items() if one.stored.href != stored.href}
        return f"{told[:1].upper()}{told[1:]}."


def _told(found: Iterable[EventDate], problems: Iterable[str], *, with_ids: bool = False) -> str:
    """The events by day, and what is not right with them."""
    lines, day = list[str](), None
    for one in found:
        lines += [f"{one.start:%a %d %b %Y}"] if one.start.date() != day else []
        day, last = one.start.date(), one.end - timedelta(seconds=1)
        is_short = last.date() == day
        hours = f"{one.start:%H:%M}–{one.end:{'%H:%M' if is_short else '%a %d %b, %H:%M'}}"
        if one.is_all_day:
            hours = "all day" if is_short else f"until {last:%a %d %b}"
        place, series = f" @ {one.place}" * bool(one.place), " (of a series)" * (one.recurrence is not None)
        lines.append(f"- {hours} {one.title}{place}" + f"{series} [{one.id}] {one.notes}".rstrip() * with_ids)
    return "\n".join([*(lines or ["Nothing is in the calendar then."]), *(f"({one}.)" for one in problems)])
