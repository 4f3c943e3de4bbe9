"""The vocabulary every part shares: addresses, messages, tool calls. Values, and the memo of a history; no I/O.

Times are timezone-aware, contents are tuples, and two values with the same content are equal. Values are NamedTuples:
to define one costs a fifth of what a frozen dataclass costs, and these are defined at every start. That is also why the
modules with most of them do without `from __future__ import annotations`: each annotation that is text is compiled.
Tell them apart by their class (`match`), never by `==`.
"""

import hashlib
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self, TypeVar

from nanoclaw.named_tuple import NamedTuple

State = TypeVar("State")

Origin = str
"""The author of a user message: "person", or the plugin that did ("job", "heartbeat", "delegate" …); "runtime" is the
tagged metadata message that goes before each of the others."""

Finish = Literal["stop", "tool_calls", "length", "refusal"]
"""Why a model ended its answer; "length" means that it was cut off and its last tool call must not run."""


_STOP = re.compile(r"stop[.!]*|/stop(?:@\S+)?(?:\s.*)?", re.DOTALL)


def is_stop(text: str) -> bool:
    """True for a message that asks to stop: read before the queue, so that it doesn't wait for what it is to stop."""
    return _STOP.fullmatch(text.strip().lower()) is not None


class Address(NamedTuple):
    """The chat of a channel in which a message is said: routes replies, names the conversation, owns jobs."""

    channel: str
    chat: str

    def __str__(self) -> str:
        return f"{self.channel}:{self.chat}"


class Image(NamedTuple):
    """A picture that is ready for a model: upright, bounded, without metadata."""

    mime: str
    data: bytes
    name: str = ""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


CALL_TOOL = "call_tool"
"""The tool by which a model calls one whose schema is not in its prompt: `name` says which, `arguments` are its own."""


class ToolCall(NamedTuple):
    """A model's request to run a tool; `arguments` is the JSON text exactly as the model wrote it. `said` is that text
    of a call by CALL_TOOL, whose name and arguments are those of the tool that it called so; '' otherwise."""

    id: str
    name: str
    arguments: str
    said: str = ""

    @property
    def as_said(self) -> Self:
        """The call as the model wrote it and will read it again."""
        return self._replace(name=CALL_TOOL, arguments=self.said, said="") if self.said else self


Reach = Literal["none", "workspace", "outside"]
"""The reach of a tool: it changes nothing, only files of the workspace (which can be looked at again), or more."""


class CheckedCall(NamedTuple):
    """A call whose arguments are parsed and fit the tool's schema: what plugins judge, and exactly what runs."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    reach: Reach = "none"


class OwnersAnswer(NamedTuple):
    """The answer to a question that was asked before a call: an option or the owner's own words; the default, or '',
    when the time was over or nobody was there."""

    text: str = ""
    by: Literal["owner", "time", "nobody"] = "nobody"

    @property
    def is_yes(self) -> bool:
        return self.text == "yes"


class Refuse(NamedTuple):
    """The call is not run; the model is told why."""

    text: str


class Scope(NamedTuple):
    """The calls that a yes to one of them may be extended to, for a time and in one conversation. `key` is the same for
    all of them ("exec:git push", "write:~/Downloads"), `words` name them ("commands like `git push …`"). That of a
    place, such as a folder or a chat, may be allowed for good. What lifts a boundary is asked also where `[tools]`
    allows the tool."""

    key: str
    words: str
    is_place: bool = False
    lifts_boundary: bool = False


class Ask(NamedTuple):
    """The turn waits, on disk, for the owner. Without `options` for a yes to exactly this call: no, time over (15
    minutes, or `seconds`) or nobody there refuses it; `exact` is below it, '' for the call's arguments, and a yes may
    be extended to its `scope`. Without one every such call asks. With `options` the call runs whatever becomes of it,
    and finds that in `ToolContext.answer`: one of them, with `is_free` also the owner's own words (with `asks_back`
    only where they are said to be the answer, as by a reply); `default` ('' for none) when the time is over or nobody
    is there. One that reaches nothing may run once more after a crash."""

    question: str
    options: tuple[str, ...] = ()
    default: str = ""
    seconds: float | None = None
    is_free: bool = False
    exact: str = ""
    scope: Scope | None = None
    asks_back: bool = False

    @property
    def otherwise(self) -> OwnersAnswer:
        """The answer where nobody is there to be asked."""
        return OwnersAnswer(self.default if self.options else "no", "nobody")


Verdict = Refuse | Ask | None
"""Every plugin is asked; the strictest answer counts, in this order. What several ask about a call is one question."""


class TryAgain(NamedTuple):
    """The model reads `remark` and answers again, once in a turn; after that `note` is added below. If several plugins
    want this, the first counts."""

    remark: str
    note: str = ""


class MakeCalls(NamedTuple):
    """These calls follow the answer as if the model had made them, in this order and through every gate; it reads their
    results and answers again. Where the turn has no round left they are not made."""

    calls: tuple[ToolCall, ...]


class Usage(NamedTuple):
    """Tokens of one request as the provider reports them; `cached_tokens` are part of `input_tokens`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class UserMessage(NamedTuple):
    """`outside` are the sources of text in it that no owner wrote: a page, a forwarded mail; '' for a person's own
    words alone. Once it is framed for a model such text stands in blocks."""

    text: str
    at: datetime
    origin: Origin = "person"
    images: tuple[Image, ...] = ()
    outside: str = ""


