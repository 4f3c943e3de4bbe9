"""The chat apps that are configured: makes their channels, keeps them running, and says who is let in by each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from nanoclaw.core.channel import Channel, ChannelHost, Checks, Deliver
from nanoclaw.core.channels import BUILT_IN
from nanoclaw.core.clock import Clock
from nanoclaw.core.commands import COMMANDS
from nanoclaw.core.config import ChannelAccess, Config, channel_access, secret_variable
from nanoclaw.core.errors import ChannelError, ConfigError
from nanoclaw.core.messages import Address
from nanoclaw.core.parts import person_clock
from nanoclaw.plugins.access.access import ChannelRules

CHECK_SECONDS = 15.0
RESTART_SECONDS = (2, 4, 8, 16, 32, 60)
"""Pauses before a channel that broke off is started again, the last one for ever; a sign of life begins them anew."""


def configured(config: Config) -> list[str]:
    """The names of the chat apps that are configured."""
    return [name for name, table in config.channels.items() if table.is_configured]


def incomplete(config: Config) -> dict[str, str]:
    """Chat apps that have a table in the config without the key that all else needs, and what to do about each."""
    found = dict[str, str]()
    for name, table in config.channels.items():
        if table.is_configured or not table.spec.settings:
            continue
        key, secrets = table.lacks, table.spec.secrets
        empty = table.spec.settings()
        if table.access != ChannelAccess() or table.settings._replace(**dict.fromkeys(secrets, "")) != empty:
            secret = f" (or {secret_variable(name, key)} to secrets.env)" if key in secrets else ""
            found[name] = (
                f"{config.file}: [channels.{name}] lacks {key}, so {name} is not served: add it{secret}, or take the "
                "table out."
            )
    return found


async def logged_in(config: Config, name: str) -> str:
    """As whom a chat app is logged in, '' for one that cannot tell. Raises ChannelError, or ConfigError for what is
    missing."""
    channel = next(chat_channels(config, person_clock(config), only=name), None)
    if not isinstance(channel, Checks):
        return ""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await channel.check()
    except TimeoutError:
        raise ChannelError(
            f"{name} did not answer within {CHECK_SECONDS:.0f} s: check the network, and addresses and ports in "
            f"[channels.{name}] of {config.file}."
        ) from None


def chat_channels(
    config: Config,
    now: Clock,
    is_known: Callable[[str, str], bool] = lambda channel, sender: False,
    *,
    only: str = "",
) -> Iterator[Channel]:
    """The chat apps that are configured, or the one that is named. `is_known(channel, sender)` tells whose invitations
    are accepted. Raises ConfigError for what is missing, or not installed."""
    menu = {name: command.help for name, command in COMMANDS.items()}
    for name in configured(config):
        if only in ("", name):
            known = partial(is_known, name)
            yield make(config, name, ChannelHost(config.home / name, now, config.media.most_bytes, menu, known))


def make(config: Config, name: str, host: ChannelHost) -> Channel:
    """A channel that is configured. Raises ConfigError for what is missing, or not installed."""
    from importlib.util import find_spec

    table = config.channels[name]
    spec, key = table.spec, table.lacks
    if not all(map(find_spec, spec.libraries)):
        raise ConfigError(f"[channels.{name}] needs more libraries: pip install 'nanoclaw-assistant[{name}]'.")
    if key:
        secret = f", or {secret_variable(name, key)} into secrets.env" if key in spec.secrets else ""
        raise ConfigError(f"{config.file}: [channels.{name}] lacks {key}: put it there{secret}.")
    return spec.make(table.settings, host)


async def keep_running(channel: Channel, deliver: Deliver, broke_off: Callable[[Exception, float], None]) -> None:
    """Run a channel, and again each time it breaks off. `broke_off(error, pause)` is told why, and in how many seconds
    it is started again; what that raises ends it."""
    pauses, before = iter(RESTART_SECONDS), channel.alive
    while True:
        try:
            await channel.run(deliver)
            return
        except Exception as error:
            if channel.alive != before:
                pauses, before = iter(RESTART_SECONDS), channel.alive
            asked = error.retry_after if isinstance(error, ChannelError) else None
            pause = max(next(pauses, RESTART_SECONDS[-1]), min(asked or 0, 3600))
            broke_off(error, pause)
        await asyncio.sleep(pause)


def rules(config: Config) -> dict[str, ChannelRules]:
    """Who is let in by each channel, as the config says. Raises ConfigError."""
    found = {}
    for name in dict.fromkeys([*BUILT_IN, *config.channels]):
        one = channel_access(config, name)
        found[name] = ChannelRules(
            frozenset(one.allow_from), one.policy, one.groups, frozenset(one.allow_groups), one.per_hour
        )
    return found


def is_listed(config: Config, address: Address, *lists: str) -> bool:
    """Whether a chat is in one of the lists of its channel's configuration."""
    one = channel_access(config, address.channel)
    return any(address.chat in getattr(one, name) for name in lists)
