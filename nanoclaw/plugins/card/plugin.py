"""The plan card: where a turn goes far, the rest is collected, shown as one list, and done after one yes."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Address, CheckedCall, ToolCall, ToolResult
from nanoclaw.core.plugin import Answer, Ask, Ended, Host, Instead, MakeCalls, Plugin, Refuse, Turn, Tx, Verdict
from nanoclaw.escapes import one_line, visible

if TYPE_CHECKING:
    from nanoclaw.plugins.card.losses import Loss

MOST = 40
"""Steps of one card."""

NOTED = (
    "noted, not done yet. When you answer, the person is shown all that was noted as one list, and after their yes "
    "exactly that is done. Go on with the rest, don't do this another way, and don't say that it is done."
)
FULL = f"not done: {MOST} steps are noted. End here, so that the person can be asked."
SAID_NO = "not done: the list that was shown to the person in this turn was not allowed. Accept that, and end here."
CHANGED = "not done: it is not what the person was shown."
NOT_DONE = "(Noted for your yes, but the turn ended before I could ask, so none of it was done:\n{})"

_BUYING = re.compile(r"(?i)\b(buy|purchase|pay|payment|checkout|charge|donate|(place|submit|create) order)\b")
_DELETING = re.compile(r"(?i)\b(delete|remove|trash|purge|destroy|erase)\b")


class CardSettings(NamedTuple):
    """`deletions`: so many in one turn need no card. `costly`: names of tools that spend money, `*` for any part."""

    deletions: int = 3
    costly: tuple[str, ...] = ()

    def check(self) -> None:
        if self.deletions < 0:
            raise ConfigError(f"card.deletions must be 0 or more, not {self.deletions}.")
        if blank := [name for name in self.costly if not name.strip()]:
            raise ConfigError(f'card.costly has {blank[0]!r}: give names of tools, such as ["mcp_shop_*"].')


class CardStep(NamedTuple):
    """A call that is counted or collected. `state`: counted, noted (on the next card), shown, run (from a card)."""

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


@dataclass
class CardTurn:
    """All that is known of one turn. Its files count as older than it where they were there at `began`."""

    steps: dict[tuple[str, str, str], CardStep]
    began: float = field(default_factory=time.time)

    def of(self, *states: str) -> list[CardStep]:
        return [one for one in self.steps.values() if one.state in states]


class PlanCard(Plugin):
    name = "card"
    settings = CardSettings
    migrations = (
        """
        CREATE TABLE card_steps (
            turn INTEGER NOT NULL,
            call TEXT NOT NULL,
            name TEXT NOT NULL,
            arguments TEXT NOT NULL,
            words TEXT NOT NULL,                    -- as the person reads it
            deletions INTEGER NOT NULL,
            state TEXT NOT NULL,                    -- counted, noted, shown, run
            id INTEGER NOT NULL,                    -- its place among the turn's
            PRIMARY KEY (turn, call, name, arguments)
        ) STRICT;
        """,
    )
    marks = ("card_steps.call", "card_steps.name", "card_steps.state")

    def __init__(self, host: Host, settings: CardSettings) -> None:
        self._host, self._settings = host, settings
        self._turns: dict[int, CardTurn] = {}

    # --- a call ------------------------------------------------------------------------------------------------------

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        """Ask about a call that goes far by itself, and collect from the one on with which a turn goes too far."""
        if call.reach == "none" or not turn.id or not turn.profile.acts:
            return None
        known, arguments = self._of(turn), json.dumps(dict(call.arguments), ensure_ascii=False)
        if (step := _from_card(known, call)) is not None:
            if step.name != call.name or json.loads(step.arguments) != dict(call.arguments):
                return Refuse(CHANGED)
            return self._question(known.of("shown"))
        key = (call.id, call.name, arguments)
        if key in known.steps and known.steps[key].state == "noted":  # judged again, as its answer waited
            return Instead(NOTED)
        is_collecting = bool(known.of("noted"))
        if is_collecting and call.name == "exec" and await self._only_looks(call):
            return None
        loss = await self._loss(call, known, turn)
        deletions = loss.files if loss else int(self._deletes(call))
        words = self._words(call, loss)
        if not is_collecting:
            if loss and (loss.must_ask or loss.files > self._settings.deletions):
                return Ask(_sentence(words, loss), exact=_exact(call.name, arguments))
            counted = self._counted(known, turn, key)
            goes_far = deletions > 0 and counted + deletions > self._settings.deletions
            if not (goes_far or self._is_to_new_person(call) or self._is_costly(call)):
                if deletions:
                    self._note(turn, known, CardStep(*key, words, deletions, "counted"))
                return None
            if not self._can_ask(turn):
                return Ask(f"{words}?", exact=_exact(call.name, arguments))
        if known.of("shown") and not known.of("run"):
            return Refuse(SAID_NO)
        if len(known.of("noted")) >= MOST:
            return Refuse(FULL)
        self._note(turn, known, CardStep(*key, words, deletions, "noted"))
        return Instead(NOTED)

    async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> ToolResult | None:
        known = self._turns.get(turn.id)
        if known and (step := _from_card(known, call)) is not None:
            self._note(turn, known, step._replace(state="run"))
        return None

    # --- the end of a turn -------------------------------------------------------------------------------------------

    async def before_answer(self, answer: Answer, turn: Turn) -> MakeCalls | None:
        """Have all that was collected made, which asks about it."""
        known = self._of(turn)
        if not (noted := known.of("noted")):
            return None
        told = {one.call_id for one in turn.history if isinstance(one, ToolResult) and one.text.startswith(NOTED[:20])}
        for step in known.of("shown"):  # of a card before
            self._note(turn, known, step._replace(state="run" if known.of("run") else "counted"))
        for step in noted:
            if step.call in told:
                self._note(turn, known, step._replace(state="shown"))
            else:  # refused by others, or the model was told that it broke off
                self._forget(turn, known, step)
        return MakeCalls(tuple(step.as_call for step in known.of("shown"))) if known.of("shown") else None

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        known = self._turns.pop(turn.id, None) or self._loaded(turn)
        tx.execute("DELETE FROM card_steps WHERE turn = ?", turn.id)
        left = known.of("noted") + (known.of("shown") if ended.reason != "answered" else [])
        if not left or ended.outbound is None:
            return None
        text = f"{ended.outbound.text}\n\n{NOT_DONE.format(_numbered(left))}".strip()
        return ended._replace(outbound=ended.outbound._replace(text=text), text=text)

    # --- what a call is ----------------------------------------------------------------------------------------------

    async def _loss(self, call: CheckedCall, known: CardTurn, turn: Turn) -> Loss | None:
        """Files that a command or a tool of files takes away."""
        from nanoclaw.plugins.card import losses

        if call.name == "exec":
            command, root = str(call.arguments.get("command", "")), self._host.workspace
            return await asyncio.to_thread(losses.loss_of, command, root, known.began)
        if call.name in ("write_file", "edit_file"):
            return self._overwrite(call, turn)
        return None

    def _overwrite(self, call: CheckedCall, turn: Turn) -> Loss | None:
        from nanoclaw.beneath.paths import resolve
        from nanoclaw.plugins.card.losses import Loss, quoted, shrinks, size

        path, arguments = str(call.arguments.get("path", "")), call.arguments
        made = {one.target for one in turn.effects if one.kind == "file" and one.before == ""}
        try:
            place = resolve(self._host.get("core").config.reach, path, for_writing=True)
            old = place.stat().st_size if place.is_file() else 0
        except (OSError, ValueError):
            return None  # the tool says what is wrong with it
        left = len(str(arguments.get("content", arguments.get("new", ""))).encode())
        if call.name == "edit_file":
            left += max(0, old - len(str(arguments.get("old", "")).encode()))
        if not shrinks(old, left) or path.removeprefix("./") in made:
            return None
        return Loss(0, (f"overwrite {quoted(path)}: {size(old)} become {size(left)}",), True)

    async def _only_looks(self, call: CheckedCall) -> bool:
        from nanoclaw.plugins.card.losses import only_looks

        return await asyncio.to_thread(only_looks, str(call.arguments.get("command", "")))

    def _deletes(self, call: CheckedCall) -> bool:
        return call.name.startswith("mcp_") and bool(_DELETING.search(_as_words(call.name)))

    def _is_costly(self, call: CheckedCall) -> bool:
        if any(fnmatchcase(call.name.casefold(), one.strip().casefold()) for one in self._settings.costly):
            return True
        return call.name.startswith("mcp_") and bool(_BUYING.search(_as_words(call.name)))

    def _is_to_new_person(self, call: CheckedCall) -> bool:
        """True for a message to somebody with whom there was no word yet, and whom the owner has not listed for it."""
        channel, colon, chat = str(call.arguments.get("to", "")).strip().partition(":")
        if call.name != "message" or not colon or not chat:
            return False
        target, access = Address(channel, chat), self._host.get("access")
        if access and (access.is_owners(target) or access.is_listed(target, "send_to")):
            return False
        return not self._host.read(
            "SELECT 1 FROM sessions WHERE key = ? UNION SELECT 1 FROM outbox WHERE channel = ? AND chat = ? LIMIT 1",
            str(target),
            *target,
        )

    def _words(self, call: CheckedCall, loss: Loss | None) -> str:
        from nanoclaw.plugins.card.losses import quoted

        given = call.arguments
        if loss and loss.parts:
            said = "; ".join(loss.parts)
            back = " (/undo brings it back)" if call.name != "exec" and self._host.get("undo") else ""
            return f"{said[:1].upper()}{said[1:]}{back}"
        if call.name == "exec":
            return f"Run {quoted(str(given.get('command', '')))}"
        if call.name == "message":
            new = " (nobody you have written to before)" if self._is_to_new_person(call) else ""
            files = f", with {len(given['files'])} files" if given.get("files") else ""
            to = one_line(str(given.get("to", ""))) or "this chat"
            return f"Send to {to}{new}: “{one_line(str(given.get('text', '')), 120)}”{files}"
        if "path" in given:
            verb = {"write_file": "Write", "edit_file": "Edit", "append_file": "Add to"}.get(call.name, call.name)
            return f"{verb} {quoted(str(given['path']))}"
        shown = one_line(json.dumps(dict(given), ensure_ascii=False), 120)
        return f"{'Pay: use' if self._is_costly(call) else 'Use'} {call.name} with {visible(shown)}"

    def _can_ask(self, turn: Turn) -> bool:
        return turn.profile.can_allow and self._host.get("core").asks.place(turn.address) is not None

    # --- the list ----------------------------------------------------------------------------------------------------

    def _question(self, steps: Sequence[CardStep]) -> Ask:
        exact = "\n\n".join(f"{number}. {_exact(one.name, one.arguments)}" for number, one in enumerate(steps, 1))
        lost = any(one.deletions and one.name == "exec" for one in steps)
        gone = "\n\nWhat commands delete can't be brought back." if lost else ""
        things = "this" if len(steps) == 1 else f"these {len(steps)} things, in this order"
        question = f"Nothing of this is done yet:\n\n{_numbered(steps)}{gone}\n\nShall I do {things}, and nothing else?"
        return Ask(question, exact=exact, for_all=True)

    def _counted(self, known: CardTurn, turn: Turn, key: tuple[str, str, str]) -> int:
        return sum(one.deletions for at, one in known.steps.items() if one.state == "counted" and at != key)

    def _of(self, turn: Turn) -> CardTurn:
        if turn.id not in self._turns:
            self._turns[turn.id] = self._loaded(turn)
        return self._turns[turn.id]

    def _loaded(self, turn: Turn) -> CardTurn:
        sql = "SELECT call, name, arguments, words, deletions, state, id FROM card_steps WHERE turn = ? ORDER BY id"
        steps = [CardStep(*row) for row in self._host.read(sql, turn.id)]
        return CardTurn({one[:3]: one for one in steps})

    def _note(self, turn: Turn, known: CardTurn, step: CardStep) -> None:
        """Take up a step, or its new state; on disk with the turn's next transaction."""
        before = known.steps.get(step[:3])
        step = step._replace(id=before.id if before else 1 + max((one.id for one in known.steps.values()), default=0))
        known.steps[step[:3]] = step
        row: tuple[Any, ...] = (turn.id, *step)
        turn.later(lambda tx: tx.execute("INSERT OR REPLACE INTO card_steps VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *row))

    def _forget(self, turn: Turn, known: CardTurn, step: CardStep) -> None:
        del known.steps[step[:3]]
        sql = "DELETE FROM card_steps WHERE (turn, id) = (?, ?)"
        turn.later(lambda tx: tx.execute(sql, turn.id, step.id))


def _from_card(known: CardTurn, call: CheckedCall) -> CardStep | None:
    """The step that a call of the card is."""
    return next((one for one in known.of("shown", "run") if one.as_call.id == call.id), None)


def _sentence(words: str, loss: Loss) -> str:
    gone = " It can't be brought back." if loss.files or "/undo" not in words else ""
    return f"{words}?{gone}"


def _exact(name: str, arguments: str) -> str:
    """A call as it will be made: the text of a command as it is."""
    given = json.loads(arguments)
    if name == "exec" and list(given) == ["command"]:
        return str(given["command"])
    return f"{name} {json.dumps(given, ensure_ascii=False, indent=1)}"


def _numbered(steps: Iterable[CardStep]) -> str:
    return "\n".join(f"{number}. {one.words}" for number, one in enumerate(steps, 1))


def _as_words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]+", " ", name)
