"""Many chats, a tool that hangs, a large state, hours in small, and what a turn writes: through the program with a
channel that hands in and collects, against a model on loopback that answers at once.

Usage: durability.py [--soak SECONDS] [--rate MESSAGES_A_SECOND] [--only WORD]. Prints rows of the table in README.md.
Each figure is measured in a process of its own, which is this file again with the name of a measurement.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from measure import PYTHON, environment, run
from model_server import ModelServer, Reply

from nanoclaw.core.app import App
from nanoclaw.core.channel import Deliver, Hints
from nanoclaw.core.events import Event
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    Inbound,
    Outbound,
    ToolCall,
    ToolResult,
    UserMessage,
)
from nanoclaw.core.plugin import Ended
from nanoclaw.core.store.db import Store, Transactions
from nanoclaw.core.store.sessions import Sessions, TurnJournal
from nanoclaw.start import config as configuration
from nanoclaw.start.build import build
from nanoclaw.start.opening import open_store

CHATS, MESSAGES, SECONDS = 50, 20, 60.0
TOOLS = 20
SLOW_SECONDS = 0.1
LONG_BYTES, LARGE_BYTES = 2_000_000, 100_000_000
MODEL = "openai/bench"
"""No table knows its window, so that nothing is summed up."""

Row = tuple[str, str, str, str]
"""Figure, goal, measured, for comparison."""


# --- the model, in the process that measures nothing ------------------------------------------------------------------


class Echo(ModelServer):
    """Repeats the numbers of all that is not answered yet. "sleep" is a command of ten minutes, "write" is `TOOLS`
    rounds of write_file."""

    def reply(self, body: dict[str, Any]) -> Reply:
        self.bodies.clear()
        messages = body["messages"]
        finals = (n for n, one in enumerate(messages) if one["role"] == "assistant" and not one.get("tool_calls"))
        since = messages[max(finals, default=0) + 1 :]
        said = " ".join(_text(one) for one in since if one["role"] == "user")
        results = sum(one["role"] == "tool" for one in since)
        if "#sleep#" in said and not results:
            return [("exec", {"command": "sleep 600"})]
        if "#write#" in said and results < TOOLS:
            return [("write_file", {"path": f"plans/{results}.md", "content": f"{results}: water the plants\n" * 10})]
        return " ".join(re.findall(r"#\d+#", said)) or "Hello."


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else json.dumps(content)


# --- the assistant, in the process that is measured -------------------------------------------------------------------


class Crowd:
    """A channel with any number of chats. `answers` has, for each, when an answer came and what it said."""

    name, hints, alive = "terminal", Hints(bursts=False), None

    def __init__(self) -> None:
        self.answers: dict[str, asyncio.Queue[tuple[float, str]]] = {}
        self._sent = 0

    def of(self, chat: str) -> asyncio.Queue[tuple[float, str]]:
        return self.answers.setdefault(chat, asyncio.Queue())

    async def run(self, deliver: Deliver) -> None:
        await asyncio.Event().wait()

    def serves(self, outbound: Outbound) -> bool:
        return True

    async def send(self, outbound: Outbound) -> str:
        self.of(outbound.address.chat).put_nowait((time.monotonic(), outbound.text))
        self._sent += 1
        return str(self._sent)

    def show(self, address: Address, event: Event) -> None:
        pass


@dataclass
class Live:
    app: App
    crowd: Crowd
    _count: int = 0

    async def say(self, chat: str, text: str) -> None:
        self._count += 1
        message = UserMessage(text, clock())
        identity = f"{os.getpid()}-{self._count}"
        await self.app.deliver(Inbound(Address(Crowd.name, chat), "owner", identity, message))

    async def ask(self, chat: str, text: str) -> tuple[float, str]:
        """Seconds until the answer, and the answer."""
        began = time.monotonic()
        await self.say(chat, text)
        came, answer = await self.crowd.of(chat).get()
        return came - began, answer


def clock() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def live() -> AsyncIterator[Live]:
    """The whole program, with all that plugins do in the background."""
    crowd = Crowd()
    app = build(configuration.load(os.environ), channels=[crowd], model=MODEL)
    serving = asyncio.create_task(app.run(wakes=True))
    life = Live(app, crowd)
    try:
        await life.ask("warm", "#0#")
        yield life
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await app.aclose()


async def busy(seconds: str) -> dict[str, float]:
    """Each chat's messages at times of its own. Those that come while it is being answered may share an answer."""
    numbers = Random(4)
    taken: list[float] = []
    answered: list[float] = []

    async def chat(name: str, life: Live, began: float) -> bool:
        due = sorted(numbers.uniform(0, float(seconds)) for _ in range(MESSAGES))
        for number, at in enumerate(due):
            await asyncio.sleep(max(0.0, began + at - time.monotonic()))
            await life.say(name, f"#{number}#")
            taken.append(time.monotonic() - began - at)
        said: list[int] = []
        while len(said) < MESSAGES:
            came, text = await life.crowd.of(name).get()
            new = [int(one) for one in re.findall(r"#(\d+)#", text)]
            answered.extend(came - began - due[one] for one in new)
            said += new
        return said == list(range(MESSAGES)) and life.crowd.of(name).empty()

    async with live() as life:
        began, cpu = time.monotonic(), time.process_time()
        right = await asyncio.gather(*(chat(f"chat-{number}", life, began) for number in range(CHATS)))
        wall = time.monotonic() - began
        await life.app.conversations.idle()
        assert all(life.crowd.of(f"chat-{number}").empty() for number in range(CHATS)), "answered twice"
    return {
        "right": sum(right),
        "wall": wall,
        "cpu": time.process_time() - cpu,
        "taken_99": _percentile(taken, 99) * 1000,
        "taken_50": median(taken) * 1000,
        "answered_95": _percentile(answered, 95) * 1000,
    }


