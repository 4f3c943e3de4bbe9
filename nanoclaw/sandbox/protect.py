"""Finds, in folders that commands change, the files that no command writes, and those of repositories."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from nanoclaw.beneath.reach import is_all_inside
from nanoclaw.kept_files import MAY_GO, NAMES, OWN, is_harmless, is_named, who_runs

OF_REPOSITORIES = ("hooks", "config", "config.worktree", "commondir", "info/attributes")
"""The same in the folder of a repository."""

LOOKED_THROUGH, DEEP = 3_000, 12
"""Folders that are looked through for places not known before, and how deep."""

MADE = 10_000
"""Further ones that a command made or changed, wherever they lie."""

MOST_PLACES, MOST_PATHS, MOST_LINKED = 500, 3_000, 40
"""Places with something to protect, what there is to protect in all of them, and files with names elsewhere."""

LEADS_NOWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
"""Errors of a path at which nothing is that a program could open: none there, a link to itself, one too long."""

MOST_FILE_BYTES = 2_000_000
_MOST_ENTRIES, _MOST_FOLDERS = 10_000, 5_000
_MODULES_DEEP = 4
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", "site-packages", ".venv", "venv", ".cache", ".tox"})
_SETTLED_NS = 100_000_000
"""Age of a change from which a later one is sure to have another time."""


Kind = Literal["kept", "named", "around", "todo", "closed"]
"""It must stay as it is; it must, and not come where it is missing with its folder; it is a folder around such, which
must stay where it is; it is a list of what git does next, in which no command must be put; it has a name elsewhere (a
hard link), and is nothing to be read."""


class Protected(NamedTuple):
    path: Path
    kind: Kind


class ProtectedPaths(NamedTuple):
    """`is_whole` is False if there were more folders than are looked through."""

    protected: list[Protected]
    is_whole: bool


class ProtectedPlaces(NamedTuple):
    """The same of the folders that they are in; `new` are paths that came to be there."""

    places: list[str]
    new: list[str]
    is_whole: bool


class TooManyError(Exception):
    """There is more to protect than can be; its text is a sentence."""


class _Look(NamedTuple):
    """Contents of a folder, as far as they count; `others` are folders that are looked into only where they are new.
    `git` is a repository's folder or file in it, or, where it is a bare repository, the folder itself."""

    change: tuple[int, int]
    folders: tuple[str, ...]
    others: tuple[str, ...]
    names: tuple[str, ...]
    git: Literal["", "folder", "file", "bare"]
    linked: tuple[str, ...]
    is_whole: bool


