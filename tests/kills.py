"""kill -9 in the middle of a story: `python -m tests.kills` kills each at every SQL statement, and prints a table.

A story is what a program does from a new home to its end, or from wherever an earlier start was killed. It lies in the
`kills.py` of the part that it tries. A child runs it and kills itself at a statement, as a power cut would; then it is
started again, and looked at: nothing is lost, and nothing comes twice.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from nanoclaw.core.messages import Inbound, UserMessage
from nanoclaw.core.plugin import Plugin, Tool
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import ScriptedProvider, Step
from tests.program import MAIN, HandClock, LoggingChannel, Program, assert_legal, running

TESTS = Path(__file__).parent


class Story(NamedTuple):
    """`go_on` begins in a folder or goes on there, and ends when all is done; it hands the store's connection to
    `watch` before the first statement that counts. `broken` names what isn't as it should be after so many kills."""

    name: str
    go_on: Callable[[Path, Watch], Coroutine[Any, Any, object]]
    broken: Callable[[Path, int], Awaitable[Iterable[str]]]


Watch = Callable[[sqlite3.Connection], object]


# --- what stories are made of ----------------------------------------------------------------------------------------


@asynccontextmanager
async def alive(
    root: Path,
    watch: Watch | None,
    model: Step = "",
    *,
    clock: HandClock | None = None,
    extra: Sequence[type[Plugin]] = (),
    wakes: bool = False,
) -> AsyncIterator[Program]:
    """The program in a story's folder. The model's answers follow from what it is asked alone, so it goes on wherever
    a start finds it. At the end all is answered and told, and the history is one that a model would take."""
    async with running(
        root / "home",
        ScriptedProvider(*[model] * 50),
        channel=LoggingChannel(root / "log"),
        clock=clock,
        extra=extra,
        wakes=wakes,
    ) as program:
        if watch:
            watch(program.app.store.db)
        yield program
        await rest(program)
        program.app.store.db.set_trace_callback(None)
        assert_legal(program.history)


async def rest(program: Program, until: Callable[[], object] = lambda: True) -> None:
    """Wait until every message is done with, and what else is to be so."""
    while is_busy(program) or not until():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    await program.app.conversations.idle()
    await program.app.delivery.flush("terminal")


def is_busy(program: Program) -> bool:
    return is_there(program, "SELECT 1 FROM inbox WHERE state != 'done'")


def is_there(program: Program, sql: str) -> bool:
    """True when the store has such a row. It is looked for from outside: these looks aren't counted."""
    with closing(sqlite3.connect(program.app.store.path)) as db:
        return db.execute(sql).fetchone() is not None


async def asked(program: Program, count: int = 1) -> bool:
    """Wait until the person is asked. True when that was so often by now: a turn that was cut off twice ends before."""
    while not program.public("approvals").open() and is_busy(program):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    return is_there(program, f"SELECT 1 FROM approvals_asks LIMIT 1 OFFSET {count - 1}")


async def say(program: Program, id: str, text: str) -> None:
    """Say something, or say it again as a platform does that has no receipt."""
    await program.deliver(Inbound(MAIN, "me", id, UserMessage(text, program.clock()), role="owner"))


def sent(root: Path) -> list[str]:
    """What reached the person, without repeats that a platform knows by their key."""
    lines = (root / "log").read_text().splitlines() if (root / "log").exists() else []
    return list({line.partition(" ")[0]: line.partition(" ")[2] for line in lines}.values())


def stamp(root: Path) -> Tool:
    """A tool with an effect outside the workspace."""

    async def stamp() -> str:
        """Leaves a mark."""
        with (root / "stamps").open("a") as file:
            file.write("x\n")
        return "stamped"

    return tool(stamp)


def stamps(root: Path) -> int:
    return len((root / "stamps").read_text().split()) if (root / "stamps").exists() else 0


