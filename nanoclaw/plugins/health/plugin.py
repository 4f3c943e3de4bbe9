"""The plugin: `GET /health`, and `GET /metrics` for Prometheus, of the page's server; nothing of any conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from nanoclaw import __version__
from nanoclaw.core.events import Event, TurnEnded
from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Finding, Host, Plugin, RouteAnswer


class Health(Plugin):
    name = "health"

    def __init__(self, host: Host, settings: None) -> None:
        self._host, self._turns = host, Counter[str]()
        self._last = "answered"
        self._failed: datetime | None = None
        host.watch(self._count)

    def routes(self) -> Mapping[str, RouteAnswer]:
        return {"GET /health": self._health, "GET /metrics": self._metrics}

    async def check(self, deep: bool) -> Iterable[Finding]:
        told = "nothing serves /health: that takes the page, by a table [page] in config.toml"
        return [Finding(False, told)] if self._host.is_gateway() and not self._host.channel("page") else []

    def _count(self, place: Address, event: Event) -> None:
        if isinstance(event, TurnEnded):
            self._turns[event.reason] += 1
            self._last = event.reason
            self._failed = self._host.now() if event.reason == "failed" else self._failed

    def _facts(self) -> dict[str, Any]:
        status = self._host.status()
        channels = {one["name"]: {"connected": not one["trouble"], "seen": one["alive"]} for one in status["channels"]}
        unanswered, unsent = self._host.records.waiting()
        return {
            "ok": self._last != "failed" and all(one["connected"] for one in channels.values()),
            "version": __version__,
            "uptime": status["seconds"],
            "frozen": self._host.is_frozen(),
            "channels": channels,
            "waiting": {"unanswered": unanswered, "unsent": unsent},
            "turns": dict(self._turns),
            "last_failure": self._failed and self._failed.isoformat(timespec="seconds"),
        }

    async def _health(self, name: str, headers: Mapping[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        facts = self._facts()
        return 200 if facts["ok"] else 503, facts

    async def _metrics(self, name: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        facts = self._facts()
        lines = [f'nanoclaw_info{{version="{__version__}"}} 1', f"nanoclaw_uptime_seconds {facts['uptime']}"]
        lines += [f"nanoclaw_{one} {int(facts[one])}" for one in ("ok", "frozen")]
        for name, one in facts["channels"].items():
            lines.append(f'nanoclaw_channel_connected{{channel="{name}"}} {int(one["connected"])}')
        lines += [f"nanoclaw_messages_{one} {number}" for one, number in facts["waiting"].items()]
        lines += [f'nanoclaw_turns_total{{end="{one}"}} {number}' for one, number in facts["turns"].items()]
        return 200, "\n".join([*lines, ""])
