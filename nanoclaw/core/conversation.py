"""The conversation actor: owns all that goes on in one conversation, and handles one message at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from nanoclaw.core.channel_registry import Channels
from nanoclaw.core.commands import Accepted, Commands, sorry
from nanoclaw.core.errors import NanoclawError, StoreError
from nanoclaw.core.events import Joined, Notice, Queued, Reason, TurnBegan, TurnEnded, TurnPaused
from nanoclaw.core.messages import Address, AssistantMessage, Inbound, Outbound, UserMessage, is_stop
from nanoclaw.core.plugin import Reply, profile_of
from nanoclaw.core.runner import Rounds, Runner
from nanoclaw.core.store import inbox
from nanoclaw.core.store.db import Transaction
from nanoclaw.core.store.inbox import OpenTurn
from nanoclaw.core.turn import AsksOwner, ModelDown, RunningTurn, TurnOver
from nanoclaw.escapes import one_line
from nanoclaw.log import logger
from nanoclaw.named_tuple import NamedTuple

BURST_SECONDS, BURST_MOST_SECONDS = 0.8, 5.0
"""A burst ends after 0.8 s without a message, and after 5 s in any case. Channels opt out by Hints(bursts=False), as
the terminal does."""

RETRY_SECONDS = (30, 60, 120, 300)
"""Pauses before a model that cannot be reached is asked again; the last one for ever."""

NO_MODEL = "I can't reach the model. Your message is kept, and I answer when it is back; /stop drops it."

Item = Accepted | OpenTurn
"""A message to be answered, or an open turn that is to be resumed."""


class QueuePolicy(NamedTuple):
    """The same for all conversations. `queue` is from config.toml: messages that come while a turn runs join it
    ("steer") or wait ("followup"). The seconds are changed by tests alone."""

    queue: Literal["steer", "followup"] = "steer"
    burst_seconds: float = BURST_SECONDS
    burst_most_seconds: float = BURST_MOST_SECONDS
    retry_seconds: Sequence[float] = RETRY_SECONDS


class PausedTurn(NamedTuple):
    """A turn that waits: for a model that cannot be reached (asked `tries` times), or for the owner's yes. `behind`
    came meanwhile, and is answered after it."""

    turn: OpenTurn
    tries: int = 0
    timer: asyncio.TimerHandle | None = None
    behind: tuple[Accepted, ...] = ()

    def alone(self) -> PausedTurn:
        """The turn itself, without its timer."""
        if self.timer:
            self.timer.cancel()
        return self._replace(behind=(), timer=None)


class Conversation:
    """One conversation: its queue, its running turn, its paused turn, and the messages that a stop dropped."""

    def __init__(self, address: Address, peers: Actors) -> None:
        self.address, self._peers, self._policy, self._channels = address, peers, peers.policy, peers.channels
        self._runner, self._commands, self._asker = peers.runner, peers.commands, peers.runner.chain.asker
        self._queue: deque[Item] = deque()
        self._news, self._has_news = asyncio.Event(), False  # something came, since that was last asked
        self._worker: asyncio.Task[None] | None = None
        self._item: Item | None = None
        self._rounds: Rounds | None = None
        self.paused: PausedTurn | None = None
        self._dropped: list[tuple[int, str]] = []  # rows and texts, until they are told
        self._began: datetime | None = None  # when the last turn began, in whole seconds as platforms tell
        self._asked_again_for = 0  # the row of a message that waits no longer than its limit
        self.leaves_turn_open = self.is_closing = False  # the next start resumes the running turn; the process ends

    # --- the queue ---------------------------------------------------------------------------------------------------

    def enqueue(self, item: Item) -> None:
        self._queue.append(item)
        self._has_news = True
        self._news.set()
        if self._rounds and self._joining(self._rounds.turn):
            self._rounds.restart_request()
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())

    def changed(self, row: int, inbound: Inbound) -> None:
        """A message says something else now, or was withdrawn. Once begun, its first text counts."""

        def now(one: Item) -> Item:
            if not isinstance(one, Accepted) or one.row != row:
                return one
            new = inbound._replace(wait_limit=one.inbound.wait_limit)
            return one._replace(inbound=new, given=self._commands.given(new))

        def is_left(one: Item) -> bool:
            return not (inbound.is_withdrawn and isinstance(one, Accepted) and one.row == row)

        self._queue = deque(map(now, filter(is_left, self._queue)))
        if self._item and not is_left(self._item):
            self._cancel()
        self._item = self._item and now(self._item)
        if self.paused:
            behind = (one for one in map(now, filter(is_left, self.paused.behind)) if isinstance(one, Accepted))
            self.paused = self.paused._replace(behind=tuple(behind))

    @property
    def is_working(self) -> bool:
        return self._item is not None

    @property
    def at_work_on(self) -> Inbound | None:
        """The message that is being answered; None if it was stopped."""
        if self._item is None or (self._worker and self._worker.cancelling()):
            return None
        return self._item.inbound

    async def idle(self) -> None:
        if self._worker and self._worker is not asyncio.current_task():
            await asyncio.wait([self._worker])

    async def close(self) -> None:
        """Cancel the running turn and keep waiting messages for later."""
        self.is_closing = True
        if self.paused:
            self.paused.alone()
        self._queue.clear()
        self._cancel()
        await self.idle()

    async def _work(self) -> None:
        """Handle one item after the other. An error ends one message, never the queue."""
        me = asyncio.current_task()
        while self._queue:
            item = self._item = self._queue.popleft()
            try:
                await self._handle(item)
            except Exception as error:
                await self._apologize(item, error)
            finally:
                self._item = self._rounds = None
            while me and me.cancelling():  # the handler dealt with the cancellation
                me.uncancel()

    async def _handle(self, item: Item) -> None:
        self._has_news = False
        if isinstance(item, OpenTurn):
            await self._resume(item)
            return
        if item.is_left_over and not (self.paused and self.paused.turn.waits_for_owner):
            text = one_line(self._commands.as_typed(item.inbound.message.text))
            self._channels.show(item.address, Notice(f"continuing with what was waiting: “{text}”"))
        asked = await self.carry_out(item) if item.given else item
        if asked:
            self._item = asked
            await self._answer(asked)

    async def carry_out(self, item: Accepted) -> Accepted | None:
        """Carry out a command, and end its message in the transaction of its writes. Returns what to ask the model
        instead, if anything."""
        assert item.given
        reason: Reason = "answered"
        dropped: list[int] = []
        done: Reply | UserMessage | None = None
        given = item.given
        try:
            if given.is_async:
                done = await self._commands.carry_out(given, item.inbound)
        except asyncio.CancelledError:
            if self.leaves_turn_open:
                raise
            text, dropped = self._cut(item.inbound)
            done, reason = Reply(text), "cancelled"

        def end(tx: Transaction) -> Accepted | None:
            nonlocal done
            done = done or self._commands.run_in(given, item.inbound, tx)
            if isinstance(done, UserMessage):
                asked = item._replace(inbound=item.inbound._replace(message=done), given=None)
                inbox.change(tx.db, asked.inbound)
                return asked
            if done.change:
                done.change(tx)
            ended = TurnEnded(done.text, reason)
            self._runner.end_without_turn(tx, self.address, item, ended, dropped, is_seen=is_seen)
            return None

        is_seen = self._begins_to_end(item.row)
        try:
            return await self._runner.sessions.transactions.write(end)
        except StoreError as error:  # nothing can be kept, but it can still be shown
            said = done.text if isinstance(done, Reply) else str(error)
            self._channels.show(item.address, TurnEnded(said, "failed"))
        return None

    def _joining(self, turn: RunningTurn) -> list[Accepted]:
        """The waiting messages that can join the running turn. Messages sent before it began get their own answer."""
        joins = self._policy.queue == "steer" and not self._runner.answers_one(turn.inbound, turn.session)
        return self._more_of(turn.inbound, since=self._began) if joins else []

    def _more_of(self, first: Inbound, since: datetime | None = None, until: datetime | None = None) -> list[Accepted]:
        """Messages next in the queue that can be answered together with the first: talk from the same address, under
        the same profile, said `since` and `until` then. A message that an earlier process left gets an answer of its
        own, and so does each of `nanoclaw -m`, which may be a script's."""
        found = list[Accepted]()
        for item in self._queue if not first.wait_limit else ():
            if not isinstance(item, Accepted) or item.is_left_over or item.address != first.address:
                break
            if not item.is_talk or profile_of(item.inbound) != profile_of(first):
                break
            at = item.inbound.message.at
            if (since and at < since) or (until and at > until):
                break
            found.append(item)
        return found

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._queue.popleft()

    async def steer(self, turn: RunningTurn) -> None:
        """Make what the person said meanwhile part of the turn."""
        if not self._has_news:
            return
        self._has_news = False
        if batch := self._joining(turn):
            await self._runner.join(turn, batch)
            self._tell_joined(batch)
            self._drop(len(batch))

    # --- a turn ------------------------------------------------------------------------------------------------------

    async def _answer(self, first: Accepted) -> None:
        """Run one turn for a message and those that belong to the same thought."""
        before, self._began = self._began, self._runner.sessions.transactions.clock().replace(microsecond=0)
        batch, tries = [first], 0
        try:
            batch = await self._collected(first, before)
            if (paused := self.paused) is None:
                turn = await self._runner.begin(self.address, batch)
                self._tell_joined(batch[1:])
            elif await self._waits_behind(batch, paused):
                return
            else:
                tries, _ = paused.tries, self.pop_paused()
                turn = self._runner.reopen(self.address, paused.turn, after_crash=False)
                await self._runner.join(turn, batch)
                self._tell_joined(batch)
        except NanoclawError as error:
            await self._reply_all(batch, str(error), "failed")
        except asyncio.CancelledError:
            if self.leaves_turn_open:
                raise
            text, dropped = self._cut(first.inbound)
            await self._reply_all(batch, text, "cancelled", dropped)
        else:
            await self._run(turn, tries=tries)

    async def _collected(self, first: Accepted, before: datetime | None) -> list[Accepted]:
        """The messages of one thought: those that follow the first within a moment; with "followup" also waiting ones
        that were sent after the last turn began, `before`."""
        if not first.is_talk or first.is_left_over or self.paused:
            return [first]
        if self._channels.collects(first.address):
            await self._calm()
            first = self._item if isinstance(self._item, Accepted) else first  # it may have been edited
        elif self._policy.queue == "steer" or before is None or first.inbound.message.at < before:
            return [first]
        is_small = self._runner.answers_one(first.inbound, self._runner.sessions.of(self.address))
        most = timedelta(seconds=self._policy.burst_most_seconds)
        more = self._more_of(first.inbound, until=first.inbound.message.at + most if is_small else None)
        self._drop(len(more))
        return [first, *more]

    async def _calm(self) -> None:
        """Wait until nothing has come for a moment."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._policy.burst_most_seconds
        while (left := min(self._policy.burst_seconds, until - loop.time())) > 0:
            self._news.clear()
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                return

    async def _resume(self, cut: OpenTurn) -> None:
        """Resume a turn that was interrupted or paused."""
        self._began, paused = self._runner.sessions.transactions.clock().replace(microsecond=0), self.pop_paused()
        if paused is None and (cut.waits_for_model or cut.waits_for_owner):  # stopped, or part of a newer turn
            return
        try:
            turn = self._runner.reopen(self.address, cut, after_crash=not cut.waits_for_model)
        except NanoclawError as error:
            await self.reply(Accepted(cut.row, cut.inbound), str(error), "failed")
            return
        if not cut.waits_for_owner:
            self._channels.show(cut.address, Notice(f"continuing with: “{one_line(cut.texts[0])}”"))
        waiting = turn.journal.waiting() if cut.waits_for_owner else None
        was_cut, tries = not (cut.waits_for_model or cut.waits_for_owner), paused.tries if paused else 0
        await self._run(turn, tries=tries, was_cut=was_cut, waiting=waiting)

    async def _run(
        self, turn: RunningTurn, *, tries: int = 0, was_cut: bool = False, waiting: AssistantMessage | None = None
    ) -> None:
        """Run the turn until it ends or has to wait."""
        rounds = self._rounds = Rounds(turn, self.steer, self._runner.toolbox)
        inbound = turn.inbound
        if not tries and not waiting:
            self._tell_at_home(inbound, f"{inbound.address.channel}: {inbound.message.text}")
        try:
            turn.show(TurnBegan(turn.external_id))
            await rounds.run(waiting)
        except TurnOver as end:
            over = end
        except AsksOwner as pause:
            self._pause_for_owner(turn, pause)
            return
        except ModelDown as pause:
            if not self._dropped and self._channels.stays(turn.address):
                self._pause_for_model(turn, tries)
                return
            over = pause.over
        except StoreError:  # calls that could not be noted as done must not be lost: they end as broken off
            raise
        except Exception as error:
            over = TurnOver(logged(error, self.address), "failed")
        except asyncio.CancelledError:
            is_earlier = isinstance(self._item, OpenTurn) or inbound.message.origin != "person"
            if self.leaves_turn_open or (self.is_closing and is_earlier):
                turn.journal.leave()
                raise
            over = TurnOver("", "cancelled", final=turn.begun_answer())
        said, dropped = self._cut(inbound) if over.reason == "cancelled" or self._dropped else ("", [])
        if said:  # a turn may come to its end all the same
            reason: Reason = "cancelled" if inbound.message.origin == "person" else over.reason
            over = TurnOver(f"{over.text}\n\n{said}".strip(), reason, over.files, over.final)
        self._item = self._rounds = None  # a stop comes too late from here on
        is_answered = over.reason == "answered"
        await self._runner.end(turn, over, dropped, partial(self._show_end, turn, is_answered), was_cut=was_cut)

    def _show_end(self, turn: RunningTurn, is_answered: bool, shown: TurnEnded) -> None:
        if is_answered and turn.origin == "person" and not shown.answer.strip():
            turn.show(Notice("(nothing to say)"))
        turn.show(shown)
        self._tell_at_home(turn.inbound, f"answered there: {shown.answer}" if shown.answer else "")

    # --- a turn that waits -------------------------------------------------------------------------------------------

    def _pause_for_model(self, turn: RunningTurn, tries: int) -> None:
        """Keep a turn until its model can be reached; the person is told at the first time."""
        told = None if tries else Outbound(turn.address, NO_MODEL, reply_to=turn.external_id)
        turn.journal.leave(told, waits=True)
        seconds = self._policy.retry_seconds[: tries + 1][-1]
        if cut := self._runner.inbox.open_turn(turn.id):
            timer = asyncio.get_running_loop().call_later(seconds, self.go_on, cut)
            self.paused = PausedTurn(cut, tries + 1, timer)
        turn.show(Notice(f"the model is asked again in {seconds:.0f} s"))
        turn.show(TurnEnded(NO_MODEL, "failed"))

    def _pause_for_owner(self, turn: RunningTurn, paused: AsksOwner) -> None:
        """Pause a turn until the owner has answered."""
        turn.show(TurnPaused())
        turn.journal.pause(paused.answer, lambda tx: self._asker.ask_owner(tx, turn, paused.asks))
        if cut := self._runner.inbox.open_turn(turn.id):
            self.paused = PausedTurn(cut)

    def resume(self, cut: OpenTurn) -> None:
        """Resume a turn of an earlier process, or keep waiting if it waits for the owner."""
        if cut.waits_for_model or cut.waits_for_owner:
            self.paused = PausedTurn(cut, int(cut.waits_for_model))
        if not (cut.waits_for_owner and self._asker.waits(cut.id)):
            self.go_on(cut)

    def go_on(self, cut: OpenTurn) -> None:
        """Resume a turn; the messages behind it follow."""
        if self.is_closing:
            return
        paused, self.paused = self.paused, self.paused and self.paused.alone()
        self.enqueue(cut)
        left = dict(self._runner.inbox.waiting()) if paused and paused.behind else {}  # some may be answers since
        for item in (one for one in paused.behind if one.row in left) if paused else ():
            self.enqueue(item)

    async def _waits_behind(self, batch: Sequence[Accepted], paused: PausedTurn) -> bool:
        """True if messages wait behind a turn that waits for the owner, or that was asked for elsewhere."""
        item, waits_for_owner = batch[0], paused.turn.waits_for_owner
        has_limit = item.inbound.wait_limit > 0
        if not (has_limit or waits_for_owner or paused.turn.address != item.address):
            return False
        if has_limit and (waits_for_owner or item.row == self._asked_again_for):
            first = f"“{one_line(paused.turn.texts[0])}” waits for an answer here first"
            raise NanoclawError(f"{first}: nanoclaw shows it, /stop drops it, --session talks elsewhere.")
        self.paused = paused._replace(behind=(*paused.behind, *batch))
        if has_limit:  # the model may be back
            self._asked_again_for = item.row
            self.go_on(paused.turn)
        self._begins_to_end(item.row)
        for one in batch if not has_limit else ():
            if waits_for_owner:
                self._channels.show(one.address, Queued(one.inbound.external_id))
            else:
                told = Outbound(one.address, NO_MODEL, reply_to=one.inbound.external_id)
                await self._runner.inbox.reply(one.row, told)
        return True

    def pop_paused(self) -> PausedTurn | None:
        """Remove and return the paused turn, to go on with it or end it; the messages behind it enter the queue."""
        paused, self.paused = self.paused, None
        if paused is None:
            return None
        paused.alone()
        if paused.turn.waits_for_owner:
            self._asker.drop(paused.turn.id)
        for item in paused.behind:
            self.enqueue(item)
        return paused

    # --- stops -------------------------------------------------------------------------------------------------------

    def halt(self, row: int | None = None) -> bool:
        """Stop the running turn and drop waiting messages, which are remembered until they are reported. True if
        something was running: then its turn reports, and also ends the `row` of who asked for the stop."""
        paused = self.pop_paused()
        for item in self._queue:
            texts = item.texts if isinstance(item, OpenTurn) else (item.inbound.message.text,)
            typed = (self._commands.as_typed(text) for text in texts if not is_stop(text))
            self._dropped.append((item.row, "; ".join(typed)))
        self._queue.clear()
        if paused:
            begun = paused.turn.waits_for_owner
            self._dropped.append((paused.turn.row, "" if begun else "; ".join(paused.turn.texts)))
            self._runner.sessions.of(self.address).end_turn()
        ran = self._cancel()
        if ran and row is not None:
            self._dropped.append((row, ""))
        return ran

    def dropped(self) -> list[tuple[int, str]]:
        """Return the messages that stops have dropped, to report them now."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def _cancel(self) -> bool:
        """Cancel what is being handled, which may still end well. False if there is nothing but who asks for it."""
        worker = self._worker if self.is_working else None
        return worker is not None and worker is not asyncio.current_task() and worker.cancel()

    def _cut(self, inbound: Inbound) -> tuple[str, list[int]]:
        """The text about a turn that was stopped, and the rows that end with it."""
        dropped, others = self.dropped(), ", ".join(self._peers.background_elsewhere(inbound, self.address).values())
        still = f" Still running: {others}; /stop again ends that too." if others else ""
        return f"Stopped.{not_begun(dropped)}{still}", [row for row, _ in dropped]

    async def reply(self, item: Accepted, text: str, reason: Reason = "answered", also: Iterable[int] = ()) -> None:
        """End a message that needed no turn, and `also` other rows that the reply is about."""
        end, is_seen, ended = self._runner.end_without_turn, self._begins_to_end(item.row), TurnEnded(text, reason)
        write = self._runner.sessions.transactions.write
        await write(lambda tx: end(tx, self.address, item, ended, also, is_seen=is_seen))

    def _begins_to_end(self, row: int) -> bool:
        """From now on a stop comes too late for it. True if nothing else is handled, so its end is shown."""
        if self._item and self._item.row == row:
            self._item = self._rounds = None
        return not self.is_working

    async def _reply_all(self, batch: Sequence[Accepted], text: str, reason: Reason, also: Iterable[int] = ()) -> None:
        self._tell_joined(batch[1:])
        await self.reply(batch[0], text, reason, [*also, *(one.row for one in batch[1:])])

    def _tell_joined(self, batch: Sequence[Accepted]) -> None:
        if batch:
            self._channels.show(batch[0].address, Joined(tuple(one.inbound.external_id for one in batch)))

    def _tell_at_home(self, inbound: Inbound, text: str) -> None:
        """Show a line at the conversation's usual place about what is said in it elsewhere."""
        if text and self.address != inbound.address and inbound.message.origin == "person":
            self._channels.show(self.address, Notice(one_line(text)))

    async def _apologize(self, item: Item, error: Exception) -> None:
        """Say in one sentence that handling an item went wrong, and continue with the next."""
        text = logged(error, self.address)
        try:
            await self.reply(Accepted(item.row, item.inbound), text, "failed")
            session = self._runner.sessions.of(self.address)
            session.end_turn()
            session.unload()  # what was under way has ended there
        except StoreError:  # nothing can be kept, but it can still be shown
            self._channels.show(item.address, TurnEnded(text, "failed"))


