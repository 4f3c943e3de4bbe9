"""The clients of a process, as it sees them: a chat, or one question."""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate

from nanoclaw.channels.plain import Plain
from nanoclaw.channels.socket.frames import ClientLine
from nanoclaw.core.events import Event, ReasoningDelta, TextDelta, ToolStarted, TurnBegan, TurnEnded
from nanoclaw.core.messages import Address, Outbound, ToolCall, Usage

_PART = 500_000  # characters: at most 6 MB, however they are written


class AttachedChat:
    """A chat at the other end of a connection, which draws it."""

    def __init__(self, line: ClientLine, address: Address, *, midway: bool = False) -> None:
        """`midway`: it came while a turn ran. The end of a text without its beginning is not shown."""
        self._line, self._address, self._midway = line, address, midway

    def serves(self, outbound: Outbound) -> bool:
        return outbound.address == self._address

    def show(self, address: Address, event: Event) -> None:
        if address != self._address:
            return
        if self._midway and isinstance(event, TextDelta):
            event = ReasoningDelta("")
        elif isinstance(event, ToolStarted | TurnEnded):
            self._midway = False
        fields = event._asdict().items()
        values = {name: value._asdict() if isinstance(value, ToolCall | Usage) else value for name, value in fields}
        self._line.send({"event": type(event).__name__, "with": values})

    def catch_up(self, missed: Sequence[Outbound]) -> None:
        """Send the newest of what it has missed, as much as a line takes: nobody waits until that is shown."""
        fits = sum(total <= _PART for total in accumulate(len(one.text) for one in reversed(missed)))
        for outbound in missed[len(missed) - fits :]:
            self._send(outbound, outbound.text)
            self._line.send({"confirm": 0})

    async def send(self, outbound: Outbound) -> str:
        """A long text goes in parts that a line takes, each after the one before has arrived."""
        text = outbound.text
        while len(text) > _PART:
            self._line.send({"part": text[:_PART]})
            await self._line.shown()
            text = text[_PART:]
        self._send(outbound, text)
        await self._line.shown()
        return os.urandom(8).hex()

    def _send(self, outbound: Outbound, text: str) -> None:
        about = {"files": outbound.files, "reply_to": outbound.reply_to, "key": outbound.key}
        self._line.send({"text": text, **about})


class AttachedQuestion:
    """One question at the other end of a line: it sees the turn that answers it, and nothing else."""

    def __init__(
        self, plain: Plain, line: ClientLine, address: Address, waiting: Mapping[Address, Collection[str]]
    ) -> None:
        """`waiting` has the ids of all that waits for its answer."""
        self._plain, self._line, self._address, self._waiting = plain, line, address, waiting
        self.ahead = ["its handing in"]  # ids of what is answered before it
        self._is_next = False  # the next answer is its own, whoever's words the turn began with

    def serves(self, outbound: Outbound) -> bool:
        own = outbound.reply_to == self._plain.id
        return outbound.address == self._address and (own or (self._is_next and outbound.reply_to != ""))

    def answered(self, ids: Iterable[str]) -> None:
        self.ahead = [one for one in self.ahead if one not in ids]

    def show(self, address: Address, event: Event) -> None:
        if address != self._address:
            return
        if isinstance(event, TurnBegan) and event.reply_to in self._waiting.get(address, ()):
            self.ahead = [*self.ahead, event.reply_to] if event.reply_to != self._plain.id else []
        elif self.ahead and isinstance(event, TurnEnded) and event.reason == "cancelled":  # all that waited was dropped
            self.ahead, self._is_next = [], True
        if not self.ahead:
            self._plain.show(address, event)

    async def send(self, outbound: Outbound) -> str:
        identity = await self._plain.send(outbound._replace(reply_to=self._plain.id))
        await self._line.shown()
        return identity


class ClientStream(io.StringIO):
    """A stream of text whose other end is a client's."""

    def __init__(self, line: ClientLine, name: str, is_tty: bool) -> None:
        super().__init__()
        self._line, self._name, self._is_tty = line, name, is_tty

    def write(self, text: str) -> int:
        self._line.send({self._name: text})
        return len(text)

    def isatty(self) -> bool:
        return self._is_tty
