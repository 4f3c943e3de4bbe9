"""Large outputs of tools: all of it goes into a file of the workspace, the model is shown its head and tail."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from nanoclaw.atomic_write import replace_in
from nanoclaw.beneath.paths import open_parent_named

FOLDER = "outputs"
LARGE = 30_000
"""Characters of a tool's output; more goes into a file."""

HEAD, TAIL = 4_000, 6_000
"""Characters of it that are shown."""

KEPT_BYTES = 200_000_000
"""Of all outputs in the folder; the oldest go when there are more."""

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OURS = r"[a-z_]+-[0-9a-f]{12}\.txt|\.[0-9a-f]{12}\.part"


DIFF_LINES, DIFF_CHARACTERS = 400, 20_000
"""Of a diff that is kept with its result."""


def shortened_diff(diff: str) -> str:
    """The beginning of a long diff, and how many lines are left out."""
    lines = diff[:DIFF_CHARACTERS].split("\n")[:DIFF_LINES]
    left = diff.count("\n") + 1 - len(lines)
    if not left and len(diff) <= DIFF_CHARACTERS:
        return diff
    return "\n".join(
        [*lines, f"[... {left:,} lines left out ...]" if left else "[... the rest of the line left out ...]"]
    )


class Outputs:
    """The folder for them. The same output has the same name, so that a repeated call has the same result."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def shortened(self, tool: str, text: str) -> str:
        """The text, or if it is large its head and tail and the file with all of it."""
        if len(text) <= LARGE:
            return text
        left_out = f"{len(text) - HEAD - TAIL:,} characters"
        return f"{text[:HEAD]}\n[... {left_out} left out ...]\n{text[-TAIL:]}\n{hint(self.keep(tool, text))}"

    def keep(self, tool: str, text: str) -> str:
        """Write a text down and return its path in the workspace, '' when that cannot be done."""
        data = text.encode("utf-8", "replace")
        path = _path(tool, hashlib.sha256(data))
        try:
            with open_parent_named(self._root, path) as (folder, name):
                replace_in(folder, name, data)
                _drop_oldest(folder, name)
        except OSError:
            return ""
        return path

    def begin(self, tool: str) -> tuple[str, int]:
        """A new file for an output that can be read while it grows: its path in the workspace, and a descriptor.
        Raises OSError."""
        path = f"{FOLDER}/{tool}-{os.urandom(6).hex()}.txt"
        with open_parent_named(self._root, path) as (folder, name):
            _drop_oldest(folder, name)
            return path, os.open(name, _NEW_FILE, 0o666, dir_fd=folder)

    def spool(self) -> Spool:
        return Spool(self._root)


class Spool:
    """A file for an output of unknown length, made at the first write. When that cannot be done nothing is kept."""

    def __init__(self, root: Path) -> None:
        self._root, self._hash = root, hashlib.sha256()
        self._folder = self._file = -1
        self._draft, self._broken = f".{os.urandom(6).hex()}.part", False

    def write(self, data: bytes) -> None:
        try:
            if self._file < 0 and not self._broken:
                self._open()
            if not self._broken:
                os.write(self._file, data)
                self._hash.update(data)
        except OSError:
            self._broken = True

    def finish(self, tool: str) -> str:
        """Put the file in its place; its path in the workspace, or '' when nothing is kept."""
        if self._file < 0 or self._broken:
            return ""
        path = _path(tool, self._hash)
        name = path.rpartition("/")[2]
        try:
            os.fsync(self._file)
            os.rename(self._draft, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            os.fsync(self._folder)
            _drop_oldest(self._folder, name)
        except OSError:
            return ""
        return path

    def close(self) -> None:
        """Drop what was not finished."""
        if self._file >= 0:
            with suppress(OSError):
                os.unlink(self._draft, dir_fd=self._folder)
            os.close(self._file)
            os.close(self._folder)
            self._file = self._folder = -1

    def _open(self) -> None:
        with open_parent_named(self._root, f"{FOLDER}/{self._draft}") as (folder, name):
            self._file = os.open(name, _NEW_FILE, 0o666, dir_fd=folder)
            self._folder = os.dup(folder)


def hint(path: str) -> str:
    """A hint on how to see the rest."""
    if not path:
        return "[the rest could not be kept: let the command write to a file, or ask for less]"
    return f"[all of it is in {path}: read_file with offset and limit shows more, search_files finds words in it]"


def _path(tool: str, digest: hashlib._Hash) -> str:
    name = re.sub(r"[^a-z_]+", "_", tool.casefold()) or "tool"
    return f"{FOLDER}/{name}-{digest.hexdigest()[:12]}.txt"


def _drop_oldest(folder: int, besides: str) -> None:
    """Files of our own naming, until what is left is no more than is kept."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if re.fullmatch(_OURS, entry.name) and entry.is_file(follow_symlinks=False):
                found.append((entry.name == besides, entry.stat().st_mtime, entry.name, entry.stat().st_size))
    left = sum(size for *_, size in found)
    for _, _, name, size in sorted(found)[:-1]:
        if left <= KEPT_BYTES:
            return
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
            left -= size
