"""Tool calls: judges all of an answer, runs them, logs what each changes, and counts repeated results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from nanoclaw.core import records
from nanoclaw.core.chain import Chain
from nanoclaw.core.errors import ToolError
from nanoclaw.core.events import ToolFinished, ToolProgress, ToolStarted
from nanoclaw.core.messages import (
    AssistantMessage,
    CheckedCall,
    Effect,
    EffectState,
    OwnersAnswer,
    ToolCall,
    ToolResult,
)
from nanoclaw.core.plugin import Ask, Refuse
from nanoclaw.core.store.db import Transaction
from nanoclaw.core.tool import Shown, Toolbox, ToolContext, nobody
from nanoclaw.core.turn import RunningTurn
from nanoclaw.escapes import one_line, plain
from nanoclaw.outputs.outputs import Outputs, shortened_diff
from nanoclaw.outside_text import block

_REFUSED = {
    "owner": "the person said no, so nothing was done. Accept that, and don't try it another way.",
    "time": "the person was asked for a yes and did not answer in time, so nothing was done. Tell them.",
    "nobody": "nobody is there to be asked for a yes{}, so nothing was done. Say in your answer what needs their yes.",
}
"""The result of a refused call, by who refused it."""


PAUSE_SECONDS = 0.1
"""Seconds between two progress events of one call."""

LINES, CHARACTERS = 5, 200
"""Number of lines that are shown, and characters of each."""

_READ = 10_000
"""Characters at the end of a text that are looked at; only the second half is shown, as no secret begins before it."""


class Judged(NamedTuple):
    """One call of an answer: `checked` is to be run, or `result` is set where it is not run (any more), or `ask` is to
    be asked first; `answer` is the owner's answer to that."""

    call: ToolCall
    checked: CheckedCall | None = None
    result: ToolResult | None = None
    asks: tuple[Ask, ...] = ()
    answer: OwnersAnswer | None = None


def to_ask(judged: Sequence[Judged]) -> tuple[tuple[CheckedCall, Ask], ...]:
    """The questions of an answer; one alone of those with options, so that plain words can only be its answer."""
    each = tuple((one.checked, _as_one(one.asks)) for one in judged if one.checked and one.asks)
    return tuple(one for one in each if not one[1].options) or each[:1]


class CallEffects:
    """Changes that the calls of one answer make, from their beginning to their end, by the number of each."""

    def __init__(self, toolbox: Toolbox, calls: Mapping[int, CheckedCall]) -> None:
        found = ((number, toolbox.audit(call)) for number, call in calls.items())
        self._begun = {number: effect for number, effect in found if effect}
        self._clean = toolbox.without_secrets
        self._reported: dict[int, list[Effect]] = {}
        self._results: dict[int, ToolResult] = {}

    @property
    def begun(self) -> list[Effect]:
        return list(self._begun.values())

    @property
    def ended(self) -> list[Effect]:
        """The same changes with their outcome, then any others that were made. One without a result has only begun."""
        own, others = [], list[Effect]()
        for number, effect in self._begun.items():
            reports = self._reported.get(number, [])
            own.append(
                next((one for one in reports if one.kind == effect.kind), effect)._replace(state=self._state(number))
            )
            others += [one for one in reports if one.kind != effect.kind]
        for number, reports in self._reported.items():
            others += reports if number not in self._begun else ()
        return own + others

    def reports(self, number: int) -> Callable[[Effect], None]:
        """The function through which the call with this number reports its changes."""
        reports = self._reported.setdefault(number, [])
        return lambda effect: reports.append(self._clean(effect))

    def end(self, number: int, result: ToolResult) -> None:
        self._results[number] = result

    def _state(self, number: int) -> EffectState:
        result = self._results.get(number)
        return "begun" if result is None else "failed" if result.is_error else "done"


