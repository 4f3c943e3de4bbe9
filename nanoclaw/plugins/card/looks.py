"""Knows commands that change nothing, by their words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nanoclaw.shell_words import commands_in, program_name


def only_looks(command: str) -> bool:
    """True for commands that are known to change nothing, and whose output goes nowhere else."""
    if re.search(r">(?!\s*(?:/dev/null|&\d))|[`]|\$\(|<\(", command):
        return False
    found = list(commands_in(command))
    return bool(found) and all(map(_looks, found))


_LOOK_WORDS = (
    "ls cat head tail wc grep egrep fgrep rg stat file du df pwd echo printf date whoami id uname which type"
    " tree cut tr diff cmp md5sum sha1sum sha256sum basename dirname realpath readlink test [ true false"
    " cd nl column sort"
)
_LOOK = frozenset(_LOOK_WORDS.split())
_WRITING = {"sort": r"-[^-]*o|--(o|co)", "tree": r"-[^-]*o", "rg": r"--pre", "file": r"-[^-]*C|--com"}
"""Options, also in one word with others or cut short, with which they write or run something."""
_GIT_LOOKS_WORDS = "status log diff show ls-files rev-parse blame describe shortlog"
_GIT_LOOKS = frozenset(_GIT_LOOKS_WORDS.split())


def _looks(words: Sequence[str]) -> bool:
    name, rest = program_name(words[0]), words[1:]
    if name == "find":
        return not any(word.startswith(("-exec", "-ok", "-delete", "-fprint", "-fls")) for word in rest)
    if name == "git":
        return bool(rest) and rest[0] in _GIT_LOOKS and not any(word.startswith("--output") for word in rest)
    if name == "uniq":  # its second file is written
        return sum(not word.startswith("-") for word in rest) < 2
    writing = _WRITING.get(name)
    return name in _LOOK and not (writing and any(re.match(writing, word) for word in rest))
