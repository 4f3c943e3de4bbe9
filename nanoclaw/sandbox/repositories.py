"""Judges the repositories that a command made, before git of the person reads them: what git would run goes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from nanoclaw.sandbox.git_config import harmless
from nanoclaw.sandbox.protect import folders_in, found_at

_CONFIGS = ("config", "config.worktree")
_LARGEST, _LARGEST_INDEX = 1_000_000, 200_000_000
_MOST, _MODULES_DEEP = 5_000, 8
_GITLINK = b"\x00\x00\xe0\x00"
_LONGEST = 4_096
"""Bytes of a path: no file has a longer one. Of a name in an index so much is kept, as each may be the one before and a
letter."""


class TakenOut(NamedTuple):
    """Something that git would run: a file as it may stay, or with None one that must go; and its names for people."""

    path: str
    text: bytes | None
    names: tuple[str, ...] = ()


class MadeRepositories:
    """The repositories below some folders: `read` has the content of a file there, to which no link leads."""

    def __init__(self, tops: Iterable[Path], read: Callable[[str], bytes]) -> None:
        self._tops = tuple(str(one) for one in tops)
        self._read = read
        self._links: dict[str, tuple[tuple[int, int, int], list[str]]] = {}

    def judged(self, places: Iterable[str], kept: Collection[str]) -> Iterator[TakenOut]:
        """Find what must be removed from repositories at some places, and those that they name; no command could change
        what is in `kept`."""
        waiting, seen, done = [*places], set[tuple[str, str]](), set[str]()
        while waiting:
            place = waiting.pop()
            for git in self._of_place(place):
                if (pair := (git, os.path.realpath(place))) in seen:
                    continue
                seen.add(pair)
                waiting += [one for one in self._submodules(git, place) if os.path.lexists(f"{one}/.git")]
                for one in self._with_parts(git, 0):
                    if one not in done:
                        done.add(one)
                        yield from self._of_one(one, kept)
                if len(done) + len(seen) > _MOST:
                    raise OSError("further ones of very many repositories")

    def _of_place(self, place: str) -> Iterator[str]:
        """The folder that git takes for the repository at a place, and that of its configuration."""
        git = f"{place}/.git"
        if not os.path.lexists(git):
            named = place if os.path.lexists(f"{place}/HEAD") else ""
        elif os.path.isdir(git):
            named = git
        else:
            named = self._named(git, b"gitdir: ")
        if named := self._real(named):
            yield named
            if other := self._real(self._named(f"{named}/commondir")):
                yield other

    def _named(self, path: str, before: bytes = b"") -> str:
        """A folder that is named in a file, as seen from there; '' for none."""
        read = self._read(os.path.realpath(path))
        name = os.fsdecode(read.removeprefix(before).rstrip(b"\r\n")) if read.startswith(before) else ""
        return os.path.join(os.path.dirname(path), name) if name else ""

    def _real(self, path: str) -> str:
        """The same without links; '' for what lies where no command writes."""
        if not path or "\0" in path:
            return ""
        with suppress(OSError):
            real = os.path.realpath(path)
            if os.path.isdir(real) and self._is_writable("", real):
                return real
        return ""

    def _is_writable(self, folder: str, path: str) -> bool:
        """True for a path, as seen from a folder, that lies where commands write."""
        real = os.path.realpath(os.path.join(folder, path))
        return any(real == top or real.startswith(f"{top}/") for top in self._tops)

    def _with_parts(self, git: str, depth: int) -> Iterator[str]:
        """A repository, its working trees, and those of its submodules."""
        yield git
        for name in folders_in(f"{git}/worktrees"):
            yield f"{git}/worktrees/{name}"
        if depth < _MODULES_DEEP:
            yield from self._modules(f"{git}/modules", depth + 1)

    def _modules(self, folder: str, depth: int) -> Iterator[str]:
        for name in folders_in(folder):
            inner = f"{folder}/{name}"
            if any(os.path.lexists(f"{inner}/{part}") for part in ("HEAD", "config", "hooks", "commondir")):
                yield from self._with_parts(inner, depth)
            elif depth < _MODULES_DEEP:
                yield from self._modules(inner, depth + 1)

    # --- submodules --------------------------------------------------------------------------------------------------

    def _submodules(self, git: str, place: str) -> list[str]:
        """Folders that the index of a repository has as submodules, however deep they lie."""
        found = list[str]()
        with suppress(OSError), os.scandir(git) as entries:
            for one in islice(entries, 10_000):
                if (one.name == "index" or one.name.startswith("sharedindex.")) and one.is_file(follow_symlinks=True):
                    found += [f"{place}/{name}" for name in self._gitlinks(os.path.realpath(one.path))]
        return found

    def _gitlinks(self, index: str) -> list[str]:
        at = os.stat(index)
        change = (at.st_ino, at.st_ctime_ns, at.st_size)
        known = self._links.get(index)
        if known is None or known[0] != change:
            data = b""
            if at.st_size <= _LARGEST_INDEX:
                with open(os.open(index, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                    data = file.read()
            known = self._links[index] = change, gitlinks(data)
        return known[1]

    # --- one of them -------------------------------------------------------------------------------------------------

    def _of_one(self, git: str, kept: Collection[str]) -> Iterator[TakenOut]:
        for name in _CONFIGS:
            path = f"{git}/{name}"
            if path not in kept and (at := found_at(path)):
                yield from self._of_config(path, at)
        hooks = f"{git}/hooks"
        if hooks not in kept and (at := found_at(hooks)):
            if not stat.S_ISDIR(at.st_mode):
                yield TakenOut(hooks, None)
                return
            with os.scandir(hooks) as entries:
                names = [one.name for one in islice(entries, _MOST + 1)]
            if len(names) > _MOST:  # one of the others might be run
                yield TakenOut(hooks, None)
                return
            yield from (TakenOut(f"{hooks}/{name}", None) for name in names if not name.endswith(".sample"))

    def _of_config(self, path: str, at: os.stat_result) -> Iterator[TakenOut]:
        if not stat.S_ISREG(at.st_mode) or at.st_size > _LARGEST:
            yield TakenOut(path, None)
            return
        read = self._read(path).decode("utf-8", "surrogateescape")
        text, taken = harmless(read, partial(self._is_writable, os.path.dirname(path)))
        if text != read:
            yield TakenOut(path, text.encode("utf-8", "surrogateescape"), taken)


def gitlinks(index: bytes) -> list[str]:
    """Paths of submodules in an index of git, which doesn't say how long its hashes are: what is none may be among
    them."""
    if index[:4] != b"DIRC" or _GITLINK not in index:
        return []
    return [*dict.fromkeys((*_gitlinks(index, 20), *_gitlinks(index, 32)))]


def _gitlinks(index: bytes, hash_bytes: int) -> list[str]:
    version, many = int.from_bytes(index[4:8], "big"), int.from_bytes(index[8:12], "big")
    found, at, name, length = list[str](), 12, b"", 0
    for _ in range(many):
        fixed = at + 40 + hash_bytes
        flags = int.from_bytes(index[fixed : fixed + 2], "big")
        begin = fixed + (4 if version >= 3 and flags & 0x4000 else 2)
        if version >= 4:  # without what it has in common with the one before
            cut, begin = _number(index, begin)
            end = index.find(b"\0", begin)
            same = max(0, length - cut)
            length = same + max(0, end - begin)
            name = (name[:same] + index[begin : min(end, begin + _LONGEST)])[:_LONGEST]
            following = end + 1
        else:
            end = index.find(b"\0", begin)
            name = index[begin:end]
            following = at + ((end - at + 8) & ~7)
        if end < begin:
            break
        if index[at + 24 : at + 28] == _GITLINK:
            found.append(os.fsdecode(name))  # of a hostile one it may be anything
        at = following
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number as git packs it, and the place behind it."""
    value = data[at] & 0x7F if at < len(data) else 0
    while at < len(data) and data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F if at < len(data) else 0)
    return value, at + 1
