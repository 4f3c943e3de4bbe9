"""Places with others' text, in the workspace and beside it: which they are, and which of them a text names or shows."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import islice
from pathlib import Path, PurePosixPath

from nanoclaw.core.plugin import Host, Turn, Tx
from nanoclaw.sandbox.protect import Search, read_plain
from nanoclaw.snapshots.listing import FileLister, FileListing, changes

INBOXES = ("media", "downloads", "outputs")
"""Folders that the program itself puts others' text into. What commands printed is in `outputs` too."""

MOST_MARKS, MOST_ENTRIES, MOST_WORDS = 300, 100_000, 5_000
"""Paths that one command marks, and what is looked through for them: else all of a folder is; words of a command."""

EVERYTHING = "."
IsAgain = Callable[[str, os.stat_result], bool]
"""True for a file that has again what it had."""
_OWN_OUTPUTS = "outputs/exec-"


class Places:
    """Paths with the sources of what is in them, those of the workspace as names in it, a folder with / at its end:
    marks, which are in the store, folders of downloads and repositories of others."""

    def __init__(self, host: Host) -> None:
        self._host, self._root, self._top = host, host.workspace, os.path.realpath(host.workspace)
        self._home = Path(host.environment.get("HOME") or Path.home())
        self._kept: dict[str, str] | None = None
        self._lister = FileLister(most=MOST_ENTRIES)
        self._search = Search([Path(self._top)])  # it knows the folders that have not changed
        self._found: list[str] = []

    # --- which they are ----------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Look which repositories are of others by now."""
        import asyncio

        self._found = await asyncio.to_thread(self._repositories, dict(self.all()))

    def all(self) -> dict[str, str]:
        """The marks; one with the source '' is the owner's, whatever folder it is in."""
        if self._kept is None:
            self._kept = dict(self._host.read("SELECT path, source FROM taint_files ORDER BY path"))
        return self._kept

    def reload(self) -> None:
        self._kept = None

    def of_others(self) -> dict[str, str]:
        """All of them, without what the owner knows better about."""
        found = {one: self._marked(one) for one in (*self._found, *self._downloads)}
        return {one: source for one, source in {**found, **self.all()}.items() if source}

    def source(self, path: str) -> str:
        """Whose text a file has, '' for the person's and the assistant's own."""
        name = self._name(path)
        return self._marked(name) or (named(name) if _is_in_inbox(name) and "/" in name else "")

    def source_of_folder(self, path: str) -> str:
        """Whose text all files of a folder have, '' where that is not told."""
        name = self._name(path)
        return self._marked(name) or _of_inbox(name)

    def _marked(self, name: str) -> str:
        """The source of a path, or of the nearest folder above it."""
        if (kept := _nearest(self.all(), name)) is not None:
            return kept
        if repository := next((one for one in _above(name) if one in self._found), ""):
            return f"the repository {repository.rstrip('/').translate(_NO_COMMA)}"
        is_download = not set(_above(name)).isdisjoint(self._downloads)
        return named(name.rstrip("/")) if is_download or _was_fetched(os.path.join(self._top, name)) else ""  # noqa: PTH118

    def _name(self, path: str) -> str:
        """The path within the workspace, '' for the workspace itself, or from the root."""
        real = os.path.realpath(os.path.join(self._top, self._expanded(path).replace("\0", "")))  # noqa: PTH118
        return "" if real == self._top else real.removeprefix(f"{self._top}/")

    def _expanded(self, path: str) -> str:
        """A path as a shell reads its beginning."""
        return re.sub(r"^(?:~|\$HOME|\$\{HOME\})(?=/|$)", lambda sign: str(self._home), path)

    @cached_property
    def _downloads(self) -> list[str]:
        """Folders of downloads that tools may open: that of the desktop, and those that are called so."""
        reach = [*map(os.path.realpath, (*self._host.reach.read, *self._host.reach.write))]
        if not reach:
            return []
        called_so = [one for one in reach if Path(one).name.casefold() in ("download", "downloads")]
        own = [self._home / "Downloads", *called_so]
        text = _text(os.path.realpath(self._home / ".config/user-dirs.dirs"))
        own += [self._home / one for one in re.findall(r'(?m)^\s*XDG_DOWNLOAD_DIR="(?:\$HOME)?/*([^"\n]+)"', text)]
        real = dict.fromkeys(os.path.realpath(str(one)) for one in own)
        is_open = tuple(f"{top}/" for top in reach)
        return [f"{one}/" for one in real if f"{one}/".startswith(is_open) and one != os.path.realpath(self._home)]

    def _repositories(self, marks: Mapping[str, str]) -> list[str]:
        """Folders below the workspace with a repository from elsewhere. The workspace's own is the owner's."""
        with suppress(OSError):
            self._search.find()
        places = [one for one in self._search.known if one != self._top]
        return [f"{one.removeprefix(f'{self._top}/')}/" for one in places if self._came(one, marks)]

    def _came(self, place: str, marks: Mapping[str, str]) -> bool:
        """True for one that has a remote, other than the workspace, or was fetched into, unless something was sent from
        it to a server."""
        git = f"{place}/.git"
        if said := re.match(r"gitdir: *(.+)", _text(git)):  # a working tree, or part of another one
            git = os.path.join(place, said[1].partition("/worktrees/")[0])  # noqa: PTH118
        elif not os.path.lexists(git):
            git = place if Path(place, "HEAD").exists() else ""
        git = git and os.path.realpath(git)
        if not git.startswith(f"{self._top}/") or git == f"{self._top}/.git":
            return bool(git) and not git.startswith(self._top)  # a repository that is gone makes nobody an author
        config = _text(f"{git}/config")
        urls = re.findall(r"(?mi)^\s*(?:push)?url\s*=\s*(.*?)\s*$", config)
        is_away = re.search(r"(?mi)^\s*\[\s*remote\b", config) and {self._top} != set(map(os.path.realpath, urls))
        if not is_away and not Path(git, "FETCH_HEAD").exists():
            return False
        logs = map(str, islice(Path(git).glob("logs/refs/remotes/**/*"), MOST_MARKS))
        own = (one for one in logs if not _nearest(marks, one.removeprefix(f"{self._top}/")))
        return not any("\tupdate by push\n" in _text(one) for one in own)

    # --- what a command reads ----------------------------------------------------------------------------------------

    def named_in(self, command: str, besides: Mapping[str, str]) -> list[str]:
        """Sources of the places that words of a command name: a path in one, a folder above, a pattern that fits. One
        that looks through folders and names none reads all. `besides` are further ones."""
        places, looks = {**besides, **self.of_others()}, _LOOKS_THROUGH.search(command)
        names = list(dict.fromkeys(one for one in self._names_in(command) if looks or one not in ("", "/")))
        if looks and not any(Path(self._top, one).is_dir() for one in names):
            names.append("")
        found = [self.all().get(EVERYTHING, "")]
        for name in names:
            found += [self.source(name) or _of_inbox(name), *self._below(name, places)]
        return list(dict.fromkeys(filter(None, found)))

    def _below(self, name: str, places: Mapping[str, str]) -> Iterator[str]:
        """Sources of what is in a folder."""
        folder = f"{name.rstrip('/')}/" if name else ""
        has_all = f"{self._top}/".startswith(folder)
        yield from (source for one, source in places.items() if one.startswith(folder) or (has_all and one[0] != "/"))
        yield from (f"files in {one}/" for one in INBOXES if has_all and self._has_files(one))

    def _has_files(self, inbox: str) -> bool:
        with suppress(OSError):
            names = (f"{inbox}/{one.name}" for one in Path(self._top, inbox).iterdir())
            return any(_is_in_inbox(one) and not one.startswith("outputs/process-") for one in names)
        return False

    def _names_in(self, command: str) -> Iterator[str]:
        """Paths that the words of a command may be; in the place of a pattern what fits it, of * files alone."""
        from nanoclaw.shell_words import words_in

        parts = (part for word in words_in(command) for part in (word, *re.split(r"[^\w./~*?\[\]$+@-]+", word)) if part)
        for word in islice(dict.fromkeys(parts), MOST_WORDS):
            fits: Iterable[str] = [word]
            if glob.has_magic(word):
                names = islice(glob.iglob(self._expanded(word), root_dir=self._top), MOST_MARKS)  # noqa: PTH207
                fits = names if word.strip("./") != "*" else (one for one in names if Path(self._top, one).is_file())
            with suppress(ValueError, re.error):
                yield from map(self._name, fits)

    def has_any(self) -> bool:
        """True where the workspace has others' text."""
        return any(self._below("", self.of_others()))

    def shown_in(self, text: str) -> list[str]:
        """Sources of the files whose paths stand in a listing of their folder, or before lines that were found."""
        whole = text.replace("~/", f"{self._home}/")
        found = [source for place, source in self.of_others().items() if place in whole and _shows(whole, place)]
        found += [self.source(one) for one in re.findall(rf"(?:^|[\s/])((?:{'|'.join(INBOXES)})/[^\s:]+)", text)]
        found += [self.source_of_folder(one) for one in re.findall(_HEADING, text)]
        return list(dict.fromkeys(filter(None, found)))

    # --- marks -------------------------------------------------------------------------------------------------------

    def listing(self) -> FileListing:
        """All files as they are now."""
        return self._lister.scan([self._root])

    def changed_since(self, before: FileListing, is_again: IsAgain, *, only_new: bool) -> list[str]:
        """Files that came, or changed too, by the highest folder that came with them; none that was put back."""
        after = self.listing()
        if not before.tops or not after.tops:
            return [EVERYTHING]
        _, changed, new = changes(before, after)
        changed = [] if only_new else [one for one in changed if not is_again(one, before.files[one])]
        names = [path.removeprefix(f"{before.tops[0]}/") for path in (*new, *changed)]
        there = {f"{path.removeprefix(f'{before.tops[0]}/')}/" for path in before.folders}
        found = {next((one for one in [*_above(name)][-2:0:-1] if one not in there), name): None for name in names}
        if len(found) > MOST_MARKS:
            return list(dict.fromkeys(f"{one.partition('/')[0]}/" if "/" in one else one for one in found))
        return list(found)

    def mark(self, turn: Turn, paths: Iterable[str], sources: Sequence[str]) -> None:
        """Note whose text files have; on disk with the turn's next transaction, which comes before its calls."""
        source = ", ".join(dict.fromkeys(sources))
        new = {path: source for path in paths if path and self.all().get(path) != source}
        if new:
            folders = tuple(path for path in new if path[-1] == "/")
            gone = [one for one, was in self.all().items() if not was and one.startswith(folders)]
            for one in gone:  # another folder is in its place
                del self.all()[one]
            self.all().update(new)
            turn.later(partial(_keep, new, gone))

    def mark_at_once(self, path: str, source: str | None, tx: Tx) -> None:
        """The same outside a turn, of one file; None takes its mark away."""
        self.all().pop(path, None)
        new = {} if source is None else {path: source}
        self.all().update(new)
        _keep(new, [path], tx)

    def unmark(self, turn: Turn, path: str) -> None:
        """A file that was rewritten as a whole, with nothing read before, is clean."""
        if self.all().pop(path, ""):
            turn.later(partial(_keep, {}, [path]))

    def has_mark(self, path: str) -> bool:
        """True for a file or folder that `clean` says something new about."""
        return bool(self._marked(self._name(path)))

    def clean(self, path: str, tx: Tx) -> None:
        """Take a mark away that the owner knows better about; inside a place of others they say that it is theirs."""
        name = self._name(path)
        for one in (name, f"{name}/"):
            self.all().pop(one, None)
        own = {f"{name}/" if Path(self._top, name).is_dir() else name: ""} if self.has_mark(path) else {}
        self.all().update(own)
        _keep(own, [name, f"{name}/"], tx)


