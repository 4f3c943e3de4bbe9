"""A whole assistant on a temporary folder: scripted model, real store, real files, a channel that collects."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from nanoclaw.core import bootstrap
from nanoclaw.core.app import frozen_at
from nanoclaw.core.assistant import Assistant
from nanoclaw.core.channel import Deliver, Hints
from nanoclaw.core.commands import Answer
from nanoclaw.core.context import ContextBuilder
from nanoclaw.core.delivery import Delivery
from nanoclaw.core.errors import ConfigError, Undeliverable
from nanoclaw.core.events import Event, TurnEnded
from nanoclaw.core.messages import Address, Attachment, Image, Inbound, Message, Outbound, ToolResult, UserMessage
from nanoclaw.core.parts import image_type, job_commands, open_image
from nanoclaw.core.provider import Provider
from nanoclaw.core.store.audit import Ledger
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.flags import PANIC, Flags
from nanoclaw.core.store.inbox import Inbox
from nanoclaw.core.store.outbox import Outbox
from nanoclaw.core.store.sessions import Sessions
from nanoclaw.core.tool import Tool, Toolbox
from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.access.access import AccessRules, ChannelRules
from nanoclaw.plugins.access.accounts import Accounts
from nanoclaw.plugins.access.gatekeeper import Gatekeeper, OwnerChats, Roles
from nanoclaw.plugins.approvals.approvals import Approvals
from nanoclaw.plugins.approvals.commands import approval_commands, approval_reaction
from nanoclaw.plugins.budget.budget import Budget
from nanoclaw.plugins.files.tools import file_tools
from nanoclaw.plugins.heartbeat import hours
from nanoclaw.plugins.heartbeat.beats import Beats
from nanoclaw.plugins.heartbeat.heartbeat import Heartbeat
from nanoclaw.plugins.heartbeat.probe import Watched
from nanoclaw.plugins.heartbeat.report import report_tool
from nanoclaw.plugins.media.attachments import Arrivals, Transcribe
from nanoclaw.plugins.media.media import Media
from nanoclaw.plugins.media.sending import Sendable
from nanoclaw.plugins.memory.commands import note_commands
from nanoclaw.plugins.memory.notes import MemoryStore
from nanoclaw.plugins.memory.search import NoteSearch
from nanoclaw.plugins.memory.tools import memory_tools
from nanoclaw.plugins.message.sent import Sent
from nanoclaw.plugins.message.tools import Post, message_tool
from nanoclaw.plugins.rules.commands import pin_commands
from nanoclaw.plugins.rules.pinned import Pinned
from nanoclaw.plugins.rules.pins import Pins
from nanoclaw.plugins.schedule.job_service import Desk
from nanoclaw.plugins.schedule.jobs import Jobs
from nanoclaw.plugins.schedule.reminders import Answers, introduce
from nanoclaw.plugins.schedule.schedule import Schedule
from nanoclaw.plugins.schedule.tools import schedule_tools
from nanoclaw.plugins.skills.skills import Means, survey
from nanoclaw.plugins.undo.changes import Changes
from nanoclaw.plugins.undo.kept import kept
from nanoclaw.plugins.undo.receipts import Receipts

REPOSITORY = Path(__file__).parents[2]
TEMPLATE = REPOSITORY / "workspace_template"
BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 3, 6, 12, 0, tzinfo=BERLIN)
MAIN = Address("terminal", "main")
GUEST = Address("chat", "777")
LETS_IN = {"chat": ChannelRules(allow_from=frozenset({"777"}))}


@dataclass
class HandClock:
    """Time that moves only by hand, or by `step` at each look."""

    now: datetime = NOON
    step: timedelta = timedelta()

    def __call__(self) -> datetime:
        now = self.now
        self.now += self.step
        return now


class FakeChannel:
    """Collects what is sent; `broken` makes sending fail."""

    def __init__(self, name: str = "terminal") -> None:
        self.name = name
        self.hints = Hints()
        self.alive: datetime | None = None
        self.sent: asyncio.Queue[Outbound] = asyncio.Queue()
        self.events: list[tuple[Address, Event]] = []
        self.broken: Callable[[Outbound], bool] = lambda outbound: False
        self.held: dict[str, bytes | Exception] = {}  # what the platform holds, by ref
        self.fetched: list[str] = []
        self.fetching = asyncio.Event()
        self.naps: list[float] = []  # between two tries to fetch

    async def run(self, deliver: Deliver) -> None:
        await asyncio.Event().wait()

    def serves(self, outbound: Outbound) -> bool:
        return True

    async def send(self, outbound: Outbound) -> str:
        if self.broken(outbound):
            raise ConnectionError("the platform is down")
        self.sent.put_nowait(outbound)
        return f"id-{self.sent.qsize()}"

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """What it holds, at most so much; what it does not hold never comes."""
        self.fetched.append(attachment.ref)
        self.fetching.set()
        found = self.held.get(attachment.ref)
        if found is None:
            await asyncio.Event().wait()
        if isinstance(found, Exception):
            raise found
        assert found is not None
        if len(found) > most:
            raise Undeliverable("the file is larger than was said")
        return found

    async def nap(self, seconds: float) -> None:
        self.naps.append(seconds)

    def show(self, address: Address, event: Event) -> None:
        self.events.append((address, event))

    @property
    def ended(self) -> list[TurnEnded]:
        return [event for _, event in self.events if isinstance(event, TurnEnded)]


@dataclass
class House:
    root: Path
    assistant: Assistant
    delivery: Delivery
    channel: FakeChannel
    store: Store
    sessions: Sessions
    builder: ContextBuilder
    clock: Callable[[], datetime]
    jobs: Jobs
    schedule: Schedule
    desk: Desk
    heartbeat: Heartbeat
    approvals: Approvals
    gatekeeper: Gatekeeper
    accounts: Accounts
    _count: int = field(default=0)
    answers: list[str] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self.sessions.of(MAIN).history)

    async def say(
        self,
        text: str,
        chat: str = "main",
        files: tuple[Attachment, ...] = (),
        sender: str = "me",
        quoted: str = "",
        quote: str = "",
    ) -> None:
        """Hand a message in; it is stored when this returns."""
        self._count += 1
        identity = f"{id(self)}-{self._count}"
        message = UserMessage(text, self.clock())
        await self.assistant.deliver(
            Inbound(Address("terminal", chat), sender, identity, message, files, quoted, quote)
        )

    async def guest_says(self, text: str, files: tuple[Attachment, ...] = ()) -> None:
        """Guest 777 writes in a chat of the channel "chat", whose rules let them in."""
        self._count += 1
        identity, message = f"{id(self)}-{self._count}", UserMessage(text, self.clock())
        await self.gatekeeper.deliver(Inbound(GUEST, "777", identity, message, files))

    async def channel_question(self, text: str) -> Outbound:
        """What is asked because of a message."""
        await self.say(text)
        return await self.channel.sent.get()

    async def answer(self) -> str:
        return (await self.channel.sent.get()).text

    async def ask(self, text: str, chat: str = "main", files: tuple[Attachment, ...] = (), sender: str = "me") -> str:
        await self.say(text, chat, files, sender)
        return await self.answer()


def new_home(root: Path) -> Path:
    """A home whose workspace is seeded; the same folder may be opened again."""
    root.mkdir(parents=True, exist_ok=True)
    if not (root / "workspace").exists():
        bootstrap.seed(root / "workspace", TEMPLATE)
    return root


@asynccontextmanager
async def house(
    root: Path,
    *providers: Provider,
    tools: Iterable[Tool] = (),
    rounds: int = 32,
    clock: Callable[[], datetime] | None = None,
    skills: tuple[Path, ...] = (),
    open_picture: Callable[[bytes | Path, str], Image] = open_image,
    channel: FakeChannel | None = None,
    others: tuple[FakeChannel, ...] = (),
    money: Callable[[Store, Flags], Budget] | None = None,
    waking: dict[str, Any] | None = None,
    beating: dict[str, Any] | None = None,
    messaging: dict[str, Any] | None = None,
    transcribe: Transcribe | None = None,
    rules: dict[str, ChannelRules] | None = None,
    shared: bool = False,
    **options: Any,
) -> AsyncIterator[House]:
    """The first provider is the configured one; /model finds the others by name; `money` makes the budget; `waking`
    brings the cron tool and goes to the Schedule, `beating` goes to the Heartbeat, neither of which is running,
    `messaging` brings the message tool and changes its Post, `rules` are whom the door lets in by channel, and
    `options` go to the Assistant. The owner is at terminal:main, wherever he is asked, and there too from other chats
    if `shared`; files of at most 1 MB come and go."""
    now = clock or HandClock()
    new_home(root)
    workspace = Workspace(root / "workspace")
    notes = NoteSearch(workspace, root / "index.db", now)
    channel = channel or FakeChannel()
    store = Store(root / "state.db")
    accounts = Accounts(store, now)
    access, owners = AccessRules(rules or {}, accounts.role), OwnerChats(accounts, MAIN if shared else None)
    sessions = Sessions(store, now, owners.of)
    jobs = Jobs(store, sessions, now)
    roles = Roles(access, jobs, owners)
    desk = Desk(jobs, now, "Europe/Berlin", lambda address: address.channel != "nowhere", lambda: schedule.changed())
    tools = [
        *file_tools(workspace, open_image),
        *memory_tools(MemoryStore(workspace, now), notes.search),
        *(schedule_tools(desk) if waking is not None else ()),
        *tools,
    ]
    outbox, flags = Outbox(store, now, lambda: 1.0), Flags(store, now)
    channels = {one.name: one for one in (channel, *others)}
    sendable, sent = Sendable(workspace.root, root, 1_000_000), Sent(store, sessions, now)

    delivery: Delivery
    builder: ContextBuilder

    def post(outbound: Outbound) -> None:
        outbox.add(outbound)
        delivery.wake(outbound.address.channel)

    def number() -> int:
        flags.set("asked", str(int(flags.get("asked") or 0) + 1))
        return int(flags.get("asked") or 0)

    approvals = Approvals(
        place=lambda address: MAIN,
        say=post,
        number=number,
        last=outbox.last_said,
        message=outbox.sent_row,
        home=owners.of,
        show=channel.show,
    )
    if messaging is not None:
        usual: dict[str, Any] = {
            "sent": sent,
            "check_file": sendable,
            "home": lambda address: jobs_target(jobs, address),
            "is_served": lambda outbound: True,
            "channels": lambda: list(channels),
            "is_known": sent.knows,
            "is_open": lambda address: address.channel == "terminal",
            "ask": approvals.ask,
            "introduce": lambda what, text: introduce(builder.remark, now, what, text),
            "stays": lambda address: True,
            "wake": lambda name: delivery.wake(name),
        }
        tools = [*tools, message_tool(Post(**{**usual, **messaging}))]
    ledger = Ledger(store, now)
    changes = Changes(root / "undo", workspace, now, ledger)
    tools = kept(tools, changes)
    delivery = Delivery(outbox, [channel, *others], now, lambda outbound: True, partial(frozen_at, flags))
    pins = Pins(store, now)
    pinned = Pinned(pins.all, (tool.spec.name for tool in tools), workspace.root)
    budget = money(store, flags) if money else None
    gatekeeper = Gatekeeper(access, accounts, lambda inbound: assistant.deliver(inbound), post, now)
    guests = [tool for tool in tools if tool.for_guests]
    answers: dict[str, Answer] = {
        **pin_commands(pins, pinned.how),
        **note_commands(MemoryStore(workspace, now), changes, notes.search),
        **job_commands(desk),
        **approval_commands(approvals),
        **gatekeeper.commands,
        **options.pop("answers", {}),
    }
    if budget:
        answers["budget"] = lambda said: budget.command(said.argument)
    builder = builder_for(
        root,
        now,
        skills=skills,
        open_picture=open_picture,
        tools=tools,
        recall=notes.recall,
        pins=pins.all,
        guest_tools=frozenset(tool.spec.name for tool in guests),
        hints=lambda name: channels[name].hints if name in channels else None,
    )
    named = {provider.model: provider for provider in providers}
    schedule = Schedule(
        jobs,
        clock=now,
        remark=builder.remark,
        start=lambda row, inbound: assistant.start(row, inbound),
        wake=delivery.wake,
        may_run=roles.may_run,
        is_frozen=lambda: flags.get(PANIC) is not None,
        **(waking or {}),
    )
    heartbeat = Heartbeat(
        Beats(store, sessions, now),
        Watched(workspace.root, {"PATH": os.environ["PATH"]}, loopback=True),
        clock=now,
        remark=builder.remark,
        start=lambda row, inbound: assistant.start(row, inbound),
        wake=delivery.wake,
        free=lambda address: assistant.free(address),
        is_frozen=lambda: flags.get(PANIC) is not None,
        **{"settings": hours.settings("30m", "08:00-22:00"), **(beating or {})},
    )

    def provider_for(name: str) -> Provider:
        if not name and providers:
            return providers[0]
        if name not in named:
            raise ConfigError(f"there is no model {name!r}")
        return named[name]

    answered = Answers(jobs, now, schedule.changed).to
    reacted = approval_reaction(approvals, lambda inbound: not inbound.is_group and roles.role_of(inbound) == "owner")
    arrivals = Arrivals(
        Media(workspace),
        1_000_000,
        holder=channels.get,
        image_type=image_type,
        is_guests=lambda inbound: roles.role_of(inbound) == "guest",
        said=outbox.sent_text,
        transcribe=transcribe,
        sleep=channel.nap,
    )
    assistant = Assistant(
        sessions=sessions,
        inbox=Inbox(store, now),
        outbox=outbox,
        flags=flags,
        delivery=delivery,
        builder=builder,
        receipts=Receipts(
            ledger,
            changes,
            builder.remark,
            undo_job=desk.remove,
            reminders=lambda: [job.text for job in jobs.all()],
        ),
        toolbox=Toolbox(tools, now, lambda text: text, pinned.refusal),
        provider_for=provider_for,
        show=channel.show,
        status=lambda: "nanoclaw under test",
        clock=now,
        rounds=rounds,
        skills=lambda: survey(skills, Means(frozenset(tool.spec.name for tool in tools))),
        answers=answers,
        budget=budget,
        reaction=lambda inbound: reacted(inbound) or answered(inbound),
        arrive=arrivals.take,
        check_file=sendable,
        told=lambda turn, address: sent.of_turn(turn, jobs_target(jobs, address)),
        resumed=schedule.changed,
        ending=lambda inbound, ended, touched: (
            schedule.ending(inbound, ended, touched) or heartbeat.ending(inbound, ended)
        ),
        toolboxes={
            "heartbeat": Toolbox([*tools, report_tool(heartbeat.report)], now, lambda text: text),
            "guest": Toolbox(guests, now, lambda text: text),
        },
        role_of=roles.role_of,
        conversation=roles.conversation,
        **options,
    )
    delivering = asyncio.create_task(delivery.run())
    assistant.resume(lambda address: True)
    try:
        async with asyncio.timeout(100):
            yield House(
                root,
                assistant,
                delivery,
                channel,
                store,
                sessions,
                builder,
                now,
                jobs,
                schedule,
                desk,
                heartbeat,
                approvals,
                gatekeeper,
                accounts,
            )
    finally:
        await assistant.close()
        delivering.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await delivering
        finally:
            store.close()


def jobs_target(jobs: Jobs, address: Address) -> Address:
    job = jobs.get(int(address.chat)) if address.channel == "job" else None
    return job.target if job else address


def builder_for(
    root: Path,
    clock: Callable[[], datetime],
    *,
    zone: str = "Europe/Berlin",
    skills: tuple[Path, ...] = (),
    tools: Iterable[Tool] = (),
    open_picture: Callable[[bytes | Path, str], Image] = open_image,
    **options: Any,
) -> ContextBuilder:
    return ContextBuilder(
        root / "workspace",
        template=TEMPLATE,
        skill_folders=skills,
        tools=frozenset(tool.spec.name for tool in tools),
        clock=clock,
        zone=zone,
        open_image=open_picture,
        **options,
    )


def results(history: Iterable[Message]) -> list[ToolResult]:
    return [message for message in history if isinstance(message, ToolResult)]


def assert_legal(history: Iterable[Message]) -> None:
    """Every call is followed by its result, in order, and no result stands alone."""
    waiting: list[str] = []
    for message in history:
        if isinstance(message, ToolResult):
            assert waiting and waiting.pop(0) == message.call_id, f"a result without its call: {message}"
            continue
        assert not waiting, f"calls without results: {waiting}"
        waiting = [call.id for call in getattr(message, "tool_calls", ())]
    assert not waiting, f"calls without results: {waiting}"
