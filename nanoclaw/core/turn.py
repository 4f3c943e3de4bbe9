"""One turn: ask the model, run the tools it calls, repeat until it answers. Read this first."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from nanoclaw.core.errors import ContextTooLong, ProviderError, ProviderUnavailable
from nanoclaw.core.events import Event, Notice, Reason, ToolFinished, ToolStarted, TurnEnded
from nanoclaw.core.messages import (
    AssistantMessage,
    Effect,
    Limits,
    Message,
    ModelRequest,
    SystemPrompt,
    ToolCall,
    ToolResult,
    Usage,
)
from nanoclaw.core.metadata import escape
from nanoclaw.core.model_call import Asking
from nanoclaw.core.store.inbox import STOPPED
from nanoclaw.core.tool import Toolbox, ToolContext
from nanoclaw.plugins.undo.receipts import CallEffects, Doubt

WARN_AT, END_AT = 3, 6
"""The same call with the same result: warned at the third time, ended at the sixth."""

BROKE_OFF = "the tool broke off; it may have been done in part"
UNKNOWN_AT = 3
"""Calls of tools that do not exist: the turn ends at the third."""


async def nobody() -> None:
    """Nothing came while the turn ran."""


async def as_it_is(error: ContextTooLong | None) -> bool:
    """The conversation cannot be made shorter."""
    return False


def believed(text: str) -> Doubt | None:
    """Every answer is taken at its word."""
    return None


class Journal(Protocol):
    """Where a turn writes what happened; on disk when a method returns."""

    @property
    def history(self) -> tuple[Message, ...]: ...

    def acting(self, answer: AssistantMessage, effects: Sequence[Effect] = ()) -> None: ...

    def acted(self, answer: AssistantMessage, results: Sequence[ToolResult], effects: Sequence[Effect]) -> None: ...

    def step(self, messages: Sequence[Message], effects: Sequence[Effect] = ()) -> None: ...


@dataclass(slots=True)
class Turn:
    """Everything one turn needs, and what became of it: `final` is to be stored with the answer's delivery.

    `take_in` adds to the journal what the person said meanwhile; it is called whenever tools have ended. `shrink` makes
    room where the conversation is about to outgrow the model's window, or just did (with the model's error); it is
    False when nothing could be made shorter. `is_down` is True when the model could not be reached: nothing is wrong
    with the turn, which can go on another time. `doubt` finds what an answer says was done and was not: the model is
    told of it once, then the person.
    """

    asking: Asking
    toolbox: Toolbox
    system: SystemPrompt
    context: ToolContext
    journal: Journal
    show: Callable[[Event], None]
    clock: Callable[[], datetime]
    rounds: int
    most_calls: int = 128
    seconds: float = 1800.0
    limits: Limits = Limits()
    take_in: Callable[[], Awaitable[None]] = nobody
    shrink: Callable[[ContextTooLong | None], Awaitable[bool]] = as_it_is
    doubt: Callable[[str], Doubt | None] = believed
    final: tuple[Message, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    is_down: bool = False
    _seen: Counter[tuple[str, str, str]] = field(default_factory=Counter, init=False)
    _is_over: bool = field(default=False, init=False)

    @property
    def usage(self) -> Usage:
        """What the turn took so far."""
        return self.asking.usage

    async def run(self) -> TurnEnded:
        """Never raises but for CancelledError; then `final` holds what was said until the stop."""
        try:
            async with asyncio.timeout(self.seconds):
                return await self._rounds()
        except TimeoutError:
            self.final = self._begun_answer()
            return self._limit(
                f"{self.seconds:g} seconds" if self.seconds < 120 else f"{self.seconds / 60:.0f} minutes"
            )
        except ProviderError as error:
            self.is_down = isinstance(error, ProviderUnavailable)
            return self._ended(f"The model gave no answer: {error}", "failed")
        except asyncio.CancelledError:
            self.final = self._begun_answer()
            raise

    def _begun_answer(self) -> tuple[Message, ...]:
        """What was said of an answer that was cut off."""
        return (AssistantMessage(self.asking.said, self.clock()),) if self.asking.said.strip() else ()

    async def _rounds(self) -> TurnEnded:
        may_mend = True
        for left in reversed(range(self.rounds)):
            answer = await self._ask()
            if not answer.tool_calls:
                doubt = self.doubt(answer.text)
                if not (doubt and may_mend and left):
                    return self._answered(answer, doubt)
                may_mend = False
                self.journal.step((answer, doubt.remark))
                self.show(Notice("that was not done: the model is asked to do it, or to correct itself"))
                continue
            if len(self.calls) + len(answer.tool_calls) > self.most_calls:
                return self._limit(f"{len(self.calls)} calls of tools")
            repeats = await self._act(answer)
            if self._is_over:
                return self._ended("", "answered")
            if sum(not self.toolbox.knows(call) for call in self.calls) >= UNKNOWN_AT:
                return self._ended("I ended this: I kept calling tools that do not exist.", "loop")
            if repeats >= END_AT:
                return self._ended("I ended this: the same step kept giving the same result.", "loop")
            await self.take_in()
        return self._limit(f"{self.rounds} rounds of tools")

    def _limit(self, reached: str) -> TurnEnded:
        return self._ended(
            f"I stopped after {reached} without coming to an end. "
            "What was done so far is kept; say “go on” and I continue.",
            "step_limit",
        )

    async def _ask(self) -> AssistantMessage:
        """One answer; an empty one is asked for once more."""
        answer = await self._complete()
        if not answer.tool_calls and not answer.text.strip():
            answer = await self._complete()
        return answer

    async def _complete(self) -> AssistantMessage:
        """One request, and a second one where the first was longer than the model's window and can be made shorter."""
        await self.shrink(None)
        try:
            return await self.asking.complete(self._request(), self.show)
        except ContextTooLong as error:
            if not await self.shrink(error):
                raise
        return await self.asking.complete(self._request(), self.show)

    def _request(self) -> ModelRequest:
        return ModelRequest(self.system, self.journal.history, self.toolbox.specs, self.limits)

    async def _act(self, answer: AssistantMessage) -> int:
        """Run the calls of one answer and store both together. Returns how often its most repeated result came."""
        self.calls += answer.tool_calls
        effects = CallEffects(self.toolbox, ())
        if answer.finish == "length":
            cut = "not run: your answer was cut off at the output limit; make the call smaller"
            results = [self._result(call, cut) for call in answer.tool_calls]
        else:
            effects = CallEffects(self.toolbox, answer.tool_calls)
            self.journal.acting(answer, effects.begun)
            results = await self._results(answer, effects)
        repeats = [self._count(call, result) for call, result in zip(answer.tool_calls, results, strict=True)]
        self.journal.step((answer, *map(_warned, results, repeats)), effects.ended)
        self._is_over = any(self.toolbox.ends(result.name) and not result.is_error for result in results)
        return max(repeats)

    async def _results(self, answer: AssistantMessage, effects: CallEffects) -> list[ToolResult]:
        """In the order of the calls; neighbours that only read run side by side."""
        calls = answer.tool_calls
        tasks: list[asyncio.Task[ToolResult]] = []
        try:
            for number, call in enumerate(calls):
                if tasks and not all(self.toolbox.effect(one.name) == "none" for one in calls[number - 1 : number + 1]):
                    await asyncio.wait(tasks)
                    if effects.begun:  # a kill from now on leaves no doubt about these
                        self.journal.acted(answer, self._outcomes(calls[:number], tasks, BROKE_OFF), effects.ended)
                tasks.append(asyncio.create_task(self._run(call, number, effects)))
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            try:
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:  # also when a second stop comes meanwhile
                self.journal.step((answer, *self._outcomes(calls, tasks, STOPPED)), effects.ended)
            raise
        return self._outcomes(calls, tasks, BROKE_OFF)

    def _outcomes(
        self, calls: Sequence[ToolCall], tasks: Sequence[asyncio.Task[ToolResult]], broken_off: str
    ) -> list[ToolResult]:
        """One result for each call: the tool's own, or what is to be said of one that did not end or did not begin."""
        ended = [
            task.result() if task.done() and not task.cancelled() else self._result(call, broken_off)
            for call, task in zip(calls, tasks, strict=False)
        ]
        return ended + [self._result(call, "not begun: the turn was stopped") for call in calls[len(tasks) :]]

    async def _run(self, call: ToolCall, number: int, effects: CallEffects) -> ToolResult:
        self.show(ToolStarted(call))
        started = time.monotonic()
        try:
            result = await self.toolbox.run(call, effects.context(number, self.context))
        except asyncio.CancelledError:
            self.show(ToolFinished(call, "stopped", True, time.monotonic() - started))
            raise
        effects.end(number, result)
        self.show(ToolFinished(call, result.text, result.is_error, time.monotonic() - started))
        return replace(result, text=escape(result.text))

    def _result(self, call: ToolCall, text: str) -> ToolResult:
        return ToolResult(call.id, call.name, text, self.clock(), is_error=True)

    def _count(self, call: ToolCall, result: ToolResult) -> int:
        """An error that comes again is the same result however the arguments are varied, and a change of the workspace
        that is made again is the same whatever is said of it: the second of two reminders has another number."""
        is_change = self.toolbox.effect(call.name) == "workspace" and self.toolbox.audit(call) is not None
        if result.is_error:
            key = (call.name, "", result.text)
        else:
            key = (call.name, call.arguments, "" if is_change else result.text)
        self._seen[key] += 1
        return self._seen[key]

    def _answered(self, answer: AssistantMessage, doubt: Doubt | None) -> TurnEnded:
        if not answer.text.strip():
            return self._ended(
                "The model gave an empty answer, twice. Ask again, or choose another with /model.", "failed"
            )
        self.final = (answer,)
        cut = (
            "\n\n(Cut off at the model's output limit; say “go on” for the rest.)" if answer.finish == "length" else ""
        )
        corrected = f"\n\n{doubt.line}" if doubt else ""
        return self._ended(answer.text + cut + corrected, "answered")

    def _ended(self, text: str, reason: Reason) -> TurnEnded:
        return TurnEnded(text, reason, self.usage)


def _warned(result: ToolResult, repeats: int) -> ToolResult:
    if repeats < WARN_AT:
        return result
    warning = f"\n(This is the same call with the same result for the {repeats}th time: do something else, or answer.)"
    return replace(result, text=result.text + warning.replace("3th", "3rd"))