class AssistantMessage(NamedTuple):
    """An answer of a model. `opaque` is JSON text that only the adapter which wrote it reads (thinking blocks)."""

    text: str
    at: datetime
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    finish: Finish = "stop"
    model: str = ""
    opaque: str = ""


class ToolResult(NamedTuple):
    """The outcome of a call. `diff` is for the person alone: no model is sent it. `refused`: it lacked the owner's yes,
    as the owner said no, was not there in time, nobody can be asked, or is asked later."""

    call_id: str
    name: str
    text: str
    at: datetime
    is_error: bool = False
    images: tuple[Image, ...] = ()
    outside: str = ""
    diff: str = ""
    refused: Literal["", "owner", "time", "nobody", "later"] = ""


Message = UserMessage | AssistantMessage | ToolResult


class Placed(NamedTuple):
    """A message of the history and its row in the store; 0 for a summary, which has none."""

    id: int
    turn: int
    message: Message


EffectState = Literal["begun", "done", "failed", "undone"]


class Effect(NamedTuple):
    """A change that a tool makes or has made: a line of the audit log, which knows its `id`, `at` and `turn`.

    `kind` is file, note, fact, command, …; `target` a path in the workspace, or a command; `text` says it in words.
    `before` and `after` are the SHA-256 of a file, '' when there was none, None if nothing can be undone.
    """

    tool: str
    kind: str
    target: str
    text: str
    state: EffectState = "begun"
    before: str | None = None
    after: str | None = None
    id: int = 0
    at: datetime | None = None
    turn: int | None = None


SEPARATOR = "\n\n---\n\n"
"""Separates the sections of a system message."""


class SystemPrompt(NamedTuple):
    """The system message in two parts: what stays for weeks, and what belongs to this context."""

    stable: str
    dynamic: str = ""

    @property
    def text(self) -> str:
        return SEPARATOR.join(filter(None, self))


class ToolExample(NamedTuple):
    """An example of what a person might say, and the arguments of the call that answers it (shown to small models)."""

    said: str
    arguments: dict[str, Any]


class ToolSpec(NamedTuple):
    """The description of a tool for a model. `parameters` is a JSON schema; `examples` are arguments of good calls."""

    name: str
    description: str
    parameters: dict[str, Any]
    examples: tuple[ToolExample, ...] = ()


class Limits(NamedTuple):
    """Bounds of one request (tokens of output, seconds without any byte from the provider) and of one turn (rounds of
    tools, calls, seconds)."""

    output_tokens: int = 8192
    timeout_seconds: float = 300.0
    rounds: int = 32
    calls: int = 128
    seconds: float = 1800.0


