"""Opens plain files in the folders that are in reach, after every link is resolved.

The opening itself follows no link, so a folder that is swapped for one between check and opening is refused as well.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple


class Reach(NamedTuple):
    """Relative paths begin at `root`, which is read and written; so are the folders of `write`, and those of `read` are
    read. Nothing is opened in `closed`, but in those of the others that are within."""

    root: Path
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    closed: tuple[Path, ...] = ()

    @property
    def writable(self) -> tuple[Path, ...]:
        return (self.root, *self.write)


FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_WAY = FOLDER | getattr(os, "O_PATH", 0)  # a folder on the way need not be readable


def open_beneath(root: str | int, parts: Sequence[str], flags: int) -> int:
    """Open root/parts without following a link at any step. Raises OSError (ELOOP or ENOTDIR at a link, EXDEV for a
    part that isn't one name)."""
    if ".." in parts or "/" in "".join(parts):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    folder = os.open(root, FOLDER) if isinstance(root, str) else os.dup(root)
    if not parts:
        return folder
    try:
        for part in parts[:-1]:
            inner = _step(folder, part, _WAY | os.O_NOFOLLOW)
            os.close(folder)
            folder = inner
        return _step(folder, parts[-1], flags | _PLAIN)
    finally:
        os.close(folder)


def open_folder_beneath(root: str | int, parts: Sequence[str]) -> int:
    return open_beneath(root, parts, os.O_RDONLY | os.O_DIRECTORY)


_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _step(folder: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


class PathError(OSError):
    """A path that cannot be used as asked; the text says why. `look`: a look at the folders around it would help."""

    def __init__(self, text: str, *, look: bool = False) -> None:
        super().__init__(text)
        self.look = look


class PathMissing(PathError, FileNotFoundError):
    """A path to which there is nothing."""


class PathRefused(PathError):
    """A path that must not be used: it leads out of the folder, or to something that is not a plain file."""


def resolve(reach: Reach, path: str, *, for_writing: bool) -> Path:
    """Return the real path of what is to be used; it need not exist. Raises PathRefused with a sentence."""
    place = _locate(reach, path, for_writing)
    target = place.path
    try:
        place.check(path, os.lstat(target), for_writing)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _failed(path, error) from None
    return target


def name_beneath(root: Path, path: str) -> str:
    """The path within the folder that a path leads to, free of links and dots; '' for what is elsewhere."""
    with contextlib.suppress(OSError, ValueError):
        base = os.path.realpath(root)
        name = os.path.relpath(os.path.realpath(os.path.join(base, path)), base)  # noqa: PTH118
        return "" if name.split("/")[0] in ("..", ".") else name
    return ""


def open_for_reading(reach: Reach, path: str) -> BinaryIO:
    """A plain file, checked once more on the opened descriptor."""
    return _locate(reach, path).opened(path)


def open_named(root: Path, name: str) -> BinaryIO:
    """The same by a name that the program made: a link on the way is not followed."""
    return _named(root, name).opened(name)


def open_again(path: str | Path) -> BinaryIO:
    """A plain file by its real path, as it was found earlier: a link that came since is not followed."""
    parts = tuple(os.path.normpath(path).strip("/").split("/"))
    return _Place(Reach(Path("/")), "/", parts, False).opened(os.fspath(path))


@contextlib.contextmanager
def open_folder(reach: Reach, path: str) -> Iterator[int]:
    """The descriptor of a folder that may be listed."""
    place = _locate(reach, path)
    try:
        folder = open_folder_beneath(place.base, place.parts)
    except OSError as error:
        raise _failed(path, error) from None
    try:
        yield folder
    finally:
        os.close(folder)


def place_to_search(reach: Reach, path: str) -> dict[str, Any]:
    """The place of a folder or file for a child process that opens it by itself: `root`, `parts` below it, the file's
    name or "" as `only`; and which `folders` the names of its files must be in, none `closed`."""
    place = _locate(reach, path)
    try:
        is_folder = stat.S_ISDIR(os.lstat(place.path).st_mode)
    except OSError as error:
        raise _failed(path, error) from None
    parts, only = (place.parts, "") if is_folder else (place.parts[:-1], place.parts[-1])
    folders = [*map(str, (*reach.writable, *reach.read))] if place.is_guarded else []
    closed = [*map(str, reach.closed)]
    return {"root": place.base, "parts": parts, "only": only, "folders": folders, "closed": closed}


@contextlib.contextmanager
def open_parent_for_writing(reach: Reach, path: str) -> Iterator[tuple[int, str]]:
    """The opened folder and the name of a file to write; missing folders are made."""
    place = _locate(reach, path, for_writing=True)
    if not place.parts or path.endswith("/"):
        raise PathError(f"{path!r} is a folder, not a file: give the name of a file.")
    with _parent(place, path) as opened:
        yield opened


@contextlib.contextmanager
def open_parent_named(root: Path, name: str) -> Iterator[tuple[int, str]]:
    """The same by a name that the program made: a link on the way is not followed."""
    with _parent(_named(root, name), name) as opened:
        yield opened


@contextlib.contextmanager
def _parent(place: _Place, path: str) -> Iterator[tuple[int, str]]:
    try:
        folder = _made(place.base, place.parts[:-1])
    except OSError as error:
        raise _failed(path, error) from None
    try:
        try:
            found = os.stat(place.parts[-1], dir_fd=folder, follow_symlinks=False)
            place.check(path, found, for_writing=True)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _failed(path, error) from None
        yield folder, place.parts[-1]
    finally:
        os.close(folder)


class _Place(NamedTuple):
    """Names below a folder that is free of links; `is_guarded` where tools write, so that they might have put second
    names of others' files there."""

    reach: Reach
    base: str
    parts: tuple[str, ...]
    is_guarded: bool

    @property
    def path(self) -> Path:
        return Path(self.base, *self.parts)

    def opened(self, path: str) -> BinaryIO:
        try:
            self.check(path, os.lstat(self.path), for_writing=False)  # opening a device may already do something
            descriptor = open_beneath(self.base, self.parts, os.O_RDONLY)
            try:
                self.check(path, os.fstat(descriptor), for_writing=False)
            except PathError:
                os.close(descriptor)
                raise
            return os.fdopen(descriptor, "rb")
        except (OSError, ValueError) as error:
            raise _failed(path, error) from None

    def check(self, path: str, found: os.stat_result, for_writing: bool) -> None:
        """Raises PathError for what is not a plain file, and for one with a name elsewhere."""
        if stat.S_ISDIR(found.st_mode):
            raise PathError(f"{path!r} is a folder, not a file.", look=not for_writing)
        if stat.S_ISLNK(found.st_mode):
            raise PathRefused(f"{path!r} turned into a link while it was opened: refused.")
        if not stat.S_ISREG(found.st_mode):
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "not a file")
            raise PathRefused(f"{path!r} is {kind}: only plain files are used.")
        if for_writing and found.st_nlink > 1:
            raise PathRefused(f"{path!r} has a second name elsewhere (a hard link): write to a copy under a new name.")
        folders = (*self.reach.writable, *self.reach.read)
        if self.is_guarded and not is_all_inside(found, self.parts, folders, self.reach.closed):
            raise PathRefused(
                f"{path!r} has a second name outside of the workspace (a hard link), so it is not read. The person can "
                "put a copy in its place."
            )


def _made(base: str, parts: Sequence[str]) -> int:
    """A folder, opened; those that are missing are made on the way."""
    try:
        return open_folder_beneath(base, parts)
    except FileNotFoundError:
        folder = open_folder_beneath(base, ())
        for part in parts:
            folder = _enter(folder, part)
        return folder


def _enter(folder: int, part: str) -> int:
    """One step down, making the folder when it is missing; the folder above is closed."""
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=folder)
        return open_folder_beneath(folder, (part,))
    finally:
        os.close(folder)


