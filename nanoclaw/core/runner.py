"""The life of a turn: it begins with its messages, asks the model, runs the tools that it calls, and ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import NoReturn

from nanoclaw.core import prompt_snapshot
from nanoclaw.core.calls import CallEffects, Judged, Toolbox
from nanoclaw.core.chain import Chain
from nanoclaw.core.commands import NOT_NOW, Accepted
from nanoclaw.core.errors import FAULTS, ContextTooLong, NanoclawError, ProviderError, ProviderUnavailable
from nanoclaw.core.events import Event, Notice, Reason, TextDelta, ToolFinished, ToolStarted, TurnEnded
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    Inbound,
    Message,
    NoteRef,
    Outbound,
    ToolCall,
    ToolResult,
    UserMessage,
)
from nanoclaw.core.plugin import Answer, Draft, Ended, Filter, MakeCalls, Plugin, profile_of
from nanoclaw.core.prompt_snapshot import Manifest, manifest
from nanoclaw.core.store.db import Transaction
from nanoclaw.core.store.inbox import STOPPED, Inbox, OpenTurn
from nanoclaw.core.store.sessions import Session, Sessions
from nanoclaw.core.turn import AsksOwner, ModelDown, RunningTurn, TurnOver, TurnParts
from nanoclaw.escapes import BLANKS
from nanoclaw.log import logger
from nanoclaw.runtime_metadata import escape, program_remark

ONE_ANSWER = (
    "This and the {} before it have no answer yet: your last message answers them all, so cover each of them. "
    "Text beside tool calls is not sent."
)

INTERRUPTED = "(I was interrupted and continued.)"

FRESH = ("minimal", "none")
"""Modes of turns that know nothing of what was said before."""


class Runner:
    """Begins and ends the turns of all conversations."""

    def __init__(self, sessions: Sessions, inbox: Inbox, parts: TurnParts, toolbox: Toolbox) -> None:
        self.builder, self.sessions, self.inbox, self.chain = parts.builder, sessions, inbox, parts.chain
        self.parts, self.toolbox = parts, toolbox
        self._model_calls, self._channels = parts.model_calls, parts.channels
        self._for_owner: dict[str, None] = {}  # notices that came up in turns of others

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
        turn = RunningTurn(self.parts, self.sessions.next_turn(), inbound, conversation, session, batch[0].row, profile)
        before = turn.snapshot
        turn.model_call.provider  # noqa: B018 - nothing is begun where it cannot be asked
        messages, made_of = await self.context(turn, batch)
        if turn.snapshot.cut_files and before.cut_files != turn.snapshot.cut_files:
            names = ", ".join(turn.snapshot.cut_files)
            turn.show(Notice(f"too long for the model to see in full: {names} (/context shows how much)", stays="here"))
        kept = "" if turn.snapshot is before else turn.snapshot.dump()
        await turn.journal.begin([one.row for one in batch], messages, made_of.dump(), kept)
        return turn

    async def context(self, turn: RunningTurn, batch: Sequence[Accepted]) -> tuple[list[Message], Manifest]:
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
        turn = RunningTurn(self.parts, cut.id, cut.inbound, conversation, session, cut.row)
        self.begin_context(turn)
        turn.journal.reopen(cut, after_crash=after_crash)
        turn.tried, turn.calls = turn.journal.retries(), turn.journal.calls()
        turn.messages = len(cut.texts)
        return turn

    def begin_context(self, turn: RunningTurn) -> None:
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
        if self._for_owner and turn.is_owners:  # of its helpers, too
            for text in self._for_owner:
                turn.show(Notice(text, stays="here"))
            self._for_owner.clear()
        ended = self.for_them(turn.inbound, TurnEnded(over.text, over.reason, turn.model_call.usage, over.files))

        def end_in(tx: Transaction) -> None:
            last = self._on_end(turn, self._last_of(turn, ended, was_cut), tx)
            last = turn.journal.end(tx, last, over.final, turn.model_call.model, dropped)
            out = last.outbound if last.outbound and not last.outbound.came else Outbound(turn.address, "")
            shown = out.text if out.address == turn.address else ""
            named = ", ".join(file.rpartition("/")[2] for file in out.files)
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
        if turn.remarks and not turn.is_owners:
            self._for_owner |= dict.fromkeys(turn.remarks)
        if not turn.profile.keeps:
            self.sessions.drop(tx, turn.session, turn.id)
        elif turn.calls:
            if any(self.chain.reach(call.name) != "none" for call in turn.calls):
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
            turn = RunningTurn(self.parts, 0, item.inbound, conversation, self.sessions.of(conversation))
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
        logger.warning("a message in {} was not answered: {}", inbound.address, ended.answer)
        return ended._replace(answer=NOT_NOW)


BROKE_OFF = "the tool broke off; it may have been partly done"
ELSE = "Say in other words what you want."

WARN_AT, END_AT = 3, 6
"""Limits of how often one result may come again, from the same call or others: a warning at 3, the end at 6."""

UNKNOWN_AT = 3
"""Number of answers with unknown tools at which the turn ends."""

AGAIN = "(The same result again, after several tries: do something else, or answer.)"


class Rounds:
    """The rounds of one turn; `steer` adds to it what its person said meanwhile."""

    def __init__(self, turn: RunningTurn, steer: Callable[[RunningTurn], Awaitable[None]], toolbox: Toolbox) -> None:
        self.turn, self._steer, self._chain, self._toolbox = turn, steer, toolbox.chain, toolbox
        self._stream = Stream(turn, self._chain)
        self._seen: Counter[tuple[str, ...]] = Counter()  # results of the turn so far
        self._unknown = 0
        self._request: asyncio.Task[AssistantMessage] | None = None
        self._restarts = False
        self._forgot = 0

    async def run(self, waiting: AssistantMessage | None = None) -> NoReturn:
        """Raises TurnOver at the end of the turn, and Pause where it has to wait. `waiting` is an answer
        whose calls the owner has judged meanwhile: the turn continues with them."""
        turn = self.turn
        try:
            async with asyncio.timeout(turn.limits.seconds):
                await self._rounds(waiting)
        except TimeoutError:
            seconds = turn.limits.seconds
            reached = f"{seconds:g} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
            raise _limit(reached, turn.begun_answer()) from None
        except ProviderError as error:
            over = TurnOver(f"The model gave no answer: {error}", "failed")
            can_wait = turn.origin == "person" and not turn.profile.wait
            is_down = isinstance(error, ProviderUnavailable) and can_wait
            raise (ModelDown(over) if is_down else over) from error
        finally:
            self._stream.end()
        raise AssertionError("a turn ends by an exception")

    def restart_request(self) -> None:
        """Stop the running request, to repeat it with new messages, unless a part of its answer was shown or a tool has
        begun."""
        if self._request and not self._stream.has_begun:
            self._restarts = self._request.cancel() or self._restarts  # a second line may come before it has ended

    async def _rounds(self, waiting: AssistantMessage | None) -> NoReturn:
        limits = self.turn.limits
        for left in reversed(range(limits.rounds)):
            answer = waiting or await self._ask()
            if not answer.tool_calls:
                waiting = await self._answered(answer, is_last=left == 0)
                continue
            if not waiting and len(self.turn.calls) >= limits.calls:
                raise _limit(f"{len(self.turn.calls)} tool calls")
            await self._act(answer, was_asked=waiting is not None)
            waiting = None
        raise _limit(f"{limits.rounds} rounds of tool calls")

    # --- a request ---------------------------------------------------------------------------------------------------

    async def _ask(self) -> AssistantMessage:
        """One answer; after an empty one the model is asked once more."""
        answer = await self._complete()
        if not answer.tool_calls and not answer.text.strip(BLANKS):
            answer = await self._complete()
        return answer

    async def _complete(self) -> AssistantMessage:
        """One request with all that was said by now, and another one where that was longer than the model's window and
        can be made shorter, or where somebody said more before anything of its answer was shown."""
        self.turn.model_call.provider  # noqa: B018 - one that is gone is no fault of a plugin that asks for its window
        is_shorter = False
        while True:
            await self._steer(self.turn)
            if not is_shorter:
                await self._chain.make_room(self.turn, None)
            try:
                return await self._requested()
            except ContextTooLong as error:
                if not await self._chain.make_room(self.turn, error):
                    raise
                is_shorter = True
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not self._restarts or (task and task.cancelling()):
                    raise

    async def _requested(self) -> AssistantMessage:
        turn, session, model_call = self.turn, self.turn.session, self.turn.model_call
        if session.forgot != self._forgot:  # what was forgotten must not be sent again
            self._forgot = session.forgot
            turn.snapshot = prompt_snapshot.load(session.snapshot_text) or turn.snapshot
        self._restarts = False
        self._request = asyncio.create_task(model_call.complete(turn.request, self._stream))
        try:
            return self._toolbox.meant(await self._request)
        except asyncio.CancelledError:
            self._request.cancel()
            with suppress(asyncio.CancelledError, ProviderError):
                await self._request
            raise
        finally:
            self._request = None
            self._stream.end()

    # --- an answer with calls ----------------------------------------------------------------------------------------

    async def _act(self, answer: AssistantMessage, *, was_asked: bool) -> None:
        """Judge the calls of one answer, run them and store both together. Raises AsksOwner for what the owner is to be
        asked first."""
        turn, failed = self.turn, self._toolbox.failed
        left = max(0, turn.limits.calls - len(turn.calls))
        allowed, rest = answer.tool_calls[:left], answer.tool_calls[left:]
        turn.calls += allowed
        if answer.finish == "length":
            cut = "not run: your answer was cut off at the output limit; make the call smaller"
            results = [failed(call, cut) for call in answer.tool_calls]
            effects = CallEffects(self._toolbox, {})
        else:
            judged = await self._toolbox.judged(allowed, turn, was_asked=was_asked)
            if asks := [(one.checked, one.asks) for one in judged if one.checked and one.asks]:
                raise AsksOwner(answer, asks)
            too_many = f"not run: one turn has at most {turn.limits.calls} calls. Answer, and say what is left to do."
            judged += [Judged(call, result=failed(call, too_many)) for call in rest]
            runnable = {number: one.checked for number, one in enumerate(judged) if one.checked and not one.result}
            effects = CallEffects(self._toolbox, runnable)
            known = [one.result for one in judged if one.answer and one.result]
            atomic = [one.id for one in runnable.values() if (tool := self._toolbox.find(one.name)) and tool.atomic]
            await turn.journal.acting(answer, effects.begun, atomic, known)
            results = await self._results(answer, judged, effects)
        repeats = self._count(allowed, results[:left])
        warned = list(results)
        for number, count in enumerate(repeats):
            if count >= WARN_AT:
                warned[number] = results[number]._replace(text=f"{results[number].text}\n{AGAIN}")
        await turn.journal.step((answer, *warned), effects.ended)
        self._guard(answer, results, max(repeats, default=0))

    def _guard(self, answer: AssistantMessage, results: Sequence[ToolResult], repeats: int) -> None:
        """Raises TurnOver where calls end the turn, or go nowhere."""
        ends = (self._toolbox.find(result.name) for result in results if not result.is_error)
        if any(tool is not None and tool.ends for tool in ends):
            raise TurnOver("", "answered")
        self._unknown += any(self._toolbox.find(call.name) is None for call in answer.tool_calls)
        if self._unknown >= UNKNOWN_AT:
            raise TurnOver(f"I stopped: I kept calling tools that do not exist. {ELSE}", "loop")
        if repeats >= END_AT:
            raise TurnOver(f"I stopped: my steps kept giving the same result. {ELSE}", "loop")

    def _count(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[int]:
        """Count for each call of an answer how often its result has come. A repeated change of the workspace is the
        same even if its text differs: the second of two reminders has another number. The same error is one however the
        arguments are varied, once for each answer; other calls with the same result are no loop, as many commands have
        nothing to say."""
        self._seen.update({(result.name, result.text) for result in results})
        counts = list[int]()
        for call, result in zip(calls, results, strict=True):
            is_change = self._toolbox.reach(call.name) == "workspace" and not result.is_error
            same = (call.name, call.arguments, "" if is_change else result.text)
            self._seen[same] += 1
            counts.append(max(self._seen[same], self._seen[(result.name, result.text)] if result.is_error else 0))
        return counts

    async def _results(
        self, answer: AssistantMessage, judged: Sequence[Judged], effects: CallEffects
    ) -> list[ToolResult]:
        """The results in the order of the calls; neighbours that don't disturb each other run side by side."""
        calls, toolbox, journal = answer.tool_calls, self._toolbox, self.turn.journal
        tasks: list[asyncio.Task[ToolResult]] = []
        try:
            for number, call in enumerate(calls):
                if tasks and not all(toolbox.runs_beside(one.name) for one in calls[number - 1 : number + 1]):
                    await asyncio.wait(tasks)
                    if effects.begun:  # a kill from now on leaves no doubt about these
                        await journal.acted(answer, self._outcomes(calls[:number], tasks, BROKE_OFF), effects.ended)
                tasks.append(asyncio.create_task(self._run(call, judged[number], number, effects)))
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            try:
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:  # also when a second stop comes meanwhile
                await journal.step((answer, *self._outcomes(calls, tasks, STOPPED)), effects.ended)
            raise
        return self._outcomes(calls, tasks, BROKE_OFF)

    def _outcomes(
        self, calls: Sequence[ToolCall], tasks: Sequence[asyncio.Task[ToolResult]], broken_off: str
    ) -> list[ToolResult]:
        """One result for each call: the tool's own, or what is to be said of one that did not end or did not begin."""
        failed = self._toolbox.failed
        ended = [
            task.result() if task.done() and not task.cancelled() and not task.exception() else failed(call, broken_off)
            for call, task in zip(calls, tasks, strict=False)
        ]
        return ended + [failed(call, "not started: the turn was stopped") for call in calls[len(tasks) :]]

    async def _run(self, call: ToolCall, judged: Judged, number: int, effects: CallEffects) -> ToolResult:
        place = self.turn.session.results() + number + 1
        self._stream(ToolStarted(call, number=place))
        started = time.monotonic()
        try:
            result = judged.result or await self._toolbox.run(judged, self.turn, effects.reports(number))
        except asyncio.CancelledError:
            self._stream(ToolFinished(call, "stopped", True, time.monotonic() - started, number=place))
            raise
        effects.end(number, result)
        seconds = time.monotonic() - started
        self._stream(
            ToolFinished(
                call, result.text, result.is_error, seconds, number=place, diff=result.diff, refused=result.refused
            )
        )
        return result._replace(text=escape(result.text))

    # --- an answer without calls -------------------------------------------------------------------------------------

    async def _answered(self, answer: AssistantMessage, *, is_last: bool) -> AssistantMessage | None:
        """End the turn with an answer, by TurnOver. Returns None when the model is asked to answer again, the same
        answer with calls where a plugin has some to be made first."""
        turn = self.turn
        if not answer.text.strip(BLANKS):
            raise TurnOver("The model gave an empty answer, twice. Ask again, or choose another with /model.", "failed")
        text = answer.text
        if answer.finish == "length":
            text += "\n\n(Cut off at the model's output limit; say “go on” for the rest.)"
        may_retry = not is_last and not turn.tried
        said = await self._chain.before_answer(Answer(text), turn, may_retry=may_retry, may_act=not is_last)
        if isinstance(said, Answer):
            raise TurnOver(said.text, "answered", said.files, (answer,))
        if isinstance(said, MakeCalls):  # what the provider wants to hear again belongs to an answer without them
            return answer._replace(tool_calls=said.calls, finish="tool_calls", opaque="")
        plugin, again = said
        turn.tried.append(plugin)
        tried = json.dumps(turn.tried)
        turn.later(lambda tx: tx.execute("UPDATE turns SET retries = ? WHERE id = ?", tried, turn.id))
        now = turn.now()
        await turn.journal.step((answer, UserMessage(program_remark(now, again.remark), now, "runtime")))
        self._stream(Notice("the model is asked to revise its answer"))
        return None


