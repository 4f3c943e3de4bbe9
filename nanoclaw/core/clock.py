"""The person's time: which zone, and what time it is there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from nanoclaw.core.errors import ConfigError


class Clock:
    """Call it for the time now; `zone` is None where the machine's zone has no name that is known."""

    def __init__(self, zone: ZoneInfo | None) -> None:
        self.zone = zone

    def __call__(self) -> datetime:
        return datetime.now(self.zone) if self.zone else datetime.now(UTC).astimezone()

    @property
    def name(self) -> str:
        return str(self.zone) if self.zone else self().tzname() or "UTC"


def clock(timezone_name: str, environ: Mapping[str, str], key: str = "person.timezone") -> Clock:
    """The clock of a configured zone such as "Europe/Berlin", or of the machine's when that is ''.

    Raises ConfigError for an unknown zone, naming the `key` of the config and near ones.
    """
    if not timezone_name:
        return Clock(_zone(environ.get("TZ", "")) or _zone(_machine_zone()))
    zone = _zone(timezone_name)
    if zone is None:
        import difflib
        import zoneinfo

        near = difflib.get_close_matches(timezone_name, zoneinfo.available_timezones(), 2, 0.5)
        hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "Write it like 'Europe/Berlin'."
        raise ConfigError(f"unknown time zone {timezone_name!r} ({key} in config.toml). {hint}")
    return Clock(zone)


def _zone(name: str) -> ZoneInfo | None:
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
