"""A loop in which time passes only while everything waits, so that a test of pauses takes no time and is exact."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from nanoclaw import clock

PACE = 0.02
"""Of the pauses in all other tests, and in the programs that they start: a second lasts 20 ms."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Its clock jumps to the next timer when nothing else is to be done."""

    _now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        if not ready:  # the loop itself would wait for the first one even where a cancelled one stands before it
            self._now = max(self._now, min((one.when() for one in scheduled if not one.cancelled()), default=0.0))
        super()._run_once()  # type: ignore[misc]


def virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test in such a loop. No thread may be waited for."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        clock.set_pace(1)
        try:
            with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
                runner.run(test(*args, **kwargs))  # type: ignore[arg-type]
        finally:
            clock.set_pace(PACE)

    return run


def skip(seconds: float) -> None:
    """What waits for so much time in the running loop, a real one, is due: a limit of time is over when the test says
    so, however slow the machine is."""
    loop, ahead = asyncio.get_running_loop(), asyncio.get_running_loop().time
    loop.time = lambda: ahead() + seconds  # type: ignore[method-assign]


def passed() -> float:
    """The seconds that have passed in the running loop."""
    return asyncio.get_running_loop().time()
