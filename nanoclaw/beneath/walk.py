"""Walks and searches a folder through descriptors, so that no link leads out of it.

`CHILD` is the child process of `search_files`, which can be killed in the middle of a slow pattern.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path

from nanoclaw.beneath.paths import identities, is_all_inside, open_beneath, open_folder_beneath
from nanoclaw.named_tuple import NamedTuple

SKIPPED = frozenset({".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"})
"""Folders that hold nothing a person wrote."""

DEEPEST = 40
LONGEST_LINE = 100_000
BEFORE_MATCH = 100


def walk(top: int, closed: Sequence[str | Path] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each plain file below an opened folder, by name; beside it the descriptor of its folder, valid until the next.
    What is in a folder of `closed` is left out."""
    left_out = identities(closed)
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        parts = waiting.pop()
        try:
            folder = open_folder_beneath(top, parts)
        except OSError:
            continue  # gone, unreadable, or a link by now
        try:
            if left_out and _identity(folder) in left_out:
                continue
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


class SearchBounds(NamedTuple):
    """`closed` folders are left out, and files with a name outside of `folders`, none: any. `above` are the names of
    the folders that lead to where the search begins."""

    folders: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    above: tuple[str, ...] = ()


ANYWHERE = SearchBounds()


def search(
    top: int, pattern: re.Pattern[str], glob: str = "", only: str = "", bounds: SearchBounds = ANYWHERE
) -> Iterator[tuple[str, int, str]]:
    """Each line of a text file that matches: file, line number, text from a little before the match."""
    for parts, folder in [((only,), top)] if only else walk(top, bounds.closed):
        if glob and not matches(parts, glob):
            continue
        for number, line in _lines_of(folder, parts, bounds):
            if found := pattern.search(line):
                yield "/".join(parts), number, line[max(0, found.start() - BEFORE_MATCH) :]


def _identity(folder: int) -> tuple[int, int]:
    found = os.fstat(folder)
    return found.st_dev, found.st_ino


def _entries(folder: int) -> tuple[list[str], list[str]]:
    files, folders = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                files.append(entry.name)
            elif entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED:
                folders.append(entry.name)
    return sorted(files), sorted(folders)


def _lines_of(folder: int, parts: Sequence[str], bounds: SearchBounds) -> Iterator[tuple[int, str]]:
    try:
        descriptor = open_beneath(folder, parts[-1:], os.O_RDONLY)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        is_open = not bounds.folders or is_all_inside(found, (*bounds.above, *parts), bounds.folders, bounds.closed)
        if stat.S_ISREG(found.st_mode) and is_open:
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


def main(request: str) -> None:
    """Search as a child process is asked to, and print each hit as JSON."""
    wanted = json.loads(request)
    top = open_folder_beneath(wanted["root"], wanted["parts"])
    bounds = SearchBounds(*(tuple(wanted[name]) for name in ("folders", "closed", "parts")))
    hits = search(top, re.compile(wanted["pattern"]), wanted["glob"], wanted["only"], bounds)
    for file, number, line in itertools.islice(hits, wanted["limit"]):
        hit = json.dumps([file, number, line[: wanted["width"]]], ensure_ascii=False)
        os.write(1, hit.encode("utf-8", "surrogatepass") + b"\n")  # unbuffered, so that a kill loses none


CHILD = f"""
import sys
sys.path.append({str(Path(__file__).parents[2])!r})
from nanoclaw.beneath.walk import main
main(sys.argv[1])
"""
"""For `python -c`, with the request as its argument."""
