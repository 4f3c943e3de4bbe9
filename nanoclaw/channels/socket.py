"""Terminals that are attached to a running process through a Unix socket, and the terminal's side of such a line."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import socket
import struct
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, get_args

from nanoclaw.attach import HELLO_SECONDS, LONGEST, NAME, VERSION, Link, in_reach
from nanoclaw.channels.base import Channel, Deliver, Hints
from nanoclaw.channels.plain import Plain
from nanoclaw.channels.text import one_line, printable
from nanoclaw.errors import NanoclawError, StoreError
from nanoclaw.events import Event, Joined, Notice, ReasoningDelta, Receipt, TextDelta, ToolStarted, TurnEnded
from nanoclaw.messages import Address, Attachment, Inbound, Outbound, ToolCall, Usage, UserMessage

_MOST_UNREAD = 8_000_000  # bytes kept for a client that does not read
_MOST_LINES = 64
_MOST_FILES = 100
_REFUSING_SECONDS = 1.0
_JUST_NOW = timedelta(minutes=2)  # so old a message is what the start itself brought
_SHOWN_SECONDS = 10.0  # until which a client has shown what it was sent

Frame = dict[str, Any]


class Desk(Protocol):
    """What the terminals want to know of the process that they are attached to."""

    def facts(self) -> dict[str, Any]:
        """Its model and version."""
        ...

    def status(self) -> dict[str, Any]: ...

    def waiting(self, serves: Callable[[Outbound], bool]) -> list[tuple[Address, datetime]]:
        """Where and since when messages wait for somebody who reads them, of those that `serves` is true for."""
        ...

    def cron(self, line: str) -> str:
        """What /cron does with such a line, and says. Raises NanoclawError."""
        ...

    def arrived(self) -> None:
        """Somebody is there now who was not before."""
        ...

    def listening(self) -> None:
        """Whoever wants to may attach now."""
        ...


class Face(Protocol):
    """One terminal, in this process or attached to it."""

    def serves(self, outbound: Outbound) -> bool: ...

    async def send(self, outbound: Outbound) -> str: ...

    def show(self, address: Address, event: Event) -> None: ...


class Terminals:
    """The channel "terminal" of a process that others attach to: its `own` terminal, if it has one, and theirs.

    A message is delivered when one of them has shown it.
    """

    def __init__(self, home: Path, desk: Desk, clock: Callable[[], datetime], own: Channel | None = None) -> None:
        self.name = "terminal"
        self.hints = Hints(markup="markdown")
        self.alive: datetime | None = None
        self._home, self._desk, self._clock, self._own = home, desk, clock, own
        self._faces: list[Face] = [own] if own else []
        self._is_up = own is None  # what waits comes after the own terminal's greeting
        self._lines: set[asyncio.Task[None]] = set()
        self._open: dict[Address, list[str]] = {}  # ids of what was handed in and is not answered, in order
        self._turning: set[Address] = set()
        self._deliver: Deliver = _nowhere

    @property
    def attached(self) -> int:
        return len(self._lines)

    async def run(self, deliver: Deliver) -> None:
        """Until the person at the own terminal leaves, or for ever. Raises OSError where nothing can listen."""
        self._deliver = deliver
        server = await self._listen()
        self._desk.listening()
        try:
            if self._own:
                asyncio.get_running_loop().call_soon(self._up, self._own)
                await self._own.run(lambda inbound: self._hand_in(inbound, self._own))
            else:
                await asyncio.Event().wait()
        finally:
            if server:
                server.close()
                with contextlib.suppress(OSError):
                    (self._home / NAME).unlink()
            for line in self._lines:
                line.cancel()
            await asyncio.gather(*self._lines, return_exceptions=True)

    def serves(self, outbound: Outbound) -> bool:
        return self._is_up and any(face.serves(outbound) for face in self._faces)

    async def send(self, outbound: Outbound) -> str:
        """Raises ConnectionError when nobody has shown it."""
        there = [face for face in self._faces if face.serves(outbound)]
        shown = await asyncio.gather(*(face.send(outbound) for face in there), return_exceptions=True)
        self._answered(outbound.address, [outbound.reply_to])
        for result in shown:
            if isinstance(result, str):
                return result
        raise next((result for result in shown if isinstance(result, Exception)), ConnectionError("nobody is there"))

    def show(self, address: Address, event: Event) -> None:
        for face in self._faces:
            face.show(address, event)
        match event:
            case Joined(ids):
                self._answered(address, ids)
            case TurnEnded(answer, reason):
                self._turning.discard(address)
                if reason == "cancelled":  # what waited was dropped with it
                    self._open.pop(address, None)
                elif reason == "answered" and not answer:  # nothing more comes
                    self._answered(address, self._open.get(address, [])[:1])
            case Notice() | Receipt():
                pass
            case _:
                self._turning.add(address)

    def _up(self, own: Channel) -> None:
        self._tell_waiting(own)
        self._is_up = True
        self._desk.arrived()

    def _tell_waiting(self, face: Face) -> None:
        if waiting := self._desk.waiting(face.serves):
            address, since = min(waiting, key=itemgetter(1))
            began = since.astimezone(self._clock().tzinfo)
            ago = "" if self._clock() - since < _JUST_NOW else f", since {began:%a %d %b, %H:%M}"
            face.show(address, Notice(f"while you were away{ago}:"))

    # --- in ----------------------------------------------------------------------------------------------------------

    async def _hand_in(self, inbound: Inbound, by: Face | None, said: str = "another terminal") -> None:
        """What one terminal says is news to the others of its conversation."""
        self._open.setdefault(inbound.address, []).append(inbound.external_id)
        try:
            await self._deliver(inbound)
        except BaseException:
            self._answered(inbound.address, [inbound.external_id])
            raise
        heard = Notice(f"{said}: {one_line(inbound.message.text, 200)}")
        for face in self._faces:
            if face is not by and not isinstance(face, _Asking):
                face.show(inbound.address, heard)

    def _answered(self, address: Address, ids: Iterable[str]) -> None:
        for face in self._faces:
            if isinstance(face, _Asking):
                face.answered(ids)
        left = [one for one in self._open.get(address, ()) if one not in ids]
        if left:
            self._open[address] = left
        else:
            self._open.pop(address, None)

    # --- the socket --------------------------------------------------------------------------------------------------

    async def _listen(self) -> asyncio.Server | None:
        """The owner of the home is alone with the path: what lies there was left by one that is gone."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with contextlib.suppress(FileNotFoundError):
                (self._home / NAME).unlink()
            mask = os.umask(0o177)
            try:
                in_reach(str(self._home), listening.bind)
            finally:
                os.umask(mask)
            return await asyncio.start_unix_server(self._welcome, sock=listening, limit=LONGEST)
        except OSError as error:
            listening.close()
            if self._own is None:
                raise
            from nanoclaw.log import logger

            logger.warning("nobody can attach to this terminal: {}: {}", self._home / NAME, error.strerror)
            return None

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        line = _Line(reader, writer)
        self._lines.add(task)
        try:
            await self._serve(line)
        except _Refused as refusal:
            await line.refuse(str(refusal))
        except ConnectionError:
            pass
        except asyncio.CancelledError:
            line.send({"ended": f"the nanoclaw that this was attached to (process {os.getpid()}) has ended"})
        except Exception as error:
            from nanoclaw.log import logger

            logger.opt(exception=error).error("an attached terminal was let go")
        finally:
            self._lines.discard(task)
            line.close()

    async def _serve(self, line: _Line) -> None:
        if (uid := _peer(line.writer)) not in (None, os.getuid()):
            raise _Refused(f"this nanoclaw belongs to another user (you are user {uid})")
        if len(self._lines) > _MOST_LINES:
            raise _Refused(f"{_MOST_LINES} terminals are attached to this nanoclaw already")
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                hello = await line.receive()
        except TimeoutError:
            raise _Refused("say hello first") from None
        facts = self._desk.facts()
        if hello.get("nanoclaw") != VERSION:
            raise _Refused(
                f"process {os.getpid()} is nanoclaw {facts['version']} and cannot be talked to by this version: end "
                "it and start it again"
            )
        self.alive = self._clock()
        session = _text(hello, "session")
        if not session.isprintable():
            raise _Refused("the name of the session has signs that cannot be shown")
        address = Address(self.name, session)
        said_hello = {"nanoclaw": VERSION, "pid": os.getpid(), **facts}
        match hello.get("want"):
            case "status":
                line.send({**said_hello, "status": self._desk.status()})
            case "answer":
                line.send(said_hello)
                await self._answer(line, address)
            case "cron":
                line.send(said_hello)
                await self._cron(line)
            case "chat":
                line.send(said_hello)
                await self._chat(line, address)
            case other:
                raise _Refused(f"this nanoclaw does not know what {other!r} is")

    async def _chat(self, line: _Line, address: Address) -> None:
        face = _Attached(line, address, midway=address in self._turning)
        if not self.serves(Outbound(address, "")):
            self._tell_waiting(face)
        self._faces.append(face)
        self._desk.arrived()
        try:
            while True:
                frame = await line.receive()
                self.alive = self._clock()
                if "said" in frame:
                    await self._said(face, line, address, frame)
                elif "bye" in frame:
                    return
        finally:
            self._faces.remove(face)

    async def _said(self, face: Face, line: _Line, address: Address, frame: Frame) -> None:
        identity = _text(frame, "id")[:64]
        message = UserMessage(_text(frame, "said"), self._clock())
        try:
            await self._hand_in(Inbound(address, "owner", identity, message, _files(frame)), face)
            line.send({"accepted": identity})
        except NanoclawError as error:
            line.send({"rejected": identity, "why": str(error)})

    async def _answer(self, line: _Line, address: Address) -> None:
        """One question: what `nanoclaw -m` prints is written here, with the look that its terminal can show."""
        frame = await line.receive()
        ttys = frame.get("ttys")
        ttys = ttys if isinstance(ttys, dict) else {}
        plain = Plain(
            address.chat,
            _text(frame, "text"),
            clock=self._clock,
            attachments=_files(frame),
            as_json=frame.get("json") is True,
            session=address.chat,
            model=str(self._desk.facts()["model"]),
            stdout=_Stream(line, "out", ttys.get("out") is True),
            stderr=_Stream(line, "err", ttys.get("err") is True),
        )
        ahead = self._open.get(address, ["of a job"] if address in self._turning else [])
        face = _Asking(plain, line, address, ahead)
        self._faces.append(face)
        listening = asyncio.create_task(self._hear(line, address))
        asking = asyncio.create_task(plain.run(lambda inbound: self._hand_in(inbound, face, "nanoclaw -m")))
        try:
            await asyncio.wait([asking, listening], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                return  # whoever asked has left: the answer waits for the next terminal
            if error := asking.exception():
                if not isinstance(error, NanoclawError):
                    raise error
                line.send({"err": f"nanoclaw: {error}\n"})
            elif ttys.get("err") is True and not self.serves(Outbound(address, "")):
                waits = len(self._desk.waiting(lambda outbound: outbound.address == address))
                self._tell_count(line, waits)
            await line.shown()  # and with it what the outbox waits for
            good = asking.exception() is None and plain.reason == "answered"
            line.send({"bye": 0 if good else 1})
        finally:
            self._faces.remove(face)
            for task in (asking, listening):
                task.cancel()
            await asyncio.gather(asking, listening, return_exceptions=True)

    async def _cron(self, line: _Line) -> None:
        """`nanoclaw cron …`: between the command line and the jobs, and no part of any conversation."""
        try:
            line.send({"out": printable(self._desk.cron(_text(await line.receive(), "text"))) + "\n"})
            code = 0
        except NanoclawError as error:
            line.send({"err": f"nanoclaw: {printable(str(error))}\n"})
            code = 1
        line.send({"bye": code})

    def _tell_count(self, line: _Line, waits: int) -> None:
        if waits:
            words = "a message waits" if waits == 1 else f"{waits} messages wait"
            line.send({"err": f"· {words} for you: nanoclaw shows what\n"})

    async def _hear(self, line: _Line, address: Address) -> None:
        """What comes of one that asks: that it has shown something, or that it wants no more."""
        with contextlib.suppress(ConnectionError, _Refused):
            while True:
                if "stop" in await line.receive():
                    stop = UserMessage("/stop", self._clock())
                    await self._deliver(Inbound(address, "owner", os.urandom(8).hex(), stop))


class _Refused(Exception):
    """What a client did is not understood, and it is let go."""


class _Line:
    """Frames to and from one client. One that does not read is let go, and nobody waits for it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._asked: dict[int, asyncio.Future[bool]] = {}
        self._count = 0

    def send(self, frame: Frame) -> None:
        if self.writer.is_closing():
            return
        if self.writer.transport.get_write_buffer_size() > _MOST_UNREAD:
            self.writer.transport.abort()
            return
        self.writer.write(json.dumps(frame).encode() + b"\n")

    async def refuse(self, sentence: str) -> None:
        """Take what still comes, or closing would take the sentence away."""
        self.send({"refused": sentence})
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_REFUSING_SECONDS):
                self.writer.write_eof()
                while await self.reader.read(65536):
                    pass

    async def receive(self) -> Frame:
        """The next frame that is no confirmation. Raises ConnectionError at the end of the line."""
        while True:
            try:
                line = await self.reader.readline()
            except ValueError:
                raise _Refused(f"a line may have {LONGEST // 1_000_000} MB at most") from None
            if not line.endswith(b"\n"):
                self._settle(False)
                raise ConnectionError("the terminal is gone")
            try:
                frame = json.loads(line)
            except (ValueError, RecursionError):
                frame = None
            if not isinstance(frame, dict):
                raise _Refused("a line must be one JSON object")
            if "shown" not in frame:
                return frame
            if waiting := self._asked.pop(frame["shown"] if isinstance(frame["shown"], int) else 0, None):
                waiting.set_result(True)

    async def shown(self) -> None:
        """Wait until all that was sent has been shown. Raises ConnectionError."""
        self._count += 1
        asked = self._asked[self._count] = asyncio.get_running_loop().create_future()
        self.send({"confirm": self._count})
        try:
            async with asyncio.timeout(_SHOWN_SECONDS):
                told = await asked
        except TimeoutError:
            self.writer.transport.abort()
            told = False
        if not told:
            raise ConnectionError("the terminal does not show it")

    def close(self) -> None:
        self._settle(False)
        self.writer.close()

    def _settle(self, told: bool) -> None:
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(told)
        self._asked.clear()


class _Attached:
    """A chat at the other end of a line: it draws by itself."""

    def __init__(self, line: _Line, address: Address, *, midway: bool = False) -> None:
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
        self._line.send({"event": type(event).__name__, "with": asdict(event)})

    async def send(self, outbound: Outbound) -> str:
        self._line.send({"text": outbound.text, "files": outbound.files, "reply_to": outbound.reply_to})
        await self._line.shown()
        return os.urandom(8).hex()


class _Asking:
    """One question at the other end of a line: it sees the turn that answers it, and nothing else."""

    def __init__(self, plain: Plain, line: _Line, address: Address, ahead: Iterable[str]) -> None:
        """`ahead` are the ids of what is answered before it."""
        self._plain, self._line, self._address, self._ahead = plain, line, address, list(ahead)
        self._is_next = False  # the next answer is its own, whoever's words the turn began with

    def serves(self, outbound: Outbound) -> bool:
        own = outbound.reply_to == self._plain.id
        return outbound.address == self._address and (own or (self._is_next and outbound.reply_to != ""))

    def answered(self, ids: Iterable[str]) -> None:
        self._ahead = [one for one in self._ahead if one not in ids]

    def show(self, address: Address, event: Event) -> None:
        if address != self._address:
            return
        if self._ahead:
            match event:
                case Joined(ids) if self._plain.id in ids:
                    self._ahead, self._is_next = [], True
                case TurnEnded(_, "cancelled"):  # all that waited was dropped
                    self._ahead, self._is_next = [], True
                    self._plain.show(address, event)
                case TurnEnded():
                    del self._ahead[0]
            return
        self._plain.show(address, event)

    async def send(self, outbound: Outbound) -> str:
        identity = await self._plain.send(replace(outbound, reply_to=self._plain.id))
        await self._line.shown()
        return identity


class _Stream(io.StringIO):
    """A stream of text whose other end is a client's."""

    def __init__(self, line: _Line, name: str, is_tty: bool) -> None:
        super().__init__()
        self._line, self._name, self._is_tty = line, name, is_tty

    def write(self, text: str) -> int:
        self._line.send({self._name: text})
        return len(text)

    def isatty(self) -> bool:
        return self._is_tty


async def _nowhere(inbound: Inbound) -> None:
    raise AssertionError("nothing is delivered before it runs")


def _peer(writer: asyncio.StreamWriter) -> int | None:
    """The user at the other end, where the system tells."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    line = writer.get_extra_info("socket")
    _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(uid)


def _text(frame: Frame, name: str) -> str:
    value = frame.get(name, "")
    if not isinstance(value, str):
        raise _Refused(f"{name!r} must be a text")
    return value


def _files(frame: Frame) -> tuple[Attachment, ...]:
    files = frame.get("files", [])
    if not isinstance(files, list) or len(files) > _MOST_FILES or not all(map(_is_file, files)):
        raise _Refused(f"'files' must be a list of at most {_MOST_FILES}, each with path, name and type")
    return tuple(Attachment(*file) for file in files)


def _is_file(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(isinstance(part, str) for part in value)


# --- the terminal's side ---------------------------------------------------------------------------------------------

_EVENTS = {kind.__name__: kind for kind in get_args(Event)}


async def talk(link: Link, terminal: Channel, address: Address) -> None:
    """A terminal in this process, at the other end of the line. Returns when the person leaves; raises StoreError when
    the line ends."""
    link.socket.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=link.socket, limit=2 * LONGEST)
    if link.rest:
        reader.feed_data(bytes(link.rest))
    side = _Side(link, reader, writer, terminal, address)
    talking = asyncio.ensure_future(terminal.run(side.deliver))  # its greeting comes first
    hearing = asyncio.create_task(side.hear())
    try:
        await asyncio.wait([hearing, talking], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (hearing, talking):
            task.cancel()
        await asyncio.gather(hearing, talking, return_exceptions=True)
        writer.close()
    for task in (talking, hearing):
        if not task.cancelled():
            task.result()


class _Side:
    def __init__(
        self,
        link: Link,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        terminal: Channel,
        address: Address,
    ) -> None:
        self._link, self._reader, self._writer = link, reader, writer
        self._terminal, self._address = terminal, address
        self._handed_in: dict[str, asyncio.Future[str]] = {}

    async def deliver(self, inbound: Inbound) -> None:
        identity = inbound.external_id
        answer = self._handed_in[identity] = asyncio.get_running_loop().create_future()
        files = [(file.path, file.name, file.mime) for file in inbound.attachments]
        self._send({"said": inbound.message.text, "id": identity, "files": files})
        if why := await answer:
            raise StoreError(why)

    async def hear(self) -> None:
        while True:
            try:
                line = await self._reader.readline()
            except ConnectionError:
                line = b""
            if not line.endswith(b"\n"):
                raise self._link.ended()
            await self._take(json.loads(line))

    async def _take(self, frame: Frame) -> None:
        if "event" in frame:
            if event := _event(frame):
                self._terminal.show(self._address, event)
        elif "text" in frame:
            answer = Outbound(self._address, frame["text"], tuple(frame["files"]), frame["reply_to"])
            await self._terminal.send(answer)
        elif "confirm" in frame:
            self._send({"shown": frame["confirm"]})
        elif "accepted" in frame or "rejected" in frame:
            identity = frame.get("accepted") or frame.get("rejected") or ""
            if waiting := self._handed_in.pop(identity, None):
                waiting.set_result(frame.get("why", ""))
        elif "ended" in frame or "refused" in frame:
            raise StoreError(frame.get("ended") or frame["refused"])

    def _send(self, frame: Frame) -> None:
        self._writer.write(json.dumps(frame).encode() + b"\n")


def _event(frame: Frame) -> Event | None:
    """None for one that this version does not know."""
    kind, values = _EVENTS.get(frame["event"]), dict(frame["with"])
    if "call" in values:
        values["call"] = ToolCall(**values["call"])
    if "usage" in values:
        values["usage"] = Usage(**values["usage"])
    if "external_ids" in values:
        values["external_ids"] = tuple(values["external_ids"])
    event: Event | None = kind(**values) if kind else None
    return event
