"""Builds every object from Config and owns their lifetime; the only module that knows all."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from nanoclaw import __version__, attach
from nanoclaw.agent import budget as budgets
from nanoclaw.agent import xray
from nanoclaw.agent.approving import approval_commands, approval_reaction
from nanoclaw.agent.arriving import Arrivals
from nanoclaw.agent.assistant import Assistant
from nanoclaw.agent.budget import Budget
from nanoclaw.agent.commands import COMMANDS, Answer, Said
from nanoclaw.agent.context import ContextBuilder, recent_talk
from nanoclaw.agent.delivery import Delivery
from nanoclaw.agent.door import Door, Home, Standing
from nanoclaw.agent.leaving import CAPABILITY as MEDIA
from nanoclaw.agent.manifest import Manifest, manifest
from nanoclaw.agent.noting import note_commands
from nanoclaw.agent.receipts import Receipts
from nanoclaw.agent.rehearsal import rehearse
from nanoclaw.agent.sections import IDS, Extension, Mode
from nanoclaw.agent.standing import pin_commands
from nanoclaw.agent.tokens import Calibration
from nanoclaw.channels.base import Channel, Hints
from nanoclaw.config import Channels, Config, entry
from nanoclaw.drafts import remove_drafts
from nanoclaw.errors import ChannelError, ConfigError, ScheduleError, StoreError, WorkspaceError
from nanoclaw.events import Event
from nanoclaw.guard.access import Access, Rules, creator
from nanoclaw.guard.approvals import Approvals
from nanoclaw.guard.escapes import plain
from nanoclaw.guard.exec import end_left_over
from nanoclaw.guard.outputs import Outputs
from nanoclaw.guard.pinned import Pinned
from nanoclaw.guard.redact import Redactor, clean_environment
from nanoclaw.guard.sending import Sendable
from nanoclaw.messages import Address, Image, Inbound, Limits, ModelRequest, Outbound, SystemPrompt, Usage, UserMessage
from nanoclaw.providers.base import SIGHTED, Provider, Sight, chat_tools
from nanoclaw.schedule import heartbeat as heartbeats
from nanoclaw.schedule import rehearse as rehearsals
from nanoclaw.schedule.clock import Clock, clock
from nanoclaw.schedule.desk import Commands as Faces
from nanoclaw.schedule.desk import Desk
from nanoclaw.schedule.heartbeat import Heartbeat
from nanoclaw.schedule.reminders import Answers, important, introduce
from nanoclaw.schedule.schedule import STALE, Schedule, prompt
from nanoclaw.schedule.watched import Watched
from nanoclaw.store.beats import CHANNEL as HEARTBEAT
from nanoclaw.store.beats import Beats
from nanoclaw.store.db import Store, owner
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
from nanoclaw.store.sessions import Sessions, last_turn, session_of
from nanoclaw.store.usage import lessons
from nanoclaw.tools.base import Tool, Toolbox
from nanoclaw.tools.files import file_tools
from nanoclaw.tools.forgetting import Forgetter, forget_tool, memory_command
from nanoclaw.tools.kept import kept
from nanoclaw.tools.memory import memory_tools
from nanoclaw.tools.message import Post, message_tool
from nanoclaw.tools.report import report_tool
from nanoclaw.tools.schedule import CAPABILITY as SCHEDULE
from nanoclaw.tools.schedule import schedule_tools
from nanoclaw.tools.shell import shell_tools
from nanoclaw.workspace import bootstrap, documents
from nanoclaw.workspace.changes import Changes
from nanoclaw.workspace.media import Media
from nanoclaw.workspace.notes import MemoryStore
from nanoclaw.workspace.paths import Workspace
from nanoclaw.workspace.search import NoteSearch
from nanoclaw.workspace.skills import Means, Skill, survey

LOCAL = "local/"
MAIN = Address("terminal", "main")
WHILE = "It fires while nanoclaw runs, and late if it does not: `nanoclaw gateway` keeps it running."
TICK = "schedule.tick"
"""A file in the home, touched at each tick of the schedule."""
RESTART_SECONDS = (2, 4, 8, 16, 32, 60)
"""Pauses before a channel that broke off is started again, the last one for ever; a sign of life begins them anew."""

_SECRET_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_KEYS = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-5",
    "OPENAI_API_KEY": "openai/gpt-5",
    "OPENROUTER_API_KEY": "openrouter/anthropic/claude-sonnet-4.5",
}


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
        access = Access(rules(config), people.role)
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
            place=lambda address: self._where_owner_is(people, address),
            say=self._tell,
            number=partial(next_number, flags),
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
            cost=partial(_price_in_words, config),
            budget=budget,
            calibration=Calibration(partial(lessons, self.store)),
            skills=lambda: survey(skill_folders(config), skill_means(config, tools)),
            end_left_over=partial(end_left_over, workspace.root),
            waits=self._stays,
            window_of=partial(window_of, config, facts),
            learned_window=facts.learned_window,
            forget_window=facts.forget_window,
            window_in_words=partial(_window_in_words, config, facts),
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


def chat_channels(
    config: Config, now: Clock, is_known: Callable[[str, str], bool] = lambda channel, sender: False
) -> Iterator[Channel]:
    """The chat apps that are configured. `is_known(channel, sender)` tells whose invitations are accepted. Raises
    ConfigError for what is missing, or not installed."""
    most = config.media.megabytes * 1_000_000
    if (telegram := config.channels.telegram).token:
        from nanoclaw.channels.telegram import Telegram

        menu = {name: command.help for name, command in COMMANDS.items()}
        yield Telegram(telegram.token, telegram.api_base, now, menu=menu, most_bytes=most)
    if (matrix := config.channels.matrix).homeserver:
        from nanoclaw.channels.matrix import Matrix

        yield Matrix(
            *(matrix.homeserver, matrix.user, matrix.password, config.home / "matrix", now),
            most_bytes=most,
            is_known=partial(is_known, "matrix"),
        )
    if (email := config.channels.email).address:
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
            if point.name in config.channels.others:
                yield point.load()(config.channels.others[point.name], config.home, now)


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


class Providers:
    """One provider per model, made when first asked for."""

    def __init__(self, config: Config, model: str, forced: bool, facts: ModelFacts) -> None:
        self._config, self._model, self._forced, self._facts = config, model, forced, facts
        self._made: dict[str, Provider] = {}

    def of(self, model: str) -> Provider:
        """Raises ConfigError for a model that cannot be used as things are. '' is the configured one."""
        name = self._model if self._forced else model or self._model
        if not name:
            raise ConfigError(_no_model(self._config))
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Provider:
        """The first is made at once, so that what is wrong with it is told; others only when it cannot answer."""
        first = make_provider(self._config, name, self._facts)
        others = [other for other in self._config.model.fallback if other != name]
        if not others or self._forced:
            return first
        from nanoclaw.providers.failover import Failover

        make = [(other, partial(make_provider, self._config, other, self._facts)) for other in others]
        return Failover([(name, lambda: first), *make])

    async def aclose(self) -> None:
        await asyncio.gather(*(provider.aclose() for provider in self._made.values()))


def make_provider(config: Config, name: str, facts: ModelFacts | None = None) -> Provider:
    """The provider of a model; raises ConfigError when the name, the key or the file is missing.

    What it learns of the model goes into the `facts`.
    """
    if name.startswith(LOCAL):
        from nanoclaw.providers import catalogue
        from nanoclaw.providers.local import LocalProvider

        return LocalProvider(name, catalogue.locate(name, models_folder(config)), config.home / "models" / "state")
    from nanoclaw.providers.names import provider_for

    model = config.model
    same_service = _has_address(config, name)
    return provider_for(
        name,
        model.api_base if same_service else "",
        model.api_key if same_service else "",
        config.environment,
        tool_mode="json" if model.tool_mode == "json" else "native",
        sight=Sight(facts.sees_images(name) is not False, partial(facts.refused_images, name)) if facts else SIGHTED,
    )


def window_of(config: Config, facts: ModelFacts, model: str) -> int | None:
    """How many tokens a model takes in, as the config says, was learned or is known. The model inside this process has
    its own short prompt and takes of a conversation what fits."""
    from nanoclaw.providers import windows

    if config.model.window_tokens and model == config.model.name:
        return config.model.window_tokens
    return None if model.startswith(LOCAL) else facts.window(model) or windows.window_of(model)


def _window_in_words(config: Config, facts: ModelFacts, model: str) -> str:
    """'' where nobody knows it."""
    tokens = window_of(config, facts, model)
    if tokens is None:
        return ""
    is_set = config.model.window_tokens and model == config.model.name
    source = (
        "as config.toml says" if is_set else "learned from an error" if facts.window(model) else "as is known of it"
    )
    return f"window: {tokens:,} tokens, {source}"


def make_budget(config: Config, store: Store, flags: Flags, now: Clock) -> Budget:
    def price(model: str, usage: Usage) -> float | None:
        from nanoclaw.providers import prices  # for those who set a limit, or ask

        return prices.cost(model, usage)

    def dollars(amount: float) -> str:
        from nanoclaw.providers import prices

        return prices.dollars(amount)

    limits = config.limits
    most = budgets.Limits(limits.day_usd, limits.month_usd, limits.heartbeat_share, limits.count_local)
    return Budget(store, flags, now, price, dollars, most, partial(is_local, config))


def is_local(config: Config, model: str) -> bool:
    """Whether a server on this machine answers for a model, whatever it is called."""
    if not config.model.api_base or not _has_address(config, model):
        return False
    from nanoclaw.providers.failures import is_loopback

    return is_loopback(config.model.api_base)


def _has_address(config: Config, model: str) -> bool:
    """The address and the key in the config belong to the model beside them, not to another one chosen later."""
    return model.partition("/")[0] == config.model.name.partition("/")[0]


def _price_in_words(config: Config, model: str, usage: Usage) -> str:
    from nanoclaw.providers import prices

    is_free = is_local(config, model) and not config.limits.count_local
    return prices.dollars(0) if is_free else prices.in_words(model, usage)


async def choose_model(config: Config, wanted: str = "") -> str:
    """The wanted model, else the configured one, else what already runs or lies on this machine.

    Raises ConfigError, saying how to get one, when there is none.
    """
    if wanted or config.model.name:
        return wanted or config.model.name
    if config.model.api_base:
        raise ConfigError(f'{config.file} has model.api_base but no model.name: add name = "openai/MODEL"')
    from nanoclaw.providers import catalogue
    from nanoclaw.providers.names import detect_local_server

    if found := await detect_local_server():
        return found.model
    if here := catalogue.installed(models_folder(config)):
        best = catalogue.recommended().name
        return LOCAL + next((model.name for model in here if model.name == best), here[0].name)
    raise ConfigError(_no_model(config))


def _no_model(config: Config) -> str:
    key = next((name for name in _KEYS if config.environment.get(name)), "")
    return (
        "no model is configured, and none runs on this machine.\n"
        + (f"  {key} is set, so: nanoclaw init --model {_KEYS[key]}\n" if key else "")
        + "  With a provider's key: nanoclaw init --model openai/gpt-5 (and set OPENAI_API_KEY)\n"
        "  Without any key, on this machine: nanoclaw local pull"
    )


async def has_model(config: Config) -> bool:
    try:
        return bool(await choose_model(config))
    except ConfigError:
        return False


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


def checks(config: Config) -> Iterator[tuple[str, Callable[[], str]]]:
    """What `nanoclaw doctor` looks at: a name, and a check that returns what it found or raises NanoclawError."""

    def workspace() -> str:
        make_home(config)
        Workspace(config.workspace_path).check_writable()
        return str(config.workspace_path)

    def store() -> str:
        path = config.home / "state.db"
        if not path.exists():
            return "none yet"
        opened = Store(path, read_only=True)
        try:
            verdict = opened.rows("PRAGMA quick_check")[0][0]
        finally:
            opened.close()
        if verdict != "ok":
            raise StoreError(f"{path} is damaged: {verdict}")
        return str(path)

    def model() -> str:
        async def ask() -> str:
            name = await choose_model(config)
            provider = make_provider(config, name)
            try:
                hello = UserMessage("Answer with one word: hello", person_clock(config)())
                answer = await provider.complete(ModelRequest(SystemPrompt(""), (hello,)), lambda event: None)
                return f"{name} answers: {' '.join(answer.text.split())[:60]!r}"
            finally:
                await provider.aclose()

        return asyncio.run(ask())

    yield "configuration", lambda: str(config.file) if config.file.exists() else "none, defaults"
    yield "time zone", lambda: f"{person_clock(config).name}, now {person_clock(config)():%Y-%m-%d %H:%M}"
    yield "workspace", workspace

    def running() -> str:
        pid, live = owner(config.home / "state.db"), attach.status(str(config.home))
        if pid is None:
            return "no: reminders come while nanoclaw gateway, or a chat, runs"
        if live is None:
            return f"process {pid}, which nobody can attach to"
        troubles = [f"{one['name']}: {one['trouble']}" for one in live["channels"] if one["trouble"]]
        if troubles:
            raise StoreError(f"process {pid} has a channel that broke off and is started again: {'; '.join(troubles)}")
        if (live["tick"] or 0) > STALE:
            raise ScheduleError(f"process {pid} has not looked at its jobs for {live['tick']} s: end it and start it")
        return f"process {pid}, {live['role']}; the schedule ticked {live['tick']} s ago"

    yield "store", store
    yield "running", running
    yield "model", model


def make_home(config: Config) -> list[str]:
    """The home folder, and at the very first run the workspace from its template. Returns the names of new files."""
    try:
        config.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise WorkspaceError(
            f"cannot make {config.home}: {error.strerror}. Check its permissions, or set NANOCLAW_HOME."
        ) from error
    if config.workspace_path.exists():
        return []
    return bootstrap.seed(config.workspace_path, shipped("workspace_template"))


def places_of_drafts(config: Config, store: Store) -> Iterator[Path]:
    """Folders where a crash may have left drafts: in the middle of a turn, all of the workspace."""
    yield from (config.home, config.home / "undo")
    if Inbox(store, person_clock(config)).open_turns():
        yield from (Path(folder) for folder, _, _ in os.walk(config.workspace_path))
    else:
        media = Workspace(config.workspace_path).media
        yield from (config.workspace_path, config.workspace_path / "memory", *media.glob("*/"))


def all_tools(
    config: Config,
    workspace: Workspace,
    now: Clock,
    forgetter: Forgetter | None = None,
    notes: NoteSearch | None = None,
    changes: Changes | None = None,
    desk: Desk | None = None,
    post: Post | None = None,
) -> list[Tool]:
    """Without `changes`, a `desk` and a `post` they are only to be looked at: what they did could not be undone."""
    notes = notes or note_search(config, now)
    environment = clean_environment(config.environment, secrets(config))
    tools = [
        *file_tools(workspace, read_roots=skill_folders(config)[1:], open_image=open_image),
        *shell_tools(workspace, environment, timeout_seconds=config.limits.exec_seconds),
        *memory_tools(MemoryStore(workspace, now), notes.search),
        *([forget_tool(forgetter)] if forgetter else []),
        *schedule_tools(desk),
        message_tool(post),
    ]
    return kept(tools, changes) if changes else tools


def job_commands(desk: Desk) -> dict[str, Answer]:
    """A guest's are about the guest's own conversation."""

    def face(said: Said) -> Faces:
        return Faces(desk.within(said.place) if said.role == "guest" else desk)

    def maker(said: Said) -> str:
        return creator(said.place, said.sender)

    return {
        "remind": lambda said: face(said).remind(said.argument, said.place, maker(said)),
        "jobs": lambda said: face(said).jobs(said.argument, said.place, maker(said)),
        "cron": lambda said: face(said).cron(said.argument, said.place, maker(said)),
    }


def for_guests(tools: Sequence[Tool]) -> list[Tool]:
    return [tool for tool in tools if tool.for_guests]


def cron_desk(config: Config, store: Store) -> Desk:
    """The jobs of a home that no process runs, or only to look at them."""
    now = person_clock(config)

    def is_known(address: Address) -> bool:
        return address.channel == "terminal" or setting(config, f"channels.{address.channel}") is not None

    return Desk(Jobs(store, Sessions(store, now), now), now, zone_name(now), is_known)


async def rehearse_job(config: Config, store: Store, id_: int, at: str) -> str:
    """What a job would send `at` a time in words, '' for its next one. Nothing is stored, sent or changed."""
    job, now = cron_desk(config, store).job(id_), person_clock(config)
    moment = rehearsals.moment(job, at, now())
    if job.kind == "reminder":
        return rehearsals.of_reminder(job, moment)
    then = replace(now, fixed=moment.astimezone(now().tzinfo))
    notes = note_search(config, then)
    tools = all_tools(config, Workspace(config.workspace_path), then, notes=notes)
    provider = make_provider(config, await choose_model(config))
    try:
        played = await rehearse(
            prompt(job, moment, timedelta()),
            Address(JOBS, str(job.id)),
            builder=context_builder(config, tools, then, notes, Pins(store, then)),
            tools=tools,
            redact=cleaner(config),
            provider=provider,
            clock=then,
            rounds=config.limits.rounds,
            limits=Limits(config.model.output_tokens, config.model.timeout_seconds),
        )
    finally:
        await provider.aclose()
        notes.close()
    cost = _price_in_words(config, played.model, played.usage)
    failed = "" if played.ended.reason == "answered" else played.ended.answer
    return rehearsals.of_task(job, moment, played.ended.answer, failed, played.refused, played.requests, cost)


def zone_name(now: Clock) -> str:
    """The person's zone as jobs keep it; a machine's whose zone has no name counts in UTC."""
    return str(now.zone) if now.zone else "UTC"


def note_search(config: Config, now: Clock) -> NoteSearch:
    return NoteSearch(Workspace(config.workspace_path), config.home / "index.db", now)


def file_changes(config: Config, now: Clock, store: Store | None) -> Changes:
    """What was done to files, to be undone."""
    days, megabytes = config.undo.days, config.undo.megabytes
    ledger = Ledger(store, now) if store else None
    workspace = Workspace(config.workspace_path)
    return Changes(config.home / "undo", workspace, now, ledger, days=days, most_bytes=megabytes * 1_000_000)


def make_forgetter(
    config: Config, now: Clock, store: Store | None, sessions: Sessions | None = None, notes: NoteSearch | None = None
) -> Forgetter:
    def drop_index() -> None:
        for path in config.home.glob("index.db*"):
            path.unlink(missing_ok=True)

    return Forgetter(
        config.home,
        file_changes(config, now, store),
        now,
        search=(notes or note_search(config, now)).search,
        drop_index=drop_index,
        store=store,
        sessions=sessions,
    )


def context_builder(
    config: Config,
    tools: list[Tool],
    now: Clock,
    notes: NoteSearch,
    pins: Pins,
    hints: Callable[[str], Hints | None] = lambda channel: None,
) -> ContextBuilder:
    return ContextBuilder(
        config.workspace_path,
        template=shipped("workspace_template"),
        skill_folders=skill_folders(config),
        tools=frozenset(tool.spec.name for tool in tools),
        clock=now,
        zone=now.name,
        open_image=open_image,
        read_document=documents.read_document,
        recall=notes.recall,
        pins=pins.all,
        means=skill_means(config, tools),
        guest_tools=frozenset(tool.spec.name for tool in for_guests(tools)),
        guest_capabilities=[SCHEDULE],
        hints=hints,
        capabilities=[SCHEDULE, MEDIA, *heartbeats.capability(config.heartbeat.every, config.heartbeat.active)],
        off=sections_off(config),
        extensions=section_extensions(config),
        file_limit=config.context.file_characters,
        total_limit=config.context.total_characters,
        document_limit=config.context.document_characters,
    )


def sections_off(config: Config) -> list[str]:
    """Ids of the sections that the config switches off. Raises ConfigError for an unknown one."""
    for name in config.context.sections:
        if name not in IDS:
            raise ConfigError(f"{config.file}: context.sections has no section {name!r}; known: {', '.join(IDS)}.")
    return [name for name, wanted in config.context.sections.items() if not wanted]


def section_extensions(config: Config) -> list[Extension]:
    """The functions that the config names, from installed packages' entry points "nanoclaw.sections"."""
    if not config.context.extensions:
        return []
    from importlib.metadata import entry_points

    found = {point.name: point for point in entry_points(group="nanoclaw.sections")}
    for name in config.context.extensions:
        if name not in found:
            known = f"installed: {', '.join(found)}" if found else "no package that is installed offers one"
            raise ConfigError(f"{config.file}: context.extensions names {name!r}; {known}.")
    return [found[name].load() for name in config.context.extensions]


