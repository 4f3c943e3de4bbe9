"""Finds, in folders that commands change, the files that no command writes, and those of repositories; and what of
such a command made."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from nanoclaw.beneath.paths import is_all_inside, open_beneath
from nanoclaw.kept_files import MAY_GO, NAMES, OWN, is_named, who_runs
from nanoclaw.sandbox.git_config import harmless

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

CLOSED = frozenset({errno.EACCES, errno.EPERM})

MOST_FILE_BYTES = 2_000_000
_MOST_ENTRIES, _MOST_FOLDERS, _MOST_HOOKS, _MOST_INDEX = 10_000, 5_000, 5_000, 50_000_000
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", "site-packages", ".venv", "venv", ".cache", ".tox"})
SETTLED_NS = 100_000_000
"""Age of a change from which a later one is sure to have another time."""


Kind = Literal["kept", "around", "closed"]
"""It must stay as it is, or not come; it is a folder around such, which must stay where it is; it has a name elsewhere
(a hard link), and is nothing to be read."""

Change = tuple[int, int, int]
"""The same as long as nobody changed a file, wherever the folder around it is put."""


class Protected(NamedTuple):
    path: Path
    kind: Kind


class Came(NamedTuple):
    """Something that must not stay as it came to be: a configuration as it may stay without what is `taken`; with None
    it must go."""

    path: str
    text: bytes | None = None
    taken: tuple[str, ...] = ()


class SandboxError(OSError):
    """A command can't be enclosed; its text is a sentence."""


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
    in that order: later ones don't push them out. `links`: files with names elsewhere are found."""

    def __init__(self, folders: Iterable[Path], known: Iterable[str] = (), *, links: bool = False) -> None:
        self._tops = list(map(str, folders))
        below = tuple(f"{top}/" for top in self._tops)
        self._known = dict.fromkeys(one for one in known if one in self._tops or one.startswith(below))
        self._links = links
        self._looks: dict[str, _Look] = {}
        self._own = tuple(f"{self._tops[0]}/{name}" for name in (*OWN, MAY_GO))
        self._elsewhere: dict[tuple[int, int, int], bool] = {}
        self._submodules: dict[str, tuple[Change, bool]] = {}
        self._looking = threading.Lock()

    @property
    def known(self) -> list[str]:
        """Places with something to protect, in the order in which they were found."""
        return list(self._known)

    def find(self) -> tuple[list[Protected], bool]:
        """Find what there is to protect; False if there were more folders than are looked through. Raises SandboxError
        for more than can be protected, and OSError if it could not look."""
        with self._looking:
            is_whole = self._look_through()
            if len(self._known) > MOST_PLACES:
                looks = ((one, self._looks.get(one)) for one in self._known)
                self._known = dict.fromkeys(one for one, look in looks if look and (look.git or look.names))
            if len(self._known) > MOST_PLACES:
                raise SandboxError(_TOO_MANY.format(os.path.dirname([*self._known][-1])))
            found: dict[str, Kind] = dict.fromkeys(self._own, "kept")
            for place in self._known:
                for path, kind in self._to_protect(place):
                    found[path] = "kept" if "kept" in (kind, found.get(path)) else kind
                    if len(found) > MOST_PATHS:
                        raise SandboxError(_TOO_MANY.format(place))
            found.update(dict.fromkeys(self._linked(), "closed") if self._links else {})
            return [Protected(Path(path), kind) for path, kind in found.items()], is_whole

    def came(self, since_ns: int, before: Collection[str], moved: Collection[Change]) -> tuple[list[Came], bool]:
        """Find what a command that began then has made and must not stay, beside paths that were protected before;
        False if not all folders were looked through. A file that is `moved` came from such a path. Raises OSError."""
        with self._looking:
            is_whole, found, done = self._look_through(since_ns), list[Came](), set[str]()
            for place in [one for one in self._looks if one in self._known and not self._is_own(one)]:
                look = self._looks[place]
                new = list[str]()
                for path in (one for name in look.names if (one := f"{place}/{name}") not in before):
                    is_new = (at := found_at(path)) and change(at) not in moved and at.st_ctime_ns >= since_ns
                    new += [path] if is_new and not _only_names_submodules(path) else []
                if look.git == "file" and (named := f"{place}/.git") not in before and _changed(named) >= since_ns:
                    is_away = not self._top_of(os.path.realpath(_named_in(named, "gitdir: ") or "/"))
                    new += [named] if is_away else []  # a repository of others
                found += map(Came, new)
                for git in self._repositories(place) if look.git else ():
                    if git not in done:
                        done.add(git)
                        found += self._of_new(git, since_ns, before, moved)
            return found, is_whole

    def _is_own(self, path: str) -> bool:
        return any(path == one or path.startswith(f"{one}/") for one in self._own)

    def _top_of(self, path: str) -> str:
        """The folder of `folders` around a path; '' for none."""
        return next((top for top in self._tops if path == top or path.startswith(f"{top}/")), "")

    def _look_through(self, since_ns: int = 0) -> bool:
        """Find new places; False if not all folders were looked through. Folders that were changed since some time are,
        how deep they ever lie, and after a command all below a repository with submodules: git works in these."""
        waiting = deque((top, 0, False) for top in self._tops)
        looked, old, looks, is_whole = 0, 0, dict[str, _Look](), True
        for place in self._known:
            if look := self._look(place):
                looks[place] = look
        while waiting:
            if (looked := looked + 1) > LOOKED_THROUGH + (MADE if since_ns else 0):
                is_whole = False
                break
            path, depth, is_all = waiting.popleft()
            if old >= LOOKED_THROUGH and not is_all and _changed(path) < since_ns:
                is_whole = False
                continue
            look = looks.get(path) or self._look(path)
            if look is None:
                continue
            old += 0 < look.change[1] < since_ns
            looks[path] = look
            is_whole = is_whole and look.is_whole
            if look.git or look.names:
                self._known.setdefault(path)
            is_all = is_all or bool(since_ns and look.git and self._has_submodules(path))
            if look.git != "bare" and (depth < DEEP or is_all):
                waiting.extend((f"{path}/{name}", depth + 1, is_all) for name in look.folders)
            elif since_ns:
                waiting.extend((one, depth + 1, False) for one in _made(path, look.folders, since_ns))
            if since_ns:
                others = [f"{path}/{one}" for one in look.others] if is_all else _made(path, look.others, since_ns)
                waiting.extend((one, depth + 1, is_all) for one in others)
        self._looks = looks
        return is_whole

    def _look(self, path: str) -> _Look | None:
        """Look into a folder, again only when it has changed; None if there is none."""
        try:
            at = os.stat(path, follow_symlinks=False)
            known_change = (at.st_ino, at.st_ctime_ns)
            if (known := self._looks.get(path)) and known.change == known_change:
                return known
            with os.scandir(path) as entries:
                there = list(islice(entries, _MOST_ENTRIES + 1))
                seen = {one.name: one.is_dir(follow_symlinks=False) for one in there}
                files = [one for one in there if self._links and not seen[one.name]]
                linked = [one.name for one in files if (found := found_at(one.path)) and found.st_nlink > 1]
        except OSError as error:
            if error.errno in LEADS_NOWHERE | CLOSED:
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
        elif {"objects", "refs"} <= seen.keys() or {"HEAD", "commondir"} <= seen.keys():
            git = "bare"  # or the folder of a working tree whose repository is elsewhere
        inner = [name for name, is_folder in seen.items() if is_folder and name != ".git"]
        folders = tuple(name for name in inner if name not in _SKIPPED | NAMES)
        others = tuple(name for name in inner if name in _SKIPPED | NAMES)
        in_packages = _IN_PACKAGES.search(path, len(self._top_of(path)))
        names = () if in_packages else tuple(one for one in seen if is_named(one))
        settled = time.time_ns() - at.st_ctime_ns > SETTLED_NS
        return _Look(known_change if settled else (0, 0), folders, others, names, git, tuple(linked), is_whole)

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
        parts = path.relative_to(self._top_of(str(path))).parts
        if who := who_runs(parts):
            return who
        for many in range(len(parts)):  # what the configuration of a repository around it names
            place = str(Path(self._top_of(str(path)), *parts[:many]))
            if (look := self._look(place)) and look.git:
                self._looks[place] = look
                if any(kind == "kept" and path.is_relative_to(one) for one, kind in self._to_protect(place)):
                    return "git"
        return ""

    # --- what counts in a place --------------------------------------------------------------------------------------

    def _to_protect(self, place: str) -> Iterator[tuple[str, Kind]]:
        look = self._looks.get(place)
        if look is None or self._is_own(place):
            return
        for name in look.names:
            yield f"{place}/{name}", "kept"
        if look.git == "file":
            yield f"{place}/.git", "kept"
        for git in self._repositories(place) if look.git else ():
            for one in (place, git):  # else its folder could be put elsewhere, and another one in its place
                top = self._top_of(one)
                yield from (
                    (str(folder), "around") for folder in (*Path(one).parents, one) if len(str(folder)) > len(top)
                )
            for path in [f"{git}/{name}" for name in OF_REPOSITORIES]:
                yield path, "kept"
                if os.path.islink(path) and self._top_of(real := os.path.realpath(path)):
                    yield real, "kept"
            for name, key in _NAMED.findall(read_plain(f"{git}/config").decode("utf-8", "replace")):
                value = key.strip('"').replace("\0", "")
                path = os.path.normpath(os.path.join(place if name.lower() == "hookspath" else git, value))
                if self._top_of(path) not in ("", path) and not path.startswith(f"{git}/"):
                    yield path, "kept"

    def _repositories(self, place: str) -> Iterator[str]:
        """Folders that git takes for that of the repository at a place, for those of its configuration, of its working
        trees and of its submodules, whose names may have slashes. Raises OSError if they are too many."""
        git = f"{place}/.git"
        if not os.path.lexists(git):
            git = place
        elif not os.path.isdir(git):
            git = _named_in(git, "gitdir: ")
        waiting, seen = [(git, True)], set[str]()
        for git, is_one in waiting:  # more come meanwhile
            real = os.path.realpath(git)
            if not git or real in seen or not self._top_of(real) or not os.path.isdir(real):
                continue
            seen.add(real)
            if len(waiting) > _MOST_FOLDERS:
                raise OSError(errno.E2BIG, "too many repositories in one", place)
            if is_one or any(os.path.lexists(f"{real}/{part}") for part in ("HEAD", "config", "hooks", "commondir")):
                yield real
                waiting.append((_named_in(f"{real}/commondir"), True))
                waiting += [(f"{real}/worktrees/{name}", True) for name in folders_in(f"{real}/worktrees")]
                waiting += [(f"{real}/modules/{name}", False) for name in folders_in(f"{real}/modules")]
            else:
                waiting += [(f"{real}/{name}", False) for name in folders_in(real)]

    def _has_submodules(self, place: str) -> bool:
        """True if the index of a repository may have some; what is none may be taken for one."""
        git = next(self._repositories(place), "")
        if not (at := found_at(index := f"{git}/index")):
            return False
        known = self._submodules.get(index)
        if known is None or known[0] != change(at):
            data = read_plain(index, _MOST_INDEX)
            known = self._submodules[index] = change(at), len(data) > _MOST_INDEX or bool(_SUBMODULE.search(data))
        return known[1]

    def _of_new(self, git: str, since_ns: int, before: Collection[str], moved: Collection[Change]) -> Iterator[Came]:
        """Find what git would run of a repository, as far as that was not there before."""
        for path in [f"{git}/{name}" for name in ("config", "config.worktree")]:
            if path in before or not (at := found_at(path)) or change(at) in moved:
                continue
            if not stat.S_ISREG(at.st_mode) or at.st_size > MOST_FILE_BYTES:
                yield Came(path)
                continue
            read = read_plain(path).decode("utf-8", "surrogateescape")
            text, taken = harmless(read, lambda where: bool(self._top_of(os.path.realpath(os.path.join(git, where)))))
            if taken:
                yield Came(path, text.encode("utf-8", "surrogateescape"), taken)
        if (hooks := f"{git}/hooks") not in before and (at := found_at(hooks)):
            names = names_in(hooks, _MOST_HOOKS) if stat.S_ISDIR(at.st_mode) else []
            if not stat.S_ISDIR(at.st_mode) or len(names) == _MOST_HOOKS:  # one of the others might be run
                yield Came(hooks)
            else:
                new = [f"{hooks}/{name}" for name in names if not name.endswith(".sample")]
                yield from (Came(one) for one in new if (at := found_at(one)) and change(at) not in moved)
        todo = f"{git}/rebase-merge/git-rebase-todo"
        if _changed(todo) >= since_ns and _RUNS.search(read_plain(todo)):
            yield Came(todo)


