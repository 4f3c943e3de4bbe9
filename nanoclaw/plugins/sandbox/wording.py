"""Says in a sentence what a command is to do outside of the sandbox, and which later ones a yes may cover. It reads the
text of plain commands only, as a courtesy: what will be run is shown to the letter."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from nanoclaw.core.plugin import Ask, Scope
from nanoclaw.escapes import one_line
from nanoclaw.exact_text import as_code
from nanoclaw.shell_words import plain_words

FREE = "It can do whatever you may, and read the program's keys."
"""Of a command in no sandbox. Nothing can be hidden from it that it could not bring back: a namespace or Landlock would
take `sudo` away, and neither file modes nor a mount bind the one who made them."""

_COUNTED = 1_000
_NAME = re.compile(r"--?[\w-]+|(?!.*\.(?:deb|rpm|snap|flatpak|flatpakref)$)[A-Za-z0-9][\w.+:@-]*")
_OPTIONS_OF_RM = re.compile(r"-[rRfvdI]+|--(recursive|force|verbose|dir|one-file-system)|--")

_VERBS: Mapping[str, frozenset[str]] = {
    name: frozenset(verbs.split())
    for names, verbs in (
        ("apt apt-get", "install update upgrade remove autoremove search show list clean"),
        ("dnf yum zypper", "install update upgrade remove search info list"),
        ("snap flatpak", "install update refresh remove list info search"),
        ("docker podman", "ps images logs stop start restart inspect stats top port version info"),
        ("systemctl", "status start stop restart is-active is-enabled list-units list-timers show"),
    )
    for name in names.split()
}
"""Programs whose first word says what they do, and such words after which they run nothing of the workspace. git, npm,
pip and the like are none: a repository or a project says what they run, and commands in the sandbox write those."""

_LOOKING = frozenset({"ls", "df", "du", "ps", "stat", "file", "free", "uptime", "who", "pgrep", "ss", "lsblk", "lsusb"})


class Opening(NamedTuple):
    """Servers that one command may reach, or places outside that it may read; `words` name them."""

    hosts: tuple[str, ...] = ()
    places: tuple[Path, ...] = ()
    words: str = ""

    def ask(self, command: str, why: str) -> Ask:
        more = " What is in the workspace can be sent there." if self.hosts else ""
        asked = f"Let this command {self.words}? It stays in the sandbox.{more}"
        key = " ".join(map(str, ("opened:", *self.hosts, *self.places)))
        scope = Scope(key, f"commands that {self.words}", is_place=True, lifts_boundary=True)
        return Ask(with_reason(asked, why), exact=command, scope=scope)


def opening(command: str, outside: Mapping[str, Path]) -> Opening | None:
    """Find what is enough for a command that names these places outside; None if it must leave the sandbox."""
    from nanoclaw.command_needs import only_reads, servers

    if outside:
        words = f"read {' and '.join(one_line(one, 100) for one in outside)}"
        return Opening((), tuple(outside.values()), words) if only_reads(command) else None
    hosts = servers(command)
    return Opening(hosts, (), f"reach {' and '.join(hosts)}") if hosts else None


def question(command: str, why: str, folder: Path, home: Path, *, is_background: bool) -> str:
    """Ask for one command, with the reason that the model gave."""
    asked = _deletion(command, folder, home) if not is_background else ""
    if _is_setting_of_git(_plain_words(command)):
        asked = "Change this setting of git?"
    if not asked:
        on = " in the background" if is_background else ""
        asked = f"Run this outside of the sandbox{on}? {FREE}"
    return with_reason(asked, why)


def with_reason(asked: str, why: str) -> str:
    return f"{asked}\n\nThe model's reason, in its own words: {as_code(why)}" if why.strip() else asked


def scope(command: str) -> Scope | None:
    """The shape of a command, of which more than its other words may not change; None for what could do anything. `ps`
    and `pgrep` are held with all their words: some show the environment of every process."""
    if _is_setting_of_git(words := _plain_words(command)):
        return Scope("git settings", "harmless settings and remotes of git", is_place=True, lifts_boundary=True)
    program, verb = words[0] if words else "", words[1] if words[1:] else ""
    if program in _LOOKING:
        shape = program
    elif verb in _VERBS.get(program, ()) and all(map(_NAME.fullmatch, words[2:])):
        shape = f"{program} {verb}"
    else:
        return None
    is_whole = program in ("ps", "pgrep")
    shape = " ".join(
        (shape, *(words[1:] if is_whole else sorted({word for word in words[1:] if word.startswith("-")})))
    )
    named = f"`{shape}`" if is_whole else f"commands like `{shape} …`"
    return Scope(f"beyond:{shape}", f"{named} outside of the sandbox", lifts_boundary=True)


def _is_setting_of_git(words: Sequence[str]) -> bool:
    """True for what sets names, remotes and the like, from which git runs nothing."""
    from nanoclaw.sandbox.git_config import is_harmless

    words = words[3:] if words[1:2] == ("-C",) else words
    words = tuple(one for one in words if one not in ("git", "--global", "--local"))
    if len(words) != (3 if words[:1] == ("config",) else 4) or any(one.startswith("-") for one in words):
        return False
    if words[0] == "config":
        section, _, key = words[1].lower().partition(".")
        return "." not in key and is_harmless(section, "", key, words[2])
    return words[:2] in (("remote", "add"), ("remote", "set-url")) and is_harmless("remote", "x", "url", words[3])


def _plain_words(command: str) -> Sequence[str]:
    """The words of a command that is nothing but words; () of another one."""
    words = plain_words(command)
    return words if words and re.fullmatch(r"[\w.+-]+", words[0]) else ()


def _deletion(command: str, folder: Path, home: Path) -> str:
    """The question about a plain `rm`: how many files, and where; '' for other commands."""
    words = _plain_words(command)
    if not words or words[0] != "rm" or (re.search(r"['\"]", command) and re.search(r"[*?\[~]", command)):
        return ""
    names = [word for word in words[1:] if not _OPTIONS_OF_RM.fullmatch(word)]
    if any(name.startswith("-") or (name.startswith("~") and not name.startswith("~/")) for name in names):
        return ""
    paths = list[Path]()
    for name in names:
        path = folder / (f"{home}{name[1:]}" if name.startswith("~/") else name)
        found = map(Path, glob.iglob(str(path))) if glob.has_magic(name) else iter([path])  # noqa: PTH207
        paths += islice((Path(os.path.normpath(one)) for one in found if os.path.lexists(one)), _COUNTED + 1)
    there = list(dict.fromkeys(paths))
    if not there or len(there) > _COUNTED:
        return ""
    folders = [one for one in there if one.is_dir() and not one.is_symlink()]
    where = list(dict.fromkeys(one.parent for one in there))
    if len(there) == 1:
        what = f"the {'folder' if folders else 'file'} {_short(there[0], home)}"
    elif len(where) > 3:
        return ""
    else:
        files = len(there) - len(folders)
        kinds = [_counted(files, "file")] * bool(files) + [_counted(len(folders), "folder")] * bool(folders)
        what = f"{' and '.join(kinds)} in {' and '.join(_short(one, home) for one in where)}"
    inside = ", with all that is in it" if len(folders) == 1 else ", with all that is in them" if folders else ""
    return f"Delete {what}{inside}?"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _short(path: Path, home: Path) -> str:
    return one_line(f"~/{path.relative_to(home)}" if path.is_relative_to(home) and path != home else str(path), 100)
