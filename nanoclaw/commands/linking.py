"""`nanoclaw link`: makes a chat account the owner's by a code."""

from __future__ import annotations

import asyncio
import getpass
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from itertools import chain, repeat

from nanoclaw.channels import attach
from nanoclaw.channels import table as channels
from nanoclaw.clock import pause
from nanoclaw.commands.arguments import Options
from nanoclaw.core.app import App
from nanoclaw.core.channel import Channel, LinkHelp, secret_variable
from nanoclaw.core.channel_registry import RESTART_SECONDS
from nanoclaw.core.errors import ChannelError, ConfigError, StoreBusy, StoreError
from nanoclaw.core.store.db import Store, Transactions
from nanoclaw.escapes import one_line
from nanoclaw.installation import start_command
from nanoclaw.plugins.access.accounts import TRIES, Accounts, shown
from nanoclaw.start import config as configuration
from nanoclaw.start import secrets_file
from nanoclaw.start.build import build
from nanoclaw.start.config import Config, near
from nanoclaw.start.home import make_home, stored
from nanoclaw.start.opening import owner

LOOK_SECONDS = 0.3
SEND_SECONDS = 10.0
"""Seconds within which the linked account must have been told."""


def link(config: Config, options: Options) -> int:
    """Show a code, and wait until somebody has written it to the channel. Exit status: 0 when an account is linked."""
    channel: str = options.channel
    if channel not in (known := channels.names()):
        told = f"there is no channel {channel!r} to link{near(channel, known)}"
        raise ConfigError(told if channel else f"say which channel: there are {', '.join(known)}.")
    make_home(config)
    table = channels.tables(config).get(channel)
    if table is None or not table.is_configured:
        config = _with_secret(config, channel)
        table = channels.tables(config)[channel]
    if live := attach.status(str(config.home)):
        served = next((one for one in live["channels"] if one["name"] == channel), None)
        if served is None:
            is_chat, pid = live["role"] == "terminal", owner(config.home / "state.db")
            who = f"a chat is open (process {pid})" if is_chat else f"a gateway runs without {channel} (process {pid})"
            how = "leave it with /exit" if is_chat else "end it"
            raise StoreBusy(f"{who}: {how}, then run {start_command()} link {channel} again.")
        if served["trouble"]:
            raise ChannelError(f"{channel} broke off in the {live['role']} that runs: {served['trouble']}")
    where = _where(config, channel, is_served=bool(live))
    _try(config, channel)
    return asyncio.run(_wait(config, channel, where, is_served=bool(live)))


# --- what is configured ----------------------------------------------------------------------------------------------


def _help(channel: str) -> LinkHelp:
    """Texts about a channel; general ones if it has none of its own."""
    spec = channels.find(channel)
    general = LinkHelp(f"{channel} is not configured yet: see what its package says.", f"the assistant on {channel}")
    return (spec and spec.link) or general


def _with_secret(config: Config, channel: str) -> Config:
    """The configuration with a secret that the person pastes. Raises ConfigError if nobody can, or it is invalid."""
    told = _help(channel)
    if not told.asks or not sys.stdin.isatty():
        raise ConfigError(told.missing)
    print(told.steps, flush=True)
    secret = getpass.getpass(f"{told.asks.capitalize()} (it is not shown): ").strip()
    if not re.fullmatch(told.looks, secret):
        raise ConfigError(f"that is not a {told.asks}, which is {told.shape}. Nothing was saved.")
    name, given = secret_variable(channel, told.asks), {**os.environ, "NANOCLAW_HOME": str(config.home)}
    who = _login(configuration.load({**given, name: secret}), channel)
    secrets_file.write(config.home / secrets_file.NAME, name, secret)
    print(f"This is {who}; its {told.asks} is kept in {config.home / 'secrets.env'}.")
    return configuration.load(given)


def _where(config: Config, channel: str, *, is_served: bool = False) -> str:
    """Whom the code is to be written to. Raises ChannelError if the login does not work; that of a gateway which serves
    the channel is not retried, except for the name of a bot."""
    settings, where = channels.tables(config)[channel].settings, _help(channel).where
    who = "" if is_served and "{who}" not in where else _login(config, channel)
    names = settings._asdict() if hasattr(settings, "_asdict") else {}
    return where.format(**names, who=who)


