"""Builds every object from Config and owns their lifetime; the only module that knows all."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import datetime
from functools import partial
from typing import Any

from nanoclaw import __version__
from nanoclaw.agent.approving import approval_commands, approval_reaction
from nanoclaw.agent.arriving import Arrivals
from nanoclaw.agent.assistant import Assistant
from nanoclaw.agent.commands import COMMANDS
from nanoclaw.agent.delivery import Delivery
from nanoclaw.agent.door import Door, Home, Standing
from nanoclaw.agent.noting import note_commands
from nanoclaw.agent.receipts import Receipts
from nanoclaw.agent.standing import pin_commands
from nanoclaw.agent.tokens import Calibration
from nanoclaw.channels.base import Channel, Checks, Hints
from nanoclaw.config import Channels, Config, entry
from nanoclaw.drafts import remove_drafts
from nanoclaw.errors import ChannelError, ConfigError, ScheduleError, StoreError
from nanoclaw.events import Event
from nanoclaw.guard.access import Access, Rules
from nanoclaw.guard.approvals import Approvals
from nanoclaw.guard.exec import end_left_over
from nanoclaw.guard.outputs import Outputs
from nanoclaw.guard.pinned import Pinned
from nanoclaw.guard.sending import Sendable
from nanoclaw.messages import Address, Inbound, Limits, Outbound, Role
from nanoclaw.models import LOCAL, Providers, make_budget, price_in_words, transcriber, window_in_words, window_of
from nanoclaw.parts import (
    all_tools,
    cleaner,
    context_builder,
    file_changes,
    for_guests,
    heartbeat_settings,
    image_type,
    job_commands,
    make_forgetter,
    make_home,
    note_search,
    person_clock,
    places_of_drafts,
    skill_folders,
    skill_means,
    start_logging,
    watched,
    zone_name,
)
from nanoclaw.schedule import heartbeat as heartbeats
from nanoclaw.schedule.clock import Clock
from nanoclaw.schedule.desk import Commands as Faces
from nanoclaw.schedule.desk import Desk
from nanoclaw.schedule.heartbeat import Heartbeat
from nanoclaw.schedule.reminders import Answers, important, introduce
from nanoclaw.schedule.schedule import Schedule
from nanoclaw.store.beats import CHANNEL as HEARTBEAT
from nanoclaw.store.beats import Beats
from nanoclaw.store.db import Store
from nanoclaw.store.flags import PANIC, QUESTION, Flags
from nanoclaw.store.inbox import Inbox
from nanoclaw.store.jobs import CHANNEL as JOBS
from nanoclaw.store.jobs import Jobs
from nanoclaw.store.ledger import Ledger
from nanoclaw.store.models import ModelFacts
from nanoclaw.store.outbox import Outbox
from nanoclaw.store.people import People
from nanoclaw.store.pins import Pins
from nanoclaw.store.sent import Sent
from nanoclaw.store.sessions import Sessions
from nanoclaw.store.usage import lessons
from nanoclaw.tools.base import Toolbox
from nanoclaw.tools.forgetting import memory_command
from nanoclaw.tools.message import Post
from nanoclaw.tools.report import report_tool
from nanoclaw.workspace.media import Media
from nanoclaw.workspace.notes import MemoryStore
from nanoclaw.workspace.paths import Workspace
from nanoclaw.workspace.skills import survey

MAIN = Address("terminal", "main")
WHILE = "It fires while nanoclaw runs, and late if it does not: `nanoclaw gateway` keeps it running."
TICK = "schedule.tick"
"""A file in the home, touched at each tick of the schedule."""
CHECK_SECONDS = 15.0
RESTART_SECONDS = (2, 4, 8, 16, 32, 60)
"""Pauses before a channel that broke off is started again, the last one for ever; a sign of life begins them anew."""


class App:
    """The running assistant and the channels that it serves."""

    def __init__(
        self, config: Config, own: Channel | None, model: str, *, forced: bool = False, listens: bool = False
    ) -> None:
        """`own` is the terminal of this process, None for the gateway's. With `listens` others can attach to it.

        `model` is used where a conversation has not chosen its own, and everywhere when `forced`; '' is none: then
        only commands are answered. Raises NanoclawError for what cannot start.
        """
        make_home(config)
        start_logging(config)
        self.store = Store(config.home / "state.db")
        facts = ModelFacts(self.store)
        self._providers = Providers(config, model, forced, facts)
        self._own, self._is_gateway, self._terminated, self._model = own, own is None, False, model
        self._clock = now = person_clock(config)
        self._began = now()
        people = People(self.store, now)

        def linked(channel: str, sender: str) -> Role | None:
            return "owner" if own and channel == own.name else people.role(channel, sender)

        access = Access(rules(config), linked)
        self._door = Door(access, people, self._let_in, self._tell, now)
        self._channels: dict[str, Channel] = {own.name: own} if own else {}
        if listens:
            from nanoclaw.channels.socket import Terminals

            terminals = Terminals(config.home, self, now, own)
            self._channels[terminals.name] = terminals
        if self._is_gateway:
            chats = chat_channels(config, now, self._door.is_known)
            self._channels |= {channel.name: channel for channel in chats}
        # channels that broke off: the last sign of life before, and the reason
        self._troubles: dict[str, tuple[datetime | None, str]] = {}
        workspace = Workspace(config.workspace_path)
        workspace.check_writable()
        remove_drafts(places_of_drafts(config, self.store))
        home = Home(people, MAIN if config.session.owner == "shared" else None)
        self._sessions = sessions = Sessions(self.store, now, home.of)
        ledger = Ledger(self.store, now)
        changes = file_changes(config, now, self.store)
        self._notes = notes = note_search(config, now)
        forgetter = make_forgetter(config, now, self.store, sessions, notes)
        jobs = Jobs(self.store, sessions, now)
        standing = Standing(access, jobs, home)
        self._desk = desk = Desk(
            jobs, now, zone_name(now), self._may_reach, lambda: self._schedule.changed(), WHILE if own else ""
        )
        self._outbox = outbox = Outbox(self.store, now, lambda: random.uniform(0.8, 1.2))
        self._flags = flags = Flags(self.store, now)
        sent, most_bytes = Sent(self.store, sessions, now), config.media.megabytes * 1_000_000
        check_file = Sendable(workspace.root, config.home, most_bytes)
        approvals = Approvals(
            place=lambda address: self._where_owner_is(people, _reports_to(jobs, address)),
            say=self._tell,
            number=partial(next_number, flags),
            last=outbox.last_said,
            message=outbox.sent_row,
            home=home.of,
            show=self._show,
        )
        post = Post(
            sent,
            check_file,
            home=partial(_reports_to, jobs),
            is_served=self._reaches,
            channels=lambda: list(self._channels),
            is_known=lambda address: sent.knows(address) or is_listed(config, address, "allow_from", "send_to"),
            is_open=lambda address: is_owners(people, address) or is_listed(config, address, "send_to"),
            ask=approvals.ask,
            introduce=lambda what, text: introduce(builder.remark, now, what, text),
            stays=self._stays,
            wake=lambda channel: self.delivery.wake(channel),
        )
        tools = all_tools(config, workspace, now, forgetter, notes, changes, desk, post)
        pins = Pins(self.store, now)
        pinned = Pinned(pins.all, (tool.spec.name for tool in tools), workspace.root)
        budget = make_budget(config, self.store, flags, now)
        self.delivery = Delivery(
            outbox, self._channels.values(), now, self._reaches, partial(frozen_at, flags), workspace.root
        )
        builder = context_builder(config, tools, now, notes, pins, self._hints)
        self._wakes = listens
        self._schedule = schedule = Schedule(
            jobs,
            clock=now,
            remark=builder.remark,
            start=lambda row, inbound: self.assistant.start(row, inbound),
            wake=self.delivery.wake,
            may_run=standing.may_run,
            is_frozen=lambda: frozen_at(flags) is not None,
            is_served=self._fires_for,
            ticked=(config.home / TICK).touch,
        )

        def start_beat(row: int, inbound: Inbound) -> None:
            session = sessions.of(inbound.address)
            if session.model != config.heartbeat.model:
                session.use_model(config.heartbeat.model)
            self.assistant.start(row, inbound)

        self._heartbeat = heartbeat = Heartbeat(
            Beats(self.store, sessions, now),
            watched(config, workspace, lambda command: pinned.refusal("exec", True, {"command": command})),
            heartbeat_settings(config),
            clock=now,
            remark=builder.remark,
            start=start_beat,
            wake=self.delivery.wake,
            free=lambda address: self.assistant.free(home.of(address)),
            is_frozen=lambda: frozen_at(flags) is not None,
            is_served=self._fires_for,
        )
        clean, bounded = cleaner(config), Outputs(workspace.root).shortened
        beats = [tool for tool in tools if tool.spec.name != "message"]
        beating = Toolbox([*beats, report_tool(heartbeat.report)], now, clean, pinned.refusal, bounded)
        answered = Answers(jobs, now, schedule.changed).to
        reacted = approval_reaction(
            approvals, lambda inbound: not inbound.is_group and standing.role_of(inbound) == "owner"
        )
        arrivals = Arrivals(
            Media(workspace),
            most_bytes,
            holder=self._channels.get,
            image_type=image_type,
            is_guests=lambda inbound: standing.role_of(inbound) == "guest",
            said=outbox.sent_text,
            transcribe=transcriber(config),
        )
        self.assistant = Assistant(
            sessions=sessions,
            inbox=Inbox(self.store, now),
            outbox=outbox,
            flags=flags,
            delivery=self.delivery,
            builder=builder,
            receipts=Receipts(ledger, changes, builder.remark, forgetter.undo, desk.remove),
            tells_receipts=config.session.receipts,
            toolbox=Toolbox(tools, now, clean, pinned.refusal, bounded),
            toolboxes={
                "heartbeat": beating,
                "guest": Toolbox(for_guests(tools), now, clean, pinned.refusal, bounded),
            },
            role_of=standing.role_of,
            conversation=standing.conversation,
            provider_for=self._providers.of,
            show=self._show,
            status=lambda: f"nanoclaw {__version__}\nHome: {config.home}\nWorkspace: {workspace.root}",
            clock=now,
            rounds=config.limits.rounds,
            most_calls=config.limits.calls,
            turn_seconds=config.limits.turn_seconds,
            queue=config.session.queue,
            limits=Limits(config.model.output_tokens, config.model.timeout_seconds),
            answers={
                "memory": lambda said: memory_command(changes, forgetter, said.argument),
                "budget": lambda said: budget.command(said.argument),
                "heartbeat": lambda said: heartbeat.command(),
                **note_commands(MemoryStore(workspace, now), changes, notes.search),
                **pin_commands(pins, pinned.how),
                **job_commands(desk),
                **approval_commands(approvals),
                **self._door.commands,
            },
            search=notes.search,
            cost=partial(price_in_words, config),
            budget=budget,
            calibration=Calibration(partial(lessons, self.store)),
            skills=lambda: survey(skill_folders(config), skill_means(config, tools)),
            end_left_over=partial(end_left_over, workspace.root),
            waits=self._stays,
            window_of=partial(window_of, config, facts),
            learned_window=facts.learned_window,
            forget_window=facts.forget_window,
            window_in_words=partial(window_in_words, config, facts),
            resumed=schedule.changed,
            reaction=lambda inbound: reacted(inbound) or answered(inbound),
            arrive=arrivals.take,
            check_file=check_file,
            told=sent.of_turn,
            ending=lambda inbound, ended, touched: (
                schedule.ending(inbound, ended, touched) or heartbeat.ending(inbound, ended)
            ),
        )

    def check_model(self, address: Address) -> None:
        """Raises ConfigError when the model of a conversation cannot be asked as things are."""
        self._providers.of(self._sessions.of(address).model)

    def terminate(self, serving: asyncio.Task[Any]) -> None:
        """End soon: what runs is left to the next start, unless nobody waits for it then."""
        self._terminated = True
        serving.cancel()

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until a terminal of its own is done; a cancelled run ends what it was doing as the person's own stop,
        and a gateway's leaves it to the next start. `ready` is called when terminals can attach."""
        self._ready = ready
        delivering = asyncio.create_task(self.delivery.run())
        serving = [asyncio.create_task(self._serve(channel)) for channel in self._channels.values()]
        self.assistant.resume(self._takes_up)  # before any of them has run, yet what it shows comes after a greeting
        if self._wakes:
            serving += [asyncio.create_task(self._schedule.run()), asyncio.create_task(self._heartbeat.run())]
        try:
            await asyncio.wait([*serving, delivering], return_when=asyncio.FIRST_COMPLETED)
            for task in (*serving, delivering):
                if task.done():
                    task.result()
        finally:
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)
            stays = all(channel.hints.stays for channel in self._channels.values())
            await self.assistant.close(leave=(self._terminated or self._is_gateway) and stays)
            delivering.cancel()
            await asyncio.gather(delivering, return_exceptions=True)
            for name in self._channels:
                await self.delivery.flush(name)

    async def beat(self) -> str:
        """One heartbeat now, to its end, in a process that serves nothing else; what came of it, in words. Raises
        ScheduleError when its model gave no answer."""
        self.assistant.resume(lambda address: address.channel == HEARTBEAT)  # one that an earlier process left
        await self.assistant.idle()
        beat = await self._heartbeat.beat()
        await self.assistant.idle()
        if not beat.silent and self._heartbeat.trouble:
            raise ScheduleError(f"the heartbeat came to nothing, and its lines stay due. {self._heartbeat.trouble}")
        told = await self._heartbeat.tell()
        return heartbeats.outcome(beat, told, self._heartbeat.waiting())

    async def aclose(self) -> None:
        await self._providers.aclose()
        self._notes.close()
        self.store.close()

    # --- what attached terminals ask -------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        return {"version": __version__, "model": self._model}

    def status(self) -> dict[str, Any]:
        """How the process is, for `nanoclaw status`; ages are in seconds."""
        return {
            "role": "gateway" if self._is_gateway else "terminal",
            "seconds": round((self._clock() - self._began).total_seconds()),
            "tick": round(self._schedule.silent_for) if self._wakes else None,
            "channels": [self._channel_status(channel) for channel in self._channels.values()],
        }

    def in_words(self) -> str:
        """What a gateway serves, in one line."""
        return f"process {os.getpid()} serves {', '.join(self._channels)} with {self._model or 'no model'}"

    def waiting(self, serves: Callable[[Outbound], bool]) -> list[tuple[Address, datetime]]:
        rows = [] if frozen_at(self._flags) is not None else self._outbox.pending("terminal")
        return [(row.outbound.address, row.due) for row in rows if serves(row.outbound)]

    def cron(self, line: str) -> str:
        return Faces(self._desk).cron(line, Address("terminal", "main"), "owner")

    def arrived(self) -> None:
        self.delivery.wake_all()

    def listening(self) -> None:
        self._ready()

    # --- channels ----------------------------------------------------------------------------------------------------

    async def _serve(self, channel: Channel) -> None:
        """Run a channel; where no terminal of this process is at stake it is started again when it breaks off."""
        pauses, before = iter(RESTART_SECONDS), channel.alive
        while True:
            try:
                is_ours = channel.name == MAIN.channel
                await channel.run(self.assistant.deliver if is_ours else self._door.deliver)
                return
            except Exception as error:
                if not self._is_gateway:
                    raise
                from nanoclaw.log import logger

                if channel.alive != before:
                    pauses, before = iter(RESTART_SECONDS), channel.alive
                asked = error.retry_after if isinstance(error, ChannelError) else None
                pause = max(next(pauses, RESTART_SECONDS[-1]), min(asked or 0, 3600))
                said = str(error) or type(error).__name__
                self._troubles[channel.name] = (channel.alive, said)
                log = logger if isinstance(error, ChannelError) else logger.opt(exception=error)
                log.warning("{} broke off and is started again in {:.0f} s: {}", channel.name, pause, said)
            await asyncio.sleep(pause)

    async def _let_in(self, inbound: Inbound) -> None:
        await self.assistant.deliver(inbound)

    def _tell(self, outbound: Outbound) -> None:
        """What the program itself has to say to somebody."""
        self._outbox.add(outbound)
        self.delivery.wake(outbound.address.channel)

    def _channel_status(self, channel: Channel) -> dict[str, Any]:
        """A trouble is over with the next sign of life."""
        alive = channel.alive and round((self._clock() - channel.alive).total_seconds())
        then, trouble = self._troubles.get(channel.name, (channel.alive, ""))
        return {"name": channel.name, "alive": alive, "trouble": trouble if channel.alive == then else ""}

    def _show(self, address: Address, event: Event) -> None:
        if channel := self._channels.get(address.channel):
            channel.show(address, event)

    def _hints(self, channel: str) -> Hints | None:
        return self._channels[channel].hints if channel in self._channels else None

    def _stays(self, address: Address) -> bool:
        return address.channel not in self._channels or self._channels[address.channel].hints.stays

    def _reaches(self, outbound: Outbound) -> bool:
        return self._channels[outbound.address.channel].serves(outbound)

    def _may_reach(self, address: Address) -> bool:
        """Whether a job for a conversation can be made: the terminal's always, as somebody opens it again."""
        return address.channel == "terminal" or address.channel in self._channels

    def _fires_for(self, address: Address) -> bool:
        """Whether jobs of a conversation fire now: a gateway's may wait for somebody who reads, others stay due."""
        return self._takes_up(address) or (address.channel in self._channels and self._reaches(Outbound(address, "")))

    def _where_owner_is(self, people: People, address: Address) -> Address | None:
        """Where the owner can be asked about something now: right there, else in a terminal or a chat of their own."""
        places = [one for one in (address, MAIN, *people.owners_chats()) if is_owners(people, one)]
        served = (one for one in places if one.channel in self._channels and self._stays(one))
        return next((one for one in served if self._reaches(Outbound(one, ""))), None)

    def _takes_up(self, address: Address) -> bool:
        """Whether what an earlier process left of a conversation goes on here."""
        own = self._own
        if address.channel in (JOBS, HEARTBEAT):
            return self._wakes
        return address.channel in self._channels if own is None else own.serves(Outbound(address, "", reply_to="any"))


