"""config.toml, secrets.env and the time zone: whether a start would accept them, and the way back to the last good
settings."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from nanoclaw.atomic_write import write_atomically
from nanoclaw.channels import table as channels
from nanoclaw.commands import last_good
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Finding
from nanoclaw.installation import start_command
from nanoclaw.start import config as configuration
from nanoclaw.start import secrets_file
from nanoclaw.start.config import LAST_GOOD, Config


def load(environ: Mapping[str, str]) -> Config:
    """The configuration, even if its file is broken: then the last good settings, or none, and `problem` says why."""
    try:
        return configuration.load(environ)
    except ConfigError as error:
        found = last_good.copy(environ) or Config(configuration.home_of(environ), environment=environ)
        return found._replace(problem=str(error))


def again(config: Config) -> Config:
    """The configuration after something was repaired."""
    found = load({**os.environ, "NANOCLAW_HOME": str(config.home)})
    plugins = found.plugins._replace(off=(*found.plugins.off, *config.without))
    return found._replace(plugins=plugins, without=config.without)


def settings(
    config: Config, live: Mapping[str, Any] | None, problem: str = "", *, goes_back: bool = False
) -> Iterator[Finding]:
    """A line for each problem; `problem` is what a start said. With `goes_back` the last good settings can replace a
    broken file, which is kept."""
    from nanoclaw.start.build import checked

    problem, lacks = config.problem or problem, list[str]()
    if not problem:
        try:
            checked(config)
            lacks = list(channels.incomplete(config))
        except ConfigError as error:
            problem = str(error)
    if problem:
        yield _broken(config, problem, goes_back=goes_back)
        return
    for lack in lacks:
        yield Finding(False, lack, "configuration")
    told = (*secrets_file.readable_by_others(config.home, config.keys.written), *config.keys.lacking())
    for warning in config.warnings:
        if warning not in told:  # which have lines of their own
            yield Finding(True, warning, "configuration", risk="note")
    if lacks:
        return
    if not config.file.exists():
        yield Finding(True, "none, defaults", "configuration")
        return
    if live and config.file.stat().st_mtime > time.time() - live["seconds"]:
        text = f"{config.file}; it was changed after the running process started, which uses it after a restart"
        yield Finding(True, text, "configuration", risk="note")
        return
    nothing_to_do = " holds, so it stays as it is" if goes_back else ""
    yield Finding(True, f"{config.file}{nothing_to_do}", "configuration")


def _broken(config: Config, problem: str, *, goes_back: bool) -> Finding:
    copy = config.home / LAST_GOOD
    if last_good.copy({**config.environment, "NANOCLAW_HOME": str(config.home)}) is None:
        none = f" There are no last good settings to go back to: {copy} is missing, or broken too." * goes_back
        return Finding(False, problem + none, "configuration")
    day = datetime.fromtimestamp(copy.stat().st_mtime).astimezone()
    text = (
        f"{problem} Until it is fixed, chats and the gateway use the settings of {day:%d %b %Y, %H:%M} ({copy.name}). "
        f"`{start_command()} doctor --fix --last-good` restores those and keeps yours next to them."
    )
    fix: Callable[[], Awaitable[str]] | None = (lambda: _go_back(config)) if goes_back else None
    return Finding(False, text, "configuration", fix)


async def _go_back(config: Config) -> str:
    """Replace broken settings by the last good ones; the broken ones are kept under another name."""
    aside = _put_aside(config.file)
    write_atomically(config.file, (config.home / LAST_GOOD).read_bytes(), 0o600)
    return f"{config.file} has the last good settings again; what was there is in {aside.name}"


def _put_aside(file: Path) -> Path:
    """Rename the broken file. Returns the new name."""
    stamp = f"{file.name}.broken-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    names = (stamp if not number else f"{stamp}-{number}" for number in range(1000))
    aside = next(one for one in map(file.with_name, names) if not os.path.lexists(one))
    if file.is_file():
        write_atomically(aside, file.read_bytes(), 0o600)
    else:  # a folder, a pipe, a link to nothing
        file.rename(aside)
    return aside


def zone(config: Config) -> Iterator[Finding]:
    """A line about the time zone. Raises ConfigError for an unknown one."""
    own = config.clock()
    yield Finding(True, f"{own.name}, now {own():%Y-%m-%d %H:%M}", "time zone")
