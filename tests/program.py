"""The whole program on a temporary folder, as `build` makes it: scripted model, real store, real files, a channel that
collects what is sent."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

from nanoclaw.core.app import App
from nanoclaw.core.channel import Deliver, Hints
from nanoclaw.core.conversation import QueuePolicy
from nanoclaw.core.errors import Undeliverable
from nanoclaw.core.events import Event, TurnEnded
from nanoclaw.core.messages import Address, Attachment, Inbound, Message, Outbound, Role, ToolResult, UserMessage
from nanoclaw.core.plugin import Plugin, Tool, Tx
from nanoclaw.core.provider import Provider
from nanoclaw.core.tool import tool
from nanoclaw.sandbox.sandbox import find_strength
from nanoclaw.sandbox.view import Grants
from nanoclaw.start import opening
from nanoclaw.start.build import BUILT_IN, _names, bring_up, build, classes
from nanoclaw.start.config import Config, load
from nanoclaw.start.opening import open_store

REPOSITORY = Path(__file__).parents[1]
BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 3, 6, 12, 0, tzinfo=BERLIN)
MAIN = Address("terminal", "main")
GUEST = Address("chat", "777")

_NUMBERS = count(1)


def new_id() -> str:
    """An id that no message had, also none of another process: a home that is opened again drops one it has seen."""
    return f"said-{os.getpid()}-{next(_NUMBERS)}"


class AtOnce(Executor):
    """Commits on the loop, so that a test takes the same steps each time. tests/core/store/test_commits.py has the
    thread, and so have all tests of whole processes."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@dataclass
class HandClock:
    """Time that moves only by hand, or by `step` at each look."""

    now: datetime = NOON
    step: timedelta = timedelta()

    def __call__(self) -> datetime:
        now = self.now
        if self.step:  # the sum forgets which of two equal hours it was
            self.now += self.step
        return now


class FakeChannel:
    """Collects what is sent; `broken` makes sending fail."""

    def __init__(self, name: str = "terminal", hints: Hints | None = None) -> None:
        self.name = name
        self.hints = hints or Hints(bursts=False, notices=name == "terminal")
        self.alive: datetime | None = None
        self.sent: asyncio.Queue[Outbound] = asyncio.Queue()
        self.events: list[tuple[Address, Event]] = []
        self.broken: Callable[[Outbound], bool] = lambda outbound: False
        self.held: dict[str, bytes | Exception] = {}  # what the platform holds, by ref
        self.fetched: list[str] = []
        self.fetching = asyncio.Event()

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

    def show(self, address: Address, event: Event) -> None:
        self.events.append((address, event))

    @property
    def ended(self) -> list[TurnEnded]:
        return [event for _, event in self.events if isinstance(event, TurnEnded)]


class LoggingChannel(FakeChannel):
    """Writes down what it was given, and knows a repeat by its key."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log

    async def send(self, outbound: Outbound) -> str:
        with self._log.open("a") as file:
            file.write(f"{outbound.key} {outbound.text!r}\n")
        return await super().send(outbound)


class Gate:
    """A tool that waits until it is opened."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    def tools(self) -> list[Tool]:
        return [tool(self.wait)]

    async def wait(self) -> str:
        """Waits."""
        self.reached.set()
        await self.open.wait()
        return "waited"


@dataclass
class Program:
    app: App
    root: Path
    channel: FakeChannel
    clock: Callable[[], datetime]

    @property
    def workspace(self) -> Path:
        return self.app.settings.workspace

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self.app.sessions.of(MAIN).history)

    def public(self, name: str) -> Any:
        """What a plugin made public."""
        return self.app.public(name)

    def rows(self, sql: str, *values: object) -> list[Any]:
        return self.app.store.rows(sql, *values)

    async def deliver(self, inbound: Inbound) -> None:
        await self.app.deliver(inbound)

    async def say(
        self,
        text: str,
        chat: str = "main",
        files: tuple[Attachment, ...] = (),
        sender: str = "me",
        quoted: str = "",
        quote: str = "",
    ) -> None:
        """Hand a message of the owner's in; it is stored when this returns."""
        message = UserMessage(text, self.clock())
        address = Address(self.channel.name, chat)
        await self.deliver(Inbound(address, sender, new_id(), message, files, quoted, quote))

    async def write_from(self, address: Address, sender: str, text: str, **fields: Any) -> None:
        """Hand a message of anybody's in, as a chat channel does."""
        message = UserMessage(text, self.clock())
        await self.deliver(Inbound(address, sender, new_id(), message, **fields))

    async def answer(self) -> str:
        return (await self.channel.sent.get()).text

    async def ask(self, text: str, chat: str = "main", files: tuple[Attachment, ...] = (), sender: str = "me") -> str:
        await self.say(text, chat, files, sender)
        return await self.answer()

    def link(self, address: Address) -> None:
        """Make an account the owner's, who has written there."""
        accounts = self.public("access").accounts

        def change(tx: Tx) -> None:
            code = accounts.new_link(tx, address.channel)
            assert accounts.try_code(tx, code, address, address.chat, "", may_link=True) == "linked"
            accounts.meet(tx, address, address.chat)

        self.app.transactions.write_now(change)

    async def answer_with(self, words: str) -> str:
        """The next answer with these words: what ends in the background may be told before it."""
        while words not in (answer := await self.answer()):
            pass
        return answer


