"""The loop: wakes when something is due, sends reminders, starts tasks, and says what came late."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from nanoclaw import time_words
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.core.plugin import Host, Tx
from nanoclaw.plugins.schedule import jobs as rows
from nanoclaw.plugins.schedule import reminders, tasks
from nanoclaw.plugins.schedule.jobs import Due, Job, Jobs

LONGEST_SLEEP = 30.0  # seconds between two looks at the clock, which somebody may set
STALE = 90.0  # seconds without a tick after which the loop counts as dead
RESTART = 5.0  # seconds until a loop that died is started again
JUMP = timedelta(seconds=5)
AT_A_STRETCH = 0.05  # seconds of firing after which others have their turn
AT_ONCE = 3  # more reminders than that for one conversation come as one list
MISSED = timedelta(minutes=5)  # so late a repeat counts as missed


class JobLoop:
    """One tick at a time; what it fires is on disk before anybody hears of it."""

    sleep = staticmethod(asyncio.sleep)
    monotonic = staticmethod(time.monotonic)

    def __init__(self, host: Host, jobs: Jobs) -> None:
        self._host, self._jobs = host, jobs
        self._news = asyncio.Event()
        self._seen: tuple[datetime, float] | None = None  # wall and monotonic time of the last tick

    def changed(self) -> None:
        """Something may be due earlier than was thought."""
        self._news.set()

    @property
    def has_unread_news(self) -> bool:
        """True if something has changed in a process in which this never ran."""
        return self._news.is_set() and self._seen is None

    async def run(self) -> None:
        """Run until cancelled. A loop that died or hangs is replaced."""
        self._seen = None
        loop = asyncio.create_task(self._loop())
        try:
            while True:
                watch = asyncio.ensure_future(self.sleep(STALE / 2))
                await asyncio.wait([loop, watch], return_when=asyncio.FIRST_COMPLETED)
                watch.cancel()
                silent_for = self.silent_for or 0.0
                if not loop.done() and silent_for < STALE:
                    continue
                error = loop.exception() if loop.done() and not loop.cancelled() else None
                self._host.log.error("did not tick for {:.0f} s and is started again: {!r}", silent_for, error)
                loop.cancel()
                await asyncio.gather(loop, return_exceptions=True)
                await self.sleep(RESTART)
                loop = asyncio.create_task(self._loop())
        finally:
            self._seen = None
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)

    @property
    def silent_for(self) -> float | None:
        """Seconds since the last tick; None while it does not run."""
        return self.monotonic() - self._seen[1] if self._seen else None

    async def _loop(self) -> None:
        while True:
            self._news.clear()
            now = self._host.now()
            await self._look_for_jump(now)
            await self.tick(now)
            await self._pause(now)

    async def _look_for_jump(self, now: datetime) -> None:
        """Repair repeats after the clock jumped. Skipped times are overdue by themselves; but a jump backward can have
        left repeats that are due at the dates of a clock that was ahead."""
        monotonic, jump = self.monotonic(), timedelta()
        if self._seen:
            jump = (now - self._seen[0]) - timedelta(seconds=monotonic - self._seen[1])
            if abs(jump) > JUMP:
                self._host.log.warning("the clock jumped by {:.0f} s, or the machine slept", jump.total_seconds())
        if self._seen is None or jump < -JUMP:
            for job in self._jobs.all():
                if job.state == "active" and job.schedule != "at" and job.next_due:
                    await self._try(partial(_put_forward, job=job, now=now))
        self._seen = (now.astimezone(UTC), monotonic)

    async def _pause(self, now: datetime) -> None:
        seconds = LONGEST_SLEEP
        if due := self._jobs.next_wake(now):
            seconds = max(0.0, min(seconds, (due - self._host.now()).total_seconds()))
        await _first_of(self.sleep(seconds), self._news.wait())

    async def tick(self, now: datetime) -> None:
        """Fire all that is due. What fails is logged and retried at the next tick."""
        for job, occurrence in self._jobs.broken_off():
            await self._try(partial(tasks.fail, job=job, occurrence=occurrence, reason="It was stopped.", now=now))
        begun = self.monotonic()
        for target in self._jobs.targets(now):
            if self._is_served(target):
                await self._fire(await self._dues(target, now), now)
                begun = await self._share(begun)
        again: dict[Address, list[Due]] = {}
        for due in self._jobs.again(now):
            if self._is_served(due.job.target):
                again.setdefault(due.job.target, []).append(due)
        for dues in again.values():
            await self._fire(dues, now)
            begun = await self._share(begun)

    async def _share(self, begun: float) -> float:
        """Others have their turn now and then; after each firing, many busy chats would make the last one late."""
        if self.monotonic() - begun < AT_A_STRETCH:
            return begun
        await asyncio.sleep(0)
        return self.monotonic()

    async def _try(self, change: Callable[[Tx], object]) -> None:
        """Whatever is wrong with one job keeps no other from firing."""
        try:
            await self._host.write(change)
        except Exception as error:
            text = str(error) if isinstance(error, NanoclawError) else repr(error)
            self._host.log.error("a job could not fire and is tried again: {}", text)

    def _is_served(self, target: Address) -> bool:
        """False if this process has no channel for a conversation, or one that does not answer for it: its jobs stay
        due. Those of a gateway's terminals may wait for somebody who reads."""
        channel = self._host.channel(target.channel)
        return channel is not None and (self._host.serves(target) or channel.serves(Outbound(target, "")))

    # --- firing ------------------------------------------------------------------------------------------------------

    async def _dues(self, target: Address, now: datetime) -> list[Due]:
        """Occurrences of a conversation to fire; of repeats that were missed, those that their jobs allow."""
        dues = []
        for job in self._jobs.due(now, target):
            try:
                due = catch_up(job, now)
            except time_words.TimeWordsError as error:  # a zone that the machine no longer knows
                await self._try(partial(_give_up, job=job, why=str(error)))
                continue
            if job.on_miss == "skip" and due.next_due and now - due.due > MISSED:
                await self._try(partial(rows.miss, due=due, now=now, error="nanoclaw was not running"))
            else:
                dues.append(due)
        return dues

    async def _fire(self, dues: Sequence[Due], now: datetime) -> None:
        dues = [due for due in dues if await self._may_run(due.job)]
        sent = [due for due in dues if due.job.kind == "reminder"]
        for batch in [sent] if len(sent) > AT_ONCE else [[due] for due in sent]:
            await self._try(partial(self._send, dues=batch, now=now))
        for due in dues:
            if due.job.kind == "task":
                await self._try(partial(tasks.begin, due=due, jobs=self._jobs, host=self._host, now=now))

    def _send(self, tx: Tx, dues: Sequence[Due], now: datetime) -> None:
        """Fire reminders of one conversation in one message."""
        is_first = not self._host.read("SELECT 1 FROM occurrences WHERE number IS NOT NULL LIMIT 1")
        fired = [found for due in dues if (found := rows.fire(tx, due, now, is_first=is_first))]
        if not fired:
            return
        firings = [firing for _, firing in fired]
        numbers = ", ".join(str(one.job.id) for one in firings)
        is_late = any(time_words.late(one.late) for one in firings)  # then its text says so
        at = None if is_late else firings[0].due.astimezone(now.tzinfo)
        told = Outbound(dues[0].job.target, reminders.compose(firings), buttons=reminders.buttons(firings), at=at)
        rows.set_message(tx, [row for row, _ in fired], tx.send(told, f"Due: reminder {numbers}."))

    async def _may_run(self, job: Job) -> bool:
        """False for a job of somebody who may not talk to the assistant any more; it is paused."""
        access = self._host.get("access")
        if access is None or access.may_run(job.creator, job.target):
            return True
        self._host.log.warning("{} is paused: {} may not talk to the assistant any more", job.name, job.creator)
        await self._try(partial(rows.set_state, id_=job.id, state="paused", next_due=None))
        return False