def _named(root: Path, name: str) -> _Place:
    parts = tuple(name.split("/"))
    if {"", ".", ".."}.intersection(parts):
        raise PathRefused(f"{name[:200]!r} is not the name of a file in the workspace.")
    return _Place(Reach(root), os.path.realpath(root), parts, True)


def _locate(reach: Reach, path: str, for_writing: bool = False) -> _Place:
    """The folder of those in reach that holds the path, or the folder of one that is a file, and the names below it,
    free of links at the time of asking."""
    if "\0" in path:
        raise PathRefused(f"the path {path[:80]!r} has a NUL character in it: leave it out.")
    if path.startswith("~"):
        if not path.startswith("~/"):
            raise PathRefused(f"{path[:80]!r}: '~' is not expanded. Give a relative path, like 'notes/today.md'.")
        path = os.path.expanduser(path)  # noqa: PTH111  (a string)
    try:
        real = os.path.realpath(os.path.join(reach.root, path))  # noqa: PTH118  (a string join: no Path to pay for)
    except (OSError, ValueError) as error:
        raise PathRefused(f"{path[:80]!r} is not a usable path: {error}.") from None
    allowed = reach.writable if for_writing else (*reach.writable, *reach.read)
    around = [base for base in map(os.path.realpath, allowed) if _is_in(real, base)]
    closed = max((len(base) for base in map(os.path.realpath, reach.closed) if _is_in(real, base)), default=-1)
    base = max(around, key=len, default="")
    if base and closed >= len(base):
        raise PathRefused(f"{path[:200]!r} belongs to the program (settings, keys, conversations): no tool opens it.")
    if base:
        is_guarded = base in map(os.path.realpath, reach.writable)
        if real == base and os.path.isfile(base):  # noqa: PTH113
            base = os.path.dirname(base)  # noqa: PTH120
        return _Place(reach, base, tuple(real[len(base) :].strip("/").split("/")) if real != base else (), is_guarded)
    is_read = for_writing and any(_is_in(real, os.path.realpath(one)) for one in reach.read)
    where = f"outside the workspace{' and may only be read' if is_read else ''}"
    allow = f"[files] {'write' if for_writing else 'read'} in config.toml"
    raise PathRefused(f"{path[:200]!r} is {where}. The person can add its folder to {allow}.")


