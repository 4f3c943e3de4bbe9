"""Walks and searches a folder through descriptors, so that no link leads out of it.

Run as a script it is the child process of `search_files`, which can be killed in the middle of a slow pattern; for that
it imports the standard library alone.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from io import BufferedReader

SKIPPED = frozenset({".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"})
"""Folders that hold nothing a person wrote."""

DEEPEST = 40
LONGEST_LINE = 100_000
BEFORE_MATCH = 100


def open_beneath(root: str | int, parts: Sequence[str], flags: int) -> int:
    """Open root/parts without following a link at any step; raises OSError (ELOOP or ENOTDIR at a link)."""
    folder = os.open(root, _FOLDER) if isinstance(root, str) else os.dup(root)
    for part in parts[:-1]:
        try:
            inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    if not parts:
        return folder
    try:
        return os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)


def open_folder_beneath(root: str | int, parts: Sequence[str]) -> int:
    return open_beneath(root, parts, os.O_RDONLY | os.O_DIRECTORY)


def walk(top: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each plain file below an opened folder, by name; beside it the descriptor of its folder, valid until the next."""
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        parts = waiting.pop()
        try:
            folder = open_folder_beneath(top, parts)
        except OSError:
            continue  # gone, unreadable, or a link by now
        try:
            files, folders = _entries(folder)
            for name in files:
                yield (*parts, name), folder
        finally:
            os.close(folder)
        if len(parts) < DEEPEST:
            waiting.extend((*parts, name) for name in reversed(folders))


def matches(parts: Sequence[str], pattern: str) -> bool:
    """A glob match: `*` and `?` stay within a name, `**` spans folders, a pattern without a slash means any depth."""
    wanted = [piece for piece in pattern.split("/") if piece not in ("", ".")]
    if len(wanted) == 1 and wanted[0] != "**":
        return fnmatch.fnmatchcase(parts[-1], wanted[0])
    at = piece = 0
    after_star: tuple[int, int] | None = None
    while at < len(parts):  # the usual two-pointer match: only the last `**` is ever taken back
        if piece < len(wanted) and wanted[piece] == "**":
            piece += 1
            after_star = (piece, at)
        elif piece < len(wanted) and fnmatch.fnmatchcase(parts[at], wanted[piece]):
            piece, at = piece + 1, at + 1
        elif after_star is not None:
            piece, at = after_star[0], after_star[1] + 1
            after_star = (piece, at)
        else:
            return False
    return all(left == "**" for left in wanted[piece:])


def search(top: int, pattern: re.Pattern[str], glob: str = "", only: str = "") -> Iterator[tuple[str, int, str]]:
    """Each line of a text file that matches: file, line number, text from a little before the match."""
    for parts, folder in [((only,), top)] if only else walk(top):
        if glob and not matches(parts, glob):
            continue
        for number, line in _lines_of(folder, parts[-1]):
            if found := pattern.search(line):
                yield "/".join(parts), number, line[max(0, found.start() - BEFORE_MATCH) :]


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def _entries(folder: int) -> tuple[list[str], list[str]]:
    files, folders = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                files.append(entry.name)
            elif entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED:
                folders.append(entry.name)
    return sorted(files), sorted(folders)


def _lines_of(folder: int, name: str) -> Iterator[tuple[int, str]]:
    try:
        descriptor = open_beneath(folder, (name,), os.O_RDONLY)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as file:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield from _text_lines(file)


def _text_lines(file: BufferedReader) -> Iterator[tuple[int, str]]:
    head = file.read(8192)
    file.seek(0)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = file.read(LONGEST_LINE * 100).decode("utf-16", "replace")
        yield from enumerate(text.split("\n"), 1)
    elif b"\0" not in head:
        number, whole = 1, True
        while line := file.readline(LONGEST_LINE):  # a longer line is searched in pieces
            yield number, _decoded(line.removeprefix(b"\xef\xbb\xbf") if number == 1 and whole else line)
            whole = line.endswith(b"\n")
            number += whole


def _decoded(line: bytes) -> str:
    line = line.rstrip(b"\r\n")
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _main(request: str) -> None:
    wanted = json.loads(request)
    top = open_folder_beneath(wanted["root"], wanted["parts"])
    hits = search(top, re.compile(wanted["pattern"]), wanted["glob"], wanted["only"])
    for file, number, line in itertools.islice(hits, wanted["limit"]):
        hit = json.dumps([file, number, line[: wanted["width"]]], ensure_ascii=False)
        os.write(1, hit.encode("utf-8", "surrogatepass") + b"\n")  # unbuffered, so that a kill loses none


if __name__ == "__main__":
    _main(sys.argv[1])
