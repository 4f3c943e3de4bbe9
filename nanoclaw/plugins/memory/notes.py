"""Facts in MEMORY.md and daily notes in memory/YYYY-MM-DD.md: the person's own files, changed line by line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from nanoclaw.atomic_write import NotSaved, append_in, reason, replace_in
from nanoclaw.beneath.paths import open_named
from nanoclaw.core.errors import WorkspaceError
from nanoclaw.escapes import BLANKS
from nanoclaw.plugins.memory.origins import Origins, is_struck

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.search import NoteSearch

LARGEST_FILE_BYTES = 5_000_000  # more of one memory file is not read
LONGEST_ENTRY = 4_000


class Hit(NamedTuple):
    """Neighbouring entries of a memory file; lines count from 1 and include `end`."""

    file: str
    start: int
    end: int
    date: date | None
    score: float
    text: str


class Added(NamedTuple):
    """Place of a new entry; `struck`: what became of the line it corrects; `is_new` is false for words that were there.

    `remark` tells of a file that was no longer text.
    """

    file: str
    line: str
    is_new: bool
    struck: str = ""
    remark: str = ""


class MemoryLine(NamedTuple):
    """One line of a memory file; they count from 1."""

    file: str
    number: int
    text: str


class MemoryStore:
    """Adds, strikes or removes single lines, so that all others stay as a person typed them, byte for byte. Anybody who
    looks notes up, or needs their files, asks this."""

    def __init__(
        self, workspace: Path, clock: Callable[[], datetime], lookup: NoteSearch, origins: Origins | None = None
    ) -> None:
        self.workspace, self.origins = workspace, origins
        self._clock, self._lookup = clock, lookup

    def search(self, query: str, limit: int) -> list[Hit]:
        """The entries that match best. Raises nothing."""
        return self._lookup.search(query, limit)

    def files(self) -> list[str]:
        return memory_files(self.workspace)

    def read(self, name: str) -> str | None:
        """Its text, bad bytes shown as U+FFFD, or None when it isn't there. Raises WorkspaceError."""
        return read_memory_file(self.workspace, name)

    def own(self, name: str) -> str:
        """Its text without entries that come from others' text, '' when it isn't there. Raises WorkspaceError."""
        return "\n".join(line for line in self.lines(name) if not (self.origins and self.origins.others(name, [line])))

    def others(self, name: str, start: int, end: int) -> list[str]:
        """Sources of others' text that its lines come from. Raises nothing."""
        if self.origins and self.origins.has_others:
            with suppress(WorkspaceError):
                return self.origins.others(name, self.lines(_memory_name(name))[start - 1 : end])
        return []

    def lines(self, name: str) -> list[str]:
        """Its lines, none when it isn't there. Raises WorkspaceError."""
        return lines_of(self.read(name) or "")

    def change_lines(self, name: str, changes: Mapping[int, tuple[str, str | None]]) -> None:
        """Replace numbered lines, each (as it is, as it will be), by a text or nothing; all other bytes stay.

        Raises WorkspaceError, and changes nothing, if a line is no longer as it was read.
        """
        folder, _, file = name.rpartition("/")
        with _opened(self.workspace, folder) as descriptor:
            content = _whole(self.workspace, name)
            encoding = _encoding(content)
            lines = content.decode(encoding, _kept(encoding)).split("\n")
            for number, (old, new) in sorted(changes.items(), reverse=True):
                line = lines[number - 1] if number <= len(lines) else ""
                start = "\ufeff" if number == 1 and line.startswith("\ufeff") else ""
                bare = line.removesuffix("\r").removeprefix(start)
                if bare.encode(encoding, _kept(encoding)).decode(encoding, "replace") != old:
                    raise WorkspaceError(f"line {number} of {name} changed meanwhile; nothing was done. Look again.")
                if new is not None:
                    lines[number - 1] = start + new + line[len(start) + len(bare) :]
                else:
                    lines[number - 1 : number] = [start] if start and number == len(lines) else []
                    if start and lines and number == 1 and not lines[0].startswith(start):
                        lines[0] = start + lines[0]
            replace_in(descriptor, file, "\n".join(lines).encode(encoding, _kept(encoding)))

    def today(self) -> str:
        """The name of today's note."""
        return f"memory/{self._clock().date().isoformat()}.md"

    def said_today(self, text: str) -> dict[int, tuple[str, None]]:
        """Lines of today's note that say only this, for `change_lines` to remove."""
        lines, entry = self.lines(self.today()), " ".join(text.split())
        return {number: (line, None) for number, line in enumerate(lines, 1) if entry_text(line) == entry}

    def add_note(self, text: str, also: str = "") -> Added:
        """One line in today's note; `also` has other words to find it by."""
        now = self._clock()
        return self._add(f"{now:%Y-%m-%d}.md", "memory", f"- {now:%H:%M} ", text, also)

    def add_fact(self, text: str, ended: MemoryLine | None = None, *, keep_both: bool = False, also: str = "") -> Added:
        """One line in MEMORY.md. Raises Contradiction if a fact, besides the one that is ended, says something else,
        unless both are to be kept."""
        if not keep_both:
            self._check(_entry(text), ended)
        return self._add("MEMORY.md", "", f"- {self._clock().date().isoformat()}: ", text, also)

    def end(self, line: MemoryLine) -> str:
        """Strike a fact that is no longer true, or say of a note until when it held; the line as it is then. Raises
        WorkspaceError."""
        day = self._clock().date()
        ended = _struck(line.text, day) if line.file == "MEMORY.md" else f"{line.text.rstrip()} (until {day})"
        self.change_lines(line.file, {line.number: (line.text, ended)})
        return ended

    def outdated(self, words: str, besides: str = "") -> MemoryLine:
        """The one fact that has the words, or else the one note, that still holds and does not say `besides`. Raises
        WorkspaceError that lists what has them."""
        facts = [MemoryLine("MEMORY.md", *each) for each in self.facts(besides)]
        wanted = _same(words)
        found = [each for each in facts if wanted and wanted in _same(each.text)] or self._notes_with(wanted, besides)
        whole = [each for each in found if wanted in (_same(each.text), _same(entry_text(each.text)))]
        if len(whole or found) == 1:
            return (whole or found)[0]
        listed = "\n".join(f"{file}:{number}: {line}" for file, number, line in (found or facts)[:10])
        problem = f"{len(found)} entries have {words!r}" if found else f"no current entry has {words[:100]!r}"
        raise WorkspaceError(f"{problem}; nothing was changed. Give more of the old line's exact words:\n{listed}")

    def _notes_with(self, wanted: str, besides: str) -> list[MemoryLine]:
        """Lines of notes that still hold, have the words and don't say `besides`, as far as a search finds them."""
        places = {(hit.file, number) for hit in self.search(wanted, 10) for number in range(hit.start, hit.end + 1)}
        lines = {file: self.lines(file) for file, _ in places if file != "MEMORY.md"}
        every = [MemoryLine(file, number, lines[file][number - 1]) for file, number in sorted(places) if file in lines]
        there = [each for each in every if wanted in _same(without_also(each.text)) and UNTIL.search(each.text) is None]
        return [each for each in there if entry_text(each.text) != besides]

    def facts(self, besides: str = "") -> list[tuple[int, str]]:
        """Lines of MEMORY.md that are facts, with their numbers, without struck ones and `besides`."""
        lines = lines_of(read_memory_file(self.workspace, "MEMORY.md") or "")
        return [(number, line) for number, line in enumerate(lines, 1) if _is_fact(line, besides)]

    def _check(self, entry: str, ended: MemoryLine | None) -> None:
        """Raises Contradiction if a fact, except the one that is ended, cannot be true together with a new one."""
        from nanoclaw.plugins.memory.contradictions import Contradiction, contradict

        facts = [each for each in self.facts(entry) if ended != ("MEMORY.md", *each)]
        if standing := [(number, line) for number, line in facts if contradict(plain_entry(line), entry)]:
            raise Contradiction(standing)

    def _add(self, name: str, folder: str, prefix: str, text: str, also: str) -> Added:
        entry = _entry(text)
        file = f"{folder}/{name}" if folder else name
        remark = self._mend(file)
        lines = lines_of(read_memory_file(self.workspace, file) or "")
        if known := next((line for line in lines if entry_text(line) == entry), ""):
            return Added(file, without_also(known), False, remark=remark)
        line = prefix + entry
        with _opened(self.workspace, folder) as descriptor:
            append_in(descriptor, name, f"{line}{_also_comment(also)}\n")
        return Added(file, line, True, remark=remark)

    def _mend(self, file: str) -> str:
        """Keep a file aside that is no longer text, and continue with its readable lines; a sentence about that, '' for
        one that is well."""
        text = read_memory_file(self.workspace, file)
        if not text or not _is_damaged(text):
            return ""
        folder, _, name = file.rpartition("/")
        aside = f"{name}.damaged-{self._clock():%Y%m%d-%H%M%S}"
        readable = [
            line for line in lines_of(text) if "\ufffd" not in line and not re.search(_CONTROL, line.replace("\t", ""))
        ]
        with _opened(self.workspace, folder) as descriptor:
            replace_in(descriptor, aside, _whole(self.workspace, file))
            replace_in(descriptor, name, "".join(line + "\n" for line in readable))
        return f"{file} was damaged, it was no longer text: it is kept as {aside}, and what can still be read is used."


