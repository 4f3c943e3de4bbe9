"""A program that kills itself at the n-th SQL statement around a yes for an hour, and what is left."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from nanoclaw.core.messages import AssistantMessage, CheckedCall, Inbound, ModelRequest, ToolResult, UserMessage
from nanoclaw.core.plugin import Ask, Plugin, Scope, Turn, Verdict
from nanoclaw.core.provider import OnEvent
from nanoclaw.core.store.inbox import NOT_DONE
from nanoclaw.core.tool import Tool, tool
from nanoclaw.providers.scripted import Say, ScriptedProvider
from tests.kills import dies_at, swept
from tests.program import MAIN, LoggingChannel, Program, assert_legal, results, running

QUESTION = "Leave a mark?"


class Marking:
    """A model that makes one call for each message; it goes on wherever a start finds it."""

    model, supports_vision = "scripted/model", True

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        since = list(request.history)
        while since and not isinstance(since[-1], UserMessage):
            since.pop()
        made = [one for one in request.history[len(since) :] if isinstance(one, ToolResult) and one.text != NOT_DONE]
        step = Say("Done.") if made else Say(calls=(("stamp", {}),))
        return await ScriptedProvider(step).complete(request, on_event)

    async def aclose(self) -> None:
        pass


def stamping(root: Path) -> type[Plugin]:
    """A plugin with a tool that asks, with a scope."""

    class Stamping(Plugin):
        name = "stamping"

        def tools(self) -> Iterable[Tool]:
            async def stamp() -> str:
                """Leaves a mark."""
                with (root / "stamps").open("a") as file:
                    file.write("x\n")
                return "stamped"

            yield tool(stamp)

        async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
            return Ask(QUESTION, scope=Scope("stamp", "marks")) if call.name == "stamp" else None

    return Stamping


class Left(NamedTuple):
    """How often the owner was asked, the call ran, and grants that hold; `was_asked` is False for a turn that was cut
    off twice before that: the person was asked about it. `is_known` is True where its result, or that it may have been
    done, stands in the history."""

    was_asked: bool
    asked: int
    ran: int
    grants: int
    is_known: bool


@asynccontextmanager
async def program_of(root: Path) -> AsyncIterator[Program]:
    channel = LoggingChannel(root / "log")
    async with running(root / "home", Marking(), channel=channel, extra=[stamping(root)]) as program:
        yield program


async def go_on(root: Path, statement: int | None) -> None:
    """Go on with what is there, or have it begun, and say yes for an hour; die at that statement."""
    async with program_of(root) as program:
        program.app.store.db.set_trace_callback(dies_at(statement))
        await say(program, "1", "Leave one")
        while not program.app.asks.open() and busy(program):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        if program.rows("SELECT 1 FROM asks"):  # else it was cut off twice before it asked
            await say(program, "2", "hour")
        while busy(program):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await program.app.conversations.idle()
        await program.app.delivery.flush("terminal")
        program.app.store.db.set_trace_callback(None)


async def say(program: Program, id: str, text: str) -> None:
    """Say something, or say it again as a platform does that has no receipt."""
    await program.deliver(Inbound(MAIN, "me", id, UserMessage(text, program.clock()), role="owner"))


def busy(program: Program) -> bool:
    return bool(program.rows("SELECT 1 FROM inbox WHERE state != 'done'"))


async def left(root: Path) -> Left:
    """The state after one more start."""
    async with program_of(root) as program:
        await program.app.conversations.idle()
        assert_legal(program.history)
        was_asked = bool(program.rows("SELECT 1 FROM asks"))
        grants = len(program.rows("SELECT 1 FROM approvals_grants"))
        is_known = any(one.name == "stamp" for one in results(program.history))
    lines = {line.partition(" ")[0]: line.partition(" ")[2] for line in (root / "log").read_text().splitlines()}
    asked = sum(QUESTION in text for text in lines.values())
    stamps = root / "stamps"
    return Left(was_asked, asked, len(stamps.read_text().split()) if stamps.exists() else 0, grants, is_known)


def main() -> int:
    """Kill programs around a yes for an hour, and again at a random statement of the next start; print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.plugins.approvals.victim", description=main.__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random, kills, lost, asked, ran = Random(given.seed), 0, 0, 0, 0
    while kills < given.kills:
        for root, times in swept(go_on, given.kills - kills, random, start=4, step=3):
            kills += times
            found = asyncio.run(left(root))
            lost += found.was_asked and (found.grants != 1 or not found.is_known)
            asked += found.asked > 1
            ran += found.ran > 1
    print(f"yeses for an hour killed {kills} times: {lost} lost, {asked} asked twice, {ran} calls run twice")
    return 1 if lost or asked or ran else 0


if __name__ == "__main__":
    sys.exit(main())
