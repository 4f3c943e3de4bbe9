"""Keeps copies of files that a command must not change, and restores afterwards what it did change: for what can't be
kept from it while it runs."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nanoclaw import scratch_folders
from nanoclaw.atomic_write import WRITTEN
from nanoclaw.beneath.descriptors import open_folder_beneath
from nanoclaw.escapes import one_line
from nanoclaw.kept_files import MAY_GO
from nanoclaw.sandbox.protect import MOST_FILE_BYTES, Protected, names_in, read_plain, stat_of
from nanoclaw.sandbox.repositories import TakenOut
from nanoclaw.snapshots.places import KeptFile, make_folder, restore

MOST_FILES, MOST_BYTES = 3_000, 32_000_000
"""Of all copies together; of what is more it is only noticed that it changed."""

NAMED = 4
"""Files that are named in a result."""

_MOST_ASIDE, _MOST_NEW, _MOST_OPEN = 50, 100, 200
_SETTLED_NS = 100_000_000


class _Kept(NamedTuple):
    """A file, link or folder as it was. `change` is the same as long as nobody changed it; of a file that is too large
    `content` is None. It is `settled` when a later change is sure to be told by `change`."""

    change: tuple[int, int, int]
    mode: int
    content: bytes | None
    settled: bool


_Tree = dict[str, _Kept]
"""By path: something protected and all below it, outer ones first."""


class Copies:
    """Copies of protected files below some folders, read again only when they have changed. What is taken away when
    something is put back goes to `aside`, a folder that no command sees."""

    def __init__(self, tops: Iterable[Path], aside: Path | None = None) -> None:
        self.tops, self.aside = tuple(tops), aside
        self._known: _Tree = {}
        self._last: dict[str, _Tree] = {}
        self._bytes = 0

    def snapshot(self, protected: Iterable[Protected]) -> Snapshot:
        """Raises OSError if one could not be read."""
        trees, absent, todos = dict[str, _Tree](), list[str](), dict[str, frozenset[str]]()
        known, self._bytes = _Tree(), 0
        around = dict[str, _Held]()
        for path, kind in protected:
            name = str(path)
            if kind == "todo":
                todos[name] = frozenset(_commands(read_plain(name)))
            elif kind == "around" and (at := stat_of(name)) and stat.S_ISDIR(at.st_mode):
                around[name] = _Held(name, at.st_ino, is_open=len(around) < _MOST_OPEN and hasattr(os, "O_PATH"))
            elif kind in ("kept", "named"):
                tree: _Tree = {}
                self._copy(name, tree, known)
                if tree:
                    trees[name] = tree
                elif kind == "named" or os.path.isdir(path.parent):
                    absent.append(name)
                elif name in self._last:  # its folder is gone, and may come again
                    trees[name] = self._last[name]
        self._known, self._last = known, trees
        return Snapshot(self, around, trees, absent, todos)

    def _copy(self, top: str, tree: _Tree, known: _Tree) -> None:
        waiting = [top]
        while waiting:  # a command may nest folders deeper than Python's stack
            path = waiting.pop()
            if (at := stat_of(path)) is None:
                continue
            if (found := self._known.get(path)) is None or not found.settled or found.change != _change(at):
                has_room = (
                    len(known) < MOST_FILES and at.st_size <= MOST_FILE_BYTES and self._bytes + at.st_size <= MOST_BYTES
                )
                found = _kept(path, at, reads=has_room)
            self._bytes += len(found.content or b"")
            tree[path] = known[path] = found
            if stat.S_ISDIR(found.mode):
                waiting += (f"{path}/{name}" for name in reversed(names_in(path, MOST_FILES)))


class _Held:
    """A folder by its number, and open, so that it is known wherever it is put: numbers come again."""

    def __init__(self, path: str, inode: int, *, is_open: bool) -> None:
        self.inode, self.descriptor = inode, -1
        if is_open:
            self.descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


class Snapshot:
    """The state of protected files at one moment."""

    def __init__(
        self,
        copies: Copies,
        around: dict[str, _Held],
        trees: dict[str, _Tree],
        absent: list[str],
        todos: dict[str, frozenset[str]],
    ) -> None:
        self._copies, self._around, self._trees, self._absent, self._todos = copies, around, trees, absent, todos
        self._done = list[str]()
        self._failed = list[str]()

    @property
    def kept(self) -> frozenset[str]:
        """Paths at which what is there is put back, or at which nothing may come."""
        return frozenset((*self._trees, *self._absent))

    def put_back(self) -> str:
        """Restore what was changed; a few words about that, '' for nothing. Raises nothing."""
        for path, held in self._around.items():
            with self._told(path):
                self._put_folder_back(path, held)
        for path in self._absent:
            with self._told(path):
                self._put_away(path, self._done)
        for top, tree in self._trees.items():
            if os.path.lexists(top if top.endswith(f"/{MAY_GO}") else os.path.dirname(top)):
                self._put_tree_back(top, tree)  # else all of it was removed: nothing is left that could be run
        for path, had in self._todos.items():
            with self._told(path):
                if new := set(_commands(read_plain(path))) - had:
                    self._comment(path, new)
                    self._done.append(path)
        told = (("put back", self._done), ("changed, and could not be put back", self._failed))
        return "; ".join(f"{what}: {self._named(some)}" for what, some in told if some)

    def put_away(self, new: Iterable[str]) -> str:
        """Put away what came; a few words about that, '' for nothing. Raises nothing."""
        came, self._failed = list[str](), []
        for path in new:
            with self._told(path):
                self._put_away(path, came)
        told = (("put away, as write_file must ask for it", came), ("could not be put away", self._failed))
        return "; ".join(f"{what}: {self._named(some)}" for what, some in told if some)

    def _put_away(self, path: str, done: list[str]) -> None:
        if os.path.lexists(path) and not _is_ours(path):
            self._remove(path)
            done.append(path)

    def remove_executable(self, found: Iterable[TakenOut]) -> str:
        """Remove what git would run; a few words about that, '' for nothing. Raises nothing."""
        taken, failed = list[str](), list[str]()
        try:
            for path, text, names in found:
                try:
                    self._remove(path)
                    if text is not None:
                        self._rewrite(path, text)
                except OSError:
                    failed.append(path)
                else:
                    named = ", ".join(map(one_line, names[:NAMED]))
                    taken += [f"{path} ({named})" if named else path] if named or text is None else []
        except OSError as error:
            failed.append(str(error.filename or error))
        told = (("removed, as git would run it outside of the sandbox", taken), ("git would still run", failed))
        return "; ".join(f"{what}: {self._named(some)}" for what, some in told if some)

    def _put_folder_back(self, path: str, held: _Held) -> None:
        """Undo that a folder was put elsewhere, or that a link or another repository stands in its place; one that is
        only gone stays so."""
        at = stat_of(path)
        is_other = at is not None and (not stat.S_ISDIR(at.st_mode) or path.endswith("/.git"))
        if (at and (at.st_ino == held.inode or not is_other)) or not os.path.lexists(os.path.dirname(path)):
            return
        before = self._moved_to(path, held)
        if not before and not (at and not stat.S_ISDIR(at.st_mode)):
            return
        with self._folder_of(path) as (folder, name):
            self._keep_aside(folder, name)
            if before:
                with self._folder_of(before) as (source, its_name):
                    os.rename(its_name, name, src_dir_fd=source, dst_dir_fd=folder)
        self._done.append(path)

    def _moved_to(self, path: str, held: _Held) -> str:
        """The place of a folder that was put elsewhere; '' if it is gone."""
        if held.descriptor < 0:
            return ""
        place = os.readlink(f"/proc/self/fd/{held.descriptor}")
        is_there = any(place.startswith(f"{top}/") for top in self._copies.tops) and _inode(place) == held.inode
        return place if is_there else ""

    def _put_tree_back(self, top: str, tree: _Tree) -> None:
        is_flooded = False
        for path, was in tree.items():
            at = None
            with self._told(path):
                at = stat_of(path)
            if not is_flooded and stat.S_ISDIR(was.mode) and at and stat.S_ISDIR(at.st_mode):
                new = [name for name in names_in(path, len(tree) + _MOST_NEW) if f"{path}/{name}" not in tree]
                is_flooded = len(new) >= _MOST_NEW
                for name in new if not is_flooded else ():
                    with self._told(f"{path}/{name}"):
                        self._put_away(f"{path}/{name}", self._done)
        if is_flooded:
            with self._told(top):
                self._remove(top)
                self._done.append(top)
        for path, was in tree.items():
            with self._told(path):
                if not _is_same(was, path) and not _is_ours(path):
                    self._restore(path, was)
                    self._done.append(path)

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError:
            self._failed.append(path)

    def _named(self, paths: list[str]) -> str:
        tops = tuple(f"{one}/" for one in self._copies.tops)
        names = [next((one.removeprefix(top) for top in tops if one.startswith(top)), one) for one in paths]
        return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")

    def _restore(self, path: str, was: _Kept) -> None:
        if was.content is None:
            raise OSError("too large to be kept")
        if stat.S_ISDIR(was.mode):
            if (at := stat_of(path)) and not stat.S_ISDIR(at.st_mode):
                self._remove(path)
            make_folder(self._top_of(path), path, stat.S_IMODE(was.mode), was.change[1])
            return
        if os.path.lexists(path):
            self._remove(path)
        restore(self._top_of(path), path, KeptFile(was.mode, was.content))

    def _remove(self, path: str) -> None:
        with self._folder_of(path) as (folder, name):
            self._keep_aside(folder, name)

    def _comment(self, path: str, new: set[str]) -> None:
        """Take commands out of a list of what git does next."""
        lines = read_plain(path).decode("utf-8", "surrogateescape").splitlines(keepends=True)
        text = "".join(f"# {line}" if line.strip() in new else line for line in lines)
        self._rewrite(path, text.encode("utf-8", "surrogateescape"))

    def _rewrite(self, path: str, text: bytes) -> None:
        restore(self._top_of(path), path, KeptFile(stat.S_IFREG | 0o644, text))

    def _top_of(self, path: str) -> str:
        return next(str(one) for one in self._copies.tops if path.startswith(f"{one}/"))

    @contextmanager
    def _folder_of(self, path: str) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder of a path, and its name there. No link on the way leads it elsewhere."""
        *above, name = path[len(self._top_of(path)) + 1 :].split("/")
        folder = open_folder_beneath(self._top_of(path), above)
        try:
            yield folder, name
        finally:
            os.close(folder)

    def _keep_aside(self, folder: int, name: str) -> None:
        """Put something away, for the person to look at."""
        aside = self._copies.aside
        try:
            at = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if aside:
                aside.mkdir(parents=True, exist_ok=True)
                kept = sorted(aside.iterdir())
                for one in kept[: max(0, len(kept) - _MOST_ASIDE + 1)]:
                    scratch_folders.remove(str(one)) if one.is_dir() and not one.is_symlink() else one.unlink()
                os.rename(name, aside / f"{time.time_ns()}-{name}", src_dir_fd=folder)
                return
        except FileNotFoundError:
            return
        except OSError:
            pass  # on another disk
        if stat.S_ISDIR(at.st_mode):
            scratch_folders.remove(f"/proc/{os.getpid()}/fd/{folder}/{name}")
        else:
            os.unlink(name, dir_fd=folder)


