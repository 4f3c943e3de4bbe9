"""The time zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from nanoclaw.clock import clock
from nanoclaw.core.plugin import Finding
from nanoclaw.start.config import Config


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
