"""A child process that kills itself, as a power cut would, at the n-th SQL statement."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
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
    """Do it in a child; True when that was killed."""
    child = os.fork()
    if not child:
        try:
            asyncio.run(work)
        finally:
            os._exit(0)
    work.close()
    return bool(os.waitpid(child, 0)[1])