HAS_SANDBOX = find_strength(Grants(Path("/nowhere"), (), Path("/nowhere"), os.environ["PATH"])).level != "none"


def do_without_sandbox(file: Path) -> None:
    """Say in a configuration that commands run without a sandbox on a machine that has none; where it says nothing."""
    if HAS_SANDBOX or "sandbox" not in BUILT_IN:
        return
    said = file.read_text() if file.exists() else ""
    if "[sandbox]" not in said:
        file.write_text(f'{said}\n[sandbox]\nlevel = "none"\n')


def config_of(root: Path, settings: str = "", **environment: str) -> Config:
    """The configuration of a home whose config.toml says that."""
    root.mkdir(parents=True, exist_ok=True)
    file = root / "config.toml"
    if settings:
        file.write_text(settings)
    do_without_sandbox(file)
    return load({"NANOCLAW_HOME": str(root), "TZ": "Europe/Berlin", "PATH": "/usr/bin:/bin", **environment})


def tools_plugin(*tools: Tool) -> type[Plugin]:
    """A plugin that brings these tools."""

    class Brought(Plugin):
        name = "brought"

        def tools(self) -> Iterable[Tool]:
            return tools

    return Brought


def everybody_is(role: Role) -> type[Plugin]:
    """A plugin that lets everybody in, in the place of access."""

    class Everybody(Plugin):
        name = "everybody"

        def on_message(self, inbound: Inbound, tx: Tx) -> Inbound:
            return inbound._replace(role=inbound.role or role)

    return Everybody


@cache
def _new_store(names: tuple[str, ...]) -> bytes:
    """The store of a new home, with the tables of these built-in plugins, as its first start makes it."""
    with tempfile.TemporaryDirectory() as folder:
        kinds = classes(load({"NANOCLAW_HOME": folder}), names)
        store = open_store(Path(folder, "state.db"), plugins=kinds)
        bring_up(store, kinds)
        store.close()
        return store.path.read_bytes()


@contextmanager
def new_store_laid(root: Path, names: Iterable[str] = tuple(BUILT_IN)) -> Iterator[None]:
    """A home without a store is given that of `_new_store`, and known to be whole meanwhile: to make one takes half of
    a short test, and to look at every row of it a sixth. Tests of whole processes begin without."""
    if list(root.glob("state.db*")):
        yield
        return
    file = root / "state.db"
    file.touch(0o600)
    file.write_bytes(_new_store(tuple(names)))
    with patch.object(opening, "is_undamaged", lambda path: True):
        yield


@asynccontextmanager
async def running(
    root: Path,
    *providers: Provider,
    settings: str = "",
    channel: FakeChannel | None = None,
    others: Sequence[FakeChannel] = (),
    clock: Callable[[], datetime] | None = None,
    plugins: Iterable[str | type[Plugin]] | None = None,
    extra: Iterable[type[Plugin]] = (),
    without: Collection[str] = (),
    wakes: bool = False,
    environment: dict[str, str] | None = None,
    policy: QueuePolicy | None = None,
    after: float = 0,
    keeps_copy: bool = False,
    seconds: float = 100.0,
    makes_store: bool = False,
    gateway: bool = False,
) -> AsyncIterator[Program]:
    """The program at work. The owner is at terminal:main; the same folder may be opened again. The first provider is
    the configured one, /model finds the others by name. `settings` is the text of config.toml; `extra` are plugins
    beside the built-in ones, `plugins` the only ones; with `wakes` plugins work in the background, `after` so many
    seconds. `policy` take the place of the usual pauses; with `keeps_copy` the day's copy of the store is kept at the
    end; with `makes_store` a new store is made step by step, as a person's first start does. A `gateway` has the
    channels of its configuration alone."""
    config = config_of(root, settings, **(environment or {}))
    now, own = clock or HandClock(), channel or FakeChannel()
    chosen: list[str | type[Plugin]] | None = None if plugins is None else list(plugins)
    if extra:
        chosen = [*(_names(config) if chosen is None else chosen), *extra]
    left_out = BUILT_IN.keys() & without  # whichever are there
    off = {*left_out, *config.plugins.off}
    made = (name for name in BUILT_IN if name not in off and (chosen is None or name in chosen))
    channels = None if gateway else [own, *others]
    with nullcontext() if makes_store else new_store_laid(root, made):
        app = build(config, provider=providers, channels=channels, clock=now, plugins=chosen, without=left_out)
    app.store.committer = AtOnce()
    if not keeps_copy:
        app.keep_copy = lambda path, today: ""
    if policy:
        app.conversations.policy = policy
    serving = asyncio.create_task(app.run(wakes=wakes, after=after))
    try:
        await asyncio.sleep(0)
        async with asyncio.timeout(seconds):
            yield Program(app, root, own, now)
    finally:
        serving.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await serving
        finally:
            await app.aclose()


def bare(
    root: Path, *providers: Provider, tools: Iterable[Tool] = (), plugins: Iterable[type[Plugin]] = (), **options: Any
) -> AbstractAsyncContextManager[Program]:
    """The core at work, with its commands, room in a conversation, and the plugins of a test; one brings `tools`."""
    return running(root, *providers, plugins=["basics", "compaction", *plugins, tools_plugin(*tools)], **options)


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