_HEADING = re.compile(rf"(?m)^(?:\./)?((?:{'|'.join(INBOXES)})(?:/[^\n]*)?):$")
"""A folder above its files, as `ls -R` shows it."""

_LOOKS_THROUGH = re.compile(
    r"\b(?:find|fd|rg|ag|ack|xargs|walk|r?glob|listdir|scandir|iterdir)\b|(?:\$\(|`) *ls\b"
    r"|\bls\b[^|;&\n]*\s-\w*R|\bgrep\b[^|;&\n]*\s-(?:-\w*recursive|\w*[rR])"
)


def named(name: str) -> str:
    """A file as a source, in whose name nothing passes for what the program writes there."""
    return f"the file {name.translate(_NO_COMMA)}"


_NO_COMMA = str.maketrans(dict.fromkeys(",()", " "))


def _nearest(marks: Mapping[str, str], name: str) -> str | None:
    """The source of a path, or of the nearest folder above it; None for no mark."""
    return next((marks[one] for one in (name, *_above(name), EVERYTHING) if one in marks), None) if marks else None


def _is_in_inbox(name: str) -> bool:
    return name.split("/")[0] in INBOXES and not name.startswith(_OWN_OUTPUTS)


def _of_inbox(name: str) -> str:
    return f"files in {name.translate(_NO_COMMA)}/" if _is_in_inbox(name) else ""