def _limit(reached: str, final: tuple[Message, ...] = ()) -> TurnOver:
    text = f"I stopped after {reached} without finishing. What was done so far is kept; say “go on” and I continue."
    return TurnOver(text, "step_limit", final=final)


class Stream:
    """Passes on the events of a turn, without parts of its text that must not be seen."""

    def __init__(self, turn: RunningTurn, chain: Chain) -> None:
        self._turn, self._chain = turn, chain
        self._filters: list[tuple[Plugin, Filter]] | None = None  # while an answer comes
        self.has_begun = False
        """Something of the turn was shown, or a tool was started."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            if self._filters is None:
                self._filters = self._chain.filters(self._turn)
            self._pass(event.text)
            return
        if isinstance(event, ToolStarted):
            self.end()
            self.has_begun = True
        self._turn.show(event)

    def end(self) -> None:
        """The answer has ended: show text that was held back."""
        self._pass("", is_end=True)
        self._filters = None

    def _pass(self, text: str, *, is_end: bool = False) -> None:
        """Show what the filters pass on, the last of them at the end all that they hold back. One that raises passes
        everything through from then on."""
        for one in list(self._filters or ()):
            plugin, through = one
            try:
                text = (through.feed(text) if text else "") + (through.end() if is_end else "")
            except FAULTS as error:
                self._filters = [other for other in self._filters or () if other is not one]
                self._chain.fault(plugin, "stream", error)
        if text:
            self.has_begun = True
            self._turn.show(TextDelta(text))
