"""A program that kills itself at the n-th SQL statement of a plan and a list, and what the next starts make of it."""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from nanoclaw.core.messages import AssistantMessage, ModelRequest, ToolResult
from nanoclaw.core.provider import OnEvent
from nanoclaw.core.tool import Tool, tool
from nanoclaw.plugins.plan.plugin import APPROVED, IN_WORDS, REJECTED
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.kills import dies_at, swept
from tests.plugins.question.victim import busy, say
from tests.program import LoggingChannel, Program, assert_legal, results, running, tools_plugin

WORDS = "yes, but blue"
STAYS = "stays on"
STORIES = {"yes": (APPROVED,), "no": (REJECTED.format(STAYS),), "words": (IN_WORDS.format(WORDS, STAYS), APPROVED)}
"""What each plan came to: approved, rejected, changed by the person's words and then approved."""

STEPS = ["Buy the paint", "Paint the door"]


class Planning:
    """A model that acts too early, keeps a list, presents its plan and carries it out. Its answers follow from what it
    is asked alone."""

    model, supports_vision = "scripted/model", True

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        done = [one for one in request.history if isinstance(one, ToolResult)]
        return await ScriptedProvider(self._step(done)).complete(request, on_event)

    def _step(self, done: list[ToolResult]) -> Say | str:
        plans = [at for at, one in enumerate(done) if one.name == "exit_plan_mode"]
        last = done[plans[-1]].text if plans else ""
        if not done:
            return call("stamp")
        if not any(one.text.startswith("0 of 2 done") for one in done):
            return call("todo", {"steps": STEPS, "doing": 1})
        if last == REJECTED.format(STAYS):
            return "What else?"
        if last != APPROVED:
            return call("exit_plan_mode", {"plan": f"Paint it, plan {len(plans) + 1}"})
        if done[-1].name == "exit_plan_mode":
            return call("stamp")
        return "Which one next?" if done[-1].name == "todo" else call("todo", {"done": [1], "doing": 2})

    async def aclose(self) -> None:
        pass


class Left(NamedTuple):
    """The results of the plans, how often each was shown at the most, how often something was done before a yes and
    after it, and the list as it stands."""

    plans: tuple[str, ...]
    shown: int
    early: int
    ran: int
    steps: tuple[str, ...]


@asynccontextmanager
async def program_of(root: Path) -> AsyncIterator[Program]:
    channel, brought = LoggingChannel(root / "log"), tools_plugin(stamp(root))
    async with running(root / "home", Planning(), channel=channel, extra=[brought]) as program:
        yield program


def stamp(root: Path) -> Tool:
    async def stamp() -> str:
        """Leaves a mark, which says whether it was too early."""
        with closing(sqlite3.connect(root / "home" / "state.db")) as db:
            ((is_on,),) = db.execute("SELECT is_on FROM plan_modes").fetchall()
        with (root / "stamps").open("a") as file:
            file.write("early\n" if is_on else "right\n")
        return "stamped"

    return tool(stamp)


async def go_on(story: str, root: Path, statement: int | None) -> None:
    """Go on with what is there, or have it begun; die at that statement."""
    async with program_of(root) as program:
        program.app.store.db.set_trace_callback(dies_at(statement))
        await say(program, "1", "/plan Paint the door")
        for number, words in enumerate((WORDS, "Approve") if story == "words" else (story,), 1):
            while not program.app.asks.open() and busy(program):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            if len(program.rows("SELECT 1 FROM asks")) >= number:  # else the turn was cut off twice before it
                await say(program, f"answer {number}", words)
        while busy(program):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await program.app.conversations.idle()
        await program.app.delivery.flush("terminal")
        program.app.store.db.set_trace_callback(None)


async def left(root: Path) -> Left:
    """The state after one more start."""
    async with program_of(root) as program:
        await program.app.conversations.idle()
        assert_legal(program.history)
        plans = tuple(one.text for one in results(program.history) if one.name == "exit_plan_mode")
        steps = tuple(state for (state,) in program.rows("SELECT state FROM todo_steps ORDER BY number"))
    lines = {line.partition(" ")[0]: line.partition(" ")[2] for line in (root / "log").read_text().splitlines()}
    shown = [sum(f"Paint it, plan {number}" in text for text in lines.values()) for number in (1, 2)]
    stamps = (root / "stamps").read_text().split() if (root / "stamps").exists() else []
    return Left(plans, max(shown), stamps.count("early"), stamps.count("right"), steps)


def main() -> int:
    """Kill plans at each statement, and again at a random one of the next start; print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.plugins.plan.victim", description=main.__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random, kills, lost, shown, early, ran = Random(given.seed), 0, 0, 0, 0, 0
    while kills < given.kills:
        for story, came_to in STORIES.items():
            for root, times in swept(partial(go_on, story), given.kills - kills, random, start=4, step=3):
                kills += times
                found = asyncio.run(left(root))
                # a turn that was cut off twice is not taken up again by itself
                lost += found.plans != came_to and not (times > 1 and found.plans == came_to[: len(found.plans)])
                shown, early, ran = shown + (found.shown > 1), early + found.early, ran + (found.ran > 1)
    print(f"plans killed {kills} times: {early} acts before a yes, {lost} lost, {shown} asked twice, {ran} acts twice")
    return 1 if lost or shown or early or ran else 0


if __name__ == "__main__":
    sys.exit(main())
