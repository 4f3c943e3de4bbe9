"""A program that is killed while a reminder or a task fires: it is sent once, and remembered once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, timedelta
from functools import partial
from pathlib import Path

import pytest

from nanoclaw.core.messages import AssistantMessage
from nanoclaw.plugins.schedule.jobs import Job
from nanoclaw.plugins.schedule.loop import JobLoop
from tests.kills import Story, Watch, alive, different
from tests.plugins.schedule.clockwork import Clockwork
from tests.program import MAIN, NOON, HandClock

AFTER = NOON + timedelta(minutes=31)
TEXTS = {"once": 1, "repeat": 1, "list": 1, "nag": 2, "task": 1}
"""How many texts the person gets in each."""


def jobs(story: str) -> list[Job]:
    utc = NOON.astimezone(UTC)
    one = Job("reminder", "call Anna", "x", "at", utc.isoformat(), "Europe/Berlin", utc, MAIN, "me", utc)
    match story:
        case "repeat":
            return [one._replace(schedule="every", rule="3600")]
        case "list":
            return [one._replace(text=f"thing {number}") for number in range(5)]
        case "nag":
            return [one._replace(nag_seconds=1800, nag_times=1)]
        case "task":
            return [one._replace(kind="task")]
    return [one]


@asynccontextmanager
async def begun(root: Path, clock: HandClock) -> AsyncIterator[Clockwork]:
    """The program as it works by itself, but for the loop, which ticks by hand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobLoop, "run", lambda loop: asyncio.Event().wait())
        async with alive(root, None, "Two mails.", clock=clock, wakes=True) as program:
            yield Clockwork(program)


async def go_on(kind: str, root: Path, watch: Watch | None) -> None:
    """Fire all that is due, which is watched."""
    clock = HandClock(NOON + timedelta(seconds=1))
    async with begun(root, clock) as home:
        if not home.program.rows("SELECT 1 FROM jobs"):
            for job in jobs(kind):
                home.add(job)
            if kind == "nag":
                await tick(home)
        clock.now = AFTER if kind == "nag" else clock.now
        if watch:
            watch(home.program.app.store.db)
        await tick(home)


async def tick(home: Clockwork) -> None:
    await home.loop.tick(home.program.clock())
    await home.program.app.conversations.idle()
    for _ in range(10):
        await asyncio.sleep(0)


async def broken(kind: str, root: Path, kills: int) -> list[str]:
    """After one more start: what the platform was given, what was delivered, and what the conversation remembers."""
    async with begun(root, HandClock(AFTER)) as home:
        await tick(home)
        program = home.program
        texts = [text for (text,) in program.rows("SELECT text FROM outbox WHERE state = 'delivered' ORDER BY id")]
        said = [message.text for message in program.history if isinstance(message, AssistantMessage)]
        states = {state for (state,) in program.rows("SELECT state FROM occurrences ORDER BY id")}
    keys = {line.partition(" ")[0] for line in (root / "log").read_text().splitlines()}
    # one that was killed twice amid its work tells so, and that it tries again
    want = TEXTS[kind] + (kills > 1 and kind == "task" and any("I was interrupted while" in one for one in texts))
    return different(keys=(len(keys), want), texts=(len(texts), want), said=(said, texts), states=(states, {"sent"}))


STORIES = [Story(f"schedule: {kind}", partial(go_on, kind), partial(broken, kind)) for kind in TEXTS]
