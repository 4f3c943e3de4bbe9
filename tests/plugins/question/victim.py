"""A program that kills itself at the n-th SQL statement of a question, and what the next starts make of it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from nanoclaw.core.messages import AssistantMessage, Inbound, ModelRequest, ToolResult, UserMessage
from nanoclaw.core.provider import OnEvent
from nanoclaw.core.store.inbox import NOT_DONE
from nanoclaw.core.tool import Tool, tool
from nanoclaw.providers.scripted import Say, ScriptedProvider
from tests.kills import dies_at, swept
from tests.program import MAIN, NOON, HandClock, LoggingChannel, Program, assert_legal, results, running, tools_plugin

STORIES = {"alone": "The person chose: blue", "with a call": "The person chose: blue"}
STORIES["deadline"] = "Nobody answered in time, so the default is taken: red"
"""The result of each: one that is answered, one beside a call that has effects, one that nobody answers."""

ASKS = ("question", {"text": "Which colour?", "options": ["red", "blue"], "default": "red", "deadline": "1h"})


class Asking:
    """A model whose answers follow from what it is asked alone: it goes on wherever a start finds it."""

    model, supports_vision = "scripted/model", True

    def __init__(self, story: str) -> None:
        self._calls = (ASKS, ("stamp", {})) if story == "with a call" else (ASKS,)

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        asked = [one for one in request.history if isinstance(one, ToolResult) and one.text != NOT_DONE]
        step = Say("Done.") if asked else Say(calls=self._calls)
        return await ScriptedProvider(step).complete(request, on_event)

    async def aclose(self) -> None:
        pass


class Left(NamedTuple):
    """The results of the question, how often it reached the person, and how often the other call ran. `was_asked` is
    False for a turn that was cut off twice before that: the person was asked about it."""

    was_asked: bool
    results: list[str]
    asked: int
    ran: int


@asynccontextmanager
async def program_of(root: Path, story: str) -> AsyncIterator[Program]:
    """The program at work, two hours after the last one."""
    (root / "starts").open("a").write("x")
    clock = HandClock(NOON + timedelta(hours=2 * (root / "starts").stat().st_size * (story == "deadline")))
    brought, channel = tools_plugin(stamp(root)), LoggingChannel(root / "log")
    async with running(
        root / "home", Asking(story), channel=channel, clock=clock, extra=[brought], seconds=20
    ) as program:
        yield program


def stamp(root: Path) -> Tool:
    async def stamp() -> str:
        """Leaves a mark."""
        with (root / "stamps").open("a") as file:
            file.write("x\n")
        return "stamped"

    return tool(stamp)


async def go_on(story: str, root: Path, statement: int | None) -> None:
    """Go on with what is there, or have it begun; die at that statement."""
    async with program_of(root, story) as program:
        program.app.store.db.set_trace_callback(dies_at(statement))
        await say(program, "1", "Paint the door")
        while not program.app.asks.open() and busy(program):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        if story != "deadline" and program.rows("SELECT 1 FROM asks"):  # else it was cut off twice before it asked
            await say(program, "2", "2")
        elif questions := program.app.asks.open():
            program.clock.now += timedelta(hours=2)  # type: ignore[attr-defined]
            program.app.asks._wait(questions[0].number)
        while busy(program):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await program.app.conversations.idle()
        await program.app.delivery.flush("terminal")
        program.app.store.db.set_trace_callback(None)


async def say(program: Program, id: str, text: str) -> None:
    """Say something, or say it again as a platform does that has no receipt."""
    message = UserMessage(text, program.clock())
    await program.deliver(Inbound(MAIN, "me", id, message, role="owner"))


def busy(program: Program) -> bool:
    return bool(program.rows("SELECT 1 FROM inbox WHERE state != 'done'"))


async def left(root: Path, story: str) -> Left:
    """The state after one more start."""
    async with program_of(root, story) as program:
        await program.app.conversations.idle()
        assert_legal(program.history)
        was_asked = bool(program.rows("SELECT 1 FROM asks"))
        found = [result.text for result in results(program.history) if result.name == "question"]
    lines = {line.partition(" ")[0]: line.partition(" ")[2] for line in (root / "log").read_text().splitlines()}
    asked = sum(text.startswith("'Which colour?") for text in lines.values())
    stamps = root / "stamps"
    return Left(was_asked, found, asked, len(stamps.read_text().split()) if stamps.exists() else 0)


def main() -> int:
    """Kill questions at each statement, and again at a random one of the next start; print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.plugins.question.victim", description=main.__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random, kills, lost, asked, ran = Random(given.seed), 0, 0, 0, 0
    while kills < given.kills:
        for story, result in STORIES.items():
            for root, times in swept(partial(go_on, story), given.kills - kills, random, start=4, step=3):
                kills += times
                found = asyncio.run(left(root, story))
                lost += found.was_asked and found.results != [result]
                asked += found.asked > 1
                ran += found.ran > 1
    print(f"questions killed {kills} times: {lost} answers lost, {asked} asked twice, {ran} calls run twice")
    return 1 if lost or asked or ran else 0


if __name__ == "__main__":
    sys.exit(main())
