"""Times of the heartbeat: how often it beats, in which hours and for whom, from the words of the configuration."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from typing import NamedTuple

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Address


class Hours(NamedTuple):
    """Active hours in minutes after midnight, `end` not included; over midnight when it comes before `start`."""

    start: int
    end: int

    def has(self, local: datetime) -> bool:
        minute = local.hour * 60 + local.minute
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    def began(self, local: datetime) -> datetime:
        """The moment they began last."""
        today = self._start(local, 0)
        return today if today.astimezone(UTC) <= local.astimezone(UTC) else self._start(local, -1)

    def begins(self, local: datetime) -> datetime:
        """The moment they begin next."""
        today = self._start(local, 0)
        return today if today.astimezone(UTC) > local.astimezone(UTC) else self._start(local, 1)

    def _start(self, local: datetime, days: int) -> datetime:
        day, hour = local.date() + timedelta(days=days), time(self.start // 60, self.start % 60)
        return datetime.combine(day, hour, local.tzinfo)


class HeartbeatTimes(NamedTuple):
    """`every` is None when heartbeats are off; `target` is None for the conversation that was used last."""

    every: timedelta | None
    hours: Hours
    target: Address | None = None


def times_of(every: str, active: str, target: str = "") -> HeartbeatTimes:
    """The times that a configuration asks for. Raises ConfigError naming the key and what to write."""
    channel, _, chat = target.partition(":")
    if target and not (channel and chat):
        raise ConfigError(
            f"heartbeat.target is {target!r}: write channel:chat, such as 'terminal:main', or leave it "
            "out for the conversation that was used last."
        )
    return HeartbeatTimes(_every(every), _hours(active), Address(channel, chat) if target else None)


_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def _every(text: str) -> timedelta | None:
    found = re.fullmatch(r"(\d{1,5})\s*(m|min|h|d)?", text.strip().lower())
    advice = "write a time such as '30m' or '2h', or '0' for no heartbeats"
    if not found or (found[2] is None and int(found[1])):
        raise ConfigError(f"heartbeat.every is {text!r}: {advice}.")
    span = int(found[1]) * _UNITS[(found[2] or "m")[0]]
    if span > timedelta(days=1):
        advice = f"{advice}. Lines of HEARTBEAT.md may say 'every 2d' themselves"
        raise ConfigError(f"heartbeat.every is {text!r}, more than a day: {advice}.")
    return span or None


def _hours(text: str) -> Hours:
    found = re.fullmatch(r"(\d{1,2}):(\d{2})\s*[-–—]\s*(\d{1,2}):(\d{2})", text.strip())
    if found:
        start, end = int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])
        if int(found[2]) < 60 and int(found[4]) < 60 and start < 1440 and end <= 1440 and start != end:
            return Hours(start, end)
    raise ConfigError(
        f"heartbeat.active is {text!r}: write two different times such as '08:00-22:00', also over "
        "midnight ('22:00-06:00'), or '00:00-24:00' for always."
    )