def _is_in(path: str, base: str) -> bool:
    return path == base or path.startswith(base.rstrip("/") + "/")


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _failed(path: str, error: OSError | ValueError) -> PathError:
    if isinstance(error, PathError):
        return error
    if not isinstance(error, OSError):
        return PathRefused(f"{path[:80]!r} is not a usable path: {error}.")
    if error.errno == errno.ELOOP:
        return PathRefused(f"{path!r} leads through a link that changed or goes in a circle: refused.")
    if error.errno == errno.ENOTDIR:
        return PathError(f"{path!r} is not in a folder, or not a folder itself.", look=True)
    if error.errno == errno.ENOENT:
        return PathMissing(f"{path!r} does not exist.", look=True)
    return PathError(f"{path[:200]!r} cannot be opened: {(error.strerror or str(error)).lower()}.")


# --- files with several names -----------------------------------------------------------------------------------------

SHARED = frozenset({".git", "node_modules", "site-packages"})
"""Folders that git and package managers fill with second names of what they keep elsewhere."""

LOOKED_THROUGH = 100_000
"""Names that are looked through for those of one file."""


def is_all_inside(
    found: os.stat_result, parts: Iterable[str], folders: Sequence[str | Path], closed: Sequence[str | Path]
) -> bool:
    """True for a file without a name (a hard link) outside of the folders. In those that are SHARED it may have one,
    if everybody may read it and it is none of the `closed` ones."""
    if found.st_nlink == 1 or _names(found, folders, identities(closed)) >= found.st_nlink:
        return True
    is_shared = bool(found.st_mode & stat.S_IROTH) and not SHARED.isdisjoint(parts)
    return is_shared and not _names(found, closed, identities(folders))


def has_name_in(found: os.stat_result, folders: Sequence[str | Path]) -> bool:
    """True for a file with a second name, one of which is in some folders."""
    return found.st_nlink > 1 and _names(found, folders, frozenset()) > 0


def identities(folders: Sequence[str | Path]) -> frozenset[tuple[int, int]]:
    """Device and inode of each folder that is there."""
    found = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            at = Path(folder).stat()
            found.add((at.st_dev, at.st_ino))
    return frozenset(found)


def _names(wanted: os.stat_result, folders: Sequence[str | Path], besides: frozenset[tuple[int, int]]) -> int:
    """The number of names that a file has in some folders, but not in those `besides`."""
    tops = sorted({os.path.realpath(folder) for folder in folders})
    waiting = [one for one in tops if not any(one.startswith(f"{other.rstrip('/')}/") for other in tops)]
    count, left = 0, LOOKED_THROUGH
    while waiting and left > 0:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                left -= 1
                if entry.is_dir(follow_symlinks=False):
                    if not besides or _identity(entry) not in besides:
                        waiting.append(entry.path)
                elif entry.inode() == wanted.st_ino:
                    count += os.path.samestat(entry.stat(follow_symlinks=False), wanted)
    return count


def _identity(entry: os.DirEntry[str]) -> tuple[int, int]:
    found = entry.stat(follow_symlinks=False)
    return found.st_dev, found.st_ino
