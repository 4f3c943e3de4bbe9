"""Judges by the disk what a command took away: files that are gone, or have less than half of what they had."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from contextlib import suppress
from functools import cached_property
from hashlib import sha1
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

from nanoclaw.beneath.paths import open_again
from nanoclaw.snapshots.copies import FileCopies, name_of
from nanoclaw.snapshots.listing import FileListing, changes, identity

SMALL = 200  # bytes of a file that may be written anew without asking
_REMADE_WORDS = (
    "node_modules __pycache__ .venv venv .tox .nox .pytest_cache .mypy_cache .ruff_cache .next .nuxt .gradle"
    " .parcel-cache .turbo .eggs .ipynb_checkpoints bower_components .cache .tmp tmp .git"
)
_REMADE = frozenset(_REMADE_WORDS.split())
"""Folders that tools make again, and git's own."""
_BUILT_WORDS = "build dist target out coverage htmlcov bin obj _build site _site"
_BUILT = frozenset(_BUILT_WORDS.split())
_BUILDS = frozenset(
    {
        *("package.json", "pyproject.toml", "setup.py", "setup.cfg", "Cargo.toml", "pom.xml", "build.gradle"),
        *("build.gradle.kts", "CMakeLists.txt", "Makefile", "go.mod", "tsconfig.json", "dune-project"),
        *("mkdocs.yml", "_config.yml", "conf.py"),
    }
)
"""A folder called like the first is made again where one of these is beside it."""
_BUILT_FILES = (".pyc", ".pyo", ".o", ".obj", ".class", ".a", ".d", ".lo", ".gcda", ".gcno", ".rlib", ".rmeta")
_LOCKS = frozenset(
    {"package-lock.json", "yarn.lock", "pnpm-lock.yaml", "poetry.lock", "uv.lock", "Cargo.lock", "go.sum"}
)
_PROGRAMS = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"!<arch>\n")
WATCHED = ("HEAD", "index", "logs/HEAD")
"""Files of a repository that say whether git did something in it."""
_PACKED = (".gz", ".xz", ".bz2", ".zst", ".lz4", ".Z")


class Lost(NamedTuple):
    """A file of the workspace that a command took away (`left` is None), or left less of. `copy` is the name of its
    copy; '' if there is none. One that `is_cut` had more than a few words, and has less than half of them."""

    path: str
    left: int | None
    copy: str
    is_cut: bool = False


def is_remade(name: str, beside: Collection[str]) -> bool:
    """True for a folder that isn't looked into: tools make it again."""
    return name in _REMADE or (name in _BUILT and not _BUILDS.isdisjoint(beside))


def is_in_remade(path: str, root: Path) -> bool:
    """True for a file that tools make again, as the folders above it tell; not those above the workspace."""
    if path.endswith(_BUILT_FILES):
        return True
    for one in Path(path).parents:
        if one == root:
            return False
        built = one.name in _BUILT and any((one.parent / name).exists() for name in _BUILDS)
        if built or (one.name in _REMADE and one.name != ".git"):
            return True
    return False


def shrinks(old: int, new: int) -> bool:
    """True if a file of `old` bytes loses more than half."""
    return new * 2 < old


class Losses(NamedTuple):
    """Losses by a command: those that count, and what is put back with them (links and folders that are gone,
    files moved over others). `altered` is all that is gone or another by now, counted or not, what is gone first."""

    lost: list[Lost]
    beside: list[Lost]
    altered: list[Lost]


