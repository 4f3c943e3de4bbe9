"""Keeps copies of files that a command must not change, and restores afterwards what it did change: for what can't be
kept from it while it runs."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from nanoclaw import scratch_folders
from nanoclaw.atomic_write import WRITTEN
from nanoclaw.escapes import one_line
from nanoclaw.kept_files import MAY_GO
from nanoclaw.sandbox.protect import MOST_FILE_BYTES, Came, Change, Protected, change, names_in, read_plain, stat_of
from nanoclaw.snapshots.places import KeptFile, folder_of, make_folder, restore

MOST_FILES, MOST_BYTES = 3_000, 32_000_000
"""Of all copies together; of what is more it is only noticed that it changed."""

NAMED = 4
"""Files that are named in a result."""

_MOST_ASIDE, _MOST_NEW = 50, 100
_SETTLED_NS = 100_000_000


class _Kept(NamedTuple):
    """A file, link or folder as it was. `change` is the same as long as nobody changed it; of a file that is too large
    `content` is None. It is `settled` when a later change is sure to be told by `change`."""

    change: Change
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
        self._bytes = 0

    def snapshot(self, protected: Iterable[Protected]) -> Snapshot:
        """Raises OSError if one could not be read."""
        trees, absent = dict[str, _Tree](), list[str]()
        known, self._bytes = _Tree(), 0
        for name in [str(path) for path, kind in protected if kind == "kept"]:
            tree: _Tree = {}
            self._copy(name, tree, known)
            if tree:
                trees[name] = tree
            else:
                absent.append(name)
        self._known = known
        return Snapshot(self, trees, absent)

    def _copy(self, top: str, tree: _Tree, known: _Tree) -> None:
        waiting = [top]
        while waiting:  # a command may nest folders deeper than Python's stack
            path = waiting.pop()
            if (at := stat_of(path)) is None:
                continue
            if (found := self._known.get(path)) is None or not found.settled or found.change != change(at):
                has_room = (
                    len(known) < MOST_FILES and at.st_size <= MOST_FILE_BYTES and self._bytes + at.st_size <= MOST_BYTES
                )
                found = _kept(path, at, reads=has_room)
            self._bytes += len(found.content or b"")
            tree[path] = known[path] = found
            if stat.S_ISDIR(found.mode):
                waiting += (f"{path}/{name}" for name in reversed(names_in(path, MOST_FILES)))


class Snapshot:
    """The state of protected files at one moment."""

    def __init__(self, copies: Copies, trees: dict[str, _Tree], absent: list[str]) -> None:
        self._copies, self._trees, self._absent = copies, trees, absent
        self._done = list[str]()
        self._failed = list[str]()

    @property
    def changes(self) -> frozenset[Change]:
        """Marks of what was there, by which it is known where it was put elsewhere."""
        return frozenset(one.change for tree in self._trees.values() for one in tree.values())

    def put_back(self) -> str:
        """Restore what was changed; a few words about that, '' for nothing. Raises nothing."""
        self._done += [path for path in self._absent if self._put_away(path)]
        for top, tree in self._trees.items():
            place, is_of_git, _ = top.partition("/.git/")
            around = top if top.endswith(f"/{MAY_GO}") else f"{place}/.git" if is_of_git else os.path.dirname(top)
            if os.path.lexists(around):  # else all of it was removed: nothing is left that could be run
                self._put_tree_back(top, tree)
        return self._in_words("put back", self._done, "changed, and could not be put back")

    def put_away(self, new: Iterable[Came]) -> str:
        """Put away what came; a few words about that, '' for nothing. Raises nothing."""
        self._failed = []
        came = [one for one in new if self._put_away(one.path, one.text)]
        said = [f"{path} ({', '.join(map(one_line, taken[:NAMED]))})" if taken else path for path, _, taken in came]
        return self._in_words("put away, as write_file must ask for it", said, "could not be put away")

    def _put_away(self, path: str, text: bytes | None = None) -> bool:
        """Put away what is there, and leave a text in its place; True if there was something that isn't ours."""
        with self._told(path):
            if os.path.lexists(path) and not _is_ours(path):
                self._remove(path)
                if text is not None:
                    restore(self._top_of(path), path, KeptFile(stat.S_IFREG | 0o644, text))
                return True
        return False

    def _put_tree_back(self, top: str, tree: _Tree) -> None:
        new = list[str]()
        for path in [one for one, was in tree.items() if stat.S_ISDIR(was.mode)]:
            with self._told(path):
                if len(new) < _MOST_NEW and (at := stat_of(path)) and stat.S_ISDIR(at.st_mode):
                    there = (f"{path}/{name}" for name in names_in(path, len(tree) + _MOST_NEW))
                    new += [one for one in there if one not in tree]
        if len(new) < _MOST_NEW:
            self._done += [one for one in new if self._put_away(one)]
        else:  # a flood: all of it goes
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

    def _in_words(self, what: str, done: list[str], what_not: str) -> str:
        tops, said = tuple(f"{one}/" for one in self._copies.tops), list[str]()
        for how, paths in ((what, done), (what_not, self._failed)):
            names = [next((one.removeprefix(top) for top in tops if one.startswith(top)), one) for one in paths]
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            said += [f"{how}: {', '.join(names[:NAMED])}{more}"] if paths else []
        return "; ".join(said)

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

    def _top_of(self, path: str) -> str:
        return next(str(one) for one in self._copies.tops if path.startswith(f"{one}/"))

    def _remove(self, path: str) -> None:
        """Put something away, for the person to look at."""
        aside = self._copies.aside
        with folder_of(self._top_of(path), path) as (folder, name), suppress(FileNotFoundError):
            at = os.stat(name, dir_fd=folder, follow_symlinks=False)
            with suppress(OSError):  # it is on another disk
                if aside:
                    aside.mkdir(parents=True, exist_ok=True)
                    kept = sorted(aside.iterdir())
                    for one in kept[: max(0, len(kept) - _MOST_ASIDE + 1)]:
                        scratch_folders.remove(str(one)) if one.is_dir() and not one.is_symlink() else one.unlink()
                    os.rename(name, aside / f"{time.time_ns()}-{name}", src_dir_fd=folder)
                    return
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
    if stat.S_ISDIR(was.mode) or change(at) == was.change:
        return True
    return was.content is not None and _kept(path, at, reads=at.st_size == len(was.content)).content == was.content


def _kept(path: str, at: os.stat_result, *, reads: bool) -> _Kept:
    content: bytes | None = b""
    if stat.S_ISLNK(at.st_mode):
        content = os.fsencode(os.readlink(path))
    elif stat.S_ISREG(at.st_mode):
        content = read_plain(path) if reads else None
    return _Kept(change(at), at.st_mode, content, time.time_ns() - at.st_ctime_ns > _SETTLED_NS)
