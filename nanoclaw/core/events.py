"""Events that a turn shows while it runs. Screens listen; the turn knows no screen."""

from typing import Literal

from nanoclaw.core.messages import ToolCall, Usage
from nanoclaw.named_tuple import NamedTuple

Reason = Literal["answered", "step_limit", "loop", "cancelled", "failed"]


class TurnBegan(NamedTuple):
    """The assistant is working on a message; `reply_to` is its external id, which the answer will carry."""

    reply_to: str


class TurnPaused(NamedTuple):
    """The turn waits for the owner: nothing happens there until it resumes, which may be hours later."""


class TextDelta(NamedTuple):
    """A piece of the answer. Several rounds of one turn may each write text; `TurnEnded.answer` is the last."""

    text: str


class ReasoningDelta(NamedTuple):
    """A piece of the model's thinking: for the terminal only, never sent to a channel."""

    text: str


class Notice(NamedTuple):
    """One line from the program itself: a retry, the loading of a model. `fraction` is from 0 to 1 when known;
    `is_failure` is True if something that was asked for was left out, such as a file. What `stays` also matters later:
    in a chat app, which shows no notices, the owner reads it below the answer. One for the "owner" concerns everybody's
    turns: the owner is told of it in whoever's it came up."""

    text: str
    fraction: float | None = None
    is_failure: bool = False
    stays: Literal["", "here", "owner"] = ""


class Receipt(NamedTuple):
    """One line by the program after a turn that changed something: what it did."""

    text: str


class ToolStarted(NamedTuple):
    """`parent` is the id of the call within which it runs, '' for one that the model made. `number` is its place among
    the calls of the conversation, by which /show finds its result; 0 for one that has none."""

    call: ToolCall
    parent: str = ""
    number: int = 0


class ToolProgress(NamedTuple):
    """A few short lines of a running tool: they take the place of what its call showed before, and are never
    stored. `fraction` is from 0 to 1 when known."""

    call: ToolCall
    text: str
    fraction: float | None = None


class ToolFinished(NamedTuple):
    """`refused` is that of its result."""

    call: ToolCall
    text: str
    is_error: bool
    seconds: float
    parent: str = ""
    number: int = 0
    diff: str = ""
    refused: Literal["", "owner", "time", "nobody", "later"] = ""


class Joined(NamedTuple):
    """Messages that came during a turn are now part of it; its answer is also theirs."""

    external_ids: tuple[str, ...]


class Queued(NamedTuple):
    """A message came while a turn runs: it is kept, and waits. For channels that can show it by a reaction."""

    external_id: str


class StatusLines(NamedTuple):
    """A few lines that stay below what is shown of a conversation, in place of those before with the same `key`; ''
    takes them away. What `is_last` is left standing as it is. Where the key is the name of a tool, its calls are shown
    by these lines alone."""

    key: str
    text: str
    is_last: bool = False


class Settled(NamedTuple):
    """The question in one of our messages was answered or has expired: its buttons must go. `id` is the platform's. For
    channels with buttons."""

    id: str


class GoTo(NamedTuple):
    """The terminal goes on in its conversation of that name ('' for where it is), with `line` ready to be sent."""

    chat: str = ""
    line: str = ""


class TurnEnded(NamedTuple):
    """`files` are the paths of what the answer brings; what is shown of it has none."""

    answer: str
    reason: Reason
    usage: Usage = Usage()
    files: tuple[str, ...] = ()


Event = (
    TurnBegan
    | TurnPaused
    | TextDelta
    | ReasoningDelta
    | Notice
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | Joined
    | Receipt
    | Queued
    | StatusLines
    | Settled
    | GoTo
    | TurnEnded
)
