"""Holds tools to the person's standing rules: to those that forbid a tool, a command or a file without conditions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nanoclaw.plugins.rules.rules import Ban


class Pinned:
    """Holds tools to the rules as they are at each call."""

    def __init__(self, rules: Callable[[], Iterable[str]], tools: Iterable[str], root: Path) -> None:
        """`rules` gives the texts of now, `tools` are the names that rules can forbid, `root` is the workspace."""
        self._rules, self._tools, self._root = rules, frozenset(tools), root

    def how(self, rule: str) -> str:
        """What is done about a rule, in words."""
        ban = self._ban(rule)
        if not ban:
            return f"for the model to follow{f' ({ban.hint})' if ban.hint else ''}"
        parts = []
        if ban.tools:
            parts.append(f"the tool{'s' if len(ban.tools) > 1 else ''} {_listed(ban.tools)} cannot be called")
        if ban.commands:
            parts.append(f"exec refuses {_listed(map(' '.join, ban.commands))}")
        for is_read in (False, True):
            if paths := [path for path, reading in ban.paths if reading is is_read]:
                refused = "touch" if is_read else "change"
                parts.append(
                    f"file tools refuse to {refused} {_listed(paths)} (commands and notes are not watched for it)"
                )
        return f"enforced: {'; '.join(parts)}"

    def refusal(self, tool: str, changes: bool, arguments: Mapping[str, Any]) -> str:
        """Why a call must not be made, with the rule that forbids it, or ''. `changes`: whether it can change files."""
        for rule in self._rules():
            if what := self._forbidden(self._ban(rule), tool, changes, arguments):
                return (
                    f"refused by the person's standing rule “{rule}”: it forbids {what}. Nothing was done. Don't look "
                    "for a way around it: tell the person, who can lift it with /unpin."
                )
        return ""

    def _ban(self, rule: str) -> Ban:
        from nanoclaw.plugins.rules.rules import ban_of  # for those who have rules

        return ban_of(rule, self._tools)

    def _forbidden(self, ban: Ban, tool: str, changes: bool, arguments: Mapping[str, Any]) -> str:
        if tool in ban.tools:
            return f"the tool {tool}"
        command = arguments.get("command")
        if ban.commands and isinstance(command, str):
            for forbidden in ban.commands:
                if runs(command, forbidden):
                    return f"the command `{' '.join(forbidden)}`"
        for path, is_read in ban.paths:
            if (changes or is_read) and any(self._leads(value, path) for value in _paths(arguments)):
                return f"{'touching' if is_read else 'changing'} {path}"
        return ""

    def _leads(self, given: str, path: str) -> bool:
        """Whether a path that a tool was given is, or lies in, the one of a rule."""
        real, wanted = self._real(given), self._real(path)
        return real == wanted or real.startswith(wanted + os.sep)

    def _real(self, path: str) -> str:
        with_root = os.path.join(self._root, path)  # noqa: PTH118  (a string join, as in the guard of paths)
        return os.path.realpath(with_root.replace("\0", ""))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


_PATH_ARGUMENTS = ("path", "file", "source", "target", "destination", "old_path", "new_path")


def _paths(arguments: Mapping[str, Any]) -> Iterator[str]:
    return (value for name in _PATH_ARGUMENTS if isinstance(value := arguments.get(name), str))


# --- commands --------------------------------------------------------------------------------------------------------


def runs(line: str, forbidden: Sequence[str]) -> bool:
    """Whether a line of shell runs a command that begins with these words, however its options are ordered."""
    bare = line.translate(_UNQUOTED)
    if _name(forbidden[0]) not in bare and "$'" not in line:  # quick, as nearly every command has nothing to do with it
        return False
    from nanoclaw.shell_words import commands_in

    return any(_is(words, forbidden) for words in commands_in(line))


_UNQUOTED = {ord(sign): None for sign in "'\"\\\n"}
_GIT_WITH_VALUE = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env"}
)
_SHORT = {"--force": "f", "--recursive": "r", "--all": "a", "--delete": "d", "--interactive": "i", "--yes": "y"}


def _is(words: Sequence[str], forbidden: Sequence[str]) -> bool:
    name = _name(words[0])
    if name != _name(forbidden[0]):
        return False
    rest = _without_global_options(words[1:]) if name == "git" else list(words[1:])
    wanted = [word for word in forbidden[1:] if not _is_option(word)]
    options = [word for word in forbidden[1:] if _is_option(word)]
    return _begins(rest, wanted) and _options(options) <= _options(rest)


def _name(program: str) -> str:
    return program.rsplit("/", 1)[-1]


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1


def _without_global_options(words: Sequence[str]) -> list[str]:
    position = 0
    while position < len(words) and _is_option(words[position]):
        position += 2 if words[position] in _GIT_WITH_VALUE else 1
    return list(words[position:])


def _begins(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether the words that are no options begin so; one after an option may be that option's value, so it may be
    passed over."""
    if not wanted:
        return True
    for position, word in enumerate(words):
        if _is_option(word):
            continue
        if word == wanted[0] and _begins(words[position + 1 :], wanted[1:]):
            return True
        if not (position and _is_option(words[position - 1])):
            return False
    return False


def _options(words: Iterable[str]) -> frozenset[str]:
    """Each by itself: `-rf` is `-r` and `-f`, and so is `--recursive --force`."""
    found = set[str]()
    for word in words:
        if word == "--":
            break
        name = word.partition("=")[0]
        if name.startswith("--"):
            found |= {name, *(_SHORT.get(name, ""))}
        elif _is_option(word):
            found |= {word, *({"R": "r"}.get(letter, letter) for letter in word[1:])}
    return frozenset(option for option in found if len(option) == 1 or option.startswith("--")) - _SHORT.keys()
