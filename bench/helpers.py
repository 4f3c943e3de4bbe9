"""Time of four helpers side by side against the slowest of them alone, and the CPU of a helper beside its model calls.

Usage: helpers.py [REPEATS]. The model is in the process: it waits as long as its script says and takes hardly any CPU.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from statistics import median

from nanoclaw.core.channel import Deliver, Hints
from nanoclaw.core.events import Event, TurnEnded
from nanoclaw.core.messages import Address, AssistantMessage, Inbound, ModelRequest, Outbound, UserMessage
from nanoclaw.core.provider import OnEvent
from nanoclaw.providers.scripted import Say, ScriptedProvider
from nanoclaw.start.build import build
from nanoclaw.start.config import load

MAIN = Address("terminal", "main")
SECONDS = (0.3, 0.5, 0.8, 1.0)
"""Of each model call of four helpers; each makes three."""

HELPERS, TURNS = 4, 25


class Waiting:
    """A model: the person's turn has the calls of `answer`, then an answer; a helper looks `rounds` times and reports.
    The seconds of its calls stand in its task."""

    model, supports_vision = "scripted/model", True

    def __init__(self) -> None:
        self.answer, self.rounds = Say("Done."), 0

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        said = [one.text for one in request.history if isinstance(one, UserMessage) and one.origin != "runtime"]
        rounds = _rounds_since_said(request)
        if "(You are a helper" in said[-1]:
            await asyncio.sleep(float(said[-1].split()[0]))
            step = Say("", (("list_dir", {"path": "."}),)) if rounds < self.rounds else Say("It is fine.")
        else:
            step = self.answer if not rounds else Say("Fine.")  # no claim, of which it would be asked again
        return await ScriptedProvider(step).complete(request, on_event)

    async def aclose(self) -> None:
        pass


def _rounds_since_said(request: ModelRequest) -> int:
    count = 0
    for one in reversed(request.history):
        if isinstance(one, UserMessage):
            return count
        count += isinstance(one, AssistantMessage)
    return count


class Screen:
    """Takes what is sent, and says when a turn has ended."""

    name, hints = "terminal", Hints(bursts=False)
    alive: datetime | None = None

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def run(self, deliver: Deliver) -> None:
        await asyncio.Event().wait()

    def serves(self, outbound: Outbound) -> bool:
        return True

    async def send(self, outbound: Outbound) -> str:
        return "1"

    def show(self, address: Address, event: Event) -> None:
        if isinstance(event, TurnEnded):
            self.ended.set()


class House:
    def __init__(self, folder: Path) -> None:
        self.model, self.screen, self._said = Waiting(), Screen(), 0
        config = load({"NANOCLAW_HOME": str(folder), "PATH": "/usr/bin:/bin"})
        self.app = build(config, provider=self.model, channels=[self.screen])

    async def turn(self, answer: Say) -> tuple[float, float]:
        """One turn of the person's; its seconds on the clock and of CPU."""
        self.model.answer, self._said = answer, self._said + 1
        self.screen.ended.clear()
        began, spent = time.monotonic(), time.process_time()
        message = UserMessage("Go", self.app.clock())
        await self.app.deliver(Inbound(MAIN, "me", f"m{self._said}", message))
        await self.screen.ended.wait()
        await self.app.conversations.idle()
        return time.monotonic() - began, time.process_time() - spent


def delegated(seconds: Sequence[float]) -> Say:
    tasks = [f"{each} look around" for each in seconds]
    return Say("", tuple(("delegate", {"task": task}, f"c{number}") for number, task in enumerate(tasks)))


async def measure(folder: Path, repeats: int) -> None:
    house = House(folder)
    serving = asyncio.create_task(house.app.run())
    try:
        await house.turn(delegated([0.0]))  # what is imported and made once
        house.model.rounds = 2
        alone = [(await house.turn(delegated(SECONDS[-1:])))[0] for _ in range(repeats)]
        four = [(await house.turn(delegated(SECONDS)))[0] for _ in range(repeats)]
        print(f"the slowest helper alone: {median(alone):.2f} s; four side by side: {median(four):.2f} s")
        print(f"four against the slowest alone: {median(four) / median(alone):.2f} x (goal: 1.3)")
        house.model.rounds = 0
        look = Say("", tuple(("list_dir", {"path": "."}, f"c{number}") for number in range(HELPERS)))
        without, with_ = list[float](), list[float]()
        for _ in range(TURNS):  # one after the other, so that what else the machine does meets both
            without.append((await house.turn(look))[1])
            with_.append((await house.turn(delegated([0.0] * HELPERS)))[1])
        low, high = median(without) * 1000, median(with_) * 1000
        print(f"CPU of a turn with {HELPERS} look-ups {low:.1f} ms, with {HELPERS} helpers {high:.1f} ms")
        print(f"CPU of a helper beside its model calls: {(high - low) / HELPERS:.1f} ms (goal: 15)")
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        await house.app.aclose()


def main() -> None:
    repeats = int(sys.argv[1]) if sys.argv[1:] else 3
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), repeats))


if __name__ == "__main__":
    main()
