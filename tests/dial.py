"""Time that a test moves: whoever sleeps in it is woken in order, whole days in no time."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.program import BERLIN, NOON


@dataclass
class Dial:
    """A wall clock, a monotonic clock, and sleep on the latter."""

    now: datetime = NOON
    ran: float = 0.0
    _sleepers: list[tuple[float, asyncio.Future[None]]] = field(default_factory=list)

    def __call__(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return self.ran

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.ran + seconds, woken))
        await woken

    async def settle(self) -> None:
        """Let everything run that can."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def pass_(self, **span: float) -> None:
        """Time goes by, and everybody who sleeps wakes when he wanted to."""
        await self.settle()
        end = self.ran + timedelta(**span).total_seconds()
        while True:
            self._sleepers = [(at, woken) for at, woken in self._sleepers if not woken.done()]
            at = min((at for at, _ in self._sleepers), default=end + 1)
            if at > end:
                break
            self._move(at - self.ran)
            for until, woken in self._sleepers:
                if until <= at and not woken.done():
                    woken.set_result(None)
            await self.settle()
        self._move(end - self.ran)

    def set(self, **span: float) -> None:
        """Somebody sets the wall clock, or the machine sleeps: no time passes for those who sleep in it."""
        self.now = (self.now.astimezone(UTC) + timedelta(**span)).astimezone(BERLIN)

    def _move(self, seconds: float) -> None:
        self.ran += max(0.0, seconds)
        self.set(seconds=max(0.0, seconds))