def memory_files(workspace: Path) -> list[str]:
    """MEMORY.md and the daily notes by name, as paths within the workspace. Links are not followed."""
    names = []
    facts, folder = workspace / "MEMORY.md", workspace / "memory"
    if facts.is_file() and not facts.is_symlink():
        names.append("MEMORY.md")
    try:
        if folder.is_symlink():
            return names
        with os.scandir(folder) as entries:
            notes = [e.name for e in entries if e.name.endswith(".md") and e.is_file(follow_symlinks=False)]
    except OSError:
        return names
    return names + [f"memory/{name}" for name in sorted(notes)]


def read_memory_file(workspace: Path, name: str) -> str | None:
    """Text of a memory file, bad bytes shown as U+FFFD, or None when it isn't there."""
    try:
        with open_named(workspace, name) as file:
            content = file.read(LARGEST_FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WorkspaceError(f"{name} cannot be read: {reason(error)}.") from None
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    return content.decode("utf-8-sig", "replace")


def lines_of(text: str) -> list[str]:
    """Lines of a text as an editor counts them."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _is_damaged(text: str) -> bool:
    """Tell a file that is not text; one in an older encoding, or with a few odd bytes, has few such signs."""
    return "\ufffd" * 32 in text or len(re.findall(_NEVER_TYPED, text)) > max(16, len(text) // 50)


def without_strike(line: str) -> str:
    """A struck entry, or one that held until a day, as it was."""
    line = UNTIL.sub("", line)
    return re.sub(r"^(\s*[-*+]\s+)~~(.*)~~.*$", r"\1\2", line) if is_struck(line) else line


def entry_text(line: str) -> str:
    """Text of an entry without its bullet, date or time."""
    return without_also(re.sub(_ENTRY_START, "", line)).strip()


def also_of(text: str) -> str:
    """Other words that an entry is found by; they are in a comment and are not shown."""
    return " ".join(re.findall(_ALSO, text)) if _ALSO_BEGIN in text else ""


def without_also(text: str) -> str:
    return re.sub(_ALSO, "", text) if _ALSO_BEGIN in text else text


def plain_entry(line: str) -> str:
    """The same without what is not shown: a comment at its end."""
    return re.sub(r"\s*<!--.*$", "", entry_text(line))


_NEVER_TYPED = "[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]"
_CONTROL = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_ENTRY_START = r"^\s*[-*+]\s+(?:\d{4}-\d\d-\d\d:\s*|\d\d:\d\d\s+)?"
_ALSO_BEGIN, _ALSO, _LONGEST_ALSO = "<!-- also: ", r"[ \t]*<!-- also: ([^<>\n]*?)-->", 120
UNTIL = re.compile(r" \(until \d{4}-\d\d-\d\d\)$")
_NOTE_NAME = r"(?:memory/)?([^/\x00-\x1f\x7f-\x9f\ud800-\udfff]+?)(?:\.md)?"


def _entry(text: str) -> str:
    """The text as one line, or WorkspaceError for nothing and for too much."""
    entry = " ".join(re.sub(_CONTROL, " ", text).split())
    if not entry.strip(BLANKS):
        raise WorkspaceError("there is nothing to note: the text is empty.")
    entry = entry.replace(_ALSO_BEGIN, "<!-- also ")  # so that no part of the text is hidden as other words
    if len(entry) > LONGEST_ENTRY:
        raise WorkspaceError(f"a note has at most {LONGEST_ENTRY:,} characters: write a file and note its name.")
    return entry


def _also_comment(also: str) -> str:
    """The comment with other words for an entry; signs that could end it are left out."""
    words = " ".join(re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", also[:_LONGEST_ALSO]))
    return f" {_ALSO_BEGIN}{words} -->" if words else ""


def _is_fact(line: str, besides: str) -> bool:
    says = entry_text(line)
    return says not in ("", besides) and not says.startswith(("#", "<!--")) and not is_struck(line)


def _same(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!…")


def _struck(line: str, day: date) -> str:
    match = re.match(r"\s*(?:[-*+]\s+)?", line)
    start = match[0] if match else ""
    return f"{start or '- '}~~{line[len(start) :].rstrip()}~~ ({day.isoformat()})"


def _whole(workspace: Path, name: str) -> bytes:
    """Bytes of a file; half a character at the end of a UTF-16 file is made whole."""
    try:
        with open_named(workspace, name) as file:
            content = file.read()
            return content + b"\0" if len(content) % 2 and _encoding(content) != "utf-8" else content
    except OSError as error:
        raise WorkspaceError(f"{name} cannot be read: {reason(error)}.") from None


def _encoding(content: bytes) -> str:
    return {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(content[:2], "utf-8")


def _kept(encoding: str) -> str:
    """Error handler with which bytes that are no text in this encoding come back as they were."""
    return "surrogateescape" if encoding == "utf-8" else "surrogatepass"


def _memory_name(file: str) -> str:
    path = PurePosixPath(file.strip().removeprefix("./"))
    if str(path).casefold() in ("memory.md", "memory"):
        return "MEMORY.md"
    match = re.fullmatch(_NOTE_NAME, str(path))
    if match is None or match[1].startswith("."):
        raise WorkspaceError(f"{file[:100]!r} is not a memory file: give MEMORY.md or memory/YYYY-MM-DD.md.")
    return f"memory/{match[1]}.md"


@contextmanager
def _opened(workspace: Path, folder: str) -> Iterator[int]:
    """The descriptor of a folder to write in, made when it is missing. Raises WorkspaceError."""
    target = workspace / folder
    try:
        target.mkdir(parents=True, exist_ok=True)
        opened = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if folder else 0))
    except OSError as error:
        raise WorkspaceError(f"{folder or 'the workspace'} cannot be used: {reason(error)}.") from None
    try:
        yield opened
    except NotSaved as error:
        raise WorkspaceError(str(error)) from None
    finally:
        os.close(opened)
