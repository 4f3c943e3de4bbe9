"""A program that is killed in a turn with a card: nothing of it is done before a yes, after a no, by half or twice."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from nanoclaw.core.messages import ModelRequest
from nanoclaw.providers.scripted import Answer, Say, call
from tests.kills import Story, Watch, alive, asked, different, is_busy, is_there, say
from tests.program import Program, results

ALL = 6
"""Files that the model deletes."""
LOST = [f"{number}.txt" for number in range(ALL)]
"""Files that a command takes away, of which there are copies."""
STEPS: dict[str, list[Say]] = {"a command": [call("exec", {"command": "r=rm; $r *.txt"})]}
"""How the model deletes all."""


def begun(kind: str, root: Path, watch: Watch | None) -> AbstractAsyncContextManager[Program]:
    def model(request: ModelRequest) -> Answer:
        done = len(results(request.history))
        return STEPS[kind][done] if done < len(STEPS[kind]) else "That is all."

    if not (root / "home").exists():
        (root / "home" / "workspace").mkdir(parents=True)
        for name in LOST:
            (root / "home" / "workspace" / name).write_text(name * 50)
    return alive(root, watch, model, wakes=True)


async def go_on(kind: str, answer: str, root: Path, watch: Watch | None) -> None:
    async with begun(kind, root, watch) as program:
        await say(program, "1", "Delete all")
        if await asked(program):
            await say(program, "answer", answer)
        while is_busy(program) or is_there(program, "SELECT 1 FROM shell_processes WHERE state != 'told'"):
            for one in program.public("approvals").open():  # of the next call, or of a turn that hears late of an end
                await say(program, f"answer {one.number}", answer)
            await asyncio.sleep(0.001)


async def broken(kind: str, answer: str, root: Path, kills: int) -> list[str]:
    async with begun(kind, root, None) as program:
        steps, cards = len(program.rows("SELECT 1 FROM card_held")), len(program.rows("SELECT 1 FROM approvals_asks"))
    found = _of_command(root, kills, cards, answer == "yes")
    return found + different(
        steps=(steps, 0),
        cards=(cards, min(cards, 1) if kills else 1),
    )


def _of_command(root: Path, kills: int, cards: int, is_yes: bool) -> list[str]:
    """What was killed before it was noted what the command took is not put back, and what was begun after a yes is not
    done again."""
    wanted = {True: {0} if not kills else {0, ALL}, False: {ALL} if cards or not kills else {0, ALL}}
    kept = _kept(root)
    return [] if kept in wanted[is_yes] else [f"{kept} of {ALL} files are left in place of {wanted[is_yes]}"]


def _kept(root: Path) -> int:
    return sum((root / "home" / "workspace" / name).exists() for name in LOST)


STORIES = [
    Story(f"card: {kind}, {answer}", partial(go_on, kind, answer), partial(broken, kind, answer))
    for kind in STEPS
    for answer in ("yes", "no")
]
