"""The runner: begins a turn with its messages, and ends it with its answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

from nanoclaw.core import prompt_snapshot
from nanoclaw.core.calls import CallRunner
from nanoclaw.core.commands import NOT_NOW, Accepted
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.events import Event, Notice, Reason, TurnEnded
from nanoclaw.core.messages import Address, AssistantMessage, Inbound, Message, NoteRef, Outbound, Reach
from nanoclaw.core.plugin import Draft, Ended, Profile
from nanoclaw.core.profiles import profile_of
from nanoclaw.core.prompt_snapshot import Manifest, Preview, manifest
from nanoclaw.core.store.inbox import Inbox, OpenTurn
from nanoclaw.core.store.sessions import Session, Sessions
from nanoclaw.core.store.tx import Transaction
from nanoclaw.core.turn import RunningTurn, TurnOver, TurnParts

ONE_ANSWER = (
    "This and the {} before it have no answer yet: your last message answers them all, so cover each of them. "
    "Text beside tool calls is not sent."
)

INTERRUPTED = "(I was interrupted and continued.)"

FRESH = ("minimal", "none")
"""Modes of turns that know nothing of what was said before."""


class _Previewed(RunningTurn):
    """A turn that is not going to be: nothing of it is shown."""

    @property
    def history(self) -> tuple[Message, ...]:
        return () if self.profile.mode in FRESH else super().history

    def show(self, event: Event) -> None: ...


class Runner:
    """Begins and ends the turns of all conversations."""

    def __init__(self, sessions: Sessions, inbox: Inbox, parts: TurnParts, call_runner: CallRunner) -> None:
        self.builder, self.sessions, self.inbox, self.chain = parts.builder, sessions, inbox, parts.chain
        self._parts, self.call_runner = parts, call_runner
        self._model_calls, self._channels = parts.model_calls, parts.channels
        self._for_owner: dict[str, None] = {}  # notices that came up in turns of others

    def reach(self, name: str) -> Reach:
        """The reach of a tool by its name; for an unknown one, the widest."""
        return self.call_runner.toolbox.reach(name)

    def answers_one(self, inbound: Inbound, session: Session | None) -> bool:
        """True for a small model: of several questions in a row it answers only the last."""
        try:
            provider = self._model_calls.provider(profile_of(inbound), session.model if session else "")
        except NanoclawError:  # which is told when it is asked
            return False
        return bool(getattr(provider, "cuts_history", False))

    # --- its beginning -----------------------------------------------------------------------------------------------

    async def begin(self, conversation: Address, batch: Sequence[Accepted]) -> RunningTurn:
        """Begin a turn for messages in quick succession; stored when this returns. Their files are fetched first, which
        may take time. Raises ConfigError if its model cannot be asked at present."""
        inbound, session = batch[0].inbound, self.sessions.of(conversation)
        profile = profile_of(inbound)
        from_plugin = inbound.message.origin != "person" and self._channels.get(inbound.address.channel) is None
        if (profile.mode in FRESH or from_plugin) and session.history:
            await self.sessions.transactions.write(session.reset)
        turn = RunningTurn(
            self._parts, self.sessions.next_turn(), inbound, conversation, session, batch[0].row, profile
        )
        before = turn.snapshot
        turn.model_call.provider  # noqa: B018 - nothing is begun where it cannot be asked
        messages, made_of = await self._context(turn, batch)
        if turn.snapshot.cut_files and before.cut_files != turn.snapshot.cut_files:
            names = ", ".join(turn.snapshot.cut_files)
            turn.show(Notice(f"too long for the model to see in full: {names} (/context shows how much)", stays="here"))
        kept = "" if turn.snapshot is before else turn.snapshot.dump()
        await turn.journal.begin([one.row for one in batch], messages, made_of.dump(), kept)
        return turn

    async def preview(self, conversation: Address, inbound: Inbound, profile: Profile | None = None) -> Preview:
        """The request that a message would be part of if it came now. Nothing is kept, and no model is asked."""
        session = self.sessions.of(conversation)
        turn = _Previewed(self._parts, 0, inbound, conversation, session, profile=profile)
        if turn.profile.mode in FRESH:
            turn.snapshot = prompt_snapshot.EMPTY
        messages, made_of = await self._context(turn, [Accepted(0, inbound)])
        try:
            model, _, factor, *_ = turn.model_call.asked()
        except NanoclawError as error:
            model, factor = f"none ({error})", 1.0
        return Preview(made_of, turn.snapshot, turn.history, tuple(messages), model, factor)

    async def _context(self, turn: RunningTurn, batch: Sequence[Accepted]) -> tuple[list[Message], Manifest]:
        """The messages of a turn that begins, and what its request is made of."""
        profile, before = turn.profile, turn.snapshot
        if before.profile != profile.name:
            await self.chain.before_context(turn)
        turn.snapshot = self.builder.resume(before, turn.inbound.message.text, profile, turn.address.channel)
        messages, notes = await self._frames(turn, batch)
        return messages, manifest(profile.mode, turn.snapshot, notes, is_new=before is prompt_snapshot.EMPTY)

    async def join(self, turn: RunningTurn, batch: Sequence[Accepted]) -> None:
        """Add messages to a running turn."""
        before = turn.snapshot
        messages, _ = await self._frames(turn, batch)
        if turn.snapshot != before:
            session, text = turn.session, turn.snapshot.dump()
            turn.later(lambda tx: session.keep_snapshot(text))
        await turn.journal.change(lambda tx: turn.journal.join(tx, [one.row for one in batch], messages))

    def reopen(self, conversation: Address, cut: OpenTurn, *, after_crash: bool) -> RunningTurn:
        """Reopen a turn that did not end."""
        session = self.sessions.of(conversation)
        turn = RunningTurn(self._parts, cut.id, cut.inbound, conversation, session, cut.row)
        self._begin_context(turn)
        turn.journal.reopen(cut, after_crash=after_crash)
        turn.tried, turn.calls = turn.journal.retries(), turn.journal.calls()
        turn.messages = len(cut.texts)
        return turn

    def _begin_context(self, turn: RunningTurn) -> None:
        """A context for a turn whose conversation has none."""
        if turn.snapshot is prompt_snapshot.EMPTY:
            turn.snapshot = self.builder.begin("", turn.profile)

    async def _frames(self, turn: RunningTurn, batch: Sequence[Accepted]) -> tuple[list[Message], list[NoteRef]]:
        """Messages as the model reads them: for each its metadata and its content."""
        messages, notes = list[Message](), list[NoteRef]()
        for one in batch:
            inbound = one.inbound
            by, quote = inbound.quote_from, inbound.quote
            others = ((by, quote),) if by else ()
            draft = Draft(inbound.message, inbound.attachments, (), "" if by else quote, (), inbound, others)
            draft = await self.chain.before_turn(draft, turn)
            turn.snapshot, line = self.builder.introduce(turn.snapshot, inbound.address.channel)
            turn.messages += 1
            is_late = one is batch[-1] and turn.messages > 1
            late = ONE_ANSWER.format(turn.messages - 1) if is_late and turn.origin == "person" else ""
            draft = draft._replace(remarks=(*draft.remarks, *filter(None, (line, late))))
            messages += self.builder.frame(draft, turn.now())
            notes += draft.notes
        return messages, notes

    @asynccontextmanager
    async def beside(self, conversation: Address, inbound: Inbound) -> AsyncIterator[RunningTurn]:
        """A turn without a message of its own; what it leaves to be written is written at its end."""
        turn = RunningTurn(self._parts, 0, inbound, conversation, self.sessions.of(conversation))
        self._begin_context(turn)
        try:
            yield turn
        finally:
            await turn.journal.flush()

    # --- its end -----------------------------------------------------------------------------------------------------

    async def end(
        self,
        turn: RunningTurn,
        over: TurnOver,
        dropped: Iterable[int],
        then: Callable[[TurnEnded], object],
        *,
        was_cut: bool = False,
    ) -> None:
        """End a turn: what plugins do at its end, the answer, the end of its messages and the removal of what is not
        kept are one transaction. Once that is on disk `then` is called with what to show."""
        if turn.is_owners:  # of its helpers, too
            for text in self._for_owner:
                turn.show(Notice(text, stays="here"))
            self._for_owner.clear()
        ended = self.for_them(turn.inbound, TurnEnded(over.text, over.reason, turn.usage, over.files))

        def end_in(tx: Transaction) -> None:
            last = self._on_end(turn, self._last_of(turn, ended, was_cut), tx)
            last = turn.journal.end(tx, last, over.final, turn.model_call.model, dropped)
            shown = last.outbound.text if last.outbound and last.outbound.address == turn.address else ""
            files = last.outbound.files if last.outbound else ()
            named = ", ".join(file.rpartition("/")[2] for file in files)
            self._clear_away(turn, tx, ended.reason)
            told = ended._replace(answer=shown if shown.strip() else named, reason=last.reason, files=())
            tx.after(lambda: then(told))

        await turn.journal.change(end_in)

    def _on_end(self, turn: RunningTurn, ended: Ended, tx: Transaction) -> Ended:
        """Run what plugins do at the end of a turn, and add notices for the owner below the answer."""
        ended = self.chain.on_end(ended, turn, tx)
        if not turn.remarks or not turn.is_owners:
            return ended
        below, outbound = "\n".join(f"({text})" for text in turn.remarks), ended.outbound
        if outbound is None or outbound.address != turn.address:
            tx.send(Outbound(turn.address, below, reply_to=turn.external_id))
            return ended
        return ended._replace(outbound=outbound._replace(text=f"{outbound.text}\n\n{below}".strip()))

    def _clear_away(self, turn: RunningTurn, tx: Transaction, reason: Reason) -> None:
        if not turn.is_owners:
            self._for_owner |= dict.fromkeys(turn.remarks)
        if not turn.profile.keeps:
            self.sessions.drop(tx, turn.session, turn.id)
        elif turn.calls:
            if any(self.reach(call.name) != "none" for call in turn.calls):
                snapshot = prompt_snapshot.load(turn.session.snapshot_text) or turn.snapshot
                turn.session.keep_snapshot(self.builder.with_own_changes(snapshot, turn.calls, turn.profile).dump())
        elif turn.profile.wait and reason == "failed":
            tx.execute("DELETE FROM messages WHERE turn = ?", turn.id)  # the next question is asked without it
            tx.after(turn.session.unload)

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
            turn = RunningTurn(self._parts, 0, item.inbound, conversation, self.sessions.of(conversation))
            outbound = self.chain.on_end(Ended(ended.reason, outbound, text), turn, tx).outbound
        self.inbox.done((item.row, *also), outbound)
        if is_seen:
            tx.after(lambda: self._channels.show(item.address, ended))

    def say_instead(self, conversation: Address, cut: OpenTurn, text: str, ended: TurnEnded) -> None:
        """End a turn that is not resumed with a text by the program."""
        turn = self.reopen(conversation, cut, after_crash=False)
        final = (AssistantMessage(text, turn.now()),) if text else ()

        def end_in(tx: Transaction) -> None:
            last = self._on_end(turn, self._last_of(turn, self.for_them(turn.inbound, ended)), tx)
            self._clear_away(turn, tx, turn.journal.end(tx, last, final, "").reason)

        turn.journal.change_now(end_in)

    def for_them(self, inbound: Inbound, ended: TurnEnded) -> TurnEnded:
        """The end of a turn as its sender may read it: only the owner is told what went wrong."""
        if ended.reason != "failed" or profile_of(inbound).name != "guest":
            return ended
        from nanoclaw.log import logger

        logger.warning("a message in {} was not answered: {}", inbound.address, ended.answer)
        return ended._replace(answer=NOT_NOW)