def different(**pairs: tuple[object, object]) -> list[str]:
    """Names whose two values differ: what was found, and what was wanted."""
    return [f"{name}: {found!r} in place of {wanted!r}" for name, (found, wanted) in pairs.items() if found != wanted]


# --- killing ---------------------------------------------------------------------------------------------------------


def dies_at(statement: int) -> Watch:
    """Kill this process at that statement of the store, counted from 0."""
    left = statement

    def count(sql: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return lambda db: db.set_trace_callback(count)


def die_at_step(step: int, counts: Callable[[str, str], bool]) -> None:
    """Kill this process at that one, from 1, of those audit events that count by their name and what they are given."""
    left = step

    def hook(event: str, given: object) -> None:
        nonlocal left
        if counts(event, str(given)):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def killed(work: Coroutine[Any, Any, object]) -> bool:
    """Do it in a child; True when that was killed. One that goes wrong is not an end of its own."""
    child = os.fork()
    if not child:
        gc.freeze()  # what the tests have is not looked through in each
        try:
            asyncio.run(work)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    work.close()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or not status, "the child went wrong"
    return os.WIFSIGNALED(status)


def trial(story: Story, *statements: int) -> tuple[int, list[str]]:
    """Kill a story at a statement of its first start, and perhaps at one of the next, and let it go on to its end: how
    often it was killed, and what is broken then."""
    with place() as root:
        kills = 0
        for statement in statements:
            if not killed(story.go_on(root, dies_at(statement))):
                break
            kills += 1
        return kills, ended(story, root, kills, lambda db: None)


def undisturbed(story: Story) -> tuple[int, list[str]]:
    """The number of its statements where nothing disturbs it, and what is broken all the same."""
    count = 0

    def counted(sql: str) -> None:
        nonlocal count
        count += 1

    with place() as root:
        broken = ended(story, root, 0, lambda db: db.set_trace_callback(counted))
    return count, broken


@contextmanager
def place() -> Iterator[Path]:
    """A folder for a story, on a disk in memory where there is one."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield Path(folder)


def ended(story: Story, root: Path, kills: int, watch: Watch) -> list[str]:
    async def end() -> list[str]:
        await story.go_on(root, watch)
        return list(await story.broken(root, kills))

    return asyncio.run(end())


def sample(name: str, whole: int) -> tuple[int, int]:
    """A statement of the beginning, the middle or the end, another one for each story, and one of the next start."""
    random, part = Random(name), whole // 4
    statement = list(stories()).index(name) % 3 * part + random.randrange(part)
    return statement, random.randrange(statement + 4)


def stories() -> dict[str, Story]:
    """All, by their names."""
    found = dict[str, Story]()
    for path in sorted(TESTS.rglob("*/kills.py")):
        module = ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)
        found |= {story.name: story for story in import_module(module).STORIES}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--stride", type=int, default=1, help="only every n-th statement (default: every one)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only the stories whose name has this in it")
    given = parser.parse_args()
    print(f"{'':<52}{'statements':>11}{'kills':>8}{'broken':>8}{'seconds':>9}")
    is_whole = True
    for name, story in stories().items():
        if given.only not in name:
            continue
        random, begun, kills = Random(given.seed), time.monotonic(), 0
        whole, broken = undisturbed(story)
        wrong = [f"  without a kill: {'; '.join(broken)}"] * bool(broken)
        for statement in range(random.randrange(given.stride), whole, given.stride):
            points = [statement, random.randrange(statement + 4)] if random.random() < 0.3 else [statement]
            times, broken = trial(story, *points)
            kills += times
            wrong += [f"  killed at {points}: {'; '.join(broken)}"] * bool(broken)
        seconds = time.monotonic() - begun
        print(f"{name:<52}{whole:>11,}{kills:>8,}{len(wrong):>8,}{seconds:>9.1f}", *wrong, sep="\n", flush=True)
        is_whole = is_whole and not wrong
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
