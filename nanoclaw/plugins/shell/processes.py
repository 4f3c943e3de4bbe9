"""Background processes: commands that keep running after the answer; their end is reported once.

A row is "running", then "ended", then "told". Its end is told by a message of the program to the person, which also
begins a turn, or by the result of a call that waited for it; each is one transaction with its row.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from nanoclaw.atomic_write import reason
from nanoclaw.core.errors import NanoclawError, ToolError
from nanoclaw.core.messages import Address, Inbound, Outbound, UserMessage
from nanoclaw.core.plugin import Host, Turn, Tx
from nanoclaw.core.tool import ToolContext
from nanoclaw.outputs import Outputs
from nanoclaw.plugins.shell.output import GrowingOutput, end_in_words, shortened
from nanoclaw.plugins.shell.plugin import bounds
from nanoclaw.spawn import Process

if TYPE_CHECKING:
    from nanoclaw.plugins.shell.plugin import Environment

ORIGIN = "process"
"""Of the messages that tell an end."""

MOST = 8
"""Processes at once."""

RESULT_BYTES = 6_000
TOLD_LINES, TOLD_CHARACTERS = 10, 1_000
LISTED = 5
"""Ended ones in a list."""

_AGAIN_SECONDS = 5.0
_LEFT = "was ended: I was stopped while it ran"


class ProcessRow(NamedTuple):
    id: int
    command: str
    channel: str
    chat: str
    conversation: str
    """As its channel and chat, with a line feed between."""
    sender: str
    began: str
    path: str
    state: str
    outcome: str

    @property
    def talk(self) -> Address:
        return Address(*self.conversation.split("\n", 1))

    @property
    def name(self) -> str:
        return f"Process {self.id} ({shortened(self.command)})"


_ROWS = f"SELECT {', '.join(ProcessRow._fields)} FROM shell_processes"


class RunningProcess:
    """A process of this program, or one that was; `claims` are calls that will tell its end."""

    def __init__(self, row: ProcessRow, process: Process, output: GrowingOutput) -> None:
        self.row, self.process, self.output = row, process, output
        self.ended = asyncio.Event()
        self.outcome, self.stopped_by = "", ""
        self.losses = ""  # files that it took away, in words
        self.claims, self.is_told = 0, False


class Processes:
    """All of them; `serves` is True while the program continues after an answer."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.serves = self._is_closing = False
        self._running: dict[int, RunningProcess] = {}
        self._ended: deque[RunningProcess] = deque(maxlen=MOST)
        self._tasks: set[asyncio.Task[None]] = set()
        self._reported: dict[tuple[int, str], RunningProcess] = {}
        ((self._earlier,),) = host.read("SELECT coalesce(max(id), 0) FROM shell_processes")  # of other programs

    # --- for the model -----------------------------------------------------------------------------------------------

    async def start(self, context: ToolContext, command: str, given: Environment, *, is_beyond: bool) -> str:
        self._check(context)
        try:
            path, descriptor = Outputs(self._host.workspace).begin(ORIGIN)
        except OSError as error:
            raise ToolError(f"no file for the output could be made: {reason(error)}. Nothing was run.") from None
        with ExitStack() as undone:
            output = GrowingOutput(path, descriptor)
            undone.callback(output.close)
            row = await self._host.write(partial(self._insert, context, command, path))
            undone.callback(self._host.write_now, partial(_delete, row.id))
            try:
                if card := self._host.get("card"):
                    undone.callback(card.dropped, row.id)
                    await card.began(row.id, context.turn, context.call)
                # last: nobody but the process owns what keeps it in the sandbox
                arguments, environment, keeper = await given.prepare(command, is_beyond=is_beyond)
                process = Process(
                    arguments,
                    folder=self._host.workspace,
                    environment=environment,
                    bounds=bounds(),
                    keeper=keeper,
                    heard=output.feed,
                    is_interactive=True,
                )
            except OSError as error:
                raise ToolError(f"the command could not be started: {reason(error)}. Nothing was run.") from None
            undone.pop_all()
        if is_beyond:  # lines for it would be commands that nobody was asked about
            process.end_input()
        self._running[row.id] = one = RunningProcess(row, process, output)
        task = asyncio.create_task(self._watch(one))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        about = f" [{note}]" if (note := given.about_sandbox(command=command, is_beyond=is_beyond)) else ""
        begun = f"Process {row.id} keeps running; its output goes to {path}."
        return f"{begun} You are told when it ends: don't wait for that.{about}"

    def _check(self, context: ToolContext) -> None:
        if context.profile != "person":
            raise ToolError("background is only for a conversation with the person, who is told. Leave it out.")
        if not self.serves:
            raise ToolError("this program ends with its answer, and what it runs ends with it. Leave background out.")
        if len(self._running) >= MOST:
            raise ToolError(f"{MOST} processes run already: stop one first, or wait.\n{self.listed()}")

    async def look(self, context: ToolContext, id: int, action: str, seconds: int) -> str:
        """Tell what is new of one, first stop it or wait for its end where that is the action."""
        if (one := self._find(id)) is None:
            return self._gone(id)
        with self._claimed(one, context):
            if action == "stop":
                one.process.stop()
                await one.ended.wait()
            elif action == "wait":
                with suppress(TimeoutError):
                    await asyncio.wait_for(one.ended.wait(), seconds)
            return self._state(one)

    def input(self, id: int, text: str) -> str:
        one = self._running.get(id)
        if one is None:
            raise ToolError(f"process {id} isn't running. {self.listed()}")
        if not text:
            one.process.end_input()
            return "Its input is closed."
        data = (text if text.endswith("\n") else f"{text}\n").encode("utf-8", "replace")
        try:
            written = one.process.write(data)
        except OSError:
            raise ToolError("its input is closed: it reads nothing more.") from None
        if written < len(data):
            raise ToolError(f"it took {written} of {len(data)} bytes: it isn't reading. Send the rest later.")
        return f"Sent. action=output shows the result, and {one.output.path}."

    def listed(self) -> str:
        """Those that run, and the last that have ended."""
        runs = f"state = 'running' AND id > {self._earlier}"
        rows = self._rows(f"WHERE {runs} ORDER BY id")
        ended = self._rows(f"WHERE NOT ({runs}) ORDER BY id DESC LIMIT {LISTED}")
        lines = [f"{row.id} running for {self._age(row)}: {shortened(row.command)}, output {row.path}" for row in rows]
        lines += [
            f"{row.id} {row.outcome or _LEFT}: {shortened(row.command)}, output {row.path}" for row in ended[::-1]
        ]
        return "\n".join(lines) or "No command runs in the background."

    def reported(self, turn: Turn, call: str) -> None:
        """A call that tells an end has its result: that is stored with it."""
        if one := self._reported.pop((turn.id, call), None):
            one.is_told = True
            turn.later(partial(_set_state, one.row.id, "told", one.outcome))

    # --- for the person ----------------------------------------------------------------------------------------------

    def stop_for_person(self, number: str) -> str:
        one = self._running.get(int(number)) if number.isdecimal() else None
        if one is None:
            return f"There is no such process.\n{self.listed()}"
        one.stopped_by = "by /processes"
        one.process.stop()
        return f"Stopping process {one.row.id}."

    # --- from start to end -------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Tell of what an earlier program left, then run until cancelled; all that runs ends with it."""
        left = [row for row in self._rows("WHERE state != 'told' ORDER BY id") if row.id not in self._running]
        left = [row for row in left if not any(row.id == one.row.id for one in self._ended)]
        self.serves = True
        try:
            if left:
                await self._host.write(partial(self._tell_left, left))
            await asyncio.Event().wait()
        finally:
            self.serves = False
            self._end_all()

    async def aclose(self) -> None:
        self._is_closing = True
        self._end_all()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _end_all(self) -> None:
        for one in self._running.values():
            one.stopped_by = one.stopped_by or "when everything was stopped"
            one.process.stop()

    async def _watch(self, one: RunningProcess) -> None:
        try:
            ended = await one.process.run()
        finally:
            one.output.close()
        was_stopped = ended.why == "stopped"
        outcome = f"was ended {one.stopped_by}".strip() if was_stopped else end_in_words(ended, bounds())
        outcome = "; ".join(filter(None, (outcome, ended.remark)))
        row = one.row
        if card := self._host.get("card"):
            one.losses = await card.ended(row.id, row.command, row.talk)
        while True:
            try:
                await self._host.write(partial(self._end, one, outcome, begins_turn=not was_stopped))
                break
            except NanoclawError as error:  # a full disk
                self._host.log.warning("the end of process {} is not stored: {}", one.row.id, error)
                if self._is_closing:
                    return
                await asyncio.sleep(_AGAIN_SECONDS)
        del self._running[one.row.id]
        self._ended.append(one)
        one.outcome = outcome
        one.ended.set()

    def _end(self, one: RunningProcess, outcome: str, tx: Tx, *, begins_turn: bool) -> None:
        """Its end, told where no call waits to do that."""
        if one.claims:
            _set_state(one.row.id, "ended", outcome, tx)
        else:
            one.is_told = True
            self._tell(tx, one.row, outcome, one.output, one.losses, begins_turn=begins_turn)

    def _tell(
        self,
        tx: Tx,
        row: ProcessRow,
        outcome: str,
        output: GrowingOutput | None = None,
        losses: str = "",
        *,
        begins_turn: bool = True,
    ) -> None:
        _set_state(row.id, "told", outcome, tx)
        lines = output.last_lines(TOLD_LINES, TOLD_CHARACTERS) if output else ""
        fence = "~~~~" if "```" in lines else "```"
        last = f" Its last lines:\n{fence}\n{lines}\n{fence}" if lines else f" Its output: {row.path}" * (not output)
        verb = "" if outcome.startswith("was ") else "has ended after " + self._age(row) + ": "
        text = self._host.redact("\n".join(filter(None, (f"{row.name} {verb}{outcome}.{last}", losses))))
        address, source, now = Address(row.channel, row.chat), f"process {row.id}", self._host.now()
        if not begins_turn:
            tx.send(Outbound(address, text, outside=source, came=now), f"Process {row.id} ran in the background.")
            return
        message = UserMessage(text, now, ORIGIN, outside=source)
        external_id = f"{ORIGIN}-{row.id}"
        inbound = Inbound(address, row.sender, external_id, message, role="owner", conversation=row.talk)
        if tx.deliver(inbound, self._host.profile("person")) is not None:
            tx.send(Outbound(address, text, came=now), is_news=False)

    def _tell_left(self, left: list[ProcessRow], tx: Tx) -> None:
        for row in left:
            outcome = _LEFT if row.state == "running" else row.outcome
            ran_to_its_end = row.state != "running" and not row.outcome.startswith("was ")
            self._tell(tx, row, outcome, begins_turn=ran_to_its_end)

    @contextmanager
    def _claimed(self, one: RunningProcess, context: ToolContext) -> Iterator[None]:
        """The end is reported by the result of this call, or, if that fails, as if there had been no call."""
        one.claims += 1
        has_result = False
        try:
            yield
            has_result = True
        finally:
            one.claims -= 1
            if one.outcome and not one.is_told:
                if has_result:
                    self._reported[context.turn, context.call] = one
                elif not one.claims:
                    self._host.spawn(self._host.write(partial(self._end, one, one.outcome, begins_turn=True)))

    # --- what is known -----------------------------------------------------------------------------------------------

    def _insert(self, context: ToolContext, command: str, path: str, tx: Tx) -> ProcessRow:
        command, (channel, chat) = self._host.redact(command), context.address
        conversation, began = "\n".join(context.conversation), self._host.now().isoformat()
        values = (command, channel, chat, conversation, context.sender, began, path, "running", "")
        names = ", ".join(ProcessRow._fields[1:])
        sql = f"INSERT INTO shell_processes ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
        ((number,),) = tx.execute(sql, *values)
        return ProcessRow(int(number), *values)

    def _rows(self, which: str) -> list[ProcessRow]:
        return [ProcessRow(*row) for row in self._host.read(f"{_ROWS} {which}")]

    def _find(self, id: int) -> RunningProcess | None:
        return self._running.get(id) or next((one for one in self._ended if one.row.id == id), None)

    def _gone(self, id: int) -> str:
        """About one of an earlier program, or of long ago."""
        if rows := [ProcessRow(*row) for row in self._host.read(f"{_ROWS} WHERE id = ?", id)]:
            return f"Process {id} {rows[0].outcome or _LEFT}. Its output: {rows[0].path}"
        raise ToolError(f"there is no process {id}. {self.listed()}")

    def _state(self, one: RunningProcess) -> str:
        new = one.output.fresh(RESULT_BYTES) or "(no new output)"
        state = one.outcome or f"running for {self._age(one.row)}"
        lost = f"\n[{one.losses}]" if one.losses else ""
        return f"{new}\n[process {one.row.id}: {state}; all of its output: {one.output.path}]{lost}"

    def _age(self, row: ProcessRow) -> str:
        seconds = round((self._host.now() - datetime.fromisoformat(row.began)).total_seconds())
        minutes, hours = seconds // 60, seconds // 3600
        return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min" if minutes >= 2 else f"{seconds} s"


def _delete(id: int, tx: Tx) -> None:
    tx.execute("DELETE FROM shell_processes WHERE id = ?", id)


def _set_state(id: int, state: str, outcome: str, tx: Tx) -> None:
    tx.execute("UPDATE shell_processes SET state = ?, outcome = ? WHERE id = ?", state, outcome, id)
