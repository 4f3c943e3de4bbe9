"""Files of the workspace with others' text: which they are, and which commands name them."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from nanoclaw.beneath.paths import name_beneath, open_named
from nanoclaw.core.plugin import Host, Turn, Tx
from nanoclaw.snapshots.listing import FileLister, FileListing, changes

if TYPE_CHECKING:
    from nanoclaw.plugins.taint.repositories import Repositories

INBOXES = ("media", "downloads", "outputs")
"""Folders that the program itself puts others' text into. What commands printed is in `outputs` too."""

MOST_WORDS, LONGEST_WORD = 5_000, 1_000
"""Words of a command, and characters of one, up to which `{a,b}` is read as a shell does."""

MOST_FILES, MOST_ENTRIES = 300, 100_000
"""Files of one command that are marked one by one, and what is looked through for them: else all of a folder is."""

EVERYTHING = "."
_OWN_OUTPUTS = "outputs/exec-"
_OUTPUTS_OF_COMMANDS = (_OWN_OUTPUTS, "outputs/process-")


class MarkedFiles:
    """Paths of the workspace with the sources of what is in them, in the store. A path that ends with / is a folder."""

    def __init__(self, host: Host) -> None:
        self._host, self._root = host, host.workspace
        self._kept: dict[str, str] | None = None
        self._lister = FileLister(most=MOST_ENTRIES)
        self._found: list[str] = []

    @cached_property
    def _search(self) -> Repositories:
        from nanoclaw.plugins.taint.repositories import Repositories

        return Repositories(self._root, self._home, self._host.environment)

    @cached_property
    def _home(self) -> Path:
        """The owner's home."""
        return Path(self._host.environment.get("HOME") or Path.home())

    @cached_property
    def downloads(self) -> list[str]:
        """Folders outside the workspace with what others wrote."""
        from nanoclaw.plugins.taint.downloads import folders

        reach = self._host.reach
        return folders(self._home, (*reach.read, *reach.write))

    async def refresh(self) -> None:
        """Look which repositories are of others by now."""
        import asyncio

        self._found = await asyncio.to_thread(self._search.of_others, frozenset(self.all()))

    def repositories(self) -> dict[str, str]:
        """Folders of the repositories of others that were found and have no mark, with their sources."""
        found = [one for one in self._found if self._kept_for(one) is None]
        return {one: f"the repository {one.rstrip('/').translate(_NO_COMMA)}" for one in found}

    def marks(self) -> dict[str, str]:
        """All of them, without what the owner knows better about."""
        return {**self.repositories(), **{path: source for path, source in self.all().items() if source}}

    def all(self) -> dict[str, str]:
        """Those in the store; one with the source '' is the owner's, whatever folder it is in."""
        if self._kept is None:
            self._kept = dict(self._host.read("SELECT path, source FROM taint_files ORDER BY path"))
        return self._kept

    def in_reach(self) -> dict[str, str]:
        """Folders of downloads that tools may open, with their sources."""
        reach = self._host.reach
        tops = [f"{os.path.realpath(one)}/" for one in (*reach.read, *reach.write)]
        found = [one for one in self.downloads if any(f"{one}/".startswith(top) for top in tops)]
        return {f"{one}/": source for one in found if (source := self.source(one))}

    def reload(self) -> None:
        self._kept = None

    # --- marks -------------------------------------------------------------------------------------------------------

    def mark(self, turn: Turn, paths: Iterable[str], sources: Sequence[str]) -> None:
        """Note whose text files have; on disk with the turn's next transaction, which comes before its calls."""
        source = ", ".join(dict.fromkeys(sources))
        new = {path: source for path in paths if path and self.all().get(path) != source}
        if new:
            gone = [one for one, was in self.all().items() if not was and _is_in_one(one, new)]
            for one in gone:  # another folder is in its place
                del self.all()[one]
            self.all().update(new)
            turn.later(partial(_keep, new, gone))

    def mark_at_once(self, path: str, sources: Sequence[str], tx: Tx) -> None:
        """The same outside a turn, of one file."""
        self.all()[path] = ", ".join(dict.fromkeys(sources))
        _keep({path: self.all()[path]}, (), tx)

    def unmark(self, turn: Turn, path: str) -> None:
        """A file that was rewritten as a whole, with nothing read before, is clean."""
        if self.all().get(path):
            del self.all()[path]
            turn.later(partial(_drop, path))

    def has_mark(self, path: str) -> bool:
        """True for a file or folder that `clean` takes a mark off."""
        name = self._name(path)
        return not {name, f"{name}/"}.isdisjoint(self.marks()) or bool(self._outside(name))

    def clean(self, path: str, tx: Tx) -> None:
        """Take a mark away that the owner knows better about."""
        name = self._name(path)
        for one in (name, f"{name}/"):
            self.all().pop(one, None)
            _drop(one, tx)
        if f"{name}/" in self._found or self._outside(name):
            is_folder = f"{name}/" in self._found or Path(self._root, name).is_dir()
            own = {f"{name}/" if is_folder else name: ""}
            self.all().update(own)
            _keep(own, (), tx)

    # --- who asks ----------------------------------------------------------------------------------------------------

    def source(self, path: str) -> str:
        """Whose text a file has, '' for the person's and the assistant's own."""
        name = self._name(path)
        is_in = _is_in_inbox(name) and "/" in name
        return self._marked(name) or (named(name) if is_in else "")

    def source_of_folder(self, path: str) -> str:
        """Whose text all files of a folder have, '' where that is not told."""
        name = self._name(path)
        return self._marked(f"{name}/") or (f"files in {name.translate(_NO_COMMA)}/" if _is_in_inbox(name) else "")

    def _name(self, path: str) -> str:
        """The path within the workspace, or from the root."""
        if path[:1] in "~$/":
            from nanoclaw.plugins.taint.downloads import expanded

            path = expanded(path, self._home)
        elsewhere = os.path.realpath(path) if path.startswith("/") and "\0" not in path else path.rstrip("/")
        return name_beneath(self._root, path) or elsewhere

    def _outside(self, name: str) -> str:
        """The source of a file or folder that came from the net by the owner's own doing, '' for any other."""
        from nanoclaw.plugins.taint.downloads import was_fetched

        is_there = name.startswith("/") and any(f"{name}/".startswith(f"{one}/") for one in self.downloads)
        return named(name) if is_there or was_fetched(os.path.join(self._root, name)) else ""  # noqa: PTH118

    def _marked(self, name: str) -> str:
        """The source of the mark that a path has, or the nearest folder above it."""
        if (kept := self._kept_for(name)) is not None:
            return kept
        found = self.repositories()
        return next((found[one] for one in (_above(name) if found else ()) if one in found), "") or self._outside(name)

    def _kept_for(self, name: str) -> str | None:
        """The same of those in the store; None for nothing."""
        kept = self.all()
        return next((kept[one] for one in (name, *_above(name), EVERYTHING) if one in kept), None) if kept else None

    def named_in(self, text: str) -> list[str]:
        """Sources of the files whose paths are in a listing or in lines that were found."""
        paths = re.findall(r"(?:^|[\s/])((?:media|downloads|outputs)/[^\s:]+)", text)
        found = [self.source(one) for one in paths]
        found += [self.source_of_folder(one) for one in _HEADING.findall(text)]
        found += [source for path, source in self.all().items() if path != EVERYTHING and path.rstrip("/") in text]
        found += [source for path, source in self.repositories().items() if _shows(text, path)]
        whole = text.replace("~/", f"{self._home}/")
        found += [self.source(one) for one in self.downloads if f"{one}/" in whole]
        return list(dict.fromkeys(filter(None, found)))

    async def repeated_in(self, text: str, inboxes: Sequence[str] | None = None, command: str = "") -> list[str]:
        """Sources of the files of which a text repeats a line: marked ones, those of the inboxes, and where a `command`
        looks around for files also those of repositories of others."""
        import asyncio

        marked = [path for path, source in self.all().items() if source and not path.endswith("/")]
        folders = list(self.repositories()) if _LOOKS_AROUND.search(command) else []
        found = await asyncio.to_thread(self._repeated, marked, folders, inboxes, text)
        return list(dict.fromkeys(filter(None, map(self.source, found))))

    def _repeated(
        self, marked: Sequence[str], folders: Sequence[str], inboxes: Sequence[str] | None, text: str
    ) -> list[str]:
        from nanoclaw.plugins.taint.traces import files_in, repeated

        inboxes = self._in_inboxes() if inboxes is None else inboxes
        own = [one for one in marked if one != EVERYTHING]
        return [
            *repeated(self._root, [*own, *inboxes], text),
            *repeated(self._root, files_in(self._root, folders), text),
        ]

    def _in_inboxes(self) -> list[str]:
        """Files of the folders for others' text, but for what commands printed: those have their source elsewhere."""
        from nanoclaw.plugins.taint.traces import files_in

        return [path for path in files_in(self._root, INBOXES) if not path.startswith(_OUTPUTS_OF_COMMANDS)]

    async def of_command(self, command: str, besides: Iterable[tuple[str, str]] = ()) -> CommandFiles:
        """Files that the words of a command name: by path, by name alone, by a folder above, by a pattern. `besides`
        are paths with sources that have no mark."""
        import asyncio

        has_pattern = any(sign in command for sign in "*?[")
        inboxes = await asyncio.to_thread(self._in_inboxes) if has_pattern else None
        words = _words(command)
        found = dict[str, None]()
        for path, source in [*self.all().items(), *besides]:
            if path == EVERYTHING or any(_names(word, path.rstrip("/")) for word in words):
                found[source] = None
        for word in words:
            part = re.split(r"[=:]", word)[-1]
            if source := self.source(part) if part not in (".", "..", "/") else "":
                found[source] = None
            elif _is_in_inbox(inbox := part.strip("./")):
                found[f"files in {inbox.split('/')[0]}/"] = None
        if inboxes:
            from nanoclaw.plugins.taint.traces import matching

            found.update(dict.fromkeys(map(self.source, matching(words, inboxes))))
        found.update(dict.fromkeys([*self.repositories_of(command), *self._downloads_of(command)]))
        return CommandFiles([one for one in found if one], inboxes)

    def _downloads_of(self, command: str) -> list[str]:
        """Sources of the folders of downloads that a command reaches by a pattern or from above."""
        from nanoclaw.plugins.taint.downloads import expanded, reaches

        words = [expanded(word, self._home) for word in _words(command) if word[:1] in "~$/"]
        looks = bool(_LOOKS_AROUND.search(command))
        return [
            self.source(one)
            for one in self.downloads
            if any(not f"{w}/".startswith(f"{one}/") and reaches(w, one, looks_around=looks) for w in words)
        ]

    def repositories_of(self, command: str) -> list[str]:
        """Sources of the repositories that a command names, goes into, or looks for."""
        words = _words(command)
        looks_for_all = ".git" in words and "find" in words
        return [
            source
            for path, source in self.repositories().items()
            if looks_for_all or any(_goes_into(word, path.rstrip("/")) for word in words)
        ]

    def programs_of(self, command: str) -> list[str]:
        """Those of the files with others' text that a command names and that can be run: their paths."""
        found = dict[str, None]()
        for word in _words(command):
            name = self._name(re.split(r"[=:]", word)[-1])
            named = [name] if self.source(name) else []
            named += [path for path in self.all() if not path.endswith("/") and _names(word, path)]
            found.update(dict.fromkeys(path for path in named if _can_run(self._root, path)))
        return list(found)

    def archive_of(self, command: str) -> str:
        """The first archive that a command names."""
        names = (self._name(re.split(r"[=:]", word)[-1]) for word in _words(command))
        return next((name for name in names if _is_archive(self._root, name)), "")

    def listed(self) -> FileListing:
        """All files as they are now."""
        return self._lister.scan([self._root])

    def changed_since(self, before: FileListing) -> list[str]:
        """Files that changed, or came."""
        after = self.listed()
        if not before.tops or not after.tops:
            return [EVERYTHING]
        _, changed, new = changes(before, after)
        return names_in(before.tops[0], [*changed, *new])