@dataclass(frozen=True, slots=True)
class View:
    """A request as it would be sent, from the inside."""

    manifest: Manifest
    rows: list[xray.Row]
    remarks: list[str]
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]


def look_inside(config: Config, store: Store | None, session: str, message: str, mode: Mode) -> View:
    """What the model would see if `message` came into a conversation of the terminal now. Changes nothing."""
    now = person_clock(config)
    notes = note_search(config, now)
    workspace = Workspace(config.workspace_path)
    tools = all_tools(config, workspace, now, make_forgetter(config, now, store, notes=notes), notes)
    builder = context_builder(config, tools, now, notes, Pins(store, now))
    specs = tuple(tool.spec for tool in (for_guests(tools) if mode == "guest" else tools))
    address = Address("terminal", session)
    stored, history = session_of(store, str(address)) if store and mode == "full" else (None, [])
    if mode == "full":
        opening, late = builder.reopen(stored, message, recent_talk(history))
    else:
        opening, late = builder.open(message, mode), ()
    made_of = manifest(mode, builder.sections(mode, opening), opening, late, specs)
    new = builder.user_messages(message, channel=address.channel, chat_id=session, sender="owner", notes=late)
    messages = builder.build_messages(
        history, message, (), address.channel, session, sender="owner", mode=mode, opening=opening, notes=late
    )
    last = xray.past(last_turn(store, str(address))) if store else None
    model = last.model if last and last.model else config.model.name
    factor = Calibration(partial(lessons, store)).factor(model) if store else 1.0
    shown = xray.rows(made_of, history, new, model, factor)
    return View(made_of, shown, xray.remarks(made_of, last), messages, chat_tools(specs))


