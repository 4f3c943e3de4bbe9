"""Helpers: conversations of their own that do a part of the work; their report arrives once.

A row is "running", then "ended" where a call waits that will tell the report, then "told". A report is delivered by the
result of that call, or by a message from the program to the person, which also begins a turn; each is one transaction
with its row.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import date, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from nanoclaw.core.errors import LimitReached, ToolError
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    CheckedCall,
    Inbound,
    Limits,
    ModelRequest,
    Outbound,
    ToolResult,
    Usage,
    UserMessage,
)
from nanoclaw.core.plugin import Ended, Host, Profile, Refuse, Reply, ToolOutput, Turn, Tx
from nanoclaw.core.provider import estimate_request
from nanoclaw.core.tool import ShowProgress, ToolContext, unseen
from nanoclaw.dollars import dollars
from nanoclaw.escapes import one_line
from nanoclaw.outputs import Outputs
from nanoclaw.plugins.delegate.plugin import CHANNEL, HELPER, REPORT
from nanoclaw.silence_token import spoken

ROUNDS, SECONDS, AT_ONCE, USD = 24, 900.0, 4, 1.0
"""The most of one helper, with the dollars that it may spend, and of helpers at work at the same time."""

LISTED = 5
"""Ended ones in a list."""

SHORTEST_ANSWER = 1024
"""Tokens; a helper whose money is not enough for so many asks no more."""

MOST_CHARACTERS = 100_000
"""Of a task with its context."""

GIVEN = (
    "(You are a helper: the assistant of this person gave you this task, and your answer goes back to it as a report. "
    "Nobody answers questions. Do the task, then write a report that stands alone: the result first, then figures, "
    "paths and sources, and what you could not find out or do.)"
)

GOES_ON = (
    "The program was interrupted here. The helper goes on by itself, and its report comes as a message: don't begin it "
    "again, and don't guess what it will say."
)

LAST_ROUND = "[This was your last round of tools: now write your report.]"

_OWN_FILES = frozenset(
    f"{name}.md"
    for name in ("soul", "identity", "agents", "tools", "user", "bootstrap", "memory", "heartbeat", "skill")
)
"""Files that say who the assistant is, what it knows and what it does by itself."""

_IN_A_COMMAND = re.compile(
    r"\b(?:soul|identity|agents|tools|user|bootstrap|memory|heartbeat|skill)\.md\b|\bnanoclaw\b", re.IGNORECASE
)

_KEPT = "a helper doesn't change {}: say in your report what should change there."


class HelperRow(NamedTuple):
    id: int
    channel: str
    chat: str
    conversation: str
    """As its channel and chat, with a line feed between."""
    context: int
    """Number of the context that it was begun in: /new begins another."""
    sender: str
    task: str
    model: str
    began: str
    ended: str
    state: str
    reason: str
    report: str
    outside: str
    usd: float | None

    @property
    def own(self) -> Address:
        return Address(CHANNEL, str(self.id))

    @property
    def place(self) -> Address:
        return Address(self.channel, self.chat)

    @property
    def parent(self) -> Address:
        return Address(*self.conversation.split("\n", 1))


_ROWS = f"SELECT {', '.join(HelperRow._fields)} FROM delegate_helpers"


class HelperAtWork:
    """A helper of this process, begun in a `turn`: `awaited` while a call of that is to tell its report."""

    def __init__(self, show: ShowProgress = unseen, turn: int | None = None, *, awaited: bool = False) -> None:
        self._show, self.turn, self.awaited = show, turn, awaited
        self.ended = asyncio.Event()
        self.doing, self.calls = "begins", 0

    def does(self, row: HelperRow, doing: str, calls: int = 0) -> None:
        self.doing, self.calls = doing, self.calls + calls
        self._show(f"helper {row.id} ({one_line(row.task, 30)}): {self.in_words()}")

    def in_words(self) -> str:
        calls = f" · {self.calls} {'calls' if self.calls > 1 else 'call'}" if self.calls else ""
        return f"{self.doing}{calls}"


class Helpers:
    """All of them; `serves` is True while the program continues after an answer."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.serves = False
        self._at_work: dict[int, HelperAtWork] = {}
        self._reported: dict[tuple[int, str], int] = {}  # by turn and call: the helper whose report it tells

    # --- for the model -----------------------------------------------------------------------------------------------

    async def delegate(
        self, context: ToolContext, task: str, facts: str, tools: Sequence[str] | None, model: str, *, background: bool
    ) -> ToolOutput:
        """Begin a helper; its report, or in the background its number."""
        if not task.strip():
            raise ToolError("give the task in words: a helper knows nothing of this conversation. None was started.")
        if len(task) + len(facts) > MOST_CHARACTERS:
            raise ToolError(
                f"task and context: at most {MOST_CHARACTERS:,} characters. Name files in place of the rest."
            )
        if background and not self.serves:
            raise ToolError("this program ends with its answer, and with it what it runs. Leave background out.")
        profile = self._profile(context, tools, model)
        at_work = HelperAtWork(unseen if background else context.show, context.turn, awaited=not background)
        begin = partial(self._begin, context, profile, (task.strip(), facts.strip()), at_work)
        number = await context.write(begin, GOES_ON)
        if background:
            return ToolOutput(f"Helper {number} has started. Its report comes as a message: don't wait for it.")
        return await self._report(number, at_work, context)

    def _profile(self, context: ToolContext, tools: Sequence[str] | None, model: str) -> Profile:
        setting, base = self._host.setting, self._host.profile(HELPER)
        tokens, timeout = setting("model.output_tokens"), setting("model.timeout_seconds")
        limits = Limits(tokens, timeout, ROUNDS, seconds=SECONDS)
        base = base._replace(only=self._only(base, tools, context.only), limits=limits)
        wanted = model.strip()
        return base._replace(model=self._host.models.choose(wanted)[0] if wanted else "")

    def _only(self, base: Profile, tools: Sequence[str] | None, may: frozenset[str] | None) -> frozenset[str] | None:
        """The tools that are named, as far as helpers have them; the turn that begins one can't give more than it
        has."""
        if not tools:
            return may
        there = {name.casefold(): name for name in self._host.tools(base, anew=True)}
        there = {low: name for low, name in there.items() if may is None or name in may}
        if unknown := [name for name in tools if name.strip().casefold() not in there]:
            import difflib

            near = dict.fromkeys(
                there[found]
                for name in unknown
                for found in difflib.get_close_matches(name.strip().casefold(), there, 3, 0.5)
            )
            hint = f" Near: {', '.join(near)}." if near else f" It may have: {', '.join(list(there.values())[:30])}."
            raise ToolError(f"a helper has no tool {', '.join(map(repr, unknown[:5]))}.{hint} None was started.")
        return frozenset(there[name.strip().casefold()] for name in tools)

    def _begin(
        self, context: ToolContext, profile: Profile, words: tuple[str, str], at_work: HelperAtWork, tx: Tx
    ) -> int:
        """The row, and the message that begins the helper's conversation."""
        running = self._rows("WHERE state = 'running' ORDER BY id")
        if len(running) >= AT_ONCE:
            at = ", ".join(f"{row.id} ({one_line(row.task, 40)})" for row in running)
            raise ToolError(f"{len(running)} helpers are running, which is the limit: {at}. Call again after a report.")
        task, facts = map(self._redacted, words)
        session = self._host.conversations.of(context.conversation)
        now, conversation = self._host.now(), "\n".join(context.conversation)
        model = self._host.models.of(profile.model or session.model, "" if profile.model else profile.purpose).model
        values = (*context.address, conversation, session.context, context.sender, task, model, now.isoformat())
        names = ", ".join(HelperRow._fields[1:])
        sql = f"INSERT INTO delegate_helpers ({names}) VALUES ({', '.join('?' * 14)}) RETURNING id"
        ((number,),) = tx.execute(sql, *values, "", "running", "", "", "", None)
        text = "\n\n".join(filter(None, (task, facts, GIVEN)))
        said = UserMessage(text, now, HELPER, outside=", ".join(context.outside))
        inbound = Inbound(Address(CHANNEL, str(number)), CHANNEL, str(number), said, role="owner")
        self._host.conversations.of(inbound.address).use_model(session.model)
        assert tx.deliver(inbound, profile) is not None
        if plan := self._host.get("plan"):
            plan.inherit(tx, context.conversation, inbound.address)
        tx.after(lambda: self._at_work.update({number: at_work}))  # before its conversation can begin
        return int(number)

    async def _report(self, number: int, at_work: HelperAtWork, context: ToolContext) -> ToolOutput:
        """Wait for the end. A stop of the turn ends the helper, too, while the end of a program that continues later
        leaves it."""
        try:
            await at_work.ended.wait()
        except asyncio.CancelledError:
            if not at_work.ended.is_set():
                at_work.awaited = False
                if self._host.conversations.leaves(context.conversation):
                    return ToolOutput(GOES_ON)  # stored as the result, in place of one that nobody could go on with
                await self._end_at_once(number, "cancelled")
                raise
        row = self._rows("WHERE id = ?", number)[0]
        self._reported[context.turn, context.call] = number
        return ToolOutput(self.in_words(row), outside=row.outside, is_error=row.reason != "answered")

    async def _end_at_once(self, number: int, reason: str) -> None:
        """End a helper about which nobody is to be told: the row first, so that it begins nothing more."""
        sql = "UPDATE delegate_helpers SET state = 'told', reason = ?, ended = ? WHERE id = ? AND state = 'running'"
        await self._host.write(lambda tx: tx.execute(sql, reason, self._host.now().isoformat(), number))
        self._at_work.pop(number, None)
        await self._stop(number)

    async def _stop(self, number: int) -> None:
        own = Address(CHANNEL, str(number))
        await self._host.conversations.stop(own)
        await self._host.conversations.free(own)

    def reported(self, turn: Turn, call: str) -> None:
        """A call that tells a report has its result: that is stored with it."""
        number = self._reported.pop((turn.id, call), None)
        if number is not None:
            sql = "UPDATE delegate_helpers SET state = 'told' WHERE id = ?"
            turn.later(lambda tx: tx.execute(sql, number))

    # --- a helper's turn ---------------------------------------------------------------------------------------------

    def before_model(self, request: ModelRequest, turn: Turn) -> Limits | None:
        """Shorten or refuse a request that would cost more than the helper has left."""
        row = self._running(turn)
        if row is None:
            raise LimitReached("this helper was ended.")
        self._of(row.id).does(row, "thinks")
        models, most = self._host.models, request.limits.output_tokens
        names = [name for name in (request.model, *request.others) if not models.is_local(name)]
        each = max((models.cost(name, Usage(0, 1_000_000)) or 0.0 for name in names), default=0.0) / 1_000_000
        if not each:
            return None
        taken = Usage(round(estimate_request(request, request.model) * request.factor))
        asked = max(models.cost(name, taken) or 0.0 for name in names)
        tokens = int((USD - (self._spent(row.id) or 0.0) - asked) / each)
        if tokens >= most:
            return None
        if tokens < SHORTEST_ANSWER:
            raise LimitReached(f"the {dollars(USD)} for one helper are used up.")
        return request.limits._replace(output_tokens=tokens)

    def before_tool(self, call: CheckedCall, turn: Turn) -> Refuse | None:
        """Keep a helper from what is not its business, and note what it does."""
        row = self._running(turn)
        if row is None:
            return Refuse("this helper was stopped, so nothing was done.")
        if kept := _kept_from_helpers(call):
            return Refuse(_KEPT.format(kept))
        self._of(row.id).does(row, _label(call), 1)
        return None

    def after_tool(self, result: ToolResult, turn: Turn) -> ToolResult | None:
        """Tell a helper when its next answer must be the report."""
        rounds = 1 + sum(isinstance(one, AssistantMessage) and bool(one.tool_calls) for one in turn.history)
        limits = turn.profile.limits
        if limits is None or limits.rounds - rounds != 1:
            return None
        return result._replace(text=f"{result.text}\n{LAST_ROUND}")

    def _of(self, number: int) -> HelperAtWork:
        """The state of a helper at work; for one of an earlier process nobody waits."""
        return self._at_work.setdefault(number, HelperAtWork())

    def _running(self, turn: Turn) -> HelperRow | None:
        found = self._rows("WHERE id = ? AND state = 'running'", int(turn.address.chat))
        return found[0] if found else None

    # --- its end -----------------------------------------------------------------------------------------------------

    def end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
        if row := self._running(turn):
            self._finish(tx, row, ended.reason, _report(ended, turn), turn.outside)

    def _finish(self, tx: Tx, row: HelperRow, reason: str, report: str, outside: Sequence[str] = ()) -> None:
        """Keep the report, and tell it where no call waits to do that. What was done is on record where it was asked
        for."""
        at_work = self._at_work.get(row.id)
        awaited = at_work is not None and at_work.awaited
        report = Outputs(self._host.workspace).shortened(REPORT, self._redacted(report))
        now, state, usd = self._host.now().isoformat(), "ended" if awaited else "told", self._spent(row.id)
        row = row._replace(ended=now, state=state, reason=reason, report=report, outside=", ".join(outside), usd=usd)
        sql = (
            "UPDATE delegate_helpers SET (ended, state, reason, report, outside, usd) = (?, ?, ?, ?, ?, ?) WHERE id = ?"
        )
        tx.execute(sql, now, state, reason, report, row.outside, usd, row.id)
        self._host.records.move(tx, row.own, row.parent, at_work.turn if at_work else None)
        if not awaited:
            self._tell(tx, row)
        tx.after(lambda: self._at_work.pop(row.id, None))
        if at_work:
            tx.after(at_work.ended.set)

    def _tell(self, tx: Tx, row: HelperRow) -> None:
        """The report to the person, and in the same words to the model, whose turn it begins; to a conversation that
        has begun again since, and of one that the person ended, it is only told."""
        is_anew = self._host.conversations.of(row.parent).context != row.context
        text, now = self.in_words(row), self._host.now()
        if is_anew or row.reason == "cancelled":
            before = " before this conversation" if is_anew else ""
            tx.send(Outbound(row.place, text, outside=row.outside, came=now), f"Helper {row.id} was begun{before}.")
            return
        message = UserMessage(text, now, REPORT, outside=row.outside)
        inbound = Inbound(row.place, row.sender, f"{REPORT}-{row.id}", message, role="owner", conversation=row.parent)
        if tx.deliver(inbound, self._host.profile("person")) is not None:
            tx.send(Outbound(row.place, text, came=now), is_news=False)

    async def serve(self) -> None:
        """Tell what an earlier process left to tell, then run until cancelled."""
        self.serves = True
        told_here = {*self._reported.values(), *(id_ for id_, one in self._at_work.items() if one.awaited)}
        left = [row for row in self._rows("WHERE state != 'told' ORDER BY id") if row.id not in told_here]
        try:
            if left:
                await self._host.write(partial(self._tell_left, left))
            await asyncio.Event().wait()
        finally:
            self.serves = False

    def _tell_left(self, left: Sequence[HelperRow], tx: Tx) -> None:
        for row in left:
            if row.state == "ended":
                tx.execute("UPDATE delegate_helpers SET state = 'told' WHERE id = ?", row.id)
                self._tell(tx, row)
            elif not self._host.records.is_waiting(row.own):
                self._finish(tx, row, "cancelled", "")

    # --- in words ----------------------------------------------------------------------------------------------------

    def in_words(self, row: HelperRow) -> str:
        """The report of a helper that has ended, with whose it is."""
        did = {"answered": "reports", "cancelled": "was stopped"}.get(row.reason, "did not finish")
        head = f"Helper {row.id} ({one_line(row.task, 80)}) {did} after {self._figures(row)}"
        return f"{head}:\n\n{row.report}" if row.report else f"{head}."

    async def command(self, argument: str) -> Reply:
        """/helpers, /helpers 3, /helpers stop 3"""
        verb, _, rest = argument.strip().partition(" ")
        number = (rest if verb.casefold() == "stop" else verb).strip().removeprefix("#")
        if not argument.strip():
            return self._list()
        rows = self._rows("WHERE id = ?", int(number)) if number.isascii() and number.isdecimal() else []
        if not rows or (rest and verb.casefold() != "stop"):
            raise ToolError(f"There is no helper {number or verb!r}.\n{self._list().text}")
        row = rows[0]
        if verb.casefold() != "stop":
            return Reply(self._whole(row), self._data(row))
        if row.state != "running":
            return Reply(f"Helper {row.id} has ended: /helpers {row.id} shows its report.", self._data(row))
        await self._stop(row.id)
        if self._rows("WHERE id = ? AND state = 'running'", row.id):  # it waited, or is another process's
            await self._host.write(partial(self._finish, row=row, reason="cancelled", report=""))
        return Reply(f"Helper {row.id} is stopped.", self._data(self._rows("WHERE id = ?", row.id)[0]))

    def _list(self) -> Reply:
        running = self._rows("WHERE state = 'running' ORDER BY id")
        ended = self._rows(f"WHERE state != 'running' ORDER BY id DESC LIMIT {LISTED}")[::-1]
        text = "\n".join(map(self._line, (*running, *ended))) or "No helper was started yet."
        return Reply(text, {"helpers": [self._data(row) for row in (*running, *ended)]})

    def _line(self, row: HelperRow) -> str:
        at_work = self._at_work.get(row.id)
        doing = f" · {at_work.in_words()}" if at_work and row.state == "running" else ""
        state = "running for" if row.state == "running" else f"{row.reason} after"
        if row.state == "running" and at_work is None and not self.serves:
            state = "goes on with the next chat or gateway, after"  # of a program that was killed
        return f"{row.id} {state} {self._figures(row)}, {row.model}: {one_line(row.task, 60)}{doing}"

    def _whole(self, row: HelperRow) -> str:
        if row.state != "running":
            return f"{self._line(row)}\n\n{row.report}".rstrip()
        history = self._host.conversations.of(row.own).history
        calls = [call for one in history if isinstance(one, AssistantMessage) for call in one.tool_calls]
        lines = [f"{call.name} {one_line(call.arguments, 80)}" for call in calls[-10:]]
        words = [one.text.strip() for one in history if isinstance(one, AssistantMessage) and one.text.strip()]
        return "\n".join([self._line(row), *lines, *words[-1:]])

    def _data(self, row: HelperRow) -> dict[str, Any]:
        at_work = self._at_work.get(row.id)
        return {
            "id": row.id,
            "state": "running" if row.state == "running" else row.reason,
            "task": row.task,
            "model": row.model,
            "seconds": self._seconds(row),
            "usd": self._spent(row.id) if row.state == "running" else row.usd,
            "doing": at_work.doing if at_work and row.state == "running" else "",
            "report": row.report,
            "outside": row.outside,
        }

    def _figures(self, row: HelperRow) -> str:
        usd = self._spent(row.id) if row.state == "running" else row.usd
        seconds = self._seconds(row)
        age = f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
        return f"{age}, {dollars(usd)}" if usd else age

    def _seconds(self, row: HelperRow) -> int:
        until = datetime.fromisoformat(row.ended) if row.ended else self._host.now()
        return round((until - datetime.fromisoformat(row.began)).total_seconds())

    # --- what is known -----------------------------------------------------------------------------------------------

    def _rows(self, which: str, *values: object) -> list[HelperRow]:
        return [HelperRow(*row) for row in self._host.read(f"{_ROWS} {which}", *values)]

    def _spent(self, number: int) -> float | None:
        """US dollars; None if the price of a model is not known."""
        rows = self._host.records.spent(date.min, 0, Address(CHANNEL, str(number)))
        costs = [0.0 if is_local else self._host.models.cost(model, used) for *_, is_local, model, used in rows]
        return None if None in costs else sum(cost for cost in costs if cost)

    def _redacted(self, text: str) -> str:
        return self._host.redact(text)


