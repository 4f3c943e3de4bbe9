"""A model that plays both sides: each conversation has a script of its own, told apart by its first message."""

import asyncio

from nanoclaw.core.messages import Address, AssistantMessage, Message, ModelRequest, UserMessage
from nanoclaw.core.provider import OnEvent
from nanoclaw.providers.scripted import Say, ScriptedProvider, Step
from tests.program import Program

GIVEN = "(You are a helper"


def first_words(request: ModelRequest) -> str:
    said = (one for one in request.history if isinstance(one, UserMessage) and one.origin != "runtime")
    return next((one.text for one in said), "")


def task_of(request: ModelRequest) -> str:
    """The task of the helper that asks, '' for the person's own conversation."""
    first = first_words(request)
    return first.partition("\n")[0] if GIVEN in first else ""


class Cast:
    """A provider with a script for the person's conversation (""), and one for each task. With `together` the first
    requests of that many helpers are answered only once all of them are there; all helpers wait for `gate`."""

    supports_vision = True

    def __init__(self, scripts: dict[str, list[Step]], model: str = "scripted/model", together: int = 0) -> None:
        self.model = model
        self._scripts = {task: ScriptedProvider(*steps, model=model) for task, steps in scripts.items()}
        self._barrier, self._together = asyncio.Barrier(together or 1), together
        self.gate = asyncio.Event()
        self.gate.set()

    def of(self, task: str) -> list[ModelRequest]:
        """The requests of a helper, or of the person's conversation."""
        return self._scripts[task].requests

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        task = task_of(request)
        if task and self._together and not self.of(task):
            self._together -= 1
            await self._barrier.wait()
        if task:
            await self.gate.wait()
        return await self._scripts[task].complete(request, on_event)

    async def aclose(self) -> None:
        pass


def delegate(*tasks: str, **more: object) -> Say:
    """An answer that gives each task to a helper."""
    return Say("", tuple(("delegate", {"task": task, **more}, f"call-{task}") for task in tasks))


def states(program: Program) -> list[tuple[str, str]]:
    return [tuple(row) for row in program.rows("SELECT state, reason FROM delegate_helpers ORDER BY id")]


def history_of(program: Program, number: int) -> tuple[Message, ...]:
    """What a helper's model was sent, and its answer."""
    return tuple(program.app.sessions.of(Address("delegate", str(number))).history)
