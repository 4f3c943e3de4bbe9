"""The router: the one way in. A message is accepted once, judged by the plugins, and handed to its conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from nanoclaw.core.channel import TERMINAL
from nanoclaw.core.channel_registry import Channels
from nanoclaw.core.commands import Accepted, Commands, parse
from nanoclaw.core.conversation import Actors, Conversation, not_begun
from nanoclaw.core.errors import StoreError
from nanoclaw.core.events import Queued, Reason, TurnEnded
from nanoclaw.core.messages import Address, Inbound, Outbound, is_stop
from nanoclaw.core.plugin import NamedTuple, Reply, profile_of
from nanoclaw.core.runner import Runner
from nanoclaw.core.store import inbox
from nanoclaw.core.store.db import PANIC, Flags, Transaction
from nanoclaw.core.store.inbox import OpenTurn
from nanoclaw.escapes import one_line
from nanoclaw.runtime_metadata import SAID_TO_PROGRAM

FROZEN = "Everything is frozen by /panic. This is kept until /resume."
TOO_LATE = "Your edit changes nothing: this was answered before. Send the new words as a message of their own."
FROZEN_FOR_GUESTS = "I am paused. This is kept until I continue."


class _Taken(NamedTuple):
    """A message that was accepted, and what a command said at once."""

    item: Accepted
    said: str | None = None


class _Tried(Exception):
    """Rolls back what a plugin wrote for its answer."""


class Router:
    """Accepts messages from channels and plugins, and resumes what an earlier process left."""

    def __init__(
        self, runner: Runner, conversations: Actors, commands: Commands, channels: Channels, flags: Flags
    ) -> None:
        self._runner, self._conversations, self._commands = runner, conversations, commands
        self._channels, self._flags = channels, flags
        self._transactions = runner.sessions.transactions
        self._inbox, self._chain = runner.inbox, runner.chain
        self._beside: set[asyncio.Task[None]] = set()
        self._arriving: set[int] = set()
        """Rows that are stored but not yet with their conversation, or whose commands are running."""

    @property
    def is_frozen(self) -> bool:
        return self._flags.get(PANIC) is not None

    # --- in ----------------------------------------------------------------------------------------------------------

    async def deliver(self, inbound: Inbound) -> str | None:
        """Accept a message, or an edit of one that is not begun yet. It is on disk when this returns; its answer comes
        through the outbox; that of code is returned, too, and '' for an edit. One accepted before, or of a stranger, is
        dropped."""
        if inbound.address.channel == TERMINAL:
            inbound = inbound._replace(role="owner")
        try:
            taken = await self._transactions.write(partial(self._accept, inbound))
        except StoreError:
            self._stop_unkept(inbound)
            raise
        if taken is None:
            return None
        item, said = taken
        self._arriving.discard(item.row)  # nothing is waited for until its conversation has it
        conversation, inbound = self._conversations.for_message(item.inbound), item.inbound
        if inbound.is_edit:
            self._conversations.reload()
            if inbound.is_withdrawn:
                conversation.changed(item.row, inbound)
        if said is not None:
            if not conversation.is_working:
                self._channels.show(inbound.address, TurnEnded(said, "answered"))
        elif is_stop(inbound.message.text) and inbound.message.origin == "person":
            if reply := self._stop(item):
                await reply
        elif not inbound.is_edit:
            await self._hand_over(item, conversation)
        return "" if inbound.is_edit else said

    def is_for_code(self, inbound: Inbound) -> bool:
        """True for a message that a plugin answers by code. Nothing that this check writes is kept."""
        with suppress(_Tried), self._transactions.open() as tx:
            _, said = self._chain.on_message(inbound, tx)
            if isinstance(said, Reply):
                raise _Tried
            return False
        return True

    async def keep(self, inbound: Inbound) -> None:
        """Accept a message and leave it to the next start: only the plugins see it now."""
        await self._transactions.write(lambda tx: self._accept(inbound, tx, answers=False))

    def _accept(self, inbound: Inbound, tx: Transaction, *, answers: bool = True) -> _Taken | None:
        """Everything about a new message that is decided at once, in one transaction."""
        if not inbound.is_edit and self._inbox.seen(inbound):
            return None
        said_as = inbound.message.text
        inbound, said = self._chain.on_message(inbound, tx)
        if said == "ignore":
            return None
        if isinstance(said, Reply):
            remark = SAID_TO_PROGRAM.format(one_line(said_as, 300))
            return self._answered(inbound, tx, said, remark if said.is_news else "")
        if inbound.role is None:
            return None
        if inbound.is_edit:
            row = inbox.change(tx.db, inbound)
            if row is None and inbox.change_answered(tx.db, inbound):
                tx.send(Outbound(inbound.address, TOO_LATE, reply_to=inbound.external_id), is_news=False)
            return None if row is None else _Taken(Accepted(row, inbound))
        given = self._commands.given(inbound)
        if answers and given and not (given.is_async or given.waits or is_stop(inbound.message.text)):
            done = self._commands.run_in(given, inbound, tx)
            if isinstance(done, Reply):
                return self._answered(inbound, tx, done)
            inbound, given = inbound._replace(message=done), None
        row = tx.accept(inbound)
        if row is None:
            return None
        item = Accepted(row, inbound, given)
        if item.is_talk:
            self._runner.sessions.of(inbound.conversation or inbound.address)  # its own row, the first time
        if answers:
            tx.after(partial(self._arriving.add, row))
        return _Taken(item)

    def _answered(self, inbound: Inbound, tx: Transaction, reply: Reply, remark: str = "") -> _Taken | None:
        """Store a message that code has answered, with its reply; returns its row. With a `remark` the model of the
        conversation learns of it later."""
        row = tx.accept(inbound, "done")
        if row is None:
            return None
        if reply.text:
            tx.send(Outbound(inbound.address, reply.text, reply_to=inbound.external_id), remark, inbox=row)
        if reply.change:
            reply.change(tx)
        return _Taken(Accepted(row, inbound), reply.text)

    async def _hand_over(self, item: Accepted, conversation: Conversation) -> None:
        """Give an accepted message to its conversation, or keep it while everything is frozen."""
        inbound = item.inbound
        if item.given and not item.given.waits:
            self._arriving.add(item.row)
            self._do_beside(self._carry_out(item, conversation))
            return
        if self.is_frozen:
            from_guest = profile_of(inbound).name == "guest"
            kept = FROZEN_FOR_GUESTS if from_guest else FROZEN
            await self._inbox.reply(item.row, Outbound(inbound.address, kept, reply_to=inbound.external_id))
            return
        if conversation.is_working:
            self._channels.show(inbound.address, Queued(inbound.external_id))
        conversation.enqueue(item)

    async def _carry_out(self, item: Accepted, conversation: Conversation) -> None:
        """Run a command that takes time, but does not wait in the queue."""
        try:
            asked = await conversation.carry_out(item)
        finally:
            self._arriving.discard(item.row)
        if asked:
            conversation.enqueue(asked)

    def _do_beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    # --- what an earlier process left --------------------------------------------------------------------------------

    def resume(self, is_served: Callable[[Address], bool]) -> bool:
        """After a start: resume, or report, turns that were cut off; then handle accepted messages. False if there are
        none."""
        if self.is_frozen:
            return False
        cuts, left = self._inbox.open_turns(), self._inbox.waiting()  # what comes of the cuts is taken up as it comes
        for cut in cuts:
            if is_served(cut.inbound.address):
                self._take_up(cut)
        for row, inbound in left:
            if row in self._arriving or not is_served(inbound.address):
                continue
            if inbound.message.origin == "person" and is_stop(inbound.message.text):
                if reply := self._stop(Accepted(row, inbound)):
                    self._do_beside(reply)
            else:
                self._conversations.enqueue(row, inbound, is_left_over=True)
        return bool(cuts or left)

    def _take_up(self, cut: OpenTurn) -> None:
        """Resume a turn that was cut off by the end of the process, once, unless it has touched more than the workspace
        or nobody waits for it; then the person is told what ran, and asked."""
        conversation = self._conversations.for_message(cut.inbound)
        outside = sorted({name for name in cut.tools if self._chain.reach(name) == "outside"})
        waits = self._channels.stays(cut.address)
        if cut.waits_for_owner or cut.waits_for_model or (waits and not (outside or cut.resumed)):
            conversation.resume(cut)
            return
        reason: Reason = "failed"
        ran = ""
        if cut.calls:
            calls = "; ".join(f"`{one_line(call)}`" for call in cut.calls)
            ran = f" This was running and may have been done in part: {calls}."
        elif outside:
            ran = f" I had already used {', '.join(outside)}."
        said = " and ".join(f"“{one_line(text)}”" for text in cut.texts)
        then = "Shall I go on?" if waits else "Ask again if it still matters."
        text = f"I was interrupted while I worked on {said}.{ran} I did not repeat it. {then}"
        if again := profile_of(cut.inbound).again:
            text, reason = again.format(ran) if ran else "", "answered"
        self._runner.say_instead(conversation.address, cut, text, TurnEnded(text, reason))

    # --- stops -------------------------------------------------------------------------------------------------------

    def _stop(self, item: Accepted) -> Coroutine[Any, Any, None] | None:
        """Stop the running turn of a conversation and drop waiting messages; if nothing runs there, stop background
        turns. Returns the reply, unless a stopped turn gives it."""
        conversation = self._conversations.for_message(item.inbound)
        asked = conversation.paused is not None and conversation.paused.turn.waits_for_owner
        if conversation.halt(item.row):
            return None
        dropped = conversation.dropped()
        unasked = self._conversations.background_elsewhere(item.inbound, conversation.address)
        for address in unasked:
            self._conversations.of(address).halt()
        nothing = "Stopped." if asked else "Nothing is running."
        said = f"Stopped: {', '.join(unasked.values())}." if unasked else nothing
        return conversation.reply(item, f"{said}{not_begun(dropped)}", also=[row for row, _ in dropped])

    def _stop_unkept(self, inbound: Inbound) -> None:
        """Stop the running turn although the message cannot be stored: a full disk must not prevent a stop."""
        command = parse(inbound.message.text)
        if is_stop(inbound.message.text):
            self._conversations.for_message(inbound).halt()
        elif command and command[0] == "panic" and inbound.role == "owner":
            self._conversations.halt_all()
