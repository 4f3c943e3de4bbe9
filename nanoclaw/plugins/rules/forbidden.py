"""Reads what a standing rule forbids (tools, commands, files), and finds the calls that do it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nanoclaw import strict_json

MOST, MOST_WORDS = 10, 6
"""Things that one rule forbids, and words of a command among them."""

WISH = """\
A person pins a standing rule for their assistant:
“{rule}”

Which calls does it forbid, always? Answer with JSON alone, such as:
{{"forbids": [{{"tool": "memory_add"}}, {{"command": "git push"}}, {{"path": "notes/private.md", "reading": false}}]}}

- tool: one of {tools}. Only when all that this tool does is forbidden.
- command: the first words of a shell command, no more than the rule needs: "git push", "npm". Give each way to do the
  same. When only some uses are forbidden and these words can't tell which ("commit to main"), give the command all the
  same.
- path: a file or folder as the rule writes it; "reading": true when it must not even be read.

Answer {{"forbids": []}} for a wish about style or policy, for what is asked for or allowed, and where the person says
when it may be done (unless, without asking, until …).
"""
"""Asked of a model once, when a rule is pinned."""


class Forbidden(NamedTuple):
    """One thing that a rule forbids; the others are ''. A path is forbidden to change, with `reading` also to read."""

    tool: str = ""
    command: str = ""
    path: str = ""
    reading: bool = False

    def __str__(self) -> str:
        if self.tool:
            return f"the tool `{self.tool}`"
        if self.command:
            return f"commands beginning with `{self.command}`"
        how = "reading and changing" if self.reading else "changing"
        return f"{how} `{self.path}` with file tools (commands and notes are not watched for it)"


def from_answer(answer: str, rule: str, tools: Collection[str]) -> list[Forbidden] | None:
    """Read a model's answer, keeping only what is valid: existing tools, plain commands, paths that the rule names.
    None for an answer in another form."""
    try:
        given = strict_json.read(answer[answer.index("{") : answer.rindex("}") + 1])["forbids"]
        items = [item for item in given if isinstance(item, dict)]
    except (ValueError, KeyError, TypeError):
        return None
    found = (_checked(item, rule, tools) for item in items[:MOST])
    return list(dict.fromkeys(one for one in found if one))


def _checked(item: Mapping[str, Any], rule: str, tools: Collection[str]) -> Forbidden | None:
    tool, command, path = (str(item.get(name) or "").strip() for name in ("tool", "command", "path"))
    command = command or str(item.get("prefix") or "").strip()
    if command:
        return Forbidden(command=" ".join(words)) if (words := _plain_command(command)) else None
    if path:
        return Forbidden(path=path, reading=item.get("reading") is True) if path in rule else None
    return Forbidden(tool=tool) if tool in tools else None


def dump(forbidden: Iterable[Forbidden]) -> str:
    return json.dumps([one._asdict() for one in forbidden], ensure_ascii=False)


def load(text: str) -> list[Forbidden] | None:
    """Read what `dump` wrote; None if words were forgotten in it."""
    try:
        return [Forbidden(**item) for item in json.loads(text)]
    except (ValueError, TypeError):
        return None


def what_is_forbidden(
    forbidden: Iterable[Forbidden], tool: str, is_change: bool, arguments: Mapping[str, Any], root: Path
) -> str:
    """Name the forbidden thing that a call would do; '' for a call that is allowed."""
    command = arguments.get("command")
    for one in forbidden:
        if one.tool == tool and tool:
            return f"the tool {tool}"
        if one.command and isinstance(command, str) and runs(command, one.command.split()):
            return f"the command `{one.command}`"
        if (
            one.path
            and (is_change or one.reading)
            and any(_leads(root, given, one.path) for given in _paths(arguments))
        ):
            return f"{'touching' if one.reading else 'changing'} {one.path}"
    return ""


def _plain_command(text: str) -> tuple[str, ...]:
    """The words of a single command without variables, pipes and the like; () for anything else."""
    from nanoclaw.shell_words import commands_in, plain_words

    found = list(commands_in(text)) if plain_words(text) else []
    if len(found) == 1 and len(found[0]) <= MOST_WORDS:
        return found[0] if re.fullmatch(r"[\w./+~-]*\w[\w.+-]*", found[0][0]) else ()
    return ()


_PATH_ARGUMENTS = ("path", "file", "source", "target", "destination", "old_path", "new_path")


def _paths(arguments: Mapping[str, Any]) -> Iterator[str]:
    return (value for name in _PATH_ARGUMENTS if isinstance(value := arguments.get(name), str))


def _leads(root: Path, given: str, path: str) -> bool:
    """True when a tool's path is the path of a rule, or inside it."""
    real, wanted = (os.path.realpath(os.path.join(root, one.replace("\0", ""))) for one in (given, path))  # noqa: PTH118
    return real == wanted or real.startswith(wanted + os.sep)


# --- commands --------------------------------------------------------------------------------------------------------


def runs(line: str, forbidden: Sequence[str]) -> bool:
    """True when a line of shell runs a command that begins with these words, however its options are ordered."""
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
    """True when the words that are no options begin so; one after an option may be that option's value, so it may be
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
