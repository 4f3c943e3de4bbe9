"""One turn: what is known of it, for the core and for plugins, and how it can end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from nanoclaw.core import prompt_snapshot, records
from nanoclaw.core.chain import Chain
from nanoclaw.core.channel_registry import Channels
from nanoclaw.core.context import ContextBuilder
from nanoclaw.core.events import Event, Notice, Reason
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    CheckedCall,
    Effect,
    Inbound,
    Limits,
    Message,
    ModelRequest,
    Role,
    ToolCall,
    Usage,
    UserMessage,
)
from nanoclaw.core.model_call import ModelCalls
from nanoclaw.core.plugin import Ask, Profile, Tx, profile_of
from nanoclaw.core.store.sessions import Session, TurnJournal
from nanoclaw.named_tuple import NamedTuple


class TurnOver(Exception):
    """A turn has come to its end: what is told of it, and the `final` messages that are stored."""

    def __init__(self, text: str, reason: Reason, files: tuple[str, ...] = (), final: tuple[Message, ...] = ()) -> None:
        super().__init__(text)
        self.text, self.reason, self.files, self.final = text, reason, files, final


class Pause(Exception):
    """A turn has to wait, and goes on later."""


class AsksOwner(Pause):
    """It waits for the owner: `answer` has the calls, `asks` what is asked about some of them."""

    def __init__(self, answer: AssistantMessage, asks: Sequence[tuple[CheckedCall, tuple[Ask, ...]]]) -> None:
        super().__init__()
        self.answer, self.asks = answer, asks


class ModelDown(Pause):
    """Its model cannot be reached; `over` is its end if it is stopped meanwhile."""

    def __init__(self, over: TurnOver) -> None:
        super().__init__()
        self.over = over


class TurnParts(NamedTuple):
    """Parts of the program that all turns share."""

    chain: Chain
    builder: ContextBuilder
    model_calls: ModelCalls
    channels: Channels
    clock: Callable[[], datetime]
    limits: Limits


class RunningTurn:
    """Implements `Turn`. `row` is that of its first message in the inbox."""

    def __init__(
        self,
        parts: TurnParts,
        id_: int,
        inbound: Inbound,
        conversation: Address,
        session: Session,
        row: int = 0,
        profile: Profile | None = None,
    ) -> None:
        self._parts, self.id, self.inbound, self.session = parts, id_, inbound, session
        self.conversation, self.address, self.sender = conversation, inbound.address, inbound.sender
        self.role: Role = "guest" if inbound.is_group else inbound.role or "guest"
        self.origin, self.profile = inbound.message.origin, profile or profile_of(inbound)
        self.external_id, self.is_group = inbound.external_id, inbound.is_group
        self.limits = self.profile.limits or parts.limits
        self.snapshot = prompt_snapshot.load(session.snapshot_text) or prompt_snapshot.EMPTY
        spender = "guest" if self.profile.name == "guest" else self.origin
        self.journal = TurnJournal(session, id_, row, spender)
        self.model_call = parts.model_calls.of_turn(self.profile, session.model, self.journal, self)
        self.calls: tuple[ToolCall, ...] = ()
        self.messages = 0
        """Number of messages that belong to it."""
        self.remarks: list[str] = []
        """Notices that the owner is to read below the answer."""
        self.tried: list[str] = []
        """Plugins that made the model answer again."""

    # --- what plugins see --------------------------------------------------------------------------------------------

    @property
    def system(self) -> str:
        return self.snapshot.system.text

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self.session.history)

    @property
    def request(self) -> ModelRequest:
        """The next request, with all that was said by now."""
        snapshot = self.snapshot
        return ModelRequest(snapshot.system, self.history, snapshot.tools, self.limits, memo=self.session.memo)

    @property
    def effects(self) -> tuple[Effect, ...]:
        return tuple(records.of_turn(self.session.transactions.store, self.id))

    @property
    def outside(self) -> tuple[str, ...]:
        """Sources of others' text since the owner's message that began this; () if none. Messages that the owner sends
        while the model is working, or that contain others' text, do not end it."""
        found: dict[str, None] = {}
        is_begun = False
        for message in reversed(self.history):
            if isinstance(message, AssistantMessage):
                if is_begun and not message.tool_calls:
                    break
                continue
            if message.outside:
                found[message.outside] = None
            is_begun = isinstance(message, UserMessage) and (
                message.origin == "person" or (is_begun and message.origin == "runtime")
            )
        return tuple(reversed(found))

    @property
    def usage(self) -> Usage:
        return self.model_call.usage

    def now(self) -> datetime:
        """The current time; in a rehearsal that of its message."""
        return self._parts.clock() if self.profile.acts else self.inbound.message.at

    def begin_again(self, upto: int, summary: str, query: str) -> None:
        """Send a summary in place of all messages up to a row; files are read and notes recalled again for `query`."""
        self.snapshot = self._parts.builder.begin(query, self.profile, self.address.channel)
        self.session.compact(upto, summary, self.snapshot.dump())

    def later(self, change: Callable[[Tx], object]) -> None:
        """Make a change part of the turn's next transaction."""
        self.journal.later(change)

    # --- what is shown of it -----------------------------------------------------------------------------------------

    @property
    def is_owners(self) -> bool:
        """True for a message of the owner in a private chat with the assistant."""
        return self.role == "owner" and self.origin == "person"

    def show(self, event: Event) -> None:
        """Show an event where the turn was asked for, and keep notices for the owner where none are shown."""
        if isinstance(event, Notice) and event.stays and event.text not in self.remarks:
            hints = self._parts.channels.hints(self.address.channel)
            is_told = self.is_owners and hints is not None and hints.notices
            if not is_told and (event.stays == "owner" or self.is_owners):
                self.remarks.append(event.text)
        self._parts.channels.show(self.address, event)

    def begun_answer(self) -> tuple[Message, ...]:
        """The text of an interrupted answer, as far as it came."""
        said = self.model_call.said
        return (AssistantMessage(said, self.now()),) if said.strip() else ()