_IN_PACKAGES = re.compile(rf"/(?:{'|'.join(map(re.escape, sorted(_SKIPPED)))})(?:/|$)")
"""In what package managers install nobody works: of it only the repositories count."""

_NAMED = re.compile(r"^[ \t]*(hookspath|path)[ \t]*=[ \t]*(.+?)[ \t]*$", re.IGNORECASE | re.MULTILINE)
"""Keys of a configuration of git whose values it runs, or reads as part of itself."""

_SUBMODULE = re.compile(rb"\x00\x00\xe0\x00|link\0\0")
"""In an index: the mode of a submodule, or that further entries are in another file."""

_RUNS = re.compile(rb"(?m)^[ \t]*(?:exec|x)[ \t]")
"""A command in the list of what git does next."""


def change(at: os.stat_result) -> Change:
    return at.st_ino, at.st_ctime_ns, at.st_size


def _named_in(path: str, before: str = "") -> str:
    """A folder that is named in a file, as seen from there; '' for none. A link leads to the file, or is the folder."""
    real = os.path.realpath(path)
    if os.path.isdir(real):
        return real
    read = os.fsdecode(read_plain(real)).rstrip("\r\n")
    is_one = read.startswith(before) and read != before and "\0" not in read
    return os.path.join(os.path.dirname(path), read.removeprefix(before)) if is_one else ""


