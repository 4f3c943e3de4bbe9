"""The loop of a turn: ask the model, run the tools it calls, repeat until it answers."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn, Protocol

from nanoclaw.core import prompt_snapshot
from nanoclaw.core.calls import CallEffects, CallRunner, Judged, to_ask
from nanoclaw.core.chain import Chain
from nanoclaw.core.errors import ContextTooLong, ProviderError, ProviderUnavailable
from nanoclaw.core.events import Event, Notice, TextDelta, ToolFinished, ToolStarted
from nanoclaw.core.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from nanoclaw.core.plugin import Answer, Filter, MakeCalls
from nanoclaw.core.store.inbox import STOPPED
from nanoclaw.core.turn import AsksOwner, ModelDown, RunningTurn, TurnOver
from nanoclaw.runtime_metadata import escape, program_remark

BROKE_OFF = "the tool broke off; it may have been partly done"
ELSE = "Say in other words what you want."

WARN_AT, END_AT = 3, 6
"""Limits of how often one result may come again, from the same call or others: a warning at 3, the end at 6."""

UNKNOWN_AT = 3
"""Number of answers with unknown tools at which the turn ends."""

AGAIN = "(The same result again, after several tries: do something else, or answer.)"


class Steering(Protocol):
    """Adds to a running turn what its person said meanwhile."""

    async def steer(self, turn: RunningTurn) -> None: ...


class Rounds:
    """The rounds of one turn."""

    def __init__(self, turn: RunningTurn, steering: Steering, call_runner: CallRunner) -> None:
        self.turn, self._steering, self._chain = turn, steering, call_runner.chain
        self._call_runner, self._toolbox = call_runner, call_runner.toolbox
        self._stream = Stream(turn, self._chain)
        self._seen: Counter[tuple[str, ...]] = Counter()  # results of the turn so far
        self._unknown = 0
        self._request: asyncio.Task[AssistantMessage] | None = None
        self._restarts = False
        self._forgot = 0

    async def run(self, waiting: AssistantMessage | None = None) -> NoReturn:
        """Raises TurnOver at the end of the turn, and Pause where it has to wait. `waiting` is an answer
        whose calls the owner has judged meanwhile: the turn continues with them."""
        turn = self.turn
        try:
            async with asyncio.timeout(turn.limits.seconds):
                await self._rounds(waiting)
        except TimeoutError:
            seconds = turn.limits.seconds
            reached = f"{seconds:g} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
            raise _limit(reached, turn.begun_answer()) from None
        except ProviderError as error:
            over = TurnOver(f"The model gave no answer: {error}", "failed")
            can_wait = turn.origin == "person" and not turn.profile.wait
            is_down = isinstance(error, ProviderUnavailable) and can_wait
            raise (ModelDown(over) if is_down else over) from error
        finally:
            self._stream.end()
        raise AssertionError("a turn ends by an exception")

    def restart_request(self) -> None:
        """Stop the running request, to repeat it with new messages, unless a part of its answer was shown or a tool has
        begun."""
        if self._request and not self._stream.has_begun:
            self._restarts = self._request.cancel() or self._restarts  # a second line may come before it has ended

    async def _rounds(self, waiting: AssistantMessage | None) -> NoReturn:
        limits = self.turn.limits
        for left in reversed(range(limits.rounds)):
            answer = waiting or await self._ask()
            if not answer.tool_calls:
                waiting = await self._answered(answer, is_last=left == 0)
                continue
            if not waiting and len(self.turn.calls) >= limits.calls:
                raise _limit(f"{len(self.turn.calls)} tool calls")
            await self._act(answer, was_asked=waiting is not None)
            waiting = None
        raise _limit(f"{limits.rounds} rounds of tool calls")

    # --- a request ---------------------------------------------------------------------------------------------------

    async def _ask(self) -> AssistantMessage:
        """One answer; after an empty one the model is asked once more."""
        answer = await self._complete()
        if not answer.tool_calls and not answer.text.strip():
            answer = await self._complete()
        return answer

    async def _complete(self) -> AssistantMessage:
        """One request with all that was said by now, and another one where that was longer than the model's window and
        can be made shorter, or where somebody said more before anything of its answer was shown."""
        self.turn.model_call.provider  # noqa: B018 - one that is gone is no fault of a plugin that asks for its window
        is_shorter = False
        while True:
            await self._steering.steer(self.turn)
            if not is_shorter:
                await self._chain.make_room(self.turn, None)
            try:
                return await self._requested()
            except ContextTooLong as error:
                if not await self._chain.make_room(self.turn, error):
                    raise
                is_shorter = True
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not self._restarts or (task and task.cancelling()):
                    raise

    async def _requested(self) -> AssistantMessage:
        turn, session, model_call = self.turn, self.turn.session, self.turn.model_call
        if session.forgot != self._forgot:  # what was forgotten must not be sent again
            self._forgot = session.forgot
            turn.snapshot = prompt_snapshot.load(session.snapshot_text) or turn.snapshot
        self._restarts = False
        self._request = asyncio.create_task(model_call.complete(turn.request, self._stream))
        try:
            return self._call_runner.meant(await self._request)
        except asyncio.CancelledError:
            self._request.cancel()
            with suppress(asyncio.CancelledError, ProviderError):
                await self._request
            raise
        finally:
            self._request = None
            self._stream.end()

    # --- an answer with calls ----------------------------------------------------------------------------------------

    async def _act(self, answer: AssistantMessage, *, was_asked: bool) -> None:
        """Judge the calls of one answer, run them and store both together. Raises AsksOwner for what the owner is to be
        asked first."""
        turn, failed = self.turn, self._toolbox.failed
        left = max(0, turn.limits.calls - len(turn.calls))
        allowed, rest = answer.tool_calls[:left], answer.tool_calls[left:]
        turn.calls += allowed
        if answer.finish == "length":
            cut = "not run: your answer was cut off at the output limit; make the call smaller"
            results = [failed(call, cut) for call in answer.tool_calls]
            effects = CallEffects(self._toolbox, {})
        else:
            judged = await self._call_runner.judged(allowed, turn, was_asked=was_asked)
            if asks := to_ask(judged):
                raise AsksOwner(answer, asks)
            too_many = f"not run: one turn has at most {turn.limits.calls} calls. Answer, and say what is left to do."
            judged += [Judged(call, result=failed(call, too_many)) for call in rest]
            runnable = {number: one.checked for number, one in enumerate(judged) if one.checked and not one.result}
            effects = CallEffects(self._toolbox, runnable)
            known = [one.result for one in judged if one.answer and one.result]
            await turn.journal.acting(answer, effects.begun, self._call_runner.atomic(runnable.values()), known)
            results = await self._results(answer, judged, effects)
        repeats = self._count(allowed, results[:left])
        warned = (*map(_warned_of, results, repeats), *results[left:])
        await turn.journal.step((answer, *warned), effects.ended)
        self._guard(answer, results, max(repeats, default=0))

    def _guard(self, answer: AssistantMessage, results: Sequence[ToolResult], repeats: int) -> None:
        """Raises TurnOver where calls end the turn, or go nowhere."""
        ends = (self._toolbox.find(result.name) for result in results if not result.is_error)
        if any(tool is not None and tool.ends for tool in ends):
            raise TurnOver("", "answered")
        self._unknown += any(self._toolbox.find(call.name) is None for call in answer.tool_calls)
        if self._unknown >= UNKNOWN_AT:
            raise TurnOver(f"I stopped: I kept calling tools that do not exist. {ELSE}", "loop")
        if repeats >= END_AT:
            raise TurnOver(f"I stopped: my steps kept giving the same result. {ELSE}", "loop")

    def _count(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[int]:
        """Count for each call of an answer how often its result has come. A repeated change of the workspace is the
        same even if its text differs: the second of two reminders has another number. The same error is one however the
        arguments are varied, once for each answer; other calls with the same result are no loop, as many commands have
        nothing to say."""
        alike = {(result.name, result.text) for result in results}
        self._seen.update(alike)
        return [self._repeated(call, result) for call, result in zip(calls, results, strict=True)]

    def _repeated(self, call: ToolCall, result: ToolResult) -> int:
        is_change = self._toolbox.reach(call.name) == "workspace" and not result.is_error
        same = (call.name, call.arguments, "" if is_change else result.text)
        self._seen[same] += 1
        return max(self._seen[same], self._seen[(result.name, result.text)] if result.is_error else 0)

    async def _results(
        self, answer: AssistantMessage, judged: Sequence[Judged], effects: CallEffects
    ) -> list[ToolResult]:
        """The results in the order of the calls; neighbours that don't disturb each other run side by side."""
        calls, toolbox, journal = answer.tool_calls, self._toolbox, self.turn.journal
        tasks: list[asyncio.Task[ToolResult]] = []
        try:
            for number, call in enumerate(calls):
                if tasks and not all(toolbox.runs_beside(one.name) for one in calls[number - 1 : number + 1]):
                    await asyncio.wait(tasks)
                    if effects.begun:  # a kill from now on leaves no doubt about these
                        await journal.acted(answer, self._outcomes(calls[:number], tasks, BROKE_OFF), effects.ended)
                tasks.append(asyncio.create_task(self._run(call, judged[number], number, effects)))
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            try:
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:  # also when a second stop comes meanwhile
                await journal.step((answer, *self._outcomes(calls, tasks, STOPPED)), effects.ended)
            raise
        return self._outcomes(calls, tasks, BROKE_OFF)

    def _outcomes(
        self, calls: Sequence[ToolCall], tasks: Sequence[asyncio.Task[ToolResult]], broken_off: str
    ) -> list[ToolResult]:
        """One result for each call: the tool's own, or what is to be said of one that did not end or did not begin."""
        failed = self._toolbox.failed
        ended = [
            task.result() if task.done() and not task.cancelled() and not task.exception() else failed(call, broken_off)
            for call, task in zip(calls, tasks, strict=False)
        ]
        return ended + [failed(call, "not started: the turn was stopped") for call in calls[len(tasks) :]]

    async def _run(self, call: ToolCall, judged: Judged, number: int, effects: CallEffects) -> ToolResult:
        place = self.turn.session.results() + number + 1
        self._stream(ToolStarted(call, number=place))
        started = time.monotonic()
        try:
            result = judged.result or await self._call_runner.run(judged, self.turn, effects.reports(number))
        except asyncio.CancelledError:
            self._stream(ToolFinished(call, "stopped", True, time.monotonic() - started, number=place))
            raise
        effects.end(number, result)
        seconds = time.monotonic() - started
        self._stream(ToolFinished(call, result.text, result.is_error, seconds, number=place, diff=result.diff))
        return result._replace(text=escape(result.text))

    # --- an answer without calls -------------------------------------------------------------------------------------

    async def _answered(self, answer: AssistantMessage, *, is_last: bool) -> AssistantMessage | None:
        """End the turn with an answer, by TurnOver. Returns None when the model is asked to answer again, the same
        answer with calls where a plugin has some to be made first."""
        turn = self.turn
        if not answer.text.strip():
            empty = "The model gave an empty answer, twice. Ask again, or choose another with /model."
            raise TurnOver(empty, "failed")
        text = answer.text
        if answer.finish == "length":
            text += "\n\n(Cut off at the model's output limit; say “go on” for the rest.)"
        may_retry = not is_last and not turn.tried
        said = await self._chain.before_answer(Answer(text), turn, may_retry=may_retry, may_act=not is_last)
        if isinstance(said, Answer):
            raise TurnOver(said.text, "answered", said.files, (answer,))
        if isinstance(said, MakeCalls):  # what the provider wants to hear again belongs to an answer without them
            return answer._replace(tool_calls=said.calls, finish="tool_calls", opaque="")
        plugin, again = said
        turn.tried.append(plugin)
        tried = json.dumps(turn.tried)
        turn.later(lambda tx: tx.execute("UPDATE turns SET retries = ? WHERE id = ?", tried, turn.id))
        now = turn.now()
        await turn.journal.step((answer, UserMessage(program_remark(now, again.remark), now, "runtime")))
        self._stream(Notice("the model is asked to revise its answer"))
        return None


