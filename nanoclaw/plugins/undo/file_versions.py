"""Versions of files: copies of what was there before a change, named by their SHA-256, and undoing a change.

Which file was which is said by the audit log. A copy is on disk before the file is changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from itertools import takewhile
from pathlib import Path

from nanoclaw.atomic_write import reason, replace_in, write_atomically
from nanoclaw.beneath.paths import open_for_reading, open_parent_for_writing, resolve
from nanoclaw.core.errors import WorkspaceError
from nanoclaw.core.messages import Address, Effect
from nanoclaw.core.plugin import Host, Tx
from nanoclaw.plugins.undo.memory_history import BESIDES, BY_HAND, MemoryHistory, folded, is_memory, outcome, when
from nanoclaw.snapshots.places import remove

LARGEST_BYTES = 10_000_000  # of a larger file no copy is kept


class FileVersions:
    """The versions of one workspace's files, with the copies in a folder of the home: what the plugin makes public.

    Whoever has a transaction open gives it; without one each change makes its own.
    """

    folded, outcome = staticmethod(folded), staticmethod(outcome)

    def __init__(self, host: Host, folder: Path, *, days: int, most_bytes: int) -> None:
        """Limits of age and size of the copies; the oldest are deleted first."""
        self.root, self._reach = host.workspace, host.reach
        self._folder, self.clock, self._records = folder, host.now, host.records
        self._host, self.memory = host, MemoryHistory(self, host.records)
        self._days, self._most_bytes = days, most_bytes
        self._swept: datetime | None = None
        self._bytes = 0  # in copies, since they were last counted

    # --- before and after a change -----------------------------------------------------------------------------------

    def read(self, name: str) -> bytes | None:
        """None for what is not a plain file with one name, or too large to be kept."""
        with suppress(OSError), open_for_reading(self._reach, name) as file:
            found = os.fstat(file.fileno())
            if self._is_there(name) and found.st_nlink == 1 and found.st_size <= LARGEST_BYTES:
                return file.read()
        return None

    def _is_there(self, name: str) -> bool:
        """True while no link leads from the name of a file to another place."""
        return resolve(self._reach, name, for_writing=False) == Path(os.path.realpath(self.root), name)

    def version(self, name: str, sha256_: str | None) -> bytes | None:
        """A file as it was; b"" when there was none, None when no copy is kept."""
        if not sha256_:
            return None if sha256_ is None else b""
        with suppress(OSError):
            content = (self._folder / sha256_).read_bytes()
            return content if sha256(content).hexdigest() == sha256_ else None
        return self.read(name) if self.state(name) == sha256_ else None

    def state(self, name: str) -> str | None:
        """The SHA-256 of a file, '' when there is none, None when it cannot be kept."""
        content = self.read(name)
        if content is not None:
            return sha256(content).hexdigest()
        with suppress(OSError, ValueError):
            return None if os.path.lexists(self.root / name) else ""
        return None

    def keep(self, name: str) -> str | None:
        """The same, with a copy on disk of what is there. Raises WorkspaceError if none can be made."""
        content = self.read(name)
        return self.state(name) if content is None else self.keep_copy(content, name)

    def keep_copy(self, content: bytes, name: str) -> str:
        """Keep what a file said; its SHA-256."""
        try:
            return self._save(content)
        except OSError as error:
            raise WorkspaceError(
                f"{name} was not changed: no copy could be kept, so the change could not be undone ({reason(error)})."
            ) from None

    @contextmanager
    def watch(
        self, effect: Effect, besides: str = "", *, report: Callable[[Effect], None], tx: Tx | None = None
    ) -> Iterator[None]:
        """Keep what the file of an effect is before a change, and of one changed `besides`, and report it with what it
        is after, whatever becomes of the change. Raises WorkspaceError, before anything was changed, if no copy can be
        kept."""
        also = self.of(effect._replace(kind=BESIDES, target=besides), tx=tx) if besides else nullcontext()
        before = self.keep(effect.target) if effect.target else None
        parents = Path(effect.target).parents if before == "" else ()
        missing = [folder for folder in parents if not (self.root / folder).is_dir()]
        try:
            with also:
                yield
        finally:
            after = self._after(effect.target) if before is not None else None
            with suppress(OSError):  # then an empty folder is left by /undo
                for folder in missing if after else ():
                    self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                    self._made(folder).touch()
            report(effect._replace(before=None if after is None else before, after=after))

    def _made(self, folder: Path) -> Path:
        """The mark of a folder that came with a file; its name says none of its words."""
        return self._folder / f"made-{sha256(os.fsencode(folder)).hexdigest()}"

    def _after(self, name: str) -> str | None:
        """For a memory file, a copy of its new state is kept too, so that edits by hand become versions."""
        if is_memory(self.root, name):
            with suppress(WorkspaceError):
                return self.keep(name)
        return self.state(name)

    @contextmanager
    def of(
        self, effect: Effect, besides: str = "", *, conversation: Address | None = None, tx: Tx | None = None
    ) -> Iterator[None]:
        """The same for a change that no turn makes: it goes into the audit log of a conversation, if it changed
        anything."""

        def report(done: Effect) -> None:
            if done.before != done.after:
                effect = done._replace(state="done")
                self._write(tx, partial(self._records.add, effect=effect, at=self.clock(), conversation=conversation))

        with self.watch(effect, besides, report=report, tx=tx):
            yield

    def record(self, tx: Tx, effect: Effect, conversation: Address, turn: int | None = None) -> None:
        """Write a change that no call reported into the audit log: of something else, or by a command."""
        self._records.add(tx, effect._replace(state="done"), self.clock(), conversation, turn or 0)

    # --- taking back -------------------------------------------------------------------------------------------------

    def revert(self, effect: Effect, tx: Tx | None = None) -> None:
        """Put a file back as it was before, and the one that was changed besides, without the folders that came with it
        and are empty. Raises WorkspaceError, and changes nothing, if one is another since or its copy is gone."""
        every = [(one, self.state(one.target)) for one in (effect, *self.memory.besides(effect))]
        for one, now in every:
            if one.before is None:
                raise WorkspaceError(f"{one.target} was too large to be kept, so it cannot be put back.")
            if now not in (one.before, one.after):
                raise WorkspaceError(
                    f"{one.target} was changed by something else since, so its last change ({when(one)}, {one.tool}) "
                    "is not undone. Edit the file itself."
                )
        for one, content in [(one, self._content(one)) for one, now in every if now != one.before]:
            self._put(one.target, content)
        for one, _ in every:
            folders = takewhile(lambda at: self._made(at).exists(), () if one.before else Path(one.target).parents)
            with suppress(OSError):  # there is something in it
                for folder in folders:
                    remove(str(self.root.resolve()), f"{self.root.resolve()}/{folder}", is_folder=True)
            self._write(tx, partial(self._records.mark_undone, effect=one))
            if one.before and (taint := self._host.get("taint")):
                self._write(tx, partial(taint.came_back, one.target, one.before))

    def undo(self, tx: Tx | None = None) -> Effect:
        """Take the last change of a memory file back, also one by hand. Raises WorkspaceError, and changes nothing, if
        there is none or its copy is not kept any more."""
        for effect in [each for each in self.memory.standing() if each.kind != BESIDES][:1]:
            if effect.tool == BY_HAND:
                self.keep(effect.target)  # what was typed can be brought back
                self._put(effect.target, self._content(effect))
                self._write(tx, partial(self._records.add, effect=effect._replace(state="undone"), at=self.clock()))
            else:
                self.revert(effect, tx)
            return effect
        raise WorkspaceError("there is no change of a memory file to undo.")

    def restore(self, effect: Effect, tx: Tx | None = None) -> None:
        """Make a memory file what it was right after a change: a further change."""
        told = f"{effect.target} is again what it was at {when(effect)}"
        content = self._content(effect._replace(before=effect.after))
        with self.of(Effect("/memory restore", "file", effect.target, told), tx=tx):
            self._put(effect.target, content)

    def mentions(self, has_words: Callable[[str], bool]) -> int:
        """Count the copies, and the recent lines about changes, that have the words."""
        logged = [effect.text for effect in self._records.of_files("done", "failed", "undone")]
        return sum(map(has_words, (*logged, *(path.read_text("utf-8", "replace") for path in self._copies()))))

    def forget(self, has_words: Callable[[str], bool]) -> None:
        """Leave out the lines that have the words in all copies, so that the other changes can still be undone. To be
        called while the files still have them."""
        others: dict[str, str] = {}
        for path in self._copies():
            with suppress(FileNotFoundError):
                content = path.read_bytes()
                if (left := _left(content, has_words)) != content:
                    others[path.name] = self._save(left)
                    path.unlink()
        for name in {effect.target for effect in self._records.of_files("done", "failed")}:
            content = self.read(name) or b""
            others[sha256(content).hexdigest()] = sha256(_left(content, has_words)).hexdigest()
        hashes = {old: new for old, new in others.items() if old != new}
        self._host.write_now(partial(self._records.rename, hashes=hashes))

    def _write(self, tx: Tx | None, change: Callable[[Tx], object]) -> None:
        _ = change(tx) if tx else self._host.write_now(change)

    # --- copies ------------------------------------------------------------------------------------------------------

    def _save(self, content: bytes) -> str:
        """Raises OSError."""
        name, now = sha256(content).hexdigest(), self.clock()
        path = self._folder / name
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, content, 0o600)
            self._bytes += len(content)
        os.utime(path, (now.timestamp(), now.timestamp()))
        if self._swept is None or now - self._swept > timedelta(days=1) or self._bytes > self._most_bytes:
            self._sweep(now, name)
        return name

    def _content(self, effect: Effect) -> bytes | None:
        """The file as it was; None when there was none."""
        content = self.version(effect.target, effect.before or "")
        if content is None:
            raise WorkspaceError(
                f"{effect.target} is not put back: its copy from {when(effect)} is no longer kept "
                f"({self._days} days, {self._most_bytes / 1e6:.0f} MB)."
            )
        return content if effect.before else None

    def _put(self, name: str, content: bytes | None) -> None:
        try:
            if not self._is_there(name):
                raise WorkspaceError(f"{name} is not put back: it leads through a link that was not there before.")
            with open_parent_for_writing(self._reach, name) as (folder, file):
                if content is not None:
                    replace_in(folder, file, content)
                else:
                    os.unlink(file, dir_fd=folder)
                    os.fsync(folder)
        except OSError as error:
            raise WorkspaceError(f"{name} is not put back: {reason(error)}.") from None

    def _sweep(self, now: datetime, newest: str) -> None:
        """Drop what is too old or too much."""
        room, oldest = self._most_bytes, (now - timedelta(days=self._days)).timestamp()
        for path, found in sorted(((p, p.stat()) for p in self._copies()), key=lambda each: -each[1].st_mtime_ns):
            room -= found.st_size
            if path.name != newest and (room < 0 or found.st_mtime < oldest):
                path.unlink(missing_ok=True)
                room += found.st_size
        for mark in self._folder.glob("made-*"):
            if mark.stat().st_mtime < oldest:
                mark.unlink(missing_ok=True)
        self._swept, self._bytes = now, self._most_bytes - room

    def _copies(self) -> list[Path]:
        try:
            return [Path(entry.path) for entry in os.scandir(self._folder) if re.fullmatch(r"[0-9a-f]{64}", entry.name)]
        except FileNotFoundError:
            return []


def _left(content: bytes, has_words: Callable[[str], bool]) -> bytes:
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(content[:2], "utf-8")
    try:
        text = content.decode(encoding, "surrogateescape")
    except UnicodeDecodeError:  # half a sign of UTF-16
        text, encoding = content.decode("utf-8", "surrogateescape"), "utf-8"
    return "\n".join(line for line in text.split("\n") if not has_words(line)).encode(encoding, "surrogateescape")
