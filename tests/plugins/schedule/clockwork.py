"""The program with a schedule that runs on a dial."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.messages import Address
from nanoclaw.core.provider import Provider
from nanoclaw.plugins.schedule import jobs
from nanoclaw.plugins.schedule.job_service import JobRequest, JobService
from nanoclaw.plugins.schedule.jobs import Job, Jobs
from nanoclaw.plugins.schedule.loop import JobLoop
from nanoclaw.plugins.schedule.plugin import Schedule
from tests.dial import Dial
from tests.program import MAIN, Program, running


def job(text: str, due: datetime, **values: Any) -> Job:
    """A reminder for once, unless told otherwise."""
    utc = due.astimezone(UTC)
    made = Job("reminder", text, "as asked", "at", utc.isoformat(), "Europe/Berlin", utc, MAIN, "owner", utc)
    return made._replace(**values)


class Clockwork:
    """The schedule of a program, with what tests do to it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        (self.plugin,) = (one for one in program.app.plugins if isinstance(one, Schedule))

    @property
    def loop(self) -> JobLoop:
        return self.plugin.public.loop

    @property
    def service(self) -> JobService:
        return self.plugin.public

    @property
    def jobs(self) -> Jobs:
        return self.plugin.public.jobs

    def add(self, made: Job) -> Job:
        """Put a job into the store, also one that nobody could ask for."""
        return self.program.app.transactions.write_now(lambda tx: jobs.insert(tx, made))

    def ask_for(self, when: str, text: str, target: Address = MAIN, **asked: Any) -> Job:
        """Ask the job service for a job."""
        request = JobRequest(when, text, **asked)
        return self.program.app.transactions.write_now(lambda tx: self.service.add(tx, request, target, "owner"))[0]

    def remove(self, number: int) -> str:
        return self.program.app.transactions.write_now(lambda tx: self.service.remove(tx, number))

    def sent(self) -> list[str]:
        channel = self.program.channel
        return [channel.sent.get_nowait().text for _ in range(channel.sent.qsize())]

    def occurrences(self) -> list[tuple[str, str]]:
        return self.program.rows("SELECT state, error FROM occurrences ORDER BY id")


@asynccontextmanager
async def ticking(
    root: Path, dial: Dial, *providers: Provider, serves: Callable[[Address], bool] | None = None, **options: Any
) -> AsyncIterator[Clockwork]:
    """A program whose schedule runs on the dial; `serves` tells whose jobs fire."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobLoop, "sleep", staticmethod(dial.sleep))
        patch.setattr(JobLoop, "monotonic", staticmethod(dial.monotonic))
        if serves:
            patch.setattr(JobLoop, "_is_served", lambda loop, target: serves(target))
        async with running(root, *providers, clock=dial, wakes=True, **options) as program:
            yield Clockwork(program)
