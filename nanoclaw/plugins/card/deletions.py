"""Reads which files plain `rm`, `unlink` and `shred` name, before they run: for those of which there is no copy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from glob import iglob
from itertools import islice
from pathlib import Path

from nanoclaw.shell_words import commands_in, program_name

MOST = 10_000
"""Files that are counted."""

_DELETING = ("rm", "unlink", "shred")


def named_by(command: str, root: Path) -> list[str]:
    """Files that are there and that a command names to be deleted, alone or by a folder."""
    if not any(name in command for name in _DELETING):
        return []
    found, folder = dict[str, None](), root
    for words in commands_in(command):
        name, operands = program_name(words[0]), [one for one in words[1:] if not one.startswith("-")]
        if name == "cd" and operands:
            folder = folder / operands[0]
        for word in operands if name in _DELETING else ():
            for path in iglob(os.path.normpath(folder / word)):  # noqa: PTH207 - as a shell
                found |= dict.fromkeys(islice(_files(path), MOST - len(found)))
    return sorted(found)


def _files(path: str) -> Iterator[str]:
    if not Path(path).is_dir() or Path(path).is_symlink():
        yield path
        return
    waiting = [path]
    while waiting:  # os.walk goes no deeper than Python's stack
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.insert(0 if entry.name == ".git" else len(waiting), entry.path)  # a person's own first
                else:
                    yield entry.path
