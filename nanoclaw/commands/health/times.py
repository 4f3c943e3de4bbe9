"""The clock of this machine, and the time zone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from nanoclaw.clock import clock
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.plugin import Finding
from nanoclaw.start.config import Config
from nanoclaw.start.home import stored

MOST_SKEW = timedelta(minutes=1)
"""Seconds by which the clock may differ from that of others: a reminder comes that much too late."""

_HOW = "set the clock of this machine (timedatectl set-ntp true)"
_LOOKED_AT = 50


class ServerTime(NamedTuple):
    """The time that a server named in a reply, and the machine's own at that moment."""

    server: str
    named: datetime
    own: datetime

    @property
    def skew(self) -> timedelta:
        return self.own - self.named


def zone(config: Config) -> Iterator[Finding]:
    """Findings about the time zone. Raises ConfigError for an unknown one."""
    own = config.clock()
    machines = clock("", config.environment)
    now = own()
    said = f"{own.name}, now {now:%Y-%m-%d %H:%M}"
    if config.person.timezone and any(_differ(own(), machines(), days) for days in (0, 182)):
        text = f"{said}, as [person] timezone says; the machine's own is {machines.name} ({machines():%H:%M})"
        yield Finding(True, text, "time zone", risk="note")
    elif own.zone is None:
        text = f'{said}; this machine\'s zone has no name, so put timezone = "Europe/Berlin", or yours, under [person]'
        yield Finding(True, f"{text} in config.toml: else a change to summer time is missed", "time zone", risk="note")
    elif (wanted := config.environment.get("TZ", "").removeprefix(":")) and wanted != own.name:
        text = f"{said}; TZ is {wanted!r}, which is not a zone: correct it, or take it out of the environment"
        yield Finding(True, text, "time zone", risk="note")
    else:
        yield Finding(True, said, "time zone")


def _differ(one: datetime, other: datetime, days: int) -> bool:
    later = timedelta(days=days)
    return (one + later).utcoffset() != (other + later).utcoffset()


def times(config: Config, told: Sequence[ServerTime]) -> Iterator[Finding]:
    """Compares the clock with the time that model servers named, and with the newest stored message."""
    now, newest = datetime.now(UTC), _newest(config)
    far = [one for one in told if abs(one.skew) > MOST_SKEW]
    if far and len(far) == len(told):
        one = far[0]
        way = "ahead of" if one.skew > timedelta() else "behind"
        text = f"this machine's clock is {_span(abs(one.skew))} {way} that of {one.server}, so reminders come at the"
        yield Finding(False, f"{text} wrong time: {_HOW}", "clock")
        return
    if newest and newest - now > MOST_SKEW:
        span = _span(newest - now)
        if told:
            text = f"right, as {told[0].server} says; a message is kept that is dated {span} from now: the clock was"
            yield Finding(True, f"{text} wrong when it came", "clock", risk="note")
        else:
            text = f"this machine's clock is {span} behind the newest message that is kept, or was wrong when that came"
            yield Finding(False, f"{text}: look at it, and {_HOW}", "clock")
        return
    against = f"as that of {told[0].server}" if told else "not compared with another one: no model's server told its"
    yield Finding(True, f"{now.astimezone():%Y-%m-%d %H:%M:%S %z}, {against}", "clock")


def _newest(config: Config) -> datetime | None:
    """The latest time of the last messages that came in."""
    found = list[datetime]()
    with suppress(NanoclawError), stored(config) as store:
        for row in store.rows("SELECT received FROM inbox ORDER BY id DESC LIMIT ?", _LOOKED_AT) if store else ():
            with suppress(ValueError, TypeError):
                at = datetime.fromisoformat(row[0])
                found += [at] if at.tzinfo else []
    return max(found, default=None)


def _span(span: timedelta) -> str:
    seconds = span.total_seconds()
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = round(seconds / size)
            return f"{count:,} {name}{'s' * (count != 1)}"
    return f"{seconds:.0f} seconds"
