"""Times of the heartbeat: how often it beats, in which hours and for whom, from the words of the configuration."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Address
from nanoclaw.named_tuple import NamedTuple


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
