"""CPU time of the schedule with 10,000 jobs, and how late reminders are beside busy chats: python bench/schedule.py"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from nanoclaw.core.messages import Address, UserMessage
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.sessions import Sessions
from nanoclaw.plugins.schedule.jobs import Job, Jobs, stamp
from nanoclaw.plugins.schedule.schedule import Schedule

JOBS, TICKS = 10_000, 200
CHATS, REMINDERS = 50, 200
HERE = Address("terminal", "main")


def now() -> datetime:
    return datetime.now(UTC)


def reminder(due: datetime, number: int, target: Address = HERE) -> Job:
    return Job("reminder", f"thing {number}", "x", "at", stamp(due), "UTC", due, target, "me", due)


def made(store: Store) -> tuple[Jobs, Schedule]:
    jobs = Jobs(store, Sessions(store, now), now)
    schedule = Schedule(
        jobs,
        clock=now,
        remark=lambda text: UserMessage(text, now(), "runtime"),
        start=lambda row, inbound: None,
        wake=lambda channel: None,
    )
    return jobs, schedule


def fill(jobs: Jobs, store: Store) -> None:
    store.db.execute("PRAGMA synchronous = OFF")
    for number in range(JOBS):
        jobs.add(reminder(now() + timedelta(days=1, seconds=number), number))
    store.db.execute("PRAGMA synchronous = FULL")


async def ticks(jobs: Jobs, schedule: Schedule) -> tuple[float, float]:
    """Milliseconds of CPU of a look at the clock when nothing is due, and of one that fires a reminder."""
    begun = time.process_time()
    for _ in range(TICKS):
        await schedule.tick(now())
        jobs.next_wake(now())
    idle = (time.process_time() - begun) / TICKS
    spent = []
    for number in range(TICKS):
        jobs.add(reminder(now(), number))
        begun = time.process_time()
        await schedule.tick(now() + timedelta(seconds=1))
        jobs.next_wake(now())
        spent.append(time.process_time() - begun)
    return idle * 1000, statistics.median(spent) * 1000


async def lateness(jobs: Jobs, schedule: Schedule, store: Store) -> list[float]:
    """Seconds from due to committed, while every chat writes a step of a turn again and again."""
    sessions = Sessions(store, now)

    async def chat(number: int) -> None:
        session = sessions.of(Address("busy", str(number)))
        while True:
            with store.transaction() as db:
                db.execute("UPDATE sessions SET memory = ? WHERE key = ?", ("x" * 2000, session.key))
            sum(index * index for index in range(20_000))  # what building a prompt may take
            await asyncio.sleep(0.5)  # a step of a turn

    late: list[float] = []
    send = jobs.send

    def sent(dues, *how):  # type: ignore[no-untyped-def]
        done = send(dues, *how)
        late.append((now() - dues[0].due).total_seconds())
        return done

    jobs.send = sent  # type: ignore[method-assign]
    begin = now() + timedelta(seconds=2)
    for number in range(REMINDERS):
        due = (begin + timedelta(seconds=number % 10)).replace(microsecond=0)
        jobs.add(reminder(due, number, Address("terminal", str(number))))
    tasks = [asyncio.create_task(chat(number)) for number in range(CHATS)]
    tasks.append(asyncio.create_task(schedule.run()))
    while len(late) < REMINDERS:  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return sorted(late)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "state.db")
        jobs, schedule = made(store)
        fill(jobs, store)
        idle, firing = asyncio.run(ticks(jobs, schedule))
        print(f"{JOBS:,} jobs: a look at the clock {idle:.3f} ms of CPU, a firing {firing:.2f} ms")
        late = asyncio.run(lateness(*made(store), store))
        print(
            f"{REMINDERS} reminders, {CHATS} busy chats: late by {statistics.median(late):.3f} s in the middle, "
            f"{late[int(len(late) * 0.99)]:.3f} s at the 99th percentile"
        )
        store.close()


if __name__ == "__main__":
    main()
