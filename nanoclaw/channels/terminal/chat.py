"""The terminal as a channel: what is typed goes in, what a turn does is shown, Ctrl-C stops it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nanoclaw.core import events
from nanoclaw.core.channel import Deliver, Hints
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.events import Event, GoTo, Joined, Notice, StatusLines, TurnBegan, TurnEnded, TurnPaused
from nanoclaw.core.messages import Address, Inbound, Outbound, UserMessage, is_stop
from nanoclaw.escapes import one_line, printable

if TYPE_CHECKING:
    from nanoclaw.channels.terminal.completions import Words

OWN_COMMANDS = {"/exit": "leave, as Ctrl-D does"}
"""Commands that only a terminal understands, with their help."""
_KEYS = (
    "keys: Ctrl-C stops, Alt-Enter begins a line, Alt-Up fetches what waits, Ctrl-O opens the last result, Ctrl-G an"
    " editor, Ctrl-R looks for what was typed; `@` completes files, `!ls` runs"
)

_LEAVE = ("/exit", "/quit")
_ANSWER_SECONDS = 2.0  # from the end of a turn until its answer is expected from the outbox
_AGAIN_SECONDS = 5.0  # within which a second Ctrl-C leaves
_REMEMBERED = 1000  # messages by which a repeat is known


class TerminalView(Protocol):
    """The screen of a terminal chat: a window with a live part, or plain lines."""

    async def run(self, submit: Callable[..., str], interrupt: Callable[[], None]) -> None:
        """Read until the person leaves; hand on each message, with the id of the one that it changes, and each Ctrl-C
        that does not merely clear a line. `submit` gives the id of the message, '' if it is none."""
        ...

    def show(self, event: Event) -> None: ...

    def say(self, text: str, reply_to: str = "") -> None:
        """A whole message of the assistant; what has just streamed of it is not said twice. `reply_to` is the id of
        the message that it answers."""
        ...

    def note(self, line: str) -> None: ...

    def busy(self, busy: bool) -> None:
        """Show that an answer is awaited, or no longer."""
        ...

    def stopping(self) -> None:
        """Forget the messages that wait: they will not be begun."""
        ...

    def cut_off(self) -> None:
        """Whoever answered is gone: the tools that ran was interrupted."""
        ...

    def leave(self) -> None: ...

    def type(self, text: str) -> bool:
        """Put words where the person types. False if something is typed already."""
        ...


class Terminal:
    """`run` returns when the person leaves. `commands` have a line of help each, and whether they take their turn in
    the queue. Behind one, `words` are completed; behind @, files of the workspace."""

    def __init__(
        self,
        chat: str,
        *,
        history_file: Path,
        clock: Callable[[], datetime],
        greeting: str = "",
        commands: Mapping[str, tuple[str, bool]] | None = None,
        words: Words = dict,
        workspace: Path | None = None,
        view: TerminalView | None = None,
    ) -> None:
        self.name = "terminal"
        self.hints = Hints(markup="markdown", bursts=False, notices=True)
        self.alive: datetime | None = None
        self.address = Address(self.name, chat)
        self._opened: GoTo | None = None  # where to go once the command that asks for it is answered
        self._clock, self._greeting = clock, greeting
        helps = {f"/{name}": help for name, (help, _) in (commands or {}).items() if help} | OWN_COMMANDS
        waiting = frozenset(f"/{name}" for name, (_, waits) in (commands or {}).items() if waits)
        self._view = view or _choose_view(history_file, helps, waiting, words, workspace)
        self._open = OpenMessages()
        self._handed_in: asyncio.Queue[Inbound] = asyncio.Queue()
        self._asked_help: set[str] = set()  # ids of messages
        self._carried: Inbound | None = None
        self._shown: deque[tuple[str, int]] = deque(maxlen=_REMEMBERED)
        self._stopping = False
        self._by_hand: asyncio.Task[None] | None = None  # a command that the person runs
        self._is_folder_told = False
        self._below = set[str]()  # keys of the lines that stood below this conversation
        self._warned = float("-inf")  # when it was said that Ctrl-C leaves

    def greet(self) -> None:
        greeting, self._greeting = self._greeting, ""
        if greeting:
            self._view.note(greeting)

    def cut_off(self) -> None:
        """Take note that the process which answered has ended. What is not answered waits for the next one."""
        self._open.cut_off()
        self._view.cut_off()
        self._settle()

    async def run(self, deliver: Deliver) -> None:
        self.greet()
        tasks = {
            asyncio.ensure_future(self._view.run(self._submit, self._interrupt)),
            asyncio.ensure_future(self._carry(deliver)),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._tell_unsent()
        for task in done:
            task.result()

    def serves(self, outbound: Outbound) -> bool:
        return outbound.address == self.address

    async def send(self, outbound: Outbound) -> str:
        """One that was shown already comes again if its process ended before that was saved."""
        identity = (outbound.key, hash((outbound.text, outbound.files)))
        if outbound.key and identity in self._shown:
            return os.urandom(8).hex()
        self._shown.append(identity)
        self._open.sent(outbound)
        text = outbound.text
        if outbound.reply_to in self._asked_help:
            self._asked_help.discard(outbound.reply_to)
            own = (f"`{name}`: {line}" for name, line in OWN_COMMANDS.items())
            text = "\n- ".join([text.rstrip(), *own, _KEYS])
        if text.strip():
            self._view.say(text, outbound.reply_to)
        for path in outbound.files:
            self._view.note(f"file: {one_line(path, 1000)}")
        self._settle()
        return os.urandom(8).hex()

    def show(self, address: Address, event: Event) -> None:
        if address != self.address:
            return
        if isinstance(event, GoTo):
            self._opened = event
            self._settle()
            return
        self._below.update([event.key] if isinstance(event, StatusLines) else ())
        self._open.saw(event)
        with suppress(OSError):  # the terminal is gone; `run` is about to notice
            self._view.show(event)
            self._settle()
        if isinstance(event, TurnEnded) and self._open.answer_due:
            asyncio.get_running_loop().call_later(_ANSWER_SECONDS, self._give_up_waiting)

    def _submit(self, text: str, changes: str = "") -> str:
        text = printable(text).strip()
        if text and text.lower().split()[0] in _LEAVE:
            self._view.leave()
        elif text.startswith("!") and (command := text.lstrip("!").strip()):
            self._by_hand = asyncio.create_task(self._run_by_hand(command, is_told=not text.startswith("!!")))
        elif text or changes:
            self._warned = float("-inf")
            return self._hand_in(text, changes)
        return ""

    def _hand_in(self, text: str, changes: str = "") -> str:
        from nanoclaw.channels.terminal.dropped_files import extract_files

        text, files = extract_files(text)
        for file in files:
            self._view.note(f"attached {file.name}")
        message, identity = UserMessage(text, self._clock()), changes or os.urandom(8).hex()
        inbound = Inbound(self.address, "owner", identity, message, files, is_edit=bool(changes))
        self._open.add(identity)
        if inbound.is_withdrawn:
            self._open.drop(identity)
        if is_stop(text):
            self._open.stop()
            self._view.stopping()
        elif text.lower() == "/help":
            self._asked_help.add(inbound.external_id)
        self._handed_in.put_nowait(inbound)
        self._settle()
        return inbound.external_id

    async def _run_by_hand(self, command: str, *, is_told: bool) -> None:
        """Run what the person wants in their own shell, and show it to them and to the model. Ctrl-C ends it."""
        from nanoclaw.channels.terminal.by_hand import run_by_hand

        if not self._is_folder_told:
            self._is_folder_told = True
            self._view.note(f"your commands run in {Path.cwd()}, where this terminal was started")
        try:
            said = await run_by_hand(command)
        finally:
            self._by_hand = None
        self._view.note(said)
        if is_told:
            self._hand_in(f"/ran {command}\n{said}")

    async def _carry(self, deliver: Deliver) -> None:
        while True:
            self._carried = inbound = await self._handed_in.get()
            try:
                await deliver(inbound)
            except NanoclawError as error:
                self._open.drop(inbound.external_id)
                self._view.note(f"✗ not accepted: {error}")
                self._view.type(inbound.message.text)
                self._settle()
            self._carried = None

    def _tell_unsent(self) -> None:
        """Name the typed messages that were not accepted."""
        unsent = [self._carried] if self._carried else []
        while not self._handed_in.empty():
            unsent.append(self._handed_in.get_nowait())
        for inbound in unsent:
            self._view.note(f"✗ not sent: {one_line(inbound.message.text, 500)}")

    def _interrupt(self) -> None:
        """The first Ctrl-C stops the turn or, without one, warns; the second leaves."""
        if self._by_hand:
            self._by_hand.cancel()
            self._view.note("ended")
            return
        if self._stopping or time.monotonic() - self._warned < _AGAIN_SECONDS:
            self._view.leave()
            return
        self._warned = time.monotonic()
        if self._open.busy:
            self._stopping = True
            self._view.note("stopping … (Ctrl-C again leaves)")
            self._hand_in("/stop")
        else:
            self._view.note("Ctrl-C again, Ctrl-D or /exit leaves")

    def _give_up_waiting(self) -> None:
        self._open.give_up()
        self._settle()

    def _settle(self) -> None:
        self._stopping = self._stopping and self._open.busy
        self._view.busy(self._open.busy)
        if self._opened and not self._open.busy:
            opened, self._opened = self._opened, None
            if opened.chat:
                self.address = Address(self.name, opened.chat)
                for key in self._below:
                    self._view.show(StatusLines(key, ""))
            self._view.type(opened.line)


class OpenMessages:
    """Messages without an answer. A turn ends with `TurnEnded`, then its answer comes through the outbox."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._dropped: set[str] | None = None  # what was open when the stop was asked for
        self._turning = self._paused = False
        self.answer_due = False

    @property
    def busy(self) -> bool:
        return (bool(self._open) and not self._paused) or self._turning or self.answer_due

    def add(self, external_id: str) -> None:
        self._open += [external_id] * (external_id not in self._open)

    def drop(self, external_id: str) -> None:
        self._open = [one for one in self._open if one != external_id]

    def stop(self) -> None:
        """Note that the messages open now are dropped with the turn; those typed from now on are not."""
        self._dropped = set(self._open)

    def saw(self, event: Event) -> None:
        match event:
            case TurnEnded("", "answered"):  # there is nothing to say, or a tool has said it
                self._turning, self._open = False, self._open[1:]
            case TurnEnded(_, reason):
                self._turning, self.answer_due = False, True
                if reason == "cancelled" or self._dropped is not None:  # a stop drops the queue, whatever it meets
                    dropped, self._dropped = self._dropped or set(self._open), None
                    self._open = [one for one in self._open if one not in dropped]
            case Joined(external_ids):
                self._open = [one for one in self._open if one not in external_ids]
            case TurnPaused():
                self._turning, self._paused = False, True
            case Notice() | StatusLines() | events.Queued() | events.Settled():
                pass
            case _:
                self._turning, self._paused, self.answer_due = True, False, False
                if isinstance(event, TurnBegan) and event.reply_to in self._open:  # what came before it was dropped
                    del self._open[: self._open.index(event.reply_to)]

    def sent(self, outbound: Outbound) -> None:
        if outbound.reply_to:
            self.drop(outbound.reply_to)
        elif self.answer_due:
            self._open = self._open[1:]
        self.answer_due = False

    def cut_off(self) -> None:
        """The turn has ended without a notice, or continues elsewhere and will be reported."""
        self._turning = self.answer_due = False

    def give_up(self) -> None:
        """The answer does not come: a tool has said it before, or nothing can be stored."""
        if self.answer_due:
            self._open, self.answer_due = self._open[1:], False


def _choose_view(
    history_file: Path, commands: Mapping[str, str], waiting: frozenset[str], words: Words, workspace: Path | None
) -> TerminalView:
    if os.environ.get("TERM", "dumb") in ("dumb", "") or not (sys.stdin.isatty() and sys.stdout.isatty()):
        from nanoclaw.channels.terminal.lines import Lines

        return Lines()
    from nanoclaw.channels.terminal.completions import Completions
    from nanoclaw.channels.terminal.window import Window

    completer = Completions(commands, words, workspace)
    return Window(history_file, completer, waiting, colour=not os.environ.get("NO_COLOR"))
