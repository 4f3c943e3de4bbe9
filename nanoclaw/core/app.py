"""The running program: its parts and its lifetime."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from nanoclaw.beneath.paths import Reach
from nanoclaw.clock import pause
from nanoclaw.core.calls import Toolbox
from nanoclaw.core.chain import Chain
from nanoclaw.core.channel import TERMINAL, Channel, ChannelTable
from nanoclaw.core.channel_registry import Channels
from nanoclaw.core.commands import Commands
from nanoclaw.core.context import ContextBuilder
from nanoclaw.core.conversation import Actors, QueuePolicy, not_begun
from nanoclaw.core.delivery import Delivery, Outbox
from nanoclaw.core.errors import FAULTS
from nanoclaw.core.messages import Address, Inbound, Limits, Outbound
from nanoclaw.core.model_call import ModelCalls, Models
from nanoclaw.core.plugin import EVERYBODY, Command, Finding, NamedTuple, Plugin, Reply, Said
from nanoclaw.core.router import Router
from nanoclaw.core.runner import Runner
from nanoclaw.core.store.db import PANIC, Flags, Store, Transaction, Transactions
from nanoclaw.core.store.inbox import Inbox
from nanoclaw.core.store.sessions import Sessions, past_counts
from nanoclaw.core.turn import TurnParts
from nanoclaw.log import logger
from nanoclaw.outputs import Outputs
from nanoclaw.redaction import Redactor
from nanoclaw.sqlite_salvage.copies import keep_copies, keep_daily_copy
from nanoclaw.tokens import Calibration

RESTART_SECONDS = 5.0  # pause before background work of a plugin that failed is restarted


class AppSettings(NamedTuple):
    """Settings that the core itself reads; `problem` is what is wrong with them, in safe mode; `brings`: Commands."""

    home: Path
    workspace: Path
    template: Path
    reach: Reach
    sections_off: Collection[str]
    turn: Limits
    queue: Literal["steer", "followup"]
    problem: str
    change: Callable[[Mapping[str, Any]], Path | None]
    brings: Mapping[str, str]


class App:
    """Made only by `build`, in three steps: the store and its users, the plugins, and everything that answers."""

    def __init__(self, settings: AppSettings, config: Any, store: Store, clock: Callable[[], datetime]) -> None:
        """`config` is the whole configuration, for plugins."""
        self.settings, self.config, self.store, self.clock = settings, config, store, clock
        self.began, self.home = clock(), settings.home
        self.transactions = Transactions(store, clock, self)
        self.flags, self.inbox = Flags(store, clock), Inbox(self.transactions)
        self.outbox = Outbox(self.transactions)
        self.chat_apps: Mapping[str, ChannelTable] = {}
        self.redact = Redactor()
        """Hides values that must never show; add those that appear later with `redact.add(token)`."""
        self.channels = Channels((), clock, self.redact)
        self.is_gateway = self.is_terminated = self._wakes = False
        self.keep_copy = keep_daily_copy
        """Makes the daily copy at the end of the process."""
        self.inherits = False
        """It succeeds a process that has ended, whose terminals reconnect one by one."""
        self.left_out: Mapping[str, str] = {}
        """Plugins that are enabled and were not loaded, each with a sentence that says why."""
        self._tasks: set[asyncio.Task[object]] = set()
        self._running: list[asyncio.Task[object]] = []
        self.by_name: dict[str, Plugin] = {}
        """The plugins, from when each is made: others find what it makes public."""

    def plug(self, plugins: Iterable[Plugin]) -> None:
        """Add the plugins, in the order of their chain."""
        self.plugins = tuple(plugins)
        self.chain = Chain(self.plugins, self.store.rows)
        self.sessions = Sessions(self.transactions, self.chain.conversation_of)

    def assemble(self, models: Models, channels: Iterable[Channel]) -> None:
        """Make everything that answers."""
        settings = self.settings
        self.models = models
        reach, template, off = settings.reach, settings.template, settings.sections_off
        self.builder = ContextBuilder(reach, template, self.clock, self.chain, self.channels, off, self.redact)
        self.model_calls = ModelCalls(models, self.chain, Calibration(partial(past_counts, self.store)))
        self.toolbox = Toolbox(self.chain, self.clock, self.redact.strictly, Outputs(settings.workspace))
        parts = TurnParts(self.chain, self.builder, self.model_calls, self.channels, self.clock, settings.turn)
        self.runner = Runner(self.sessions, self.inbox, parts, self.toolbox)
        judge = self.chain.before_send if self.chain.has("before_send") else None
        self.delivery = Delivery(
            self.outbox, self.channels, self.flags, self.transactions, reach, self.owners_chats, judge
        )
        self.commands = Commands(self._commands(), self.transactions, self.redact, settings.brings)
        policy = QueuePolicy(settings.queue)
        self.conversations = Actors(self.runner, self.commands, self.channels, policy)
        self.router = Router(self.runner, self.conversations, self.commands, self.channels, self.flags)
        for channel in (*channels, *(one for plugin in self.chain.plugins for one in plugin.channels())):
            self.channels.add(channel)

    # --- what follows a transaction ----------------------------------------------------------------------------------

    def enter(self, tx: Transaction, row: int, outbound: Outbound, remark: str) -> None:
        """Add a message that is sent to the history of its chat."""
        self.sessions.enter(tx, row, outbound, remark)

    def committed(self, tx: Transaction) -> None:
        """Handle new rows of the inbox and the outbox."""
        self.delivery.committed(tx)
        for row, inbound in tx.delivered:
            if not self.router.is_frozen:
                self.conversations.enqueue(row, inbound)

    # --- for plugins -------------------------------------------------------------------------------------------------

    def public(self, name: str) -> Any:
        """The public object of a plugin."""
        return self.by_name[name].public if name in self.by_name else None

    def used(self, name: str) -> Any:
        """The public object, but only if it was made already, else None: making it may be expensive."""
        return vars(self.by_name[name]).get("public") if name in self.by_name else None

    def owners_chats(self) -> Sequence[Address]:
        return [chat for one in self.plugins for chat in one.owners_chats()]

    def spawn(self, work: Coroutine[Any, Any, object], name: str) -> None:
        """Run something in the background; a failure is logged."""
        task: asyncio.Task[object] = asyncio.ensure_future(work)
        self._tasks.add(task)

        def done(ended: asyncio.Task[object]) -> None:
            self._tasks.discard(ended)
            if not ended.cancelled() and (error := ended.exception()):
                logger.opt(exception=error).error("background work of the plugin {} failed", name)

        task.add_done_callback(done)

    # --- its life ----------------------------------------------------------------------------------------------------

    async def deliver(self, inbound: Inbound) -> str | None:
        """Accept a message; a channel that has much to send is slowed down."""
        said = await self.router.deliver(inbound)
        await self.delivery.catch_up(inbound.address.channel)
        return said

    async def run(self, *, wakes: bool = False, after: float = 0) -> None:
        """Serve until a channel of its own is done; a cancelled run ends what it was doing as the person's own stop,
        and a gateway's leaves it to the next start. With `wakes` plugins work in the background, `after` so many
        seconds where nothing is to be resumed."""
        delivering = asyncio.create_task(self.delivery.run())
        self.spawn(keep_copies(self.store.path, self.clock, self.conversations.idle), "copies")
        channels = self.channels.all()
        serving = [
            asyncio.create_task(self.channels.run(channel, self.deliver, again=self.is_gateway)) for channel in channels
        ]
        self.chain.asker.restore()
        self._wakes = wakes
        # before any of them has run, yet what it shows comes after a greeting; it may need the work of plugins
        is_resuming = self.router.resume(self.resumes)
        if wakes and not self.router.is_frozen:
            self.start_work(0 if is_resuming else after)
        try:
            await asyncio.wait([*serving, delivering], return_when=asyncio.FIRST_COMPLETED)
            for task in (*serving, delivering):
                if task.done():
                    task.result()
        finally:
            self.stop_work()
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)
            stays = all(channel.hints.stays for channel in channels)
            await self.conversations.close(leave=(self.is_terminated or self.is_gateway) and stays)
            delivering.cancel()
            await asyncio.gather(delivering, return_exceptions=True)
            for channel in channels:
                await self.delivery.flush(channel.name)

    def resumes(self, address: Address) -> bool:
        """True if a conversation that an earlier process left unfinished continues here."""
        if self.channels.get(address.channel) is None:
            return self._wakes and address.channel != TERMINAL  # tasks and heartbeats continue where plugins work
        if self.inherits and address.channel == TERMINAL:
            return True
        return self.is_gateway or self.channels.reaches(Outbound(address, "", reply_to="any"))

    def terminate(self, serving: asyncio.Task[Any]) -> None:
        """End soon: what runs is left to the next start, unless nobody waits for it then."""
        self.is_terminated = True
        serving.cancel()

    async def aclose(self) -> None:
        self.stop_work()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for plugin in reversed(self.chain.plugins):
            try:
                await plugin.aclose()
            except FAULTS as error:
                self.chain.fault(plugin, "aclose", error)
        await self.models.aclose()
        self.keep_copy(self.store.path, self.clock().date())
        self.store.close()

    # --- background work ---------------------------------------------------------------------------------------------

    def start_work(self, after: float = 0) -> None:
        """Start the plugins' background work, `after` so many seconds."""
        working = [one for one in self.chain.plugins if type(one).run is not Plugin.run]
        self._running = [asyncio.create_task(self._work(one, after)) for one in working]

    def stop_work(self) -> None:
        for task in self._running:
            task.cancel()
        self._running = []

    async def _work(self, plugin: Plugin, after: float) -> None:
        """A plugin's background work; it is started again when it fails."""
        if after:
            await pause(after)
        while True:
            try:
                await plugin.run()
                return
            except FAULTS as error:
                self.chain.fault(plugin, "run", error)
            await pause(RESTART_SECONDS)

    # --- what must not depend on a plugin -----------------------------------------------------------------------------

    def _commands(self) -> Iterable[Command]:
        stop = "stop what is running and drop waiting messages"
        yield Command("stop", stop, lambda said, tx: "Nothing is running.", "talk", EVERYBODY)
        panic = "stop everything, and send and start nothing until /resume"
        yield Command("panic", panic, self._panic, "safety")
        yield Command("resume", "continue after /panic", self._resume, part_of="panic")
        yield from self.chain.commands()

    async def _panic(self, said: Said) -> str:
        self.flags.set(PANIC, str(self.outbox.last()))
        self.stop_work()
        stopped = 0
        for address, was_running in self.conversations.halt_all().items():
            if was_running:
                stopped += 1
            elif dropped := self.conversations.of(address).dropped():
                rows = [row for row, _ in dropped]
                self.inbox.done(rows, Outbound(address, f"Stopped.{not_begun(dropped)}"))
        ran = f" I stopped what was running ({stopped})." if stopped else ""
        return f"Everything is frozen: nothing is sent or started until /resume, also after a restart.{ran}"

    async def _resume(self, said: Said) -> Reply:
        if not self.router.is_frozen:
            return Reply("Nothing is frozen.")
        self.flags.clear(PANIC)
        return Reply("Going on. Waiting messages are sent and answered now.", change=lambda tx: tx.after(self.thaw))

    def thaw(self) -> None:
        asyncio.get_running_loop().call_soon(self.router.resume, self.resumes)  # before plugins bring anything new
        if self._wakes:
            self.start_work()
        self.delivery.wake()

    async def findings(self, *, deep: bool = False) -> list[tuple[str, Finding]]:
        """Reports of plugins about themselves, each with the plugin's name."""
        found: list[tuple[str, Finding]] = []
        for plugin in self.chain.plugins:
            try:
                found += [(plugin.name, one) for one in await plugin.check(deep)]
            except FAULTS as error:
                self.chain.fault(plugin, "check", error)
        found += [(f"plugin {name}", Finding(False, why)) for name, why in self.left_out.items()]
        if not deep:  # which asks them
            found += [(f"model for {name}", Finding(False, why)) for name, why in self.models.troubles().items()]
        found += [(name, Finding(False, f"failed: {fault}")) for name, fault in self.chain.faults.items()]
        return found

    async def audit(self) -> list[tuple[str, Finding]]:
        """Reports of plugins about the access that they open."""
        found = [(f"plugin {name}", Finding(False, why, risk="warning")) for name, why in self.left_out.items()]
        for plugin in self.chain.plugins:
            try:
                found += [(plugin.name, one) for one in await plugin.audit()]
            except FAULTS as error:
                self.chain.fault(plugin, "audit", error)
                found.append((plugin.name, Finding(False, "could not be checked: see the log", risk="bad")))
        return found

    def status(self) -> dict[str, Any]:
        """The state of the process, for `nanoclaw status`; ages are in seconds."""
        role, seconds = "gateway" if self.is_gateway else "terminal", (self.clock() - self.began).total_seconds()
        return {"role": role, "seconds": round(seconds), "channels": self.channels.status()}

    def in_words(self) -> str:
        """Line about the channels that a gateway serves."""
        served = [channel.name for channel in self.channels.all() if not self.channels.trouble(channel.name)]
        names = ", ".join(sorted(served, key=lambda name: name != TERMINAL))
        return f"process {os.getpid()} serves {names} with {self.model_name() or 'no model'}"

    def model_name(self) -> str:
        try:
            return self.models.of("").model
        except Exception:
            return ""
