"""Heartbeat: code looks at HEARTBEAT.md now and then, and wakes the model only for what is due or has changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from nanoclaw.core.errors import ConfigError, ToolError
from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Command, Ended, Hears, Host, NamedTuple, Plugin, Profile, Said, Section, Tool, Turn, Tx
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import BLANKS

if TYPE_CHECKING:
    from nanoclaw.plugins.heartbeat.beats import Beats


CAPABILITY = (
    "HEARTBEAT.md is read every {} ({}) and wakes you for what is due. To keep watching something add a line there: "
    "`- [ ] what to do` with `every 1d`, or, for changes alone, with `watch notes/inbox.md`, `watch https://…` or "
    "`watch $ COMMAND`."
)


class HeartbeatTimes(NamedTuple):
    """`every` is None when heartbeats are off; `target` is None for the conversation that was used last. Active hours
    are minutes after midnight, `end` not included; over midnight when it comes before `start`."""

    every: timedelta | None
    start: int
    end: int
    target: Address | None = None

    def is_active(self, local: datetime) -> bool:
        minute = local.hour * 60 + local.minute
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    def following(self, now: datetime) -> datetime | None:
        """The next beat: counted from the beginning of the active hours, so that a restart changes nothing."""
        if self.every is None:
            return None
        clock = time(self.start // 60, self.start % 60)
        begins = [datetime.combine(now.date() + timedelta(days), clock, now.tzinfo) for days in (-1, 0, 1)]
        began, next_day = begins[:2] if begins[1].astimezone(UTC) > now.astimezone(UTC) else begins[1:]
        passed = (now.astimezone(UTC) - began.astimezone(UTC)) // self.every
        beat = (began.astimezone(UTC) + (passed + 1) * self.every).astimezone(now.tzinfo)
        return beat if self.is_active(now) and beat < next_day and self.is_active(beat) else next_day


def times_of(every: str, active: str, target: str = "") -> HeartbeatTimes:
    """The times that a configuration asks for. Raises ConfigError naming the key and what to write."""
    channel, _, chat = target.partition(":")
    if target and not (channel and chat):
        raise ConfigError(
            f"heartbeat.target is {target!r}: write channel:chat, such as 'terminal:main', or leave it "
            "out for the conversation that was used last."
        )
    return HeartbeatTimes(_every(every), *_hours(active), Address(channel, chat) if target else None)


def span_of(text: str) -> timedelta | None:
    """The time that "every 30m" or "daily" in a text stands for; None where it says none."""
    found = re.search(EVERY, text, re.IGNORECASE)
    if not found or found["count"] == "0":
        return None
    count = 2 if found["other"] else int(found["count"] or 1)
    unit = "d" if found["night"] else found["unit"] or found["first"] or found["last"]
    return count * _UNITS[unit[0].lower()]


# patterns as texts: compiled when first used, not at every start of the program
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
UNIT = r"(m|min|mins|minutes?|h|hours?|d|days?|w|weeks?)"
_LY = "hourly|daily|weekly"  # "the daily news" says nothing of how often
EVERY = (
    rf"\b(?:every|each)\s+(?:(?P<count>\d{{1,5}})\s*|(?P<other>other|second)\s+)?(?P<unit>{UNIT}|(?P<night>morning|evening|night))\b"
    rf"|^(?P<first>{_LY})\b(?![/-]|\.\w)"
    rf"|(?<![\w/.-])(?<!\bthe )(?P<last>{_LY})(?=\s*(?:[,;:!?)]|\.\s|\.?$))"
)


def _every(text: str) -> timedelta | None:
    span = span_of(f"every {text}") if re.fullmatch(rf"\d+\s*{UNIT}", text.strip()) else None
    if text.strip() == "0" or (span and span <= timedelta(days=1)):
        return span
    advice = "write a time such as '30m' or '2h', or '0' for no heartbeats"
    if span:
        advice += ", of at most a day. Lines of HEARTBEAT.md may say 'every 2d' themselves"
    raise ConfigError(f"heartbeat.every is {text!r}: {advice}.")


def _hours(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,2}):([0-5]\d)\s*[-–—]\s*(\d{1,2}):([0-5]\d)", text.strip())
    if found:
        start, end = int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])
        if start < 1440 and end <= 1440 and start != end:
            return start, end
    raise ConfigError(
        f"heartbeat.active is {text!r}: write two different times such as '08:00-22:00', also over "
        "midnight ('22:00-06:00'), or '00:00-24:00' for always."
    )


class HeartbeatSettings(NamedTuple):
    """The heartbeat: the checklist in HEARTBEAT.md, checked from time to time."""

    every: str = "30m"  # time between two checks, such as "30m" or "2h"; "0": never
    active: str = "08:00-22:00"  # hours of the day in which it checks
    target: str = ""  # conversation that gets the news, such as "terminal:main"; empty: the one you used last

    def check(self) -> None:
        times_of(*self)


class Heartbeat(Plugin):
    name = "heartbeat"
    needs = ("access",)
    settings = HeartbeatSettings
    migrations = (
        """
        CREATE TABLE IF NOT EXISTS checklist (     -- items of HEARTBEAT.md
            key TEXT PRIMARY KEY,                  -- SHA-256 of the item's text
            at TEXT NOT NULL,                      -- when it came up, or was looked at last; UTC
            sha256 TEXT NOT NULL,                  -- of what it watches
            seen TEXT NOT NULL                     -- the beginning of that
        ) STRICT;
        CREATE TABLE IF NOT EXISTS alerts (        -- what heartbeats had to tell
            id INTEGER PRIMARY KEY,
            at TEXT NOT NULL,
            text TEXT NOT NULL,                    -- '' once it is told
            sha256 TEXT NOT NULL,                  -- of its words
            kind TEXT NOT NULL CHECK (kind IN ('low', 'normal', 'high')),
            fired TEXT                             -- when it was told; NULL: it waits
        ) STRICT;
        """,
        "ALTER TABLE alerts ADD COLUMN outside TEXT NOT NULL DEFAULT ''",
        """
        CREATE TABLE heartbeat_told (
            sha256 TEXT PRIMARY KEY,               -- of the words
            at TEXT NOT NULL                       -- UTC
        ) STRICT;
        INSERT INTO heartbeat_told SELECT sha256, max(fired) FROM alerts WHERE fired IS NOT NULL GROUP BY sha256;
        DROP TABLE alerts;
        """,
    )
    profiles = (
        Profile(
            "heartbeat", "minimal", purpose="heartbeat", can_ask=False, can_allow=False, words="a heartbeat"
        )._replace(again="A heartbeat was interrupted.{} Its lines come up again at the next one.", blocks=False),
    )
    marks = ("checklist.key", "checklist.at", "checklist.sha256", "heartbeat_told.sha256", "heartbeat_told.at")
    hears: Mapping[str, Hears] = {"on_end": Hears(origins=("heartbeat",))}
    stamp = "the profile alone"

    def __init__(self, host: Host, settings: HeartbeatSettings) -> None:
        self._host, self._settings = host, settings
        self._times = times_of(*settings)

    @cached_property
    def public(self) -> Beats:
        from nanoclaw.plugins.heartbeat.beats import Beats

        return Beats(self._host, self._times)

    def tools(self) -> Iterable[Tool]:
        return [tool(self._report, reach="none", open_to=("heartbeat",))._replace(ends=True)]

    async def _report(
        self,
        context: ToolContext,
        notify: Annotated[bool, "whether to tell the person"],
        text: Annotated[str, "for the person, in their language; '' without notify"] = "",
    ) -> str:
        """End this heartbeat: tell the person one thing, or (notify false) nothing."""
        if notify and not text.strip(BLANKS):
            raise ToolError("report with notify needs a text for the person. Nothing was sent.")
        self.public.reports[context.turn] = text if notify else ""
        return "reported" if notify else "nothing is told"

    def commands(self) -> Iterable[Command]:
        help_ = "look at HEARTBEAT.md now, and ask the model about what is due"
        return [Command("heartbeat", help_, self._beat, waits=True, private=True, part_of="jobs")]

    async def _beat(self, said: Said) -> str:
        return await self.public.command()

    def sections(self, query: str, profile: Profile) -> Iterable[Section]:
        is_told = self._times.every is not None and profile.name == "person"
        text = CAPABILITY.format(self._settings.every, self._settings.active)
        return [Section("capabilities", "Heartbeat", text if is_told else "")]

    async def run(self) -> None:
        await self.public.run()

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        return self.public.on_end(ended, turn, tx)
