"""Models that run on this machine: list, download and delete them."""

from __future__ import annotations

import asyncio
import sys

from nanoclaw.channels import attach
from nanoclaw.commands.arguments import Options
from nanoclaw.core.plugin import Reply
from nanoclaw.escapes import write_over
from nanoclaw.installation import start_command
from nanoclaw.providers import catalogue
from nanoclaw.providers.choose import has_model, models_folder
from nanoclaw.providers.pull import pull as pull_model
from nanoclaw.start.config import Config


def listed(config: Config, options: Options) -> Reply:
    lines = list[str]()
    for entry in catalogue.catalogue():
        is_here = (models_folder(config) / entry.file).is_file()
        state = "on this machine" if is_here else f"{start_command()} local pull {entry.name}"
        lines.append(f"local/{entry.name:<20} {entry.size / 1e6:>6,.0f} MB  {entry.licence:<11} {state}")
    own = (one for one in catalogue.installed(models_folder(config)) if one.name == one.path.name)
    return Reply("\n".join([*lines, *(f"local/{one.path}  {one.size / 1e6:,.0f} MB" for one in own)]))


def pull(config: Config, options: Options) -> Reply | int:
    if options.if_needed and asyncio.run(has_model(config)):
        return 0
    entry = catalogue.find(options.name) if options.name else catalogue.recommended()
    config.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    attach.say(f"local/{entry.name}: {entry.size / 1e6:,.0f} MB, {entry.licence}")
    path = asyncio.run(pull_model(entry, models_folder(config), _Progress().show))
    return Reply(f"local/{entry.name} is ready: {path}")


def remove(config: Config, options: Options) -> Reply:
    return Reply(f"{catalogue.remove(options.name, models_folder(config)) / 1e6:,.0f} MB freed.")


class _Progress:
    """A progress bar on stderr; in a file, a line for every tenth."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, done: int, total: int, phase: str) -> None:
        percent = 100 * done // max(total, 1)
        is_terminal = sys.stderr.isatty()
        bar = f"{phase:<34} {'█' * (percent // 4):<25} {percent:>3} %  {done / 1e6:,.0f} MB"
        line = bar if is_terminal else f"{phase}: {percent // 10 * 10} %"
        if line == self._last:
            return
        self._last = line
        if is_terminal:
            write_over(sys.stderr, line)
        if percent >= 100 or not is_terminal:
            print("" if is_terminal else line, file=sys.stderr, flush=True)
