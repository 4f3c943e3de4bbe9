"""An answer while it grows: typing, its text so far at a humane rate, one line while tools run long."""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from nanoclaw.core.channel import Hints
from nanoclaw.core.errors import ChannelError, Undeliverable
from nanoclaw.core.events import (
    Event,
    Notice,
    StatusLines,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnBegan,
    TurnEnded,
    TurnPaused,
)
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.escapes import one_line
from nanoclaw.log import logger
from nanoclaw.message_split import cut
from nanoclaw.silence_token import may_become_silence, spoken

TYPING_SECONDS = 4.0
"""A platform shows typing for about five."""
TOOLS_SECONDS = 20.0
"""Seconds that tools may run without a word, and between two renewals of the line about them."""

SIGNS = 4
"""Signs of one channel that are under way at once; what comes beyond is dropped, so that answers have the way to
themselves."""

_T = TypeVar("_T")

_NAME, _PROGRESS = 40, 100  # characters
_LINES = 4  # of tools that run side by side
_REMEMBERED = 200  # ended turns whose answers may still come to take the place of what was shown
_FAILURES = 3  # in a row, then no more is shown of a turn
_ERASING = (2.0, 10.0)  # pauses before what is to go is tried to be erased again
_GRACE_SECONDS = 15.0  # for a call to the platform that is under way
_MOST_QUIET_SECONDS = 600.0
_BEGUN_TOKEN = r"[\s\"'`*_~“„‘«(<]*(?:NO_|HEARTBEAT_|\[SIL)[A-Z_]*$"


class LiveScreen(Protocol):
    """A channel that can show a growing answer; `chat` is that of an Address. Its methods raise ChannelError."""

    def pause_seconds(self, chat: str) -> float:
        """The least time between two changes of what is shown."""
        ...

    async def typing(self, chat: str) -> None: ...

    async def write(self, chat: str, text: str, before: str) -> str:
        """Show Markdown in place of the message `before`, '' for a new one; its id, '' if it has none and goes by
        itself."""
        ...

    async def erase(self, chat: str, id: str) -> None: ...

    async def stay(self, chat: str, id: str, text: str) -> None:
        """Leave what is shown as it is, as its turn was stopped; without an `id` send the text as a message."""
        ...


