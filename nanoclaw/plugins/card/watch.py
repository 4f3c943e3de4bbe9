"""Watches what commands take away: lists the files before and after, keeps copies, restores what goes too far, and
carries exactly that out after a yes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property
from hashlib import sha256

from nanoclaw.atomic_write import replace_in
from nanoclaw.core.errors import ToolError
from nanoclaw.core.messages import Effect
from nanoclaw.core.plugin import Host
from nanoclaw.plugins.card.git_objects import WATCHED
from nanoclaw.plugins.card.losses import SMALL, Judge, Lost, is_memory, is_remade
from nanoclaw.plugins.card.steps import HeldBack
from nanoclaw.plugins.card.wording import quoted
from nanoclaw.snapshots import places
from nanoclaw.snapshots.copies import FileCopies
from nanoclaw.snapshots.listing import FileLister, FileListing

LARGEST_BYTES = 10_000_000
"""Of a larger file no copy is kept."""
COPYING_SECONDS = 4.0
"""The longest that a command waits for copies; what is left is copied before the next one."""
MOST_CHANGES = 50
"""So many files of one command can be undone; where it changed more, those that it deleted."""


class CommandWatch:
    """Copies are in a folder of the home; they are derived, and bounded. Those that `held` names stay in any case."""

    def __init__(self, host: Host, megabytes: int, held: Callable[[], Collection[str]]) -> None:
        self._held = held
        self._host, self.folder, self._most = host, host.program_home / "snapshots", megabytes * 1_000_000
        self._reach = host.reach
        self._lister = FileLister(is_remade, WATCHED)
        self._one_at_a_time = asyncio.Lock()

    @cached_property
    def root(self) -> str:
        return os.path.realpath(self._host.workspace)

    @cached_property
    def _copies(self) -> FileCopies:
        return FileCopies(self.folder, most_bytes=self._most, largest_bytes=LARGEST_BYTES)

    # --- before and after a command ----------------------------------------------------------------------------------

    async def snapshot(self) -> FileListing:
        """List what is there, with copies of it."""
        async with self._one_at_a_time:
            return await asyncio.to_thread(self._look, self._held())

    async def compare(
        self, before: FileListing, made: set[str], after: FileListing | None = None
    ) -> tuple[Judge, list[Lost]]:
        """Judge what happened since, or until `after`, and tell what counts as lost."""
        async with self._one_at_a_time:
            return await asyncio.to_thread(self._compare, before, made, after)

    def _look(self, held: Collection[str]) -> FileListing:
        listing = self._list()
        self._copies.update(listing, COPYING_SECONDS, held)
        return listing

    def _list(self) -> FileListing:
        return self._lister.scan(self._reach.writable, self._reach.closed)

    def _compare(self, before: FileListing, made: set[str], after: FileListing | None) -> tuple[Judge, list[Lost]]:
        judge = Judge(before, after or self._list(), self._copies, made)
        return judge, judge.lost()

    def covers(self, listing: FileListing, path: str) -> bool:
        """True for a file of which there is a copy."""
        found = listing.files.get(path)
        return found is not None and self._copies.has(found)

    def forget(self) -> None:
        self._copies.forget()

    # --- putting back ------------------------------------------------------------------------------------------------

    async def hold_back(self, lost: Sequence[Lost]) -> list[HeldBack]:
        """Note what putting back, and carrying out later, need, of what can be put back; nothing is changed yet."""
        return await asyncio.to_thread(self._hold_back, lost)

    def _hold_back(self, lost: Sequence[Lost]) -> list[HeldBack]:
        held = list[HeldBack]()
        for one in lost:
            if one.copy:
                with suppress(OSError, ValueError):  # its copy cannot be read, or no room is left
                    held.append(self._noted(one))
        return held

    def _noted(self, one: Lost) -> HeldBack:
        top, was = self._top(one.path), self._copies.state(one.copy)
        left = "" if one.left is None else places.state(top, one.path)
        if left and not left.startswith("link:"):
            self._copies.keep(places.content(top, one.path) or b"", left)
        return HeldBack(one.path, one.copy, was, left)

    async def put_back(self, held: Iterable[HeldBack]) -> list[str]:
        """Restore what was noted; the paths that could not be."""
        return await asyncio.to_thread(self.put_back_now, list(held))

    def put_back_now(self, held: Iterable[HeldBack]) -> list[str]:
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

    def _top(self, path: str) -> str:
        tops: list[str] = [os.path.realpath(one) for one in self._reach.writable]
        return max((one for one in tops if path.startswith(f"{one}/")), key=len)

    # --- carrying out ------------------------------------------------------------------------------------------------

    async def carry_out(self, held: Sequence[HeldBack], command: str, report: Callable[[Effect], None]) -> str:
        """Do what was held back, to files that are as they were; what was done, in words."""
        return await asyncio.to_thread(self._carry_out, held, command, report)

    def _carry_out(self, held: Sequence[HeldBack], command: str, report: Callable[[Effect], None]) -> str:
        done, others = list[str](), list[str]()
        for one in _inner_first(held):
            name = self.name(one.path)
            try:
                self._do(one, name, command, report)
                done += [] if one.is_folder else [name]
            except (OSError, ValueError, ToolError) as error:
                others.append(f"{quoted(name)}: {error}")
        told = f"Done with {len(done)} of {sum(not one.is_folder for one in held)} files."
        return "\n".join([told, *others[:20]])

    def _do(self, one: HeldBack, name: str, command: str, report: Callable[[Effect], None]) -> None:
        if places.state(self._top(one.path), one.path) != one.was:
            raise ToolError("skipped, as it is no longer what the person was shown")
        verb = "changed" if one.left else "deleted"
        effect, undo = Effect("exec", "file", name, f"{name} {verb} by {quoted(command)}"), self._host.get("undo")
        is_file = not one.is_folder and not one.was.startswith("link:")
        undo = undo if is_file and self.is_sayable(one.path) else None
        with undo.watch(effect, report) if undo else nullcontext():
            self._make(one)

    def _make(self, one: HeldBack) -> None:
        """Make a file what the command left of it."""
        top = self._top(one.path)
        if not one.left:
            places.remove(top, one.path, is_folder=one.is_folder)
        elif one.left.startswith("link:"):
            places.make_link(top, one.path, one.left.removeprefix("link:"))
        else:
            with places.folder_of(top, one.path) as (folder, name):
                replace_in(folder, name, self._copies.read(one.left))

    def name(self, path: str) -> str:
        """A path as it is shown: within the workspace, or whole."""
        return path.removeprefix(f"{self.root}/").encode("utf-8", "backslashreplace").decode()

    def goes_far(self, one: Lost) -> bool:
        """True for what goes too far by itself: a file that is cut short, a memory file with more than a few words, a
        repository."""
        is_memory_ = one.size > SMALL and is_memory(self.name(one.path))
        return not one.is_deleted or is_memory_ or one.path.endswith("/.git")

    def is_sayable(self, path: str) -> bool:
        """False for a path that is not text."""
        return path.isprintable() or path.encode("utf-8", "replace").decode() == path

    # --- undo --------------------------------------------------------------------------------------------------------

    async def changes(self, judge: Judge, command: str) -> list[Effect]:
        """Changes of files that were there before, so that /undo can take them back; [] without that plugin."""
        undo = self._host.get("undo")
        if undo is None or not (judge.changes.gone or judge.changes.changed):
            return []
        return await asyncio.to_thread(self._changes, judge, command, undo.keep_copy)

    async def losses(
        self, lost: Iterable[Lost], command: str, keep_copy: Callable[[bytes, str], str], *, are_put_back: bool = False
    ) -> list[Effect]:
        """Losses that stay, or those that will be put back over what a command left, so that /undo can take either
        back."""
        return await asyncio.to_thread(self._losses, list(lost), command, keep_copy, are_put_back)

    def _losses(
        self, lost: Iterable[Lost], command: str, keep_copy: Callable[[bytes, str], str], are_put_back: bool
    ) -> list[Effect]:
        found = list[Effect]()
        for one in lost:
            if one.copy and self.is_sayable(one.path):
                old, now = self._copies.read(one.copy), places.content(self._top(one.path), one.path)
                name, by = self.name(one.path), quoted(command)
                if not are_put_back:
                    text = f"{name} {'deleted' if now is None else 'changed'} by {by}"
                    after = "" if now is None else sha256(now).hexdigest()
                    found.append(Effect("exec", "file", name, text, "done", keep_copy(old, name), after))
                elif now is not None:
                    text = f"{name} put back, which {by} had changed"
                    found.append(
                        Effect("exec", "file", name, text, "done", keep_copy(now, name), sha256(old).hexdigest())
                    )
        return found

    def _changes(self, judge: Judge, command: str, keep_copy: Callable[[bytes, str], str]) -> list[Effect]:
        found = list[Effect]()
        for path, old in judge.altered():
            if len(found) == MOST_CHANGES:
                return [one for one in found if not one.after]  # those that are gone come first
            now = places.content(self._top(path), path)
            if now == old or not self.is_sayable(path):
                continue
            name = self.name(path)
            after = sha256(now).hexdigest() if now is not None else ""
            verb = "changed" if now is not None else "deleted"
            text = f"{name} {verb} by {quoted(command)}"
            found.append(Effect("exec", "file", name, text, "done", keep_copy(old, name), after))
        return found


def _inner_first(held: Iterable[HeldBack]) -> list[HeldBack]:
    """Files, then folders, those within others first: what is in a folder changes its time, and keeps it."""
    all_ = list(held)
    folders = sorted((one for one in all_ if one.is_folder), key=lambda one: one.path, reverse=True)
    return [*(one for one in all_ if not one.is_folder), *folders]