async def hanging(pairs: str) -> dict[str, float]:
    """Five chats with and without a sixth whose tool hangs, by turns; new chats each time, so that all are alike."""
    without: list[float] = []
    beside: list[float] = []

    async def phase(life: Live, name: str, times: list[float]) -> None:
        for _ in range(30):
            asked = (life.ask(f"{name}-{chat}", "#1#") for chat in range(5))
            times += [seconds for seconds, _ in await asyncio.gather(*asked)]

    async with live() as life:
        await phase(life, "first", [])
        for number in range(int(pairs)):
            await phase(life, f"without-{number}", without)
            await life.say(f"hung-{number}", "#sleep#")
            await asyncio.sleep(0.5)
            await phase(life, f"beside-{number}", beside)
            await life.say(f"hung-{number}", "/stop")
            _, text = await life.crowd.of(f"hung-{number}").get()
            assert text.startswith("Stopped"), text
    return {
        "without_95": _percentile(without, 95) * 1000,
        "beside_95": _percentile(beside, 95) * 1000,
        "without_50": median(without) * 1000,
        "beside_50": median(beside) * 1000,
    }


async def soak(seconds: str, rate: str) -> list[dict[str, float]]:
    """Messages in 20 chats at a steady rate, each chat beginning anew after ten; how the process is, every ten seconds,
    between two messages."""
    samples: list[dict[str, float]] = []
    async with live() as life:
        began = time.monotonic()
        count = 0
        while (now := time.monotonic() - began) < float(seconds):
            if count // 20 % 10 == 9:  # what stays in a conversation is no leak
                await life.ask(f"chat-{count % 20}", "/new")
            await life.ask(f"chat-{count % 20}", f"#{count}#")
            count += 1
            if now >= 10 * len(samples):
                samples.append({"seconds": now, "messages": count, **state()})
            await asyncio.sleep(max(0.0, began + count / float(rate) - time.monotonic()))
        samples.append({"seconds": now, "messages": count, **state()})
    return samples


async def strangers(count: str) -> list[dict[str, float]]:
    """One message in each of many chats."""
    samples: list[dict[str, float]] = []
    async with live() as life:
        for number in range(int(count) + 1):
            if number % 100 == 0:
                samples.append({"messages": number, **state()})
            await life.ask(f"chat-{number}", f"#{number}#")
            del life.crowd.answers[f"chat-{number}"]
    return samples


def state() -> dict[str, float]:
    """Resident kilobytes, descriptors and tasks of this process."""
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024
    tasks = len(asyncio.all_tasks())
    return {"resident": resident, "descriptors": len(list(Path("/proc/self/fd").iterdir())), "tasks": tasks}


async def writing() -> dict[str, float]:
    """Bytes that one turn of tools writes in a long session, from the message to the answer's delivery."""
    config = configuration.load(os.environ)
    store = open_store(config.home / "state.db")
    await fill(store, "long", LONG_BYTES, 2_000)
    store.close()
    async with live() as life:
        before = written()
        _, answer = await life.ask("long", "#write# #7#")
        await life.app.conversations.idle()
        after = written()
    assert "#7#" in answer and len(list((config.workspace_path / "plans").iterdir())) == TOOLS, answer
    return {name: after[name] - before[name] for name in after}


