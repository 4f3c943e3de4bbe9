"""Commands that run on in the background: judged by the disk when they end, whenever that is.

What happens while another command runs is that one's, as nobody can tell two programs apart by what they leave, and
files that the audit log names are whose it says. The state before is on disk, so that a crash hides nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Host, NamedTuple, Turn
from nanoclaw.plugins.card.held import HeldCommands
from nanoclaw.plugins.card.plugin import DELETIONS
from nanoclaw.plugins.card.wording import by, named, quoted

if TYPE_CHECKING:
    from nanoclaw.plugins.card.losses import Lost
    from nanoclaw.plugins.card.watch import CommandWatch
    from nanoclaw.snapshots.listing import FileListing


@dataclass
class CardTurn:
    """All that is known of one turn: the files that its commands `deleted`, those that are not older than it (`made`),
    and what was there before each command that may run now (`before`). What was `allowed` is not judged."""

    turn: Turn
    deleted: int
    made: set[str] = field(default_factory=set)
    before: dict[str, FileListing] = field(default_factory=dict)
    allowed: set[str] = field(default_factory=set)
    others: list[str] = field(default_factory=list)  # commands in the background that ended while one ran
    gone: list[str] = field(default_factory=list)  # could not be put back

    def runs(self) -> bool:
        """True while a command runs, and what is there before it is known."""
        return bool(self.before) and any((one.tool, one.state) == ("exec", "begun") for one in self.turn.effects)

    def written(self, root: str) -> set[str]:
        """Files that the turn's calls made."""
        return {f"{root}/{one.target}" for one in self.turn.effects if one.kind == "file" and one.before == ""}


class _Begun(NamedTuple):
    """A command that runs: the files as they were, how many of them it may delete (`free`), and since when it runs."""

    before: FileListing
    name: str
    free: int
    at: str


class BackgroundCommands:
    """Those that run, for whoever runs them: what the plugin makes public."""

    def __init__(
        self, host: Host, held: HeldCommands, turns: Mapping[int, CardTurn], watch: Callable[[], CommandWatch]
    ) -> None:
        self._host, self._held, self._turns, self._made_watch = host, held, turns, watch

    @property
    def _watch(self) -> CommandWatch:
        return self._made_watch()

    def is_again(self, path: str, was: os.stat_result) -> bool:
        """True for a file that has what it had when it `was` listed before a command, as after it was put back."""
        return self._watch.is_again(path, was)

    @cached_property
    def _begun(self) -> dict[int, _Begun]:
        """Those that run, and those of an earlier program that were not judged yet."""
        from nanoclaw.snapshots.saved import load

        found = dict[int, _Begun]()
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            try:
                before, note = load(path)
                found[int(path.name)] = _Begun(before, str(note["name"]), int(note["free"]), str(note["at"]))
            except (OSError, ValueError, LookupError, TypeError):  # a draft, or damaged
                path.unlink(missing_ok=True)
        return found

    @property
    def _folder(self) -> Path:
        return self._watch.folder / "begun"

    @property
    def names(self) -> list[str]:
        """Those that run, in words."""
        return [one.name for one in self._begun.values()]

    def copies(self) -> frozenset[str]:
        """Names of the copies that they may need."""
        from nanoclaw.snapshots.copies import name_of

        return frozenset(name_of(found) for one in self._begun.values() for found in one.before.files.values())

    def forget(self) -> None:
        vars(self).pop("_begun", None)

    # --- from start to end -------------------------------------------------------------------------------------------

    async def began(self, process: int, command: str, turn: int, call: str) -> None:
        """Keep what is there, just before a command is started by a call."""
        known = self._turns.get(turn)
        if known is None or call in known.allowed:
            return
        before, made = await self._watch.snapshot(), known.made | known.written(self._watch.root)
        before = before._replace(files={path: at for path, at in before.files.items() if path not in made})
        name, now = f"process {process} ({quoted(command)})", self._host.now().isoformat()
        begun = self._begun[process] = _Begun(before, name, DELETIONS - known.deleted, now)
        from nanoclaw.snapshots.saved import save

        note = {"name": name, "free": begun.free, "at": now}
        try:
            await asyncio.to_thread(save, self._folder / str(process), before, note)
        except OSError as error:
            self._host.log.warning("after a crash what process {} deletes will not be reported: {}", process, error)

    def dropped(self, process: int) -> None:
        """Take back that a command began."""
        self._begun.pop(process, None)
        (self._folder / str(process)).unlink(missing_ok=True)

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
        if held := self._held.of(-process):  # a crash came between
            self.dropped(process)
            failed = [path for one in held for path in await self._watch.put_back(one.held)]
            if not asks:
                await self._host.write(lambda tx: self._held.drop([one.id for one in held], tx))
            words = "; ".join(one.words for one in held)
            return _told(words, [*map(self._watch.name, failed)], is_kept=asks)
        if process not in self._begun:
            return ""
        after, begun = await self._watch.snapshot(), self._begun[process]
        for known in [one for one in self._turns.values() if one.runs()]:
            known.others.append(begun.name)
            after = next(iter(known.before.values()))
        losses = await self._watch.compare(begun.before, self._of_others(begun), after)
        if not self._watch.goes_far(losses, begun.free):
            self.dropped(process)
            await self._record(command, conversation, losses.lost)
            return ""
        who = by(command, [one.name for number, one in self._begun.items() if number != process])
        done = await self._held.put_back(-process, command, who, losses.lost, losses.beside, asks=asks)
        self.dropped(process)
        return _told(done.words, done.left, is_kept=done.is_kept)

    def _of_others(self, begun: _Begun) -> set[str]:
        """Files that other calls have changed since, as the audit log says."""
        changed, began = self._host.records.of_files("done"), datetime.fromisoformat(begun.at)
        return {f"{self._watch.root}/{one.target}" for one in changed if one.at and one.at >= began}

    async def _record(self, command: str, conversation: Address, lost: Sequence[Lost]) -> None:
        """Have /undo bring files back."""
        effects, undo = await self._watch.undoable(lost, command), self._host.get("undo")
        if effects and undo:
            await self._host.write(
                lambda tx: [undo.record(tx, effect=one, conversation=conversation) for one in effects]
            )


def _told(words: str, left: Sequence[str], *, is_kept: bool) -> str:
    told = f"Put back as it was: {words}."
    told += f" No copy was kept of: {named(left, 10)}." if left else ""
    return told + (" It is on the list that the person is asked about next." if is_kept else "")
