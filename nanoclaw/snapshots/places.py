"""Changes files below a folder; no link on the way leads elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256

from nanoclaw.beneath.descriptors import open_beneath, open_folder_beneath


def content(top: str, path: str) -> bytes | None:
    """The content of a plain file; None where there is none. Raises OSError."""
    try:
        at = open_beneath(top, path[len(top) + 1 :].split("/"), os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(at, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(at).st_mode) else None


def state(top: str, path: str) -> str:
    """The SHA-256 of a plain file, "link:" and the place that a link names, '' where there is neither. Raises
    OSError."""
    if os.path.islink(path):
        return f"link:{os.readlink(path)}"
    found = content(top, path)
    return "" if found is None else sha256(found).hexdigest()


def make_link(top: str, path: str, target: str) -> None:
    """Put a link in the place of a file. Raises OSError."""
    with folder_of(top, path) as (folder, name):
        draft = f".{name[:100]}.{os.urandom(4).hex()}"
        os.symlink(target, draft, dir_fd=folder)
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


def remove(top: str, path: str, until: str = "") -> None:
    """Delete a file, then the folders above it that are empty, up to the outermost one that may go. Raises OSError."""
    *above, name = path[len(top) + 1 :].split("/")
    folder = open_folder_beneath(top, above)
    try:
        os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)
    at = os.path.dirname(path)
    with suppress(OSError):  # it is not empty
        while until and (at == until or at.startswith(f"{until}/")):
            *above, name = at[len(top) + 1 :].split("/")
            folder = open_folder_beneath(top, above)
            try:
                os.rmdir(name, dir_fd=folder)
            finally:
                os.close(folder)
            at = os.path.dirname(at)


@contextmanager
def folder_of(top: str, path: str) -> Iterator[tuple[int, str]]:
    """A descriptor of the folder of a path, and its name there. No link leads it elsewhere."""
    *above, name = path[len(top) + 1 :].split("/")
    try:
        folder = open_folder_beneath(top, above)
    except OSError:
        folder = open_folder_beneath(top, ())
        for part in above:
            try:
                out_of_the_way(folder, part)
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
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