def written() -> dict[str, float]:
    """Bytes that this process has written so far: to files, and to disks in whole pages."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return {name: float(lines[name]) for name in ("wchar", "write_bytes")}


class SlowDisk(sqlite3.Connection):
    """Takes 100 ms for what it is to keep, and counts that."""

    commits = 0

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and super().execute("PRAGMA synchronous").fetchone() == (2,):
            self.commits += 1
            time.sleep(SLOW_SECONDS)
        return super().execute(sql, *values)


async def slow_disk() -> dict[str, float]:
    """A chat alone on a slow disk, then twenty at once; and the longest time in which nothing else could run."""

    async def tick() -> None:
        nonlocal longest
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.005)
            longest = max(longest, time.monotonic() - began - 0.005)

    longest = 0.0
    async with live() as life:
        store = life.app.store
        await life.app.conversations.idle()
        while life.app.outbox.pending(Crowd.name):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        store.db.close()
        store.db = disk = sqlite3.connect(store.path, isolation_level=None, check_same_thread=False, factory=SlowDisk)
        disk.execute("PRAGMA foreign_keys = ON")
        alone, _ = await life.ask("alone", "#1#")
        await life.app.conversations.idle()
        await asyncio.sleep(3 * SLOW_SECONDS)
        before, disk.commits = disk.commits, 0
        ticking = asyncio.create_task(tick())
        asked = await asyncio.gather(*(life.ask(f"chat-{number}", "#1#") for number in range(20)))
        ticking.cancel()
    return {
        "commits": before,
        "alone": alone,
        "last": max(seconds for seconds, _ in asked),
        "together": disk.commits,
        "stall": longest,
    }


async def large() -> dict[str, float]:
    """A state of many conversations, for others to open."""
    path = configuration.load(os.environ).home / "state.db"
    store = open_store(path)
    store.db.execute("PRAGMA synchronous = OFF")  # only to be filled sooner
    chats = 0
    while path.stat().st_size < LARGE_BYTES:
        await fill(store, f"chat-{chats}", LARGE_BYTES // 100, 10_000)
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        chats += 1
    store.close()
    return {"megabytes": path.stat().st_size / 1e6}


async def opening() -> dict[str, float]:
    path = configuration.load(os.environ).home / "state.db"
    began, cpu = time.monotonic(), time.process_time()
    open_store(path).close()
    return {"wall": time.monotonic() - began, "cpu": time.process_time() - cpu}


async def fill(store: Store, chat: str, size: int, length: int) -> None:
    """Turns as they happen, until their results have so many bytes."""
    address, transactions = Address(Crowd.name, chat), Transactions(store, clock)
    sessions = Sessions(transactions)
    session = sessions.of(address)
    for number in range(size // length):
        said = UserMessage(f"Question {number}: what does the plan say?", clock())
        inbound = Inbound(address, "owner", f"{chat}-{number}", said, role="owner")
        row = await transactions.write(lambda tx, inbound=inbound: tx.deliver(inbound))
        assert row is not None
        messages = (UserMessage(f"[metadata {number}]", clock(), "runtime"), said)
        journal = await TurnJournal(session, sessions.next_turn(), row, "person").begin([row], messages)
        call = ToolCall(f"call_{number}", "read_file", f'{{"path": "plan-{number}.md"}}')
        result = ToolResult(
            call.id, call.name, f"{number} Water the plants. "[:20].ljust(20, ".") * (length // 20), clock()
        )
        await journal.step((AssistantMessage("", clock(), (call,), finish="tool_calls", model=MODEL), result))
        answer = AssistantMessage("It says to water the plants.", clock())
        await journal.change(
            partial(journal.end, ended=Ended("answered", None, answer.text), final=(answer,), model=MODEL)
        )


def _percentile(values: list[float], percent: int) -> float:
    return quantiles(values, n=100)[percent - 1]


# --- the rows ---------------------------------------------------------------------------------------------------------


class Houses:
    """A home for each measurement."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url

    def measure(self, home: str, what: Callable[..., Any], *arguments: object) -> Any:
        """Run one of the measurements above in a process of its own; what it found."""
        env = environment(self._folder / home)
        config = Path(env["NANOCLAW_HOME"]) / "config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(
            f'[model]\nname = "{MODEL}"\napi_base = "{self._url}"\n'
            '[limits]\nexec_seconds = 600\n[heartbeat]\nevery = "0"\n'
        )
        command = [PYTHON, __file__, "--measure", what.__name__, *map(str, arguments)]
        return json.loads(run(command, env).output.splitlines()[-1])


def busy_row(houses: Houses) -> Iterator[Row]:
    found = houses.measure("busy", busy, SECONDS)
    yield (
        f"{CHATS} chats × {MESSAGES} messages in {SECONDS:.0f} s: acknowledged",
        "99 % within 300 ms; each answered once, in order",
        f"99 % within {found['taken_99']:.0f} ms, half within {found['taken_50']:.1f} ms; {found['right']} of {CHATS} "
        f"chats answered once and in order, 95 % within {found['answered_95']:.0f} ms; {found['cpu']:.0f} s CPU",
        "",
    )


