"""One turn: ask the model, run the tools it calls, repeat until it answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nanoclaw.core import prompt_snapshot
from nanoclaw.core.calls import END_AT, CallEffects, CallRunner, Judged, Repeats, to_ask, warned_of
from nanoclaw.core.chain import Chain
from nanoclaw.core.errors import ContextTooLong, ProviderError, ProviderUnavailable
from nanoclaw.core.events import Event, Notice, Reason, ToolFinished, ToolStarted, TurnEnded
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    CheckedCall,
    Effect,
    Inbound,
    Limits,
    Message,
    ModelRequest,
    Role,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from nanoclaw.core.metadata import escape, program_remark
from nanoclaw.core.model_call import ModelCall, silence
from nanoclaw.core.plugin import Answer, Ask, MakeCalls, Profile, Tx
from nanoclaw.core.prompt_snapshot import PromptSnapshot
from nanoclaw.core.store.inbox import STOPPED
from nanoclaw.core.store.journal import TurnJournal
from nanoclaw.core.stream import Stream
from nanoclaw.core.tool import Toolbox

if TYPE_CHECKING:
    from nanoclaw.core.compaction import Compaction
    from nanoclaw.core.store.sessions import Session

BROKE_OFF = "the tool broke off; it may have been partly done"
ELSE = "Say in other words what you want."
UNKNOWN_AT = 3
"""Number of answers with unknown tools at which the turn ends."""


class Steering(Protocol):
    """Adds to a running turn what its person said meanwhile."""

    async def steer(self, turn: RunningTurn) -> None: ...


class TurnParts(NamedTuple):
    """Parts of the program that all turns share."""

    chain: Chain
    toolbox: Toolbox
    call_runner: CallRunner
    compaction: Compaction
    clock: Callable[[], datetime]
    limits: Limits


class Paused(NamedTuple):
    """A turn that waits for the owner: the calls, and what is asked about each."""

    answer: AssistantMessage
    asks: tuple[tuple[CheckedCall, Ask], ...]


class RunningTurn:
    """Implements `Turn`, and its loop. `final` is stored with the answer's delivery; `is_down` is True when the model
    could not be reached: nothing is wrong with the turn, which can go on later."""

    def __init__(self, parts: TurnParts, id_: int, inbound: Inbound, conversation: Address, profile: Profile) -> None:
        self._parts, self.id, self.inbound = parts, id_, inbound
        self.conversation, self.address, self.sender = conversation, inbound.address, inbound.sender
        self.role: Role = "guest" if inbound.is_group else inbound.role or "guest"
        self.origin, self.profile = inbound.message.origin, profile
        self.external_id, self.is_group = inbound.external_id, inbound.is_group
        self.limits = profile.limits or parts.limits
        self.final: tuple[Message, ...] = ()
        self.calls: tuple[ToolCall, ...] = ()
        self.is_down, self.has_begun = False, False
        self.snapshot: PromptSnapshot | None = None
        self.journal: TurnJournal | None = None
        self.model_call: ModelCall | None = None
        self.session: Session | None = None
        self.show: Callable[[Event], None] = silence
        self.messages = 0
        """Number of messages that belong to it."""
        self.remarks: list[str] = []
        """Notices that the owner is to read below the answer."""
        self.tried: list[str] = []
        """Plugins that made the model answer again."""
        self._begun_changes: list[Callable[[Tx], object]] = []
        self._repeats = Repeats(parts.toolbox)
        self._unknown = 0
        self._is_over = self._restarts = False
        self._forgot = 0
        self._request: asyncio.Task[AssistantMessage] | None = None

    # --- what plugins see --------------------------------------------------------------------------------------------

    @property
    def system(self) -> str:
        return self.snapshot.system.text if self.snapshot else ""

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self.session.history) if self.session else ()

    @property
    def effects(self) -> tuple[Effect, ...]:
        return tuple(self.journal.effects()) if self.journal else ()

    @property
    def outside(self) -> tuple[str, ...]:
        """Sources of others' text since the owner's message that began this; () if none. Messages that the owner sends
        while the model is working, or that contain others' text, do not end it."""
        found: dict[str, None] = {}
        is_begun = False
        for message in reversed(self.history):
            if isinstance(message, AssistantMessage):
                if is_begun and not message.tool_calls:
                    break
                continue
            if message.outside:
                found[message.outside] = None
            is_begun = isinstance(message, UserMessage) and (
                message.origin == "person" or (is_begun and message.origin == "runtime")
            )
        return tuple(reversed(found))

    @property
    def usage(self) -> Usage:
        return self.model_call.usage if self.model_call else Usage()

    def now(self) -> datetime:
        """The current time; in a rehearsal that of its message."""
        return self._parts.clock() if self.profile.acts else self.inbound.message.at

    def later(self, change: Callable[[Tx], object]) -> None:
        """Make a change part of the turn's next transaction."""
        (self.journal.later if self.journal else self._begun_changes.append)(change)

    @property
    def begun_changes(self) -> Sequence[Callable[[Tx], object]]:
        """Changes for the transaction that begins the turn."""
        return self._begun_changes

    # --- its loop ----------------------------------------------------------------------------------------------------

    async def run(self, steering: Steering, waiting: AssistantMessage | None = None) -> TurnEnded | Paused:
        """Never raises, except CancelledError; then `final` holds what was said until the stop. `waiting` is an answer
        whose calls the owner has judged meanwhile: the turn continues with them."""
        assert self.journal and self.model_call and self.snapshot
        stream = Stream(self, self._parts.chain)
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await self._rounds(stream, steering, waiting)
        except TimeoutError:
            self.final = self._begun_answer()
            seconds = self.limits.seconds
            return self._limit(f"{seconds:g} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes")
        except ProviderError as error:
            self.is_down = isinstance(error, ProviderUnavailable) and not self.inbound.wait_limit
            return self._ended(f"The model gave no answer: {error}", "failed")
        except asyncio.CancelledError:
            self.final = self._begun_answer()
            raise
        finally:
            stream.end()

    def restart_request(self) -> None:
        """Stop the running request, to repeat it with new messages, unless a part of its answer was shown or a tool has
        begun."""
        if self._request and not self.has_begun:
            self._restarts = self._request.cancel() or self._restarts  # a second line may come before it has ended

    async def _rounds(self, stream: Stream, steering: Steering, waiting: AssistantMessage | None) -> TurnEnded | Paused:
        for left in reversed(range(self.limits.rounds)):
            answer = waiting or await self._ask(stream, steering)
            if not answer.tool_calls:
                said = await self._answered(answer, stream, is_last=left == 0)
                if isinstance(said, TurnEnded):
                    return said
                waiting = said
                continue
            if not waiting and len(self.calls) >= self.limits.calls:
                return self._limit(f"{len(self.calls)} tool calls")
            acted = await self._act(answer, stream, was_asked=waiting is not None)
            waiting = None
            if isinstance(acted, Paused):
                return acted
            if self._is_over:
                return self._ended("", "answered")
            self._unknown += any(self._parts.toolbox.find(call.name) is None for call in answer.tool_calls)
            if self._unknown >= UNKNOWN_AT:
                return self._ended(f"I stopped: I kept calling tools that do not exist. {ELSE}", "loop")
            if acted >= END_AT:
                return self._ended(f"I stopped: my steps kept giving the same result. {ELSE}", "loop")
        return self._limit(f"{self.limits.rounds} rounds of tool calls")

    async def _ask(self, stream: Stream, steering: Steering) -> AssistantMessage:
        """One answer; after an empty one the model is asked once more."""
        answer = await self._complete(stream, steering)
        if not answer.tool_calls and not answer.text.strip():
            answer = await self._complete(stream, steering)
        return answer

    async def _complete(self, stream: Stream, steering: Steering) -> AssistantMessage:
        """One request with all that was said by now, and another one where that was longer than the model's window and
        can be made shorter, or where somebody said more before anything of its answer was shown."""
        compaction, is_shorter = self._parts.compaction, False
        while True:
            await steering.steer(self)
            if not is_shorter:
                await compaction.make_room(self, None)
            try:
                return await self._requested(stream)
            except ContextTooLong as error:
                if not await compaction.make_room(self, error):
                    raise
                is_shorter = True
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not self._restarts or (task and task.cancelling()):
                    raise

    async def _requested(self, stream: Stream) -> AssistantMessage:
        assert self.model_call and self.session and self.snapshot
        if self.session.forgot != self._forgot:  # what was forgotten must not be sent again
            self._forgot = self.session.forgot
            self.snapshot = prompt_snapshot.load(self.session.snapshot_text) or self.snapshot
        snapshot, memo = self.snapshot, self.session.memo
        self.model_call.use_vision(self.history, self.show)
        request = ModelRequest(snapshot.system, self.history, snapshot.tools, self.limits, memo=memo)
        self._restarts = False
        self._request = asyncio.create_task(self.model_call.complete(request, stream, self.inbound.wait_limit))
        try:
            return self._parts.call_runner.meant(await self._request)
        except asyncio.CancelledError:
            self._request.cancel()
            with suppress(asyncio.CancelledError, ProviderError):
                await self._request
            raise
        finally:
            self._request = None
            stream.end()

    def _begun_answer(self) -> tuple[Message, ...]:
        """The text of an interrupted answer, as far as it came."""
        said = self.model_call.said if self.model_call else ""
        return (AssistantMessage(said, self.now()),) if said.strip() else ()

    # --- an answer with calls ----------------------------------------------------------------------------------------

    async def _act(self, answer: AssistantMessage, stream: Stream, *, was_asked: bool) -> int | Paused:
        """Judge the calls of one answer, run them and store both together. Returns how often its most repeated result
        came, or what the owner is to be asked first."""
        assert self.journal
        left = max(0, self.limits.calls - len(self.calls))
        allowed, rest = answer.tool_calls[:left], answer.tool_calls[left:]
        self.calls += allowed
        if answer.finish == "length":
            cut = "not run: your answer was cut off at the output limit; make the call smaller"
            results = [self._parts.toolbox.failed(call, cut) for call in answer.tool_calls]
            effects = CallEffects(self._parts.toolbox, {})
        else:
            judged = await self._parts.call_runner.judged(allowed, self, was_asked=was_asked)
            if asks := to_ask(judged):
                return Paused(answer, asks)
            too_many = f"not run: one turn has at most {self.limits.calls} calls. Answer, and say what is left to do."
            judged += [Judged(call, result=self._parts.toolbox.failed(call, too_many)) for call in rest]
            self.has_begun = True
            runnable = {number: one.checked for number, one in enumerate(judged) if one.checked and not one.result}
            effects = CallEffects(self._parts.toolbox, runnable)
            known = [one.result for one in judged if one.answer and one.result]
            await self.journal.acting(answer, effects.begun, self._parts.call_runner.atomic(runnable.values()), known)
            results = await self._results(answer, judged, effects, stream)
        repeats = self._repeats.count(allowed, results[:left])
        warned = (*map(warned_of, results, repeats), *results[left:])
        await self.journal.step((answer, *warned), effects.ended)
        ends = (self._parts.toolbox.find(result.name) for result in results if not result.is_error)
        self._is_over = any(tool is not None and tool.ends for tool in ends)
        return max(repeats, default=0)

    async def _results(
        self, answer: AssistantMessage, judged: Sequence[Judged], effects: CallEffects, stream: Stream
    ) -> list[ToolResult]:
        """The results in the order of the calls; neighbours that don't disturb each other run side by side."""
        assert self.journal
        calls, toolbox = answer.tool_calls, self._parts.toolbox
        tasks: list[asyncio.Task[ToolResult]] = []
        try:
            for number, call in enumerate(calls):
                if tasks and not all(toolbox.runs_beside(one.name) for one in calls[number - 1 : number + 1]):
                    await asyncio.wait(tasks)
                    if effects.begun:  # a kill from now on leaves no doubt about these
                        await self.journal.acted(
                            answer, self._outcomes(calls[:number], tasks, BROKE_OFF), effects.ended
                        )
                tasks.append(asyncio.create_task(self._run(call, judged[number], number, effects, stream)))
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            try:
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:  # also when a second stop comes meanwhile
                await self.journal.step((answer, *self._outcomes(calls, tasks, STOPPED)), effects.ended)
            raise
        return self._outcomes(calls, tasks, BROKE_OFF)

    def _outcomes(
        self, calls: Sequence[ToolCall], tasks: Sequence[asyncio.Task[ToolResult]], broken_off: str
    ) -> list[ToolResult]:
        """One result for each call: the tool's own, or what is to be said of one that did not end or did not begin."""
        failed = self._parts.toolbox.failed
        ended = [
            task.result() if task.done() and not task.cancelled() and not task.exception() else failed(call, broken_off)
            for call, task in zip(calls, tasks, strict=False)
        ]
        return ended + [failed(call, "not started: the turn was stopped") for call in calls[len(tasks) :]]

    async def _run(
        self, call: ToolCall, judged: Judged, number: int, effects: CallEffects, stream: Stream
    ) -> ToolResult:
        place = self.session.results() + number + 1 if self.session else 0
        stream(ToolStarted(call, number=place))
        started = time.monotonic()
        try:
            result = judged.result or await self._parts.call_runner.run(judged, self, effects.reports(number))
        except asyncio.CancelledError:
            stream(ToolFinished(call, "stopped", True, time.monotonic() - started, number=place))
            raise
        effects.end(number, result)
        seconds = time.monotonic() - started
        stream(ToolFinished(call, result.text, result.is_error, seconds, number=place, diff=result.diff))
        return result._replace(text=escape(result.text))

    # --- its end -----------------------------------------------------------------------------------------------------

    async def _answered(
        self, answer: AssistantMessage, stream: Stream, *, is_last: bool
    ) -> TurnEnded | AssistantMessage | None:
        """End the turn with an answer; None when the model is asked to answer again, the same answer with calls where a
        plugin has some to be made first."""
        assert self.journal
        if not answer.text.strip():
            return self._ended(
                "The model gave an empty answer, twice. Ask again, or choose another with /model.", "failed"
            )
        text = answer.text
        if answer.finish == "length":
            text += "\n\n(Cut off at the model's output limit; say “go on” for the rest.)"
        may_retry = not is_last and not self.tried
        said = await self._parts.chain.before_answer(Answer(text), self, may_retry=may_retry, may_act=not is_last)
        if isinstance(said, Answer):
            self.final = (answer,)
            return TurnEnded(said.text, "answered", self.usage, said.files)
        if isinstance(said, MakeCalls):  # what the provider wants to hear again belongs to an answer without them
            return answer._replace(tool_calls=said.calls, finish="tool_calls", opaque="")
        plugin, again = said
        self.tried.append(plugin)
        self.journal.retried(self.tried)
        await self.journal.step((answer, UserMessage(program_remark(self.now(), again.remark), self.now(), "runtime")))
        stream(Notice("the model is asked to revise its answer"))
        return None

    def _limit(self, reached: str) -> TurnEnded:
        return self._ended(
            f"I stopped after {reached} without finishing. What was done so far is kept; say “go on” and I continue.",
            "step_limit",
        )

    def _ended(self, text: str, reason: Reason) -> TurnEnded:
        return TurnEnded(text, reason, self.usage)