def in_short(found: Sequence[str]) -> Sequence[str]:
    """Paths, or their folders where they are too many."""
    if len(found) <= MOST_FILES:
        return found
    return list(dict.fromkeys(f"{one.partition('/')[0]}/" if "/" in one else one for one in found))


def names_in(top: str, paths: Iterable[str]) -> list[str]:
    """Paths within a folder."""
    return [path[len(top) + 1 :] for path in paths]


class CommandFiles(NamedTuple):
    """Sources of the files that a command names, and the files of the inboxes, where they were looked at."""

    sources: Sequence[str] = ()
    inboxes: Sequence[str] | None = None


class Before(NamedTuple):
    """All files as they were before a command. `brings` is the source of those that come by it: of the network, of an
    archive."""

    listing: FileListing
    brings: str = ""


def brought(found: Iterable[str], before: FileListing) -> list[str]:
    """Files that came, by the highest folder that came with them."""
    there = {*names_in(before.tops[0], before.files)} if before.tops else set[str]()
    known = {str(folder) for path in there for folder in PurePosixPath(path).parents}
    came = dict[str, None]()
    for path in found:
        if path not in there:
            folders = [str(folder) for folder in PurePosixPath(path).parents if str(folder) not in known]
            came[f"{folders[-1]}/" if folders and folders[-1] != "." else path] = None
    return list(came)