def _report(ended: Ended, turn: Turn) -> str:
    """The report of a turn for who gave the task; of one that did not finish why, and its last words."""
    if ended.reason == "answered":
        return spoken(ended.text).strip() or "(It had nothing to report.)"
    why = "" if ended.reason == "cancelled" else _for_the_parent(ended.text)
    words = [one.text.strip() for one in turn.history if isinstance(one, AssistantMessage) and one.text.strip()]
    return f"{why}\n\nIts last words: {words[-1]}".strip() if words else why


def _for_the_parent(text: str) -> str:
    """Why a turn did not finish, without what is said to a person who can answer."""
    text = text.partition(" What was done so far")[0].removesuffix(" Shall I go on?")
    if text.startswith("I was interrupted"):
        return f"The program was interrupted during it.{text.partition('”.')[2]}"
    return text


def _kept_from_helpers(call: CheckedCall) -> str:
    """The part of a call that would change the assistant itself: its files or its jobs; "" for nothing."""
    if call.reach == "none":
        return ""
    if call.name == "exec":
        found = _IN_A_COMMAND.search(str(call.arguments.get("command", "")))
        return found[0] if found else ""
    for value in call.arguments.values():
        path = PurePosixPath(value.strip().casefold()) if isinstance(value, str) and len(value) < 1_000 else None
        if path and (path.name in _OWN_FILES or (path.suffix == ".md" and "memory" in path.parts[:-1])):
            return str(value).strip()
    return ""


def _label(call: CheckedCall) -> str:
    value = next((one for one in call.arguments.values() if isinstance(one, str)), "")
    return f"{call.name} {one_line(value, 60)}".rstrip()
