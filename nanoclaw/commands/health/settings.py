"""config.toml, secrets.env and the time zone: whether a start would accept them."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from nanoclaw.channels import table as channels
from nanoclaw.cli import good_copy
from nanoclaw.core.errors import ConfigError, NanoclawError
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
        found = good_copy(environ) or Config(configuration.home_of(environ), environment=environ)
        return found._replace(problem=str(error))


def again(config: Config) -> Config:
    """The configuration after something was repaired."""
    found = load({**os.environ, "NANOCLAW_HOME": str(config.home)})
    plugins = found.plugins._replace(off=(*found.plugins.off, *config.without))
    return found._replace(plugins=plugins, without=config.without)


def settings(config: Config, live: Mapping[str, Any] | None, problem: str = "") -> Iterator[Finding]:
    """A line for each problem; `problem` is what a start said."""
    from nanoclaw.start.build import checked

    problem, lacks = config.problem or problem, list[str]()
    if not problem:
        try:
            checked(config)
            lacks = list(channels.incomplete(config))
        except ConfigError as error:
            problem = str(error)
    if problem:
        yield _broken(config, problem)
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
    yield Finding(True, str(config.file), "configuration")


def _broken(config: Config, problem: str) -> Finding:
    copy = config.home / LAST_GOOD
    if good_copy({**config.environment, "NANOCLAW_HOME": str(config.home)}) is None:
        return Finding(False, problem, "configuration")
    day = datetime.fromtimestamp(copy.stat().st_mtime).astimezone()
    text = (
        f"{problem} Until it is fixed, chats and the gateway use the settings of {day:%d %b %Y, %H:%M}. "
        f"To have those again: {shlex.join(['cp', str(copy), str(config.file)])}"
    )
    return Finding(False, text, "configuration")


def zone(config: Config) -> Iterator[Finding]:
    """A line about the time zone. Raises ConfigError for an unknown one."""
    own = config.clock()
    yield Finding(True, f"{own.name}, now {own():%Y-%m-%d %H:%M}", "time zone")


def keys(config: Config, models: Iterable[str]) -> Iterator[Finding]:
    """A line for each wrong or missing key, and one for all others. Raises ConfigError if the configuration is
    wrong."""
    from nanoclaw.commands.keys import settings

    lacks = [*config.keys.lacking(), *filter(None, (trouble_of_model(config, one) for one in models))]
    good = {one.value: str(one) for one in settings(config) if one.source}  # a channel's is in a variable, too
    for said in dict.fromkeys(lacks):
        yield Finding(False, said, "keys")
    if good or not lacks:
        yield Finding(True, "; ".join(good.values()) or "none is set, and none is needed", "keys")


def trouble_of_model(config: Config, model: str) -> str:
    """The reason why a model has no key, and what to do; '' for none."""
    from nanoclaw.providers import names
    from nanoclaw.providers.choose import LOCAL, place_of

    with suppress(NanoclawError):  # the line of the model says what is wrong with its name
        base, key = place_of(config, model)
        if model.startswith(LOCAL) or key or not (name := names.check(model, base)[0]):
            return ""
        if config.environment.get(name, ""):
            return ""
        if name in os.environ and secrets_file.read(config.home / secrets_file.NAME).get(name):
            return f"{name} is empty in the environment, which hides the one in secrets.env: run unset {name}"
        return f"{name} is not set, and {model} needs it: run {start_command()} keys set {name}"
    return ""