def configured(config: Config) -> list[str]:
    """The names of the chat apps that are configured."""
    chats = config.channels
    needed = {"telegram": chats.telegram.token, "matrix": chats.matrix.homeserver, "email": chats.email.address}
    return [*(name for name, value in needed.items() if value), *chats.others]


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
    most, wanted = config.media.megabytes * 1_000_000, [only] if only else configured(config)
    if (telegram := config.channels.telegram).token and "telegram" in wanted:
        from nanoclaw.channels.telegram import Telegram

        menu = {name: command.help for name, command in COMMANDS.items()}
        yield Telegram(telegram.token, telegram.api_base, now, menu=menu, most_bytes=most)
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


def _check_extra(extra: str, library: str) -> None:
    from importlib.util import find_spec

    if find_spec(library) is None:
        raise ConfigError(f"[channels.{extra}] needs more libraries: pip install 'nanoclaw-assistant[{extra}]'.")


def _check_keys(config: Config, channel: str, **keys: str) -> None:
    for key, value in keys.items():
        if not value:
            secret = f", or NANOCLAW_{channel.upper()}_PASSWORD into secrets.env" if key == "password" else ""
            raise ConfigError(f"{config.file}: [channels.{channel}] lacks {key}: put it there{secret}.")


def rules(config: Config) -> dict[str, Rules]:
    """Who is let in by each channel, as the config says. Raises ConfigError."""
    found = {}
    for name in (*(item.name for item in fields(Channels) if item.name != "others"), *config.channels.others):
        one = entry(config, name)
        people = frozenset(map(str.lower, one.allow_from) if name == "email" else one.allow_from)
        found[name] = Rules(people, one.policy, one.groups, frozenset(one.allow_groups))
    return found


