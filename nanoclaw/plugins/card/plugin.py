"""The plan card: where a turn goes far, the rest is collected, shown as one list, and done after one yes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from nanoclaw.core.errors import ConfigError, NanoclawError, ToolError
from nanoclaw.core.messages import Address, CheckedCall, Effect, Outbound, ToolCall, ToolResult
from nanoclaw.core.plugin import Answer, Ask, Ended, Hears, Host, Instead, MakeCalls, Plugin, Refuse, Turn, Tx, Verdict
from nanoclaw.core.tool import Tool, ToolContext, tool
from nanoclaw.escapes import one_line, visible

if TYPE_CHECKING:
    from nanoclaw.plugins.card.losses import Lost
    from nanoclaw.plugins.card.watch import CommandWatch, HeldBack
    from nanoclaw.snapshots.listing import FileListing

MOST = 40
"""Steps of one card."""

NOTED = (
    "noted, not done yet. When you answer, the person is shown all that was noted as one list, and after their yes "
    "exactly that is done. Go on with the rest, don't do this another way, and don't say that it is done."
)
FULL = f"not done: {MOST} steps are noted. End here, so that the person can be asked."
SAID_NO = "not done: the list that was shown to the person in this turn was not allowed. Accept that, and end here."
CHANGED = "not done: it is not what the person was shown."
NOBODY = (
    "It goes further than a turn may, and nobody is there to be asked for a yes. Say in your answer what is left to "
    "allow; don't do it another way."
)
NOT_PUT_BACK = "(Note from the program: a command took this away, and no copy was kept of it: {}.)"
CANT = "It can't be brought back."
BACK = "/undo brings the files back."
CARRY_OUT = "carry_out"
"""The tool by which a card does to files what a command was held back from; no model is told of it."""
MOST_CUT, MOST_LISTED = 3, 1_000
NOT_DONE = "(Noted for your yes, but the turn ended before I could ask, so none of it was done:\n{})"

_INSERT_STEP = "INSERT OR REPLACE INTO card_steps VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_CARRYING = "UPDATE card_steps SET state = 'carrying' WHERE turn = ? AND state = 'shown' AND instr(arguments, ?)"
_DROP_LOSSES = "DELETE FROM card_losses WHERE turn NOT IN (SELECT turn FROM card_steps)"
_BUYING = re.compile(r"(?i)\b(buy|purchase|pay|payment|checkout|charge|donate|(place|submit|create) order)\b")
_DELETING = re.compile(r"(?i)\b(delete|remove|trash|purge|destroy|erase)\b")


class CardSettings(NamedTuple):
    """`deletions`: so many in one turn need no card. `costly`: names of tools that spend money, `*` for any part.
    `megabytes`: so much is copied of what commands could take away."""

    deletions: int = 3
    costly: tuple[str, ...] = ()
    megabytes: int = 200

    def check(self) -> None:
        if self.megabytes <= 0:
            raise ConfigError(f"card.megabytes must be more than 0, not {self.megabytes}.")
        if self.deletions < 0:
            raise ConfigError(f"card.deletions must be 0 or more, not {self.deletions}.")
        if blank := [name for name in self.costly if not name.strip()]:
            raise ConfigError(f'card.costly has {blank[0]!r}: give names of tools, such as ["mcp_shop_*"].')


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


class FileLoss(NamedTuple):
    """Files that a call takes away, in words; `is_cut` where one is overwritten by much less."""

    files: int
    words: str
    is_cut: bool = False


@dataclass
class CardTurn:
    """All that is known of one turn: its steps, when it `began`, the files that are not older than it (`made`), and
    what was there before each command that may run now (`before`). What was `allowed` is not judged."""

    steps: dict[tuple[str, str, str], CardStep]
    began: float = field(default_factory=time.time)
    made: set[str] = field(default_factory=set)
    before: dict[str, FileListing] = field(default_factory=dict)
    allowed: set[str] = field(default_factory=set)
    beside: dict[str, int] = field(default_factory=dict)  # files outside of all that is looked at, by command
    gone: list[str] = field(default_factory=list)  # could not be put back

    def of(self, *states: str) -> list[CardStep]:
        return [one for one in self.steps.values() if one.state in states]


class PlanCard(Plugin):
    name = "card"
    hears: Mapping[str, Hears] = dict.fromkeys(("before_tool", "after_tool"), Hears(changes=True))
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
    marks = (
        *("card_steps.call", "card_steps.name", "card_steps.state", "card_losses.list", "card_losses.copy"),
        *("card_losses.was", "card_losses.left"),
    )
    seconds = 120.0  # many files may have to be put back

    def __init__(self, host: Host, settings: CardSettings) -> None:
        self._host, self._settings = host, settings
        self._turns: dict[int, CardTurn] = {}

    @cached_property
    def _watch(self) -> CommandWatch:
        from nanoclaw.plugins.card.watch import CommandWatch

        return CommandWatch(self._host, self._settings.megabytes)

    def tools(self) -> Iterable[Tool]:
        def audit(arguments: dict[str, Any]) -> Effect:
            words = f"did what {one_line(str(arguments['command']), 60)} does to files"
            return Effect(CARRY_OUT, "call", "", words)

        return [tool(self._carry_out, reach="workspace")._replace(is_there=False, audit=audit)]

    def files(self) -> Mapping[Path, Literal["kept", "derived"]]:
        return {self._host.get("core").home / "snapshots": "derived"}

    def reload(self) -> None:
        self._watch.forget()

    # --- a call ------------------------------------------------------------------------------------------------------

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        """Ask about a call that goes far by itself, and collect from the one on with which a turn goes too far."""
        if not turn.id or not turn.profile.acts:
            return None
        known, arguments = await self._of(turn), json.dumps(dict(call.arguments), ensure_ascii=False)
        if (step := _from_card(known, call)) is not None:
            if step.name != call.name or json.loads(step.arguments) != dict(call.arguments):
                return Refuse(CHANGED)
            if call.name == "exec":
                known.before[call.id] = await self._watch.look()
            return self._question(turn, known.of("shown"))
        if call.name == CARRY_OUT:
            return Refuse(CHANGED)
        key = (call.id, call.name, arguments)
        if key in known.steps and known.steps[key].state == "noted":  # judged again, as its answer waited
            return Instead(NOTED)
        if call.name == "exec" and await self._only_looks(call):
            return None
        is_input = call.name == "process" and call.arguments.get("action") == "input"
        if not known.of("noted") and (call.name == "exec" or is_input):
            return await self._before_command(call, turn, known, key)
        return await self._before_other(call, turn, known, key)

    async def _before_command(
        self, call: CheckedCall, turn: Turn, known: CardTurn, key: tuple[str, str, str]
    ) -> Verdict:
        """Look what is there before a command, or a line for one that runs; ask about files that it names, where they
        could not be put back."""
        if call.arguments.get("beyond") and self._host.get("sandbox"):
            return None  # it is asked about as it is
        listing = await self._watch.look()
        is_awaited = call.name == "exec" and not call.arguments.get("background")
        if is_awaited:
            known.before[call.id] = listing
        paths = await self._deleted(call, known)
        if is_awaited:
            paths = [] if all(self._watch.covers(listing, one) for one in paths) else paths
        if not paths:
            return None
        words = f"Delete {self._named(paths)}"
        if _counted(known, key) + len(paths) > self._settings.deletions:
            known.allowed.add(call.id)
            return Ask(f"{words}? {CANT}", exact=_exact(call.name, key[2]))
        if is_awaited:
            known.beside[call.id] = len([one for one in paths if one not in listing.files])
        else:  # nobody looks what became of it
            self._note(turn, known, CardStep(*key, words, len(paths), "counted"))
        return None

    async def _before_other(self, call: CheckedCall, turn: Turn, known: CardTurn, key: tuple[str, str, str]) -> Verdict:
        """Count, collect or ask about a call that is no command, and note commands while others are noted."""
        loss = self._overwrite(call, turn) if call.name in ("write_file", "edit_file") else None
        if call.name in ("exec", "process") and (paths := await self._deleted(call, known)):
            loss = FileLoss(len(paths), f"delete {self._named(paths)}")
        deletions = loss.files if loss else int(self._deletes(call))
        words = self._words(call, loss)
        if not known.of("noted"):
            if loss and loss.is_cut:
                return Ask(f"{words}?", exact=_exact(call.name, key[2]))
            counted = _counted(known, key)
            goes_far = deletions > 0 and counted + deletions > self._settings.deletions
            if not (goes_far or self._is_to_new_person(call) or self._is_costly(call)):
                if deletions:
                    self._note(turn, known, CardStep(*key, words, deletions, "counted"))
                return None
            if not self._can_ask(turn):
                return Ask(f"{words}?", exact=_exact(call.name, key[2]))
        if why := _not_noted(known):
            return Refuse(why)
        self._note(turn, known, CardStep(*key, words, deletions, "noted"))
        return Instead(NOTED)

    async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> ToolResult | None:
        if (known := self._turns.get(turn.id)) is None:
            return None
        if (step := _from_card(known, call)) is not None:
            self._note(turn, known, step._replace(state="run"))
        before = known.before.pop(call.id, None)
        if before is not None and not call.arguments.get("background"):
            result = await self._after_command(call, result, turn, known, before)
        if known.before and call.reach != "none":  # others of the same answer begin with what is there by now
            known.before = dict.fromkeys(known.before, await self._watch.look())
        return result

    async def _after_command(
        self, call: CheckedCall, result: ToolResult, turn: Turn, known: CardTurn, before: FileListing
    ) -> ToolResult:
        """Count what a command took away; where that goes too far put it back, and note it for the card."""
        key = (call.id, call.name, json.dumps(dict(call.arguments), ensure_ascii=False))
        command = str(call.arguments["command"])
        known.made |= {
            f"{self._watch.root}/{one.target}" for one in turn.effects if one.kind == "file" and one.before == ""
        }
        judge, lost = await self._watch.compare(before, known.made)
        step, gone = _from_card(known, call), sum(one.is_deleted for one in lost) + known.beside.pop(call.id, 0)
        more = gone - (step.deletions if step else 0)
        goes_far = any(map(self._watch.goes_far, lost))
        goes_far = goes_far or (more > 0 and _counted(known, key) + more > self._settings.deletions)
        if goes_far and call.id not in known.allowed:
            result = await self._hold_back(call, result, turn, known, lost, judge.beside)
        elif gone and step is None:
            self._note(turn, known, CardStep(*key, f"Run {quoted_line(command)}", gone, "counted"))
        if undo := self._host.get("undo"):
            for effect in await self._watch.changes(judge, command):
                turn.later(partial(undo.record, effect=effect, conversation=turn.conversation, turn=turn.id))
        return result

    async def _hold_back(
        self,
        call: CheckedCall,
        result: ToolResult,
        turn: Turn,
        known: CardTurn,
        lost: Sequence[Lost],
        beside: Sequence[Lost],
    ) -> ToolResult:
        """Put back what a command took away. What that needs is on disk before: a crash leaves nothing half done."""
        from nanoclaw.plugins.card.losses import named

        watch, command = self._watch, str(call.arguments["command"])
        held = await watch.hold_back([*lost, *beside])
        list_ = _digest(held)
        arguments = json.dumps({"command": command, "list": list_}, ensure_ascii=False)
        count = sum(one.is_deleted for one in lost)
        words_of_step = self._step_words(command, lost, {one.path for one in held})
        step = CardStep(call.id, CARRY_OUT, arguments, words_of_step, count, "putting", _next_id(known))
        known.steps[step[:3]] = step
        try:
            await self._host.write(partial(_keep, turn.id, step, list_, held))
            why = ""
        except NanoclawError as error:  # a full disk
            why = f"It can't be noted for the person's yes: {error}."
        failed = await watch.put_back(held)
        only, is_open = turn.profile.only, bool(held) and self._can_ask(turn)
        why = why or (_not_noted(known) if is_open and (only is None or CARRY_OUT in only) else NOBODY)
        if why:
            self._forget(turn, known, step)
        else:
            words_of_step = self._step_words(command, lost, {one.path for one in held}.difference(failed))
            self._note(turn, known, step._replace(state="noted", words=words_of_step))
        back = {one.path for one in held}.difference(failed)
        left = [watch.name(one.path) for one in (*lost, *beside) if one.path not in back]
        known.gone += left
        words = self._lost_words(lost)
        told = f" Not put back, as there is no copy: {named(left)}. Tell the person." if left else ""
        text = f"{result.text}\n[put back as it was: this command {words}.{told} {why or NOTED}]"
        return result._replace(text=text, is_error=bool(why))

    async def _carry_out(self, context: ToolContext, command: str, list: str) -> str:
        """Do to files what a command was held back from."""
        held = self._held(context.turn, list)
        if not held or _digest(held) != list:
            raise ToolError(CHANGED)
        await self._host.write(lambda tx: tx.execute(_CARRYING, context.turn, list))
        return await self._watch.carry_out(held, command, context.report)

    # --- the end of a turn -------------------------------------------------------------------------------------------

    async def before_answer(self, answer: Answer, turn: Turn) -> MakeCalls | None:
        """Have all that was collected made, which asks about it."""
        known = await self._of(turn)
        if not (noted := known.of("noted")):
            return None
        told = {one.call_id for one in turn.history if isinstance(one, ToolResult) and one.text.startswith(NOTED[:20])}
        for step in known.of("shown"):  # of a card before
            self._note(turn, known, step._replace(state="run" if known.of("run") else "counted"))
        for step in noted:
            if step.call in told or step.name == CARRY_OUT:
                self._note(turn, known, step._replace(state="shown"))
            else:  # refused by others, or the model was told that it broke off
                self._forget(turn, known, step)
        return MakeCalls(tuple(step.as_call for step in known.of("shown"))) if known.of("shown") else None

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        known = self._turns.pop(turn.id, None) or self._loaded(turn)
        for step in known.of("putting", "carrying"):  # a crash broke it off, and the turn doesn't go on
            self._watch.put_back_now(self._held(turn.id, _list_of(step)))
        tx.execute("DELETE FROM card_steps WHERE turn = ?", turn.id)
        tx.execute(_DROP_LOSSES)
        is_stopped = any(one.tool == "exec" and one.state == "begun" for one in turn.effects) if known.before else False
        if is_stopped:
            tx.after(lambda: self._host.spawn(self._after_stop(turn.address, known)))
        left = known.of("noted") + (known.of("shown") if ended.reason != "answered" else [])
        said = [NOT_DONE.format(_numbered(left))] if left else []
        if known.gone:
            from nanoclaw.plugins.card.losses import named

            said.append(NOT_PUT_BACK.format(named(known.gone, 10)))
        if not said or ended.outbound is None:
            return None
        text = "\n\n".join([ended.outbound.text, *said]).strip()
        return ended._replace(outbound=ended.outbound._replace(text=text), text=text)

    async def _after_stop(self, address: Address, known: CardTurn) -> None:
        """Put back what a command that was stopped took away, where that is more than a turn may."""
        from nanoclaw.plugins.card.losses import named

        before = next(iter(known.before.values()))
        judge, lost = await self._watch.compare(before, known.made)
        gone = sum(one.is_deleted for one in lost)
        most = self._settings.deletions - sum(one.deletions for one in known.of("counted"))
        if gone <= most and not any(map(self._watch.goes_far, lost)):
            return
        held = await self._watch.hold_back([*lost, *judge.beside])
        put = {one.path for one in held}.difference(await self._watch.put_back(held))
        back = [self._watch.name(one.path) for one in lost if one.path in put]
        left = [self._watch.name(one.path) for one in lost if one.path not in put]
        told = [f"The command that was stopped had deleted or cut {named(back)}: put back."] if back else []
        told += [NOT_PUT_BACK.format(named(left, 10))] if left else []
        await self._host.write(lambda tx: tx.send(Outbound(address, "\n".join(told))) if told else None)

    # --- what a call is ----------------------------------------------------------------------------------------------

    async def _deleted(self, call: CheckedCall, known: CardTurn) -> list[str]:
        """Files older than the turn that a command names to be deleted."""
        from nanoclaw.plugins.card.deletions import deleted_by
        from nanoclaw.plugins.card.losses import is_in_remade

        home = Path(self._host.get("core").config.environment.get("HOME") or Path.home())
        command = str(call.arguments.get("command" if call.name == "exec" else "text") or "")
        paths = await asyncio.to_thread(deleted_by, command, Path(self._watch.root), home)
        return [one for one in paths if one not in known.made and _is_older(one, known.began) and not is_in_remade(one)]

    def _named(self, paths: Sequence[str]) -> str:
        from nanoclaw.plugins.card.losses import counted, named

        return f"{counted(len(paths))} ({named(map(self._watch.name, paths))})"

    def _lost_words(self, lost: Sequence[Lost]) -> str:
        """Losses in words, to stand after the name of a command."""
        from nanoclaw.plugins.card.losses import quoted, size

        gone = [one.path for one in lost if one.left is None]
        parts = [f"deletes {self._named(gone)}"] if gone else []
        cut = [one for one in lost if one.left is not None]
        parts += [
            f"overwrites {quoted(self._watch.name(one.path))}: {size(one.size)} become {size(one.left or 0)}"
            for one in cut[:MOST_CUT]
        ]
        parts += [f"overwrites {len(cut) - MOST_CUT:,} more"] if len(cut) > MOST_CUT else []
        return "; ".join(parts)

    def _step_words(self, command: str, lost: Sequence[Lost], back: set[str]) -> str:
        """Say what a yes does: of a command's losses those that are back, and which are gone whatever the answer."""
        from nanoclaw.plugins.card.losses import named

        words = f"{quoted_line(command)} {self._lost_words([one for one in lost if one.path in back])}"
        gone = [self._watch.name(one.path) for one in lost if one.path not in back]
        return f"{words} (gone already, as no copy was kept: {named(gone)})" if gone else words

    def _overwrite(self, call: CheckedCall, turn: Turn) -> FileLoss | None:
        from nanoclaw.beneath.paths import resolve
        from nanoclaw.plugins.card.losses import quoted, shrinks, size

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
        return FileLoss(0, f"overwrite {quoted(path)}: {size(old)} become {size(left)}", is_cut=True)

    async def _only_looks(self, call: CheckedCall) -> bool:
        from nanoclaw.plugins.card.looks import only_looks

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

    def _words(self, call: CheckedCall, loss: FileLoss | None) -> str:
        from nanoclaw.plugins.card.losses import quoted

        given = call.arguments
        if loss:
            back = " (/undo brings it back)" if call.name != "exec" and self._host.get("undo") else ""
            return f"{loss.words[:1].upper()}{loss.words[1:]}{back}"
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

    def _question(self, turn: Turn, steps: Sequence[CardStep]) -> Ask:
        exact = "\n\n".join(f"{number}. {self._exact(turn, one)}" for number, one in enumerate(steps, 1))
        gone = ""
        if any(one.name == CARRY_OUT or (one.deletions and one.name == "exec") for one in steps):
            gone = f"\n\n{BACK if self._host.get('undo') else CANT}"
        things = "this" if len(steps) == 1 else f"these {len(steps)} things, in this order"
        question = f"Nothing of this is done yet:\n\n{_numbered(steps)}{gone}\n\nShall I do {things}, and nothing else?"
        return Ask(question, exact=exact, for_all=True)

    def _exact(self, turn: Turn, step: CardStep) -> str:
        """All that a step does."""
        if step.name != CARRY_OUT:
            return _exact(step.name, step.arguments)
        held = self._held(turn.id, _list_of(step))
        lines = [_done_to(one, self._watch.name(one.path)) for one in held[:MOST_LISTED]]
        lines += [f"and {len(held) - MOST_LISTED:,} more"] if len(held) > MOST_LISTED else []
        return "\n".join([f"what this command did, and was put back: {json.loads(step.arguments)['command']}", *lines])

    def _held(self, turn: int, list: str) -> list[HeldBack]:
        """All that one command took away and that was put back."""
        from nanoclaw.plugins.card.watch import HeldBack

        sql = "SELECT path, copy, was, left FROM card_losses WHERE turn = ? AND list = ? ORDER BY path"
        return [HeldBack(*map(json.loads, row)) for row in self._host.read(sql, turn, list)]

    async def _of(self, turn: Turn) -> CardTurn:
        if turn.id not in self._turns:
            self._turns[turn.id] = known = self._loaded(turn)
            for step in known.of("putting", "carrying"):  # a crash broke it off
                await self._watch.put_back(self._held(turn.id, _list_of(step)))
                self._note(turn, known, step._replace(state="noted" if step.state == "putting" else "run"))
        return self._turns[turn.id]

    def _loaded(self, turn: Turn) -> CardTurn:
        sql = "SELECT call, name, arguments, words, deletions, state, id FROM card_steps WHERE turn = ? ORDER BY id"
        steps = [CardStep(*row) for row in self._host.read(sql, turn.id)]
        return CardTurn({one[:3]: one for one in steps})

    def _note(self, turn: Turn, known: CardTurn, step: CardStep) -> None:
        """Take up a step, or its new state; on disk with the turn's next transaction."""
        before = known.steps.get(step[:3])
        step = step._replace(id=before.id if before else _next_id(known))
        known.steps[step[:3]] = step
        row: tuple[Any, ...] = (turn.id, *step)
        turn.later(lambda tx: tx.execute(_INSERT_STEP, *row))

    def _forget(self, turn: Turn, known: CardTurn, step: CardStep) -> None:
        del known.steps[step[:3]]
        sql = "DELETE FROM card_steps WHERE (turn, id) = (?, ?)"
        turn.later(lambda tx: (tx.execute(sql, turn.id, step.id), tx.execute(_DROP_LOSSES)))


