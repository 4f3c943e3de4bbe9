"""Opens plain files inside one folder, after every link is resolved.

Opening goes step by step through descriptors, so a folder that is swapped for a link between the check and the opening
is refused as well.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from nanoclaw.beneath.walk import open_beneath, open_folder_beneath


class PathError(OSError):
    """A path that cannot be used as asked; the text says why. `look`: a look at the folders around it would help."""

    def __init__(self, text: str, *, look: bool = False) -> None:
        super().__init__(text)
        self.look = look


class PathRefused(PathError):
    """A path that must not be used: it leads out of the folder, or to something that is no plain file."""


def resolve(root: Path, path: str, *, for_writing: bool, read_roots: Sequence[Path] = ()) -> Path:
    """Return the real path of what is to be used; it need not exist. Raises PathRefused with a sentence."""
    base, parts = _locate(root, path, () if for_writing else read_roots)
    target = Path(base, *parts)
    try:
        _check_kind(path, os.lstat(target), for_writing)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _failed(path, error) from None
    return target


def name_beneath(root: Path, path: str) -> str:
    """The path within the folder that a path leads to, free of links and dots; '' for what lies elsewhere."""
    with contextlib.suppress(OSError, ValueError):
        base = os.path.realpath(root)
        name = os.path.relpath(os.path.realpath(os.path.join(base, path)), base)  # noqa: PTH118
        return "" if name.split("/")[0] in ("..", ".") else name
    return ""


def open_for_reading(root: Path, path: str, read_roots: Sequence[Path] = ()) -> BinaryIO:
    """A plain file, checked once more on the opened descriptor."""
    base, parts = _locate(root, path, read_roots)
    try:
        _check_kind(path, os.lstat(Path(base, *parts)), for_writing=False)  # opening a device may already do something
        descriptor = open_beneath(base, parts, os.O_RDONLY)
        try:
            _check_kind(path, os.fstat(descriptor), for_writing=False)
        except PathError:
            os.close(descriptor)
            raise
        return os.fdopen(descriptor, "rb")
    except OSError as error:
        raise _failed(path, error) from None


@contextlib.contextmanager
def open_folder(root: Path, path: str, read_roots: Sequence[Path] = ()) -> Iterator[int]:
    """The descriptor of a folder that may be listed."""
    base, parts = _locate(root, path, read_roots)
    try:
        folder = open_folder_beneath(base, parts)
    except OSError as error:
        raise _failed(path, error) from None
    try:
        yield folder
    finally:
        os.close(folder)


def place_to_search(root: Path, path: str, read_roots: Sequence[Path] = ()) -> tuple[str, tuple[str, ...], str]:
    """Real root, names of folders below it, and a file's name or "": for a child process that opens it by itself."""
    base, parts = _locate(root, path, read_roots)
    try:
        is_folder = stat.S_ISDIR(os.lstat(Path(base, *parts)).st_mode)
    except OSError as error:
        raise _failed(path, error) from None
    return (base, parts, "") if is_folder else (base, parts[:-1], parts[-1])


@contextlib.contextmanager
def open_parent_for_writing(root: Path, path: str) -> Iterator[tuple[int, str]]:
    """The opened folder and the name of a file to write; missing folders are made."""
    base, parts = _locate(root, path, ())
    if not parts or path.endswith("/"):
        raise PathError(f"{path!r} is a folder, not a file: give the name of a file.")
    try:
        folder = open_folder_beneath(base, ())
        for part in parts[:-1]:
            folder = _enter(folder, part)
    except OSError as error:
        raise _failed(path, error) from None
    try:
        try:
            _check_kind(path, os.stat(parts[-1], dir_fd=folder, follow_symlinks=False), for_writing=True)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _failed(path, error) from None
        yield folder, parts[-1]
    finally:
        os.close(folder)


def _enter(folder: int, part: str) -> int:
    """One step down, making the folder when it is missing; the folder above is closed."""
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=folder)
        return open_folder_beneath(folder, (part,))
    finally:
        os.close(folder)


def _locate(root: Path, path: str, read_roots: Sequence[Path]) -> tuple[str, tuple[str, ...]]:
    """The allowed root that holds the path, or the folder of one that is a file, and the names below it, free of links
    at the time of asking."""
    if "\0" in path:
        raise PathRefused(f"the path {path[:80]!r} has a NUL character in it: leave it out.")
    if path.startswith("~"):
        raise PathRefused(f"{path[:80]!r}: '~' is not expanded. Give a relative path, like 'notes/today.md'.")
    try:
        real = os.path.realpath(os.path.join(root, path))  # noqa: PTH118  (a string join: no Path to pay for)
    except (OSError, ValueError) as error:
        raise PathRefused(f"{path[:80]!r} is not a usable path: {error}.") from None
    for allowed in (root, *read_roots):
        base = os.path.realpath(allowed)
        if real == base:
            folder, _, name = base.rpartition("/")
            return (folder or "/", (name,)) if os.path.isfile(base) else (base, ())  # noqa: PTH113
        if real.startswith(base.rstrip("/") + "/"):
            return base, tuple(real[len(base) :].strip("/").split("/"))
    raise PathRefused(f"{path[:200]!r} is outside the workspace. Give a relative path inside it.")


def _check_kind(path: str, found: os.stat_result, for_writing: bool) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise PathError(f"{path!r} is a folder, not a file.", look=not for_writing)
    if stat.S_ISLNK(found.st_mode):
        raise PathRefused(f"{path!r} turned into a link while it was opened: refused.")
    if not stat.S_ISREG(found.st_mode):
        raise PathRefused(
            f"{path!r} is {_KINDS.get(stat.S_IFMT(found.st_mode), 'not a file')}: only plain files are used."
        )
    if for_writing and found.st_nlink > 1:
        raise PathRefused(
            f"{path!r} has a second name elsewhere (a hard link): write to a copy of it under a new name."
        )


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _failed(path: str, error: OSError) -> PathError:
    if isinstance(error, PathError):
        return error
    if error.errno == errno.ELOOP:
        return PathRefused(f"{path!r} leads through a link that changed or goes in a circle: refused.")
    if error.errno == errno.ENOTDIR:
        return PathError(f"{path!r} is not in a folder, or not a folder itself.", look=True)
    if error.errno == errno.ENOENT:
        return PathError(f"{path!r} does not exist.", look=True)
    return PathError(f"{path[:200]!r} cannot be opened: {(error.strerror or str(error)).lower()}.")
