"""A child process that kills itself, as a power cut would, at the n-th SQL statement."""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any


def dies_at(statement: int | None) -> Callable[[str], None]:
    """For `set_trace_callback`: kill this process at that statement, counted from 0; None: at none."""
    left = statement

    def count(sql: str) -> None:
        nonlocal left
        if left is not None:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return count


def killed(work: Coroutine[Any, Any, object]) -> bool:
    """Do it in a child; True when that was killed. One that goes wrong is no end of its own."""
    child = os.fork()
    if not child:
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


def swept(
    go_on: Callable[[Path, int | None], Coroutine[Any, Any, object]], most: int, random: Random, start: int, step: int
) -> Iterator[tuple[Path, int]]:
    """Homes whose program was killed at a statement, each time some (1 to `step`) later, until one ends by itself or
    `most` were killed; three in ten of them again in the next start. Each has gone on then; with its kills."""
    kills, statement, died = 0, random.randrange(start), True
    while died and kills < most:
        with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            root = Path(folder)
            died = killed(go_on(root, statement))
            again = died and random.random() < 0.3 and killed(go_on(root, random.randrange(statement + 4)))
            kills += died + again
            asyncio.run(go_on(root, None))
            yield root, died + again
        statement += 1 + random.randrange(step)