class CallRunner:
    """Passes calls through every check: schema, plugins, the owner, the tool, plugins again, limits."""

    def __init__(self, toolbox: Toolbox, chain: Chain, outputs: Outputs) -> None:
        self.toolbox, self.chain, self._outputs = toolbox, chain, outputs

    def meant(self, answer: AssistantMessage) -> AssistantMessage:
        """The answer with the calls that the model meant, if it used CALL_TOOL for some."""
        calls = tuple(map(self.toolbox.meant, answer.tool_calls))
        return answer if calls == answer.tool_calls else answer._replace(tool_calls=calls)

    async def judged(self, calls: Sequence[ToolCall], turn: RunningTurn, *, was_asked: bool = False) -> list[Judged]:
        """Judge all calls of an answer before any of them runs; then run those that only pass on the owner's answer. A
        tool may have been added or removed since the context began."""
        if any(call.said or self.toolbox.find(call.name) is None for call in calls):
            await self.chain.before_context(turn)
            self.toolbox.use(self.chain.tools(anew=True))
        judged, was_listed = list[Judged](), False
        for call in calls:
            judged.append(await self._judge(call, turn, was_asked=was_asked, lists=not was_listed))
            was_listed = was_listed or self.toolbox.find(call.name) is None
        return judged if to_ask(judged) else [await self._handed_on(one, turn) for one in judged]

    async def _handed_on(self, judged: Judged, turn: RunningTurn) -> Judged:
        """Run a call that has its answer and changes nothing: a crash finds its result on disk, or runs it again."""
        if judged.answer is None or judged.checked is None or judged.checked.reach != "none":
            return judged
        return judged._replace(result=await self.run(judged, turn, nobody))

    async def _judge(self, call: ToolCall, turn: RunningTurn, *, was_asked: bool, lists: bool) -> Judged:
        """Judge one call; of one that is unknown `lists` adds which tools there are."""
        failed, profile, tool = self.toolbox.failed, turn.profile, self.toolbox.find(call.name)
        if tool and not tool.is_open(profile):
            return Judged(call, result=failed(call, f"{tool.name} cannot be used here."))
        try:
            checked = self.toolbox.check(call, profile, lists=lists)
        except ToolError as error:
            return Judged(call, result=failed(call, str(error)))
        given = self.chain.asker.chosen(checked, turn) if was_asked else None
        verdict = await self.chain.before_tool(checked, turn, None if given else tool)
        if isinstance(verdict, Refuse):
            return Judged(call, checked, failed(call, verdict.text))
        if not profile.acts and checked.reach != "none":
            told = "This is a rehearsal: it was not done. Go on as if it had been."
            return Judged(call, checked, failed(call, told)._replace(is_error=False))
        return self._asked(Judged(call, checked, answer=given), checked, verdict, turn, was_asked=was_asked)

    def _asked(
        self, judged: Judged, checked: CheckedCall, asks: Sequence[Ask], turn: RunningTurn, *, was_asked: bool
    ) -> Judged:
        """Judge a call by the owner's answer, or by what the owner has to be asked: first for a yes, then to choose."""
        for some in ([ask for ask in asks if not ask.options], *([ask] for ask in asks if ask.options)):
            if not some:
                continue
            said = self.chain.asker.says(checked, some, turn, was_asked=was_asked)
            if not isinstance(said, OwnersAnswer):
                return judged._replace(asks=said)
            if some[0].options:
                judged = judged._replace(answer=said)
            elif not said.is_yes:
                return Judged(judged.call, checked, self.toolbox.failed(judged.call, _refusal(said, some)))
        return judged

    def atomic(self, calls: Iterable[CheckedCall]) -> list[str]:
        """The ids of those whose only effect is one write."""
        found = ((call.id, self.toolbox.find(call.name)) for call in calls)
        return [id_ for id_, tool in found if tool and tool.atomic]

    async def run(self, judged: Judged, turn: RunningTurn, report: Callable[[Effect], None]) -> ToolResult:
        """The result of a judged call: run, passed to the plugins, bounded, and marked if it has others' text."""
        assert judged.checked
        progress = Progress(judged.call, turn, self.chain)
        context = ToolContext(
            turn.address,
            turn.sender,
            turn.origin,
            report,
            turn.role,
            turn.id,
            judged.call.id,
            turn.conversation,
            turn.profile.name,
            turn.journal,
            progress.show,
            turn.profile.only,
            judged.answer,
            turn.outside,
        )
        try:
            result = await self.toolbox.run(judged.checked, context)
        finally:
            progress.close()
        result = await self.chain.after_tool(judged.checked, result, turn)
        text = self._outputs.shortened(judged.checked.name, result.text) or "(no output)"
        if result.outside:
            text = block(result.outside, text)
        return result._replace(text=text, diff=shortened_diff(result.diff))

    async def call(self, call: ToolCall, turn: RunningTurn, parent: str = "") -> ToolResult:
        """Run one call outside the answers of a turn, with its own line in the audit log; what asks is refused. It is
        shown below the call with the id `parent`, which it is a part of, and not at all without one."""
        call = self.toolbox.meant(call)
        if not parent:
            return await self._call(call, turn)
        turn.show(ToolStarted(call, parent))
        began, text, is_error, diff = time.monotonic(), "stopped", True, ""
        try:
            result = await self._call(call, turn)
            text, is_error, diff = result.text, result.is_error, result.diff
        finally:
            turn.show(ToolFinished(call, text, is_error, time.monotonic() - began, parent, diff=diff))
        return result

    async def _call(self, call: ToolCall, turn: RunningTurn) -> ToolResult:
        (judged,) = await self.judged([call], turn)
        if judged.asks and judged.asks[0].options:
            judged = judged._replace(asks=(), answer=judged.asks[0].otherwise)
        if judged.result or judged.asks or judged.checked is None:
            return judged.result or self.toolbox.failed(call, _refusal(OwnersAnswer("no", "nobody"), judged.asks))
        transactions, effects = turn.session.transactions, CallEffects(self.toolbox, {0: judged.checked})
        key, number = turn.session.key, turn.id or None
        rows = await transactions.write(lambda tx: records.insert(tx.db, key, number, tx.now, effects.begun))
        try:
            result = await self.run(judged, turn, effects.reports(0))
            effects.end(0, result)
        finally:
            await transactions.write(partial(_note_ended, key, number, rows, effects.ended))
        return result


