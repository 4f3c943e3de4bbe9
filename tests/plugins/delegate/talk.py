"""A model that plays both sides: each conversation has a script of its own, told apart by its first message."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

from nanoclaw.core.messages import AssistantMessage, ModelRequest, UserMessage
from nanoclaw.core.provider import OnEvent
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, Step, call
from tests.program import Program

GIVEN = "(You are a helper"


def task_of(request: ModelRequest) -> str:
    """The task of the helper that asks, '' for the person's own conversation."""
    first = next((one.text for one in request.history if isinstance(one, UserMessage) and one.origin != "runtime"), "")
    return first.partition("\n")[0] if GIVEN in first else ""


class Cast:
    """A provider with a script for the person's conversation (""), and one for each task."""

    supports_vision = True

    def __init__(self, scripts: dict[str, list[Step]], model: str = "scripted/model") -> None:
        self.model = model
        self._scripts = {task: ScriptedProvider(*steps, model=model) for task, steps in scripts.items()}

    def of(self, task: str) -> ScriptedProvider:
        return self._scripts[task]

    async def aclose(self) -> None:
        pass

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        task = task_of(request)
        return await self._scripts[task].complete(request, on_event)


def delegate(*tasks: str, **more: object) -> Say:
    """An answer that gives each task to a helper."""
    return Say("", tuple(("delegate", {"task": task, **more}, f"call-{task}") for task in tasks))


def states(program: Program) -> list[tuple[str, str]]:
    return [tuple(row) for row in program.rows("SELECT state, reason FROM delegate_helpers ORDER BY id")]