class Search:
    """Finds what to protect below some folders, the first of which is the workspace. Places that were found stay known,
    in that order: later ones don't push them out. `makes`: in repositories what is missing, and would count, is made,
    and files with names elsewhere are found."""

    def __init__(self, folders: Iterable[Path], known: Iterable[str] = (), *, makes: bool) -> None:
        self._tops = list(map(str, folders))
        below = tuple(f"{top}/" for top in self._tops)
        self._known = dict.fromkeys((one for one in known if one in self._tops or one.startswith(below)), True)
        self._makes = makes
        self._looks: dict[str, _Look] = {}
        self._own = tuple(f"{self._tops[0]}/{name}" for name in (*OWN, MAY_GO))
        self._elsewhere: dict[tuple[int, int, int], bool] = {}
        self._looking = threading.Lock()

    @property
    def known(self) -> list[str]:
        """Places with something to protect, in the order in which they were found."""
        return list(self._known)

    def find(self) -> ProtectedPaths:
        """Raises TooManyError, and OSError if it could not look."""
        with self._looking:
            return self._find()

    def places(self, since_ns: int, before: Collection[str]) -> ProtectedPlaces:
        """Places with something to protect when a command that began then has ended, and what came to be there that was
        not to be protected before. Raises OSError."""
        with self._looking:
            is_whole, new = self._look_through(since_ns), list[str]()
            for place in [one for one in self._looks if one in self._known and not self._is_own(one)]:
                look = self._looks[place]
                paths = [f"{place}/{name}" for name in look.names]
                came = [one for one in paths if one not in before and _changed(one) >= since_ns]
                new += (one for one in came if not is_harmless(one, read_plain))
                if came == paths and not self._known[place]:
                    del self._known[place]
            return ProtectedPlaces([one for one in self._known if not self._is_own(one)], new, is_whole)

    def _is_own(self, path: str) -> bool:
        return any(path == one or path.startswith(f"{one}/") for one in self._own)

    def _find(self) -> ProtectedPaths:
        is_whole = self._look_through()
        if len(self._known) > MOST_PLACES:
            self._known = {one: had for one, had in self._known.items() if os.path.lexists(one)}
        if len(self._known) > MOST_PLACES:
            raise TooManyError(_TOO_MANY.format(os.path.dirname([*self._known][-1])))
        found: dict[str, Kind] = dict.fromkeys(self._own, "kept")
        for place in self._known:
            for path, kind in () if self._is_own(place) else self._to_protect(place):
                found[path] = "kept" if "kept" in (kind, found.get(path)) else kind
                if len(found) > MOST_PATHS:
                    raise TooManyError(_TOO_MANY.format(place))
        found.update(dict.fromkeys(self._linked(), "closed") if self._makes else {})
        return ProtectedPaths([Protected(Path(path), kind) for path, kind in found.items()], is_whole)

    def _look_through(self, since_ns: int = 0) -> bool:
        """Find new places; False if not all folders were looked through. Folders that were changed since some time are,
        how deep they ever lie."""
        waiting = deque((top, 0) for top in self._tops)
        looked, old, looks, is_whole = 0, 0, dict[str, _Look](), True
        for place in self._known:
            if look := self._look(place):
                looks[place] = look
        while waiting:
            if (looked := looked + 1) > LOOKED_THROUGH + (MADE if since_ns else 0):
                is_whole = False
                break
            path, depth = waiting.popleft()
            if old >= LOOKED_THROUGH and _changed(path) < since_ns:
                is_whole = False
                continue
            look = looks.get(path) or self._look(path)
            if look is None:
                continue
            old += 0 < look.change[1] < since_ns
            looks[path] = look
            is_whole = is_whole and look.is_whole
            if look.git or look.names:
                self._known[path] = bool(look.git) or self._known.get(path, False)
            if look.git != "bare" and depth < DEEP:
                waiting.extend((f"{path}/{name}", depth + 1) for name in look.folders)
            elif since_ns:
                waiting.extend((one, depth + 1) for one in _made(path, look.folders, since_ns))
            if since_ns:
                waiting.extend((one, depth + 1) for one in _made(path, look.others, since_ns))
        self._looks = looks
        return is_whole

    def _look(self, path: str) -> _Look | None:
        """Look into a folder, again only when it has changed; None if there is none."""
        try:
            at = os.stat(path, follow_symlinks=False)
            change = (at.st_ino, at.st_ctime_ns)
            if (known := self._looks.get(path)) and known.change == change:
                return known
            with os.scandir(path) as entries:
                there = list(islice(entries, _MOST_ENTRIES + 1))
                seen = {one.name: one.is_dir(follow_symlinks=False) for one in there}
                linked = [one.name for one in there if self._makes and not seen[one.name] and _is_linked(one.path)]
        except PermissionError:
            return None
        except OSError as error:
            if error.errno in LEADS_NOWHERE:
                return None
            raise
        is_whole = len(seen) <= _MOST_ENTRIES
        if not is_whole:
            for name in (*NAMES, ".git"):
                with suppress(FileNotFoundError):
                    seen[name] = os.path.isdir(f"{path}/{name}") and os.lstat(f"{path}/{name}") is not None
        git: Literal["", "folder", "file", "bare"] = ""
        if ".git" in seen:
            git = "folder" if seen[".git"] else "file"
        elif _is_repository(seen):
            git = "bare"
        inner = [name for name, is_folder in seen.items() if is_folder and name != ".git"]
        folders = tuple(name for name in inner if name not in _SKIPPED | NAMES)
        others = tuple(name for name in inner if name in _SKIPPED | NAMES)
        top = next(one for one in self._tops if path == one or path.startswith(f"{one}/"))
        names = () if _IN_PACKAGES.search(path, len(top)) else tuple(one for one in seen if is_named(one))
        settled = time.time_ns() - at.st_ctime_ns > _SETTLED_NS
        return _Look(change if settled else (0, 0), folders, others, names, git, tuple(linked), is_whole)

    def _linked(self) -> Iterator[str]:
        """Files with names outside of the folders; of very many only the first ones."""
        found = dict[tuple[int, int, int], list[str]]()
        for path in [f"{folder}/{name}" for folder, look in self._looks.items() for name in look.linked]:
            if at := stat_of(path):
                found.setdefault((at.st_nlink, at.st_ino, at.st_ctime_ns), []).append(path)
        missing = ((key, paths) for key, paths in found.items() if len(paths) < key[0])
        for key, paths in islice(missing, MOST_LINKED):
            if key not in self._elsewhere and (at := stat_of(paths[0])):
                self._elsewhere[key] = not is_all_inside(at, (), self._tops, ())
            yield from paths if self._elsewhere.get(key) else ()

    def who_runs(self, path: Path) -> str:
        """The program that runs a file later, '' for none. `path` is free of links, and in one of the folders; its file
        need not be there. Raises OSError if it could not look."""
        top = next(one for one in self._tops if path.is_relative_to(one))
        parts = path.relative_to(top).parts
        if who := who_runs(parts):
            return who
        for many in range(len(parts)):  # what the configuration of a repository around it names
            place = str(Path(top, *parts[:many]))
            if (look := self._look(place)) and look.git:
                self._looks[place] = look
                if any(kind in ("kept", "named") and path.is_relative_to(one) for one, kind in self._to_protect(place)):
                    return "git"
        return ""

    # --- what counts in a place --------------------------------------------------------------------------------------

    def _to_protect(self, place: str) -> Iterator[tuple[str, Kind]]:
        """Paths, outer ones first."""
        look = self._looks.get(place)
        top = next(one for one in self._tops if place == one or place.startswith(f"{one}/"))
        if look and look.git:  # else its folder could be put elsewhere, and another one in its place
            between = Path(place).relative_to(top).parts
            for many in range(1, len(between) + 1):
                yield str(Path(top, *between[:many])), "around"
        for name in look.names if look else ():
            yield f"{place}/{name}", "kept"
        if look and look.git == "file":
            yield f"{place}/.git", "kept"
        elif look and look.git == "bare":
            yield from self._of_repository(place, place, top)
        elif self._known.get(place, True):  # also of one that is gone, maybe only for now
            yield from self._of_repository(f"{place}/.git", place, top)

    def _of_repository(self, git: str, place: str, top: str, depth: int = 0) -> Iterator[tuple[str, Kind]]:
        yield git, "around"
        config = read_plain(f"{git}/config").decode("utf-8", "replace")
        if self._makes and os.path.isdir(git) and not os.path.islink(git):
            _make(git, has_worktree_config="worktreeconfig" in config.lower())
        for path in [f"{git}/{name}" for name in OF_REPOSITORIES]:
            yield path, "kept"
            if os.path.islink(path) and (real := os.path.realpath(path)).startswith(f"{top}/"):
                yield real, "kept"
        yield f"{git}/rebase-merge/git-rebase-todo", "todo"
        for name, key in _NAMED.findall(config):
            path = os.path.normpath(os.path.join(place if name.lower() == "hookspath" else git, _unquoted(key)))
            if path.startswith(f"{top}/") and not path.startswith(f"{git}/"):
                yield path, "named"
        for name in folders_in(f"{git}/worktrees"):
            yield f"{git}/worktrees", "around"
            yield f"{git}/worktrees/{name}", "around"
            yield f"{git}/worktrees/{name}/commondir", "kept"
            yield f"{git}/worktrees/{name}/config.worktree", "kept"
        yield from self._of_modules(f"{git}/modules", place, top, depth)

    def _of_modules(self, folder: str, place: str, top: str, depth: int) -> Iterator[tuple[str, Kind]]:
        """The same of submodules, whose repositories are in that of the outer one; their names may have slashes."""
        if depth >= _MODULES_DEEP:
            yield folder, "kept"
            return
        for name in folders_in(folder):
            yield folder, "around"
            inner = f"{folder}/{name}"
            if any(os.path.lexists(f"{inner}/{part}") for part in ("HEAD", "config", "hooks")):
                yield from self._of_repository(inner, place, top, depth + 1)
            else:
                yield from self._of_modules(inner, place, top, depth + 1)


