"""A program that kills itself at the n-th SQL statement of a process's end, and what is left after the next start."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random

from nanoclaw.core.messages import UserMessage
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.kills import dies_at
from tests.kills import killed as dies_in
from tests.program import LoggingChannel, assert_legal, results, running

STORIES = ("talk", "wait")
"""The end comes while nothing else runs; while a call waits for it."""

BEGIN = call("exec", {"command": "mkfifo gate; read go < gate; echo built", "background": True})


async def build(root: Path, story: str, statement: int) -> None:
    """Begin a process, let it end, and die at that statement of its end."""
    waits = call("process", {"action": "wait", "id": 1})
    model = ScriptedProvider(BEGIN, *([waits] if story == "wait" else ["It builds."]), "Built.")
    async with running(root / "home", model, channel=LoggingChannel(root / "log"), wakes=True) as program:
        await program.say("Build it")
        if story == "talk":
            await program.answer()
        shell = next(one for one in program.app.plugins if one.name == "shell")
        while not (program.workspace / "gate").exists() or (story == "wait" and not shell._processes.claims):  # type: ignore[attr-defined]  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        program.app.store.db.set_trace_callback(dies_at(statement))
        (program.workspace / "gate").write_text("go\n")
        for _ in range(1 if story == "wait" else 2):
            await program.answer()
        await program.app.conversations.idle()
        program.app.store.db.set_trace_callback(None)


def killed(root: Path, story: str, statement: int) -> bool:
    """True when the program died there."""
    return dies_in(build(root, story, statement))


async def left(root: Path) -> tuple[list[str], list[str]]:
    """After one more start, and a further one: what the person was told of the process, and what the model was."""
    steps: list[Say | str] = ["Built."] * 3
    for _ in range(2):
        channel = LoggingChannel(root / "log")
        async with running(root / "home", ScriptedProvider(*steps), channel=channel, wakes=True) as program:
            await program.ask("/processes")
            while program.rows("SELECT 1 FROM shell_processes WHERE state != 'told'"):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            await program.app.conversations.idle()
            await program.app.delivery.flush("terminal")
            assert_legal(program.history)
            history = program.history
    lines = {line.partition(" ")[0]: line.partition(" ")[2] for line in (root / "log").read_text().splitlines()}
    person = [text for text in lines.values() if text.startswith("'Process 1 (")]
    model = [one.text for one in history if "Process 1 (" in one.text and getattr(one, "origin", "") != "runtime"]
    model += [one.text for one in results(history) if "[process 1: exit status 0" in one.text]
    assert not [one for one in history if isinstance(one, UserMessage) and one.origin == "process" and not person]
    return person, model


def main() -> int:
    """Kill the end of processes at each statement; print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.plugins.shell.victim", description=main.__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random, kills, lost, doubled = Random(given.seed), 0, 0, 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        while kills < given.kills:
            for story in STORIES:
                died, statement = True, random.randrange(3)
                while died and kills < given.kills:
                    root = Path(tempfile.mkdtemp(dir=folder))
                    died = killed(root, story, statement)
                    kills += died
                    person, model = asyncio.run(left(root))
                    lost += not model or (story == "talk" and not person)
                    doubled += len(person) > 1 or len(model) > 1
                    with suppress(OSError):
                        shutil.rmtree(root)
                    statement += 1 + random.randrange(2)
    print(f"ends of processes killed {kills} times: {lost} lost, {doubled} told twice")
    return 1 if lost or doubled else 0


if __name__ == "__main__":
    sys.exit(main())
