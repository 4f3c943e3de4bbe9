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

from nanoclaw.agent.assistant import Assistant
from nanoclaw.agent.budget import Budget
from nanoclaw.agent.commands import Answer
from nanoclaw.agent.context import ContextBuilder
from nanoclaw.agent.delivery import Delivery
from nanoclaw.agent.noting import note_commands
from nanoclaw.agent.receipts import Receipts
from nanoclaw.agent.standing import pin_commands
from nanoclaw.app import frozen_at, job_commands, open_image
from nanoclaw.channels.base import Deliver, Hints
from nanoclaw.errors import ConfigError
from nanoclaw.events import Event, TurnEnded
from nanoclaw.guard.pinned import Pinned
from nanoclaw.messages import Address, Attachment, Image, Inbound, Message, Outbound, ToolResult, UserMessage
from nanoclaw.providers.base import Provider
from nanoclaw.schedule import heartbeat as heartbeats
from nanoclaw.schedule.desk import Desk
from nanoclaw.schedule.heartbeat import Heartbeat
from nanoclaw.schedule.reminders import Answers
from nanoclaw.schedule.schedule import Schedule
from nanoclaw.schedule.watched import Watched
from nanoclaw.store.beats import Beats
from nanoclaw.store.db import Store
from nanoclaw.store.flags import PANIC, Flags
from nanoclaw.store.inbox import Inbox
from nanoclaw.store.jobs import Jobs
from nanoclaw.store.ledger import Ledger
from nanoclaw.store.outbox import Outbox
from nanoclaw.store.pins import Pins
from nanoclaw.store.sessions import Sessions
from nanoclaw.tools.base import Tool, Toolbox
from nanoclaw.tools.files import file_tools
from nanoclaw.tools.kept import kept
from nanoclaw.tools.memory import memory_tools
from nanoclaw.tools.report import report_tool
from nanoclaw.tools.schedule import schedule_tools
from nanoclaw.workspace import bootstrap
from nanoclaw.workspace.changes import Changes
from nanoclaw.workspace.notes import MemoryStore
from nanoclaw.workspace.paths import Workspace
from nanoclaw.workspace.search import NoteSearch
from nanoclaw.workspace.skills import Means, survey

REPOSITORY = Path(__file__).parents[2]
TEMPLATE = REPOSITORY / "workspace_template"
BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 3, 6, 12, 0, tzinfo=BERLIN)
MAIN = Address("terminal", "main")


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

    async def run(self, deliver: Deliver) -> None:
        await asyncio.Event().wait()

    def serves(self, outbound: Outbound) -> bool:
        return True

    async def send(self, outbound: Outbound) -> str:
        if self.broken(outbound):
            raise ConnectionError("the platform is down")
        self.sent.put_nowait(outbound)
        return f"id-{self.sent.qsize()}"

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
    ) -> None:
        """Hand a message in; it is stored when this returns."""
        self._count += 1
        identity = f"{id(self)}-{self._count}"
        message = UserMessage(text, self.clock())
        await self.assistant.deliver(Inbound(Address("terminal", chat), sender, identity, message, files, quoted))

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
    **options: Any,
) -> AsyncIterator[House]:
    """The first provider is the configured one; /model finds the others by name; `money` makes the budget; `waking`
    brings the cron tool and goes to the Schedule, `beating` goes to the Heartbeat, neither of which is running, and
    `options` go to the Assistant."""
    now = clock or HandClock()
    new_home(root)
    workspace = Workspace(root / "workspace")
    notes = NoteSearch(workspace, root / "index.db", now)
    channel = channel or FakeChannel()
    store = Store(root / "state.db")
    sessions = Sessions(store, now)
    jobs = Jobs(store, sessions, now)
    desk = Desk(jobs, now, "Europe/Berlin", lambda address: address.channel != "nowhere", lambda: schedule.changed())
    tools = [
        *file_tools(workspace, open_image),
        *memory_tools(MemoryStore(workspace, now), notes.search),
        *(schedule_tools(desk) if waking is not None else ()),
        *tools,
    ]
    ledger = Ledger(store, now)
    changes = Changes(root / "undo", workspace, now, ledger)
    tools = kept(tools, changes)
    outbox, flags = Outbox(store, now, lambda: 1.0), Flags(store, now)
    delivery = Delivery(outbox, [channel, *others], now, lambda outbound: True, partial(frozen_at, flags))
    pins = Pins(store, now)
    pinned = Pinned(pins.all, (tool.spec.name for tool in tools), workspace.root)
    budget = money(store, flags) if money else None
    answers: dict[str, Answer] = {
        **pin_commands(pins, pinned.how),
        **note_commands(MemoryStore(workspace, now), changes, notes.search),
        **job_commands(desk),
        **options.pop("answers", {}),
    }
    if budget:
        answers["budget"] = lambda said: budget.command(said.argument)
    builder = builder_for(
        root, now, skills=skills, open_picture=open_picture, tools=tools, recall=notes.recall, pins=pins.all
    )
    named = {provider.model: provider for provider in providers}
    schedule = Schedule(
        jobs,
        clock=now,
        remark=builder.remark,
        start=lambda row, inbound: assistant.start(row, inbound),
        wake=delivery.wake,
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
        **{"settings": heartbeats.settings("30m", "08:00-22:00"), **(beating or {})},
    )

    def provider_for(name: str) -> Provider:
        if not name and providers:
            return providers[0]
        if name not in named:
            raise ConfigError(f"there is no model {name!r}")
        return named[name]

    assistant = Assistant(
        sessions=sessions,
        inbox=Inbox(store, now),
        outbox=outbox,
        flags=flags,
        delivery=delivery,
        builder=builder,
        receipts=Receipts(ledger, changes, builder.remark, undo_job=desk.remove),
        toolbox=Toolbox(tools, now, lambda text: text, pinned.refusal),
        provider_for=provider_for,
        show=channel.show,
        status=lambda: "nanoclaw under test",
        clock=now,
        rounds=rounds,
        skills=lambda: survey(skills, Means(frozenset(tool.spec.name for tool in tools))),
        answers=answers,
        budget=budget,
        reaction=Answers(jobs, now, schedule.changed).to,
        resumed=schedule.changed,
        ending=lambda inbound, ended, touched: (
            schedule.ending(inbound, ended, touched) or heartbeat.ending(inbound, ended)
        ),
        toolboxes={"heartbeat": Toolbox([*tools, report_tool(heartbeat.report)], now, lambda text: text)},
        **options,
    )
    delivering = asyncio.create_task(delivery.run())
    assistant.resume(lambda address: True)
    try:
        async with asyncio.timeout(30):
            yield House(
                root, assistant, delivery, channel, store, sessions, builder, now, jobs, schedule, desk, heartbeat
            )
    finally:
        await assistant.close()
        delivering.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await delivering
        finally:
            store.close()


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