def catch_up(job: Job, now: datetime) -> Due:
    """The newest time that is over at which the job was due, and the next one. Raises TimeWordsError."""
    assert job.next_due is not None
    if job.schedule == "at":
        return Due(job, job.next_due)
    reading, due, after = job.reading, job.next_due, now.astimezone(UTC)
    for days in (400, 40, 8, 1, 0.05):  # a short way to the newest one, also where there are thousands
        if after - timedelta(days=days) > due:
            near = time_words.upcoming(reading, after - timedelta(days=days))
            due = near.astimezone(UTC) if near <= after else due
    following = time_words.upcoming(reading, due).astimezone(UTC)
    while following <= after:
        due, following = following, time_words.upcoming(reading, following).astimezone(UTC)
    return Due(job, due, following)


def _give_up(tx: Tx, job: Job, why: str) -> None:
    rows.set_state(tx, job.id, "paused", None)
    text = f"{job.name} can never be due again and is paused: {why}"
    tx.send(Outbound(job.target, text), f"About {job.name.lower()}.")


def _put_forward(tx: Tx, job: Job, now: datetime) -> None:
    due = time_words.upcoming(job.reading, now)
    if job.next_due and job.next_due - due.astimezone(UTC) > JUMP:
        rows.postpone(tx, job.id, due)


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one is over, such as a sleep or an event, and cancel the others."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
