"""The plugin: the tool `todo`, where its list is kept, and where it is seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Literal

from nanoclaw.core.errors import ToolError
from nanoclaw.core.events import StatusLines
from nanoclaw.core.messages import Address, Limits, ModelRequest
from nanoclaw.core.plugin import Command, Draft, Ended, Hears, Host, Plugin, Reply, Said, Tool, ToolOutput, Turn, Tx
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import one_line, plain
from nanoclaw.named_tuple import NamedTuple

MOST, LONGEST = 30, 200
"""Steps of a list, and characters of each."""

LIVE_LINES, LIVE_CHARACTERS = 7, 100
"""Of a list while it grows on a screen: steps around the one that is done now, and characters of each."""

REMARK_STEPS = 5
"""Open steps that a remark names."""

State = Literal["pending", "doing", "done"]


class Step(NamedTuple):
    """`outside` are the sources of others' text that had been read when it was written."""

    text: str
    state: State = "pending"
    outside: str = ""


Steps = tuple[Step, ...]

_MARKS: dict[State, str] = {"pending": "☐", "doing": "▸", "done": "✓"}
_BOXES: dict[str, State] = {"x": "done", "✓": "done", ">": "doing", "~": "doing"}
_DRESS = r"\s*(?:[-*•]\s+)?(?:\d{1,2}[.)]\s+)?(?:\[([ xX✓>~])\]\s*)?"
"""The signs that lists of Markdown have before each line."""

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
            new = tuple(step._replace(outside=outside) for step in _read([self._clean(step) for step in steps]))
        if new is None and not done and doing is None:
            there = self._steps(context.conversation)
            return ToolOutput(_whole(there) or "There is no to-do list.", outside=_outside(there))

        def change(tx: Tx) -> tuple[str, str]:
            now = self._steps(context.conversation) if new is None else new
            return self._change(tx, context, _changed(now, done or (), doing)), _outside(now)

        told, outside = await context.write(change)
        self._turns[context.conversation] = context.turn
        return ToolOutput(told, outside=outside)

    def _change(self, tx: Tx, context: ToolContext | Said, now: Steps) -> str:
        conversation, is_over = context.conversation, bool(now) and _is_over(now)
        stored = self._host.conversations.of(conversation)
        tx.execute("DELETE FROM todo_steps WHERE session = ?", stored.id)
        for place, step in enumerate(() if is_over else now, 1):
            sql = "INSERT INTO todo_steps (session, context, number, text, state, outside) VALUES (?, ?, ?, ?, ?, ?)"
            tx.execute(sql, stored.id, stored.context, place, *step)
        shown = "" if not now else _lines(now) if is_over else _live(now)
        tx.after(lambda: self._show(context.address, conversation, shown, is_last=is_over))
        return _progress(now) if now else "The to-do list is gone."

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
        remark = f"Your to-do list stands at {_count(steps)}. {_BY_TOOL}"
        remark = remark if _outside(steps) else _remark(steps)
        return draft._replace(remarks=(*draft.remarks, remark)) if steps else None

    async def before_compaction(self, request: ModelRequest, turn: Turn) -> str | None:
        """The list stays in sight when the calls that made it are no longer shown."""
        steps = self._steps(turn.conversation)
        shown = _BY_TOOL if _outside(steps) else _whole(steps)
        return f"To-do list, {_count(steps)}:\n{shown}" if steps else None

    # --- seen by the person ------------------------------------------------------------------------------------------

    async def before_model(self, request: ModelRequest, turn: Turn | None) -> Limits | None:
        """Show the list of a turn that another process began."""
        if turn and turn.calls and self._turns.get(turn.conversation) != turn.id:
            self._turns[turn.conversation] = turn.id
            if steps := self._steps(turn.conversation):
                self._show(turn.address, turn.conversation, _live(steps))
        return None

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        """Leave an open list standing as it is."""
        self._turns.pop(turn.conversation, None)
        if turn.conversation in self._shown:
            shown = _lines(self._steps(turn.conversation))
            tx.after(lambda: self._show(turn.address, turn.conversation, shown, is_last=True))
        return None

    def _show(self, address: Address, conversation: Address, text: str, *, is_last: bool = False) -> None:
        (self._shown.add if text and not is_last else self._shown.discard)(conversation)
        self._host.show(address, StatusLines(self.name, text, is_last))

    def _list(self, said: Said, tx: Tx) -> Reply:
        steps = self._steps(said.conversation)
        if said.argument:
            steps = _said(steps, said.argument, self._clean)
            self._change(tx, said, steps)
        data = {"steps": [{"text": step.text, "state": step.state} for step in steps]}
        return Reply(_lines(steps) if steps else "There is no to-do list.", data)


_BY_TOOL = "`todo` shows its steps, which others' text may be behind."


# --- lists -----------------------------------------------------------------------------------------------------------


