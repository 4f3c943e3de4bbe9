"""The plugin: the tool `todo`, where its list is kept, and where it is seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from nanoclaw.core.events import StatusLines
from nanoclaw.core.messages import Address, Limits, ModelRequest
from nanoclaw.core.plugin import Command, Draft, Ended, Hears, Host, Plugin, Reply, Said, Tool, ToolOutput, Turn, Tx
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import plain
from nanoclaw.plugins.todo import steps as lists
from nanoclaw.plugins.todo.steps import Step, Steps

OPEN_TO = ("person", "job", "helper")
"""The profiles that have a list, each conversation its own."""

_LIST = "SELECT text, state, outside FROM todo_steps WHERE session = ? AND context = ? ORDER BY number"


class Todo(Plugin):
    name = "todo"
    hears: Mapping[str, Hears] = dict.fromkeys(("before_turn", "before_model", "on_end"), Hears(rows="todo_steps"))
    migrations = (
        """
        CREATE TABLE todo_steps (
            session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
            context INTEGER NOT NULL,               -- a list ends with its context
            number INTEGER NOT NULL,
            text TEXT NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('pending', 'doing', 'done')),
            PRIMARY KEY (session, number)
        ) STRICT;
        """,
        "ALTER TABLE todo_steps ADD COLUMN outside TEXT NOT NULL DEFAULT ''",  # sources of others' text it may repeat
    )
    marks = ("todo_steps.state",)

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        self._turns = dict[Address, int]()  # by conversation, the turn whose list was looked at
        self._shown = set[Address]()  # conversations whose list is in sight

    def tools(self) -> Iterable[Tool]:
        return [tool(self._todo, reach="none", open_to=OPEN_TO)._replace(atomic=True)]

    def commands(self) -> Iterable[Command]:
        about = "the to-do list of the work at hand; add TEXT, done 2"
        return [Command("todo", about, self._list, "time", cli=True, private=True)]

    async def _todo(
        self,
        context: ToolContext,
        steps: Annotated[list[str] | None, "the whole list, given once; [] deletes it"] = None,
        done: Annotated[list[int] | None, "numbers of steps"] = None,
        doing: Annotated[int | None, "number of a step"] = None,
    ) -> ToolOutput:
        """To-do list of a longer task, which the person watches: set its steps, then say what is done."""
        new = None
        if steps is not None:
            taint = self._host.get("taint")  # it knows sources that the owner trusts
            outside = ", ".join(taint.untrusted(context.outside) if taint else context.outside)
            new = tuple(step._replace(outside=outside) for step in lists.read([self._clean(step) for step in steps]))
        if new is None and not done and doing is None:
            there = self._steps(context.conversation)
            return ToolOutput(lists.whole(there) or "There is no to-do list.", outside=lists.outside(there))

        def change(tx: Tx) -> tuple[str, str]:
            now = self._steps(context.conversation) if new is None else new
            return self._change(tx, context, lists.changed(now, done or (), doing)), lists.outside(now)

        told, outside = await context.write(change)
        self._turns[context.conversation] = context.turn
        return ToolOutput(told, outside=outside)

    def _change(self, tx: Tx, context: ToolContext | Said, now: Steps) -> str:
        conversation, is_over = context.conversation, bool(now) and lists.is_over(now)
        stored = self._host.conversations.of(conversation)
        tx.execute("DELETE FROM todo_steps WHERE session = ?", stored.id)
        for place, step in enumerate(() if is_over else now, 1):
            sql = "INSERT INTO todo_steps (session, context, number, text, state, outside) VALUES (?, ?, ?, ?, ?, ?)"
            tx.execute(sql, stored.id, stored.context, place, *step)
        shown = "" if not now else lists.lines(now) if is_over else lists.live(now)
        tx.after(lambda: self._show(context.address, conversation, shown, is_last=is_over))
        return lists.progress(now) if now else "The to-do list is gone."

    def _clean(self, step: str) -> str:
        """A step as it may be stored and shown."""
        return self._host.redact(plain(step))

    def _steps(self, conversation: Address) -> Steps:
        stored = self._host.conversations.of(conversation)
        return tuple(Step(*row) for row in self._host.read(_LIST, stored.id, stored.context))

    # --- seen by the model -------------------------------------------------------------------------------------------

    async def before_turn(self, draft: Draft, turn: Turn) -> Draft | None:
        """Remind of an open list, once for each turn; of the steps that others' text may have brought about, none."""
        if turn.profile.name not in OPEN_TO or turn.calls or self._turns.get(turn.conversation) == turn.id:
            return None
        steps = self._steps(turn.conversation)
        if turn.id:  # else it is a preview
            self._turns[turn.conversation] = turn.id
        remark = f"Your to-do list stands at {lists.count(steps)}. {_BY_TOOL}"
        remark = remark if lists.outside(steps) else lists.remark(steps)
        return draft._replace(remarks=(*draft.remarks, remark)) if steps else None

    async def before_compaction(self, request: ModelRequest, turn: Turn) -> str | None:
        """The list stays in sight when the calls that made it are no longer shown."""
        steps = self._steps(turn.conversation)
        shown = _BY_TOOL if lists.outside(steps) else lists.whole(steps)
        return f"To-do list, {lists.count(steps)}:\n{shown}" if steps else None

    # --- seen by the person ------------------------------------------------------------------------------------------

    async def before_model(self, request: ModelRequest, turn: Turn | None) -> Limits | None:
        """Show the list of a turn that another process began."""
        if turn and turn.calls and self._turns.get(turn.conversation) != turn.id:
            self._turns[turn.conversation] = turn.id
            if steps := self._steps(turn.conversation):
                self._show(turn.address, turn.conversation, lists.live(steps))
        return None

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        """Leave an open list standing as it is."""
        self._turns.pop(turn.conversation, None)
        if turn.conversation in self._shown:
            shown = lists.lines(self._steps(turn.conversation))
            tx.after(lambda: self._show(turn.address, turn.conversation, shown, is_last=True))
        return None

    def _show(self, address: Address, conversation: Address, text: str, *, is_last: bool = False) -> None:
        (self._shown.add if text and not is_last else self._shown.discard)(conversation)
        self._host.show(address, StatusLines(self.name, text, is_last))

    def _list(self, said: Said, tx: Tx) -> Reply:
        steps = self._steps(said.conversation)
        if said.argument:
            steps = lists.said(steps, said.argument, self._clean)
            self._change(tx, said, steps)
        data = {"steps": [{"text": step.text, "state": step.state} for step in steps]}
        return Reply(lists.lines(steps) if steps else "There is no to-do list.", data)


_BY_TOOL = "`todo` shows its steps, which others' text may be behind."
