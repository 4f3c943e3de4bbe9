"""The channel of terminals in a process that others attach to through a Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

from nanoclaw.channels.attach import HELLO_SECONDS, LAST, TIMEOUT_SECONDS, VERSION
from nanoclaw.channels.plain import OneQuestion, Plain
from nanoclaw.channels.socket.attached import AttachedChat, AttachedQuestion, ClientStream
from nanoclaw.channels.socket.frames import ClientLine, ClientRefused, Frame, files_of, text_of
from nanoclaw.channels.text import FOOTER
from nanoclaw.core.channel import Channel, Deliver, Hints
from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.core.events import (
    Event,
    GoTo,
    Joined,
    Notice,
    Queued,
    Receipt,
    Settled,
    StatusLines,
    TurnBegan,
    TurnEnded,
    TurnPaused,
)
from nanoclaw.core.messages import Address, Inbound, Outbound, UserMessage
from nanoclaw.escapes import one_line, printable
from nanoclaw.home_socket import LONGEST, NAME, in_reach
from nanoclaw.log import logger

GATEWAY_SECONDS = 5.0
"""In which a gateway, for which the home was given up, has begun to listen."""

_MOST_LINES = 64
_FOOT_SECONDS = 1.0  # after the start: what a footer needs is loaded by then
_JUST_NOW = timedelta(minutes=2)  # so old a message is what the start itself brought


class AttachHost(Protocol):
    """The process as clients that are attached to it see it."""

    def facts(self) -> dict[str, Any]:
        """Its model and version; for a chat also its commands and what the owner has to know at once."""
        ...

    async def status(self) -> dict[str, Any]: ...

    def footer(self, address: Address) -> str:
        """A line about a conversation: its name, length, cost and model."""
        ...

    def words(self) -> dict[str, list[list[str]]]:
        """Words that may follow each command, each with a remark."""
        ...

    def waiting(self, serves: Callable[[Outbound], bool]) -> list[tuple[Address, datetime]]:
        """Address and time of each message that waits for a reader, of those that `serves` is true for."""
        ...

    def shown_since(self, address: Address, row: int) -> list[Outbound]:
        """Messages that were shown there after a row, in order."""
        ...

    def questions(self, address: Address) -> list[str]:
        """The open questions that were asked there, each in words for somebody who has not seen it."""
        ...

    async def carry_out(self, command: str, *, as_json: bool) -> str | None:
        """The reply to the owner's "/jobs"; None for a message of a conversation. Raises NanoclawError."""
        ...

    def as_typed(self, text: str) -> str:
        """A message as its writer typed it."""
        ...

    def arrived(self) -> None:
        """Somebody is there now who was not before."""
        ...

    def hand_over(self) -> None:
        """The process ends, and another one is about to continue with its terminals: what runs is left to that."""
        ...


class AttachedTerminal(Protocol):
    """One terminal, in this process or attached to it."""

    def serves(self, outbound: Outbound) -> bool: ...

    async def send(self, outbound: Outbound) -> str: ...

    def show(self, address: Address, event: Event) -> None: ...


