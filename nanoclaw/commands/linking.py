"""`nanoclaw link`: makes a chat account the owner's by a code, lets strangers in, lists and removes who is linked."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import getpass
import os
import re
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from functools import partial

from nanoclaw import attach
from nanoclaw.atomic_write import NotSaved, write_atomically
from nanoclaw.core import channels, chats, parts
from nanoclaw.core import config as configuration
from nanoclaw.core.channel import UNVERIFIED, LinkHelp
from nanoclaw.core.config import Config
from nanoclaw.core.delivery import Delivery
from nanoclaw.core.errors import ChannelError, ConfigError, StoreBusy, StoreError
from nanoclaw.core.messages import Address, Inbound, Outbound
from nanoclaw.core.store.db import Store, owner
from nanoclaw.core.store.inbox import Inbox
from nanoclaw.core.store.outbox import Outbox
from nanoclaw.core.store.sessions import Sessions
from nanoclaw.escapes import one_line, printable
from nanoclaw.plugins.access.access import AccessRules, creator
from nanoclaw.plugins.access.accounts import Accounts, LinkCode, code_in, shown
from nanoclaw.plugins.access.gatekeeper import Gatekeeper
from nanoclaw.plugins.schedule.jobs import Jobs

LOOK_SECONDS = 0.3
SEND_SECONDS = 10.0
"""In which the account that was linked is told so."""


def link(config: Config, options: argparse.Namespace) -> int:
    if options.listed:
        print("\n".join(listed(config)))
    elif options.remove:
        print(remove(config, options.remove, options.channel))
    elif options.approve:
        print(approve(config, options.channel, options.approve))
    else:
        return connect(config, os.environ, options.channel)
    return 0


def connect(config: Config, environ: Mapping[str, str], channel: str) -> int:
    """Show a code, and wait until somebody has written it to the channel. Exit status: 0 when an account is linked."""
    _check(config, channel)
    parts.make_home(config)
    if not _is_configured(config, channel):
        config = _with_secret(config, environ, channel)
    table = config.channels[channel]
    for key, why in _help(channel).needed.items():
        if not getattr(table.settings, key):
            raise ConfigError(f"{config.file}: [channels.{channel}] lacks {key}, {why}.")
    parts.start_logging(config)
    chats.rules(config)
    if live := attach.status(str(config.home)):
        served = next((one for one in live["channels"] if one["name"] == channel), None)
        if served is None:
            raise StoreBusy(
                f"the {live['role']} that runs (process {owner(config.home / 'state.db')}) does not serve {channel}: "
                f"end it, and run nanoclaw link {channel} again."
            )
        if served["trouble"]:
            raise ChannelError(f"{channel} broke off in the {live['role']} that runs: {served['trouble']}")
        return _wait_beside(config, channel, _where(config, channel, is_served=True))
    return asyncio.run(_serve(config, channel, _where(config, channel)))


def listed(config: Config) -> list[str]:
    """Who may talk to the assistant, and who asks to, a line each."""
    with parts.stored(config, "beside") as store:
        accounts = Accounts(store, parts.person_clock(config)) if store else None
        linked, asking = accounts.all() if accounts else [], accounts.requests() if accounts else []
    lines = [
        _line(one.channel, one.sender, one.role, f"{one.name or 'no name'}, since {one.since:%Y-%m-%d}")
        for one in linked
    ]
    for channel, rules in chats.rules(config).items():
        lines += [_line(channel, one, "guest", "allow_from in config.toml") for one in sorted(rules.allow_from)]
    for one in asking:
        how = f"nanoclaw link {one.address.channel} --approve {shown(one.code)}"
        lines.append(_line(one.address.channel, one.sender, "asks", f"{one.name or 'no name'}: {how}"))
    return lines or [f"Nobody yet: nanoclaw link CHANNEL ({', '.join(channels.names())}) links you."]


def _line(channel: str, sender: str, what: str, more: str) -> str:
    return f"{one_line(f'{channel}:{sender}', 100):<30}  {what:<5}  {one_line(more, 200)}"


def approve(config: Config, channel: str, text: str) -> str:
    """Let a stranger in as a guest. Raises ConfigError where nobody waits by that code."""
    code = code_in(text)
    with parts.stored(config, "beside") as store:
        found = Accounts(store, parts.person_clock(config)).approve(code, channel) if store and code else None
    if found is None:
        raise ConfigError(f"nobody waits by the code {text[:40]!r} on {channel}; nanoclaw link --list shows who does.")
    who = printable(found.name) or "they"
    whom = f"{who} (id {printable(found.sender)})"
    return f"{whom} may talk to the assistant on {found.address.channel} now, as a guest: tell them so."


def remove(config: Config, account: str, channel: str = "") -> str:
    """End what an account may do, CHANNEL:ID, or ID where the channel is given. Raises ConfigError where it is not
    linked."""
    if channel and not account.startswith(f"{channel}:"):
        account = f"{channel}:{account}"
    channel, colon, sender = account.partition(":")
    if not colon or not sender:
        raise ConfigError(f"write the account as nanoclaw link --list shows it, such as telegram:555, not {account!r}.")
    address, clock = Address(channel, ""), parts.person_clock(config)
    with parts.stored(config, "beside") as store:
        found = Accounts(store, clock).remove(channel, sender) if store else None
        jobs = Jobs(store, Sessions(store, clock), clock) if store else None
        theirs = [job for job in jobs.all() if job.creator == creator(address, sender)] if jobs else []
        for job in theirs:
            assert jobs
            jobs.set_state(job.id, "removed", None)
    known = chats.rules(config)
    if channel in known and sender in known[channel].allow_from:
        raise ConfigError(f"{account} is in allow_from of [channels.{channel}] in {config.file}: take it out there.")
    if found is None:
        raise ConfigError(f"{account} is not linked; nanoclaw link --list shows who is.")
    jobs_too = f" Jobs that were removed with it: {len(theirs)}." if theirs else ""
    return f"{account} is not linked any more.{jobs_too}"


# --- what is configured ----------------------------------------------------------------------------------------------


def _check(config: Config, channel: str) -> None:
    known = channels.names()
    if channel in known:
        return
    near = difflib.get_close_matches(channel, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}."
    raise ConfigError(f"there is no channel {channel!r} to link; {hint}" if channel else f"say which channel: {hint}")


def _is_configured(config: Config, channel: str) -> bool:
    return channel in chats.configured(config)


def _help(channel: str) -> LinkHelp:
    """Texts about a channel, general ones where it has none of its own."""
    spec = channels.find(channel)
    general = LinkHelp(f"{channel} is not configured yet: see what its package says.", f"the assistant on {channel}")
    return (spec and spec.link) or general


def _with_secret(config: Config, environ: Mapping[str, str], channel: str) -> Config:
    """The configuration with a secret that the person pastes. Raises ConfigError where nobody can, or it is none."""
    told = _help(channel)
    if not told.asks or sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(told.missing)
    print(told.steps)
    secret = getpass.getpass(f"{told.asks.capitalize()} (it is not shown): ").strip()
    if not re.fullmatch(told.looks, secret):
        raise ConfigError(f"that is no {told.asks}: it is {told.shape}. Nothing was saved.")
    name, given = configuration.secret_variable(channel, told.asks), {**environ, "NANOCLAW_HOME": str(config.home)}
    who = asyncio.run(chats.logged_in(configuration.load({**given, name: secret}), channel))
    _keep_secret(config, name, secret)
    print(f"This is {printable(who)}; its {told.asks} is kept in {config.home / 'secrets.env'}.")
    return configuration.load(given)


def _keep_secret(config: Config, name: str, value: str) -> None:
    """A line of secrets.env, in place of one with that name; other lines stay as they are."""
    path = config.home / "secrets.env"
    before = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in before if line.removeprefix("export ").partition("=")[0].strip() != name]
    try:
        write_atomically(path, "\n".join([*kept, f"{name}={value}", ""]), 0o600)
    except NotSaved as error:
        raise ConfigError(str(error)) from None


def _where(config: Config, channel: str, *, is_served: bool = False) -> str:
    """Whom the code is to be written to. Raises ChannelError where the login does not work; that of a gateway which
    serves the channel is not tried again, except for the name of a bot."""
    settings, where = config.channels[channel].settings, _help(channel).where
    who = "" if is_served and "{who}" not in where else asyncio.run(chats.logged_in(config, channel))
    names = settings._asdict() if hasattr(settings, "_asdict") else {}
    return where.format(**names, who=printable(who))


# --- waiting for the code --------------------------------------------------------------------------------------------


def _wait_beside(config: Config, channel: str, where: str) -> int:
    """The gateway that runs takes the code; its store tells."""
    path, clock = config.home / "state.db", parts.person_clock(config)
    store = Store(path, beside=True)
    accounts = Accounts(store, clock)
    try:
        watch = _Watch(accounts, channel, where)
        while watch.look() is None:
            if owner(path) is None:
                raise StoreError(f"the gateway has ended: start it, and run nanoclaw link {channel} again.")
            time.sleep(LOOK_SECONDS)
        return watch.tell()
    finally:
        accounts.withdraw(channel)
        store.close()


async def _serve(config: Config, channel: str, where: str) -> int:
    """No gateway runs: the channel is served here until the code has come. What else comes in is kept for the next
    gateway."""
    clock = parts.person_clock(config)
    store = Store(config.home / "state.db")
    accounts, inbox, outbox = Accounts(store, clock), Inbox(store, clock), Outbox(store, clock, lambda: 1.0)

    async def keep(inbound: Inbound) -> None:
        if inbound.is_edit:
            inbox.change(inbound)
        else:
            inbox.accept(inbound)

    def tell(outbound: Outbound) -> None:
        outbox.add(outbound)
        delivery.wake(channel)

    try:
        gatekeeper = Gatekeeper(AccessRules(chats.rules(config), accounts.role), accounts, keep, tell, clock)
        served = next(chats.chat_channels(config, clock, gatekeeper.is_known, only=channel))
        delivery = Delivery(outbox, [served], clock, served.serves)
        serving = chats.keep_running(served, gatekeeper.deliver, partial(_broke_off, channel))
        tasks = [asyncio.create_task(serving), asyncio.create_task(delivery.run())]
        try:
            watch = _Watch(accounts, channel, where)
            while watch.look() is None:
                await asyncio.sleep(LOOK_SECONDS)
                for task in tasks:
                    if task.done():
                        task.result()
            for _ in range(int(SEND_SECONDS / LOOK_SECONDS)):
                if all(row.attempts for row in outbox.pending(channel)):
                    break
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return watch.tell()
    finally:
        accounts.withdraw(channel)
        store.close()


def _broke_off(channel: str, error: Exception, pause: float) -> None:
    """Only what may pass is waited for."""
    if not isinstance(error, ChannelError):
        raise error
    _say(f"{channel} cannot be reached, tried again in {pause:.0f} s: {error}")


class _Watch:
    """A new code on this terminal, and what becomes of it."""

    def __init__(self, accounts: Accounts, channel: str, where: str) -> None:
        """Raises StoreError while the channel takes no codes."""
        before = accounts.link(channel)
        if before and before.locked_until:
            raise StoreError(
                f"too many wrong codes came over {channel}: none is taken until {_time(before.locked_until)}."
            )
        code = accounts.new_link(channel)
        self._accounts, self._channel, self._wrong = accounts, channel, before.wrong if before else 0
        self._end: LinkCode | None = None
        link = accounts.link(channel)
        assert link
        print(f"Code: {shown(code)}")
        print(f"Write it to {where}, from your own account: alone, or after /link.")
        print(
            f"Who writes it is the owner. It holds until {_time(link.until)}, and once. Waiting; Ctrl-C ends.",
            flush=True,
        )

    def look(self) -> LinkCode | None:
        """How it has ended; None while the code is open. Wrong ones are told of as they come."""
        link = self._accounts.link(self._channel)
        if link and link.wrong > self._wrong:
            _say(f"a wrong code came over {self._channel} ({link.wrong} of 5)")
        self._wrong = link.wrong if link else 0
        self._end = link if link is None or link.state != "open" else None
        return self._end

    def tell(self) -> int:
        link = self._end
        if link and link.state == "used" and link.sender:
            print(f"linked: {printable(one_line(link.name)) or 'no name'} (id {printable(link.sender)})")
            return 0
        why = {
            "exposed": "the code was written where others could read it, so nobody was linked: try again",
            "used": "another nanoclaw link took the code back",
            "expired": "nobody wrote the code within an hour: try again",
            "locked": "too many wrong codes came: nobody was linked, and none is taken for an hour",
        }
        if link and link.sender.startswith(UNVERIFIED):
            _say(
                f"the code came from {link.sender.removeprefix(UNVERIFIED)}, but the server did not vouch for that "
                f"sender, so nobody was linked: see `trusts` in [channels.{self._channel}], and try again"
            )
        else:
            _say(why[link.state if link else "used"])
        return 1


# --- helpers ---------------------------------------------------------------------------------------------------------


def _time(when: datetime) -> str:
    return f"{when:%H:%M}"


def _say(sentence: str) -> None:
    attach.say(printable(sentence))


COMMANDS = {"link": link}
