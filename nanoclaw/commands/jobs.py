"""What begins by itself, from the command line: reminders, tasks and the heartbeat."""

from __future__ import annotations

import argparse
import sys

from nanoclaw import attach
from nanoclaw.commands.talking import serving, there_or_here
from nanoclaw.core import parts
from nanoclaw.core.config import Config
from nanoclaw.core.errors import ConfigError, StoreError
from nanoclaw.core.messages import Address
from nanoclaw.core.store.db import Store
from nanoclaw.escapes import printable
from nanoclaw.plugins.schedule import job_service as desk
from nanoclaw.plugins.schedule.cli import line


def cron(config: Config, options: argparse.Namespace) -> int:
    if options.action == "next":
        if bool(options.id) == bool(options.cron) or " " in options.id:
            raise ConfigError("give the number of a job, or --cron EXPR: nanoclaw cron next --cron '0 9 * * 1-5'")
        with parts.stored(config) as store:
            if options.id and store is None:
                raise StoreError("There are no jobs yet.")
            times = desk.next_times(
                parts.cron_desk(config, store) if options.id and store else None,
                options.id or options.cron,
                options.tz or parts.zone_name(parts.person_clock(config)) * bool(options.cron),
                options.start,
                parts.person_clock(config)(),
                options.count,
            )
        print("\n".join(times) or "It does not come again.")
        return 0
    if options.action == "list":
        with parts.stored(config) as store:
            if store is None:
                print("No jobs yet. nanoclaw cron add 'tomorrow at 9' 'call Anna' sets a reminder.")
            else:
                print(printable(parts.cron_desk(config, store).table()))
        return 0
    options.session, options.model = "main", ""

    async def here() -> int:
        parts.make_home(config)
        store = Store(config.home / "state.db")
        try:
            if options.action == "rehearse":
                said = await _rehearse(config, store, options)
            else:
                faces = desk.Commands(parts.cron_desk(config, store))
                said = faces.cron(line(options), Address("terminal", "main"), "owner")
        finally:
            store.close()
        print(printable(said))
        if options.action in ("add", "resume", "run"):
            print("(Jobs fire while `nanoclaw gateway`, or a chat, runs.)", file=sys.stderr)
        return 0

    return there_or_here(config, options, "cron", lambda link: attach.ask(link, line(options), [], as_json=False), here)


async def _rehearse(config: Config, store: Store, options: argparse.Namespace) -> str:
    from nanoclaw.core.store.flags import Flags
    from nanoclaw.plugins.schedule.rehearsing import rehearse_job

    now = parts.person_clock(config)
    budget = parts.make_budget(config, store, Flags(store, now), now)
    return await rehearse_job(config, store, budget, f"{options.id} {options.at}")


def heartbeat(config: Config, options: argparse.Namespace) -> int:
    if options.dry_run:
        from nanoclaw.commands import looking

        with parts.stored(config) as store:
            print(printable(looking.rehearse_heartbeat(config, store)))
        return 0
    options.session, options.model = "main", ""

    async def beat() -> int:
        from nanoclaw.providers import choose

        model = await choose.choose_model(config)
        async with serving(config, None, options, model) as running:
            print(printable(await running.beat()))
        return 0

    return there_or_here(
        config, options, "answer", lambda link: attach.ask(link, "/heartbeat", [], as_json=False), beat
    )


COMMANDS = {"cron": cron, "heartbeat": heartbeat}
