"""The table of chat channels: where the spec of each is, and which of them the configuration wants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from importlib import import_module
from typing import Any

from nanoclaw.core.channel import ChannelHost, ChannelSpec, ChannelTable, Checks, Proves, secret_variable
from nanoclaw.core.errors import ChannelError, ConfigError
from nanoclaw.start.config import Config

CHECK_SECONDS = 15.0

BUILT_IN = {
    name: f"nanoclaw.channels.{name}.settings"
    for name in ("telegram", "matrix", "email", "discord", "slack", "xmpp", "signal", "whatsapp")
}
"""Modules with a `SPEC`, which are cheap to import."""


def names() -> list[str]:
    """Names that are valid in [channels.NAME]; a package called like a built-in channel is not used."""
    return [*BUILT_IN, *(name for name in _installed() if name not in BUILT_IN)]


def find(name: str) -> ChannelSpec | None:
    """The spec of a channel; None for an unknown name. A package may bring a plain function in its place,
    which is called with its table of config.toml, nanoclaw's home, and the clock."""
    if name in BUILT_IN:
        built_in: ChannelSpec = import_module(BUILT_IN[name]).SPEC
        return built_in
    point = _installed().get(name)
    found = point.load() if point else None
    if found is None or isinstance(found, ChannelSpec):
        return found
    return ChannelSpec(lambda table, host: found(table, host.folder.parent, host.clock))


def tables(config: Config) -> dict[str, ChannelTable]:
    """The channels that have a table, or a variable in the environment; an unknown one is none. Raises ConfigError."""
    given = config.get("channels", {})
    if not isinstance(given, Mapping):
        raise ConfigError(f"{config.file}: 'channels' is a table: write [channels.NAME] and its keys below.")
    found = {}
    for name in dict.fromkeys([*BUILT_IN, *given]):
        is_set = any(variable.startswith(f"NANOCLAW_{name.upper()}_") for variable in config.environment)
        if (name in given or is_set) and (spec := find(name)):
            found[name] = _table(config, name, spec, given.get(name, {}))
    return found


def _table(config: Config, name: str, spec: ChannelSpec, table: Any) -> ChannelTable:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{config.file}: 'channels.{name}' is a table: write [channels.{name}] and its keys below.")
    if spec.settings is None:
        return ChannelTable(name, spec, table, table)
    settings: Any = config.settings(spec.settings, f"channels.{name}")
    given = {key: config.environment.get(secret_variable(name, key)) for key in spec.secrets}
    return ChannelTable(name, spec, settings._replace(**{key: text for key, text in given.items() if text}), table)


def incomplete(config: Config) -> Iterator[str]:
    """A sentence for each chat app whose table lacks its main key, or that hears nothing without another table."""
    for name, table in tables(config).items():
        key, secrets = table.lacks, table.spec.secrets
        if table.is_configured:
            if table.spec.needs_page and config.get("page") is None:
                yield f"{config.file}: without a table [page] nothing can come from {name}: add one, even empty."
        elif table.spec.settings and any(one not in secrets for one in table.table):
            secret = f" (or {secret_variable(name, key)} to secrets.env)" if key in secrets else ""
            yield (
                f"{config.file}: [channels.{name}] lacks {key}, so {name} is not served: add it{secret}, or take the "
                "table out."
            )


async def login(config: Config, table: ChannelTable, clock: Callable[[], datetime]) -> str | None:
    """The login of a channel; None for one that cannot tell. Raises ChannelError, or ConfigError for what is
    missing."""
    channel = table.made(ChannelHost(config.home / table.name, clock))
    if not isinstance(channel, Checks):
        return None
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await channel.check()
    except TimeoutError:
        raise ChannelError(
            f"{table.name} did not answer within {CHECK_SECONDS:.0f} s: check the network, and addresses and ports in "
            f"[channels.{table.name}] of {config.file}."
        ) from None


async def proof(
    config: Config, table: ChannelTable, clock: Callable[[], datetime], *, anew: bool = False
) -> tuple[bool, str]:
    """Report how far the platform can be trusted about senders; tested again when due, or `anew`. Raises
    ConfigError for what is missing."""
    channel = table.made(ChannelHost(config.home / table.name, clock))
    return await channel.prove(anew=anew) if isinstance(channel, Proves) else (True, "")


def _installed() -> dict[str, Any]:
    """Entry points of packages that bring channels."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group="nanoclaw.channels")}