def watched(config: Config, workspace: Workspace, refusal: Callable[[str], str] = lambda command: "") -> Watched:
    """How the heartbeat looks at things; commands get the environment that those of the model get."""
    environment = clean_environment(config.environment, secrets(config))
    return Watched(
        workspace.root, environment, clean=cleaner(config), refusal=refusal, loopback=config.heartbeat.loopback
    )


def heartbeat_settings(config: Config) -> heartbeats.Settings:
    """Raises ConfigError."""
    chosen = config.heartbeat
    return heartbeats.settings(chosen.every, chosen.active, chosen.timezone, chosen.target)


def rehearse_heartbeat(config: Config, store: Store | None) -> str:
    """What a heartbeat now would come to, in words. Looks at what is watched; changes nothing and asks no model."""
    zone, now = heartbeat_settings(config).zone, person_clock(config)
    states = Beats(store, None, now).states() if store else {}
    looking = watched(config, Workspace(config.workspace_path))
    verdicts = asyncio.run(heartbeats.look(looking, states, now().astimezone(zone) if zone else now()))
    lines = [heartbeats.table(verdicts), ""]
    if not any(verdict.is_due for verdict in verdicts):
        return "\n".join([*lines, "Nothing is due: no model is asked."])
    text = heartbeats.prompt(verdicts)
    view = look_inside(config, store, "main", text, "minimal")
    tokens = sum(row.tokens for row in view.rows)
    return "\n".join([*lines, f"The model would be asked (about {tokens:,} tokens, tools included):", "", text])


