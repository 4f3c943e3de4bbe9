"""A process that kills itself in the middle of a turn: `python -m tests.journeys.victim DIR` makes one home for each
point at which it can die, DIR/0, DIR/1, …, and ends when a turn came through alive.

What was accepted and what was sent is written beside the homes, as a platform would know it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path

from nanoclaw.core.messages import Outbound
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, call
from tests.program import FakeChannel, running, tools_plugin

TURN = (
    Say("I write.", calls=(("write_file", {"path": "a.txt", "content": "x"}), ("memory_add", {"text": "wrote a.txt"}))),
    Say(calls=(("read_file", {"path": "a.txt"}),)),
    "Done.",
)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def pay(euros: int) -> str:
    """Pays."""
    die()
    return f"paid {euros}"


PAYS = tools_plugin(tool(pay))
"""Brings a tool with an effect outside the workspace."""


class Platform(FakeChannel):
    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log

    async def send(self, outbound: Outbound) -> str:
        note(self._log, f"sent {outbound.text}")
        return await super().send(outbound)


def note(log: Path, line: str) -> None:
    with log.open("a") as file:
        file.write(line + "\n")


async def live(folder: Path, statement: int) -> None:
    """One turn; dies at the n-th SQL statement."""
    log = folder / "log"
    channel = Platform(log)
    async with running(folder / "home", ScriptedProvider(*TURN), channel=channel) as program:
        left = statement

        def count(sql: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                die()

        program.app.store.db.set_trace_callback(count)
        await program.say("write it down")
        note(log, "accepted write it down")
        await channel.sent.get()
        await asyncio.sleep(0)
        program.app.store.db.set_trace_callback(None)


async def die_while_paying(folder: Path) -> None:
    """A tool with an effect outside the workspace is under way."""
    model = ScriptedProvider(call("pay", {"euros": 5}))
    async with running(folder / "home", model, extra=[PAYS]) as program:
        await program.say("pay the bill")
        await program.answer()


async def die_with_a_queue(folder: Path) -> None:
    """The first message hangs at the model, the second waits."""
    hang = Hang("I begin")
    async with running(folder / "home", ScriptedProvider(hang)) as program:
        await program.say("first")
        await hang.reached.wait()
        await program.say("second")
        die()


async def die_again(folder: Path) -> None:
    """The model hangs, whenever it is asked."""
    hang = Hang("I begin")
    async with running(folder / "home", ScriptedProvider(hang)) as program:
        if not program.rows("SELECT 1 FROM turns"):
            await program.say("first")
        await hang.reached.wait()
        die()


def in_a_child(story: Coroutine[None, None, None]) -> None:
    child = os.fork()
    if not child:
        asyncio.run(story)
        os._exit(0)
    os.waitpid(child, 0)
    story.close()


EVERY = int(os.environ.get("KILL_EVERY", "3"))
"""Of so many statements one is where it is killed."""


def main(folder: Path) -> None:
    (folder / "whole").mkdir(parents=True)
    asyncio.run(live(folder / "whole", 1000))  # so that all is imported when the first is forked
    for statement in range(0, 1000, EVERY):
        place = folder / str(statement)
        place.mkdir(parents=True)
        child = os.fork()
        if not child:
            asyncio.run(live(place, statement))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not status:
            print(statement)
            return


if __name__ == "__main__":
    place = Path(sys.argv[1])
    match sys.argv[2:]:
        case ["queue"]:
            asyncio.run(die_with_a_queue(place))
        case ["outside"]:
            asyncio.run(die_while_paying(place))
        case ["twice"]:
            in_a_child(die_again(place))
            in_a_child(die_again(place))
        case _:
            main(place)
