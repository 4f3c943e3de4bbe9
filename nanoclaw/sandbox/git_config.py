"""Configurations of git: the lines that only say how a repository is stay, all else could name a program to run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_WORDS = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol "
    "safecrlf abbrev compression quotepath commentchar sparsecheckout sparsecheckoutcone worktree trustctime "
    "untrackedcache splitindex whitespace excludesfile attributesfile sharedrepository",
    "user": "name email useconfigonly signingkey",
    "author": "name email",
    "committer": "name email",
    "remote.": "url pushurl fetch push mirror tagopt prune promisor partialclonefilter",
    "branch.": "remote merge rebase pushremote description",
    "branch": "autosetupmerge autosetuprebase sort",
    "submodule.": "path url active branch ignore fetchrecursesubmodules shallow",
    "submodule": "recurse active",
    "extensions": "objectformat partialclone worktreeconfig refstorage relativeworktrees",
    "init": "defaultbranch defaultobjectformat",
    "pull": "rebase ff",
    "push": "default autosetupremote followtags",
    "fetch": "prune prunetags recursesubmodules",
    "merge": "ff conflictstyle",
    "rebase": "autosquash autostash",
    "rerere": "enabled autoupdate",
    "diff": "algorithm renames colormoved context",
    "gc": "auto pruneexpire",
    "index": "version",
    "commit": "verbose gpgsign",
    "tag": "sort gpgsign",
    "http": "postbuffer version",
}
_HARMLESS = {section: frozenset(words.split()) for section, words in _WORDS.items()}
"""Keys by section, with a dot where there is a name besides."""

_WHOLE = frozenset({"color", "column", "advice"})

_HEADER = re.compile(r'[ \t]*\[([A-Za-z0-9-]+)(?:[ \t]+"([^"\\\n\0]*)")?\][ \t]*')
_ENTRY = re.compile(r'[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*([^\\"#;\0-\x08\x0a-\x1f]*?))?[ \t]*')
_NOTHING = re.compile(r"[ \t]*(?:[#;].*)?")


class Harmless(NamedTuple):
    """A configuration without what git could run, and the names of what was removed."""

    text: str
    taken: tuple[str, ...]


def harmless(text: str, may_work_in: Callable[[str], bool]) -> Harmless:
    """Keep the plain lines that are known to be harmless; of `core.worktree`, in which git deletes files, what
    `may_work_in` allows. What is not plain, such as a value in quotes, goes: git may read it as nobody here does."""
    kept, taken = list[str](), list[str]()
    section, name = "", None
    for line in text.split("\n"):
        if header := _HEADER.fullmatch(line):
            section, name = header[1].lower(), header[2]
        elif entry := _ENTRY.fullmatch(line):
            key, value = entry[1].lower(), entry[2] or ""
            is_away = (section, key) == ("core", "worktree") and not may_work_in(value)
            if is_away or not is_harmless(section, name or "", key, value):
                taken.append(".".join(filter(None, (section, name, key))))
                continue
        elif not _NOTHING.fullmatch(line):
            taken.append("a line")
            continue
        kept.append(line)
    return Harmless("\n".join(kept), tuple(dict.fromkeys(taken)))


def is_harmless(section: str, name: str, key: str, value: str) -> bool:
    if section in _WHOLE:
        return True
    if key in ("url", "pushurl") and re.match(r"-|[\w+.-]+::", value):  # these are programs with arguments
        return False
    return key in _HARMLESS.get(f"{section}." if name else section, ())
