"""Git repositories below the workspace that others have written, told by their files: git itself is not run, as it does
what the configuration of a repository says."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from nanoclaw.beneath.paths import open_again
from nanoclaw.sandbox.protect import Search, TooManyError
from nanoclaw.snapshots.listing import listed

MOST_BYTES, MOST_COMMITS, MOST_BRANCHES = 1_000_000, 50, 200
"""Bytes that are read of a file, and the newest commits and branches that are looked at."""


class Repositories:
    """Those below a folder. The one that the folder itself is counts as the owner's."""

    def __init__(self, root: Path, home: Path, environment: Mapping[str, str]) -> None:
        self._top, self._home, self._environment = os.path.realpath(root), home, environment
        self._search = Search([Path(self._top)], makes=False)  # it knows the folders that have not changed

    def of_others(self, distrusted: Collection[str]) -> list[str]:
        """Their folders, as paths with a / at the end. The `distrusted` files tell nothing."""
        with suppress(TooManyError, OSError):
            self._search.find()
        places = [one.removeprefix(f"{self._top}/") for one in self._search.known if one != self._top]
        found = [(place, git) for place in places if (git := self._git_of(place)) is not None]
        if not found:
            return []
        owner = self._owner(distrusted)
        return [f"{place}/" for place, git in found if self._is_of_others(git, owner, distrusted)]

    def _git_of(self, place: str) -> str | None:
        """The folder of the repository in a place, '' where it is elsewhere; None for no repository."""
        inner = Path(self._top, place, ".git")
        if inner.is_dir() and not inner.is_symlink():
            return f"{place}/.git"
        if inner.is_symlink():
            return ""
        if inner.exists():
            named = re.match(r"gitdir: *(.+)", self._text(f"{place}/.git"))
            return self._inside(place, named[1].strip()) if named else ""
        return place if all(Path(self._top, place, one).exists() for one in ("HEAD", "objects", "refs")) else None

    def _inside(self, place: str, path: str) -> str:
        real = os.path.realpath(os.path.join(self._top, place, path))  # noqa: PTH118
        return real.removeprefix(f"{self._top}/") if real.startswith(f"{self._top}/") else ""

    def _is_of_others(self, git: str, owner: frozenset[str], distrusted: Collection[str]) -> bool:
        if not git:
            return True
        common = self._inside(git, self._text(f"{git}/commondir").strip() or ".") or git
        if common == ".git":  # another place in which the owner's own is worked on
            return False
        came = _REMOTE.search(self._text(f"{common}/config")) or Path(self._top, common, "FETCH_HEAD").exists()
        log = "" if f"{git}/logs/HEAD" in distrusted else self._text(f"{git}/logs/HEAD")
        lines = log.splitlines()
        if self._is_clone_of_own(common, lines):
            came, lines = False, lines[1:]
        if came or any(_BROUGHT.match(line.rpartition("\t")[2]) for line in lines):
            return not self._is_pushed_to(common, owner, distrusted)
        if not log and self._text(f"{common}/packed-refs"):
            return True
        ids = [line.split(" ")[1] for line in lines[-MOST_COMMITS:]] if log else self._heads(common)
        authors = [author for one in ids for author in self._authors(common, one, is_known=bool(log))]
        return not all(owner & _who(line) for line in (*lines, *authors))

    def _is_clone_of_own(self, git: str, lines: Sequence[str]) -> bool:
        """True where all that came was cloned from the workspace's own repository."""
        came = re.findall(r"(?mi)^\s*(?:url|pushurl|insteadof)\s*=\s*(.*?)\s*$", self._text(f"{git}/config"))
        came += [line.rpartition("\tclone: from ")[2] for line in lines[:1]]
        is_own = len(came) == 2 and all(one[:1] == "/" and os.path.realpath(one) == self._top for one in came)
        return is_own and not Path(self._top, git, "FETCH_HEAD").exists()

    def _is_pushed_to(self, git: str, owner: frozenset[str], distrusted: Collection[str]) -> bool:
        """True where the owner has sent something of it to a server from here: it is theirs, or their team's."""
        below = f"{self._top}/"
        logs = listed([Path(self._top, git, "logs/refs/remotes")], most=MOST_BRANCHES).files
        for path in (one.removeprefix(below) for one in logs):
            if path not in distrusted:
                for line in self._text(path).splitlines():
                    if line.endswith("\tupdate by push") and owner & _who(line):
                        return True
        return False

    def _heads(self, git: str) -> list[str]:
        """The newest commits of the branches of a repository that keeps no log."""
        found = listed([Path(self._top, git, "refs/heads")], most=MOST_BRANCHES).files
        return [self._text(one.removeprefix(f"{self._top}/")).strip() for one in found]

    def _authors(self, git: str, commit: str, *, is_known: bool) -> list[str]:
        """The line of a commit that says who wrote it; none of one that is packed, where a log has told who made it."""
        with suppress(OSError, ValueError, zlib.error):
            with open_again(Path(self._top, git, "objects", commit[:2], commit[2:])) as file:
                text = zlib.decompressobj().decompress(file.read(100_000), 100_000)
            return re.findall(r"(?m)^author (.*)$", text.partition(b"\n\n")[0].decode("utf-8", "replace"))
        return [] if is_known else [""]

    def _owner(self, distrusted: Collection[str]) -> frozenset[str]:
        """Names and addresses of the owner: of their git, and of the workspace's own repository."""
        from nanoclaw.sandbox.view import git_identity

        said = git_identity(self._home).decode() + _section(self._text(".git/config"), "user")
        found = set(re.findall(r"(?m)^\s*(?:name|email)\s*=\s*\"?(.+?)\"?\s*$", said))
        found |= {self._environment.get(f"GIT_{who}_{what}", "") for who in _WHO for what in ("NAME", "EMAIL")}
        if ".git/logs/HEAD" not in distrusted:
            for line in self._text(".git/logs/HEAD").splitlines():
                found |= _who(line)
        return frozenset(one.casefold() for one in found if one)

    def _text(self, path: str) -> str:
        """The end of a file's text, '' for none."""
        try:
            with open_again(Path(self._top, path)) as file:
                left_out = max(0, os.fstat(file.fileno()).st_size - MOST_BYTES)
                file.seek(left_out)
                text = file.read(MOST_BYTES).decode("utf-8", "replace")
                return text.partition("\n")[2] if left_out else text
        except (OSError, ValueError):
            return ""


_WHO = ("AUTHOR", "COMMITTER")
_REMOTE = re.compile(r"(?mi)^\s*\[\s*remote\b")
_BROUGHT = re.compile(r"(?:clone|pull|fetch)\b")


def _section(config: str, name: str) -> str:
    """The lines of one section of a configuration."""
    parts = re.split(r"(?m)^\s*\[([^\]\n]*)\]", config)
    return "\n".join(
        text for title, text in zip(parts[1::2], parts[2::2], strict=True) if title.strip().lower() == name
    )


def _who(line: str) -> frozenset[str]:
    """Name and address in a line of a log, or of a commit."""
    found = re.search(r"^(?:[0-9a-f]{40,64} [0-9a-f]{40,64} )?(.*?) ?<([^<>]*)> \d+ [+-]\d{4}(?:\t|$)", line)
    return frozenset(one.casefold() for one in found.groups() if one) if found else frozenset()
