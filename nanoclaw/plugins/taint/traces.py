"""Traces of others' files in the output of a command, which may have read them without naming one: `grep -r fee .`."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from nanoclaw.beneath.paths import open_again
from nanoclaw.snapshots.listing import listed

MOST_FILES, MOST_BYTES = 20_000, 2_000_000
"""Files that are looked at, and bytes of them that are read: the newest."""

LEAST = 12
"""Characters of a line that says where it comes from."""


def files_in(root: Path, folders: Iterable[str]) -> list[str]:
    """Files of some folders of the workspace, the newest first; none of a folder that is a link out of it."""
    found = listed([root / one for one in folders], skips=lambda name, beside: name == ".git", most=MOST_FILES)
    newest = sorted(found.files, key=lambda path: found.files[path].st_mtime, reverse=True)
    top = f"{os.path.realpath(root)}/"
    return [path.removeprefix(top) for path in newest if path.startswith(top)]


def matching(words: Iterable[str], paths: Iterable[str]) -> Iterator[str]:
    """The paths that a shell puts in the place of a word with wildcards, and those in a folder that it puts there."""
    patterns = [word.removeprefix("./").rstrip("/").split("/") for word in words if any(sign in word for sign in "*?[")]
    for path in paths:
        parts = path.split("/")
        if any(_fits(parts, pattern) for pattern in patterns if pattern != ["*"]):
            yield path


def repeated(root: Path, paths: Iterable[str], text: str) -> Iterator[str]:
    """Those of the files of which a text repeats a line, also behind a path and numbers, as grep puts them."""
    lines = {part for line in text.splitlines() for part in _parts(line) if len(part) >= LEAST}
    left, top = MOST_BYTES, root.resolve()
    for path in paths if lines else ():
        if left <= 0:
            return
        try:
            with open_again(top / path) as file:
                content = file.read(left)
        except (OSError, ValueError):
            continue
        left -= len(content)
        if b"\0" not in content[:1000] and not lines.isdisjoint(map(str.strip, _lines(content))):
            yield path


def _fits(parts: list[str], pattern: list[str]) -> bool:
    if pattern[0] == "**":
        return any(_fits(parts[start:], pattern[1:] or ["*"]) for start in range(len(parts)))
    return len(parts) >= len(pattern) and all(map(fnmatch.fnmatchcase, parts, pattern))


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8", "replace").splitlines()


def _parts(line: str) -> Iterator[str]:
    yield line.strip()
    if found := re.match(r"(?:[^:\n]*?[:-])?\s*\d+[:\t -]|[^:\n]*?:", line):
        yield line[found.end() :].strip()
