"""A provider that answers from a list: for tests and demonstrations, without a model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from nanoclaw.core.errors import ProviderError
from nanoclaw.core.events import ReasoningDelta, TextDelta
from nanoclaw.core.messages import AssistantMessage, Finish, ModelRequest, ToolCall, Usage
from nanoclaw.core.provider import OnEvent


@dataclass(frozen=True, slots=True)
class Say:
    """One answer. `calls` are (name, arguments) or (name, arguments, id); arguments are a dict or raw text."""

    text: str = ""
    calls: tuple[tuple[Any, ...], ...] = ()
    reasoning: str = ""
    finish: Finish | None = None
    usage: Usage | None = None
    opaque: str = ""


@dataclass(slots=True)
class Hang:
    """Shows `text`, sets `reached`, then waits until the request is cancelled."""

    text: str = ""
    reached: asyncio.Event = field(default_factory=asyncio.Event)


Answer = str | Say | Hang | AssistantMessage | BaseException
Step = Answer | Callable[[ModelRequest], "Answer"]


def call(name: str, arguments: dict[str, Any] | str | None = None, *, id: str = "", text: str = "") -> Say:
    """An answer that calls one tool."""
    return Say(text, ((name, {} if arguments is None else arguments, id),))


class ScriptedProvider:
    """Takes one step of its script for each request; steps left over at the end are a failure too.

    A step is a text, a `Say`, a `Hang`, a whole AssistantMessage, an exception to raise, or a function of the request
    that returns one of these. `requests` holds what was asked.
    """

    def __init__(self, *steps: Step, model: str = "scripted/model", vision: bool = True) -> None:
        self._steps: list[Step] = list(steps)
        self._taken = 0
        self.model = model
        self.supports_vision = vision
        self.requests: list[ModelRequest] = []

    @property
    def left(self) -> int:
        return len(self._steps) - self._taken

    def add(self, steps: Iterable[Step]) -> None:
        self._steps.extend(steps)

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        self.requests.append(request)
        if not self.left:
            raise ProviderError(
                f"the script has {len(self._steps)} steps and was asked for one more: add one to ScriptedProvider(…)."
            )
        step = self._steps[self._taken]
        self._taken += 1
        answer = step(request) if callable(step) else step
        await asyncio.sleep(0)  # a real model never answers in the same instant
        match answer:
            case BaseException():
                raise answer
            case Hang():
                if answer.text:
                    on_event(TextDelta(answer.text))
                answer.reached.set()
                await asyncio.Event().wait()
                raise AssertionError("unreachable")
            case AssistantMessage():
                message, reasoning = answer, ""
            case str():
                message, reasoning = self._message(Say(answer)), ""
            case Say():
                message, reasoning = self._message(answer), answer.reasoning
        if reasoning:
            on_event(ReasoningDelta(reasoning))
        if message.text:
            on_event(TextDelta(message.text))
        return message

    def _message(self, say: Say) -> AssistantMessage:
        calls = tuple(self._call(number, *parts) for number, parts in enumerate(say.calls, 1))
        finish = say.finish or ("tool_calls" if calls else "stop")
        return AssistantMessage(say.text, datetime.now(UTC), calls, say.usage, finish, self.model, say.opaque)

    def _call(self, number: int, name: str, arguments: dict[str, Any] | str, identity: str = "") -> ToolCall:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return ToolCall(identity or f"call_{self._taken}_{number}", name, text)

    def assert_used_up(self) -> None:
        """Fail when steps of the script were never asked for."""
        if self.left:
            raise AssertionError(
                f"{self.left} of {len(self._steps)} scripted steps were not used, next: {self._steps[self._taken]!r}"
            )

    async def aclose(self) -> None:
        pass

    def __enter__(self) -> ScriptedProvider:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.assert_used_up()