def person_clock(config: Config) -> Clock:
    return clock(config.person.timezone, config.environment)


def skill_folders(config: Config) -> list[Path]:
    """In order of precedence; the first is the workspace's."""
    extra = [config.home / Path(folder).expanduser() for folder in config.skills.folders]
    return [config.workspace_path / "skills", config.home / "skills", *extra, shipped("skills")]


def skill_means(config: Config, tools: list[Tool]) -> Means:
    """What skills can count on in this run."""
    names = frozenset(tool.spec.name for tool in tools)
    return Means(names, lambda name: setting(config, name), config.environment)


def skills_found(config: Config) -> list[tuple[Skill, str]]:
    """All skills, each with its source: workspace, home, shipped, or a folder of the config."""
    folders = skill_folders(config)
    names = ["workspace", "home", *map(str, folders[2:-1]), "shipped"]
    sources = dict(zip(reversed(folders), reversed(names), strict=True))
    tools = all_tools(config, Workspace(config.workspace_path), person_clock(config))
    return [(skill, sources[skill.folder.parent]) for skill in survey(folders, skill_means(config, tools))]


def setting(config: Config, name: str) -> object:
    """The value of a dotted key; None for an unknown one and for a table that is as it was shipped."""
    value: object = config
    for part in name.split("."):
        value = getattr(value, part) if part in getattr(value, "__dataclass_fields__", ()) else None
    is_table = is_dataclass(value) and not isinstance(value, type)
    return None if is_table and value == type(value)() else value


