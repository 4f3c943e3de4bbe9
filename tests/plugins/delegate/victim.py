"""A program that kills itself at the n-th SQL statement of a turn with helpers, and what the next starts make of it."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random

from nanoclaw.core.messages import AssistantMessage, ModelRequest, ToolResult, UserMessage
from nanoclaw.core.provider import OnEvent
from nanoclaw.core.store.inbox import NOT_DONE
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests import kills
from tests.plugins.delegate.talk import delegate, task_of
from tests.program import LoggingChannel, Program, assert_legal, running

STORIES: dict[str, tuple[tuple[str, ...], bool]] = {
    "foreground": (("read a", "read b"), False),
    "background": (("read c",), True),
}
"""The tasks of each, and True for those in the background."""


class BothSides:
    """A model whose answers follow from what it is asked alone: it goes on wherever a start finds it."""

    model, supports_vision = "scripted/model", True

    def __init__(self, story: str) -> None:
        self._tasks, self._background = STORIES[story]

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        step = self._of_helper(task, request) if (task := task_of(request)) else self._of_parent(request)
        return await ScriptedProvider(step).complete(request, on_event)

    def _of_helper(self, task: str, request: ModelRequest) -> Say:
        looked = any(isinstance(one, ToolResult) for one in request.history)
        return Say(f"It is {task[-1].upper()}.") if looked else call("list_dir", {"path": "."})

    def _of_parent(self, request: ModelRequest) -> Say:
        begun = {
            one.call_id.partition("call-")[2]
            for one in request.history
            if isinstance(one, ToolResult) and one.text != NOT_DONE
        }
        left = [task for task in self._tasks if task not in begun]
        said = request.history[-1]
        is_report = isinstance(said, UserMessage) and said.origin == "delegate"
        return delegate(*left, background=self._background) if left and not is_report else Say("Done.")

    async def aclose(self) -> None:
        pass


async def work(root: Path, story: str, statement: int | None) -> None:
    """Go on with what is there, or have it begun; die at that statement."""
    channel = LoggingChannel(root / "log")
    async with running(root / "home", BothSides(story), channel=channel, wakes=True) as program:
        if not program.rows("SELECT 1 FROM inbox"):
            await program.say("Have them read")
        program.app.store.db.set_trace_callback(kills.dies_at(statement))
        await at_rest(program)
        program.app.store.db.set_trace_callback(None)


async def at_rest(program: Program) -> None:
    """Wait until everything is answered and told."""
    while program.rows("SELECT 1 FROM delegate_helpers WHERE state != 'told'") or program.rows(  # noqa: ASYNC110
        "SELECT 1 FROM inbox WHERE state != 'done'"
    ):
        await asyncio.sleep(0.002)
    await program.app.conversations.idle()
    await program.app.delivery.flush("terminal")


def killed(root: Path, story: str, statement: int) -> bool:
    """True when the program died there."""
    return kills.killed(work(root, story, statement))


async def left(root: Path, story: str) -> tuple[int, int, int]:
    """After a further start: the helpers that were begun, and how many of them were never told, and more than once."""
    channel = LoggingChannel(root / "log")
    async with running(root / "home", BothSides(story), channel=channel, wakes=True) as program:
        await at_rest(program)
        assert_legal(program.history)
        numbers = [number for (number,) in program.rows("SELECT id FROM delegate_helpers")]
        texts = [one.text for one in program.history if getattr(one, "origin", "") != "runtime"]
    log = root / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    sent = {line.partition(" ")[0]: line.partition(" ")[2] for line in lines}.values()
    model = [sum(f"Helper {number} (" in text for text in texts) for number in numbers]
    person = [sum(f"Helper {number} (" in text for text in sent) for number in numbers]
    by_message = [
        sum(f"Helper {number} (" in one.text for one in program.history if isinstance(one, UserMessage))
        for number in numbers
    ]
    lost = sum(not times for times in model) + sum(told > shown for told, shown in zip(by_message, person, strict=True))
    return len(numbers), lost, sum(times > 1 for times in (*model, *person))


def main() -> int:
    """Kill turns with helpers at each statement; print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.plugins.delegate.victim", description=main.__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random, kills, begun, lost, doubled = Random(given.seed), 0, 0, 0, 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        while kills < given.kills:
            for story in STORIES:
                died, statement = True, random.randrange(3)
                while died and kills < given.kills:
                    root = Path(tempfile.mkdtemp(dir=folder))
                    died = killed(root, story, statement)
                    kills += died
                    kills += died and random.random() < 0.5 and killed(root, story, random.randrange(60))
                    counts = asyncio.run(left(root, story))
                    begun, lost, doubled = begun + counts[0], lost + counts[1], doubled + counts[2]
                    if counts[1] or counts[2]:
                        print(f"{story}: statement {statement}: {counts}")
                    with suppress(OSError):
                        shutil.rmtree(root)
                    statement += 1 + random.randrange(3)
    print(f"turns with {begun} helpers killed {kills} times: {lost} lost, {doubled} told twice")
    return 1 if lost or doubled else 0


if __name__ == "__main__":
    sys.exit(main())