def _limit(reached: str, final: tuple[Message, ...] = ()) -> TurnOver:
    text = f"I stopped after {reached} without finishing. What was done so far is kept; say “go on” and I continue."
    return TurnOver(text, "step_limit", final=final)


class Stream:
    """Passes on the events of a turn, without parts of its text that must not be seen."""

    def __init__(self, turn: RunningTurn, chain: Chain) -> None:
        self._turn, self._chain = turn, chain
        self._filter: Filter | None = None
        self._is_open = False
        self.has_begun = False
        """Something of the turn was shown, or a tool was started."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            if not self._is_open:
                self._filter, self._is_open = self._chain.filters(self._turn), True
            self._pass(self._filter.feed(event.text) if self._filter else event.text)
            return
        if isinstance(event, ToolStarted):
            self.end()
            self.has_begun = True
        self._turn.show(event)

    def end(self) -> None:
        """The answer has ended: show text that was held back."""
        if self._is_open and self._filter:
            self._pass(self._filter.end())
        self._filter, self._is_open = None, False

    def _pass(self, text: str) -> None:
        if text:
            self.has_begun = True
            self._turn.show(TextDelta(text))


def _warned_of(result: ToolResult, repeats: int) -> ToolResult:
    """The result, with a warning if it came too often."""
    return result if repeats < WARN_AT else result._replace(text=f"{result.text}\n{AGAIN}")
