"""Tool calls: judges all of an answer, runs them, and logs what each changes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from nanoclaw.core import records
from nanoclaw.core.chain import Chain
from nanoclaw.core.errors import FAULTS, NanoclawError, ToolError
from nanoclaw.core.events import ToolFinished, ToolProgress, ToolStarted
from nanoclaw.core.messages import (
    CALL_TOOL,
    AssistantMessage,
    CheckedCall,
    Effect,
    EffectState,
    OwnersAnswer,
    ToolCall,
    ToolResult,
)
from nanoclaw.core.plugin import Ask, NamedTuple, Profile, Refuse, ToolOutput
from nanoclaw.core.store.db import Transaction
from nanoclaw.core.tool import Shown, ToolContext, nobody
from nanoclaw.core.turn import RunningTurn
from nanoclaw.escapes import one_line, plain
from nanoclaw.log import logger
from nanoclaw.outputs import Outputs, shortened_diff
from nanoclaw.outside_text import block
from nanoclaw.tool_schema import ArgumentsError, check, parse

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

_AUDITED = 10_000
"""Most characters of an argument in a line of the audit log."""

_OF_CALL = {"name", "arguments"}

MOST_LISTED = 30
"""Most names of tools in an error about an unknown one."""

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


class CallEffects:
    """Changes that the calls of one answer make, from their beginning to their end, by the number of each."""

    def __init__(self, toolbox: Toolbox, calls: Mapping[int, CheckedCall]) -> None:
        self._begun = {number: effect for number, call in calls.items() if (effect := toolbox.audit(call))}
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
        return "begun" if result is None else "undone" if result.refused else "failed" if result.is_error else "done"


class Toolbox:
    """Passes calls through every check: schema, plugins, the owner, the tool, plugins again, limits. Whatever goes
    wrong becomes the result of its call."""

    def __init__(self, chain: Chain, clock: Callable[[], datetime], redact: Callable[[str], str], outputs: Outputs):
        """`redact` takes secrets out of lines of the audit log."""
        self.chain, self._clock, self._redact, self._outputs = chain, clock, redact, outputs
        self.find, self.reach = chain.find, chain.reach
        chain.tools()

    def runs_beside(self, name: str) -> bool:
        """True for a tool whose calls disturb no other that runs at the same time."""
        found = self.find(name)
        return found is not None and (found.side_by_side or found.reach == "none")

    def meant(self, answer: AssistantMessage) -> AssistantMessage:
        """The answer with the calls that the model meant, if it used CALL_TOOL for some."""
        if not any(call.name.strip().casefold() == CALL_TOOL for call in answer.tool_calls):
            return answer
        return answer._replace(tool_calls=tuple(map(self._meant, answer.tool_calls)))

    def _meant(self, call: ToolCall) -> ToolCall:
        """The call that is meant by one of CALL_TOOL, any other as it is: all that follows sees the tool that runs."""
        if self.find(call.name) is None or call.name.strip().casefold() != CALL_TOOL:
            return call
        try:
            given = parse(call.arguments)
        except ArgumentsError:
            return call
        name, arguments = given.get("name"), given.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict | str | None) or given.keys() - _OF_CALL:
            return call  # its schema says what is wrong
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        is_own = name.strip().casefold() == CALL_TOOL
        return call if is_own else ToolCall(call.id, name.strip(), text, call.arguments)

    async def judged(self, calls: Sequence[ToolCall], turn: RunningTurn, *, was_asked: bool = False) -> list[Judged]:
        """Judge all calls of an answer before any of them runs; then run those that only pass on the owner's answer. A
        tool may have been added or removed since the context began."""
        if any(call.said or self.find(call.name) is None for call in calls):
            await self.chain.before_context(turn)
            self.chain.tools(anew=True)
        judged, was_listed = list[Judged](), False
        for call in calls:
            judged.append(await self._judge(call, turn, was_asked=was_asked, lists=not was_listed))
            was_listed = was_listed or self.find(call.name) is None
        asks = any(one.asks for one in judged)
        for number, one in enumerate(judged):  # a crash finds the result on disk, or runs it again
            if one.answer and one.checked and one.checked.reach == "none" and not asks:
                judged[number] = one._replace(result=await self.run(one, turn, nobody))
        return judged

    async def _judge(self, call: ToolCall, turn: RunningTurn, *, was_asked: bool, lists: bool) -> Judged:
        """Judge one call; of one that is unknown `lists` adds which tools there are."""
        failed, profile, tool = self.failed, turn.profile, self.find(call.name)
        if tool and not tool.is_open(profile):
            return Judged(call, result=failed(call, f"{tool.name} cannot be used here."))
        try:
            checked = self.check(call, profile, lists=lists)
        except ToolError as error:
            return Judged(call, result=failed(call, str(error)))
        given = self.chain.asker.chosen(checked, turn) if was_asked else None
        verdict = await self.chain.before_tool(checked, turn, None if given else tool)
        if isinstance(verdict, Refuse):
            return Judged(call, checked, failed(call, verdict.text))
        if not profile.acts and checked.reach != "none":
            told = "This is a rehearsal: it was not done. Go on as if it had been."
            return Judged(call, checked, failed(call, told)._replace(is_error=False))
        judged = Judged(call, checked, answer=given)  # first asked for a yes, then to choose
        for some in ([ask for ask in verdict if not ask.options], *([ask] for ask in verdict if ask.options)):
            if not some:
                continue
            said = self.chain.asker.says(checked, some, turn, was_asked=was_asked)
            if not isinstance(said, OwnersAnswer):
                return judged._replace(asks=said)
            if some[0].options:
                judged = judged._replace(answer=said)
            elif not said.is_yes:
                return Judged(call, checked, self._refused(call, said, some))
        return judged

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
            result = await self.carry_out(judged.checked, context)
        finally:
            progress.close()
        result = await self.chain.after_tool(judged.checked, result, turn)
        text = self._outputs.shortened(judged.checked.name, result.text) or "(no output)"
        if result.outside:
            text = block(result.outside, text)
        return result._replace(text=text, diff=result.diff and shortened_diff(result.diff))

    async def call(self, call: ToolCall, turn: RunningTurn, parent: str = "") -> ToolResult:
        """Run one call outside the answers of a turn, with its own line in the audit log; what asks is refused. It is
        shown below the call with the id `parent`, which it is a part of, and not at all without one."""
        call = self._meant(call)
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
            return judged.result or self._refused(call, OwnersAnswer("no", "nobody"), judged.asks)
        transactions, effects = turn.session.transactions, CallEffects(self, {0: judged.checked})
        key, number = turn.session.key, turn.id or None
        rows = await transactions.write(lambda tx: records.insert(tx.db, key, number, tx.now, effects.begun))
        try:
            result = await self.run(judged, turn, effects.reports(0))
            effects.end(0, result)
        finally:
            await transactions.write(partial(_note_ended, key, number, rows, effects.ended))
        return result

    def check(self, call: ToolCall, profile: Profile | None = None, *, lists: bool = True) -> CheckedCall:
        """A call with its arguments parsed and converted. Raises ToolError for an unknown tool, with those that are
        open to a profile unless `lists` is False, and for arguments that do not fit."""
        found = self.find(call.name)
        if found is None:
            raise ToolError(self._unknown(call.name, profile, lists=lists))
        try:
            arguments = parse(call.arguments)
            if not found.is_foreign:
                arguments = check(arguments, found.spec.name, found.spec.parameters)
        except ArgumentsError as error:
            schema = json.dumps(found.spec.parameters, ensure_ascii=False)  # it may be out of sight by now
            raise ToolError(f"{error} Its parameters: {schema}" if call.said else str(error)) from None
        return CheckedCall(call.id, found.spec.name, arguments, found.reach)

    def audit(self, call: CheckedCall) -> Effect | None:
        """Line of the audit log about what a call will change; None when it changes nothing."""
        found = self.find(call.name)
        if found is None or found.reach == "none":
            return None
        arguments: Any = self._redacted(dict(call.arguments))  # before a cut: part of a secret isn't known for one
        if found.audit:
            return found.audit(arguments)
        given = json.dumps(arguments, ensure_ascii=False)
        return Effect(found.spec.name, "call", "", plain(f"used {found.spec.name} {given[:100]}"))

    def without_secrets(self, effect: Effect) -> Effect:
        """An effect that a tool reported itself, as it may stand in the audit log."""
        return effect._replace(text=self._redact(effect.text)) if effect.text else effect

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redact(value[:_AUDITED]) + value[_AUDITED:]
        if isinstance(value, dict):
            return {key: self._redacted(one) for key, one in value.items()}
        return [self._redacted(one) for one in value] if isinstance(value, list | tuple) else value

    async def carry_out(self, call: CheckedCall, context: ToolContext) -> ToolResult:
        """The tool's own result of a call, or an error result."""
        found = self.find(call.name)
        assert found
        try:
            before = (context._replace(call=call.id),) if found.wants_context else ()
            given = await found.run(*before, **call.arguments)
            output = given if isinstance(given, ToolOutput) else ToolOutput(given)
        except NanoclawError as error:
            output = ToolOutput(str(error), is_error=True)
        except FAULTS as error:  # a defect in a tool must not end the turn
            logger.exception("tool {} failed", call.name)
            output = ToolOutput(f"{call.name} failed: {type(error).__name__}: {error}", is_error=True)
        return ToolResult(
            call.id,
            call.name,
            plain(output.text),
            self._clock(),
            output.is_error,
            output.images,
            output.outside,
            plain(output.diff),
        )

    def failed(self, call: ToolCall, text: str) -> ToolResult:
        """The result of a call that is not run."""
        return ToolResult(call.id, call.name, text, self._clock(), is_error=True)

    def _refused(self, call: ToolCall, said: OwnersAnswer, asks: Sequence[Ask]) -> ToolResult:
        """The result of a call that lacks the owner's yes."""
        about = "".join(f" (“{one_line(ask.question, 200)}”)" for ask in asks[:1])
        return self.failed(call, _REFUSED[said.by].format(about))._replace(refused=said.by)

    def _unknown(self, name: str, profile: Profile | None, *, lists: bool) -> str:
        names = [tool.name for tool in self.chain.tools() if profile is None or tool.is_open(profile)]
        import difflib

        near = difflib.get_close_matches(name.strip().casefold(), names, 3, 0.5)
        more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
        hint = f" Near: {', '.join(near)}." if near else f" Tools: {', '.join(names[:MOST_LISTED])}{more}." * lists
        return f"there is no tool {name!r}.{hint}"


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
