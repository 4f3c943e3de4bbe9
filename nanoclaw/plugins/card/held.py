"""Losses that commands were held back from: restored at once, and on disk until the person's answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.plugin import Host, NamedTuple, Tx
from nanoclaw.exact_text import as_code
from nanoclaw.snapshots.places import FOLDER

if TYPE_CHECKING:
    from nanoclaw.plugins.card.losses import Lost
    from nanoclaw.plugins.card.watch import CommandWatch

NAMED = 3
"""Files that are named in a sentence."""


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


# --- in words --------------------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """A name or a command on one line, as it is shown in a sentence."""
    return as_code(text, 120)


def named(paths: Iterable[str], most: int = NAMED) -> str:
    """The first few file names."""
    all_ = list(paths)
    more = f" and {len(all_) - most:,} more" if len(all_) > most else ""
    return ", ".join(map(quoted, all_[:most])) + more


def files_named(names: Collection[str]) -> str:
    """The number of files and their names; those of a git history that goes as a whole are not named one by one."""
    histories = [one.removesuffix("/HEAD") for one in names if f"/{one}".endswith("/.git/HEAD")]
    own = [one for one in names if not one.startswith(tuple(f"{git}/" for git in histories))]
    files = f"{len(own):,} file{'s' * (len(own) != 1)} ({named(own)})" if own or not histories else ""
    return " and ".join(filter(None, (files, f"the git history ({named(histories)})" if histories else "")))


def lost_words(lost: Sequence[Lost], name: Callable[[str], str]) -> str:
    """Losses in words, for use after the name of a command."""
    gone, cut = ([name(one.path) for one in lost if (one.left is None) == is_gone] for is_gone in (True, False))
    parts = (("deletes", gone), ("takes away most of", cut))
    return "; ".join(f"{verb} {files_named(paths)}" for verb, paths in parts if paths)


def step_words(command: str, lost: Sequence[Lost], back: Collection[str], name: Callable[[str], str]) -> str:
    """Say what a yes does: of a command's losses those that are back, and which are gone whatever the answer."""
    words = f"{quoted(command)} {lost_words([one for one in lost if one.path in back], name)}"
    gone = [name(one.path) for one in lost if one.path not in back]
    return f"{words} (already gone, as no copy was kept: {named(gone)})" if gone else words


def exact_losses(one: HeldCommand, name: Callable[[str], str]) -> str:
    """All that a command is held back from, line by line; what it is to the last character is for a code block."""
    verb = {(True, False): "delete the folder", (False, True): "change"}
    lines = (f"{verb.get((each.is_folder, bool(each.left)), 'delete')} {name(each.path)}" for each in one.held)
    return "\n".join(line.replace("\n", " ⏎ ") for line in lines)


def numbered(commands: Iterable[HeldCommand]) -> str:
    return "\n".join(f"{number}. {one.words}" for number, one in enumerate(commands, 1))
