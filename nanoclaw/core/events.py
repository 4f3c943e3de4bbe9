"""Events that a turn shows while it runs. Screens listen; the turn knows no screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nanoclaw.core.messages import ToolCall, Usage

Reason = Literal["answered", "step_limit", "loop", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """The assistant is at work on a message; `reply_to` is its external id, which the answer will carry."""

    reply_to: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer. Several rounds of one turn may each write text; `TurnEnded.answer` is the last."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's thinking: for the terminal only, never sent to a channel."""

    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """One line from the program itself: a retry, the loading of a model. `fraction` is from 0 to 1 when known."""

    text: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """One line by code after a turn that changed something: what it did."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    call: ToolCall
    text: str
    is_error: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Joined:
    """Messages that came while a turn ran are now part of it; its answer is theirs too."""

    external_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Queued:
    """A message came while a turn runs: it is kept, and waits. For channels that can show it by a reaction."""

    external_id: str


@dataclass(frozen=True, slots=True)
class Settled:
    """The question of a message of ours is answered, or over: its buttons are to go. `id` is the
    platform's. For channels with buttons."""

    id: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """`files` are the paths of what the answer brings; what is shown of it has none."""

    answer: str
    reason: Reason
    usage: Usage = Usage()
    files: tuple[str, ...] = ()


Event = (
    TurnBegan
    | TextDelta
    | ReasoningDelta
    | Notice
    | ToolStarted
    | ToolFinished
    | Joined
    | Receipt
    | Queued
    | Settled
    | TurnEnded
)
