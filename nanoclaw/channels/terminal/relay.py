"""A terminal that outlives the process which answers: messages typed in between wait for the next one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime

from nanoclaw.channels.attach import LAST
from nanoclaw.channels.terminal.chat import Terminal
from nanoclaw.clock import paced, pause
from nanoclaw.core.channel import Deliver
from nanoclaw.core.events import Event
from nanoclaw.core.messages import Address, Inbound, Outbound


class Relay:
    """The terminal as a channel of one process after the other. Cancelled, `run` leaves the screen as it is."""

    def __init__(self, terminal: Terminal) -> None:
        self.name, self.hints = terminal.name, terminal.hints
        self._terminal = terminal
        self._sitting: asyncio.Task[None] | None = None
        self._deliver: Deliver | None = None
        self._is_answered = asyncio.Event()
        self.seen = LAST  # the row of the newest message that was shown; LAST in a conversation that is new here

    @property
    def alive(self) -> datetime | None:
        return self._terminal.alive

    @property
    def address(self) -> Address:
        return self._terminal.address

    @property
    def place(self) -> tuple[str, int]:
        return self.address.chat, self.seen

    async def run(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._is_answered.set()
        if self._sitting is None:
            self._terminal.greet()
            self._sitting = asyncio.create_task(self._terminal.run(self._hand_on))
        try:
            await asyncio.shield(self._sitting)
        finally:
            self._is_answered.clear()
            if not self._sitting.done():
                self._terminal.cut_off()

    def serves(self, outbound: Outbound) -> bool:
        return self._terminal.serves(outbound)

    async def send(self, outbound: Outbound) -> str:
        shown = await self._terminal.send(outbound)
        self.seen = max(self.seen, outbound.row)
        return shown

    def show(self, address: Address, event: Event) -> None:
        self._terminal.show(address, event)

    async def left(self, seconds: float) -> bool:
        """True when the person leaves within so many seconds."""
        if self._sitting is None:
            await pause(seconds)
            return False
        done, _ = await asyncio.wait([self._sitting], timeout=paced(seconds))
        return bool(done)

    async def aclose(self) -> None:
        if self._sitting:
            self._sitting.cancel()
            with suppress(asyncio.CancelledError):
                await self._sitting

    async def _hand_on(self, inbound: Inbound) -> None:
        """A message is sent again, under its own id, unless the last process is known to have received it."""
        while True:
            await self._is_answered.wait()
            assert self._deliver
            with suppress(ConnectionError):
                await self._deliver(inbound)
                return
