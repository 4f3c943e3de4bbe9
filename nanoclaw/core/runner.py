"""The runner: begins a turn with its messages, runs it, and ends it with its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from nanoclaw.core import prompt_snapshot
from nanoclaw.core.chain import Chain
from nanoclaw.core.channel_registry import Channels
from nanoclaw.core.context import ContextBuilder
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.events import Notice, Reason, TurnBegan, TurnEnded, TurnPaused
from nanoclaw.core.message_queue import Accepted
from nanoclaw.core.messages import Address, AssistantMessage, Inbound, Message, NoteRef, Outbound, Reach
from nanoclaw.core.model_call import ModelCalls
from nanoclaw.core.plugin import Draft, Ended, Profile, Tx
from nanoclaw.core.profiles import profile_of
from nanoclaw.core.prompt_snapshot import Manifest, PromptSnapshot, manifest
from nanoclaw.core.provider import CutsHistory
from nanoclaw.core.store.inbox import Inbox, OpenTurn
from nanoclaw.core.store.sessions import Session, Sessions
from nanoclaw.core.store.tx import Transaction
from nanoclaw.core.turn import Paused, RunningTurn, Steering, TurnParts

NOT_NOW = "I can't do that just now."
"""For guests: only the owner is told what went wrong."""

ONE_ANSWER = (
    "This and the {} before it have no answer yet: your last message answers them all, so cover each of them. "
    "Text beside tool calls is not sent."
)

INTERRUPTED = "(I was interrupted and continued.)"


class Preview(NamedTuple):
    """A request as it would be sent: the system message and tools of `snapshot`, `history`, then the `new` messages."""

    manifest: Manifest
    snapshot: PromptSnapshot
    history: tuple[Message, ...]
    new: tuple[Message, ...]


class Runner:
    """Runs the turns of all conversations."""

    def __init__(
        self,
        builder: ContextBuilder,
        sessions: Sessions,
        inbox: Inbox,
        model_calls: ModelCalls,
        parts: TurnParts,
        channels: Channels,
    ) -> None:
        self.builder, self.sessions, self.inbox = builder, sessions, inbox
        self._model_calls, self._parts, self._channels = model_calls, parts, channels
        self._for_owner: dict[str, None] = {}  # notices that came up in turns of others

    @property
    def chain(self) -> Chain:
        return self._parts.chain

    def reach(self, name: str) -> Reach:
        """The reach of a tool by its name; for an unknown one, the widest."""
        return self._parts.toolbox.reach(name)

    def check_model(self, session: Session, inbound: Inbound) -> None:
        """Raises ConfigError if the model of a conversation cannot be asked at present."""
        self._model_calls.provider(profile_of(inbound), session.model)

    def answers_one(self, inbound: Inbound, session: Session | None) -> bool:
        """True for a small model: of several questions in a row it answers only the last."""
        try:
            provider = self._model_calls.provider(profile_of(inbound), session.model if session else "")
        except NanoclawError:  # which is told when it is asked
            return False
        return isinstance(provider, CutsHistory)

    # --- its beginning -----------------------------------------------------------------------------------------------

    async def begin(self, conversation: Address, batch: Sequence[Accepted]) -> RunningTurn:
        """Begin a turn for messages in quick succession; stored when this returns. Their files are fetched first, which
        may take time."""
        inbound = batch[0].inbound
        session = self.sessions.of(conversation)
        turn = self._turn(self.sessions.next_turn(), inbound, conversation, session)
        profile = turn.profile
        from_plugin = turn.origin != "person" and self._channels.get(inbound.address.channel) is None
        if (profile.mode in ("minimal", "none") or from_plugin) and session.history:  # it knows nothing of times before
            await self.sessions.transactions.write(session.reset)
        before = prompt_snapshot.load(session.snapshot_text)
        if before is None or before.profile != profile.name:
            await self.chain.before_context(turn)
        snapshot = self.builder.resume(session.snapshot_text, inbound.message.text, profile, inbound.address.channel)
        self._tell_of_cuts(turn, before, snapshot)
        turn.snapshot = snapshot
        messages, notes, snapshot = await self._frames(turn, batch, snapshot)
        turn.snapshot = snapshot
        made_of = manifest(profile.mode, snapshot, notes, is_new=before is None)
        rows = [one.row for one in batch]
        kept = "" if snapshot is before else snapshot.dump()
        begun = session.begin_turn(turn.id, rows, messages, made_of.dump(), kept, turn.begun_changes)
        turn.journal = await begun
        turn.model_call = self._model(turn)
        return turn

    async def preview(self, conversation: Address, inbound: Inbound, profile: Profile | None = None) -> Preview:
        """The request that a message would be part of if it came now. Nothing is kept, and no model is asked."""
        session = self.sessions.of(conversation)
        turn = RunningTurn(self._parts, 0, inbound, conversation, profile or profile_of(inbound))
        if turn.profile.mode not in ("minimal", "none"):
            turn.session = session
        stored = turn.session.snapshot_text if turn.session else None
        if prompt_snapshot.load(stored) is None:
            await self.chain.before_context(turn)
        snapshot = self.builder.resume(stored, inbound.message.text, turn.profile, inbound.address.channel)
        turn.snapshot = snapshot
        messages, notes, snapshot = await self._frames(turn, [Accepted(0, inbound)], snapshot)
        made_of = manifest(turn.profile.mode, snapshot, notes, is_new=prompt_snapshot.load(stored) is None)
        return Preview(made_of, snapshot, turn.history, tuple(messages))

    async def join(self, turn: RunningTurn, batch: Sequence[Accepted]) -> None:
        """Add messages to a running turn."""
        assert turn.journal and turn.snapshot and turn.session
        messages, _, snapshot = await self._frames(turn, batch, turn.snapshot)
        if snapshot != turn.snapshot:
            turn.snapshot = snapshot
            session, text = turn.session, snapshot.dump()
            turn.later(lambda tx: session.keep_snapshot(text))
        await turn.journal.join([one.row for one in batch], messages)

    def reopen(self, conversation: Address, cut: OpenTurn, *, after_crash: bool) -> RunningTurn:
        """Reopen a turn that did not end. Raises ConfigError if its model cannot be asked."""
        session = self.sessions.of(conversation)
        turn = self._turn(cut.id, cut.inbound, conversation, session)
        turn.snapshot = prompt_snapshot.load(session.snapshot_text) or self.builder.begin("", turn.profile)
        turn.journal = session.reopen_turn(cut, after_crash=after_crash)
        turn.tried, turn.calls = turn.journal.retries(), turn.journal.calls()
        turn.messages = len(cut.texts)
        return turn

    def _turn(self, id_: int, inbound: Inbound, conversation: Address, session: Session) -> RunningTurn:
        turn = RunningTurn(self._parts, id_, inbound, conversation, profile_of(inbound))
        turn.session = session
        turn.show = _Shown(self._channels, turn)
        return turn

    def _model(self, turn: RunningTurn):  # type: ignore[no-untyped-def]
        assert turn.session and turn.journal
        if turn.profile.name == "guest":
            turn.journal.spender = "guest"
        return self._model_calls.of_turn(turn.profile, turn.session.model, turn.journal, turn)

    async def _frames(
        self, turn: RunningTurn, batch: Sequence[Accepted], snapshot: PromptSnapshot
    ) -> tuple[list[Message], list[NoteRef], PromptSnapshot]:
        """Messages as the model reads them: for each its metadata and its content."""
        messages, notes = list[Message](), list[NoteRef]()
        for one in batch:
            inbound = one.inbound
            by, quote = inbound.quote_from, inbound.quote
            others = ((by, quote),) if by else ()
            draft = Draft(inbound.message, inbound.attachments, (), "" if by else quote, (), inbound, others)
            draft = await self.chain.before_turn(draft, turn)
            snapshot, line = self.builder.introduce(snapshot, inbound.address.channel)
            turn.messages += 1
            is_late = one is batch[-1] and turn.messages > 1
            late = ONE_ANSWER.format(turn.messages - 1) if is_late and turn.origin == "person" else ""
            draft = draft._replace(remarks=(*draft.remarks, *filter(None, (line, late))))
            messages += self.builder.frame(draft, turn.now())
            notes += draft.notes
        return messages, notes, snapshot

    def _tell_of_cuts(self, turn: RunningTurn, before: PromptSnapshot | None, now: PromptSnapshot) -> None:
        """Tell, once for each change, which files are too long to be shown whole."""
        if now.cut_files and (before is None or before.cut_files != now.cut_files):
            names = ", ".join(now.cut_files)
            turn.show(Notice(f"too long for the model to see in full: {names} (/context shows how much)", stays="here"))

    # --- its course --------------------------------------------------------------------------------------------------

    async def run(
        self, turn: RunningTurn, steering: Steering, waiting: AssistantMessage | None = None
    ) -> TurnEnded | Paused:
        """Run a turn until it has an answer, or waits for the owner."""
        turn.show(TurnBegan(turn.external_id))
        if turn.model_call is None:
            turn.model_call = self._model(turn)
        ended = await turn.run(steering, waiting)
        if isinstance(ended, Paused):
            turn.show(TurnPaused())
        return ended

    async def compact(self, conversation: Address, inbound: Inbound, focus: str) -> str:
        """Summarize a conversation on request. Returns what to tell. Raises NanoclawError."""
        session = self.sessions.of(conversation)
        turn = self._turn(0, inbound, conversation, session)
        turn.snapshot = prompt_snapshot.load(session.snapshot_text) or self.builder.begin("", turn.profile)
        turn.model_call = self._model_calls.of_turn(turn.profile, session.model, session, turn)
        try:
            return await self._parts.compaction.by_hand(turn, focus)
        finally:  # no transaction of such a turn's own comes that they could be part of
            await self.sessions.transactions.write(lambda tx: [change(tx) for change in turn.begun_changes])

    # --- its end -----------------------------------------------------------------------------------------------------

    async def end(
        self,
        turn: RunningTurn,
        ended: TurnEnded,
        dropped: Iterable[int],
        then: Callable[[TurnEnded], object],
        *,
        was_cut: bool = False,
    ) -> None:
        """End a turn: what plugins do at its end, the answer, the end of its messages and the removal of what is not
        kept are one transaction. Once that is on disk `then` is called with what to show."""
        assert turn.journal
        if _is_owners(turn):  # of its helpers, too
            for text in self._for_owner:
                turn.show(Notice(text, stays="here"))
            self._for_owner.clear()
        ended = self.for_them(turn.inbound, ended)

        def clear_and_tell(last: Ended, tx: Transaction) -> None:
            shown = last.outbound.text if last.outbound and last.outbound.address == turn.address else ""
            files = last.outbound.files if last.outbound else ()
            named = ", ".join(file.rpartition("/")[2] for file in files)
            self._clear_away(turn, tx, ended.reason)
            told = ended._replace(answer=shown if shown.strip() else named, reason=last.reason, files=())
            tx.after(lambda: then(told))

        await turn.journal.end(
            self._last_of(turn, ended, was_cut),
            turn.final,
            turn.model_call.model if turn.model_call else "",
            dropped,
            _Hooks(self.chain, turn),
            clear_and_tell,
        )

    def _clear_away(self, turn: RunningTurn, tx: Transaction, reason: Reason) -> None:
        assert turn.session and turn.snapshot
        if not _is_owners(turn):
            self._for_owner |= dict.fromkeys(turn.remarks)
        if not turn.profile.keeps:
            self.sessions.drop(tx, turn.session, turn.id)
        elif turn.calls:
            if any(self.reach(call.name) != "none" for call in turn.calls):
                snapshot = prompt_snapshot.load(turn.session.snapshot_text) or turn.snapshot
                turn.session.keep_snapshot(self.builder.with_own_changes(snapshot, turn.calls, turn.profile).dump())
        elif turn.inbound.wait_limit and reason == "failed":
            self.sessions.remove_turn(tx, turn.session, turn.id)

    def _last_of(self, turn: RunningTurn, ended: TurnEnded, was_cut: bool = False) -> Ended:
        answer = ended.answer
        if was_cut and turn.origin == "person" and (answer or ended.files):
            answer = f"{INTERRUPTED}\n\n{answer}".rstrip()
        outbound = Outbound(turn.address, answer, ended.files, turn.external_id)
        return Ended(ended.reason, outbound if answer.strip() or ended.files else None, answer)

    def end_without_turn(
        self,
        tx: Transaction,
        conversation: Address,
        item: Accepted,
        ended: TurnEnded,
        also: Iterable[int] = (),
        *,
        is_seen: bool = True,
    ) -> None:
        """End a message that had no turn, or whose turn failed, with a text by the program. Plugins are told of
        messages that they wrote."""
        ended = self.for_them(item.inbound, ended)
        text = ended.answer
        outbound = Outbound(item.address, text, (), item.inbound.external_id) if text else None
        if item.inbound.message.origin != "person":
            turn = self._turn(0, item.inbound, conversation, self.sessions.of(conversation))
            outbound = self.chain.on_end(Ended(ended.reason, outbound, text), turn, tx).outbound
        self.inbox.done((item.row, *also), outbound)
        if is_seen:
            tx.after(lambda: self._channels.show(item.address, ended))

    def say_instead(self, conversation: Address, cut: OpenTurn, text: str, ended: TurnEnded) -> None:
        """End a turn that is not resumed with a text by the program."""
        turn = self.reopen(conversation, cut, after_crash=False)
        assert turn.journal and turn.session
        final = (AssistantMessage(text, turn.now()),) if text else ()
        last = self._last_of(turn, self.for_them(turn.inbound, ended))
        turn.journal.end_now(
            last, final, _Hooks(self.chain, turn), lambda last, tx: self._clear_away(turn, tx, last.reason)
        )

    def for_them(self, inbound: Inbound, ended: TurnEnded) -> TurnEnded:
        """The end of a turn as its sender may read it: only the owner is told what went wrong."""
        if ended.reason != "failed" or profile_of(inbound).name != "guest":
            return ended
        from nanoclaw.log import logger

        logger.warning("a message in {} was not answered: {}", inbound.address, ended.answer)
        return ended._replace(answer=NOT_NOW)


class _Shown:
    """Shows the events of a turn where it was asked for, and keeps notices for the owner where none are shown."""

    def __init__(self, channels: Channels, turn: RunningTurn) -> None:
        self._channels, self._turn = channels, turn

    def __call__(self, event: object) -> None:
        turn = self._turn
        if isinstance(event, Notice) and event.stays and event.text not in turn.remarks:
            is_told = _is_owners(turn) and self._channels.shows_notices(turn.address)
            if not is_told and (event.stays == "owner" or _is_owners(turn)):
                turn.remarks.append(event.text)
        self._channels.show(turn.address, event)  # type: ignore[arg-type]


class _Hooks:
    """Runs what plugins do at the end of a turn, and adds notices for the owner below the answer."""

    def __init__(self, chain: Chain, turn: RunningTurn) -> None:
        self._chain, self._turn = chain, turn

    def __call__(self, ended: Ended, tx: Tx) -> Ended:
        turn = self._turn
        ended = self._chain.on_end(ended, turn, tx)  # type: ignore[arg-type]
        if not turn.remarks or not _is_owners(turn):
            return ended
        below, outbound = "\n".join(f"({text})" for text in turn.remarks), ended.outbound
        if outbound is None or outbound.address != turn.address:
            tx.send(Outbound(turn.address, below, reply_to=turn.external_id))
            return ended
        return ended._replace(outbound=outbound._replace(text=f"{outbound.text}\n\n{below}".strip()))


def _is_owners(turn: RunningTurn) -> bool:
    """True for a message of the owner in a private chat with the assistant."""
    return turn.role == "owner" and turn.origin == "person"
