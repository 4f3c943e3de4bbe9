"""Losses that commands were held back from: restored at once, and on disk until the person's answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.plugin import Host, NamedTuple, Tx
from nanoclaw.plugins.card.wording import step_words
from nanoclaw.snapshots.places import FOLDER

if TYPE_CHECKING:
    from nanoclaw.plugins.card.losses import Lost
    from nanoclaw.plugins.card.watch import CommandWatch


class HeldBack(NamedTuple):
    """A loss that is put back: the state that the file or folder `was` in, its copy, and the state in which the command
    left it ('' for gone; of other content there is a copy, too)."""

    path: str
    copy: str
    was: str
    left: str

    @property
    def is_folder(self) -> bool:
        return self.was == FOLDER


class HeldCommand(NamedTuple):
    """All that one command is held back from."""

    id: int
    command: str
    words: str
    held: tuple[HeldBack, ...]


class HeldCommands:
    """The table. A restart puts back what is in it, as a crash may have come while that, or carrying it out, was half
    done."""

    def __init__(self, host: Host, watch: Callable[[], CommandWatch]) -> None:
        self._host, self._watch = host, watch

    def of(self, turn: int) -> list[HeldCommand]:
        rows = self._host.read("SELECT id, command, words, held FROM card_held WHERE turn = ? ORDER BY id", turn)
        return [
            HeldCommand(row, command, words, tuple(HeldBack(*one) for one in json.loads(held)))
            for row, command, words, held in rows
        ]

    def copies(self) -> set[str]:
        """Names of the copies that are still needed."""
        rows = self._host.read("SELECT held FROM card_held")
        return {name for (held,) in rows for one in json.loads(held) for name in (one[1], one[3])}

    async def put_back(
        self, turn: int, command: str, lost: Sequence[Lost], beside: Sequence[Lost], *, asks: bool
    ) -> tuple[list[str], bool]:
        """Restore what a command took away, and keep what a yes would do where somebody `asks` for one; the paths that
        could not be restored, and whether the others are kept. What that needs is on disk before: a crash leaves
        nothing half done."""
        watch = self._watch()
        held = await asyncio.to_thread(watch.hold_back, [*lost, *beside])
        words, row = step_words(command, lost, {one.path for one in held}, watch.name), 0
        try:
            row = await self._host.write(partial(_insert, turn, command, words, held))
        except NanoclawError as error:  # a full disk
            self._host.log.warning("nobody can be asked about what {} deleted: {}", command, error)
        failed = await asyncio.to_thread(watch.put_back, held)
        back = {one.path for one in held}.difference(failed)
        is_kept = bool(row and asks and back)
        if row and not is_kept:
            await self._host.write(partial(self.drop, [row]))
        return [watch.name(one.path) for one in (*lost, *beside) if one.path not in back], is_kept

    def drop(self, rows: Collection[int], tx: Tx) -> None:
        for row in rows:
            tx.execute("DELETE FROM card_held WHERE id = ?", row)


def _insert(turn: int, command: str, words: str, held: Sequence[HeldBack], tx: Tx) -> int:
    sql = "INSERT INTO card_held (turn, command, words, held) VALUES (?, ?, ?, ?) RETURNING id"
    ((row,),) = tx.execute(sql, turn, command, words, json.dumps(held))
    return int(row)
