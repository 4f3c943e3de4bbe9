"""Watches what commands take away: lists the files before and after, keeps copies, restores what goes too far, and
carries exactly that out after a yes."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property
from glob import iglob
from hashlib import sha256
from itertools import islice
from pathlib import Path

from nanoclaw.atomic_write import replace_in
from nanoclaw.core.errors import ToolError
from nanoclaw.core.messages import Effect
from nanoclaw.core.plugin import Host
from nanoclaw.plugins.card.held import HeldBack, quoted
from nanoclaw.plugins.card.losses import WATCHED, Judge, Losses, Lost, is_in_remade, is_remade
from nanoclaw.snapshots import places
from nanoclaw.snapshots.copies import FileCopies, name_of
from nanoclaw.snapshots.listing import FileLister, FileListing

MOST_BYTES, LARGEST_BYTES = 200_000_000, 10_000_000
"""Of all copies; and of a file of which one is kept."""
COPYING_SECONDS = 4.0
"""The longest that a command waits for copies; what is left is copied before the next one."""
MOST_CHANGES = 50
"""So many files of one command can be undone; where it changed more, those that it deleted."""


class CommandWatch:
    """Copies are in a folder of the home; they are derived, and bounded. Those that `held` names stay in any case."""

    def __init__(self, host: Host, held: Callable[[], Collection[str]]) -> None:
        self._host, self._held, self._reach = host, held, host.reach
        self.folder = host.program_home / "snapshots"
        self._copies = FileCopies(self.folder, most_bytes=MOST_BYTES, largest_bytes=LARGEST_BYTES)
        self._lister = FileLister(is_remade, WATCHED)
        self._one_at_a_time = asyncio.Lock()

    @cached_property
    def root(self) -> str:
        return os.path.realpath(self._host.workspace)

    # --- before and after a command ----------------------------------------------------------------------------------

    async def named(self, command: str) -> list[str]:
        """Files that a command names to be deleted, and that no program makes again."""
        root, tops = Path(self.root), tuple(f"{one}/" for one in self._tops())
        found = await asyncio.to_thread(named_by, command, root)
        return [one for one in found if one.startswith(tops) and not is_in_remade(one, root)]

    async def snapshot(self) -> FileListing:
        """List what is there, with copies of it."""
        async with self._one_at_a_time:
            return await asyncio.to_thread(self._look, self._held())

    async def compare(self, before: FileListing, made: set[str], after: FileListing | None = None) -> Losses:
        """Judge what happened since, or until `after`."""
        async with self._one_at_a_time:
            return await asyncio.to_thread(lambda: Judge(before, after or self._list(), self._copies, made).losses())

    def _look(self, held: Collection[str]) -> FileListing:
        listing = self._list()
        self._copies.update(listing, COPYING_SECONDS, held)
        return listing

    def _list(self) -> FileListing:
        return self._lister.scan(self._reach.writable, self._reach.closed)

    def covers(self, listing: FileListing, path: str) -> bool:
        """True for a file of which there is a copy."""
        found = listing.files.get(path)
        return found is not None and self._copies.has(found)

    def is_again(self, path: str, was: os.stat_result) -> bool:
        """True for a file with the content of the copy of what it was."""
        try:
            return self._copies.has(was) and self._copies.state(name_of(was)) == places.state(self._top(path), path)
        except (OSError, ValueError):
            return False

    def goes_far(self, losses: Losses, free: int) -> bool:
        """True for more than `free` losses, and for a file that is cut short and a repository."""
        return len(losses.lost) > max(0, free) or any(one.is_cut or one.path.endswith("/.git") for one in losses.lost)

    def forget(self) -> None:
        self._copies.forget()

    # --- putting back ------------------------------------------------------------------------------------------------

    def hold_back(self, lost: Sequence[Lost]) -> list[HeldBack]:
        """Note what putting back, and carrying out later, need, of what can be put back; nothing is changed yet."""
        held = list[HeldBack]()
        for one in lost:
            if one.copy:
                with suppress(OSError, ValueError):  # its copy cannot be read, or no room is left
                    top, was = self._top(one.path), self._copies.state(one.copy)
                    left = "" if one.left is None else places.state(top, one.path)
                    if left and not left.startswith("link:"):
                        self._copies.keep(places.content(top, one.path) or b"", left)
                    held.append(HeldBack(one.path, one.copy, was, left))
        return held

    def put_back(self, held: Iterable[HeldBack]) -> list[str]:
        """Restore what was noted; the paths that could not be."""
        failed = list[str]()
        for one in _inner_first(held):
            try:
                top = self._top(one.path)
                # else somebody wrote it anew meanwhile
                if one.is_folder or places.state(top, one.path) in ("", one.left, places.FOLDER):
                    self._copies.put_back(one.copy, top, one.path)
            except (OSError, ValueError):
                failed.append(one.path)
        return failed

    def _tops(self) -> list[str]:
        return [os.path.realpath(one) for one in self._reach.writable]

    def _top(self, path: str) -> str:
        return max((one for one in self._tops() if path.startswith(f"{one}/")), key=len)

    # --- carrying out ------------------------------------------------------------------------------------------------

    def carry_out(self, held: Sequence[HeldBack], command: str, report: Callable[[Effect], None]) -> str:
        """Do what was held back, to files that are as they were; what was done, in words."""
        done, others = list[str](), list[str]()
        for one in _inner_first(held):
            name = self.name(one.path)
            try:
                self._do(one, name, command, report)
                done += [] if one.is_folder else [name]
            except (OSError, ValueError, ToolError) as error:
                others.append(f"{quoted(name)}: {error}")
        told = f"Done with {len(done)} of {sum(not one.is_folder for one in held)} files"
        return "\n".join([told, *others[:20]])

    def _do(self, one: HeldBack, name: str, command: str, report: Callable[[Effect], None]) -> None:
        if places.state(self._top(one.path), one.path) != one.was:
            raise ToolError("skipped, as it is no longer what the person was shown")
        effect, undo = _effect(name, command, is_gone=not one.left), self._host.get("undo")
        is_file = not one.is_folder and not one.was.startswith("link:")
        made = list[Effect]()
        with undo.watch(effect, report=made.append) if undo and is_file and _is_sayable(one.path) else nullcontext():
            self._make(one)
        for each in made:
            report(each)

    def _make(self, one: HeldBack) -> None:
        """Make a file what the command left of it."""
        top = self._top(one.path)
        if not one.left:
            places.remove(top, one.path, is_folder=one.is_folder)
        elif one.left.startswith("link:"):
            target = os.fsencode(one.left.removeprefix("link:"))
            places.restore(top, one.path, places.KeptFile(stat.S_IFLNK, target))
        else:
            with places.folder_of(top, one.path) as (folder, name):
                replace_in(folder, name, self._copies.read(one.left))

    def name(self, path: str) -> str:
        """A path as it is shown: within the workspace, or whole."""
        return path.removeprefix(f"{self.root}/").encode("utf-8", "backslashreplace").decode()

    # --- undo --------------------------------------------------------------------------------------------------------

    def undoable(self, altered: Sequence[Lost], command: str) -> list[Effect]:
        """Changes of files that were there before, so that /undo can take them back; [] without that plugin."""
        found, gone = list[Effect](), [one for one in altered if one.left is None]
        if not (undo := self._host.get("undo")):
            return []
        for one in gone if len(altered) > max(MOST_CHANGES, len(gone)) else altered:
            if one.copy and _is_sayable(one.path):
                old, now = self._copies.read(one.copy), places.content(self._top(one.path), one.path)
                if now != old:
                    name, after = self.name(one.path), "" if now is None else sha256(now).hexdigest()
                    effect = _effect(name, command, is_gone=now is None)
                    found.append(effect._replace(before=undo.keep_copy(old, name), after=after))
        return found


def _effect(name: str, command: str, *, is_gone: bool) -> Effect:
    return Effect("exec", "file", name, f"{name} {'deleted' if is_gone else 'changed'} by {quoted(command)}", "done")


def _is_sayable(path: str) -> bool:
    """False for a path that is not text."""
    return path.isprintable() or path.encode("utf-8", "replace").decode() == path


def _inner_first(held: Iterable[HeldBack]) -> list[HeldBack]:
    """Files, then folders, those within others first: what is in a folder changes its time, and keeps it."""
    all_ = list(held)
    folders = sorted((one for one in all_ if one.is_folder), key=lambda one: one.path, reverse=True)
    return [*(one for one in all_ if not one.is_folder), *folders]


MOST = 10_000
"""Files that are counted."""

_DELETING = ("rm", "unlink", "shred")


def named_by(command: str, root: Path) -> list[str]:
    """Files that are there and that a command names to be deleted, alone or by a folder."""
    if not any(name in command for name in _DELETING):
        return []
    from nanoclaw.shell_words import commands_in, program_name

    found, folder = dict[str, None](), root
    for words in commands_in(command):
        name, operands = program_name(words[0]), [one for one in words[1:] if not one.startswith("-")]
        if name == "cd" and operands:
            folder = folder / operands[0]
        for word in operands if name in _DELETING else ():
            for path in iglob(os.path.normpath(folder / word)):  # noqa: PTH207 - as a shell
                found |= dict.fromkeys(islice(_files(path), MOST - len(found)))
    return sorted(found)


def _files(path: str) -> Iterator[str]:
    if not Path(path).is_dir() or Path(path).is_symlink():
        yield path
        return
    waiting = [path]
    while waiting:  # os.walk goes no deeper than Python's stack
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.insert(0 if entry.name == ".git" else len(waiting), entry.path)  # a person's own first
                else:
                    yield entry.path