class Timer:
    """Seconds that pass."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass(slots=True, eq=False)
class _ShownTool:
    """A call that runs, and what it shows."""

    name: str
    since: float
    progress: str = ""
    has_ended: bool = False

    def line(self, now: float) -> str:
        return f"{self.name} … {self.progress}".rstrip() + f" · {now - self.since:.0f} s"


@dataclass(slots=True, eq=False)
class _ShownTurn:
    """One turn on the screen. `said` is what its earlier rounds said, `saying` its present one; `status` is above all.
    `tools` run now, or were the last to, and `working` is the line about them; `since` is when its first tool began,
    `key` that of the answer which takes the place of the message `id`."""

    chat: str
    reply_to: str
    id: str = ""
    said: str = ""
    saying: str = ""
    shown: str = ""
    tools: dict[str, _ShownTool] = field(default_factory=dict)
    working: str = ""
    status: dict[str, str] = field(default_factory=dict)
    since: float | None = None
    told: float = 0.0
    typed: float = 0.0
    written: float = 0.0
    failures: int = 0
    key: str = ""
    task: asyncio.Task[None] | None = None
    call: asyncio.Task[bool] | None = None


class LiveAnswers:
    """One for each channel that can show what a turn does. Errors of the platform are logged and go no further."""

    def __init__(self, screen: LiveScreen, hints: Hints, timer: Timer | None = None) -> None:
        """Show the first piece of a text that is too long, and typing alone where the hints know no edits."""
        self._screen, self._hints, self._timer = screen, hints, timer or Timer()
        self._staying: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._turns: dict[str, _ShownTurn] = {}
        self._ended: OrderedDict[tuple[str, str], _ShownTurn] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._quiet_until = 0.0
        self._under_way = 0

    def show(self, address: Address, event: Event) -> None:
        """Take note of what a turn does. Never waits."""
        chat = address.chat
        if isinstance(event, TurnBegan):
            self._begin(chat, event.reply_to)
            return
        turn = self._turns.get(chat)
        if turn is None:
            return
        match event:
            case TextDelta(text):
                if self._hints.edits and not 0 < 4 * self._hints.length <= len(turn.saying):
                    turn.saying += text
                    turn.working = ""
                self._go_on(turn)
            case ToolStarted(call):
                turn.said, turn.saying = _joined(turn.said, turn.saying), ""
                turn.tools = {id: one for id, one in turn.tools.items() if not one.has_ended}
                turn.tools[call.id] = _ShownTool(one_line(call.name, _NAME), self._timer.now())
                turn.since = self._timer.now() if turn.since is None else turn.since
                self._go_on(turn)
            case ToolProgress(call, text, fraction):
                percent = "" if fraction is None else f"{fraction * 100:.0f} %"
                last = one_line(text.rpartition("\n")[2], _PROGRESS)
                if shown := turn.tools.get(call.id):
                    shown.progress = f"{percent} {last}".strip()
            case ToolFinished(call):
                if shown := turn.tools.get(call.id):
                    shown.has_ended = True
            case StatusLines(key, text) if self._hints.edits:
                turn.status[key] = text
                self._go_on(turn)
            case Notice(_, None):  # a stream that broke off is begun anew
                turn.saying += "\n"
            case TurnEnded(_, "cancelled") if text := _joined(turn.said, turn.saying):
                self._stop(turn, self._first_piece(text))
            case TurnPaused():
                self._end(turn, is_silent=False)
            case TurnEnded(answer):
                self._end(turn, is_silent=not spoken(answer).strip())

    def beside(self, chat: str, sign: Coroutine[Any, Any, object]) -> None:
        """Give a sign that no turn waits for, unless the platform asked to be left alone or others are on the way."""
        if not self._may_sign():
            sign.close()
            return

        async def give() -> None:
            try:
                await sign
            except Exception as error:  # it is no more than a sign
                logger.debug("a reaction in {} failed: {}", chat, error)
                self._is_asked_for_quiet(error)

        self._on_the_way(self._start(give()))

    async def hand_over(self, outbound: Outbound) -> str:
        """The id of the shown message whose place this one is to take, '' for none. The same when it is asked again for
        a message that could not be sent. A file takes no text's place: then what was shown is erased. What a turn had
        said before it was stopped stays, and what is said of that comes below it."""
        chat, reply_to = outbound.address.chat, outbound.reply_to
        if not reply_to:
            return ""
        if staying := self._staying.pop((chat, reply_to), None):
            await asyncio.wait({staying}, timeout=_GRACE_SECONDS)
        turn = self._turns.get(chat)
        if turn and turn.reply_to == reply_to:  # said in the midst of a turn, which goes on
            self._end(turn, is_silent=False)
            self._begin(chat, reply_to, anew=True)
        else:
            turn = self._ended.get((chat, reply_to))
        if turn is None or turn.key not in ("", outbound.key):
            return ""
        turn.key = outbound.key
        await self._settle(turn)
        if outbound.files and turn.id:
            await self._erase(turn)
        return turn.id

    async def aclose(self) -> None:
        """End all that is under way. What runs on is shown again with its next words."""
        while left := [task for task in self._tasks if not task.done()]:  # what has ended leaves the set a moment later
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def withdraw(self) -> None:
        """Erase what is shown of turns that run: the program ends, and they continue in the next one."""
        for turn in [*self._turns.values()]:
            if turn.task:
                turn.task.cancel()
            await self._settle(turn)
            if turn.id:
                await self._call(turn, self._screen.erase(turn.chat, turn.id))

    # --- one turn ----------------------------------------------------------------------------------------------------

    def _begin(self, chat: str, reply_to: str, *, anew: bool = False) -> None:
        if before := self._turns.get(chat):
            self._end(before, is_silent=False)
        turn = _ShownTurn(chat, reply_to)
        same = self._ended.get((chat, reply_to))
        if same and not same.key and not anew:  # it had to wait for its model, and goes on with the same message
            turn.id = self._ended.pop((chat, reply_to)).id
        self._turns[chat] = turn
        self._go_on(turn)

    def _go_on(self, turn: _ShownTurn) -> None:
        if turn.failures < _FAILURES and (turn.task is None or turn.task.done()):
            turn.task = self._start(self._follow(turn))

    def _end(self, turn: _ShownTurn, *, is_silent: bool) -> None:
        if turn.task:
            turn.task.cancel()
        if self._turns.get(turn.chat) is turn:
            del self._turns[turn.chat]
        turn.said = turn.saying = turn.shown = ""
        if is_silent:
            self._start(self._vanish(turn))
            return
        self._ended[turn.chat, turn.reply_to] = turn
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def _stop(self, turn: _ShownTurn, text: str) -> None:
        if turn.task:
            turn.task.cancel()
        del self._turns[turn.chat]
        key = turn.chat, turn.reply_to
        self._staying[key] = self._start(self._stay(turn, text))
        self._staying[key].add_done_callback(lambda task: self._staying.pop(key, None))

    def _start(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _follow(self, turn: _ShownTurn) -> None:
        """Show a turn until this is cancelled, or the platform takes nothing."""
        pause = self._screen.pause_seconds(turn.chat)
        if self._may_sign():
            await self._type(turn)
        while turn.failures < _FAILURES:
            now = self._timer.now()
            writing = turn.written + pause
            due = min(writing if writing > now else now + pause, turn.typed + TYPING_SECONDS)
            await self._timer.sleep(max(due, self._quiet_until) - now)
            now = self._timer.now()
            if not self._may_sign():
                turn.typed = max(turn.typed, now - TYPING_SECONDS + pause)
                continue
            if now >= writing and (text := self._news(turn, now)):
                turn.written = now
                await self._write(turn, text)
            elif now >= turn.typed + TYPING_SECONDS:
                await self._type(turn)

    def _news(self, turn: _ShownTurn, now: float) -> str:
        """The text to be shown, '' if it is shown already."""
        is_long = turn.since is not None and now - max(turn.since, turn.told) >= TOOLS_SECONDS
        if is_long and not turn.saying and self._hints.edits:
            turn.told, turn.working = now, _working(turn.tools, now)
        text = "\n\n".join(filter(None, (*turn.status.values(), _joined(turn.said, turn.saying), turn.working)))
        text = self._first_piece(text) if text else ""
        return text if text != turn.shown else ""

    def _first_piece(self, text: str) -> str:
        length = self._hints.length
        return next(cut(text, length, self._hints.units)).text.rstrip() if length else text

    # --- the platform ------------------------------------------------------------------------------------------------

    async def _type(self, turn: _ShownTurn) -> None:
        turn.typed = self._timer.now()
        await self._call(turn, self._screen.typing(turn.chat))

    async def _write(self, turn: _ShownTurn, text: str) -> None:
        async def write() -> None:
            turn.id = await self._screen.write(turn.chat, text, turn.id)
            turn.shown = text

        await self._call(turn, write())

    async def _call(self, turn: _ShownTurn, work: Coroutine[Any, Any, None]) -> bool:
        """True when it was done. A call that is begun comes to its end even if the turn does: it may be what gives a
        message its id."""

        async def call() -> bool:
            try:
                await work
            except Exception as error:  # what is only shown must not break what is done
                self._failed(turn, error)
                return False
            turn.failures = 0
            return True

        turn.call = self._start(call())
        self._on_the_way(turn.call)
        return await asyncio.shield(turn.call)

    def _on_the_way(self, task: asyncio.Task[Any]) -> None:
        self._under_way += 1
        task.add_done_callback(self._is_through)

    def _is_through(self, task: asyncio.Task[Any]) -> None:
        self._under_way -= 1

    def _may_sign(self) -> bool:
        return self._under_way < SIGNS and self._timer.now() >= self._quiet_until

    def _failed(self, turn: _ShownTurn, error: Exception) -> None:
        logger.warning("could not show progress in {}: {}", turn.chat, error)
        if not self._is_asked_for_quiet(error):
            turn.failures = _FAILURES if isinstance(error, Undeliverable) else turn.failures + 1

    def _is_asked_for_quiet(self, error: Exception) -> bool:
        """True when the platform asked to wait, which starts now."""
        asked = error.retry_after if isinstance(error, ChannelError) else None
        if asked:
            self._quiet_until = self._timer.now() + min(asked, _MOST_QUIET_SECONDS)
        return bool(asked)

    async def _settle(self, turn: _ShownTurn) -> None:
        """Wait for a call that is under way, so that its message is known."""
        if turn.call and not turn.call.done():
            await asyncio.wait({turn.call}, timeout=_GRACE_SECONDS)
            if not turn.call.done():
                turn.call.cancel()

    async def _stay(self, turn: _ShownTurn, text: str) -> None:
        """Update a message to the latest text, and finish it."""
        await self._settle(turn)
        if turn.id and text != turn.shown:
            await self._write(turn, text)
        if turn.id or turn.shown:
            await self._call(turn, self._screen.stay(turn.chat, turn.id, text))

    async def _vanish(self, turn: _ShownTurn) -> None:
        await self._settle(turn)
        if turn.id:
            await self._erase(turn)

    async def _erase(self, turn: _ShownTurn) -> None:
        id_, turn.id, turn.failures = turn.id, "", 0
        for pause in (0.0, *_ERASING):
            if (wait := max(pause, self._quiet_until - self._timer.now())) > 0:
                await self._timer.sleep(wait)
            if await self._call(turn, self._screen.erase(turn.chat, id_)) or turn.failures == _FAILURES:
                return


def _working(tools: Mapping[str, _ShownTool], now: float) -> str:
    """A line for each running tool, or for the last one if none is running."""
    shown = [one for one in tools.values() if not one.has_ended] or [*tools.values()][-1:]
    if len(shown) == 1:
        return f"working: {shown[0].line(now)}"
    more = [f"- {len(shown) - _LINES} more"] if len(shown) > _LINES else []
    return "\n".join(["working:", *(f"- {one.line(now)}" for one in shown[-_LINES:]), *more])


def _joined(said: str, saying: str) -> str:
    """The text of all rounds so far, without what is or may become a token of silence."""
    now = "" if may_become_silence(saying) else re.sub(_BEGUN_TOKEN, "", spoken(saying), flags=re.IGNORECASE)
    return "\n\n".join(part for part in (said, now.strip()) if part)
