"""Changes files below a folder; no link on the way leads elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256

from nanoclaw.beneath.paths import open_beneath, open_folder_beneath
from nanoclaw.named_tuple import NamedTuple

FOLDER = "folder"
"""The state of each folder."""


def content(top: str, path: str) -> bytes | None:
    """The content of a plain file; None if there is none. Raises OSError."""
    try:
        at = open_beneath(top, path[len(top) + 1 :].split("/"), os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(at, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(at).st_mode) else None


def state(top: str, path: str) -> str:
    """The SHA-256 of a plain file, "link:" and the place that a link names, FOLDER for a folder, '' if there is
    nothing. Raises OSError."""
    if os.path.islink(path):
        return f"link:{os.readlink(path)}"
    if os.path.isdir(path):
        return FOLDER
    found = content(top, path)
    return "" if found is None else sha256(found).hexdigest()


class KeptFile(NamedTuple):
    """A file or link as it was: its mode, and its content or the place that it names."""

    mode: int
    content: bytes


def restore(top: str, path: str, was: KeptFile, changed_ns: int | None = None) -> None:
    """Make a file or link what it was: whole or not at all. A folder in its way gets another name. Raises OSError."""
    if not (stat.S_ISREG(was.mode) or stat.S_ISLNK(was.mode)):
        raise OSError("it is not a plain file")
    with folder_of(top, path) as (folder, name):
        draft = f".{name[:100]}.{os.urandom(4).hex()}"
        if stat.S_ISLNK(was.mode):
            os.symlink(was.content, draft, dir_fd=folder)
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as file:
                file.write(was.content)
                os.fchmod(file.fileno(), stat.S_IMODE(was.mode) & 0o1777)
        if changed_ns is not None:
            os.utime(draft, ns=(changed_ns, changed_ns), dir_fd=folder, follow_symlinks=False)
        out_of_the_way(folder, name, folders_only=True)
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


def make_folder(top: str, path: str, mode: int, changed_ns: int) -> None:
    """Make a folder, where it is missing, and give it its rights and its time. Raises OSError."""
    with folder_of(top, f"{path}/.") as (folder, _):
        os.fchmod(folder, mode)
        os.utime(folder, ns=(changed_ns, changed_ns))


def remove(top: str, path: str, *, is_folder: bool = False) -> None:
    """Delete a file, or a folder that is empty. Raises OSError."""
    *above, name = path[len(top) + 1 :].split("/")
    folder = open_folder_beneath(top, above)
    try:
        (os.rmdir if is_folder else os.unlink)(name, dir_fd=folder)
    finally:
        os.close(folder)


@contextmanager
def folder_of(top: str, path: str) -> Iterator[tuple[int, str]]:
    """A descriptor of the folder of a path, and its name there. No link leads it elsewhere. Folders that are missing
    are made, and are nobody else's at first."""
    *above, name = path[len(top) + 1 :].split("/")
    try:
        folder = open_folder_beneath(top, above)
    except OSError:
        folder = open_folder_beneath(top, ())
        for part in above:
            try:
                out_of_the_way(folder, part)
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=folder)
                inner = open_folder_beneath(folder, (part,))
            finally:
                os.close(folder)
            folder = inner
    try:
        yield folder, name
    finally:
        os.close(folder)


def out_of_the_way(folder: int, name: str, *, folders_only: bool = False) -> None:
    """Give what stands where a folder is to be another name; with `folders_only` a folder that stands where a file is
    to be."""
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode) == folders_only:
            os.rename(name, f"{name[:200]}.{os.urandom(3).hex()}", src_dir_fd=folder, dst_dir_fd=folder)