def _from_card(known: CardTurn, call: CheckedCall) -> CardStep | None:
    """The step that a call of the card is."""
    return next((one for one in known.of("shown", "run") if one.as_call.id == call.id), None)


def _not_noted(known: CardTurn) -> str:
    """Why nothing more can be noted; '' where it can."""
    if known.of("shown") and not known.of("run"):
        return SAID_NO
    return FULL if len(known.of("noted")) >= MOST else ""


def _counted(known: CardTurn, key: tuple[str, str, str]) -> int:
    """Deletions that were made in the turn, by other calls."""
    return sum(one.deletions for at, one in known.steps.items() if one.state == "counted" and at != key)


def _list_of(step: CardStep) -> str:
    """The hash of all that a command took away."""
    return str(json.loads(step.arguments)["list"])


def _next_id(known: CardTurn) -> int:
    return 1 + max((one.id for one in known.steps.values()), default=0)


def _keep(turn: int, step: CardStep, list: str, held: Iterable[HeldBack], tx: Tx) -> None:
    tx.execute(_INSERT_STEP, turn, *step)
    for one in held:
        tx.execute("INSERT OR REPLACE INTO card_losses VALUES (?, ?, ?, ?, ?, ?)", turn, list, *map(json.dumps, one))


def _digest(held: Iterable[HeldBack]) -> str:
    said = json.dumps(sorted((one.path, one.was, one.left) for one in held), ensure_ascii=False)
    return sha256(said.encode("utf-8", "surrogateescape")).hexdigest()


def _done_to(one: HeldBack, name: str) -> str:
    return f"{'change' if one.left else 'delete the folder' if one.is_folder else 'delete'} {name}"


def _is_older(path: str, began: float) -> bool:
    try:
        return os.lstat(path).st_mtime <= began
    except OSError:
        return False


def quoted_line(command: str) -> str:
    """A command on one line, as it is shown in a sentence."""
    from nanoclaw.plugins.card.losses import quoted

    return quoted(command)


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
