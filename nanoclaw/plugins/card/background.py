"""Commands that run on in the background: what one took away is told when it ends, and /undo brings it back.

What happens while another command runs is that one's, as nobody can tell two programs apart by what they leave, and
files that the audit log names are whose it says.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Host, NamedTuple, Turn
from nanoclaw.plugins.card.held import lost_words, named
from nanoclaw.plugins.card.plugin import DELETIONS

if TYPE_CHECKING:
    from nanoclaw.plugins.card.losses import Losses
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
    free: int
    at: datetime


class BackgroundCommands:
    """Those that run, for whoever runs them: what the plugin makes public."""

    def __init__(self, host: Host, turns: Mapping[int, CardTurn], watch: Callable[[], CommandWatch]) -> None:
        self._host, self._turns, self._watch = host, turns, watch
        self._begun = dict[int, _Begun]()

    def is_again(self, path: str, was: os.stat_result) -> bool:
        """True for a file that has what it had when it `was` listed before a command, as after it was put back."""
        return self._watch().is_again(path, was)

    def copies(self) -> frozenset[str]:
        """Names of the copies that they may need."""
        from nanoclaw.snapshots.copies import name_of

        return frozenset(name_of(found) for one in self._begun.values() for found in one.before.files.values())

    async def began(self, process: int, turn: int, call: str) -> None:
        """Keep what is there, just before a command is started by a call."""
        known = self._turns.get(turn)
        if known is None or call in known.allowed:
            return
        watch = self._watch()
        before, made = await watch.snapshot(), known.made | known.written(watch.root)
        before = before._replace(files={path: at for path, at in before.files.items() if path not in made})
        self._begun[process] = _Begun(before, DELETIONS - known.deleted, self._host.now())

    def dropped(self, process: int) -> None:
        """Take back that a command began."""
        self._begun.pop(process, None)

    async def ended(self, process: int, command: str, conversation: Address) -> str:
        """Words about what a command took away that has ended, where that is much."""
        if (begun := self._begun.pop(process, None)) is None:
            return ""
        running = [next(iter(one.before.values())) for one in self._turns.values() if one.runs()]
        try:
            losses = await self._watch().compare(begun.before, self._of_others(begun), *running[:1])
            return await self.let_go(losses, command, conversation, begun.free)
        except (OSError, ValueError, NanoclawError) as error:
            self._host.log.warning("what process {} deleted can't be brought back: {}", process, error)
            return ""

    def _of_others(self, begun: _Begun) -> set[str]:
        """Files that other calls have changed since, as the audit log says."""
        changed = self._host.records.of_files("done")
        return {f"{self._watch().root}/{one.target}" for one in changed if one.at and one.at >= begun.at}

    async def let_go(self, losses: Losses, command: str, conversation: Address, free: int) -> str:
        """Have /undo bring back what a command took away; words about it where it is more than is `free`."""
        undo, watch = self._host.get("undo"), self._watch()
        if undo and (effects := await asyncio.to_thread(watch.undoable, losses.lost, command)):
            await self._host.write(
                lambda tx: [undo.record(tx, effect=one, conversation=conversation) for one in effects]
            )
        if not watch.goes_far(losses, free):
            return ""
        left = [watch.name(one.path) for one in losses.lost if not (one.copy and undo)]
        back = " /undo brings back what has a copy." if len(left) < len(losses.lost) else ""
        told = f" No copy was kept of: {named(left, 10)}." if left else ""
        return f"It {lost_words(losses.lost, watch.name)}.{back}{told}"