class Judge:
    """Compare two listings. `made` are files that are not older than the turn: they don't count, and
    those that come are added."""

    def __init__(self, before: FileListing, after: FileListing, copies: FileCopies, made: set[str]) -> None:
        self._before, self._after, self._copies, self._made = before, after, copies, made

    def losses(self) -> Losses:
        """The outer paths come first."""
        gone, changed, new = changes(self._before, self._after)
        own = {path for path in gone if path in self._made}
        was, now = self._before.files, self._after.files
        cut = [path for path in changed if path not in self._made and _is_cut(was[path], now[path])]
        candidates = [path for path in gone if path not in own and stat.S_ISREG(was[path].st_mode)]
        moved = self._moved([*candidates, *cut, *own], [*new, *changed]) if candidates or cut or own else {}
        self._made -= own
        places, of_own = {*moved.values()}, {moved[one] for one in own if one in moved}
        self._made |= {path for path in new if path not in places or path in of_own}
        left = [path for path in (*candidates, *cut) if path not in moved and not self._is_remade(path)]
        lost = [self._lost(path) for path in sorted(left, key=lambda one: (one.count("/"), one))]
        beside = list[Lost]()
        if lost:
            over = [path for path, place in moved.items() if place in left and path not in now]
            links = [path for path in gone if path not in own and stat.S_ISLNK(was[path].st_mode)]
            there = self._moved(links, new) if links else {}
            links = [path for path in links if path not in there]
            beside = [one for one in map(self._lost, (*over, *links)) if one.copy] + self._folders()
        repositories = [Lost(path, None, "") for path in self._repositories()]
        altered = [self._lost(path) for path in (*gone, *changed) if self._says_other(path)]
        return Losses([*repositories, *lost], beside, altered)

    def _folders(self) -> list[Lost]:
        """Folders that are gone, and not elsewhere by now."""
        was, now = self._before.folders, self._after.folders
        tops = tuple(f"{one}/" for one in self._before.tops if one in self._after.tops)
        here = {identity(one) for path, one in now.items() if path not in was}
        gone = {path: one for path, one in was.items() if path not in now and path.startswith(tops)}
        return [Lost(path, None, name_of(one)) for path, one in gone.items() if identity(one) not in here]

    def _repositories(self) -> list[str]:
        """Repositories that are gone, of which there are no copies."""
        was, now = (
            {path: identity(one) for path, one in each.marks.items() if path.endswith("/.git/HEAD")}
            for each in (self._before, self._after)
        )
        here, older = {*now.values()}, {*was.values()}
        gone = [path for path, one in was.items() if path not in now and path not in self._made and one not in here]
        self._made |= {path for path, one in now.items() if path not in was and one not in older}
        return [path.removesuffix("/HEAD") for path in gone]

    def _says_other(self, path: str) -> bool:
        """True for a file that is gone or another by now, not only in its rights."""
        old, new = self._before.files[path], self._after.files.get(path)
        is_same = new and (old.st_mtime_ns, old.st_size, old.st_ino) == (new.st_mtime_ns, new.st_size, new.st_ino)
        return stat.S_ISREG(old.st_mode) and not is_same

    def _lost(self, path: str) -> Lost:
        found, left = self._before.files[path], self._after.files.get(path)
        copy = name_of(found) if self._copies.has(found) else ""
        return Lost(path, left.st_size if left else None, copy, is_cut=left is not None and found.st_size > SMALL)

    def _moved(self, lost: list[str], places: list[str]) -> dict[str, str]:
        """Files whose content exists elsewhere, and where: under another name, in a copy, or packed."""
        was, now, found = self._before.files, self._after.files, dict[str, str]()
        inodes = {identity(one): path for path, one in now.items()}
        for path in lost:
            place = inodes.get(identity(was[path]), path)
            if place != path and not shrinks(was[path].st_size, now[place].st_size):
                found[path] = place
        by_size: dict[int, list[str]] = {}
        for path in set(places).difference(found.values()):
            by_size.setdefault(now[path].st_size, []).append(path)
        for path in lost:
            if path in found:
                continue
            if packed := next((f"{path}{end}" for end in _PACKED if f"{path}{end}" in now), ""):
                if packed not in was:
                    found[path] = packed
                continue
            alike = by_size.get(was[path].st_size, [])
            if alike and (content := self._content(path)) is not None:
                place = next((one for one in alike if one != path and _read(one) == content), "")
                if place:
                    found[path] = place
                    alike.remove(place)
        return found

    def _is_remade(self, path: str) -> bool:
        """True for what programs make again, and for what git still has where it did something meanwhile."""
        name = path.rpartition("/")[2]
        if name.endswith(_BUILT_FILES) or (name in _LOCKS and path in self._after.files):
            return True
        if (content := self._content(path)) is None:
            return False
        moved_on = (one for one in self._moved_on if path.startswith(f"{one}/"))
        return content.startswith(_PROGRAMS) or any(_has_blob(f"{one}/.git", content) for one in moved_on)

    @cached_property
    def _moved_on(self) -> set[str]:
        """Folders in which git did something."""
        now, was = self._after.marks, self._before.marks.items()
        there = ((path, one.st_ctime_ns, now[path].st_ctime_ns) for path, one in was if path in now)
        return {path.rpartition("/.git/")[0] for path, old, new in there if old != new}

    def _content(self, path: str) -> bytes | None:
        found = self._before.files[path]
        if not self._copies.has(found):
            return None
        with suppress(OSError):
            return self._copies.read(name_of(found))
        return None


def _is_cut(was: os.stat_result, now: os.stat_result) -> bool:
    """True for a file that is another one by now, with much less in it."""
    if not stat.S_ISREG(was.st_mode):
        return False
    return shrinks(was.st_size, now.st_size if stat.S_ISREG(now.st_mode) else 0)


def _has_blob(git: str, content: bytes) -> bool:
    """True if a repository has a content among its objects. Git isn't asked: a repository's settings can have it run
    programs."""
    name = sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    objects = Path(os.path.realpath(git), "objects")
    return (objects / name[:2] / name[2:]).is_file() or any(
        _has_name(one, bytes.fromhex(name)) for one in objects.glob("pack/*.idx")
    )


def _has_name(index: Path, name: bytes) -> bool:
    """True if the index of a pack has an object's name."""
    with suppress(OSError, ValueError), open_again(index) as file, mmap(file.fileno(), 0, access=ACCESS_READ) as names:
        return names.find(name) >= 0
    return False


def _read(path: str) -> bytes | None:
    with suppress(OSError), open_again(path) as file:
        return file.read()
    return None