def _login(config: Config, channel: str) -> str:
    return asyncio.run(channels.login(config, channels.tables(config)[channel], config.clock())) or ""


def _try(config: Config, channel: str) -> None:
    """Test whether the platform can be trusted about senders, if that is not certain, and say the result."""
    table = channels.tables(config)[channel]
    if table.spec.is_tried:
        print("Sending a forged test mail to its own address, to see what its server does with it …", flush=True)
        _, text = asyncio.run(channels.proof(config, table, config.clock(), anew=True))
        print(text[:1].upper() + text[1:], flush=True)


# --- waiting for the code --------------------------------------------------------------------------------------------


async def _wait(config: Config, channel: str, where: str, *, is_served: bool) -> int:
    """Show a new code, and wait until it has come. Where no gateway serves the channel it runs here; other messages are
    kept for the next gateway."""
    tasks = list[asyncio.Task[None]]()
    async with AsyncExitStack() as stack:
        if is_served:
            store = stack.enter_context(stored(config, "beside"))
            assert store
            kept = _Kept(store, clock := config.clock(), Transactions(store, clock))
        else:
            app = build(config, provider=(), plugins=["access", "chat_apps"])
            stack.push_async_callback(app.aclose)
            served = app.public("chat_apps")(channel)
            app.channels.add(served)
            tasks += [asyncio.create_task(_receive(app, served)), asyncio.create_task(app.delivery.run())]
            stack.push_async_callback(_cancel, tasks)
            kept = _Kept(app.store, app.clock, app.transactions)
        accounts = Accounts(kept)
        code = kept.write(lambda tx: accounts.new_link(tx, channel))
        stack.callback(lambda: kept.write(lambda tx: accounts.withdraw(tx, channel)))
        link, told = accounts.link(channel), 0
        assert link
        print(f"Code: {shown(code)}\nWrite it to {where}, from your own account: alone, or after /link.")
        held = f"It is valid once, until {link.until:%H:%M}. Waiting; Ctrl-C ends."
        print(f"Whoever sends it becomes the owner. {held}", flush=True)
        while link and link.state == "open":
            if is_served and owner(config.home / "state.db") is None:
                raise StoreError(f"the gateway has ended: start it, and run {start_command()} link {channel} again.")
            await pause(LOOK_SECONDS)
            for task in tasks:
                if task.done():
                    task.result()
            link = accounts.link(channel)
            if link and link.wrong > told * 2 - bool(told):  # the first one, then each time their number has doubled
                told = link.wrong
                came = "a wrong code" if told == 1 else f"{told} wrong codes"
                attach.say(
                    f"{came} came over {channel}; whoever writes {TRIES} is ignored for an hour; yours stays valid"
                )
        until = time.monotonic() + SEND_SECONDS
        while tasks and time.monotonic() < until and not all(row.attempts for row in app.outbox.pending(channel)):
            await pause(LOOK_SECONDS)
    if link and link.state == "used" and link.sender:
        then = "" if is_served else f"\n{start_command()} gateway serves {channel} from now on, until you stop it."
        print(f"linked: {one_line(link.name) or 'no name'} (id {link.sender}){then}")
        return 0
    if link and link.state == "expired":
        attach.say("nobody sent the code within an hour: try again")
    else:
        attach.say("the code was written where others could read it, or another nanoclaw link revoked it: try again")
    return 1


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _receive(app: App, served: Channel) -> None:
    """Run a channel; only messages that may pass are waited for."""
    for seconds in chain(RESTART_SECONDS, repeat(RESTART_SECONDS[-1])):
        try:
            await served.run(app.router.keep)
            return
        except ChannelError as error:
            attach.say(f"{served.name} cannot be reached, tried again in {seconds:.0f} s: {error}")
        await pause(seconds)


class _Kept:
    """The store as the accounts read it, of a program here or beside the process that owns it."""

    def __init__(self, store: Store, clock: Callable[[], datetime], transactions: Transactions) -> None:
        self.read, self.now, self.write = store.rows, clock, transactions.write_now