def _above(name: str) -> Iterator[str]:
    """A folder, and those above it."""
    path = PurePosixPath(name)
    return (f"{one}/" for one in (path, *path.parents))


def _shows(text: str, place: str) -> bool:
    """True where a text has paths below a folder or its heading, or a file's path before a line of it."""
    own = re.escape(place)
    sign = rf"{own}[^\s:]|^(?:\./)?{re.escape(place[:-1])}:$" if place[-1] == "/" else rf"{own}[:-]"
    return re.search(rf"(?m)(?<![\w.-])(?:{sign})", text) is not None


def _text(path: str) -> str:
    """The beginning of a plain file's text, '' for none."""
    with suppress(OSError, ValueError):
        return read_plain(path).decode("utf-8", "replace")
    return ""


def _was_fetched(path: str) -> bool:
    """True for a file of which the system keeps that a browser or mail program downloaded it."""
    with suppress(OSError, ValueError):
        if sys.platform != "darwin":
            return not {"user.xdg.origin.url", "user.xdg.referrer.url"}.isdisjoint(os.listxattr(path))
        import ctypes

        room = ctypes.create_string_buffer(10_000)
        length = ctypes.CDLL(None).listxattr(os.fsencode(path), room, len(room), 0)
        names = room.raw[: max(length, 0)].split(b"\0")
        return b"com.apple.quarantine" in names or b"com.apple.metadata:kMDItemWhereFroms" in names
    return False


def _keep(new: Mapping[str, str], gone: Iterable[str], tx: Tx) -> None:
    for path in gone:
        tx.execute("DELETE FROM taint_files WHERE path = ?", path)
    for path, source in new.items():
        tx.execute("INSERT OR REPLACE INTO taint_files (path, source) VALUES (?, ?)", path, source)
