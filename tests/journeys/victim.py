"""A process that kills itself in the middle of a turn: `python -m tests.journeys.victim DIR` makes one home for each
point at which it can die, DIR/0, DIR/1, …, and ends when a turn came through alive.

What was accepted and what was sent is written beside the homes, as a platform would know it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from nanoclaw.messages import Outbound
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider
from tests.agent.house import FakeChannel, house

TURN = (
    Say("I write.", calls=(("write_file", {"path": "a.txt", "content": "x"}), ("memory_add", {"text": "wrote a.txt"}))),
    Say(calls=(("read_file", {"path": "a.txt"}),)),
    "Done.",
)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


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
    async with house(folder / "home", ScriptedProvider(*TURN), channel=channel) as home:
        left = statement

        def count(sql: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                die()

        home.store.db.set_trace_callback(count)
        await home.say("write it down")
        note(log, "accepted write it down")
        await channel.sent.get()
        await asyncio.sleep(0)
        home.store.db.set_trace_callback(None)


async def die_with_a_queue(folder: Path) -> None:
    """The first message hangs at the model, the second waits."""
    hang = Hang("I begin")
    async with house(folder / "home", ScriptedProvider(hang)) as home:
        await home.say("first")
        await hang.reached.wait()
        await home.say("second")
        die()


def main(folder: Path) -> None:
    for statement in range(1000):
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
    if sys.argv[2:] == ["queue"]:
        asyncio.run(die_with_a_queue(Path(sys.argv[1])))
    main(Path(sys.argv[1]))
