"""One turn: ask the model, run the tools it calls, repeat until it answers. Read this first."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from nanoclaw.agent.metadata import escape
from nanoclaw.agent.tokens import Calibration
from nanoclaw.errors import ProviderError
from nanoclaw.events import Event, Reason, TextDelta, ToolFinished, ToolStarted, TurnEnded
from nanoclaw.messages import AssistantMessage, Limits, Message, ModelRequest, SystemPrompt, ToolCall, ToolResult, Usage
from nanoclaw.providers.base import Provider
from nanoclaw.store.usage import Call
from nanoclaw.tools.base import Toolbox, ToolContext

WARN_AT, END_AT = 3, 6
"""The same call with the same result: warned at the third time, ended at the sixth."""

UNKNOWN_AT = 3
"""Calls of tools that do not exist: the turn ends at the third."""


class Journal(Protocol):
    """Where a turn writes what happened; on disk when a method returns."""

    @property
    def history(self) -> tuple[Message, ...]: ...

    def called(self, call: Call) -> None: ...

    def acting(self, calls: Sequence[ToolCall]) -> None: ...

    def step(self, messages: Sequence[Message]) -> None: ...


@dataclass(slots=True)
class Turn:
    """Everything one turn needs, and what became of it: `final` is to be stored with the answer's delivery."""

    provider: Provider
    toolbox: Toolbox
    system: SystemPrompt
    context: ToolContext
    journal: Journal
    show: Callable[[Event], None]
    clock: Callable[[], datetime]
    rounds: int
    limits: Limits = Limits()
    calibration: Calibration = field(default_factory=Calibration)
    final: tuple[Message, ...] = ()
    usage: Usage = Usage()
    calls: tuple[ToolCall, ...] = ()
    _said: str = field(default="", init=False)
    _seen: Counter[tuple[str, str, str]] = field(default_factory=Counter, init=False)

    async def run(self) -> TurnEnded:
        """Never raises but for CancelledError; then `final` holds what was said until the stop."""
        try:
            for _ in range(self.rounds):
                answer = await self._ask()
                if not answer.tool_calls:
                    return self._answered(answer)
                repeats = await self._act(answer)
                if sum(not self.toolbox.knows(call) for call in self.calls) >= UNKNOWN_AT:
                    return self._ended("I ended this: I kept calling tools that do not exist.", "loop")
                if repeats >= END_AT:
                    return self._ended("I ended this: the same step kept giving the same result.", "loop")
            return self._ended(
                f"I stopped after {self.rounds} rounds of tools without coming to an end. "
                "What was done so far is kept; say “go on” and I continue.",
                "step_limit",
            )
        except ProviderError as error:
            return self._ended(f"The model gave no answer: {error}", "failed")
        except asyncio.CancelledError:
            if self._said.strip():
                self.final = (AssistantMessage(self._said, self.clock()),)
            raise

    async def _ask(self) -> AssistantMessage:
        """One answer; an empty one is asked for once more."""
        answer = await self._complete()
        if not answer.tool_calls and not answer.text.strip():
            answer = await self._complete()
        return answer

    async def _complete(self) -> AssistantMessage:
        self._said = ""
        request = ModelRequest(self.system, self.journal.history, self.toolbox.specs, self.limits)
        try:
            answer = await self.provider.complete(request, self._listen)
        except (ProviderError, asyncio.CancelledError) as error:
            if self._said or isinstance(error, asyncio.CancelledError):  # it is paid all the same
                self._account(request, None)
            raise
        self._account(request, answer)
        self._said = ""
        if answer.usage:
            self.usage = _sum(self.usage, answer.usage)
        return answer

    def _account(self, request: ModelRequest, answer: AssistantMessage | None) -> None:
        is_first = self.usage == Usage()
        self.journal.called(self.calibration.call(request, self.provider.model, answer, self._said, is_first))

    def _listen(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._said += event.text
        self.show(event)

    async def _act(self, answer: AssistantMessage) -> int:
        """Run the calls of one answer and store both together. Returns how often its most repeated result came."""
        self.calls += answer.tool_calls
        if answer.finish == "length":
            cut = "not run: your answer was cut off at the output limit; make the call smaller"
            results = [self._result(call, cut) for call in answer.tool_calls]
        else:
            self.journal.acting(answer.tool_calls)
            results = await self._results(answer)
        repeats = [self._count(call, result) for call, result in zip(answer.tool_calls, results, strict=True)]
        self.journal.step((answer, *map(_warned, results, repeats)))
        return max(repeats)

    async def _results(self, answer: AssistantMessage) -> list[ToolResult]:
        """In the order of the calls; neighbours that only read run side by side."""
        calls = answer.tool_calls
        tasks: list[asyncio.Task[ToolResult]] = []
        try:
            for number, call in enumerate(calls):
                if tasks and not (self.toolbox.reads_only(call) and self.toolbox.reads_only(calls[number - 1])):
                    await asyncio.wait(tasks)
                tasks.append(asyncio.create_task(self._run(call)))
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            try:
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:  # also when a second stop comes meanwhile
                stopped = "stopped by the person; it may have been done in part"
                self.journal.step((answer, *self._outcomes(calls, tasks, stopped)))
            raise
        return self._outcomes(calls, tasks, "the tool broke off; it may have been done in part")

    def _outcomes(
        self, calls: Sequence[ToolCall], tasks: Sequence[asyncio.Task[ToolResult]], broken_off: str
    ) -> list[ToolResult]:
        """One result for each call: the tool's own, or what is to be said of one that did not end or did not begin."""
        ended = [
            task.result() if task.done() and not task.cancelled() else self._result(call, broken_off)
            for call, task in zip(calls, tasks, strict=False)
        ]
        return ended + [self._result(call, "not begun: the person stopped the turn") for call in calls[len(tasks) :]]

    async def _run(self, call: ToolCall) -> ToolResult:
        self.show(ToolStarted(call))
        started = time.monotonic()
        try:
            result = await self.toolbox.run(call, self.context)
        except asyncio.CancelledError:
            self.show(ToolFinished(call, "stopped", True, time.monotonic() - started))
            raise
        self.show(ToolFinished(call, result.text, result.is_error, time.monotonic() - started))
        return replace(result, text=escape(result.text))

    def _result(self, call: ToolCall, text: str) -> ToolResult:
        return ToolResult(call.id, call.name, text, self.clock(), is_error=True)

    def _count(self, call: ToolCall, result: ToolResult) -> int:
        key = (call.name, call.arguments, result.text)
        self._seen[key] += 1
        return self._seen[key]

    def _answered(self, answer: AssistantMessage) -> TurnEnded:
        if not answer.text.strip():
            return self._ended(
                "The model gave an empty answer, twice. Ask again, or choose another with /model.", "failed"
            )
        self.final = (answer,)
        cut = (
            "\n\n(Cut off at the model's output limit; say “go on” for the rest.)" if answer.finish == "length" else ""
        )
        return self._ended(answer.text + cut, "answered")

    def _ended(self, text: str, reason: Reason) -> TurnEnded:
        return TurnEnded(text, reason, self.usage)


def _warned(result: ToolResult, repeats: int) -> ToolResult:
    if repeats < WARN_AT:
        return result
    warning = f"\n(This is the same call with the same result for the {repeats}th time: do something else, or answer.)"
    return replace(result, text=result.text + warning.replace("3th", "3rd"))


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cached_tokens + other.cached_tokens,
    )
