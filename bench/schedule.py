"""CPU time of the schedule with 10,000 jobs, and how late reminders are beside busy chats: python bench/schedule.py"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from nanoclaw.core.app import App
from nanoclaw.core.channel import Hints
from nanoclaw.core.events import Event
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.plugins.schedule.jobs import Job, insert, stamp
from nanoclaw.plugins.schedule.loop import JobLoop
from nanoclaw.plugins.schedule.plugin import Schedule
from nanoclaw.start import config as configuration
from nanoclaw.start.build import build

JOBS, TICKS = 10_000, 200
CHATS, REMINDERS = 50, 200
HERE = Address("terminal", "main")


class Anywhere:
    """A channel that takes everything at once."""

    name, hints, alive = "terminal", Hints(), None

    async def run(self, deliver: Any) -> None:
        await asyncio.Event().wait()

    def serves(self, outbound: Outbound) -> bool:
        return True

    async def send(self, outbound: Outbound) -> str:
        return "1"

    def show(self, address: Address, event: Event) -> None:
        pass


@asynccontextmanager
async def program(folder: Path) -> AsyncIterator[tuple[App, JobLoop]]:
    home = configuration.load({**os.environ, "NANOCLAW_HOME": str(folder)})
    app = build(home, provider=[], channels=[Anywhere()], plugins=["schedule"])
    try:
        (plugin,) = (one for one in app.plugins if isinstance(one, Schedule))
        yield app, plugin._loop
    finally:
        await app.aclose()


def now() -> datetime:
    return datetime.now(UTC)


def add(app: App, due: datetime, number: int, target: Address = HERE) -> None:
    job = Job("reminder", f"thing {number}", "x", "at", stamp(due), "UTC", due, target, "owner", due)
    app.transactions.write_now(lambda tx: insert(tx, job))


async def ticks(app: App, loop: JobLoop) -> tuple[float, float]:
    """Milliseconds of CPU of a look at the clock when nothing is due, and of one that fires a reminder."""
    begun = time.process_time()
    for _ in range(TICKS):
        await loop.tick(now())
        loop._jobs.next_wake(now())
    idle = (time.process_time() - begun) / TICKS
    spent = []
    for number in range(TICKS):
        add(app, now(), number)
        begun = time.process_time()
        await loop.tick(now() + timedelta(seconds=1))
        loop._jobs.next_wake(now())
        spent.append(time.process_time() - begun)
    return idle * 1000, statistics.median(spent) * 1000


async def lateness(app: App, loop: JobLoop) -> list[float]:
    """Seconds from due to committed, while every chat writes a step of a turn again and again."""

    async def chat(number: int) -> None:
        session = app.sessions.of(Address("busy", str(number)))
        while True:
            session.keep_snapshot("x" * 2000 + str(time.monotonic()))
            sum(index * index for index in range(20_000))  # what building a prompt may take
            await asyncio.sleep(0.5)  # a step of a turn

    begin = now() + timedelta(seconds=2)
    for number in range(REMINDERS):
        add(
            app,
            (begin + timedelta(seconds=number % 10)).replace(microsecond=0),
            number,
            Address("terminal", str(number)),
        )
    sql = (
        "SELECT occurrences.due, outbox.due FROM occurrences JOIN outbox ON outbox.id = outbox"
        " JOIN jobs ON jobs.id = job WHERE jobs.chat <> 'main'"
    )
    tasks = [asyncio.create_task(chat(number)) for number in range(CHATS)]
    tasks.append(asyncio.create_task(loop.run()))
    while len(sent := app.store.rows(sql)) < REMINDERS:  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    times = [tuple(map(datetime.fromisoformat, row)) for row in sent]
    return sorted((at - due).total_seconds() for due, at in times)


async def measured(folder: Path) -> None:
    async with program(folder) as (app, loop):
        app.store.db.execute("PRAGMA synchronous = OFF")
        for number in range(JOBS):
            add(app, now() + timedelta(days=1, seconds=number), number)
        app.store.db.execute("PRAGMA synchronous = FULL")
        idle, firing = await ticks(app, loop)
        print(f"{JOBS:,} jobs: a look at the clock {idle:.3f} ms of CPU, a firing {firing:.2f} ms")
        late = await lateness(app, loop)
        print(
            f"{REMINDERS} reminders, {CHATS} busy chats: late by {statistics.median(late):.3f} s in the middle, "
            f"{late[int(len(late) * 0.99)]:.3f} s at the 99th percentile"
        )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measured(Path(folder)))


if __name__ == "__main__":
    main()
