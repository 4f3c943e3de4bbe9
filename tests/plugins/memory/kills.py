"""A program that is killed after /new: what was said before is written down once, and told once."""

import asyncio
from datetime import timedelta
from pathlib import Path

from nanoclaw.core.messages import ModelRequest
from nanoclaw.providers.scripted import Answer, Say, call
from tests.kills import Story, Watch, alive, different, is_there
from tests.program import NOON, HandClock, Program

SAID = "We sail to Krakatau on 4 August, and Anna brings the blue tent"
KEPT = "Trip to Krakatau: they sail on 4 August, Anna brings the blue tent"


def keep(*notes: str, facts: tuple[str, ...] = ()) -> Say:
    return call("keep", {"notes": list(notes), "facts": list(facts)})


async def settled(here: Program) -> None:
    """Wait until nothing is asked, or is to be asked by now."""
    flushes = next(one for one in here.app.plugins if one.name == "memory")._flushes  # type: ignore[attr-defined]
    flushes._wake.set()
    is_busy = True
    while is_busy:
        for _ in range(20):
            await asyncio.sleep(0)
        await here.app.conversations.idle()
        is_busy = (
            is_there(here, "SELECT 1 FROM inbox WHERE state <> 'done' AND channel = 'memory'")
            or is_there(here, f"SELECT 1 FROM memory_flushes WHERE due <= {here.clock().timestamp()}")
            or flushes._wake.is_set()
        )


def written(here: Program) -> str:
    """The memory's files."""
    files = [here.workspace / "MEMORY.md", *sorted((here.workspace / "memory").glob("*.md"))]
    return "\n".join(path.read_text() for path in files if path.exists())


def model(request: ModelRequest) -> Answer:
    is_asked_to_keep = any(one.name == "keep" for one in request.tools)
    return keep(KEPT) if is_asked_to_keep else "Lovely."


async def go_on(root: Path, watch: Watch | None) -> None:
    """Say something and begin anew, the first time, which is watched; or go on after it."""
    is_first = not (root / "home").exists()
    async with alive(root, None, model, wakes=True) as here:
        if is_first:
            await here.ask(SAID)
        if watch:
            watch(here.app.store.db)
        if is_first:
            await here.ask("/new")
        await settled(here)


async def broken(root: Path, kills: int) -> list[str]:
    """An hour later: what is cut off twice is asked again after a pause."""
    async with alive(root, None, model, clock=HandClock(NOON + timedelta(hours=1)), wakes=True) as here:
        await settled(here)
        ((begun,),) = here.rows("SELECT context - 1 FROM sessions WHERE key = 'terminal:main'")
        ((told,),) = here.rows("SELECT count(*) FROM outbox WHERE text LIKE 'Of the conversation before%'")
        noted = written(here).count(KEPT)
    return different(noted=(noted, begun), told=(told, begun), begun=(begun, begun if kills else 1))


STORIES = [Story("memory: /new", go_on, broken)]
