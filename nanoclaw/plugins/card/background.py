"""Commands that run on in the background: judged by the disk when they end, whenever that is.

What happens while another call runs is that call's, as nobody can tell two programs apart by what they leave; what
happens between calls is the background's. The state before is on disk, so that a crash hides nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address, Effect
from nanoclaw.core.plugin import Host, Turn, Tx
from nanoclaw.plugins.card.steps import CardStep, CardSteps, CardTurn, held_step
from nanoclaw.plugins.card.wording import by, lost_words, named, quoted, step_words

if TYPE_CHECKING:
    from nanoclaw.plugins.card.losses import Lost
    from nanoclaw.plugins.card.watch import CommandWatch
    from nanoclaw.snapshots.listing import FileListing
    from nanoclaw.snapshots.saved import SavedListing

NOT_WATCHED = frozenset({"process", "delegate", "question"})
"""Calls that only wait, or whose work is calls of their own: what happens while they run is not theirs."""


class _Begun(NamedTuple):
    """A command that runs: the files as they were, and how many of them it may delete (`free`)."""

    saved: SavedListing
    name: str

    @property
    def free(self) -> int:
        return int(self.saved.note["free"])


class BackgroundCommands:
    """Those that run, for whoever runs them: what the plugin makes public."""

    def __init__(
        self, host: Host, steps: CardSteps, turns: Mapping[int, CardTurn], watch: Callable[[], CommandWatch]
    ) -> None:
        self._host, self._steps, self._turns, self._made_watch = host, steps, turns, watch

    @property
    def _watch(self) -> CommandWatch:
        return self._made_watch()

    @cached_property
    def _begun(self) -> dict[int, _Begun]:
        """Those that run, and those of an earlier program that were not judged yet."""
        from nanoclaw.snapshots.saved import SavedListing

        folder, found = self._watch.folder / "begun", dict[int, _Begun]()
        for path in folder.iterdir() if folder.is_dir() else ():
            try:
                found[int(path.name)] = _Begun(saved := SavedListing.load(path), str(saved.note["name"]))
            except (OSError, ValueError, LookupError, TypeError):  # a draft, or damaged
                path.unlink(missing_ok=True)
        return found

    @property
    def names(self) -> list[str]:
        """Those that run, in words."""
        return [one.name for one in self._begun.values()]

    def copies(self) -> frozenset[str]:
        """Names of the copies that they may need."""
        return frozenset[str]().union(*(one.saved.names for one in self._begun.values()))

    def forget(self) -> None:
        self._begun.clear()

    # --- from start to end -------------------------------------------------------------------------------------------

    async def began(self, process: int, command: str, turn: int, call: str) -> None:
        """Keep what is there, just before a command is started by a call."""
        from nanoclaw.snapshots.saved import SavedListing

        known = self._turns.get(turn)
        if known is None or call not in known.free:
            return  # it was allowed as it is
        free, before = known.free.pop(call), known.before.pop(call)
        before = before._replace(files={path: at for path, at in before.files.items() if path not in known.made})
        path, name = self._watch.folder / "begun" / str(process), f"process {process} ({quoted(command)})"
        try:
            saved = await asyncio.to_thread(SavedListing.keep, path, before, {"free": free, "name": name})
        except OSError as error:
            self._host.log.warning("what process {} deletes will not be reported: {}", process, error)
        else:
            self._begun[process] = _Begun(saved, name)

    def dropped(self, process: int) -> None:
        """Take back that a command began."""
        if begun := self._begun.pop(process, None):
            begun.saved.drop()

    async def pass_over(self, before: FileListing) -> None:
        """Leave out what happened since: it is the work of a call that has ended."""
        if not self._begun:
            return
        after = await self._watch.snapshot()
        for one in [*self._begun.values()]:
            try:
                await asyncio.to_thread(one.saved.pass_over, before, after)
            except OSError as error:
                self._host.log.warning("after a crash {} may be blamed for another call: {}", one.name, error)

    async def ended(self, process: int, command: str, conversation: Address, *, asks: bool) -> str:
        """Judge a command that has ended, and restore what it took away where that goes too far; words about that. A
        turn that knows of its end can ask about it, if there will be one (`asks`)."""
        try:
            return await self._ended(process, command, conversation, asks=asks)
        except (OSError, ValueError, NanoclawError) as error:
            self._host.log.warning("what process {} deleted can't be reported: {}", process, error)
            return ""

    async def _ended(self, process: int, command: str, conversation: Address, *, asks: bool) -> str:
        asks = asks and self._host.asker.place(conversation) is not None
        for step in self._steps.of(-process).values():  # a crash came between
            self.dropped(process)
            failed = await self._watch.put_back(self._steps.held(-process, step))
            return await self._offered(process, step, failed, asks=asks)
        if (begun := self._begun.get(process)) is None:
            return ""
        after, saved = await self._watch.snapshot(), begun.saved
        for known in [*self._turns.values()]:
            if known.runs_a_call(but=NOT_WATCHED):
                known.others.append(begun.name)
                for before in {id(one): one for one in known.before.values()}.values():
                    await asyncio.to_thread(saved.pass_over, before, after)
        judge, lost = await self._watch.compare(saved.listing, set(), after)
        gone = sum(one.is_deleted for one in lost)
        if gone <= begun.free and not any(map(self._watch.goes_far, lost)):
            self.dropped(process)
            await self._record(conversation, await self._undoable(command, lost))
            await self.pass_over(saved.listing)  # what is this one's is none of the others'
            return ""
        held = await self._watch.hold_back([*lost, *judge.beside])
        back = {one.path for one in held}
        others = [one.name for number, one in self._begun.items() if number != process]
        words = step_words(by(command, others), lost, back, self._watch.name)
        step = held_step(f"process-{process}", command, held, words, gone)
        await self._host.write(partial(self._steps.keep, -process, step, held))
        self.dropped(process)
        undoable = await self._undoable(command, [one for one in lost if one.path in back], are_put_back=True)
        failed = await self._watch.put_back(held)
        await self._record(conversation, undoable)
        await self.pass_over(saved.listing)
        return await self._offered(process, step, failed, asks=asks, lost=lost)

    async def _offered(
        self, process: int, step: CardStep, failed: Sequence[str], *, asks: bool, lost: Sequence[Lost] = ()
    ) -> str:
        """Have what was put back wait for the turn that can ask about it."""
        name = self._watch.name
        held = [one for one in self._steps.held(-process, step) if one.path not in failed]
        left = [name(path) for path in failed]
        left += [name(one.path) for one in lost if not one.copy]

        def keep(tx: Tx) -> None:
            self._steps.drop(-process, tx)
            if asks and held:
                self._steps.keep(-process, step._replace(state="noted"), held, tx)

        await self._host.write(keep)
        done = f"it {lost_words(lost, name)}" if lost else f"it deleted {named(name(one.path) for one in held)}"
        told = f"While it ran {done}: put back." if held else f"While it ran {done}."
        told += f" No copy was kept of: {named(left, 10)}." if left else ""
        return told + (
            " What was put back is on the list that the person is asked about next." if asks and held else ""
        )

    async def _undoable(self, command: str, lost: Sequence[Lost], *, are_put_back: bool = False) -> list[Effect]:
        if (undo := self._host.get("undo")) is None:
            return []
        try:
            return await self._watch.losses(lost, command, undo.keep_copy, are_put_back=are_put_back)
        except (OSError, ValueError, NanoclawError) as error:  # no room: that files come back counts for more
            self._host.log.warning("/undo will not know what {} did: {}", quoted(command), error)
            return []

    async def _record(self, conversation: Address, effects: Sequence[Effect]) -> None:
        """Have /undo bring files back as they were before, or before they were put back."""
        if effects:
            undo = self._host.get("undo")
            await self._host.write(
                lambda tx: [undo.record(tx, effect=one, conversation=conversation) for one in effects]
            )

    def adopt(self, turn: Turn, known: CardTurn, process: int) -> None:
        """Have a turn that knows of a command's end ask about what it was held back from."""
        self._steps.adopt(turn, known, process)
