"""`nanoclaw cron`: reminders and tasks."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Any

from nanoclaw.commands.plugins import carry_out
from nanoclaw.core.clock import Clock, clock
from nanoclaw.core.config import Config
from nanoclaw.core.errors import ConfigError, StoreError
from nanoclaw.core.home import stored
from nanoclaw.core.store.db import Store
from nanoclaw.installation import start_command
from nanoclaw.plugins.schedule.cli import line


def cron(config: Config, options: argparse.Namespace) -> int:
    if options.action == "next":
        return _next(config, options)
    if options.action == "list" and not (config.home / "state.db").exists():
        print(f"No jobs yet. {start_command()} cron add 'tomorrow at 9' 'call Anna' sets a reminder.")
        return 0
    name, _, argument = line(options).partition(" ")
    return carry_out(
        config,
        name,
        argument,
        as_json=getattr(options, "json", False),
        asks_model=name == "rehearse",
        only_reads=options.action == "list",
    )


def _next(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw.plugins.schedule.commands import number
    from nanoclaw.plugins.schedule.job_service import find, next_times
    from nanoclaw.plugins.schedule.jobs import Jobs

    if bool(options.id) == bool(options.cron) or " " in options.id:
        raise ConfigError(f"give the number of a job, or --cron EXPR: {start_command()} cron next --cron '0 9 * * 1-5'")
    now, job = clock(config.person.timezone, config.environment), None
    if options.id:
        with stored(config) as store:
            if store is None:
                raise StoreError("There are no jobs yet.")
            job = find(Jobs(_Reader(store, now)), number(options.id))
    zone = options.tz or ("" if job else str(now.zone or "UTC"))
    times = next_times(job, options.cron, zone, options.start, now(), options.count)
    print("\n".join(times) or "It does not come again.")
    return 0


class _Reader:
    """The store as it is read beside the process that owns it."""

    def __init__(self, store: Store, now: Clock) -> None:
        self._store, self._now = store, now

    def read(self, sql: str, *values: object) -> list[Any]:
        return self._store.rows(sql, *values)

    def now(self) -> datetime:
        return self._now()


COMMANDS = {"cron": cron}
