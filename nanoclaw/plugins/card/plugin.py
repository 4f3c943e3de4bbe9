"""The plan card: where a turn goes far, the rest is collected, shown as one list, and done after one yes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from nanoclaw.core.errors import ConfigError, NanoclawError, ToolError
from nanoclaw.core.messages import Address, Ask, CheckedCall, Effect, Instead, MakeCalls, Outbound, ToolResult, Verdict
from nanoclaw.core.plugin import Answer, Draft, Ended, Hears, Host, Plugin, Refuse, Tool, Turn, Tx
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import one_line
from nanoclaw.plugins.card.background import NOT_WATCHED, BackgroundCommands
from nanoclaw.plugins.card.calls import CallReader, FileLoss
from nanoclaw.plugins.card.steps import (
    CARRY_OUT,
    MARKS,
    TABLES,
    CardStep,
    CardSteps,
    CardTurn,
    Key,
    digest,
    held_step,
    key_of,
)
from nanoclaw.plugins.card.wording import (
    by,
    exact_call,
    exact_losses,
    files_named,
    lost_words,
    named,
    numbered,
    quoted,
    shown,
    step_words,
)

if TYPE_CHECKING:
    from nanoclaw.plugins.card.losses import Lost
    from nanoclaw.plugins.card.watch import CommandWatch
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
    "It goes beyond what a turn may do unasked, and nobody is there to ask. Say in your answer what is left to "
    "allow; don't do it another way."
)
NOT_PUT_BACK = "(Note from the program: a command deleted this, and no copy was kept: {}.)"
CANT = "It can't be brought back."
BACK = "/undo brings the files back."
NOT_DONE = "(Noted for your yes, but the turn ended before I could ask, so none of it was done:\n{})"


class CardSettings(NamedTuple):
    """The card: one question for a whole list of actions."""

    deletions: int = 3  # files that one turn may delete without asking
    costly: tuple[str, ...] = ()  # tools that spend money, as names or patterns: ["mcp_shop_*"]
    megabytes: int = 200  # MB of copies kept to restore what a command deletes

    def check(self) -> None:
        if self.megabytes <= 0:
            raise ConfigError(f"card.megabytes must be more than 0, not {self.megabytes}.")
        if self.deletions < 0:
            raise ConfigError(f"card.deletions must be 0 or more, not {self.deletions}.")
        if blank := [name for name in self.costly if not name.strip()]:
            raise ConfigError(f'card.costly has {blank[0]!r}: give names of tools, such as ["mcp_shop_*"].')


class PlanCard(Plugin):
    name = "card"
    hears: Mapping[str, Hears] = {
        **dict.fromkeys(("before_tool", "after_tool"), Hears(changes=True)),
        **dict.fromkeys(("before_turn", "before_answer", "on_end"), Hears(origins=("process",), changes=True)),
    }
    settings = CardSettings
    migrations = TABLES
    marks = MARKS
    seconds = 120.0  # many files may have to be put back

    def __init__(self, host: Host, settings: CardSettings) -> None:
        self._host, self._settings = host, settings
        self._turns: dict[int, CardTurn] = {}
        self._steps, self._calls = CardSteps(host), CallReader(host, settings.costly)
        self.public: BackgroundCommands = BackgroundCommands(host, self._steps, self._turns, lambda: self._watch)

    @cached_property
    def _watch(self) -> CommandWatch:
        from nanoclaw.plugins.card.watch import CommandWatch

        return CommandWatch(
            self._host, self._settings.megabytes, lambda: self._steps.copies().union(self.public.copies())
        )

    def tools(self) -> Iterable[Tool]:
        def audit(arguments: dict[str, Any]) -> Effect:
            words = f"did what {one_line(str(arguments['command']), 60)} does to files"
            return Effect(CARRY_OUT, "call", "", words)

        return [tool(self._carry_out, reach="workspace")._replace(is_there=False, audit=audit)]

    def files(self) -> Mapping[Path, Literal["kept", "derived"]]:
        return {self._host.program_home / "snapshots": "derived"}

    def reload(self) -> None:
        self._watch.forget()
        self.public.forget()

    # --- a message ---------------------------------------------------------------------------------------------------

    async def before_turn(self, draft: Draft, turn: Turn) -> None:
        """Take up what a command in the background was held back from: its end begins this turn, or joins it."""
        if turn.id and draft.inbound:
            self.public.adopt(turn, await self._of(turn), int(draft.inbound.external_id.rpartition("-")[2]))

    # --- a call ------------------------------------------------------------------------------------------------------

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        """Ask about a call that goes far by itself, and collect from the one on with which a turn goes too far."""
        if not turn.id or not turn.profile.acts:
            return None
        known = await self._of(turn)
        if (step := known.from_card(call.id)) is not None:
            if step.name != call.name or json.loads(step.arguments) != dict(call.arguments):
                return Refuse(CHANGED)
            if call.name == "exec" or self.public.names:
                await self._begin(call, known, step.deletions)
            return self._question(turn, known.of("shown"))
        if call.name == CARRY_OUT:
            return Refuse(CHANGED)
        key = key_of(call)
        if key in known.steps and known.steps[key].state == "noted":  # judged again, as its answer waited
            return Instead(NOTED)
        if call.name == "exec" and await self._calls.only_looks(call):
            return None
        is_input = call.name == "process" and call.arguments.get("action") == "input"
        if not known.of("noted") and (call.name == "exec" or is_input):
            return await self._before_command(call, turn, known, key)
        if self.public.names and call.name not in NOT_WATCHED:
            await self._begin(call, known)
        return await self._before_other(call, turn, known, key)

    async def _begin(self, call: CheckedCall, known: CardTurn, allowed: int = 0) -> FileListing:
        """List the files that exist before a call."""
        listing = known.before[call.id] = await self._watch.snapshot()
        if call.name == "exec" and call.arguments.get("background"):
            known.made |= known.written(self._watch.root)
            known.free[call.id] = max(0, self._settings.deletions - known.counted(key_of(call))) + allowed
        return listing

    async def _before_command(self, call: CheckedCall, turn: Turn, known: CardTurn, key: Key) -> Verdict:
        """Look what is there before a command, or a line for one that runs; ask about files that it names, where they
        could not be put back."""
        if call.arguments.get("beyond") and self._host.get("sandbox"):
            return None  # it is asked about as it is
        listing = await self._begin(call, known) if call.name == "exec" else None
        paths = await self._calls.deleted(call, known)
        is_awaited = listing is not None and not call.arguments.get("background")
        if listing and is_awaited and all(self._watch.covers(listing, one) for one in paths):
            return None
        if not paths:
            return None
        words = f"Delete {self._named(paths)}"
        if known.counted(key) + len(paths) > self._settings.deletions:
            known.allowed.add(call.id)
            known.free.pop(call.id, None)
            return Ask(f"{words}? {CANT}", exact=exact_call(call.name, key[2]))
        if listing and is_awaited:
            known.beside[call.id] = len([one for one in paths if one not in listing.files])
        else:  # its end is long after the turn's, it may be
            self._steps.note(turn, known, CardStep(*key, words, len(paths), "counted"))
        return None

    async def _before_other(self, call: CheckedCall, turn: Turn, known: CardTurn, key: Key) -> Verdict:
        """Count, collect or ask about a call that is not a command, and note commands while others are noted."""
        loss = self._calls.overwrite(call, turn) if call.name in ("write_file", "edit_file") else None
        if call.name in ("exec", "process") and (paths := await self._calls.deleted(call, known)):
            loss = FileLoss(len(paths), f"delete {self._named(paths)}")
        deletions = loss.files if loss else int(self._calls.deletes(call))
        words = self._calls.words(call, loss)
        if not known.of("noted"):
            if loss and loss.is_cut:
                return Ask(f"{words}?", exact=exact_call(call.name, key[2]))
            counted = known.counted(key)
            goes_far = deletions > 0 and counted + deletions > self._settings.deletions
            if not (goes_far or self._calls.is_to_new_person(call) or self._calls.is_costly(call)):
                if deletions:
                    self._steps.note(turn, known, CardStep(*key, words, deletions, "counted"))
                return None
            if not self._can_ask(turn):
                return Ask(f"{words}?", exact=exact_call(call.name, key[2]))
        if why := _not_noted(known):
            return Refuse(why)
        self._steps.note(turn, known, CardStep(*key, words, deletions, "noted"))
        return Instead(NOTED)

    async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> ToolResult | None:
        if (known := self._turns.get(turn.id)) is None:
            return None
        if (step := known.from_card(call.id)) is not None:
            self._steps.note(turn, known, step._replace(state="run"))
        before = known.before.pop(call.id, None)
        if before is not None and call.name == "exec" and not call.arguments.get("background"):
            result = await self._after_command(call, result, turn, known, before)
        if before is not None:
            await self.public.pass_over(before)
            known.others.clear()
        if call.name == "process" and call.arguments.get("id"):  # its result may tell the end
            self.public.adopt(turn, known, int(call.arguments["id"]))
        if known.before and call.reach != "none":  # others of the same answer begin with what is there by now
            known.before = dict.fromkeys(known.before, await self._watch.snapshot())
        return result

    async def _after_command(
        self, call: CheckedCall, result: ToolResult, turn: Turn, known: CardTurn, before: FileListing
    ) -> ToolResult:
        """Count what a command took away; where that goes too far put it back, and note it for the card."""
        command = str(call.arguments["command"])
        known.made |= known.written(self._watch.root)
        judge, lost = await self._watch.compare(before, known.made)
        step, gone = known.from_card(call.id), sum(one.is_deleted for one in lost) + known.beside.pop(call.id, 0)
        more = gone - (step.deletions if step else 0)
        goes_far = any(map(self._watch.goes_far, lost))
        goes_far = goes_far or (more > 0 and known.counted(key_of(call)) + more > self._settings.deletions)
        if goes_far and call.id not in known.allowed:
            result = await self._hold_back(call, result, turn, known, lost, judge.beside)
        elif gone and step is None:
            self._steps.note(turn, known, CardStep(*key_of(call), f"Run {quoted(command)}", gone, "counted"))
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
        """Restore what a command took away. What that needs is on disk before: a crash leaves nothing half done."""
        watch, command = self._watch, str(call.arguments["command"])
        held = await watch.hold_back([*lost, *beside])
        count, who = sum(one.is_deleted for one in lost), by(command, [*self.public.names, *known.others])
        words = step_words(who, lost, {one.path for one in held}, watch.name)
        step = held_step(call.id, command, held, words, count, known.next_id)
        known.steps[step[:3]] = step
        try:
            await self._host.write(partial(self._steps.keep, turn.id, step, held))
            why = ""
        except NanoclawError as error:  # a full disk
            why = f"It can't be noted for the person's yes: {error}."
        failed = await watch.put_back(held)
        only, is_open = turn.profile.only, bool(held) and self._can_ask(turn)
        why = why or (_not_noted(known) if is_open and (only is None or CARRY_OUT in only) else NOBODY)
        back = {one.path for one in held}.difference(failed)
        if why:
            self._steps.forget(turn, known, step)
        else:
            words = step_words(who, lost, back, watch.name)
            self._steps.note(turn, known, step._replace(state="noted", words=words))
        left = [watch.name(one.path) for one in (*lost, *beside) if one.path not in back]
        known.gone += left
        told = f" Not put back, as there is no copy: {named(left)}. Tell the person." if left else ""
        who = who.replace(quoted(command), "this command", 1)
        text = f"{result.text}\n[put back as it was: {who} {lost_words(lost, watch.name)}.{told} {why or NOTED}]"
        return result._replace(text=text, is_error=bool(why))

    async def _carry_out(self, context: ToolContext, command: str, list: str) -> str:
        """Make the file changes that a command was kept from making."""
        steps = self._turns[context.turn].of("shown", "run") if context.turn in self._turns else []
        step = next((one for one in steps if one.name == CARRY_OUT and one.list == list), None)
        held = self._steps.held(context.turn, step) if step else []
        if not held or digest(held) != list:
            raise ToolError(CHANGED)
        await self._host.write(partial(self._steps.carrying, context.turn, list))
        return await self._watch.carry_out(held, command, context.report)

    # --- the end of a turn -------------------------------------------------------------------------------------------

    async def before_answer(self, answer: Answer, turn: Turn) -> MakeCalls | None:
        """Have all that was collected made, which asks about it."""
        known = await self._of(turn)
        if not (noted := known.of("noted")):
            return None
        told = {one.call_id for one in turn.history if isinstance(one, ToolResult) and one.text.startswith(NOTED[:20])}
        for step in known.of("shown"):  # of a card before
            self._steps.note(turn, known, step._replace(state="run" if known.of("run") else "counted"))
        for step in noted:
            if step.call in told or step.name == CARRY_OUT:
                self._steps.note(turn, known, step._replace(state="shown"))
            else:  # refused by others, or the model was told that it broke off
                self._steps.forget(turn, known, step)
        return MakeCalls(tuple(step.as_call for step in known.of("shown"))) if known.of("shown") else None

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        known = self._turns.pop(turn.id, None) or CardTurn(turn, self._steps.of(turn.id))
        for step in known.of("putting", "carrying"):  # a crash broke it off, and the turn doesn't go on
            self._watch.put_back_now(self._steps.held(turn.id, step))
        self._steps.drop(turn.id, tx)
        is_stopped = any(one.tool == "exec" and one.state == "begun" for one in turn.effects) if known.before else False
        if is_stopped:
            tx.after(lambda: self._host.spawn(self._after_stop(turn.address, known)))
        left = known.of("noted") + (known.of("shown") if ended.reason != "answered" else [])
        said = [NOT_DONE.format(numbered(left))] if left else []
        if known.gone:
            said.append(NOT_PUT_BACK.format(named(known.gone, 10)))
        if not said or ended.outbound is None:
            return None
        text = "\n\n".join([ended.outbound.text, *said]).strip()
        return ended._replace(outbound=ended.outbound._replace(text=text), text=text)

    async def _after_stop(self, address: Address, known: CardTurn) -> None:
        """Restore what a command that was stopped took away, where that is more than a turn may."""
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
        await self.public.pass_over(before)

    # --- the list ----------------------------------------------------------------------------------------------------

    def _can_ask(self, turn: Turn) -> bool:
        return turn.profile.can_allow and self._host.asker.place(turn.address) is not None

    def _question(self, turn: Turn, steps: Sequence[CardStep]) -> Ask:
        exact = [self._exact(turn, one) for one in steps]
        gone = ""
        if any(one.name == CARRY_OUT or (one.deletions and one.name == "exec") for one in steps):
            gone = f"\n\n{BACK if self._host.get('undo') else CANT}"
        things = "this" if len(steps) == 1 else f"these {len(steps)} things, in this order"
        asked = f"{shown(steps, exact)}{gone}\n\nShall I do {things}, and nothing else?"
        return Ask(f"None of this is done yet:\n\n{asked}", exact="\n\n".join(exact), for_all=True)

    def _exact(self, turn: Turn, step: CardStep) -> str:
        """All that a step does."""
        if step.name != CARRY_OUT:
            return exact_call(step.name, step.arguments)
        command = str(json.loads(step.arguments)["command"])
        return exact_losses(command, self._steps.held(turn.id, step), self._watch.name)

    def _named(self, paths: Sequence[str]) -> str:
        return files_named([*map(self._watch.name, paths)])

    async def _of(self, turn: Turn) -> CardTurn:
        if turn.id not in self._turns:
            self._turns[turn.id] = known = CardTurn(turn, self._steps.of(turn.id))
            for step in known.of("putting", "carrying"):  # a crash broke it off
                await self._watch.put_back(self._steps.held(turn.id, step))
                self._steps.note(turn, known, step._replace(state="noted" if step.state == "putting" else "run"))
        known = self._turns[turn.id]
        known.turn = turn  # another object after a pause
        return known


def _not_noted(known: CardTurn) -> str:
    """Why nothing more can be noted; '' if it can."""
    if known.of("shown") and not known.of("run"):
        return SAID_NO
    return FULL if len(known.of("noted")) >= MOST else ""
