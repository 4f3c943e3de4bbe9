"""Steps of a turn and what commands were held back from: in memory, and on disk with the turn's transactions."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from nanoclaw.core.messages import CheckedCall, ToolCall
from nanoclaw.core.plugin import Host, Turn, Tx
from nanoclaw.snapshots.places import FOLDER

if TYPE_CHECKING:
    from nanoclaw.snapshots.listing import FileListing

CARRY_OUT = "carry_out"
"""The tool by which a card makes the file changes that a command was kept from making; hidden from models."""

TABLES = (
    """
    CREATE TABLE card_steps (
        turn INTEGER NOT NULL,                  -- or a process that has ended and of which no turn knows yet, as -id
        call TEXT NOT NULL,
        name TEXT NOT NULL,
        arguments TEXT NOT NULL,
        words TEXT NOT NULL,                    -- as the person reads it
        deletions INTEGER NOT NULL,
        state TEXT NOT NULL,
        id INTEGER NOT NULL,                    -- its place among the turn's
        PRIMARY KEY (turn, call, name, arguments)
    ) STRICT;
    """,
    """
    CREATE TABLE card_losses (
        turn INTEGER NOT NULL,
        list TEXT NOT NULL,                     -- the hash of all that one command took away
        path TEXT NOT NULL,                     -- as JSON, as all that follows: a name may be no text
        copy TEXT NOT NULL,
        was TEXT NOT NULL,                      -- states: what it was, and what the command left of it
        left TEXT NOT NULL,
        folder TEXT NOT NULL,                   -- the outermost one that goes with it
        PRIMARY KEY (turn, list, path)
    ) STRICT;
    """,
    "ALTER TABLE card_losses DROP COLUMN folder",
)
MARKS = (
    *("card_steps.call", "card_steps.name", "card_steps.state", "card_losses.list", "card_losses.copy"),
    *("card_losses.was", "card_losses.left"),
)

_INSERT = "INSERT OR REPLACE INTO card_steps VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_DROP_LOSSES = "DELETE FROM card_losses WHERE turn NOT IN (SELECT turn FROM card_steps)"


class CardStep(NamedTuple):
    """A call that is counted or collected, or the loss of a command that was put back. `state`: counted, putting (it is
    being put back), noted (on the next card), shown, carrying (it is being carried out), run (from a card)."""

    call: str
    name: str
    arguments: str
    words: str
    deletions: int
    state: str
    id: int = 0  # on its card

    @property
    def as_call(self) -> ToolCall:
        """The call as it is made from the card."""
        return ToolCall(f"card-{self.id}-{self.call}", self.name, self.arguments)

    @property
    def list(self) -> str:
        """The hash of all that a command took away."""
        return str(json.loads(self.arguments)["list"])


class HeldBack(NamedTuple):
    """A loss that is put back and waits for a yes: the state that the file or folder `was` in, its copy, and the state
    in which the command left it ('' for gone; of other content there is a copy, too)."""

    path: str
    copy: str
    was: str
    left: str

    @property
    def is_folder(self) -> bool:
        return self.was == FOLDER


Key = tuple[str, str, str]


@dataclass
class CardTurn:
    """All that is known of one turn: its steps, when it `began`, the files that are not older than it (`made`), and
    what was there before each call that may run now (`before`). What was `allowed` is not judged."""

    turn: Turn
    steps: dict[Key, CardStep]
    began: float = field(default_factory=time.time)
    made: set[str] = field(default_factory=set)
    before: dict[str, FileListing] = field(default_factory=dict)
    allowed: set[str] = field(default_factory=set)
    free: dict[str, int] = field(default_factory=dict)  # deletions that a command in the background may make, by call
    others: list[str] = field(default_factory=list)  # commands in the background that ended while a call ran
    beside: dict[str, int] = field(default_factory=dict)  # files outside of all that is looked at, by command
    gone: list[str] = field(default_factory=list)  # could not be put back

    def of(self, *states: str) -> list[CardStep]:
        return [one for one in self.steps.values() if one.state in states]

    def runs_a_call(self, but: Collection[str]) -> bool:
        """True while a call runs that is none of these, and what is there before it is known."""
        return bool(self.before) and any(one.state == "begun" and one.tool not in but for one in self.turn.effects)

    def written(self, root: str) -> set[str]:
        """Files that the turn's calls made."""
        return {f"{root}/{one.target}" for one in self.turn.effects if one.kind == "file" and one.before == ""}

    def from_card(self, call: str) -> CardStep | None:
        """The step that a call of the card is."""
        return next((one for one in self.of("shown", "run") if one.as_call.id == call), None)

    def counted(self, key: Key) -> int:
        """Deletions that were made in the turn, by other calls."""
        return sum(one.deletions for at, one in self.steps.items() if one.state == "counted" and at != key)

    @property
    def next_id(self) -> int:
        return 1 + max((one.id for one in self.steps.values()), default=0)