@asynccontextmanager
async def open_app(
    config: Config, own: Channel | None, model: str, *, forced: bool = False, listens: bool = False
) -> AsyncIterator[App]:
    app = App(config, own, model, forced=forced, listens=listens)
    try:
        yield app
    finally:
        await app.aclose()


def next_number(flags: Flags) -> int:
    """Of a question to the owner: one that no other had, also before a restart."""
    number = int(flags.get(QUESTION) or 0) + 1
    flags.set(QUESTION, str(number))
    return number


def is_owners(people: People, address: Address) -> bool:
    """Whether the owner alone reads what is said there."""
    return address.channel == MAIN.channel or people.is_owners(address)


def is_listed(config: Config, address: Address, *lists: str) -> bool:
    """Whether a chat is in one of the lists of its channel's configuration."""
    if address.channel not in rules(config):
        return False
    one = entry(config, address.channel)
    return any(address.chat in getattr(one, name) for name in lists)


def _reports_to(jobs: Jobs, address: Address) -> Address:
    """Where the person of a conversation is: for a task's, the chat that it reports to."""
    job = jobs.get(int(address.chat)) if address.channel == JOBS else None
    return job.target if job else address


def frozen_at(flags: Flags) -> int | None:
    """The last outbox row before /panic; None while nothing is frozen."""
    value = flags.get(PANIC)
    return None if value is None else int(value)


def greeting(config: Config, model: str, first: bool) -> str:
    """What the terminal says at its start."""
    lines = [f"nanoclaw {__version__} · {model} · /help"]
    if first:
        lines.append(f"New here: your workspace is {config.workspace_path}.")
    if model.startswith(LOCAL) and first:
        lines.append(
            "This is a small offline model: good for notes, files and short commands, slow on long ones, and often "
            "wrong about the world.\nFor a better one: nanoclaw init --model openai/gpt-5 (or anthropic/…, ollama/…; "
            "see the README)."
        )
    return "\n".join([*lines, *pending(config)])


def pending(config: Config) -> list[str]:
    """What the person has to know at once, a line each: that all is frozen, important reminders without an answer."""
    path, now = config.home / "state.db", person_clock(config)
    if not path.exists():
        return []
    try:
        store = Store(path, read_only=True)
        try:
            frozen = ["Everything is frozen by /panic; /resume goes on."] if Flags(store, now).get(PANIC) else []
            return [*frozen, *important(Jobs(store, Sessions(store, now), now))]
        finally:
            store.close()
    except StoreError:  # of an older format, or damaged: what opens it for good tells
        return []
