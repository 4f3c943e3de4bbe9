"""The chat apps that are configured: who makes their channels, keeps them running, and says who is let in by each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial

from nanoclaw.core.channel import Channel, Checks, Deliver
from nanoclaw.core.clock import Clock
from nanoclaw.core.commands import COMMANDS
from nanoclaw.core.config import Channels, Config, entry
from nanoclaw.core.errors import ChannelError, ConfigError
from nanoclaw.core.messages import Address
from nanoclaw.core.parts import person_clock
from nanoclaw.plugins.access.access import ChannelRules

CHECK_SECONDS = 15.0
RESTART_SECONDS = (2, 4, 8, 16, 32, 60)
"""Pauses before a channel that broke off is started again, the last one for ever; a sign of life begins them anew."""


NEEDED = {"telegram": "token", "matrix": "homeserver", "email": "address"}
"""The key without which a chat app is not configured."""


def configured(config: Config) -> list[str]:
    """The names of the chat apps that are configured."""
    needed = (name for name, key in NEEDED.items() if getattr(getattr(config.channels, name), key))
    return [*needed, *config.channels.others]


def incomplete(config: Config) -> dict[str, str]:
    """Chat apps that have a table in the config without the key that all else needs, and what to do about each."""
    found = dict[str, str]()
    for name, key in NEEDED.items():
        one, empty = getattr(config.channels, name), getattr(Channels(), name)
        given = [item.name for item in fields(one) if getattr(one, item.name) != getattr(empty, item.name)]
        if given not in ([], ["password"]) and not getattr(one, key):
            secret = f" (or NANOCLAW_{name.upper()}_TOKEN to secrets.env)" if key == "token" else ""
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
    most, wanted = config.media.most_bytes, [only] if only else configured(config)
    if (telegram := config.channels.telegram).token and "telegram" in wanted:
        from nanoclaw.channels.telegram import Telegram

        menu = {name: command.help for name, command in COMMANDS.items()}
        yield Telegram(
            *(telegram.token, telegram.api_base, now), menu=menu, most_bytes=most, reactions=telegram.reactions
        )
    if (matrix := config.channels.matrix).homeserver and "matrix" in wanted:
        _check_extra("matrix", "nio")
        _check_keys(config, "matrix", user=matrix.user)
        from nanoclaw.channels.matrix import Matrix

        yield Matrix(
            *(matrix.homeserver, matrix.user, matrix.password, config.home / "matrix", now),
            most_bytes=most,
            is_known=partial(is_known, "matrix"),
        )
    if (email := config.channels.email).address and "email" in wanted:
        _check_extra("email", "imap_tools")
        _check_keys(config, "email", imap_host=email.imap_host, smtp_host=email.smtp_host, password=email.password)
        from nanoclaw.channels.email import Email

        yield Email(
            email.address,
            email.user or email.address,
            email.password,
            (email.imap_host, email.imap_port),
            (email.smtp_host, email.smtp_port),
            now,
            security=email.security,
            ca_file=email.ca_file,
            trusts=email.trusts,
            most_bytes=most,
            folder=config.home / "email",
        )
    if config.channels.others:
        from importlib.metadata import entry_points

        for point in entry_points(group="nanoclaw.channels"):
            if point.name in config.channels.others and point.name in wanted:
                yield point.load()(config.channels.others[point.name], config.home, now)


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
    for name in (*(item.name for item in fields(Channels) if item.name != "others"), *config.channels.others):
        one = entry(config, name)
        people = frozenset(map(str.lower, one.allow_from) if name == "email" else one.allow_from)
        found[name] = ChannelRules(people, one.policy, one.groups, frozenset(one.allow_groups), one.per_hour)
    return found


def is_listed(config: Config, address: Address, *lists: str) -> bool:
    """Whether a chat is in one of the lists of its channel's configuration."""
    if address.channel not in rules(config):
        return False
    one = entry(config, address.channel)
    return any(address.chat in getattr(one, name) for name in lists)


def _check_extra(extra: str, library: str) -> None:
    from importlib.util import find_spec

    if find_spec(library) is None:
        raise ConfigError(f"[channels.{extra}] needs more libraries: pip install 'nanoclaw-assistant[{extra}]'.")


def _check_keys(config: Config, channel: str, **keys: str) -> None:
    for key, value in keys.items():
        if not value:
            secret = f", or NANOCLAW_{channel.upper()}_PASSWORD into secrets.env" if key == "password" else ""
            raise ConfigError(f"{config.file}: [channels.{channel}] lacks {key}: put it there{secret}.")
