"""One message's whole path: stored, queued in its lane, answered by a command or a turn, handed to delivery."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

from nanoclaw.core import commands
from nanoclaw.core import prompt_snapshot as openings
from nanoclaw.core.channel import is_stop
from nanoclaw.core.commands import Answer, Said
from nanoclaw.core.compaction import Compaction, Shrink
from nanoclaw.core.context import ContextBuilder, joined, recent_talk
from nanoclaw.core.delivery import Delivery
from nanoclaw.core.errors import NanoclawError, ScheduleError, SkillError, StoreError
from nanoclaw.core.events import Event, Joined, Notice, Queued, Reason, Receipt, TurnBegan, TurnEnded
from nanoclaw.core.manifest import manifest
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    Inbound,
    Limits,
    Message,
    Origin,
    Outbound,
    Role,
    SystemPrompt,
    ToolCall,
    Usage,
    UserMessage,
)
from nanoclaw.core.model_call import Asking
from nanoclaw.core.prompt_snapshot import Opening
from nanoclaw.core.provider import Provider
from nanoclaw.core.sections import Mode
from nanoclaw.core.store.flags import PANIC, Flags
from nanoclaw.core.store.inbox import Ending, Inbox, OpenTurn
from nanoclaw.core.store.outbox import Outbox
from nanoclaw.core.store.sessions import Session, Sessions
from nanoclaw.core.store.sessions import Turn as Journal
from nanoclaw.core.store.usage import Call
from nanoclaw.core.token_estimate import Calibration
from nanoclaw.core.tool import Toolbox, ToolContext
from nanoclaw.core.turn import Turn, nobody
from nanoclaw.core.waiting import KNOCK_SECONDS, Accepted, Dropped, GoOn, Item, Waiting
from nanoclaw.plugins.budget.budget import Budget
from nanoclaw.plugins.inspect.conversation import conversation_commands
from nanoclaw.plugins.media.attachments import Arrived, as_it_is
from nanoclaw.plugins.media.replies import Check, Hushed, leaving, named, no_file, same_words
from nanoclaw.plugins.skills.skills import Skill, by_hand, find
from nanoclaw.plugins.undo.receipts import Receipts

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.recall import Hit

_NO_MODEL = "I can't reach the model. Your message is kept, and I answer when it is back; /stop drops it."
_NOT_NOW = "I can't do that just now."


class Assistant:
    def __init__(
        self,
        *,
        sessions: Sessions,
        inbox: Inbox,
        outbox: Outbox,
        flags: Flags,
        delivery: Delivery,
        builder: ContextBuilder,
        toolbox: Toolbox,
        provider_for: Callable[[str], Provider],
        receipts: Receipts,
        show: Callable[[Address, Event], None],
        status: Callable[[], str],
        clock: Callable[[], datetime],
        rounds: int,
        most_calls: int = 128,
        turn_seconds: float = 1800.0,
        queue: Literal["steer", "followup"] = "steer",
        limits: Limits = Limits(),
        answers: Mapping[str, Answer] | None = None,
        search: Callable[[str, int], list[Hit]] = lambda query, limit: [],
        cost: Callable[[str, Usage], str] = lambda model, usage: "price unknown",
        calibration: Calibration | None = None,
        budget: Budget | None = None,
        skills: Callable[[], Sequence[Skill]] = lambda: (),
        waits: Callable[[Address], bool] = lambda address: True,
        end_left_over: Callable[[], int] = lambda: 0,
        knock_seconds: Sequence[float] = KNOCK_SECONDS,
        window_of: Callable[[str], int | None] = lambda model: None,
        learned_window: Callable[[str, int], None] = lambda model, tokens: None,
        forget_window: Callable[[str], bool] = lambda model: False,
        window_in_words: Callable[[str], str] = lambda model: "",
        tells_receipts: bool = True,
        writes_receipts: Callable[[Address], bool] = lambda address: False,
        reaction: Callable[[Inbound], Ending | None] = lambda inbound: None,
        ending: Callable[[Inbound, TurnEnded, bool], Ending | None] = lambda inbound, ended, touched: None,
        toolboxes: Mapping[Origin | Literal["guest"], Toolbox] | None = None,
        resumed: Callable[[], None] = lambda: None,
        arrive: Callable[[Inbound, Callable[[str], None]], Awaitable[Arrived]] = as_it_is,
        check_file: Check = no_file,
        told: Callable[[int, Address], Sequence[Outbound]] = lambda turn, address: (),
        role_of: Callable[[Inbound], Role] = lambda inbound: "owner",
        conversation: Callable[[Inbound], Address] = lambda inbound: inbound.address,
        shows_notices: Callable[[Address], bool] = lambda address: True,
    ) -> None:
        """`provider_for(name)` gives the provider of a model ('' = as configured) and raises ConfigError.

        `answers` carry out the commands that other parts know about; `search(query, limit)` finds notes;
        `cost(model, usage)` puts a price in words; `skills` are those that can be started by hand. With `queue`
        "steer" a message that comes while a turn runs reaches the model after the running tools; with "followup" all
        that came meanwhile is answered by the next turn. `waits(address)` is False
        where nobody is there for an answer that comes much later. `reaction(inbound)` answers by code what a person
        says to a reminder. `ending(inbound, ended, touched)` is how a message ends that no person sent; `touched`: its
        turn may have changed more than the workspace. `toolboxes` are those of guests and of origins that have not the
        usual one; a guest without has none.
        After a turn that changed something a line about it is shown with `tells_receipts`, and stands below the answer
        at addresses where `writes_receipts`.
        `forget_window(model)` forgets what was learned, and tells whether anything was; `window_in_words(model)` says
        what is gone by. `end_left_over()` ends what commands of an earlier process left running, and counts it.
        `arrive(inbound, tell)` fetches what came with a message; `check_file` says which files an answer may bring;
        `told(turn, address)` is what a tool has sent there in the midst of a turn. `role_of(inbound)` is whose message
        it is, and `conversation(inbound)` what it is part of; its answer goes to where it came from all the same.
        Where an address is not one of `shows_notices`, a message says which files could not be had.
        """
        self._sessions, self._inbox, self._outbox, self._flags = sessions, inbox, outbox, flags
        self._delivery, self._builder, self._toolbox, self._provider_for = delivery, builder, toolbox, provider_for
        self._receipts, self._tells_receipts, self._show, self._clock = receipts, tells_receipts, show, clock
        self._writes_receipts = writes_receipts
        self._rounds, self._most_calls, self._turn_seconds, self._limits = rounds, most_calls, turn_seconds, limits
        self._steers = queue == "steer"
        self._calibration, self._budget = calibration or Calibration(), budget
        self._role_of, self._conversation, self._shows_notices = role_of, conversation, shows_notices
        self._guest_tools = (toolboxes or {}).get("guest") or Toolbox((), clock, str)
        self._compaction = Compaction(builder, toolbox, clock, limits, window_of, learned_window)
        self._guest_compaction = replace(self._compaction, toolbox=self._guest_tools)
        self._reaction, self._ending, self._toolboxes = reaction, ending, toolboxes or {}
        self._end_left_over, self._resumed = end_left_over, resumed
        self._arrive, self._check_file, self._told = arrive, check_file, told
        self._skills, self._waits = skills, waits
        about_it = conversation_commands(
            sessions,
            builder,
            toolbox.specs,
            provider_for,
            status=status,
            search=search,
            cost=cost,
            calibration=self._calibration,
            window=window_in_words,
            forget_window=forget_window,
        )
        own: dict[str, Answer] = {
            "help": commands.help_text,
            "link": commands.link_text,
            "new": self._new,
            "compact": self._compact,
            "history": self._history,
            "skill": lambda said: commands.skills_text(self._skills()),
            "panic": self._panic,
            "resume": self._go_on_after_panic,
        }
        self._answers = {**own, **about_it, **receipts.commands, **(answers or {})}
        self._waiting = Waiting(self._handle, self._apologize, self._words_of, knock_seconds)
        self._left_over: set[int] = set()  # rows that an earlier process accepted
        self._told_to_wait: set[int] = set()  # rows behind a turn that waits for its model
        self._began: dict[Address, datetime] = {}  # when the last turn of each conversation did
        self._is_served: Callable[[Address], bool] = lambda address: True
        self._leaving = self._closing = False

    # --- in ----------------------------------------------------------------------------------------------------------

    async def deliver(self, inbound: Inbound) -> None:
        """Take a message in, or what one says now of which nothing was begun. It is on disk when this returns; its
        answer comes through the outbox."""
        stops = is_stop(inbound.message.text)
        try:
            row = self._inbox.change(inbound) if inbound.is_edit else self._inbox.accept(inbound)
        except StoreError:
            self._stop_unkept(inbound)
            raise
        if row is None or (inbound.is_edit and not stops):
            return
        item, address = self._accepted(row, inbound), inbound.address
        command = _command(inbound)
        if stops:
            self._stop(item)
        elif command and not commands.waits(command[0]):
            try:
                self._reply(item, str(self._carry_out(item, *command)))
            except Exception as error:
                self._apologize(item, error)
        elif self._reacted(item):
            pass
        elif self._flags.get(PANIC) is not None:
            kept = "Everything is frozen by /panic. This is kept until /resume."
            if self._role_for(inbound) == "guest":
                kept = "I am paused. This is kept until I go on."
            self._inbox.tell(row, Outbound(address, kept, reply_to=inbound.external_id))
        else:
            if self._waiting.lane(item.conversation).working:
                self._show(address, Queued(inbound.external_id))
            self._waiting.put(item)
        self._delivery.wake(address.channel)

    def start(self, row: int, inbound: Inbound) -> None:
        """Answer a message that is in the inbox already."""
        item = self._accepted(row, inbound)
        self._waiting.put(item)

    def resume(self, is_served: Callable[[Address], bool]) -> None:
        """After a start: take up, or tell of, turns that were cut off; then what was accepted but not begun."""
        self._is_served = is_served
        if self._flags.get(PANIC) is not None:
            return
        cuts = self._inbox.open_turns()
        ended = self._end_left_over() if any(cut.calls for cut in cuts) else 0
        for cut in cuts:
            if is_served(cut.address):
                self._take_up(cut, ended)
        for row, inbound in self._inbox.waiting():
            item = self._accepted(row, inbound)
            if not is_served(inbound.address):
                continue
            if inbound.message.origin == "person" and is_stop(inbound.message.text):
                self._stop(item)
            elif not self._reacted(item):
                self._left_over.add(row)
                self._waiting.put(item)

    async def free(self, address: Address) -> None:
        """Wait until nothing is being answered in a conversation."""
        await self._waiting.lane(address).idle()

    async def idle(self) -> None:
        """Wait until every accepted message is answered, but for those that wait for a model."""
        await self._waiting.idle()

    async def close(self, *, leave: bool = False) -> None:
        """End what runs as if it had been stopped, or `leave` it to the next start; what waits is left to it always."""
        self._leaving, self._closing = leave, True
        await self._waiting.close()

    def _accepted(self, row: int, inbound: Inbound) -> Accepted:
        return Accepted(row, inbound, self._conversation(inbound))

    def _role_for(self, inbound: Inbound) -> Role:
        """For whom the answer is: in a group others read it."""
        return "guest" if inbound.is_group else self._role_of(inbound)

    def _mode(self, inbound: Inbound) -> Mode:
        """Whatever no person said is answered without the person's own part of the prompt, and a guest without any of
        what is the owner's."""
        if self._role_for(inbound) == "guest":
            return "guest"
        return "full" if inbound.message.origin == "person" else "minimal"

    # --- the lane ----------------------------------------------------------------------------------------------------

    async def _handle(self, item: Item) -> None:
        if isinstance(item, GoOn):
            await self._go_on(item.turn)
        else:
            if item.row in self._left_over:
                self._left_over.discard(item.row)
                waited = f"going on with what was waiting: “{_short(item.inbound.message.text)}”"
                self._show(item.address, Notice(waited))
            await self._handle_message(item)
        self._delivery.wake(item.address.channel)

    async def _handle_message(self, item: Accepted) -> None:
        item = self._as_it_reads_now(item)
        command = _command(item.inbound)
        refused = command and commands.not_allowed(command[0], self._role_of(item.inbound), item.inbound.is_group)
        if command and command[0] == "skill" and command[1] and not refused:
            name, task = (*command[1].split(maxsplit=1), "")[:2]
            text = by_hand(find(self._skills(), name), task)
            message = replace(item.inbound.message, text=task)
            await self._answer([replace(item, inbound=replace(item.inbound, message=message))], text)
        elif command:
            said, dropped = self._carry_out(item, *command), list[int]()
            reason: Reason = "answered"
            try:
                text = said if isinstance(said, str) else await said
            except ScheduleError as error:
                text = str(error)
            except asyncio.CancelledError:
                if self._leaving:
                    raise
                (text, dropped), reason = self._cut(item), "cancelled"
            self._reply(item, text, reason, dropped)
        else:
            more = [] if self._steers else self._came_meanwhile(item.conversation, item.address, item)
            self._waiting.lane(item.conversation).remove(more)
            await self._answer([item, *map(self._as_it_reads_now, more)])

    async def _answer(self, batch: Sequence[Accepted], said: str = "") -> None:
        """One turn for messages that came one after the other. `said` is what the model is told where that is more
        than the person's own words."""
        address = batch[0].conversation
        session = self._sessions.of(address)
        if self._waits_behind(address, batch):
            return
        self._told_to_wait.difference_update(one.row for one in batch)
        held = self._waiting.let_go(address)
        try:
            self._provider_for(session.model)
            if held:
                journal = session.reopen_turn(held.turn)
                await self._join(session, journal, batch)
            else:
                journal = await self._begin(session, batch, said)
        except NanoclawError as error:
            self._reply_to_all(batch, str(error), "failed")
        except asyncio.CancelledError:
            if self._leaving:
                raise
            text, dropped = self._cut(batch[0])
            self._reply_to_all(batch, text, "cancelled", dropped)
        else:
            inbound, knocks = (held.turn.inbound, held.knocks) if held else (batch[0].inbound, 0)
            await self._run(session, journal, inbound, knocks=knocks)

    async def _begin(self, session: Session, batch: Sequence[Accepted], said: str) -> Journal:
        arrived = [await self._arrived(one) for one in batch]
        first, address, mode = arrived[0].inbound, batch[0].address, self._mode(batch[0].inbound)
        if first.message.origin != "person":  # it knows nothing of the times before
            session.reset()
        before = openings.load(session.memory or "")
        late: tuple[Hit, ...] = ()
        if mode == "minimal":
            opening = self._builder.open(mode=mode)
        else:
            talk = recent_talk(session.history)
            opening, late = self._builder.reopen(session.memory, first.message.text, talk, mode, address.channel)
            opening, arrived[0] = self._introduced(opening, arrived[0])
        self._tell_of_cuts(address, before, opening)
        news = self._receipts.news(batch[0].conversation)
        frames, notes = [*news, *await self._frame(arrived[0], said or first.message.text, late)], [*late]
        for one in arrived[1:]:
            opening, late = self._builder.remind(opening, one.inbound.message.text, (), mode)
            frames += await self._frame(one, one.inbound.message.text, late)
            notes += late
        session.keep_opening(opening.dump())
        built, known = self._builder.sections(mode, opening), before.shown if before else ()
        made_of = manifest(mode, built, opening, notes, self._tools_of(first).specs, known)
        journal = session.begin_turn([one.row for one in batch], frames, made_of.dump())
        self._tell_joined(batch[1:])
        return journal

    async def _join(self, session: Session, journal: Journal, batch: Sequence[Accepted]) -> None:
        """Take messages into a turn that has begun."""
        arrived = [await self._arrived(one) for one in batch]
        mode = self._mode(batch[0].inbound)
        opening = openings.load(session.memory or "") or self._builder.open(mode=mode)
        opening, arrived[0] = self._introduced(opening, arrived[0])
        frames = self._receipts.news(batch[0].conversation)
        for one in arrived:
            opening, late = self._builder.remind(opening, one.inbound.message.text, (), mode)
            frames += await self._frame(one, one.inbound.message.text, late)
        session.keep_opening(opening.dump())
        journal.join([one.row for one in batch], frames)
        self._tell_joined(batch)

    async def _go_on(self, cut: OpenTurn) -> None:
        """Take a turn up again that broke off."""
        conversation = self._conversation(cut.inbound)
        held = self._waiting.let_go(conversation)
        if cut.told and held is None:  # it was stopped, or went on with a newer message
            return
        session = self._sessions.of(conversation)
        journal = session.reopen_turn(cut, after_crash=not cut.told)
        self._show(cut.address, Notice(f"going on with: “{_short(cut.texts[0])}”"))
        await self._run(session, journal, cut.inbound, knocks=held.knocks if held else 0, was_cut=not cut.told)

    async def _run(
        self, session: Session, journal: Journal, inbound: Inbound, *, knocks: int = 0, was_cut: bool = False
    ) -> None:
        """The turn itself, to its end. `knocks` counts how often its model was asked in vain."""
        address, mode, conversation = inbound.address, self._mode(inbound), self._conversation(inbound)
        self._began[conversation] = self._clock()
        show = Hushed(partial(self._show, address))
        show(TurnBegan(inbound.external_id))
        self._tell_the_others(inbound, f"{address.channel}: {inbound.message.text}" if not knocks else "")
        opening = openings.load(session.memory or "") or self._builder.open(mode=mode)
        try:
            provider = self._provider_for(session.model)
        except NanoclawError as error:
            ended = TurnEnded(str(error), "failed")
            ended = self._for_them(inbound, ended)
            self._end(journal, inbound, ended, (), "")
            self._show(address, ended)
            return
        turn = Turn(
            asking=self._asking(provider, journal.called, inbound.message.origin),
            toolbox=self._tools_of(inbound),
            system=joined(self._builder.sections(mode, opening)),
            context=ToolContext(
                address, inbound.sender, inbound.message.origin, role=self._role_for(inbound), turn=journal.id
            ),
            journal=journal,
            show=show,
            clock=self._clock,
            rounds=self._rounds,
            most_calls=self._most_calls,
            seconds=self._turn_seconds,
            limits=self._limits,
            take_in=partial(self._take_in, conversation, address, session, journal) if self._steers else nobody,
            doubt=self._receipts.doubts(conversation, journal.id, lambda: _asked(session.history)),
        )

        def renew(system: SystemPrompt) -> None:
            turn.system = system

        turn.shrink = Shrink(
            self._compaction_of(mode), session, turn.asking, turn.context, turn.show, lambda: turn.system, renew, mode
        )

        def refresh() -> None:  # what is forgotten in the midst of a turn is not sent again
            renew(self._builder.system(mode, openings.load(session.memory or "")))

        session.on_forget = refresh
        try:
            ended = await turn.run()
        except asyncio.CancelledError:
            if self._leaving or (self._closing and inbound.message.origin != "person"):
                journal.leave()
                raise
            ended = TurnEnded("", "cancelled", turn.usage)
        said, dropped = self._cut(Accepted(journal.inbox, inbound, conversation))
        if inbound.message.origin in ("person", "job") and ended.reason == "answered":
            ended = self._left(inbound, ended)
        if turn.is_down and inbound.message.origin == "person" and self._waits(address) and not dropped:
            self._hold(journal, inbound, knocks)
            return
        ended = self._for_them(inbound, ended)
        if ended.reason == "cancelled" or dropped:  # a turn may come to its end all the same
            reason: Reason = "cancelled" if inbound.message.origin == "person" else ended.reason
            ended = replace(ended, answer=f"{ended.answer}\n\n{said}".strip(), reason=reason)
        has_acted = bool(turn.calls) or was_cut
        if has_acted and (losses := self._receipts.losses(journal.id)):
            ended = replace(ended, answer=f"{ended.answer}\n\n{losses}".strip())
        touched = any(turn.toolbox.effect(call.name) == "outside" for call in turn.calls)
        ended = self._end(
            journal, inbound, ended, turn.final, turn.asking.model, dropped, was_cut=was_cut, touched=touched
        )
        if has_acted and self._tells_receipts and (line := self._receipts.line(journal.id)):
            self._show(address, Receipt(line))
        show(ended)
        self._tell_the_others(inbound, f"answered there: {ended.answer}" if ended.answer else "")
        if turn.calls:
            self._settle(session, openings.load(session.memory or "") or opening, turn.calls, mode)

    def _end(
        self,
        journal: Journal,
        inbound: Inbound,
        ended: TurnEnded,
        final: Sequence[Message],
        model: str,
        dropped: Iterable[int] = (),
        *,
        was_cut: bool = False,
        touched: bool = False,
    ) -> TurnEnded:
        """End a turn: its answer goes to where the message came from, or to where its ending says; nothing goes out
        where there is nothing to say, or a tool has said it. What is shown of it comes back."""
        for told in self._told(journal.id, inbound.address):
            files = tuple(file for file in ended.files if file not in told.files)
            ended = replace(ended, files=files, answer="" if same_words(told.text, ended.answer) else ended.answer)
        if elsewhere := self._ending(inbound, ended, touched):
            journal.end(ended, final, None, model, dropped, elsewhere.write)
            elsewhere.after()
            return replace(ended, files=())
        if was_cut and inbound.message.origin == "person" and (ended.answer or ended.files):
            ended = replace(ended, answer=f"(I was interrupted in between and went on.)\n\n{ended.answer}".rstrip())
        if ended.answer and self._writes_receipts(inbound.address) and (line := self._receipts.line(journal.id)):
            ended = replace(ended, answer=f"{ended.answer}\n\n· {line}")
        outbound = Outbound(inbound.address, ended.answer, ended.files, inbound.external_id)
        journal.end(ended, final, outbound if ended.answer.strip() or ended.files else None, model, dropped)
        return replace(ended, answer=ended.answer if ended.answer.strip() else named(ended.files), files=())

    def _left(self, inbound: Inbound, ended: TurnEnded) -> TurnEnded:
        """An answer as the person gets it, and the files that it brings; a guest is sent none of the owner's."""
        left = leaving(ended.answer, no_file if self._role_for(inbound) == "guest" else self._check_file)
        problems = [f"not attached: {problem}" for problem in left.problems]
        if problems and not self._shows_notices(inbound.address):
            text = "\n".join([left.text, "", *(f"({problem})" for problem in problems)]).strip()
            return replace(ended, answer=text, files=left.files)
        for problem in problems:
            self._show(inbound.address, Notice(problem))
        if left.is_nothing:
            self._show(inbound.address, Notice("(nothing to say)"))
        return replace(ended, answer=left.text, files=left.files)

    def _settle(self, session: Session, begun: Opening, calls: Sequence[ToolCall], mode: Mode) -> None:
        try:
            session.keep_opening(self._builder.settle(begun, calls, mode).dump())
        except StoreError as error:  # it costs a miss of the provider's cache, and the answer is on its way
            from nanoclaw.core.log import logger

            logger.warning("{}", error)

    def _tools_of(self, inbound: Inbound) -> Toolbox:
        if self._role_for(inbound) == "guest":
            return self._guest_tools
        return self._toolboxes.get(inbound.message.origin, self._toolbox)

    def _compaction_of(self, mode: Mode) -> Compaction:
        """A guest's talk is summed up without a word in the owner's notes."""
        return self._guest_compaction if mode == "guest" else self._compaction

    def _asking(self, provider: Provider, book: Callable[[Call], None], origin: Origin) -> Asking:
        return Asking(provider, self._calibration, book, self._budget, origin)

    async def _take_in(self, conversation: Address, address: Address, session: Session, journal: Journal) -> None:
        """What the person said while tools ran becomes part of the turn."""
        if items := self._came_meanwhile(conversation, address):
            await self._join(session, journal, [*map(self._as_it_reads_now, items)])
            self._waiting.lane(conversation).remove(items)

    def _as_it_reads_now(self, item: Accepted) -> Accepted:
        """A message that waited may have been changed; of one that was begun the first words count."""
        return replace(item, inbound=self._inbox.read(item.row))

    def _words_of(self, item: Accepted) -> str:
        """By which a stop names it; not where it became a stop itself."""
        text = self._inbox.read(item.row).message.text
        return "" if is_stop(text) else text

    def _came_meanwhile(self, conversation: Address, address: Address, first: Accepted | None = None) -> list[Accepted]:
        """What waits next and was written since the last turn began (after `first`, if that was): words for the model
        that belong together. What was written before, while the program was off, or at another address, has an answer
        of its own."""
        began = self._began.get(conversation)

        def belongs(item: Item) -> bool:
            if began is None or not isinstance(item, Accepted) or item.written < began or item.address != address:
                return False
            return _is_talk(self._as_it_reads_now(item).inbound)

        if first and not belongs(first):
            return []
        return [item for item in self._waiting.lane(conversation).next_ones(belongs) if isinstance(item, Accepted)]

    # --- turns that break off ----------------------------------------------------------------------------------------

    def _take_up(self, cut: OpenTurn, ended: int) -> None:
        """A turn that the end of the process cut off goes on once by itself, unless it has touched more than the
        workspace or nobody waits for it; then the person is told what ran, and asked. `ended` processes of it were
        still there."""
        conversation = self._conversation(cut.inbound)
        if cut.told:
            self._waiting.take_up(conversation, cut)
            return
        outside = sorted({name for name in cut.tools if self._toolbox.effect(name) == "outside"})
        if self._waits(cut.address) and not (outside or cut.resumed):
            self._waiting.put(GoOn(cut, conversation))
            return
        reason: Reason = "failed"
        ran = ""
        if cut.calls:
            calls = "; ".join(f"`{_short(call)}`" for call in cut.calls)
            still = " It was still running and is ended now." if ended else ""
            ran = f" This was running and may have been done in part: {calls}.{still}"
        elif outside:
            ran = f" I had already used {', '.join(outside)}."
        said = " and ".join(f"“{_short(text)}”" for text in cut.texts)
        then = "Shall I go on?" if self._waits(cut.address) else "Ask again if it still matters."
        text = f"I was interrupted while I worked on {said}.{ran} I did not repeat it. {then}"
        if cut.inbound.message.origin == "heartbeat":  # nobody wrote it, and what it was about comes up again
            text = f"A heartbeat was interrupted.{ran} Its lines come up again at the next one." if ran else ""
            reason = "answered"
        journal = self._sessions.of(conversation).reopen_turn(cut)
        said_last = [AssistantMessage(text, self._clock())] if text else []
        self._end(journal, cut.inbound, TurnEnded(text, reason), said_last, "", touched=True)
        self._delivery.wake(cut.address.channel)

    def _hold(self, journal: Journal, inbound: Inbound, knocks: int) -> None:
        """Keep a turn until its model can be reached; the person is told at the first time."""
        address, conversation, text = inbound.address, self._conversation(inbound), _NO_MODEL
        journal.hold(None if knocks else Outbound(address, text, reply_to=inbound.external_id))
        turn = OpenTurn(journal.id, journal.inbox, inbound, (inbound.message.text,), told=True)
        pause = self._waiting.hold(conversation, turn, knocks)
        self._show(address, Notice(f"the model is asked again in {pause:.0f} s"))
        self._show(address, TurnEnded(text, "failed"))

    def _waits_behind(self, conversation: Address, batch: Sequence[Accepted]) -> bool:
        """Whether messages wait for a turn that was asked for elsewhere in their conversation, and cannot go on."""
        if not self._waiting.is_held_elsewhere(conversation, batch[0].address):
            return False
        for one in batch:
            if one.row not in self._told_to_wait:
                self._told_to_wait.add(one.row)
                self._inbox.tell(one.row, Outbound(one.address, _NO_MODEL, reply_to=one.inbound.external_id))
        self._waiting.put_behind(conversation, batch)
        return True

    def _stop(self, item: Accepted) -> None:
        if not self._waiting.halt(item.conversation, item.row):
            dropped, unasked = self._waiting.dropped(item.conversation), self._unasked(item.inbound)
            for conversation in unasked:
                self._waiting.halt(conversation)
            said = f"Stopped: {_in_words(unasked)}." if unasked else "Nothing is running."
            self._reply(item, f"{said}{_not_begun(dropped)}", also=[row for row, _ in dropped])

    def _stop_unkept(self, inbound: Inbound) -> None:
        """What cannot be kept is not accepted, but a full disk keeps nobody from stopping what runs."""
        command = _command(inbound)
        if is_stop(inbound.message.text):
            self._waiting.halt(self._conversation(inbound))
        elif command and command[0] == "panic" and self._role_of(inbound) == "owner":
            self._waiting.halt_all()

    def _cut(self, item: Accepted) -> tuple[str, list[int]]:
        """What is said of a turn that was stopped, and the rows that end with it."""
        dropped, others = self._waiting.dropped(item.conversation), _in_words(self._unasked(item.inbound))
        still = f" Still running: {others}; /stop again ends that too." if others else ""
        return f"Stopped.{_not_begun(dropped)}{still}", [row for row, _ in dropped]

    def _unasked(self, inbound: Inbound) -> list[Address]:
        """Where something runs that nobody asked for just now, as far as it is for who wrote this to end it."""
        is_owners = inbound.message.origin == "person" and self._role_for(inbound) == "owner"
        return self._waiting.unasked() if is_owners else []

    # --- out ---------------------------------------------------------------------------------------------------------

    def _reacted(self, item: Accepted) -> bool:
        """Whether code has answered what the person said."""
        reaction = self._reaction(item.inbound)
        if reaction:
            self._reply(item, reaction.text, reaction=reaction)
        return reaction is not None

    def _reply(
        self,
        item: Accepted,
        text: str,
        reason: Reason = "answered",
        also: Iterable[int] = (),
        reaction: Ending | None = None,
    ) -> None:
        """End a message that needed no turn, and `also` other rows that the reply is about."""
        text = self._for_them(item.inbound, TurnEnded(text, reason)).answer
        elsewhere = self._ending(item.inbound, TurnEnded(text, reason), False)
        outbound = None if elsewhere else Outbound(item.address, text, reply_to=item.inbound.external_id)
        ending = reaction or elsewhere or Ending()
        self._inbox.done(item.row, outbound, also, ending.write)
        ending.after()
        if not self._waiting.lane(item.conversation).working or _waits(item.inbound):
            self._show(item.address, TurnEnded(text, reason))

    def _reply_to_all(self, batch: Sequence[Accepted], text: str, reason: Reason, also: Iterable[int] = ()) -> None:
        self._tell_joined(batch[1:])
        self._reply(batch[0], text, reason, [*also, *(one.row for one in batch[1:])])

    def _tell_joined(self, batch: Sequence[Accepted]) -> None:
        if batch:
            self._show(batch[0].address, Joined(tuple(one.inbound.external_id for one in batch)))

    def _for_them(self, inbound: Inbound, ended: TurnEnded) -> TurnEnded:
        """What went wrong is the owner's business: a guest hears that it did."""
        if ended.reason != "failed" or self._role_for(inbound) == "owner":
            return ended
        from nanoclaw.core.log import logger

        logger.warning("a message in {} was not answered: {}", inbound.address, ended.answer)
        return replace(ended, answer=_NOT_NOW)

    def _tell_the_others(self, inbound: Inbound, text: str) -> None:
        """A line for who follows a conversation where it is at home, about what is said of it elsewhere."""
        home = self._conversation(inbound)
        if text and home != inbound.address:
            self._show(home, Notice(_short(text)))

    def _tell_of_cuts(self, address: Address, before: Opening | None, now: Opening) -> None:
        """Once for each change of the set of files that are too long to be shown whole."""
        if now.cut_files and (before is None or before.cut_files != now.cut_files):
            names = ", ".join(now.cut_files)
            self._show(address, Notice(f"too long for the model to see whole: {names} (/context shows how much)"))

    async def _arrived(self, item: Accepted) -> Arrived:
        """A message with what came along; this may take time. The person hears what could not be had."""
        problems = list[str]()
        arrived = await self._arrive(item.inbound, problems.append)
        if problems and not self._shows_notices(item.address):
            said = "\n".join(f"{problem.rstrip('.')}." for problem in problems)
            self._inbox.tell(item.row, Outbound(item.address, said))
            self._delivery.wake(item.address.channel)
        else:
            for problem in problems:
                self._show(item.address, Notice(problem))
        return arrived

    def _introduced(self, opening: Opening, arrived: Arrived) -> tuple[Opening, Arrived]:
        """The first message that comes through a channel tells the model of it."""
        opening, line = self._builder.introduce(opening, arrived.inbound.address.channel)
        return opening, replace(arrived, remarks=(*arrived.remarks, line)) if line else arrived

    async def _frame(self, arrived: Arrived, text: str, notes: Sequence[Hit]) -> tuple[UserMessage, UserMessage]:
        inbound, stopped, problems = arrived.inbound, threading.Event(), list[str]()
        frame = partial(
            self._builder.user_messages,
            f"{inbound.overheard}\n\n{text}" if inbound.overheard else text,
            media=inbound.attachments,
            channel=inbound.address.channel,
            chat_id=inbound.address.chat,
            sender=_sender(inbound),
            origin=inbound.message.origin,
            notes=notes,
            quote=arrived.quote,
            said=arrived.remarks,
            tell=problems.append,
            stopped=stopped.is_set,
            mode=self._mode(inbound),
        )
        if not inbound.attachments:
            return frame()
        try:
            return await asyncio.to_thread(frame)
        finally:
            stopped.set()  # when this is cancelled, the thread is not, and ends by itself
            for problem in problems:
                self._show(inbound.address, Notice(problem))

    def _apologize(self, item: Item, error: Exception) -> None:
        """An item whose handling raised: say so in one sentence and go on with the next."""
        from nanoclaw.core.log import logger

        known = isinstance(error, NanoclawError)
        if not isinstance(error, SkillError):
            logger.opt(exception=error).error("answering a message in {} failed", item.address)
        text = (
            str(error) if known else f"Something went wrong in the program ({type(error).__name__}); the log has more."
        )
        row, inbound = (item.row, item.inbound) if isinstance(item, Accepted) else (item.turn.inbox, item.turn.inbound)
        try:
            reason: Reason = "answered" if isinstance(error, SkillError) else "failed"
            self._reply(self._accepted(row, inbound), text, reason)
            self._sessions.of(self._conversation(inbound)).reload()  # what was under way has ended there
        except StoreError:  # nothing can be kept, but it can still be shown
            self._show(inbound.address, TurnEnded(text, "failed"))
        self._delivery.wake(inbound.address.channel)

    # --- commands ----------------------------------------------------------------------------------------------------

    def _carry_out(self, item: Accepted, name: str, argument: str) -> str | Awaitable[str]:
        """What a command says; errors on purpose are what it says, too."""
        inbound, role = item.inbound, self._role_for(item.inbound)
        if refused := commands.not_allowed(name, self._role_of(inbound), inbound.is_group):
            return refused
        if name not in self._answers:
            return commands.unknown(name)
        try:
            return self._answers[name](Said(item.conversation, inbound.sender, argument, role, item.address))
        except ScheduleError as error:
            return str(error)
        except NanoclawError as error:
            return self._for_them(inbound, TurnEnded(str(error), "failed")).answer

    def _new(self, said: Said) -> str:
        dropped = ""
        if held := self._waiting.let_go(said.address):
            self._inbox.done(held.turn.inbox)
            dropped = f" Not answered: {'; '.join(map(_short, held.turn.texts))}."
        self._sessions.of(said.address).reset()
        return f"A new conversation. What was said stays in the store; notes and files are as they were.{dropped}"

    async def _compact(self, said: Said) -> str:
        """What was said stays as it is where the model fails or the person stops it."""
        session = self._sessions.of(said.address)
        mode: Mode = "guest" if said.role == "guest" else "full"
        system = self._builder.system(mode, openings.load(session.memory or ""))
        context, show = ToolContext(said.place, said.sender, "person", role=said.role), partial(self._show, said.place)
        try:
            asking = self._asking(self._provider_for(session.model), session.called, "person")
            means = self._compaction_of(mode)
            shrink = Shrink(means, session, asking, context, show, lambda: system, lambda renewed: None, mode)
            return await shrink.by_hand(said.argument)
        except NanoclawError as error:
            why = str(error) if said.role == "owner" else _NOT_NOW
            return f"Not summed up: {why} The conversation is as it was."

    def _panic(self, said: Said) -> str:
        self._flags.set(PANIC, str(self._outbox.last()))
        stopped = 0
        for address, was_running in self._waiting.halt_all().items():
            if was_running:
                stopped += 1
            elif dropped := self._waiting.dropped(address):
                rows = [row for row, _ in dropped]
                self._inbox.done(rows[0], Outbound(address, f"Stopped.{_not_begun(dropped)}"), rows[1:])
        ran = f" Stopped: {stopped} running." if stopped else ""
        return f"Everything is frozen: nothing is sent or started until /resume, also after a restart.{ran}"

    def _history(self, said: Said) -> str:
        return commands.history_text(self._sessions.of(said.address).whole(), said.argument, self._clock().tzinfo)

    def _go_on_after_panic(self, said: Said) -> str:
        if self._flags.get(PANIC) is None:
            return "Nothing is frozen."
        self._flags.clear(PANIC)
        self._delivery.wake_all()
        self._resumed()
        asyncio.get_running_loop().call_soon(self.resume, self._is_served)  # once this command itself is done
        return "Going on. What waited is sent and answered now."


def _command(inbound: Inbound) -> tuple[str, str] | None:
    return commands.parse(inbound.message.text) if inbound.message.origin == "person" else None


def _in_words(unasked: Iterable[Address]) -> str:
    return ", ".join("a heartbeat" if one.channel == "heartbeat" else f"task {one.chat}" for one in unasked)


def _sender(inbound: Inbound) -> str:
    """The id first: a name is what somebody calls themselves."""
    return f"{inbound.sender}, who goes by the name “{inbound.name}”" if inbound.name else inbound.sender


def _waits(inbound: Inbound) -> bool:
    command = _command(inbound)
    return command is None or commands.waits(command[0])


def _is_talk(inbound: Inbound) -> bool:
    """Words of a person to the model, which can be answered together with others."""
    return inbound.message.origin == "person" and not _command(inbound)


def _asked(history: Sequence[Message]) -> str:
    """What the person said last."""
    said = (
        message.text for message in reversed(history) if isinstance(message, UserMessage) and message.origin == "person"
    )
    return next(said, "")


def _not_begun(dropped: Dropped) -> str:
    texts = [_short(text) for _, text in dropped if text]
    return f" Not begun: {'; '.join(texts)}." if texts else ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"
