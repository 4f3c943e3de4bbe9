"""A program that kills itself at the n-th SQL statement of a turn with a card, and what the next starts make of it."""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from nanoclaw.core.messages import AssistantMessage, ModelRequest, ToolResult
from nanoclaw.core.provider import OnEvent
from nanoclaw.core.tool import Tool, tool
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.kills import dies_at, swept
from tests.plugins.question.victim import busy, say
from tests.program import LoggingChannel, Program, assert_legal, running, tools_plugin

STORIES = ("yes", "no")
FREE, ALL = 3, 6
"""Deletions that need no card, and all that the model makes."""
LOST = [f"{number}.txt" for number in range(ALL)]
"""Files that a command takes away, of which there are copies."""


class Deleting:
    """A model that deletes one thing after the other. Its answers follow from what it is asked alone."""

    model, supports_vision = "scripted/model", True

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        done = sum(isinstance(one, ToolResult) for one in request.history)
        step = call("mcp_x_delete", {"number": done}) if done < ALL else "That is all."
        return await ScriptedProvider(step).complete(request, on_event)

    async def aclose(self) -> None:
        pass


class Commanding(Deleting):
    """A model that deletes all with one command."""

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        is_done = any(isinstance(one, ToolResult) for one in request.history)
        step = "That is all." if is_done else call("exec", {"command": "r=rm; $r *.txt"})
        return await ScriptedProvider(step).complete(request, on_event)


class CommandingBehind(Deleting):
    """A model that deletes all with one command in the background, and waits for its end."""

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        done = sum(isinstance(one, ToolResult) for one in request.history)
        steps = [
            call("exec", {"command": "r=rm; $r *.txt", "background": True}),
            call("process", {"action": "wait", "id": 1}),
        ]
        return await ScriptedProvider(steps[done] if done < len(steps) else "That is all.").complete(request, on_event)


MODELS = {"in front": Commanding, "behind": CommandingBehind}


class Left(NamedTuple):
    """What was done of the card before a yes, after it (each once), more than once; and how many cards were shown."""

    early: int
    done: int
    twice: int
    cards: int


def program_of(root: Path):  # type: ignore[no-untyped-def]
    channel, brought = LoggingChannel(root / "log"), tools_plugin(delete(root))
    model = MODELS[(root / "command").read_text()]() if (root / "command").exists() else Deleting()
    return running(root / "home", model, channel=channel, extra=[brought], wakes=True)


def with_command(root: Path, place: str = "in front") -> None:
    """Have the model run one command, in a workspace with files."""
    (root / "command").write_text(place)
    (root / "home" / "workspace").mkdir(parents=True)
    for name in LOST:
        (root / "home" / "workspace" / name).write_text(name * 50)


def kept(root: Path) -> int:
    return sum((root / "home" / "workspace" / name).exists() for name in LOST)


def delete(root: Path) -> Tool:
    async def mcp_x_delete(number: int) -> str:
        """Leaves a mark, which says whether it was too early."""
        with closing(sqlite3.connect(root / "home" / "state.db")) as db:
            ((is_allowed,),) = db.execute("SELECT count(*) FROM asks WHERE answer = 'yes' AND by = 'owner'").fetchall()
        with (root / "marks").open("a") as file:
            file.write(f"{number} {'right' if is_allowed or number < FREE else 'early'}\n")
        return "deleted"

    return tool(mcp_x_delete)


def is_judged(program: Program) -> bool:
    """False while a command in the background runs, or one of an earlier program is to be judged."""
    return not program.rows("SELECT 1 FROM shell_processes WHERE state != 'told'")


async def go_on(story: str, root: Path, statement: int | None) -> None:
    """Go on with what is there, or have it begun; die at that statement."""
    async with program_of(root) as program:
        program.app.store.db.set_trace_callback(dies_at(statement))
        await say(program, "1", "Delete all")
        while not program.app.asks.open() and busy(program):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        if program.rows("SELECT 1 FROM asks"):
            await say(program, "answer", story)
        while busy(program) or not is_judged(program):
            if program.app.asks.open():  # of the turn that hears late of a command's end
                await say(program, "late answer", story)
            await asyncio.sleep(0.001)
        await program.app.conversations.idle()
        await program.app.delivery.flush("terminal")
        program.app.store.db.set_trace_callback(None)


async def left(root: Path) -> Left:
    """The state after one more start."""
    async with program_of(root) as program:
        await program.app.conversations.idle()
        assert_legal(program.history)
        assert not program.rows("SELECT 1 FROM card_steps")
        ((cards,),) = program.rows("SELECT count(*) FROM asks")
    marks = (root / "marks").read_text().splitlines() if (root / "marks").exists() else []
    early = sum(mark.endswith("early") for mark in marks)
    numbers = [int(mark.split()[0]) for mark in marks]
    return Left(early, len({n for n in numbers if n >= FREE}), len(numbers) - len(set(numbers)), cards)


def main() -> int:
    """Kill turns with a card at each statement, and again at a random one of the next start; print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.plugins.card.victim", description=main.__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random, kills, early, twice, cards, against, done = Random(given.seed), 0, 0, 0, 0, 0, 0
    while kills < given.kills:
        for story in STORIES:
            for root, times in swept(partial(go_on, story), given.kills - kills, random, start=20, step=24):
                kills += times
                found = asyncio.run(left(root))
                early, twice, cards = early + found.early, twice + found.twice, cards + (found.cards > 1)
                against += found.done * (story == "no")
                done += found.done > 0
    print(
        f"cards killed {kills} times: {early} done before a yes, {against} done after a no, {twice} done twice, "
        f"{cards} asked twice; {done} carried out"
    )
    half = sum(sweep_commands(place, given.kills, random) for place in MODELS)
    return 1 if early or twice or cards or against or half else 0


def sweep_commands(place: str, most: int, random: Random) -> int:
    """The same with a command that takes files away; how often they were half put back, half gone, or against the
    answer."""
    kills, wrong, unnoted, shown = 0, 0, 0, 0

    async def begin(story: str, root: Path, statement: int | None) -> None:
        if not (root / "command").exists():
            with_command(root, place)
        await go_on(story, root, statement)

    while kills < most:
        for story in STORIES:
            for root, times in swept(partial(begin, story), most - kills, random, start=60, step=24):
                kills += times
                found = asyncio.run(left(root))
                wrong += kept(root) not in (0, ALL) or (found.cards > 0 and kept(root) == 0 and story == "no")
                unnoted += kept(root) == 0 and not found.cards
                shown += found.cards > 0
    print(
        f"commands {place} killed {kills} times: {wrong} half put back, half gone or against the answer; "
        f"{shown} with a card, {unnoted} died between a command and the note of what it took"
    )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