def _read(given: Sequence[str]) -> Steps:
    """A list as a model writes it. Raises ToolError."""
    if len(given) > MOST:
        raise ToolError(f"a list has at most {MOST} steps, not {len(given)}: combine some. Nothing was changed.")
    return tuple(_step(number, text) for number, text in enumerate(given, 1))


def _changed(steps: Steps, done: Sequence[int], doing: int | None) -> Steps:
    """The list after these steps are done, and one is begun. Raises ToolError."""
    for number in (*done, *([] if doing is None else [doing])):
        if not steps:
            raise ToolError("there is no to-do list: give its steps first.")
        if not 0 < number <= len(steps):
            raise ToolError(f"there is no step {number}: they are 1 to {len(steps)}. Nothing was changed.")
    if doing in done:
        raise ToolError(f"step {doing} is given as done and as doing. Nothing was changed.")
    states = [step.state for step in steps]
    if doing is not None:
        states = ["pending" if state == "doing" else state for state in states]
        states[doing - 1] = "doing"
    for number in done:
        states[number - 1] = "done"
    return tuple(step._replace(state=state) for step, state in zip(steps, states, strict=True))


def _said(steps: Steps, argument: str, clean: Callable[[str], str]) -> Steps:
    """The list after `/todo add milk` or `/todo done 2`. Raises ToolError."""
    word, _, rest = argument.partition(" ")
    if word == "add" and rest.strip():
        return (*steps, _read([*(step.text for step in steps), clean(rest)])[-1])
    if word == "done" and (numbers := [int(one) for one in re.findall(r"\b\d{1,3}\b", rest)]):
        return _changed(steps, numbers, None)
    raise ToolError("Say /todo, /todo add TEXT, or /todo done 2.")


def _is_over(steps: Steps) -> bool:
    return all(step.state == "done" for step in steps)


def _outside(steps: Steps) -> str:
    """Sources of others' text that a list may repeat, '' for none."""
    return ", ".join(dict.fromkeys(step.outside for step in steps if step.outside))


def _step(number: int, given: str) -> Step:
    dress = re.match(_DRESS, given)
    assert dress  # it may be nothing
    text = " ".join(given[dress.end() :].split())
    if not text:
        raise ToolError(f"step {number} is empty. Nothing was changed.")
    if len(text) > LONGEST:
        raise ToolError(
            f"step {number} has {len(text):,} characters, and {LONGEST} is the limit: shorten it. Nothing was changed."
        )
    return Step(text, _BOXES.get((dress[1] or "").lower(), "pending"))


# --- in words --------------------------------------------------------------------------------------------------------


def _count(steps: Steps) -> str:
    return f"{sum(step.state == 'done' for step in steps)} of {len(steps)} done"


def _progress(steps: Steps) -> str:
    """The state after a change, for the model: one line."""
    if _is_over(steps):
        return f"All {len(steps)} done; the list is closed."
    at = next((at for at, step in enumerate(steps) if step.state == "doing"), None)
    word = "next" if at is None else "doing"
    at = _first_open(steps) if at is None else at
    return f"{_count(steps)}; {word} {at + 1}: {steps[at].text}"


def _whole(steps: Steps) -> str:
    """All of it for the model, with the numbers that calls take."""
    states = ["" if step.state == "pending" else f"{step.state}: " for step in steps]
    return "\n".join(f"{number}. {states[number - 1]}{step.text}" for number, step in enumerate(steps, 1))


def _remark(steps: Steps) -> str:
    """Line that names the open steps."""
    left = [f"{number}. {step.text}" for number, step in enumerate(steps, 1) if step.state != "done"]
    more = f"; and {len(left) - REMARK_STEPS} more" if len(left) > REMARK_STEPS else ""
    return f"Your to-do list stands at {_count(steps)}; open: {'; '.join(left[:REMARK_STEPS])}{more}"


def _lines(steps: Steps) -> str:
    """All of it for the person."""
    return "\n".join([f"to do: {_count(steps)}", *(f"{_MARKS[step.state]} {step.text}" for step in steps)])


def _live(steps: Steps) -> str:
    """The steps around the one that is worked on, for a screen on which they are drawn again and again."""
    at = next((at for at, step in enumerate(steps) if step.state == "doing"), _first_open(steps))
    begin = max(0, min(at - LIVE_LINES // 2, len(steps) - LIVE_LINES))
    after = max(0, len(steps) - begin - LIVE_LINES)
    shown = [f"{_MARKS[step.state]} {one_line(step.text, LIVE_CHARACTERS)}" for step in steps[begin:][:LIVE_LINES]]
    drawn = [f"to do: {_count(steps)}", f"… {begin} before" * bool(begin), *shown, f"… {after} more" * bool(after)]
    return "\n".join(filter(None, drawn))


def _first_open(steps: Steps) -> int:
    return next((at for at, step in enumerate(steps) if step.state != "done"), len(steps) - 1)