def _made(path: str, names: Iterable[str], since_ns: int) -> list[str]:
    return [one for one in (f"{path}/{name}" for name in names) if _changed(one) >= since_ns]


def found_at(path: str) -> os.stat_result | None:
    with suppress(OSError):
        return os.stat(path, follow_symlinks=False)
    return None


def _changed(path: str) -> int:
    return at.st_ctime_ns if (at := found_at(path)) else 0


def folders_in(path: str) -> list[str]:
    with suppress(OSError), os.scandir(path) as entries:
        return [one.name for one in islice(entries, _MOST_FOLDERS) if one.is_dir(follow_symlinks=False)]
    return []


def _only_names_submodules(path: str) -> bool:
    """True for a list of submodules that only says where they are, as git makes it by itself."""
    text = read_plain(path) if path.endswith("/.gitmodules") else b""
    return 0 < len(text) < 100_000 and not harmless(text.decode("utf-8", "replace"), bool).taken


def names_in(path: str, most: int) -> list[str]:
    with nothing_there(*CLOSED), os.scandir(path) as entries:
        return sorted(one.name for one in islice(entries, most))
    return []


def read_plain(path: str, most: int = MOST_FILE_BYTES) -> bytes:
    """The content of a file, b'' if there is none; never that of one that a link leads to. Of a larger one a byte more
    than `most`."""
    with nothing_there(*CLOSED, errno.EISDIR), open(path, "rb", opener=_plainly) as file:
        return file.read(most + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    return b""


def _plainly(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def stat_of(path: str) -> os.stat_result | None:
    with nothing_there():
        return os.stat(path, follow_symlinks=False)
    return None


@contextmanager
def nothing_there(*others: int) -> Iterator[None]:
    """Pass over errors that say that there is nothing at a path, and over `others`."""
    try:
        yield
    except OSError as error:
        if error.errno not in LEADS_NOWHERE and error.errno not in others:
            raise


_TOO_MANY = (
    "there are more repositories and settings of editors than can be kept as they are, many of them in {}: "
    "remove or move some"
)


def opened(tops: Sequence[Path], path: Path) -> int:
    """A descriptor opened without following links, so that a mount is where it was meant; -1 if nothing is,
    or a link on the way. Raises OSError if it could not be opened."""
    top = next(one for one in tops if path.is_relative_to(one))
    with nothing_there():
        return open_beneath(str(top), path.relative_to(top).parts, os.O_PATH)
    return -1