def not_begun(dropped: Iterable[tuple[int, str]]) -> str:
    texts = [one_line(text) for _, text in dropped if text]
    return f" Not begun: {'; '.join(texts)}." if texts else ""


def logged(error: Exception, conversation: Address) -> str:
    """Log why a message had no answer. Returns the sentence for whoever wrote it."""
    logger.opt(exception=error).error("answering a message in {} failed", conversation)
    return sorry(error)


class Actors:
    """All conversations: makes one for its first message, and stops, resumes and closes them together."""

    def __init__(self, runner: Runner, commands: Commands, channels: Channels, policy: QueuePolicy) -> None:
        self.runner, self.commands, self.channels, self.policy = runner, commands, channels, policy
        self._actors: dict[Address, Conversation] = {}

    def of(self, address: Address) -> Conversation:
        if address not in self._actors:
            self._actors[address] = Conversation(address, self)
        return self._actors[address]

    def for_message(self, inbound: Inbound) -> Conversation:
        """The conversation that a message is part of."""
        return self.of(inbound.conversation or inbound.address)

    def enqueue(self, row: int, inbound: Inbound, *, is_left_over: bool = False) -> None:
        """Give a message to its conversation."""
        item = Accepted(row, inbound, self.commands.given(inbound), is_left_over)
        self.for_message(inbound).enqueue(item)

    def reload(self) -> None:
        """Read the waiting messages again after somebody has changed them in the store."""
        for row, inbound in self.runner.inbox.waiting():
            self.for_message(inbound).changed(row, inbound)

    def background_elsewhere(self, inbound: Inbound, here: Address) -> dict[Address, str]:
        """Conversations except `here`, in words, that run something nobody asked for just now, such as a task; only
        where the sender of a message may stop them."""
        from_owner = inbound.message.origin == "person" and inbound.role == "owner" and not inbound.is_group
        found = ((address, actor.at_work_on) for address, actor in self._actors.items() if from_owner)
        works = {one: work for one, work in found if work and work.message.origin != "person" and one != here}
        return {one: profile_of(work).words.format(one.chat) or f"a turn in {one}" for one, work in works.items()}

    def resume(self, turn: int) -> None:
        """The owner has answered all questions of a turn."""
        if cut := self.runner.inbox.open_turn(turn):
            self.for_message(cut.inbound).go_on(cut)

    def halt_all(self) -> dict[Address, bool]:
        """Stop every conversation. Returns by address whether something was running there."""
        return {address: actor.halt() for address, actor in list(self._actors.items())}

    async def idle(self) -> None:
        """Wait until every accepted message is answered, except those that wait for a model or the owner."""
        await asyncio.gather(*(actor.idle() for actor in list(self._actors.values())))

    async def close(self, *, leave: bool = False) -> None:
        """Stop what runs, or `leave` it to the next start; waiting messages are always left to it."""
        for actor in self._actors.values():
            actor.leaves_turn_open = leave
        await asyncio.gather(*(actor.close() for actor in list(self._actors.values())))
