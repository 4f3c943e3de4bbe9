"""Reads which files a line of shell deletes by their names, before it runs: for places of which there are no copies.

A courtesy: of plain `rm`, `unlink`, `shred`, `mv` to a place for scraps, and `find … -delete` alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from glob import iglob
from itertools import islice
from pathlib import Path

from nanoclaw.shell_words import commands_in, program_name

MOST = 10_000
"""Files that are counted; of more it is said that there are more."""

_MAY_DELETE = re.compile(r"\b(rm|unlink|shred|find|mv)\b", re.ASCII)
_SCRAPS = ("/tmp/", "/var/tmp/", "/dev/")


def deleted_by(command: str, root: Path, home: Path) -> list[str]:
    """Files that are there and that a command names to be deleted, alone or by a folder."""
    if not _MAY_DELETE.search(command):
        return []
    found: dict[str, None] = {}
    folder = root
    for words in commands_in(command):
        name, rest = program_name(words[0]), words[1:]
        if name in ("cd", "pushd") and len(rest) == 1:
            folder = next(iter(_paths(rest[0], folder, home)), folder)
        for path in _named(name, rest, folder, home):
            found |= dict.fromkeys(islice(_files(path), MOST + 1 - len(found)))
    return sorted(path for path in found if not is_scrap(path, root))


def is_scrap(path: str, root: Path) -> bool:
    """True for a place where nothing is kept, except a workspace that is there."""
    return path.startswith(_SCRAPS) and not path.startswith((f"{root}/", f"{os.path.realpath(root)}/"))


def _named(name: str, words: Sequence[str], folder: Path, home: Path) -> Iterator[Path]:
    """Paths that a command takes away."""
    operands = [word for word in words if not word.startswith("-")]
    if name in ("rm", "unlink", "shred"):
        for word in operands:
            yield from _paths(word, folder, home)
    elif name == "mv" and len(operands) > 1:
        target = next(iter(_paths(operands[-1], folder, home)), None)
        if target and is_scrap(f"{target}/", folder):
            for word in operands[:-1]:
                yield from _paths(word, folder, home)
    elif name == "find" and ("-delete" in words or "rm" in words):
        at = next((n for n, word in enumerate(words) if word.startswith(("-", "(", "!"))), len(words))
        pattern = words[words.index("-name") + 1] if "-name" in words[:-1] else "*"
        for word in words[:at] or ["."]:
            for top in _paths(word, folder, home):
                yield from (Path(one) for one in _files(top) if fnmatchcase(one.rpartition("/")[2], pattern))


def _paths(word: str, folder: Path, home: Path) -> list[Path]:
    """Paths that a word names on this disk; none for one that shows only when it runs."""
    word = re.sub(r"^(?:~|\$HOME|\$\{HOME\})(?=/|$)", str(home).replace("\\", r"\\"), word)
    word = re.sub(r"^(?:\$PWD|\$\{PWD\})(?=/|$)", str(folder).replace("\\", r"\\"), word)
    if re.search(r"[$`]", word):
        return []
    place = os.path.normpath(folder / word)
    if re.search(r"[*?\[]", word):
        return [Path(one) for one in islice(iglob(place), MOST)]  # noqa: PTH207 - hides dot files as a shell does
    return [Path(place)]


def _files(path: Path) -> Iterator[str]:
    if path.is_dir() and not path.is_symlink():
        waiting = [str(path)]
        while waiting:  # os.walk goes no deeper than Python's stack
            with suppress(OSError), os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.insert(0 if entry.name == ".git" else len(waiting), entry.path)  # a person's own first
                    else:
                        yield entry.path
    elif os.path.lexists(path):
        yield str(path)