def is_guarded(root: Path, path: str) -> bool:
    """True for a file that a model reads as the person's, and for what other programs of theirs run."""
    from nanoclaw.kept_files import is_own, who_runs

    parts = Path(name_beneath(root, path) or path).parts
    return is_own(parts) or bool(who_runs(parts))


def _can_run(root: Path, path: str) -> bool:
    """True for a file that may be run, begins with #!, or has the name of a program's source."""
    import mimetypes

    kind = mimetypes.guess_type(path)[0] or ""
    try:
        with open_named(root, path) as file:
            mode = os.fstat(file.fileno()).st_mode
            return bool(mode & 0o111) or file.read(2) == b"#!" or _PROGRAM.fullmatch(kind) is not None
    except (OSError, ValueError):
        return False


def _is_archive(root: Path, path: str) -> bool:
    try:
        with open_named(root, path) as file:
            start = file.read(300)
    except (OSError, ValueError):
        return False
    is_document = start[30:].startswith((b"[Content_Types].xml", b"mimetype"))
    return (start.startswith(_ARCHIVES) or start[257:262] == b"ustar") and not is_document


_PROGRAM = re.compile(r"text/(?:x-.*|javascript)|application/x-(?:sh|csh|perl|python.*)")
_ARCHIVES = (b"PK\3\4", b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh", b"7z\xbc\xaf\x27\x1c", b"Rar!", b"\x28\xb5\x2f\xfd")


def _is_in_inbox(name: str) -> bool:
    return name.split("/")[0] in INBOXES and not name.startswith(_OWN_OUTPUTS)


_LOOKS_AROUND = re.compile(
    r"\b(?:find|fd|rg|ag|ack|xargs|tree|tar|zip|cpio|rsync|walk|glob|rglob|for)\b|\$\(|`|\*\*"
    r"|\bgrep\b[^|;&\n]*\s-(?:-(?:dereference-)?recursive|\w*[rR])"
)
"""Signs of a command that reads files which it does not name. The program's own files and those of others have many
lines in common, so what any other one shows is not compared with those of repositories."""

_HEADING = re.compile(r"(?m)^(?:\./)?((?:media|downloads|outputs)(?:/[^\n]*)?):$")
"""A folder above its files, as `ls -R` shows it."""

_WORD = re.compile(r"(?:[^\s'\"\\;|&<>()]|\\.|'[^']*'|\"(?:\\.|[^\"\\])*\")+", re.DOTALL)
_QUOTES = re.compile(r"\\(.)|'([^']*)'|\"((?:\\.|[^\"\\])*)\"", re.DOTALL)


def _words(command: str) -> list[str]:
    """Words that a command may have, with their quotes taken away and without."""
    words = re.split(r"[\s;|&<>()`]+", command)
    for found in _WORD.finditer(command):
        word = _QUOTES.sub(lambda sign: sign[1] or sign[2] or re.sub(r"\\([$`\"\\])", r"\1", sign[3] or ""), found[0])
        words += [word, *re.split(r"[\s;|&<>()`]+", word)]
    for word in words:  # it grows
        if len(words) >= MOST_WORDS or len(word) > LONGEST_WORD:
            continue
        if choice := next((one for one in re.finditer(r"\{([^{}]*)\}", word) if "," in one[1]), None):
            words += [word[: choice.start()] + one + word[choice.end() :] for one in choice[1].split(",")]
    return [word.strip("'\"") for word in dict.fromkeys(words) if word.strip("'\"")]


def _names(word: str, path: str) -> bool:
    """True where a word of a command may mean a path: the path, its name, a folder above it, a pattern of either."""
    word = re.sub(r"^\./+", "", re.split(r"[=:]", word)[-1]).rstrip("/")
    if not word:
        return False
    name = path.rpartition("/")[2]
    if word in (".", "*") or path.endswith(f"/{word}") or word.endswith(f"/{path}") or word in (path, name):
        return True
    if path.startswith(f"{word}/"):
        return True
    if any(sign in word for sign in "*?["):
        return any(fnmatch.fnmatch(one, word) for one in (path, name)) or fnmatch.fnmatch(path, f"{word}/*")
    return name.partition(".")[0] == word and len(word) > 2  # python -m name


def _goes_into(word: str, path: str) -> bool:
    """True where a word of a command may mean the folder of a repository, one above it, or a file in it."""
    word = re.split(r"[=:]", word)[-1]
    short = re.sub(r"^(?:\.?/+)+", "", word).rstrip("/")
    if not short or short == ".":
        return False
    if f"/{path}/" in f"/{short}/" or path.startswith(f"{short}/"):
        return True
    if word == "*" or not any(sign in short for sign in "*?["):
        return False
    return "**" in short or all(map(fnmatch.fnmatchcase, path.split("/"), short.split("/")))


def _shows(text: str, path: str) -> bool:
    """True where a text contains a path of a repository; of one without a folder above only files in it do."""
    name = re.escape(path.rstrip("/"))
    end = r"(?![\w.-])" if "/" in path.rstrip("/") else r"/"
    return re.search(rf"(?m)(?<![\w.-]){name}{end}|^(?:\./)?{name}:$|'{name}'", text) is not None


def _above(name: str) -> Iterator[str]:
    """A folder, and those above it."""
    return (f"{one}/" for one in (name, *map(str, PurePosixPath(name).parents)))


def _is_in_one(path: str, folders: Iterable[str]) -> bool:
    return any(one == EVERYTHING or (one.endswith("/") and path.startswith(one)) for one in folders)


def _keep(new: dict[str, str], gone: Iterable[str], tx: Tx) -> None:
    for path in gone:
        _drop(path, tx)
    for path, source in new.items():
        tx.execute("INSERT OR REPLACE INTO taint_files (path, source) VALUES (?, ?)", path, source)


def _drop(path: str, tx: Tx) -> None:
    tx.execute("DELETE FROM taint_files WHERE path = ?", path)


def named(name: str) -> str:
    """A file as a source, in whose name nothing passes for what the program writes there."""
    return f"the file {name.translate(_NO_COMMA)}"


_NO_COMMA = str.maketrans(dict.fromkeys(",()", " "))
