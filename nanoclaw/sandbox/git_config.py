"""Configurations of git: what of them only says how a repository is stays, all else could name a program to run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_WORDS = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol "
    "safecrlf abbrev compression loosecompression quotepath commentchar sparsecheckout sparsecheckoutcone worktree "
    "hidedotfiles protecthfs protectntfs trustctime checkstat preloadindex untrackedcache splitindex multipackindex "
    "commitgraph warnambiguousrefs whitespace bigfilethreshold excludesfile attributesfile sharedrepository fsync",
    "user": "name email useconfigonly signingkey",
    "author": "name email",
    "committer": "name email",
    "remote.": "url pushurl fetch push mirror tagopt prune prunetags skipdefaultupdate skipfetchall promisor "
    "partialclonefilter followremotehead",
    "branch.": "remote merge rebase pushremote description",
    "branch": "autosetupmerge autosetuprebase sort",
    "submodule.": "url active branch update ignore fetchrecursesubmodules shallow",
    "submodule": "recurse active fetchjobs propagatebranches alternatelocation alternateerrorstrategy",
    "extensions": "objectformat compatobjectformat partialclone worktreeconfig refstorage noop preciousobjects "
    "relativeworktrees",
    "init": "defaultbranch defaultobjectformat",
    "pull": "rebase ff",
    "push": "default autosetupremote followtags recursesubmodules",
    "fetch": "prune prunetags recursesubmodules fsckobjects writecommitgraph parallel",
    "merge": "ff conflictstyle renames renamelimit log stat autostash",
    "rebase": "autosquash autostash stat updaterefs missingcommitscheck",
    "rerere": "enabled autoupdate",
    "diff": "algorithm renames renamelimit mnemonicprefix noprefix colormoved context interhunkcontext "
    "indentheuristic submodule wserrorhighlight ignoresubmodules",
    "log": "date decorate follow abbrevcommit showsignature",
    "status": "short branch showuntrackedfiles submodulesummary renames relativepaths showstash",
    "gc": "auto autodetach autopacklimit pruneexpire",
    "pack": "threads windowmemory writebitmaps usesparse",
    "index": "version threads sparse skiphash",
    "feature": "manyfiles experimental",
    "transfer": "fsckobjects",
    "receive": "denycurrentbranch denynonfastforwards denydeletes fsckobjects",
    "commit": "verbose status cleanup gpgsign",
    "tag": "sort gpgsign",
    "i18n": "commitencoding logoutputencoding",
    "maintenance": "auto strategy",
    "http": "postbuffer version",
    "lfs": "repositoryformatversion",
}
_HARMLESS = {section: frozenset(words.split()) for section, words in _WORDS.items()}
"""Keys by section, with a dot where there is a name besides."""

_WHOLE = frozenset({"color", "column", "advice"})
_OF_LFS = {"clean": "git-lfs clean -- %f", "smudge": "git-lfs smudge -- %f", "process": "git-lfs filter-process"}
_UPDATES = frozenset({"checkout", "rebase", "merge", "none"})
_BOOLEANS = frozenset({"true", "false", "yes", "no", "on", "off", "1", "0", ""})
_ALIAS = re.compile(
    r"(status|log|show|diff|branch|checkout|switch|commit|add|restore|stash|reset|tag|fetch|pull|push)"
    r"( (-[a-zA-Z]|--(all|oneline|graph|decorate|stat|short|staged|cached|amend|no-edit|hard|soft|force-with-lease)"
    r"|[\w@^~][\w@^~./-]*))*"
)

_HEADER = re.compile(r"[ \t]*\[([A-Za-z0-9.-]+)(?:[ \t]+\"((?:[^\"\\\n\0]|\\[^\n\0])*)\")?\]")
_ENTRY = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*?))?[ \t]*")


class Harmless(NamedTuple):
    """A configuration without what git could run, and the names of what was removed; `text` is the same where nothing
    was, and nothing is written so that another reader could take it otherwise."""

    text: str
    taken: tuple[str, ...]


def harmless(text: str, may_work_in: Callable[[str], bool]) -> Harmless:
    """Keep what is known to be harmless; of `core.worktree`, in which git deletes files, what `may_work_in` allows.
    Each line that is not plain is written again: git may not read it as this does."""
    kept, taken, is_plain = list[str](), list[str](), True
    section, name = "", ""
    for read in text.removeprefix("\ufeff").split("\n"):
        line = read.removesuffix("\r")
        if header := _HEADER.match(line):
            first, _, rest = header[1].lower().partition(".")
            section, name = first, rest if header[2] is None else re.sub(r"\\(.)", r"\1", header[2])
            has_name = bool(rest) or header[2] is not None
            kept.append(f'[{section} "{_escaped(name)}"]' if has_name else f"[{section}]")
            is_plain = is_plain and not (rest and header[2] is not None)
            line = line[header.end() :]
            if not line.strip(" \t"):
                continue
            is_plain = False
        if not line.strip(" \t") or line.lstrip(" \t")[:1] in "#;":
            continue
        entry = _ENTRY.fullmatch(line)
        value = _value(entry[2]) if entry else None
        if entry is None or not section or value is None:
            taken.append(".".join(filter(None, (section, name, entry[1].lower() if entry else "a line"))))
            continue
        is_plain = is_plain and not re.search(r'[\\"#;\0-\x08\x0b-\x1f]', entry[2] or "")
        key = entry[1].lower()
        is_away = (section, key) == ("core", "worktree") and not may_work_in(value)
        if is_harmless(section, name, key, value) and not is_away:
            kept.append(f'\t{key} = "{_escaped(value)}"' if entry[2] is not None else f"\t{key}")
        else:
            taken.append(".".join(filter(None, (section, name, key))))
    if is_plain and not taken and "\0" not in text:
        return Harmless(text, ())
    return Harmless("\n".join([*kept, ""]), tuple(dict.fromkeys(taken)))


def is_harmless(section: str, name: str, key: str, value: str) -> bool:
    if section in _WHOLE:
        return True
    if section == "alias":
        return not name and _ALIAS.fullmatch(value) is not None
    if section == "filter":
        return name == "lfs" and (_OF_LFS.get(key) == value or (key == "required" and value in _BOOLEANS))
    if (section, key) == ("core", "fsmonitor"):  # a word that is none of these is a program
        return value.lower() in _BOOLEANS
    if key not in _HARMLESS.get(f"{section}." if name else section, ()):
        return False
    if key == "update":
        return value in _UPDATES
    if key in ("url", "pushurl"):  # those of other kinds are programs with arguments
        return not re.match(r"-|[\w+.-]+::", value)
    return True


def _value(written: str | None) -> str | None:
    """A value without quotes, escapes and a comment; None for one that ends in the next line, or nowhere."""
    found, is_quoted, place, text = "", False, 0, written or ""
    while place < len(text):
        letter = text[place]
        if letter == "\\":
            place += 1
            plain = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}.get(text[place : place + 1])
            if plain is None:
                return None
            found += plain
        elif letter == '"':
            is_quoted = not is_quoted
        elif letter in "#;" and not is_quoted:
            break
        else:
            found += letter
        place += 1
    return None if is_quoted or "\0" in found else found if '"' in text else found.rstrip(" \t")


def _escaped(value: str) -> str:
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\b", "\\b")):
        value = value.replace(plain, written)
    return value
