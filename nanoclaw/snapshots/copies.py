"""Copies of files, each called by what the file's status was: whether one is there needs no index and no hash."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from nanoclaw.beneath.paths import open_beneath
from nanoclaw.snapshots.listing import FileListing, is_same
from nanoclaw.snapshots.places import FOLDER, KeptFile, make_folder, restore

_DRAFT = ".draft"
_FICLONE = 0x40049409
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FileCopies:
    """Copies in a folder of its own, up to a number of bytes, of files up to `largest`."""

    def __init__(self, folder: Path, *, most_bytes: int, largest_bytes: int) -> None:
        self._folder, self._most, self._largest = folder, most_bytes, largest_bytes
        self._sizes: dict[str, int] | None = None  # of the copies that are there, by name
        self._left: dict[str, None] = {}  # of files that have changed since, the longest ago first
        self._last: Mapping[str, os.stat_result] = {}

    # --- taking ------------------------------------------------------------------------------------------------------

    def update(self, listing: FileListing, seconds: float, held: Collection[str] = ()) -> None:
        """Copy what is new or has changed since the last time, small files first, as long as there is time and room.
        `held` are names of copies that stay in any case. Raises OSError."""
        if not self._folder.is_dir():  # somebody has deleted all of it
            self._sizes, self._last, self._left = None, {}, {}
        sizes, last = self._known(listing, held), self._last
        new = [
            (path, found)
            for path, found in listing.files.items()
            if (old := last.get(path)) is not found
            and (old is None or not is_same(old, found))
            and (stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_size <= self._largest))
        ]
        for path, old in last.items():
            if (found := listing.files.get(path)) is not old and (found is None or not is_same(old, found)):
                self._left[name_of(old)] = None
        self._last = listing.files
        self._make_room(sum(found.st_size for _, found in new), held)
        room, until, missed = self._most - sum(sizes.values()), time.monotonic() + seconds, set[str]()
        links = Counter[tuple[int, int]]()
        if any(found.st_nlink > 1 for _, found in new):
            links.update((one.st_dev, one.st_ino) for one in listing.files.values() if one.st_nlink > 1)
        for path, found in sorted(new, key=lambda one: one[1].st_size):
            name = name_of(found)
            if name in sizes:
                self._left.pop(name, None)
            elif found.st_size > room or time.monotonic() > until:
                missed.add(path)  # tried again the next time
            elif found.st_nlink == links.get((found.st_dev, found.st_ino), 1):  # else it has a second name elsewhere
                top = next(one for one in listing.tops if path.startswith(f"{one}/"))
                with suppress(OSError):  # it is gone or another one by now
                    self._copy(top, path, found, name)
                    sizes[name] = found.st_size
                    room -= found.st_size
        if missed:
            self._last = {path: found for path, found in listing.files.items() if path not in missed}

    def _make_room(self, size: int, held: Collection[str]) -> None:
        """Drop copies of files that have changed since, the oldest first, where there is no room for so much."""
        assert self._sizes is not None
        room = self._most - sum(self._sizes.values())
        for name in [one for one in self._left if one not in held]:
            if size <= room:
                break
            room += self._sizes.pop(name, 0)
            del self._left[name]
            (self._folder / name).unlink(missing_ok=True)

    def _known(self, listing: FileListing, held: Collection[str]) -> dict[str, int]:
        """The copies that are there; the first time those of files that are not go, and what a crash left."""
        if self._sizes is None:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            wanted = {name_of(found) for found in listing.files.values()}.union(held)
            self._sizes = {}
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        continue  # of others
                    if entry.name in wanted:
                        self._sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
                    else:
                        os.unlink(entry.path)
        return self._sizes

    def _copy(self, top: str, path: str, found: os.stat_result, name: str) -> None:
        target = f"{self._folder}/{name}"
        if stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(path), target)
            return
        source = open_beneath(top, path[len(top) + 1 :].split("/"), os.O_RDONLY)
        try:
            if not is_same(os.fstat(source), found):
                raise OSError("it is a different file now")
            draft = f"{self._folder}/{_DRAFT}"
            with suppress(FileNotFoundError):
                os.unlink(draft)
            into = os.open(draft, _NEW, 0o600)
            try:
                _pour(source, into, found.st_size)
            finally:
                os.close(into)
            if not is_same(os.fstat(source), found):
                raise OSError("it was changed while it was copied")
            os.replace(draft, target)
        finally:
            os.close(source)

    # --- what they say -----------------------------------------------------------------------------------------------

    def has(self, found: os.stat_result | str) -> bool:
        """True if there is a copy of a file with this status, or of this name."""
        return self._sizes is not None and (found if isinstance(found, str) else name_of(found)) in self._sizes

    def read(self, name: str, most: int = -1) -> bytes:
        """The content of a copy, or its beginning. Raises OSError."""
        path = f"{self._folder}/{name}"
        if os.path.islink(path):
            return os.fsencode(os.readlink(path))
        with open(path, "rb") as file:
            return file.read(most)

    def state(self, name: str) -> str:
        """The state, as `places.state` says it, of a file that is as its copy, or of a folder. Raises OSError."""
        mode = _said_by(name)[2]
        if stat.S_ISDIR(mode):
            return FOLDER
        content = self.read(name)
        return f"link:{os.fsdecode(content)}" if stat.S_ISLNK(mode) else sha256(content).hexdigest()

    def keep(self, content: bytes, name: str) -> None:
        """Keep something else under a name of its own; the next start drops what nobody holds. Raises OSError."""
        assert self._sizes is not None
        draft = self._folder / _DRAFT
        draft.unlink(missing_ok=True)
        with open(os.open(draft, _NEW, 0o600), "wb") as file:
            file.write(content)
        draft.replace(self._folder / name)
        self._sizes[name] = len(content)

    def forget(self) -> None:
        """Drop all of it."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._sizes, self._last, self._left = None, {}, {}

    # --- putting back ------------------------------------------------------------------------------------------------

    def put_back(self, name: str, top: str, path: str) -> None:
        """Make a file what its copy is, with its time and rights: whole or not at all. Folders that are missing are
        made; what stands in the way of one is put beside it. The name alone says what a folder was. Raises OSError."""
        size, changed, mode = _said_by(name)
        if stat.S_ISDIR(mode):
            return make_folder(top, path, stat.S_IMODE(mode) & 0o3777, changed)
        content = self.read(name)
        if stat.S_ISREG(mode) and len(content) != size:
            raise OSError("its copy is damaged")
        return restore(top, path, KeptFile(mode, content), changed)


def name_of(found: os.stat_result) -> str:
    """The name of the copy of a file with this status."""
    return (
        f"{found.st_dev:x}-{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}-{found.st_ctime_ns:x}"
        f"-{found.st_mode:x}"
    )


def _said_by(name: str) -> tuple[int, int, int]:
    """Size, time and mode of the file whose copy is called so."""
    parts = [int(part, 16) for part in name.split("-")]
    return parts[2], parts[3], parts[5]


def _pour(source: int, into: int, size: int) -> None:
    """Copy a file; where the file system can, both share their blocks until one is changed."""
    import fcntl

    with suppress(OSError):
        fcntl.ioctl(into, _FICLONE, source)
        return
    while size > 0:
        if not (piece := os.read(source, min(size, 1_000_000))):
            raise OSError("it is shorter by now")
        size -= len(piece)
        while piece:
            piece = piece[os.write(into, piece) :]