_IN_PACKAGES = re.compile(rf"/(?:{'|'.join(map(re.escape, sorted(_SKIPPED)))})(?:/|$)")
"""In what package managers install nobody works: of it only the repositories count."""

_NAMED = re.compile(r"^[ \t]*(hookspath|path)[ \t]*=[ \t]*(.+?)[ \t]*$", re.IGNORECASE | re.MULTILINE)
"""Keys of a configuration of git whose values it runs, or reads as part of itself."""


def _unquoted(value: str) -> str:
    return value.strip('"').replace("\0", "")


def _is_repository(names: Iterable[str]) -> bool:
    """True for the folder of one, or of a working tree of one that is elsewhere."""
    there = set(names)
    return "HEAD" in there and ("commondir" in there or {"objects", "refs"} <= there)


def _made(path: str, names: Iterable[str], since_ns: int) -> list[str]:
    return [one for one in (f"{path}/{name}" for name in names) if _changed(one) >= since_ns]


def found_at(path: str) -> os.stat_result | None:
    with suppress(OSError):
        return os.stat(path, follow_symlinks=False)
    return None


def _changed(path: str) -> int:
    return at.st_ctime_ns if (at := found_at(path)) else 0


def _is_linked(path: str) -> bool:
    return bool((at := found_at(path)) and at.st_nlink > 1)


