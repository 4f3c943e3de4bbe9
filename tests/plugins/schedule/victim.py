"""A process that kills itself at the n-th SQL statement of a firing, and what is left after the next start."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, timedelta
from pathlib import Path
from random import Random

import pytest

from nanoclaw.core.messages import AssistantMessage, Message, ModelRequest
from nanoclaw.core.plugin import Plugin
from nanoclaw.core.tool import tool
from nanoclaw.plugins.schedule.jobs import Job
from nanoclaw.plugins.schedule.loop import JobLoop
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from tests.kills import dies_at
from tests.kills import killed as dies_in
from tests.plugins.schedule.clockwork import Clockwork
from tests.program import MAIN, NOON, HandClock, LoggingChannel, assert_legal, running, tools_plugin

AFTER = NOON + timedelta(minutes=31)
TASK = "Two mails."


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
async def by_hand(
    root: Path, clock: HandClock, *models: ScriptedProvider, extra: Sequence[type[Plugin]] = ()
) -> AsyncIterator[Clockwork]:
    """The program as it works by itself, but for the loop, which ticks by hand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobLoop, "run", lambda loop: asyncio.Event().wait())
        channel = LoggingChannel(root / "log")
        async with running(root / "home", *models, channel=channel, clock=clock, wakes=True, extra=extra) as program:
            yield Clockwork(program)


async def fire(root: Path, story: str, statement: int | None) -> bool:
    """Start, and fire all that is due; dies at that statement. Whether it came through alive with it."""
    model = ScriptedProvider(*[TASK] * 3)
    clock = HandClock(NOON + timedelta(seconds=1))
    async with by_hand(root, clock, model) as home:
        program = home.program
        if not program.rows("SELECT 1 FROM jobs"):
            for job in jobs(story):
                home.add(job)
            if story == "nag":
                await tick(home)
        clock.now = AFTER if story == "nag" else clock.now
        program.app.store.db.set_trace_callback(dies_at(statement))
        await tick(home)
        program.app.store.db.set_trace_callback(None)
    return True


async def tick(home: Clockwork) -> None:
    await home.loop.tick(home.program.clock())
    await home.program.app.conversations.idle()
    for _ in range(10):
        await asyncio.sleep(0)


def killed(root: Path, story: str, statement: int) -> bool:
    """Whether the process died there."""
    return dies_in(fire(root, story, statement))


async def left(root: Path) -> tuple[list[str], list[str], list[str], list[str]]:
    """After one more start: keys that the platform was given, texts in the outbox, what the conversation remembers, and
    the states of the occurrences."""
    clock = HandClock(AFTER)
    async with by_hand(root, clock) as home:
        await tick(home)
        program = home.program
        assert_legal(program.history)
        keys = sorted({line.partition(" ")[0] for line in (root / "log").read_text().splitlines()})
        texts = [text for (text,) in program.rows("SELECT text FROM outbox WHERE state = 'delivered' ORDER BY id")]
        said = [message.text for message in program.history if isinstance(message, AssistantMessage)]
        states = [state for (state,) in program.rows("SELECT state FROM occurrences ORDER BY id")]
        return keys, texts, said, states


def killed_in_a_turn(root: Path, *, fires: bool) -> bool:
    """A process that dies while the model is asked; a reminder has come due by then."""

    async def live() -> None:
        hang, clock = Hang("I look"), HandClock(NOON - timedelta(seconds=1))
        async with by_hand(root, clock, ScriptedProvider(hang)) as home:
            home.add(jobs("once")[0])
            await home.program.say("What is on my list?")
            await hang.reached.wait()
            if fires:
                clock.now = NOON + timedelta(seconds=1)
                await home.loop.tick(clock.now)
                await home.program.answer()
            os.kill(os.getpid(), signal.SIGKILL)

    return dies_in(live())


async def resumed(root: Path, *, fires: bool) -> tuple[list[str], list[str], list[str]]:
    """After the next start, which goes on with the turn: what the person said as the model reads it, what the
    conversation remembers, and what the platform was given."""
    asked = list[str]()
    reached, goes_on = asyncio.Event(), asyncio.Event()

    async def look() -> str:
        """Looks."""
        reached.set()
        await goes_on.wait()
        return "milk"

    def answer(request: ModelRequest) -> str:
        asked.extend(_said(request.history))
        return "Milk."

    model = ScriptedProvider(call("look"), answer)
    async with by_hand(root, HandClock(NOON + timedelta(seconds=2)), model, extra=[tools_plugin(tool(look))]) as home:
        await reached.wait()
        if fires:
            await home.loop.tick(home.program.clock())
            await home.program.answer()
        goes_on.set()
        await home.program.app.conversations.idle()
        for _ in range(10):
            await asyncio.sleep(0)
        assert_legal(home.program.history)
        sent = [text for (text,) in home.program.rows("SELECT text FROM outbox ORDER BY id")]
        said = [text.partition("\n")[0] for text in _said(home.program.history) if text]
        return asked, said, sent


def _said(history: Iterable[Message]) -> list[str]:
    """Without the metadata, and calls without words."""
    spoken = [one for one in history if isinstance(one, AssistantMessage) or getattr(one, "origin", "") == "person"]
    return [one.text for one in spoken if one.text]


STORIES = {"once": 1, "repeat": 1, "list": 1, "nag": 2, "task": 1}
"""How many texts the person gets in each."""


def main() -> int:
    """Kill firings of each story at each statement, and again at a random one of the next start; print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.plugins.schedule.victim", description=main.__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random, kills, lost, doubled = Random(given.seed), 0, 0, 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        while kills < given.kills:
            for story, texts in STORIES.items():
                died, statement = True, 0
                while died and kills < given.kills:
                    root = Path(tempfile.mkdtemp(dir=folder))
                    died = killed(root, story, statement)
                    kills += died
                    kills += died and killed(root, story, random.randrange(2 * statement + 4))
                    asyncio.run(fire(root, story, None))
                    keys, sent, said, _ = asyncio.run(left(root))
                    lost += len(sent) < texts or len(said) < texts
                    doubled += len(keys) > texts or len(sent) > texts or len(said) > texts
                    shutil.rmtree(root)
                    statement += 1
    print(f"firings killed {kills} times: {lost} lost, {doubled} doubled")
    return 1 if lost or doubled else 0


if __name__ == "__main__":
    sys.exit(main())