def key_of(call: CheckedCall) -> Key:
    return call.id, call.name, json.dumps(dict(call.arguments), ensure_ascii=False)


def held_step(call: str, command: str, held: Iterable[HeldBack], words: str, deletions: int, id: int = 1) -> CardStep:
    """A command that is held back, as a step: bound to the hash of all that it took away."""
    arguments = json.dumps({"command": command, "list": digest(held)}, ensure_ascii=False)
    return CardStep(call, CARRY_OUT, arguments, words, deletions, "putting", id)


def digest(held: Iterable[HeldBack]) -> str:
    said = json.dumps(sorted((one.path, one.was, one.left) for one in held), ensure_ascii=False)
    return sha256(said.encode("utf-8", "surrogateescape")).hexdigest()


class CardSteps:
    """The tables."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def of(self, turn: int) -> dict[Key, CardStep]:
        sql = "SELECT call, name, arguments, words, deletions, state, id FROM card_steps WHERE turn = ? ORDER BY id"
        steps = [CardStep(*row) for row in self._host.read(sql, turn)]
        return {one[:3]: one for one in steps}

    def held(self, turn: int, step: CardStep) -> list[HeldBack]:
        """All that one command took away and that was put back."""
        sql = "SELECT path, copy, was, left FROM card_losses WHERE turn = ? AND list = ? ORDER BY path"
        return [HeldBack(*map(json.loads, row)) for row in self._host.read(sql, turn, step.list)]

    def copies(self) -> set[str]:
        """Names of the copies that a card still needs."""
        rows = self._host.read("SELECT copy, left FROM card_losses")
        return {json.loads(name) for row in rows for name in row}

    def keep(self, turn: int, step: CardStep, held: Iterable[HeldBack], tx: Tx) -> None:
        tx.execute(_INSERT, turn, *step)
        for one in held:
            sql = "INSERT OR REPLACE INTO card_losses VALUES (?, ?, ?, ?, ?, ?)"
            tx.execute(sql, turn, step.list, *map(json.dumps, one))

    def note(self, turn: Turn, known: CardTurn, step: CardStep) -> None:
        """Take up a step, or its new state; on disk with the turn's next transaction."""
        before = known.steps.get(step[:3])
        step = step._replace(id=before.id if before else known.next_id)
        known.steps[step[:3]] = step
        row: tuple[Any, ...] = (turn.id, *step)
        turn.later(lambda tx: tx.execute(_INSERT, *row))

    def forget(self, turn: Turn, known: CardTurn, step: CardStep) -> None:
        del known.steps[step[:3]]
        sql = "DELETE FROM card_steps WHERE (turn, id) = (?, ?)"
        turn.later(lambda tx: (tx.execute(sql, turn.id, step.id), tx.execute(_DROP_LOSSES)))

    def adopt(self, turn: Turn, known: CardTurn, process: int) -> None:
        """Make what a process was held back from a step of a turn that knows of its end."""
        for step in [one for one in self.of(-process).values() if one.state == "noted"]:
            known.steps[step[:3]] = step = step._replace(id=known.next_id)
            turn.later(partial(_move, -process, turn.id, step))

    def drop(self, turn: int, tx: Tx) -> None:
        tx.execute("DELETE FROM card_steps WHERE turn = ?", turn)
        tx.execute(_DROP_LOSSES)

    def carrying(self, turn: int, list: str, tx: Tx) -> None:
        sql = "UPDATE card_steps SET state = 'carrying' WHERE turn = ? AND state = 'shown' AND instr(arguments, ?)"
        tx.execute(sql, turn, list)


def _move(process: int, turn: int, step: CardStep, tx: Tx) -> None:
    tx.execute(_INSERT, turn, *step)
    tx.execute("UPDATE OR REPLACE card_losses SET turn = ? WHERE turn = ?", turn, process)
    tx.execute("DELETE FROM card_steps WHERE turn = ?", process)
