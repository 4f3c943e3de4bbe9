"""Builds every object from Config and owns their lifetime; the only module that knows all."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from nanoclaw import __version__
from nanoclaw.atomic_write import remove_drafts
from nanoclaw.core.assistant import Assistant
from nanoclaw.core.channel import Channel, Hints
from nanoclaw.core.chats import chat_channels, is_listed, keep_running, rules
from nanoclaw.core.config import Config
from nanoclaw.core.delivery import Delivery
from nanoclaw.core.errors import ChannelError, ScheduleError
from nanoclaw.core.events import Event, TurnEnded
from nanoclaw.core.messages import Address, Inbound, Limits, Outbound, Role
from nanoclaw.core.outputs import Outputs
from nanoclaw.core.parts import (
    all_tools,
    cleaner,
    context_builder,
    file_changes,
    for_guests,
    heartbeat_settings,
    image_type,
    job_commands,
    make_budget,
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
from nanoclaw.core.store.audit import Ledger
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.flags import ASKED, PANIC, QUESTION, Flags
from nanoclaw.core.store.inbox import Ending, Inbox
from nanoclaw.core.store.models import ModelFacts
from nanoclaw.core.store.outbox import Outbox
from nanoclaw.core.store.sessions import Sessions
from nanoclaw.core.store.usage import lessons
from nanoclaw.core.token_estimate import Calibration
from nanoclaw.core.tool import Tool, Toolbox
from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.access.access import AccessRules
from nanoclaw.plugins.access.accounts import Accounts
from nanoclaw.plugins.access.gatekeeper import Gatekeeper, OwnerChats, Roles
from nanoclaw.plugins.approvals.approvals import Approvals
from nanoclaw.plugins.approvals.commands import approval_commands, approval_reaction
from nanoclaw.plugins.forget.forgetting import memory_command
from nanoclaw.plugins.heartbeat.beats import CHANNEL as HEARTBEAT
from nanoclaw.plugins.heartbeat.beats import Beats
from nanoclaw.plugins.heartbeat.report import report_tool
from nanoclaw.plugins.media.attachments import Arrivals
from nanoclaw.plugins.media.media import Media
from nanoclaw.plugins.media.sending import Sendable
from nanoclaw.plugins.memory.commands import note_commands
from nanoclaw.plugins.memory.notes import MemoryStore
from nanoclaw.plugins.message.sent import Sent
from nanoclaw.plugins.message.tools import Post
from nanoclaw.plugins.rules.commands import pin_commands
from nanoclaw.plugins.rules.pinned import Pinned
from nanoclaw.plugins.rules.pins import Pins
from nanoclaw.plugins.schedule.job_service import Commands as Faces
from nanoclaw.plugins.schedule.job_service import Desk
from nanoclaw.plugins.schedule.jobs import CHANNEL as JOBS
from nanoclaw.plugins.schedule.jobs import Jobs
from nanoclaw.plugins.schedule.reminders import Answers, introduce
from nanoclaw.plugins.schedule.schedule import Schedule
from nanoclaw.plugins.skills.skills import survey
from nanoclaw.plugins.undo.receipts import Receipts
from nanoclaw.providers.choose import Models, transcriber
from nanoclaw.spawn import end_left_over

if TYPE_CHECKING:
    from nanoclaw.plugins.heartbeat.heartbeat import Heartbeat

MAIN = Address("terminal", "main")
WHILE = "It fires while nanoclaw runs, and late if it does not: `nanoclaw gateway` keeps it running."
TICK = "schedule.tick"
"""A file in the home, touched at each tick of the schedule."""


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
        self._config, self._own, self._model, self._wakes = config, own, model, listens
        self._is_gateway, self._terminated = own is None, False
        self._clock = now = person_clock(config)
        self._began = now()
        self._facts = ModelFacts(self.store)
        self._models = Models(config, model, forced, self._facts)
        # channels that broke off: the last sign of life before, and the reason
        self._troubles: dict[str, tuple[datetime | None, str]] = {}
        self._remember()
        self._talk()
        self._workspace.check_writable()
        remove_drafts(places_of_drafts(config, self.store))
        tools = self._act()
        self._builder = context_builder(config, tools, now, self._notes, self._pins, self._hints)
        self._wake()
        self.assistant = self._think(tools)

    # --- what it is built of, in order -------------------------------------------------------------------------------

    def _remember(self) -> None:
        """What is on disk: the store's tables and the person's files."""
        config, store, now = self._config, self.store, self._clock
        self._accounts = Accounts(store, now)
        self._owner_chats = OwnerChats(self._accounts, MAIN if config.session.owner == "shared" else None)
        self._sessions = Sessions(store, now, self._owner_chats.of)
        self._jobs = Jobs(store, self._sessions, now)
        self._outbox = Outbox(store, now, lambda: random.uniform(0.8, 1.2))
        self._sent = Sent(store, self._sessions, now)
        self._flags, self._pins = Flags(store, now), Pins(store, now)
        self._workspace = Workspace(config.workspace_path)
        self._changes = file_changes(config, now, store)
        self._notes = note_search(config, now)
        self._forgetter = make_forgetter(config, now, store, self._sessions, self._notes)

    def _talk(self) -> None:
        """The channels, who is let in, and what carries answers out."""
        config, own, accounts = self._config, self._own, self._accounts

        def linked(channel: str, sender: str) -> Role | None:
            return "owner" if own and channel == own.name else accounts.role(channel, sender)

        access = AccessRules(rules(config), linked)
        self._roles = Roles(access, self._jobs, self._owner_chats)
        self._gatekeeper = Gatekeeper(access, accounts, self._let_in, self._tell, self._clock)
        self._channels: dict[str, Channel] = {own.name: own} if own else {}
        if self._wakes:
            from nanoclaw.channels.socket import Terminals

            terminals = Terminals(config.home, self, self._clock, own)
            self._channels[terminals.name] = terminals
        if self._is_gateway:
            chats = chat_channels(config, self._clock, self._gatekeeper.is_known)
            self._channels |= {channel.name: channel for channel in chats}
        self.delivery = Delivery(
            self._outbox,
            self._channels.values(),
            self._clock,
            self._reaches,
            partial(frozen_at, self._flags),
            self._workspace.root,
        )

    def _act(self) -> list[Tool]:
        """The tools, and what they ask before they act."""
        config, now, jobs, accounts, sent = self._config, self._clock, self._jobs, self._accounts, self._sent
        self._desk = Desk(
            jobs, now, zone_name(now), self._may_reach, lambda: self._schedule.changed(), WHILE if self._own else ""
        )
        self._approvals = Approvals(
            place=lambda address: self._where_owner_is(accounts, _reports_to(jobs, address)),
            say=self._tell,
            number=partial(next_number, self._flags),
            last=self._outbox.last_said,
            message=self._outbox.sent_row,
            home=self._owner_chats.of,
            sent_as=lambda row: sent.progress(row).platform_id.rpartition(" ")[2],
            note=self._note_questions,
            show=self._show,
        )
        self._check_file = Sendable(self._workspace.root, config.home, config.media.most_bytes)
        post = Post(
            sent,
            self._check_file,
            home=partial(_reports_to, jobs),
            is_served=self._reaches,
            channels=lambda: list(self._channels),
            is_known=partial(is_known, config, accounts, sent),
            is_open=lambda address: is_owners(accounts, address) or is_listed(config, address, "send_to"),
            ask=self._approvals.ask,
            introduce=lambda what, text: introduce(self._builder.remark, now, what, text),
            stays=self._stays,
            wake=self.delivery.wake,
        )
        attached = Inbox(self.store, now).attached
        tools = all_tools(
            config, self._workspace, now, self._forgetter, self._notes, self._changes, self._desk, post, attached
        )
        self._pinned = Pinned(self._pins.all, (tool.spec.name for tool in tools), self._workspace.root)
        return tools

    def _wake(self) -> None:
        """What begins by itself; the heartbeat is made when something asks for it."""
        self._schedule = Schedule(
            self._jobs,
            clock=self._clock,
            remark=self._builder.remark,
            start=lambda row, inbound: self.assistant.start(row, inbound),
            wake=self.delivery.wake,
            may_run=self._roles.may_run,
            is_frozen=self._is_frozen,
            is_served=self._fires_for,
            ticked=(self._config.home / TICK).touch,
        )
        self._beating = heartbeat_settings(self._config)

    @cached_property
    def _heartbeat(self) -> Heartbeat:
        from nanoclaw.plugins.heartbeat.heartbeat import Heartbeat

        def start(row: int, inbound: Inbound) -> None:
            session, model = self._sessions.of(inbound.address), self._config.heartbeat.model
            if session.model != model:
                session.use_model(model)
            self.assistant.start(row, inbound)

        def refusal(command: str) -> str:
            return self._pinned.refusal("exec", True, {"command": command})

        return Heartbeat(
            Beats(self.store, self._sessions, self._clock),
            watched(self._config, self._workspace, refusal),
            self._beating,
            clock=self._clock,
            remark=self._builder.remark,
            start=start,
            wake=self.delivery.wake,
            free=lambda address: self.assistant.free(self._owner_chats.of(address)),
            is_frozen=self._is_frozen,
            is_served=self._fires_for,
        )

    def _think(self, tools: list[Tool]) -> Assistant:
        config, now, outbox, notes, changes = self._config, self._clock, self._outbox, self._notes, self._changes
        schedule, roles, forgetter, facts = self._schedule, self._roles, self._forgetter, self._facts
        root, clean = self._workspace.root, cleaner(config)
        budget = make_budget(config, self.store, self._flags, now)

        def toolbox(tools: Sequence[Tool]) -> Toolbox:
            return Toolbox(tools, now, clean, self._pinned.refusal, Outputs(root).shortened)

        def rehearse(argument: str) -> Awaitable[str]:
            from nanoclaw.plugins.schedule.rehearsing import rehearse_job  # seldom asked for

            return rehearse_job(config, self.store, budget, argument, self._models)

        self._rehearse = rehearse
        report = report_tool(lambda notify, text, urgency: self._heartbeat.report(notify, text, urgency))
        answered = Answers(self._jobs, now, schedule.changed).to
        reacted = approval_reaction(
            self._approvals, lambda inbound: not inbound.is_group and roles.role_of(inbound) == "owner"
        )
        arrivals = Arrivals(
            Media(self._workspace),
            config.media.most_bytes,
            holder=self._channels.get,
            image_type=image_type,
            is_guests=lambda inbound: roles.role_of(inbound) == "guest",
            said=outbox.sent_text,
            transcribe=transcriber(config),
        )

        def ending(inbound: Inbound, ended: TurnEnded, touched: bool) -> Ending | None:
            if inbound.message.origin == HEARTBEAT:
                return self._heartbeat.ending(inbound, ended)
            return schedule.ending(inbound, ended, touched)

        return Assistant(
            sessions=self._sessions,
            inbox=Inbox(self.store, now),
            outbox=outbox,
            flags=self._flags,
            delivery=self.delivery,
            builder=self._builder,
            receipts=Receipts(
                Ledger(self.store, now),
                changes,
                self._builder.remark,
                forgetter.undo,
                self._desk.remove,
                lambda: [job.text for job in self._jobs.all()],
            ),
            tells_receipts=config.session.receipts,
            writes_receipts=lambda address: config.session.chat_receipts and address.channel != MAIN.channel,
            toolbox=toolbox(tools),
            toolboxes={
                "heartbeat": toolbox([*(tool for tool in tools if tool.spec.name != "message"), report]),
                "guest": toolbox(for_guests(tools)),
            },
            role_of=roles.role_of,
            conversation=roles.conversation,
            shows_notices=lambda address: address.channel == MAIN.channel,
            provider_for=self._models.provider,
            show=self._show,
            status=lambda: f"nanoclaw {__version__}\nHome: {config.home}\nWorkspace: {root}",
            clock=now,
            rounds=config.limits.rounds,
            most_calls=config.limits.calls,
            turn_seconds=config.limits.turn_seconds,
            queue=config.session.queue,
            limits=Limits(config.model.output_tokens, config.model.timeout_seconds),
            answers={
                "memory": lambda said: memory_command(changes, forgetter, said.argument),
                "budget": lambda said: budget.command(said.argument),
                "heartbeat": lambda said: self._heartbeat.command(),
                "rehearse": lambda said: rehearse(said.argument),
                **note_commands(MemoryStore(self._workspace, now), changes, notes.search),
                **pin_commands(self._pins, self._pinned.how),
                **job_commands(self._desk),
                **approval_commands(self._approvals),
                **self._gatekeeper.commands,
            },
            search=notes.search,
            cost=self._models.price_in_words,
            budget=budget,
            calibration=Calibration(partial(lessons, self.store)),
            skills=lambda: survey(skill_folders(config), skill_means(config, tools)),
            end_left_over=partial(end_left_over, root),
            waits=self._stays,
            window_of=self._models.window,
            learned_window=facts.learned_window,
            forget_window=facts.forget_window,
            window_in_words=self._models.window_in_words,
            resumed=schedule.changed,
            reaction=lambda inbound: reacted(inbound) or answered(inbound),
            arrive=arrivals.take,
            check_file=self._check_file,
            told=lambda turn, address: self._sent.of_turn(turn, _reports_to(self._jobs, address)),
            ending=ending,
        )

    # --- its life ----------------------------------------------------------------------------------------------------

    def check_model(self, address: Address) -> None:
        """Raises ConfigError when the model of a conversation cannot be asked as things are."""
        self._models.provider(self._sessions.of(address).model)

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
        if self._is_gateway:
            self._settle_questions()
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
        from nanoclaw.plugins.heartbeat.heartbeat import outcome

        self._heartbeat.is_awaited = True
        self.assistant.resume(lambda address: address.channel == HEARTBEAT)  # one that an earlier process left
        await self.assistant.idle()
        beat = await self._heartbeat.beat()
        await self.assistant.idle()
        if not beat.silent and self._heartbeat.trouble:
            raise ScheduleError(f"the heartbeat came to nothing, and its lines stay due. {self._heartbeat.trouble}")
        told = await self._heartbeat.tell()
        return outcome(beat, told, self._heartbeat.waiting())

    async def aclose(self) -> None:
        await self._models.aclose()
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
        rows = [] if self._is_frozen() else self._outbox.pending("terminal")
        return [(row.outbound.address, row.due) for row in rows if serves(row.outbound)]

    def cron(self, line: str) -> str | Awaitable[str]:
        action, _, rest = line.partition(" ")
        if action == "rehearse":
            return self._rehearse(rest)
        return Faces(self._desk).cron(line, Address("terminal", "main"), "owner")

    def arrived(self) -> None:
        self.delivery.wake_all()

    def listening(self) -> None:
        self._ready()

    # --- channels ----------------------------------------------------------------------------------------------------

    async def _serve(self, channel: Channel) -> None:
        """Run a channel; where no terminal of this process is at stake it is started again when it breaks off."""
        deliver = self.assistant.deliver if channel.name == MAIN.channel else self._gatekeeper.deliver
        if self._is_gateway:
            await keep_running(channel, deliver, partial(self._broke_off, channel))
        else:
            await channel.run(deliver)

    def _broke_off(self, channel: Channel, error: Exception, pause: float) -> None:
        from nanoclaw.core.log import logger

        said = str(error) or type(error).__name__
        self._troubles[channel.name] = (channel.alive, said)
        log = logger if isinstance(error, ChannelError) else logger.opt(exception=error)
        log.warning("{} broke off and is started again in {:.0f} s: {}", channel.name, pause, said)

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
        channel = self._channels.get(address.channel)
        if channel and channel.hints.can_show(event):
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

    def _is_frozen(self) -> bool:
        return frozen_at(self._flags) is not None

    def _where_owner_is(self, accounts: Accounts, address: Address) -> Address | None:
        """Where the owner can be asked about something now: right there, else in a terminal or a chat of their own."""
        places = [one for one in (address, MAIN, *accounts.owners_chats()) if is_owners(accounts, one)]
        served = (one for one in places if one.channel in self._channels and self._stays(one))
        return next((one for one in served if self._reaches(Outbound(one, ""))), None)

    def _note_questions(self, asked: Sequence[tuple[Address, int]]) -> None:
        self._flags.set(ASKED, json.dumps([(place.channel, place.chat, row) for place, row in asked]))

    def _settle_questions(self) -> None:
        """Nobody waits any more for what an earlier process asked."""
        for channel, chat, row in json.loads(self._flags.get(ASKED) or "[]"):
            with suppress(IndexError):  # a store that was rescued may have lost the message
                self._approvals.settle(Address(channel, chat), row)

    def _takes_up(self, address: Address) -> bool:
        """Whether what an earlier process left of a conversation goes on here."""
        own = self._own
        if address.channel in (JOBS, HEARTBEAT):
            return self._wakes
        return address.channel in self._channels if own is None else own.serves(Outbound(address, "", reply_to="any"))


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


def is_owners(accounts: Accounts, address: Address) -> bool:
    """Whether the owner alone reads what is said there."""
    return address.channel == MAIN.channel or accounts.is_owners(address)


def is_known(config: Config, accounts: Accounts, sent: Sent, address: Address) -> bool:
    """Whether something may be sent there at all, be it with the owner's yes."""
    has_talked = address == MAIN or accounts.is_owners(address) or sent.knows(address)
    return has_talked or is_listed(config, address, "allow_from", "allow_groups", "send_to")


def _reports_to(jobs: Jobs, address: Address) -> Address:
    """Where the person of a conversation is: for a task's, the chat that it reports to."""
    job = jobs.get(int(address.chat)) if address.channel == JOBS else None
    return job.target if job else address


def frozen_at(flags: Flags) -> int | None:
    """The last outbox row before /panic; None while nothing is frozen."""
    value = flags.get(PANIC)
    return None if value is None else int(value)