class Terminals:
    """The channel "terminal" of a process that others attach to: its `own` terminal, if it has one, and theirs.

    A message is delivered when one of them has shown it.
    """

    def __init__(self, home: Path, host: AttachHost, clock: Callable[[], datetime], own: Channel | None = None) -> None:
        self.name = "terminal"
        self.hints = Hints(markup="markdown", bursts=False, notices=True)
        self.alive: datetime | None = None
        self._home, self._host, self._clock, self._own = home, host, clock, own
        self._terminals: list[AttachedTerminal] = [own] if own else []
        self._is_up = asyncio.Event()  # what waits comes after the own terminal's greeting
        if own is None:
            self._is_up.set()
        self.listening = asyncio.Event()
        """Set once terminals can attach."""
        self._given_up = asyncio.Event()  # the home is asked for by a gateway
        self._lines: set[asyncio.Task[None]] = set()
        self._open: dict[Address, list[str]] = {}  # ids of what was handed in and is not answered, in order
        self._turning = dict[Address, str]()  # the message that each running turn began with, "" for none that is known
        self._status: dict[Address, dict[str, StatusLines]] = {}  # the lines that stand below each conversation
        self._footing: asyncio.TimerHandle | None = None
        self._just = deque[Outbound](maxlen=20)  # what was shown last, of which the store may not know yet
        self._deliver: Deliver  # once it runs

    @property
    def is_given_up(self) -> bool:
        """True once a gateway takes over the home."""
        return self._given_up.is_set()

    async def run(self, deliver: Deliver) -> None:
        """Serve until the person at the own terminal leaves or a gateway takes over; without one for ever. Raises
        OSError if nothing can listen."""
        self._deliver = deliver
        server = await self._listen()
        self.listening.set()
        try:
            if self._own:
                await self._serve_own(self._own)
            else:
                await asyncio.Event().wait()
            if self.is_given_up or any(isinstance(one, AttachedChat) for one in self._terminals):
                self._host.hand_over()
        finally:
            if self._footing:
                self._footing.cancel()
            if not self._is_up.is_set():  # nobody has seen anything
                self._terminals.clear()
            if server:
                server.close()
                with contextlib.suppress(OSError):
                    (self._home / NAME).unlink()
            for line in self._lines:
                line.cancel()
            await asyncio.gather(*self._lines, return_exceptions=True)

    async def _serve_own(self, own: Channel) -> None:
        talking = asyncio.ensure_future(own.run(lambda inbound: self._hand_in(inbound, own)))
        asyncio.get_running_loop().call_soon(self._up, own)
        giving_up = asyncio.ensure_future(self._given_up.wait())
        try:
            await asyncio.wait([talking, giving_up], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (talking, giving_up):
                task.cancel()
            await asyncio.gather(talking, giving_up, return_exceptions=True)
        if not talking.cancelled():
            talking.result()

    def serves(self, outbound: Outbound) -> bool:
        return any(terminal.serves(outbound) for terminal in self._terminals)

    async def send(self, outbound: Outbound) -> str:
        """Raises ConnectionError if nobody has shown it."""
        await self._is_up.wait()
        there, shown = list[AttachedTerminal](), list[str | BaseException]()
        while new := [one for one in self._terminals if one.serves(outbound) and one not in there]:  # or came meanwhile
            there += new
            shown += await asyncio.gather(*(one.send(outbound) for one in new), return_exceptions=True)
        self._just.append(outbound)
        self._answered(outbound.address, [outbound.reply_to])
        self._foot(outbound.address)
        for result in shown:
            if isinstance(result, str):
                return result
        raise next((result for result in shown if isinstance(result, Exception)), ConnectionError("nobody is there"))

    def show(self, address: Address, event: Event) -> None:
        for terminal in self._terminals:
            terminal.show(address, event)
        match event:
            case Joined(ids):
                self._answered(address, ids)
            case TurnBegan(reply_to):
                self._turning[address] = reply_to
            case TurnEnded(_, "cancelled"):  # what waited was dropped with it
                self._turning.pop(address, None)
                self._open.pop(address, None)
            case TurnEnded():
                turn = self._turning.pop(address, "")
                self._answered(address, [turn] if turn else self._open.get(address, [])[:1])
            case TurnPaused():
                self._turning.pop(address, None)
            case StatusLines(key, text, is_last):
                lines = self._status.setdefault(address, {})
                lines.pop(key, None)
                if text and not is_last:
                    lines[key] = event
                elif not lines:
                    del self._status[address]
            case Notice() | Receipt() | GoTo() | Queued() | Settled():
                pass
            case _:
                self._turning.setdefault(address, "")

    def _foot(self, address: Address) -> None:
        """Show the terminals of a conversation how it stands."""
        at = {address, getattr(self._own, "address", address)}  # the own terminal may just have gone elsewhere
        for place in at if any(one for one in self._terminals if not isinstance(one, AttachedQuestion)) else ():
            with contextlib.suppress(NanoclawError):
                if text := self._host.footer(place):
                    self.show(place, StatusLines(FOOTER, text))
            for lines in [*self._status.get(place, {}).values()] if place != address else ():
                self.show(place, lines)

    def _up(self, own: Channel) -> None:
        at = getattr(own, "address", Address(self.name, "main"))
        # after what is typed first
        self._footing = asyncio.get_running_loop().call_later(_FOOT_SECONDS, self._foot, at)
        self._tell_waiting(own)
        self._is_up.set()

    def _tell_waiting(self, terminal: AttachedTerminal) -> None:
        if waiting := self._host.waiting(terminal.serves):
            address, since = min(waiting, key=itemgetter(1))
            began = since.astimezone(self._clock().tzinfo)
            ago = "" if self._clock() - since < _JUST_NOW else f", since {began:%a %d %b, %H:%M}"
            terminal.show(address, Notice(f"while you were away{ago}:"))

    # --- in ----------------------------------------------------------------------------------------------------------

    async def _hand_in(self, inbound: Inbound, by: AttachedTerminal | None, said: str = "another terminal") -> None:
        """Take in what one terminal says, and tell the others of its conversation."""
        ahead = self._open.setdefault(inbound.address, [])
        if isinstance(by, AttachedQuestion):
            by.ahead = [*ahead, *filter(None, [self._turning.get(inbound.address)])]
        ahead += [inbound.external_id] * (not inbound.is_edit)
        try:
            await self._deliver(inbound)
        except BaseException:
            self._answered(inbound.address, [inbound.external_id])
            raise
        if inbound.is_withdrawn:
            self._answered(inbound.address, [inbound.external_id])
        typed = one_line(self._host.as_typed(inbound.message.text), 200)
        heard = Notice(f"{said}: {typed or 'a line was taken back'}")
        for terminal in self._terminals:
            if terminal is not by and not isinstance(terminal, AttachedQuestion):
                terminal.show(inbound.address, heard)

    def _answered(self, address: Address, ids: Iterable[str]) -> None:
        for terminal in self._terminals:
            if isinstance(terminal, AttachedQuestion):
                terminal.answered(ids)
        self._open[address] = [one for one in self._open.get(address, ()) if one not in ids]

    # --- the socket --------------------------------------------------------------------------------------------------

    async def _listen(self) -> asyncio.Server | None:
        """The owner of the home is alone with the path: what is there was left by one that is gone."""
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
            logger.warning("nobody can attach to this terminal: {}: {}", self._home / NAME, error.strerror)
            return None

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        line = ClientLine(reader, writer)
        self._lines.add(task)
        try:
            await self._serve(line)
        except ClientRefused as refusal:
            await line.refuse(str(refusal))
        except ConnectionError:
            pass
        except asyncio.CancelledError:
            seconds = GATEWAY_SECONDS if self.is_given_up else 0.0
            line.send({"ended": f"process {os.getpid()}, which was answering, has ended", "seconds": seconds})
        except Exception as error:
            logger.opt(exception=error).error("an attached terminal was disconnected")
        finally:
            self._lines.discard(task)
            line.close()

    async def _serve(self, line: ClientLine) -> None:
        if (uid := _peer(line.writer)) not in (None, os.getuid()):
            raise ClientRefused(f"this nanoclaw belongs to another user (you are user {uid})")
        if len(self._lines) > _MOST_LINES:
            raise ClientRefused(f"{_MOST_LINES} terminals are attached to this nanoclaw already")
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                hello = await line.receive()
        except TimeoutError:
            raise ClientRefused("say hello first") from None
        facts = self._host.facts()
        if hello.get("nanoclaw") != VERSION:
            raise ClientRefused(
                f"process {os.getpid()} is nanoclaw {facts['version']}, which this version cannot connect to: "
                "end it and start it again"
            )
        self.alive = self._clock()
        session = text_of(hello, "session")
        if not session.isprintable():
            raise ClientRefused("the name of the session has characters that cannot be shown")
        address = Address(self.name, session)
        if ":" in session and not self._host.shown_since(address, 0):  # as one of another channel is called
            own = [name for name, _ in self._host.words().get("/sessions open", ()) if ":" not in name]
            told = f"there are {', '.join(own[:20])}" if own else "there is none yet"
            raise ClientRefused(f"there is no conversation {session!r} for a terminal; {told}")
        said_hello = {"nanoclaw": VERSION, "pid": os.getpid(), **facts}
        match hello.get("want"):
            case "status":
                line.send({**said_hello, "status": await self._host.status()})
            case "home" if self._own is None:
                raise ClientRefused(f"process {os.getpid()} is a gateway and uses {self._home} already: end it first")
            case "home":
                line.send(said_hello)
                self._given_up.set()
            case "answer" | "command" as want:
                line.send(said_hello)
                frame = await line.receive()
                if want == "answer" or not await self._carry_out(line, frame):
                    await self._answer(line, address, frame)
            case "chat":
                line.send({**said_hello, "words": self._host.words()})
                await self._chat(line, address, hello.get("seen"))
            case other:
                raise ClientRefused(f"this nanoclaw does not know what {other!r} is")

    async def _chat(self, line: ClientLine, address: Address, seen: object) -> None:
        """A chat; it gets first what others were shown after the last message that it has `seen`."""
        terminal = AttachedChat(line, address, midway=address in self._turning)
        if isinstance(seen, int) and 0 <= seen < LAST:
            stored = self._host.shown_since(address, seen)
            last = max([seen, *(one.row for one in stored)])
            terminal.catch_up([*stored, *(one for one in self._just if one.address == address and one.row > last)])
        if not self.serves(Outbound(address, "")):
            self._tell_waiting(terminal)
        for question in self._host.questions(address):
            terminal.show(address, Notice(question))
        for lines in self._status.get(address, {}).values():
            terminal.show(address, lines)
        self._terminals.append(terminal)
        self._foot(address)
        self._host.arrived()
        try:
            while True:
                frame = await line.receive()
                self.alive = self._clock()
                if "said" in frame:
                    await self._said(terminal, line, address, frame)
                elif "bye" in frame:
                    return
        finally:
            self._terminals.remove(terminal)

    async def _said(self, terminal: AttachedTerminal, line: ClientLine, address: Address, frame: Frame) -> None:
        identity = text_of(frame, "id")[:64]
        message = UserMessage(text_of(frame, "said"), self._clock())
        try:
            is_edit, files = frame.get("is_edit") is True, files_of(frame)
            await self._hand_in(Inbound(address, "owner", identity, message, files, is_edit=is_edit), terminal)
            line.send({"accepted": identity})
        except NanoclawError as error:
            line.send({"rejected": identity, "why": str(error)})

    async def _answer(self, line: ClientLine, address: Address, frame: Frame) -> None:
        """One question: what `nanoclaw -m` prints is written here, with the look that its terminal can show."""
        ttys = frame.get("ttys")
        ttys = ttys if isinstance(ttys, dict) else {}
        as_json, timeout = frame.get("json") is True, frame.get("timeout")
        timeout = float(timeout) if isinstance(timeout, int | float) and timeout > 0 else TIMEOUT_SECONDS
        question = OneQuestion(text_of(frame, "text"), address.chat, files_of(frame), as_json, timeout)
        plain = Plain(
            question,
            self._clock,
            model=str(self._host.facts()["model"]),
            stdout=ClientStream(line, "out", ttys.get("out") is True),
            stderr=ClientStream(line, "err", ttys.get("err") is True),
        )
        terminal = AttachedQuestion(plain, line, address, self._open)
        self._terminals.append(terminal)
        listening = asyncio.create_task(self._hear(line, terminal, address))
        asking = asyncio.create_task(plain.run(lambda inbound: self._hand_in(inbound, terminal, "nanoclaw -m")))
        try:
            await asyncio.wait([asking, listening], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():  # whoever asked has left: an answer that is begun waits for the next terminal
                if terminal.ahead:
                    await self._hand_in(plain.withdrawal, terminal, "nanoclaw -m")
                    line.send({"bye": 130})
                return
            if error := asking.exception():
                if not isinstance(error, NanoclawError):
                    raise error
                line.send({"err": f"nanoclaw: {error}\n"})
            elif ttys.get("err") is True and not self.serves(Outbound(address, "")):
                waits = len(self._host.waiting(lambda outbound: outbound.address == address))
                words = "a message waits" if waits == 1 else f"{waits} messages wait"
                line.send({"err": f"· {words} for you: nanoclaw shows what\n" * bool(waits)})
            await line.shown()  # and with it what the outbox waits for
            good = asking.exception() is None and plain.is_answered
            line.send({"bye": 0 if good else 1})
        finally:
            self._terminals.remove(terminal)
            for task in (asking, listening):
                task.cancel()
            await asyncio.gather(asking, listening, return_exceptions=True)

    async def _carry_out(self, line: ClientLine, frame: Frame) -> bool:
        """`nanoclaw jobs …` and its like; False for what is a message of a conversation."""
        code = 0
        try:
            said = await self._host.carry_out(text_of(frame, "text"), as_json=frame.get("json") is True)
            if said is None:
                return False
            line.send({"out": printable(said) + "\n"})
        except NanoclawError as error:
            line.send({"err": f"nanoclaw: {printable(str(error))}\n"})
            code = 2 if isinstance(error, ConfigError) else 1
        line.send({"bye": code})
        return True

    async def _hear(self, line: ClientLine, terminal: AttachedQuestion, address: Address) -> None:
        """Handle what a client that asked reports: it has shown something, or wants no more. Returns when it is gone,
        or is not answered yet and wants no more."""
        with contextlib.suppress(ConnectionError, ClientRefused):
            while True:
                if "stop" in await line.receive():
                    if terminal.ahead:
                        return
                    stop = UserMessage("/stop", self._clock())
                    await self._deliver(Inbound(address, "owner", os.urandom(8).hex(), stop))


def _peer(writer: asyncio.StreamWriter) -> int | None:
    """The user at the other end, if the system reports it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    line = writer.get_extra_info("socket")
    _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(uid)
