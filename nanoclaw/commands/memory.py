"""`nanoclaw memory forget`: deletes text for good."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nanoclaw.channels import attach
from nanoclaw.commands.arguments import Options
from nanoclaw.commands.plugins import public
from nanoclaw.core.errors import ConfigError
from nanoclaw.start.config import Config


def forget(config: Config, options: Options) -> int:
    if not config.workspace_path.exists():
        print("Nothing found.")
        return 0
    from nanoclaw.commands.talking import run

    return run(_forget(config, options))


async def _forget(config: Config, options: Options) -> int:
    from nanoclaw.commands.talking import program

    query = " ".join(options.query)
    async with program(config) as app:
        forgetter = public(app, "forget")
        listing = forgetter.find(query)
        if not listing.count:
            print("Nothing found.")
            return 0
        print(listing.shown(), flush=True)
        numbers = _numbers(options, listing.exact)
        if not numbers:
            print("Nothing was forgotten.")
            return 0 if sys.stdin.isatty() else 1
        print(forgetter.forget(query, numbers).summary())
        return 0


def _numbers(options: Options, exact: Sequence[int]) -> list[int]:
    """The numbers of the list to be forgotten: as given, or as the person answers."""
    answer = options.number
    if options.yes and not answer:
        return list(exact)
    if not answer:
        what = f"{len(exact)} with exactly these words" if exact else "none, only numbers"
        attach.say(f"forget them? It cannot be undone. y ({what}), numbers such as 1,3, or N:")
        answer = sys.stdin.readline().strip()
        if answer.lower() in ("y", "yes"):
            return list(exact)
    numbers = [part for part in answer.replace(",", " ").split() if part.isdigit()]
    if options.number and not numbers:
        raise ConfigError(f"--number {options.number!r}: give numbers of the list, such as 1,3")
    return [int(number) for number in numbers]
