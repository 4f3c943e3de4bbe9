"""A program that kills itself at the n-th SQL statement after /new, and what is left after the next start."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from random import Random

from nanoclaw.providers.scripted import ScriptedProvider, Step, call
from tests.kills import dies_at, killed
from tests.program import NOON, HandClock, LoggingChannel, Program, running

SAID = "We sail to Krakatau on 4 August, and Anna brings the blue tent"
KEPT = "Trip to Krakatau: they sail on 4 August, Anna brings the blue tent"


def keep(*notes: str, facts: tuple[str, ...] = ()) -> Step:
    return call("keep", {"notes": list(notes), "facts": list(facts)})


async def settled(here: Program) -> None:
    """Wait until nothing is asked, or is to be asked by now."""
    flushes = next(one for one in here.app.plugins if one.name == "memory")._flushes()  # type: ignore[attr-defined]
    flushes._wake.set()
    is_busy = True
    while is_busy:
        for _ in range(20):
            await asyncio.sleep(0)
        await here.app.conversations.idle()
        due = "SELECT 1 FROM memory_flushes WHERE due <= ?"
        is_busy = bool(
            here.rows("SELECT 1 FROM inbox WHERE state <> 'done' AND channel = 'memory'")
            or here.rows(due, here.clock().timestamp())
            or flushes._wake.is_set()
        )


def written(here: Program) -> str:
    """The memory's files."""
    files = [here.workspace / "MEMORY.md", *sorted((here.workspace / "memory").glob("*.md"))]
    return "\n".join(path.read_text() for path in files if path.exists())


async def begin_anew(root: Path, statement: int | None, *, is_first: bool = False) -> None:
    """Say something and begin anew, the first time; dies at that statement after it."""
    model = ScriptedProvider(*["Lovely."] * is_first, keep(KEPT), keep(KEPT))
    async with running(root / "home", model, channel=LoggingChannel(root / "log"), wakes=True) as here:
        if is_first:
            await here.ask(SAID)
        here.app.store.db.set_trace_callback(dies_at(statement))
        if is_first:
            await here.ask("/new")
        await settled(here)
        here.app.store.db.set_trace_callback(None)


async def left(root: Path) -> tuple[int, int, int]:
    """An hour later: how often a new context was begun, it was noted, and that was told. What is cut off twice is
    asked again after a pause."""
    clock = HandClock(NOON + timedelta(hours=1))
    async with running(root / "home", ScriptedProvider(keep(KEPT)), clock=clock, wakes=True) as here:
        await settled(here)
        ((begun,),) = here.rows("SELECT context - 1 FROM sessions WHERE key = 'terminal:main'")
        ((told,),) = here.rows("SELECT count(*) FROM outbox WHERE text LIKE 'Of the conversation before%'")
        return begun, written(here).count(KEPT), told


def main() -> int:
    """Kill the program at each statement after /new, and again at a random one of the next start; print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.plugins.memory.flush_victim", description=main.__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random, kills, lost, doubled = Random(given.seed), 0, 0, 0
    died, statement = True, 0
    while kills < given.kills:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            root = Path(folder)
            died = killed(begin_anew(root, statement, is_first=True))
            kills += died
            kills += died and killed(begin_anew(root, random.randrange(2 * statement + 4)))
            asyncio.run(begin_anew(root, None))
            begun, noted, told = asyncio.run(left(root))
            lost += noted < begun or told < begun
            doubled += noted > begun or told > begun
            statement = statement + 1 if died else 0
    print(f"killed {kills} times after /new: {lost} lost, {doubled} doubled")
    return 1 if lost or doubled else 0


if __name__ == "__main__":
    sys.exit(main())
