"""`nanoclaw jobs add` and `rehearse`: reminders and tasks."""

from __future__ import annotations

import argparse

from nanoclaw.commands.plugins import carry_out
from nanoclaw.plugins.schedule.cli import line
from nanoclaw.start.config import Config


def jobs(config: Config, options: argparse.Namespace) -> int:
    name, _, argument = line(options).partition(" ")
    return carry_out(config, name, argument, as_json=False, asks_model=name == "rehearse")


COMMANDS = {"jobs": jobs}