def open_image(source: bytes | Path, name: str) -> Image:
    from nanoclaw.providers import images

    return images.open_image(source, name)


def image_type(data: bytes) -> str:
    from nanoclaw.providers import images

    return images.image_type(data)


def transcriber(config: Config) -> Callable[[Path], Awaitable[str]] | None:
    """What writes down voice notes; None where none is configured. It raises NanoclawError when it is asked."""
    name = config.media.transcription
    if not name:
        return None

    async def transcribe(path: Path) -> str:
        from nanoclaw.providers.names import transcription_for

        same_service = _has_address(config, name)
        base, key = (config.model.api_base, config.model.api_key) if same_service else ("", "")
        return await transcription_for(name, base, key, config.environment)(path)

    return transcribe


def shipped(name: str) -> Path:
    """A folder that comes with the program: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).parent
    inside = package / "shipped" / name
    return inside if inside.is_dir() else package.parent / name


def models_folder(config: Config) -> Path:
    return config.home / "models"


def secrets(config: Config) -> tuple[str, ...]:
    """Values that must never show: keys in the config and in the environment."""
    named = (value for name, value in config.environment.items() if name.upper().endswith(_SECRET_ENDINGS))
    chats = config.channels
    kept = (config.model.api_key, chats.telegram.token, chats.matrix.password, chats.email.password)
    return tuple(value for value in (*kept, *named) if len(value) >= 8)


def cleaner(config: Config) -> Callable[[str], str]:
    """What every tool result goes through: no secret, no control character."""
    redact = Redactor(secrets(config))
    return lambda text: redact(plain(text))


def start_logging(config: Config) -> None:
    from nanoclaw import log

    log.start(config.home / "logs", Redactor(secrets(config)))