def _make(git: str, *, has_worktree_config: bool) -> None:
    """Create the files that git would obey as soon as they existed."""
    with suppress(FileExistsError):
        os.mkdir(f"{git}/hooks")
    texts = {"commondir": b".\n"}  # names the folder of the configuration: here, as without it
    if has_worktree_config:
        texts["config.worktree"] = b""
    for name, text in texts.items():
        with suppress(FileExistsError):
            made = os.open(f"{git}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            os.write(made, text)
            os.close(made)


def folders_in(path: str) -> list[str]:
    with suppress(OSError), os.scandir(path) as entries:
        return [one.name for one in islice(entries, _MOST_FOLDERS) if one.is_dir(follow_symlinks=False)]
    return []


def names_in(path: str, most: int) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(one.name for one in islice(entries, most))
    except PermissionError:
        return []
    except OSError as error:
        if error.errno in LEADS_NOWHERE:
            return []
        raise


def read_plain(path: str) -> bytes:
    """The content of a file, b'' if there is none; never that of one that a link leads to."""
    try:
        at = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        return b""
    except OSError as error:
        if error.errno in LEADS_NOWHERE or os.path.islink(path):
            return b""
        raise
    with open(at, "rb") as file:
        return file.read(MOST_FILE_BYTES + 1) if stat.S_ISREG(os.fstat(at).st_mode) else b""


def stat_of(path: str) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=False)
    except OSError as error:
        if error.errno in LEADS_NOWHERE:
            return None
        raise


_TOO_MANY = (
    "there are more repositories and settings of editors than can be kept as they are, many of them in {}: "
    "remove or move some"
)


def opened(tops: Sequence[Path], path: Path) -> int:
    """A descriptor opened without following links, so that a mount is where it was meant; -1 if nothing is,
    or a link on the way. Raises OSError if it could not be opened."""
    top = next(one for one in tops if path.is_relative_to(one))
    at = os.open(top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    parts: Sequence[str] = path.relative_to(top).parts
    for number, name in enumerate(parts, 1):
        try:
            more = 0 if number == len(parts) else os.O_DIRECTORY
            inner = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | more, dir_fd=at)
        except (FileNotFoundError, NotADirectoryError):
            return -1
        finally:
            os.close(at)
        at = inner
    return at
