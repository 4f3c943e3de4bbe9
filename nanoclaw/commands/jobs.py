"""`nanoclaw jobs add` and `rehearse`: reminders and tasks, as the line in the chat that does the same."""

from __future__ import annotations

from nanoclaw.commands.arguments import Options
from nanoclaw.commands.plugins import carry_out
from nanoclaw.start.config import Config


def jobs(config: Config, options: Options) -> int:
    name, _, argument = line(options).partition(" ")
    return carry_out(config, name, argument, as_json=False, asks_model=name == "rehearse")


def line(options: Options) -> str:
    """The command without its slash."""
    if options.command == "jobs rehearse":
        return f"rehearse {options.id} {options.at}"
    flags = [flag for flag in ("task", "skip", "may_schedule", "plan") if getattr(options, flag)]
    words = [f"--{flag.replace('_', '-')}" for flag in flags]
    words += [f"--{name} {getattr(options, name)}" for name in ("to", "zone", "nag") if getattr(options, name)]
    return " ".join(["jobs add", *words, _said(options.said)])


def _said(said: list[str]) -> str:
    """The time, a colon and the text: said as in the chat, or as arguments of which the first is the time."""
    is_parted = len(said) == 2 or (len(said) > 2 and any(" " in one for one in said))
    return f"{said[0].removesuffix(':')}: {' '.join(said[1:])}" if is_parted else " ".join(said)