def hanging_row(houses: Houses) -> Iterator[Row]:
    found = houses.measure("hanging", hanging, 6)
    yield (
        "answers in five chats while a sixth is in a command of ten minutes",
        "95 % within 1.1 × the time without it",
        f"{found['beside_95'] / found['without_95']:.2f} × (half {found['beside_50'] / found['without_50']:.2f} ×); "
        f"without it {found['without_95']:.0f} ms",
        "",
    )


def large_row(houses: Houses) -> Iterator[Row]:
    size = houses.measure("large", large)["megabytes"]
    found = min((houses.measure("large", opening) for _ in range(3)), key=lambda one: one["wall"])
    measured = f"{found['wall']:.2f} s, {found['cpu']:.2f} s CPU, for {size:.0f} MB"
    yield "a state of 100 MB opens, checked", "< 2 s", measured, ""


def writing_row(houses: Houses) -> Iterator[Row]:
    found = houses.measure("writing", writing)
    yield (
        f"a turn of {TOOLS} `write_file` in a session of 2 MB writes",
        "< 1 MB",
        f"{found['wchar'] / 1e6:.2f} MB, in whole pages {found['write_bytes'] / 1e6:.2f} MB",
        "nanobot 0.3.0: 92 MB",
    )


def slow_disk_row(houses: Houses) -> Iterator[Row]:
    found = houses.measure("slow-disk", slow_disk)
    yield (
        "20 chats at once on a disk that takes 100 ms for each commit",
        "none waits for another's",
        f"the last is answered after {found['last']:.1f} s, one alone after {found['alone']:.1f} s; "
        f"{found['together']:.0f} commits, {found['commits']:.0f} for one alone; "
        f"the loop stood still for {found['stall'] * 1000:.0f} ms at most",
        "",
    )


def strangers_row(houses: Houses) -> Iterator[Row]:
    samples = houses.measure("strangers", strangers, 1000)
    first, last = samples[1], samples[-1]
    each = (last["resident"] - first["resident"]) / (last["messages"] - first["messages"])
    yield (
        f"{last['messages']:,} chats of one message: memory that each keeps",
        "",
        f"{each:.1f} kB; {last['resident'] / 1000:.0f} MB in all; {_flat(samples)}",
        "",
    )


def soak_row(houses: Houses, seconds: float, rate: float) -> Iterator[Row]:
    samples = houses.measure("soak", soak, seconds, rate)
    for sample in samples:
        print(json.dumps(sample), file=sys.stderr)
    first, last = samples[len(samples) // 2], samples[-1]
    grown, count = last["resident"] - first["resident"], last["messages"] - first["messages"]
    yield (
        f"{seconds / 60:.1f} minutes at {rate:.0f} messages a second in 20 chats",
        "memory, descriptors and tasks stay",
        f"{grown / 1000:+.1f} MB over the last {count} messages, {last['resident'] / 1000:.0f} MB in all; "
        f"{_flat(samples)}",
        "",
    )


def _flat(samples: list[dict[str, float]]) -> str:
    first, last = samples[1], samples[-1]
    return ", ".join(f"{what} {first[what]:.0f} → {last[what]:.0f}" for what in ("descriptors", "tasks"))


QUICK = (busy_row, hanging_row, large_row, writing_row, slow_disk_row, strangers_row)
MEASUREMENTS: tuple[Callable[..., Any], ...] = (busy, hanging, soak, strangers, writing, slow_disk, large, opening)


def rows(folder: Path) -> Iterator[Row]:
    """The quick ones."""
    with Echo() as server:
        for row in QUICK:
            yield from row(Houses(folder, server.url))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--soak", type=float, default=0.0, metavar="SECONDS", help="also run for so long")
    parser.add_argument("--rate", type=float, default=4.0, metavar="MESSAGES", help="a second, in the soak")
    parser.add_argument("--only", default="", metavar="WORD", help="only the rows whose function has this word")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        name, *arguments = asked.measure
        what = next(one for one in MEASUREMENTS if one.__name__ == name)
        print(json.dumps(asyncio.run(what(*arguments))))
        return
    with tempfile.TemporaryDirectory() as folder, Echo() as server:
        houses = Houses(Path(folder), server.url)
        wanted: list[Callable[[Houses], Iterator[Row]]] = [row for row in QUICK if asked.only in row.__name__]
        if asked.soak:
            wanted.append(lambda houses: soak_row(houses, asked.soak, asked.rate))
        for row in wanted:
            for found in row(houses):
                print(f"| {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
