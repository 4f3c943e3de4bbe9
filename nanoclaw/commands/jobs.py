"""`nanoclaw cron`: reminders and tasks."""

from __future__ import annotations

import argparse

from nanoclaw.commands.plugins import carry_out
from nanoclaw.core.config import Config
from nanoclaw.installation import start_command
from nanoclaw.plugins.schedule.cli import line


def cron(config: Config, options: argparse.Namespace) -> int:
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
        only_reads=options.action in ("list", "next"),
    )


COMMANDS = {"cron": cron}