class HistoryMemo:
    """Caches what is computed from a conversation's messages: their bytes on the wire, their tokens. Messages never
    change, so each is processed once; the cache goes when the conversation leaves memory."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[object, tuple[object, ...], Any]] = {}

    def state(
        self,
        key: Hashable,
        about: object,
        messages: tuple[object, ...],
        count: int,
        begin: Callable[[], State],
        add: Callable[[State, Sequence[Any], range], None],
    ) -> State:
        """The state after the first `count` messages. `add` processes new ones; all are processed again, after `begin`,
        if they do not continue those of the last call, or `about` has changed."""
        was_about, known, state = self._kept.pop(key, (about, (), None))
        if state is None or was_about != about or len(known) > count or known != messages[: len(known)]:
            known, state = (), begin()
        add(state, messages, range(len(known), count))
        self._kept[key] = (about, messages[:count], state)
        return state  # type: ignore[no-any-return]


class ModelRequest(NamedTuple):
    """`model` is filled in for those who judge a request, with the `factor` by which its count of tokens differs from
    an estimate, and `others` that may answer in its place. `memo` is that of the conversation whose `history` this is,
    if there is one. `effort` is how much the model is to reason, '' as it does by itself; `purpose` one of [models].
    `must_see`: a model that refuses images raises CannotSee, in the place of an answer without them."""

    system: SystemPrompt
    history: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    limits: Limits = Limits()
    model: str = ""
    factor: float = 1.0
    memo: HistoryMemo | None = None
    others: tuple[str, ...] = ()
    effort: str = ""
    purpose: str = ""
    must_see: bool = False


class NoteRef(NamedTuple):
    """A recalled note without its text, for the manifest: lines count from 1. `is_new`: this message brought it up, no
    earlier one."""

    file: str
    start: int
    end: int
    score: float
    is_new: bool = True


Mode = Literal["full", "minimal", "guest", "none"]
"""The part of the prompt that a profile gets: all of it, what a task needs, what a guest may read, or one line."""


class Section(NamedTuple):
    """A part of the system message. Parts with the same `id` are joined, `stable` ones come first. `source` is what it
    is from. `version` shows a change from outside: if it differs from the one the context began with, the prompt is
    made again; '' is the hash of its text. `diagnostics` are codes such as section_truncated. `modes` have it."""

    id: str
    title: str
    text: str
    stable: bool = True
    source: str = "code"
    version: str = ""
    diagnostics: tuple[str, ...] = ()
    notes: tuple[NoteRef, ...] = ()
    modes: tuple[Mode, ...] = ("full",)


class Attachment(NamedTuple):
    """A file that came with a message. While its platform still holds it `path` is '', and its channel fetches it by
    `ref`, a text that only the channel reads. `size` is in bytes, None if the platform does not say. `is_voice`:
    somebody speaking, a message in itself."""

    path: str
    name: str
    mime: str = ""
    ref: str = ""
    size: int | None = None
    is_voice: bool = False


class Button(NamedTuple):
    """Something to press below a message; who presses it says `text`, such as "/yes 3"."""

    label: str
    text: str


Role = Literal["owner", "guest"]
"""The owner, or a guest who may talk to the assistant."""


class Inbound(NamedTuple):
    """One message on its way in. `external_id` is the platform's own and unique within the channel; `quoted` is the
    platform's id of the message that this one answers, '' for none, and `quote` that message's text where the platform
    tells it; `quote_from` is who wrote that, '' for the sender and the assistant. `sender` is the platform's stable id
    of a person, `name` how they call themselves: to be shown, never to be trusted. `is_mention`: in a group, that it
    is said to the assistant; `overheard` is what others said before. `is_edit`: what the message of that id says now,
    which counts while nothing was begun of it; with neither words nor files it is withdrawn.

    `wait_limit`: somebody waits for the answer, but no longer than so many seconds without a sign of the model; 0.0
    for a message that is answered whenever that is possible.

    `role` and `conversation` are decided by the plugins (`on_message`): a message that has no role then is dropped;
    without a conversation of its own it belongs to its address. `profile` is the name of one of its own, '' for the
    usual one of its role and origin.
    """

    address: Address
    sender: str
    external_id: str
    message: UserMessage
    attachments: tuple[Attachment, ...] = ()
    quoted: str = ""
    quote: str = ""
    name: str = ""
    is_group: bool = False
    is_mention: bool = False
    overheard: str = ""
    is_edit: bool = False
    role: Role | None = None
    conversation: Address | None = None
    profile: str = ""
    wait_limit: float = 0.0
    quote_from: str = ""

    @property
    def is_withdrawn(self) -> bool:
        return self.is_edit and not (self.message.text or self.attachments)


class Outbound(NamedTuple):
    """One message on its way out. `reply_to` is the `external_id` of the message it answers, '' when of none. `files`
    are paths.

    `key` is the same whenever the message is sent again, for platforms that can tell a repeat by it. `at` is the time
    that it is for: where it goes out later, because its platform could not be reached, it says so. `outside` are the
    sources of others' text that its turn had read, for the history of the chat that it goes to. `came` is when it came
    by itself: nobody waits for it, and a plugin may hold it for hours.
    """

    address: Address
    text: str
    files: tuple[str, ...] = ()
    reply_to: str = ""
    key: str = ""
    buttons: tuple[Button, ...] = ()
    at: datetime | None = None
    outside: str = ""
    came: datetime | None = None

    @property
    def row(self) -> int:
        """The number of its row of the outbox, by which its key begins; 0 for one without."""
        row = self.key.partition(".")[0]
        return int(row) if row.isdecimal() else 0
