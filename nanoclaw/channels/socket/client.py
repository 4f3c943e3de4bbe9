"""The client: a terminal in this process, attached to the process that runs."""

from __future__ import annotations

import asyncio
import json
from typing import Protocol, get_args

from nanoclaw.channels.attach import LineEnded, Link, encoded
from nanoclaw.channels.socket.frames import Frame
from nanoclaw.core.channel import Channel
from nanoclaw.core.errors import StoreError
from nanoclaw.core.events import Event
from nanoclaw.core.messages import Address, Inbound, Outbound, ToolCall, Usage
from nanoclaw.home_socket import LONGEST

_EVENTS = {kind.__name__: kind for kind in get_args(Event)}


class ClientTerminal(Channel, Protocol):
    """The terminal of a client."""

    @property
    def address(self) -> Address: ...  # the conversation that it is in


async def talk(link: Link, terminal: ClientTerminal) -> None:
    """A terminal in this process, at the other end of the line. Returns when the person leaves or goes on with another
    conversation; raises LineEnded when the line ends."""
    link.socket.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=link.socket, limit=2 * LONGEST)
    if link.rest:
        reader.feed_data(bytes(link.rest))
    client = _Client(link, reader, writer, terminal)
    talking = asyncio.ensure_future(terminal.run(client.deliver))  # its greeting comes first
    receiving = asyncio.create_task(client.receive())
    try:
        await asyncio.wait([receiving, talking], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (receiving, talking):
            task.cancel()
        await asyncio.gather(receiving, talking, return_exceptions=True)
        client.close()
        writer.close()
    for task in (talking, receiving):
        if not task.cancelled():
            task.result()


class _Client:
    def __init__(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, terminal: ClientTerminal
    ) -> None:
        self._link, self._reader, self._writer = link, reader, writer
        self._terminal, self._address = terminal, terminal.address
        self._handed_in: dict[str, asyncio.Future[str]] = {}
        self._unconfirmed = False  # a text has come that the other side has not asked about
        self._parts: list[str] = []  # of a long text, whose end has yet to come

    async def deliver(self, inbound: Inbound) -> None:
        """Raises ConnectionError if the line ends before it is known that the message was accepted."""
        identity = inbound.external_id
        files = [(file.path, file.name, file.mime) for file in inbound.attachments]
        data = encoded({"said": inbound.message.text, "id": identity, "files": files, "is_edit": inbound.is_edit})
        answer = self._handed_in[identity] = asyncio.get_running_loop().create_future()
        self._writer.write(data)
        if why := await answer:
            raise StoreError(why)

    async def receive(self) -> None:
        while self._terminal.address == self._address or self._unconfirmed:
            try:
                line = await self._reader.readline()
            except ConnectionError:
                line = b""
            if not line.endswith(b"\n"):
                raise self._link.ended()
            await self._take(json.loads(line))

    async def _take(self, frame: Frame) -> None:
        if "event" in frame:
            if (event := _event(frame)) is not None:  # one without fields is an empty tuple
                self._terminal.show(self._address, event)
        elif "part" in frame:
            self._parts.append(frame["part"])
        elif "text" in frame:
            text, self._parts, self._unconfirmed = "".join([*self._parts, frame["text"]]), [], True
            key = frame.get("key", "")
            await self._terminal.send(Outbound(self._address, text, tuple(frame["files"]), frame["reply_to"], key))
        elif "confirm" in frame:
            self._writer.write(encoded({"shown": frame["confirm"]}))
            self._unconfirmed = False
        elif "accepted" in frame or "rejected" in frame:
            identity = frame.get("accepted") or frame.get("rejected") or ""
            if waiting := self._handed_in.pop(identity, None):
                waiting.set_result(frame.get("why", ""))
        elif "ended" in frame or "refused" in frame:
            raise LineEnded(frame.get("ended") or frame["refused"], frame.get("seconds", 0.0))

    def close(self) -> None:
        for waiting in self._handed_in.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the connection has ended"))
        self._handed_in.clear()


def _event(frame: Frame) -> Event | None:
    """None for one that this version does not know; what it does not know of one is left out."""
    kind, values = _EVENTS.get(frame["event"]), dict(frame["with"])
    if "call" in values:
        values["call"] = ToolCall(**values["call"])
    if "usage" in values:
        values["usage"] = Usage(**values["usage"])
    for name in {"external_ids", "files"} & values.keys():
        values[name] = tuple(values[name])
    event: Event | None = kind(**{name: values[name] for name in kind._fields if name in values}) if kind else None
    return event
