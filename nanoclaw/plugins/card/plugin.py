"""The card: asks before a call that goes far, and about what a command took away, which is restored until the yes."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nanoclaw.core.messages import Address, Ask, CheckedCall, Effect, MakeCalls, Outbound, ToolCall, ToolResult, Verdict
from nanoclaw.core.plugin import Answer, Ended, Hears, Host, Plugin, Refuse, Tool, Turn, Tx
from nanoclaw.core.tool import ToolContext, tool

if TYPE_CHECKING:
    from nanoclaw.plugins.card.background import BackgroundCommands, CardTurn
    from nanoclaw.plugins.card.held import HeldCommands
    from nanoclaw.plugins.card.watch import CommandWatch
    from nanoclaw.snapshots.listing import FileListing

DELETIONS = 3
"""Files that one turn may delete without asking."""

FILE_CHANGES = "file_changes"
"""The tool that makes the file changes that commands were kept from making, after a yes; hidden from models."""

NOTED = (
    "noted, not done yet. When you answer, the person is asked about all that was noted at once, and after their yes "
    "exactly that is done. Go on with the rest, don't do this another way, and don't say that it is done."
)
SAID_NO = "not done: the list that was shown to the person in this turn was not allowed. Accept that, and end here."
CHANGED = "not done: it is not what the person was shown."
NOBODY = (
    "It goes beyond what a turn may do unasked, and nobody is there to ask. Say in your answer what is left to "
    "allow; don't do it another way."
)
NOT_PUT_BACK = "(Note from the program: a command deleted this, and no copy was kept: {}.)"
CANT = "It can't be brought back."
BACK = "After that /undo brings the files back."
NOT_DONE = "(Noted for your yes, but the turn ended before I could ask, so none of it was done:\n{})"


class PlanCard(Plugin):
    name = "card"
    hears: Mapping[str, Hears] = {
        **dict.fromkeys(("before_tool", "after_tool"), Hears(changes=True)),
        **dict.fromkeys(("before_answer", "on_end"), Hears(origins=("process",), changes=True)),
    }
    migrations = (
        "",
        "",
        "",  # of an older card, whose tables go
        """
        DROP TABLE IF EXISTS card_steps;
        DROP TABLE IF EXISTS card_losses;
        CREATE TABLE card_held (                    -- gone with the turn, or when it is carried out
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            turn INTEGER NOT NULL,
            command TEXT NOT NULL,
            words TEXT NOT NULL,                    -- as the person reads it
            held TEXT NOT NULL                      -- JSON: path, copy, was and left of each
        ) STRICT;
        """,
        "DELETE FROM card_held WHERE turn < 0",  # of commands in the background, which are asked about no more
    )
    seconds = 120.0  # many files may have to be put back

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        self._turns: dict[int, CardTurn] = {}

    @cached_property
    def public(self) -> BackgroundCommands:
        from nanoclaw.plugins.card.background import BackgroundCommands

        return BackgroundCommands(self._host, self._turns, lambda: self._watch)

    @cached_property
    def _held(self) -> HeldCommands:
        from nanoclaw.plugins.card.held import HeldCommands

        return HeldCommands(self._host, lambda: self._watch)

    @cached_property
    def _watch(self) -> CommandWatch:
        from nanoclaw.plugins.card.watch import CommandWatch

        return CommandWatch(self._host, lambda: self._held.copies() | self.public.copies())

    def tools(self) -> Iterable[Tool]:
        def audit(arguments: dict[str, Any]) -> Effect:
            return Effect(FILE_CHANGES, "call", "", "made the file changes that you allowed")

        return [tool(self._file_changes, reach="workspace")._replace(is_there=False, audit=audit)]

    def files(self) -> Mapping[Path, Literal["kept", "derived"]]:
        return {self._host.program_home / "snapshots": "derived"}

    def reload(self) -> None:
        self._watch.forget()

    # --- a call ------------------------------------------------------------------------------------------------------

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        """Ask about a call that goes far, and look what is there before a command."""
        from nanoclaw.plugins.card.held import quoted

        if not turn.id or not turn.profile.acts:
            return None
        known = await self._of(turn)
        if call.name == "exec" or (call.name == "process" and call.arguments.get("action") == "input"):
            return await self._before_command(call, known)
        if call.name == FILE_CHANGES:
            return self._question(call, turn)
        if call.name == "message" and _is_to_new_person(call, self._host):
            return Ask(f"Write to {quoted(str(call.arguments['to']))}, to whom you have not written before?")
        if call.name in ("write_file", "edit_file") and _shrinks(call.arguments, turn, self._host):
            return Ask(f"Take away more than half of {quoted(str(call.arguments['path']))}? /undo brings it back.")
        return None

    async def _before_command(self, call: CheckedCall, known: CardTurn) -> Verdict:
        """Look what is there before a command, and ask about one that names files of which there is no copy."""
        if call.arguments.get("beyond") and self._host.get("sandbox"):
            known.allowed.add(call.id)  # it is asked about as it is
            return None
        is_awaited = call.name == "exec" and not call.arguments.get("background")
        if is_awaited and (sandbox := self._host.get("sandbox")) and sandbox.only_looks(str(call.arguments["command"])):
            return None
        paths = await self._watch.named(str(call.arguments.get("command" if call.name == "exec" else "text") or ""))
        listing = await self._watch.snapshot() if is_awaited or paths else None
        if listing and is_awaited:
            known.before[call.id] = listing
        paths = [one for one in paths if one not in known.made]
        is_covered = not listing or all(self._watch.covers(listing, one) for one in paths)
        if (is_covered and is_awaited) or known.deleted + len(paths) <= DELETIONS:
            return None
        if not is_covered:
            known.allowed.add(call.id)
        from nanoclaw.plugins.card.held import files_named

        back = BACK if is_covered and self._host.get("undo") else CANT
        return Ask(f"Delete {files_named([*map(self._watch.name, paths)])}? {back}")

    async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> ToolResult | None:
        if (known := self._turns.get(turn.id)) is None:
            return None
        if (before := known.before.pop(call.id, None)) is not None:
            result = await self._after_command(call, result, known, before)
        if known.before and call.reach != "none":  # others of the same answer begin with what is there by now
            known.before = dict.fromkeys(known.before, await self._watch.snapshot())
        return result

    async def _after_command(
        self, call: CheckedCall, result: ToolResult, known: CardTurn, before: FileListing
    ) -> ToolResult:
        """Count what a command took away; where that goes too far put it back, and keep it for a yes."""
        from nanoclaw.plugins.card.held import lost_words, named

        turn, command = known.turn, str(call.arguments["command"])
        known.made |= known.written(self._watch.root)
        losses = await self._watch.compare(before, known.made)
        if self._watch.goes_far(losses, DELETIONS - known.deleted) and call.id not in known.allowed:
            asked, only = self._asked(turn), turn.profile.only
            is_open = self._can_ask(turn) and (only is None or FILE_CHANGES in only)
            why = SAID_NO if any(one.id in asked for one in self._held.of(turn.id)) else "" if is_open else NOBODY
            lost, beside = losses.lost, losses.beside
            left, is_kept = await self._held.put_back(turn.id, command, lost, beside, asks=not why)
            known.gone += left
            why = why or ("" if is_kept else NOBODY)
            told = f" Not put back, as there is no copy: {named(left)}. Tell the person." if left else ""
            did = f"this command {lost_words(lost, self._watch.name)}"
            text = f"{result.text}\n[put back as it was: {did}.{told} {why or NOTED}]"
            result = result._replace(text=text, is_error=bool(why))
            if len(left) < len(lost) + len(beside):
                result = result._replace(refused="owner" if why == SAID_NO else "nobody" if why else "later")
        else:
            known.deleted += len(losses.lost)
        if undo := self._host.get("undo"):
            for effect in await asyncio.to_thread(self._watch.undoable, losses.altered, command):
                turn.later(partial(undo.record, effect=effect, conversation=turn.conversation, turn=turn.id))
        return result

    async def _file_changes(self, context: ToolContext, steps: list[int], what: str = "") -> str:
        """Make the file changes that commands were kept from making."""
        carry_out, commands = self._watch.carry_out, [one for one in self._held.of(context.turn) if one.id in steps]
        told = [await asyncio.to_thread(carry_out, one.held, one.command, context.report) for one in commands]
        await self._host.write(partial(self._held.drop, steps))
        return "\n".join(told)

    # --- the end of a turn -------------------------------------------------------------------------------------------

    async def before_answer(self, answer: Answer, turn: Turn) -> MakeCalls | None:
        """Have what commands were held back from made, which asks about it."""
        await self._of(turn)
        asked = self._asked(turn)
        if not (waiting := [one for one in self._held.of(turn.id) if one.id not in asked]):
            return None
        what = "; ".join(one.command for one in waiting)  # for whoever sees the call
        arguments = {"what": what, "steps": [one.id for one in waiting]}
        return MakeCalls((ToolCall(f"card-{waiting[0].id}", FILE_CHANGES, json.dumps(arguments)),))

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        known, held, asked = self._turns.pop(turn.id, None), self._held.of(turn.id), self._asked(turn)
        if known is None:  # a crash broke it off, and the turn doesn't go on
            self._watch.put_back([each for one in held for each in one.held])
        self._held.drop([one.id for one in held], tx)
        is_begun = any(one.tool == "exec" and one.state == "begun" for one in turn.effects) if known else False
        if known and known.before and is_begun:
            tx.after(lambda: self._host.spawn(self._after_stop(turn.address, known)))
        from nanoclaw.plugins.card.held import named, numbered

        left = [one for one in held if one.id not in asked or ended.reason != "answered"]
        said = [NOT_DONE.format(numbered(left))] if left else []
        if known and known.gone:
            said.append(NOT_PUT_BACK.format(named(known.gone, 10)))
        if not said or ended.outbound is None:
            return None
        text = "\n\n".join([ended.outbound.text, *said]).strip()
        return ended._replace(outbound=ended.outbound._replace(text=text), text=text)

    async def _after_stop(self, address: Address, known: CardTurn) -> None:
        """Have /undo bring back what a command that was stopped took away."""
        losses = await self._watch.compare(next(iter(known.before.values())), known.made)
        call = next(one for one in known.turn.calls if one.id in known.before)
        command, free = str(json.loads(call.arguments)["command"]), DELETIONS - known.deleted
        if told := await self.public.let_go(losses, command, known.turn.conversation, free):
            await self._host.write(lambda tx: tx.send(Outbound(address, f"The command was stopped. {told}")))

    # --- the question ------------------------------------------------------------------------------------------------

    def _can_ask(self, turn: Turn) -> bool:
        return turn.profile.can_allow and self._host.asker.place(turn.address) is not None

    def _asked(self, turn: Turn) -> set[int]:
        """The commands that the person was asked about in a turn."""
        made = (json.loads(one.arguments) for one in turn.calls if one.name == FILE_CHANGES and one.id[:5] == "card-")
        return {row for one in made for row in one["steps"]}

    def _question(self, call: CheckedCall, turn: Turn) -> Verdict:
        commands = [one for one in self._held.of(turn.id) if one.id in call.arguments["steps"]]
        if not commands or call.id != f"card-{commands[0].id}":
            return Refuse(CHANGED)
        from nanoclaw.plugins.card.held import exact_losses, numbered

        back = BACK if self._host.get("undo") else CANT
        exact = "\n".join(exact_losses(one, self._watch.name) for one in commands)
        asked = f"{numbered(commands)}\n\nNone of this is done yet. Shall I do exactly this? {back}"
        return Ask(asked, exact=exact)

    async def _of(self, turn: Turn) -> CardTurn:
        if turn.id not in self._turns:
            from nanoclaw.plugins.card.background import CardTurn

            for one in self._held.of(turn.id):  # a crash may have broken it off
                await asyncio.to_thread(self._watch.put_back, one.held)
            deleted = sum(one.tool == "exec" and one.kind == "file" and not one.after for one in turn.effects)
            self._turns[turn.id] = CardTurn(turn, deleted)
        known = self._turns[turn.id]
        known.turn = turn  # another object after a pause
        return known


def _shrinks(given: Mapping[str, Any], turn: Turn, host: Host) -> bool:
    """True for a change that takes away more than half of a file which the turn did not make."""
    from nanoclaw.beneath.paths import name_beneath, resolve
    from nanoclaw.plugins.card.losses import SMALL, shrinks

    path = str(given.get("path", ""))
    name = name_beneath(host.workspace, path) or path
    made = {one.target for one in turn.effects if one.kind == "file" and one.before == ""}
    try:
        file = resolve(host.reach, path, for_writing=True).stat()
    except (OSError, ValueError):
        return False  # the tool says what is wrong with it
    old = file.st_size if name not in (*made, "HEARTBEAT.md") and stat.S_ISREG(file.st_mode) else 0
    gone, new = (len(str(given.get(name, "")).encode()) for name in ("old", "new"))
    left = len(str(given["content"]).encode()) if "content" in given else old - gone + new
    return old > SMALL and shrinks(old, left)


def _is_to_new_person(call: CheckedCall, host: Host) -> bool:
    """True for a message to somebody with whom there was no word yet, and whom the owner has not listed for it."""
    channel, colon, chat = str(call.arguments.get("to", "")).strip().partition(":")
    if not colon or not chat:
        return False
    target, access = Address(channel, chat), host.get("access")
    if access and (access.is_owners(target) or access.is_listed(target, "send_to")):
        return False
    return not host.records.context(target) and host.records.is_last(target, 0)