def _as_one(asks: Sequence[Ask]) -> Ask:
    """Several questions as one. Its yes can be extended if all of them have the same scope."""
    question = "\n\n".join(dict.fromkeys(ask.question for ask in asks))
    exact = "\n\n".join(dict.fromkeys(ask.exact for ask in asks if ask.exact))
    seconds = min((ask.seconds for ask in asks if ask.seconds is not None), default=None)
    scope = asks[0].scope if len({ask.scope for ask in asks}) == 1 else None
    return asks[0]._replace(question=question, exact=exact, seconds=seconds, scope=scope)


def _refusal(said: OwnersAnswer, asks: Sequence[Ask]) -> str:
    return _REFUSED[said.by].format("".join(f" (“{one_line(ask.question, 200)}”)" for ask in asks[:1]))


def _note_ended(key: str, turn: int | None, rows: list[int | None], ended: Sequence[Effect], tx: Transaction) -> None:
    records.finish(tx.db, rows, ended[: len(rows)])
    records.insert(tx.db, key, turn, tx.now, ended[len(rows) :])


class Progress:
    """Receives what a tool shows, from any thread, and passes the newest on as an event until it is closed."""

    def __init__(self, call: ToolCall, turn: RunningTurn, chain: Chain) -> None:
        self._call, self._turn, self._chain = call, turn, chain
        self._loop = asyncio.get_running_loop()
        self._newest: tuple[Shown, float | None] | None = None
        self._next = 0.0  # not before
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def show(self, text: Shown, fraction: float | None = None) -> None:
        is_on_its_way, self._newest = self._newest is not None, (text, fraction)
        if not is_on_its_way:
            with suppress(RuntimeError):  # a thread that outlives the program
                self._loop.call_soon_threadsafe(self._wait)

    def close(self) -> None:
        self._is_closed = True
        if self._timer:
            self._timer.cancel()

    def _wait(self) -> None:
        if self._loop.time() >= self._next:
            self._pass()
        elif not self._is_closed:
            self._timer = self._loop.call_at(self._next, self._pass)

    def _pass(self) -> None:
        newest, self._newest = self._newest, None
        if newest is None or self._is_closed:
            return
        self._next = self._loop.time() + PAUSE_SECONDS
        text = newest[0] if isinstance(newest[0], str) else newest[0]()
        text = _bounded(self._chain.on_progress(text[-_READ:], self._turn)[-_READ // 2 :])
        self._turn.show(ToolProgress(self._call, text, _part(newest[1])))


def _bounded(text: str) -> str:
    lines = [line.rstrip() for line in plain(text).splitlines() if line.strip()][-LINES:]
    return "\n".join(line if len(line) <= CHARACTERS else f"{line[: CHARACTERS - 1]}…" for line in lines)


def _part(fraction: float | None) -> float | None:
    """A fraction from 0 to 1; None if it is no number, as from some servers."""
    return None if fraction is None or fraction != fraction else min(1.0, max(0.0, fraction))
