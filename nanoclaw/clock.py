"""The person's time: which zone, and what time it is there; and the pauses of the program."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path


class Clock:
    """Call it for the time now; `zone` is None if the machine's zone has no name that is known."""

    def __init__(self, zone: tzinfo | None) -> None:
        self.zone = zone

    def __call__(self) -> datetime:
        return datetime.now(self.zone) if self.zone else datetime.now(UTC).astimezone()

    @property
    def name(self) -> str:
        return str(self.zone) if self.zone else self().tzname() or "UTC"


def clock(timezone_name: str, environ: Mapping[str, str], key: str = "person.timezone") -> Clock:
    """The clock of a configured zone such as "Europe/Berlin", or of the machine's when that is ''.

    Raises ValueError for an unknown zone, naming the `key` of the config and near ones.
    """
    if not timezone_name:
        return Clock(_zone(environ.get("TZ", "")) or _zone(_machine_zone()))
    zone = _zone(timezone_name)
    if zone is None:
        import difflib
        import zoneinfo

        near = difflib.get_close_matches(timezone_name, zoneinfo.available_timezones(), 2, 0.5)
        hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "Write it like 'Europe/Berlin'."
        raise ValueError(f"unknown time zone {timezone_name!r} ({key} in config.toml). {hint}")
    return Clock(zone)


def short_time(at: datetime, now: datetime) -> str:
    """A time in the words of a sentence, with the day where that is another."""
    at = at.astimezone(now.tzinfo)
    return f"{at:%H:%M}" if at.date() == now.date() else f"{at:%a %-d %b, %H:%M}"


_pace = 1.0


def set_pace(pace: float) -> None:
    """Make the pauses of this process so many times as long. The program itself never does; a test of a whole process
    sets 0.02, so that a second lasts 20 ms.

    A pause lies between two tries, looks, or starts, or before somebody is told of a wait. The time that dates things
    is not a pause, and neither is a limit, such as that of a command, of a request, or of a person's wait.
    """
    global _pace
    _pace = pace


def paced(seconds: float) -> float:
    """Real length of a pause, where something else may end it."""
    return seconds * _pace


async def pause(seconds: float) -> None:
    await asyncio.sleep(paced(seconds))


def pause_thread(seconds: float) -> None:
    """The same where no loop runs, or in a thread."""
    time.sleep(paced(seconds))


def _zone(name: str) -> tzinfo | None:
    from zoneinfo import ZoneInfo  # takes 5 ms

    try:
        return ZoneInfo(name.removeprefix(":")) if name else None
    except (OSError, ValueError, KeyError):
        return None


def _machine_zone() -> str:
    """From the link that /etc/localtime is, as systemd and macOS keep it; else from Debian's /etc/timezone."""
    try:
        _, found, name = os.path.realpath("/etc/localtime").partition("zoneinfo/")
        return name if found else Path("/etc/timezone").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