def _is_ours(path: str, deep: int = 3) -> bool:
    """True for what the program's own tools wrote meanwhile, and for a folder with such."""
    at = stat_of(path)
    if at and stat.S_ISDIR(at.st_mode):
        return deep > 0 and any(_is_ours(f"{path}/{name}", deep - 1) for name in names_in(path, _MOST_NEW))
    return at is not None and (at.st_ino, at.st_mtime_ns, at.st_size) in WRITTEN


def _is_same(was: _Kept, path: str) -> bool:
    at = stat_of(path)
    if at is None or at.st_mode != was.mode:
        return False
    if stat.S_ISDIR(was.mode) or _change(at) == was.change:
        return True
    return was.content is not None and _kept(path, at, reads=at.st_size == len(was.content)).content == was.content


def _kept(path: str, at: os.stat_result, *, reads: bool) -> _Kept:
    content: bytes | None = b""
    if stat.S_ISLNK(at.st_mode):
        content = os.fsencode(os.readlink(path))
    elif stat.S_ISREG(at.st_mode):
        content = read_plain(path) if reads else None
    return _Kept(_change(at), at.st_mode, content, time.time_ns() - at.st_ctime_ns > _SETTLED_NS)


def _change(at: os.stat_result) -> tuple[int, int, int]:
    return at.st_ino, at.st_ctime_ns, at.st_size


def _inode(path: str) -> int:
    at = stat_of(path)
    return at.st_ino if at else 0


_COMMAND = re.compile(rb"^[ \t]*((?:exec|x)[ \t].*?)[ \t\r]*$", re.MULTILINE)


def _commands(todo: bytes) -> list[str]:
    return [one.decode("utf-8", "surrogateescape") for one in _COMMAND.findall(todo)]
