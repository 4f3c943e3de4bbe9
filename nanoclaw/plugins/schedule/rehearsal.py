"""A turn that is only played: a clock of its own, no effects, nothing kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nanoclaw.core.context import ContextBuilder
from nanoclaw.core.events import TurnEnded
from nanoclaw.core.messages import Address, AssistantMessage, Effect, Limits, Message, ToolResult, Usage
from nanoclaw.core.model_call import Asking
from nanoclaw.core.provider import Provider
from nanoclaw.core.store.usage import Call
from nanoclaw.core.token_estimate import Calibration
from nanoclaw.core.tool import Tool, Toolbox, ToolContext
from nanoclaw.core.turn import Turn
from nanoclaw.plugins.budget.budget import Budget


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """`refused` are calls that would have changed something; `requests` counts those to the model."""

    ended: TurnEnded
    refused: tuple[str, ...]
    requests: int
    usage: Usage
    model: str


class _Notebook:
    """A journal that is thrown away."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = list(messages)

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self._messages)

    def acting(self, answer: AssistantMessage, effects: Sequence[Effect] = ()) -> None:
        pass

    def acted(self, answer: AssistantMessage, results: Sequence[ToolResult], effects: Sequence[Effect]) -> None:
        pass

    def step(self, messages: Sequence[Message], effects: Sequence[Effect] = ()) -> None:
        self._messages.extend(messages)


async def rehearse(
    text: str,
    address: Address,
    *,
    builder: ContextBuilder,
    tools: Sequence[Tool],
    redact: Callable[[str], str],
    provider: Provider,
    clock: Callable[[], datetime],
    rounds: int,
    limits: Limits,
    book: Callable[[Call], None],
    budget: Budget | None,
) -> Rehearsal:
    """Play the turn of a message that no person sent. `clock` says the time that it is played at; `book` takes each
    request to the model, for which `budget` holds the money."""
    refused: list[str] = []
    requests = 0

    def count(call: Call) -> None:
        nonlocal requests
        requests += 1
        book(call)

    def refusal(name: str, changes: bool, arguments: Mapping[str, Any]) -> str:
        if not changes:
            return ""
        refused.append(f"{name} {', '.join(f'{key}={value!r}' for key, value in arguments.items())}")
        return "this is a rehearsal: nothing is changed. Go on as if it had been done."

    frame = builder.user_messages(text, channel=address.channel, chat_id=address.chat, sender="job", origin="job")
    toolbox = Toolbox(tools, clock, redact, refusal)
    asking = Asking(provider, Calibration(), count, budget)
    turn = Turn(
        asking=asking,
        toolbox=toolbox,
        system=builder.system("minimal"),
        context=ToolContext(address, "job", "job"),
        journal=_Notebook(frame),
        show=lambda event: None,
        clock=clock,
        rounds=rounds,
        limits=limits,
    )
    ended = await turn.run()
    return Rehearsal(ended, tuple(dict.fromkeys(refused)), requests, asking.usage, asking.model)
