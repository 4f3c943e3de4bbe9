"""The schedule: wakes when something is due, sends reminders, starts tasks, and says what came late."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from nanoclaw import time_words as words
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.events import TurnEnded
from nanoclaw.core.messages import Address, Inbound, Message
from nanoclaw.core.silence_token import spoken
from nanoclaw.core.store.inbox import Ending
from nanoclaw.plugins.schedule import reminders
from nanoclaw.plugins.schedule.jobs import Due, Firing, Job, Jobs, JobState, Occurrence
from nanoclaw.plugins.schedule.reminders import Remark

LONGEST_SLEEP = 30.0
"""Seconds between two looks at the clock, which somebody may set."""
STALE = 90.0
"""Seconds without a tick after which the loop counts as dead."""
RESTART = 5.0
"""Seconds until a loop that died is started again."""
JUMP = timedelta(seconds=5)

AT_A_STRETCH = 0.05
"""Seconds of firing after which others have their turn."""

AT_ONCE = 3
"""More reminders than that for one conversation come as one list."""
MISSED = timedelta(minutes=5)
"""So late a repeat counts as missed."""

BACK_OFF = tuple(timedelta(seconds=seconds) for seconds in (30, 60, 300, 900, 3600))
"""Pauses after the first, second … failure of a task in a row; the last one from then on."""
TELL_AT, PAUSE_AT = 2, 10


class Schedule:
    """One tick at a time; what it fires is on disk before anybody hears of it."""

    def __init__(
        self,
        jobs: Jobs,
        *,
        clock: Callable[[], datetime],
        remark: Remark,
        start: Callable[[int, Inbound], None],
        wake: Callable[[str], None],
        is_frozen: Callable[[], bool] = lambda: False,
        is_served: Callable[[Address], bool] = lambda address: True,
        may_run: Callable[[Job], bool] = lambda job: True,
        ticked: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`start(row, inbound)` has the assistant answer a message that is in the inbox; `wake(channel)` tells delivery
        of a new row. Jobs whose target is not served stay due, and those that may not run any more are paused.
        `ticked` is called at each tick."""
        self._jobs, self._clock, self._remark = jobs, clock, remark
        self._start, self._wake, self._ticked = start, wake, ticked
        self._is_frozen, self._is_served, self._may_run = is_frozen, is_served, may_run
        self._sleep, self._monotonic = sleep, monotonic
        self._news = asyncio.Event()
        self._seen: tuple[datetime, float] | None = None  # wall and monotonic time of the last tick

    def changed(self) -> None:
        """Something may be due earlier than was thought, or nothing is frozen any more."""
        self._news.set()

    # --- the loop ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled. A loop that died or hangs is replaced."""
        loop = asyncio.create_task(self._loop())
        try:
            while True:
                watch = asyncio.ensure_future(self._sleep(STALE / 2))
                await asyncio.wait([loop, watch], return_when=asyncio.FIRST_COMPLETED)
                watch.cancel()
                if not loop.done() and self.silent_for < STALE:
                    continue
                _log_death(loop, self.silent_for)
                loop.cancel()
                await asyncio.gather(loop, return_exceptions=True)
                await self._sleep(RESTART)
                loop = asyncio.create_task(self._loop())
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)

    @property
    def silent_for(self) -> float:
        """Seconds since the last tick."""
        return self._monotonic() - self._seen[1] if self._seen else 0.0

    async def _loop(self) -> None:
        while True:
            self._news.clear()
            now = self._clock()
            self._look_for_jump(now)
            await self.tick(now)
            await self._pause(now)

    def _look_for_jump(self, now: datetime) -> None:
        """What a jump forward skipped is overdue by itself, and what one backward repeats has fired; but it can have
        left repeats that are due at the dates of a clock that was ahead."""
        monotonic, jump = self._monotonic(), timedelta()
        if self._seen:
            jump = (now - self._seen[0]) - timedelta(seconds=monotonic - self._seen[1])
            if abs(jump) > JUMP:
                from nanoclaw.core.log import logger

                logger.warning("the clock jumped by {:.0f} s, or the machine slept", jump.total_seconds())
        if self._seen is None or jump < -JUMP:
            self._try(partial(self._put_forward, now))
        self._seen = (now.astimezone(UTC), monotonic)

    def _put_forward(self, now: datetime) -> None:
        for job in self._jobs.all():
            if job.state == "active" and job.schedule != "at" and job.next_due:
                due = words.upcoming(reading_of(job), now)
                if job.next_due - due.astimezone(UTC) > JUMP:
                    self._jobs.put_forward(job.id, due)

    async def _pause(self, now: datetime) -> None:
        seconds = LONGEST_SLEEP
        if not self._is_frozen() and (due := self._jobs.next_wake(now)):
            seconds = max(0.0, min(seconds, (due - self._clock()).total_seconds()))
        sleeping = asyncio.ensure_future(self._sleep(seconds))
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait([sleeping, news], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            news.cancel()

    async def tick(self, now: datetime) -> None:
        """Fire all that is due. What fails is logged and tried again at the next tick."""
        self._ticked()
        if self._is_frozen():
            return
        for job, occurrence in self._jobs.broken_off():
            self._jobs.end(self._failed(job, occurrence, "It was stopped.", is_final=True))
            self._wake(job.target.channel)
        begun = self._monotonic()
        for target in self._jobs.targets(now):
            if self._is_served(target):
                self._try(partial(self._fire_for, target, now))
                begun = await self._share(begun)
        again: dict[Address, list[Due]] = {}
        for occurrence, job in self._jobs.again(now):
            if self._is_served(job.target) and not self._is_over(job):
                again.setdefault(job.target, []).append(Due(job, occurrence.due, occurrence=occurrence))
        for dues in again.values():
            self._try(partial(self._fire, dues))
            begun = await self._share(begun)

    async def _share(self, begun: float) -> float:
        """Others have their turn now and then; after each firing, many busy chats would make the last one late."""
        if self._monotonic() - begun < AT_A_STRETCH:
            return begun
        await asyncio.sleep(0)
        return self._monotonic()

    def _try(self, work: Callable[[], None]) -> None:
        """Whatever is wrong with one job keeps no other from firing."""
        try:
            work()
        except Exception as error:
            from nanoclaw.core.log import logger

            known = isinstance(error, NanoclawError)
            logger.opt(exception=not known).error("a job could not fire and is tried again: {}", error)

    # --- firing ------------------------------------------------------------------------------------------------------

    def _dues(self, target: Address, now: datetime) -> list[Due]:
        """What fires for a conversation; repeats that were missed are noted, or fire once, as their jobs say."""
        dues = []
        for job in self._jobs.due(now, target):
            if self._is_over(job):
                continue
            try:
                due = catch_up(job, now)
            except words.TimeWordsError as error:  # a zone that the machine no longer knows
                self._jobs.set_state(job.id, "paused", None)
                self._say(job, f"{_name(job)} cannot be due any more and is paused: {error}")
                continue
            if job.on_miss == "skip" and due.next_due and now - due.due > MISSED:
                self._jobs.miss(due, "nanoclaw was not running")
            else:
                dues.append(due)
        return dues

    def _is_over(self, job: Job) -> bool:
        """Whether a job is paused here, as whoever made it may not talk to the assistant any more."""
        if self._may_run(job):
            return False
        from nanoclaw.core.log import logger

        logger.warning("{} is paused: {} may not talk to the assistant any more", _name(job), job.creator)
        self._jobs.set_state(job.id, "paused", None)
        return True

    def _fire_for(self, target: Address, now: datetime) -> None:
        self._fire(self._dues(target, now))

    def _fire(self, dues: Sequence[Due]) -> None:
        sent = [due for due in dues if due.job.kind == "reminder"]
        for batch in [sent] if len(sent) > AT_ONCE else [[due] for due in sent]:
            if self._jobs.send(batch, reminders.compose, self._introduce, reminders.press):
                self._wake(batch[0].job.target.channel)
        for due in dues:
            if due.job.kind == "task":
                self._begin(due)

    def _begin(self, due: Due) -> None:
        """Start a task, unless the one before still runs or it has to wait after a failure."""
        job = due.job
        if due.occurrence is None:
            if self._jobs.is_running(job.id):
                self._jobs.miss(due, "the one before was still running")
                return
            last = self._jobs.last_try(job.id) if job.failures else None
            if last and due.due < last + _pause_after(job.failures):
                self._jobs.miss(due, f"it waits after {job.failures} failures")
                return
        late = self._clock() - due.due
        if claimed := self._jobs.claim(due, prompt(job, due.due, late)):
            self._start(*claimed)

    def _introduce(self, firings: Sequence[Firing], text: str) -> Sequence[Message]:
        numbers = ", ".join(str(one.job.id) for one in firings)
        return reminders.introduce(self._remark, self._clock, f"Due: reminder {numbers}.", text)

    def _say(self, job: Job, text: str) -> None:
        self._jobs.say(job, text, reminders.introduce(self._remark, self._clock, f"About job {job.id}.", text))
        self._wake(job.target.channel)

    # --- how a task ends ---------------------------------------------------------------------------------------------

    def ending(self, inbound: Inbound, ended: TurnEnded, touched: bool) -> Ending | None:
        """What becomes of a task whose turn has ended; `touched` when it may have changed more than the workspace.

        None for a message that is no task.
        """
        if inbound.message.origin != "job":
            return None
        found = self._jobs.running(inbound)
        if found is None:
            return Ending()
        job, occurrence = found
        if ended.reason != "answered":
            reason = "It was stopped." if ended.reason == "cancelled" else ended.answer
            return self._failed(job, occurrence, reason, is_final=touched or ended.reason != "failed")
        said, lateness = spoken(ended.answer), _was_due(job, occurrence)
        text, files = f"{said}\n({lateness})" if said and lateness else said, ended.files
        state: JobState = "active" if job.next_due else "done"
        return self._ended(job, occurrence, "", None, state, [text] if text or files else [], files)

    def _failed(self, job: Job, occurrence: Occurrence, reason: str, *, is_final: bool) -> Ending:
        """The person gets the task's text and the reason at the first time in a row; then one word at the second, and
        one when it is paused. `is_final`: it is not tried again before its next time."""
        failures = job.failures + 1
        again = None if is_final or failures >= PAUSE_AT else self._clock() + _pause_after(failures)
        state: JobState = "active" if again or job.next_due else "done"
        texts = []
        if failures >= PAUSE_AT:
            state = "paused"
            texts = [f"{_name(job)} has failed {failures} times and is paused. {reason} /cron resume {job.id} goes on."]
        elif failures == 1:
            then = f" I try again in {_pause_after(1).seconds} s." if again else ""
            texts = [f"{_name(job)} did not work. {reason}{then}\nIt was: {job.text}"]
        elif failures == TELL_AT:
            texts = [f"{_name(job)} failed again. {reason} I go on trying, at longer and longer intervals."]
        return self._ended(job, occurrence, reason, again, state, texts)

    def _ended(
        self,
        job: Job,
        occurrence: Occurrence,
        error: str,
        again: datetime | None,
        state: JobState,
        texts: Iterable[str],
        files: tuple[str, ...] = (),
    ) -> Ending:
        def introduce(text: str) -> Sequence[Message]:
            said = text or f"({len(files)} file{'s' if len(files) > 1 else ''} without words)"
            return reminders.introduce(self._remark, self._clock, f"From task {job.id} ({job.text[:80]}).", said)

        ending = self._jobs.ending(job, occurrence, error, again, state, list(texts), introduce, files)

        def after() -> None:
            ending.after()
            self._wake(job.target.channel)
            self.changed()

        return Ending(write=ending.write, after=after)


def catch_up(job: Job, now: datetime) -> Due:
    """The newest time that is over at which the job was due, and the next one. Raises TimeWordsError."""
    assert job.next_due is not None
    if job.schedule == "at":
        return Due(job, job.next_due)
    reading = reading_of(job)
    due, after = job.next_due, now.astimezone(UTC)
    for days in (400, 40, 8, 1, 0.05):  # a short way to the newest one, also where there are thousands
        if after - timedelta(days=days) > due:
            near = words.upcoming(reading, after - timedelta(days=days))
            due = near.astimezone(UTC) if near <= after else due
    following = words.upcoming(reading, due).astimezone(UTC)
    while following <= after:
        due, following = following, words.upcoming(reading, following).astimezone(UTC)
    return Due(job, due, following)


def reading_of(job: Job) -> words.Reading:
    """When the job is due, as words were read. Times are in UTC, so that differences are true ones."""
    if job.schedule == "at":
        return words.At(datetime.fromisoformat(job.rule))
    if job.schedule == "every":
        anchor = job.anchor.astimezone(UTC)
        if job.rule.endswith("d"):
            return words.Every(int(job.rule[:-1]) * words.DAY, anchor, zone=job.zone)
        return words.Every(int(job.rule), anchor)
    return words.Cron(job.rule, job.zone)


def prompt(job: Job, due: datetime, late: timedelta) -> str:
    """What the model is told when a task is due."""
    lateness = reminders.was_due(due, late, job.zone)
    return (
        f"[CRON:{job.id}] {job.text}\n\n(A task that the person asked for earlier"
        f"{'; it ' + lateness if lateness else ''}. Nobody is there to answer questions; your answer is sent to the "
        "person. With nothing to say, answer NO_REPLY.)"
    )


def _pause_after(failures: int) -> timedelta:
    return BACK_OFF[min(failures, len(BACK_OFF)) - 1]


def _was_due(job: Job, occurrence: Occurrence) -> str:
    return reminders.was_due(occurrence.due, timedelta(seconds=occurrence.late), job.zone)


def _name(job: Job) -> str:
    return f"{job.kind.capitalize()} {job.id}"


def _log_death(loop: asyncio.Task[None], silent_for: float) -> None:
    from nanoclaw.core.log import logger

    error = loop.exception() if loop.done() and not loop.cancelled() else None
    logger.opt(exception=error).error("the schedule did not tick for {:.0f} s and is started again", silent_for)
