"""Finds the program's own files in the text of a command that no sandbox keeps from them. A courtesy: a script, or a
name that is put together while it runs, isn't seen."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice

from nanoclaw.beneath.reach import Reach
from nanoclaw.shell_words import paths_in

TOLD = (
    "not run: {} belongs to the program (settings, keys, conversations); commands can't read or change it. Do without "
    "it, or ask the person to do that."
)
COURTESY = (
    "Commands that name the program's own files are refused without asking. That is best effort: without a "
    "sandbox a command can get at them in other ways."
)
_LOOKED_AT = 200
_OF_A_PROCESS = frozenset({"environ", "mem", "root", "cwd", "fd", "maps", "map_files", "task"})


def named(command: str, reach: Reach, variables: Mapping[str, str]) -> str:
    """The first path of the program's own files that a command names; '' for none."""
    closed = [os.path.realpath(one) for one in reach.closed]
    opened = [os.path.realpath(one) for one in (reach.root, *reach.read, *reach.write)]
    for path in paths_in(command, str(reach.root), variables):
        if _is_of_a_process(path) or any(_leads_into(path, one, opened) for one in closed):
            return path
    return ""


def _leads_into(path: str, closed: str, opened: Sequence[str]) -> bool:
    if path.startswith("*"):  # nobody knows where: judged by the name of the file
        name = path.lstrip("*").lstrip("/")
        return bool(name) and "/" not in name and not re.search(r"[*?[]", name) and os.path.isfile(f"{closed}/{name}")
    if not re.search(r"[*?[]", path):
        return _is_closed(os.path.realpath(path), closed, opened)
    certain = re.split(r"[*?[]", path)[0].rpartition("/")[0] or "/"
    if any(_is_in(os.path.realpath(certain), one) for one in opened):
        return False
    parts, wanted = path.split("/"), closed.split("/")
    if len(parts) >= len(wanted) and all(map(fnmatchcase, wanted, parts)):
        return True
    found = islice(glob.iglob(path, include_hidden=True), _LOOKED_AT)
    return any(_is_closed(os.path.realpath(one), closed, opened) for one in found)


def _is_closed(real: str, closed: str, opened: Sequence[str]) -> bool:
    inner = [one for one in opened if _is_in(one, closed)]
    return _is_in(real, closed) and not any(_is_in(real, one) for one in inner)


def _is_in(path: str, base: str) -> bool:
    return path == base or path.startswith(base.rstrip("/") + "/")


def _is_of_a_process(path: str) -> bool:
    """True for the environment and the memory of another process: the program itself may have keys there."""
    parts = path.split("/")
    return (
        parts[1:2] == ["proc"] and parts[2:3] not in (["self"], ["thread-self"]) and bool(_OF_A_PROCESS & {*parts[3:4]})
    )
