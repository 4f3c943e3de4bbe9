"""Forgetting for good: shows what has the words, then takes it out of every file of the home, with ten minutes to undo.

For so long what was taken out lies in one private file, which the answer names. It is deleted by a running program when
the time is over, else by the next that starts.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nanoclaw.core.errors import Refused, ToolError, WorkspaceError
from nanoclaw.core.messages import Address, ToolExample
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.sessions import Sessions
from nanoclaw.core.tool import Tool, ToolContext, tool
from nanoclaw.core.workspace import Workspace
from nanoclaw.escapes import visible
from nanoclaw.plugins.forget import scrub
from nanoclaw.plugins.forget.scrub import Cell
from nanoclaw.plugins.forget.undo_file import KEEP_FOR, UndoFile
from nanoclaw.plugins.forget.words import Words, plain_text, tokens, words_of
from nanoclaw.plugins.memory.notes import lines_of, memory_files, read_memory_file
from nanoclaw.plugins.undo.changes import Changes

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.recall import Hit

TOOL = "memory_forget"
MOST_HITS = 20
MOST_SIMILAR = 5
LARGEST_OTHER_BYTES = 1_000_000
MOST_OTHER_FILES = 5_000
LARGEST_SEARCHED_BYTES = 100_000_000

Search = Callable[[str, int], Sequence["Hit"]]
"""Recall: a query and a limit to hits, the best first."""

Later = Callable[[float, Callable[[], object]], object]
"""Calls a function after so many seconds, if the program still runs then."""


class Passage(NamedTuple):
    """Lines of a file in the workspace; `exact` when they have the very words."""

    file: str
    start: int
    lines: tuple[str, ...]
    exact: bool

    @property
    def numbers(self) -> Sequence[tuple[str, int]]:
        return [(self.file, self.start + at) for at in range(len(self.lines))]

    @property
    def place(self) -> str:
        return f"{self.file}:{self.start}" + (f"-{self.start + len(self.lines) - 1}" if len(self.lines) > 1 else "")


@dataclass(frozen=True, slots=True)
class Listing:
    """What has the words, numbered from 1: the passages, then the conversations if any message has them."""

    query: str
    passages: tuple[Passage, ...]
    messages: int
    left_out: int = 0

    @property
    def count(self) -> int:
        return len(self.passages) + bool(self.messages)

    @property
    def exact(self) -> list[int]:
        """The numbers of what has the very words."""
        numbers = [number for number, passage in enumerate(self.passages, 1) if passage.exact]
        return [*numbers, self.count] if self.messages else numbers


class Forgotten(NamedTuple):
    """What was done; `messages` had the words that were asked for, `texts` are copies of them, and texts with other
    words of what was forgotten; `still_in` names files of the home that have the words all the same."""

    places: tuple[str, ...]
    messages: int
    texts: int
    still_in: tuple[str, ...]
    deleted: int
    """Copies that were kept aside (of a damaged state, of what was there before a restore) and had the words."""
    undo_file: Path
    """The file that still has them, for ten minutes."""

    def way_back(self, command: str) -> str:
        return (
            f"For 10 minutes `{command}` can bring it back, from the private file {self.undo_file}; then that is "
            "deleted and it is gone for good."
        )


def later(seconds: float, call: Callable[[], object]) -> None:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


class Forgetter:
    def __init__(
        self,
        home: Path,
        changes: Changes,
        clock: Callable[[], datetime],
        *,
        search: Search,
        drop_index: Callable[[], None],
        store: Store | None,
        sessions: Sessions | None = None,
        later: Later = later,
    ) -> None:
        """`drop_index` makes the search index forget what the notes no longer have, to the byte."""
        self._home, self._changes, self._clock = home, changes, clock
        self._search, self._drop_index, self._store, self._sessions = search, drop_index, store, sessions
        self._listings: dict[str, Listing] = {}
        self._later, self._undo_file = later, UndoFile(home / "forgotten.json", clock)
        for old in home.glob("forgotten.*.?"):  # earlier versions kept it in two files
            old.unlink(missing_ok=True)
        if self.undoable_since:
            self._delete_in_time()

    @property
    def workspace(self) -> Workspace:
        return self._changes.workspace

    def find(self, query: str) -> Listing:
        """What could be forgotten. Its numbers hold until it is listed again."""
        if not (query := " ".join(query.split())):
            raise ToolError("say which words: the query is empty.")
        found = [*self._exact(query)]
        known = {(passage.file, passage.start) for passage in found}
        similar = [each for each in self._similar(query) if not any(line in known for line in each.numbers)]
        messages = scrub.mentions(self._store, _has_words(query)) if self._store else 0
        listing = Listing(
            query, (*found[:MOST_HITS], *similar[:MOST_SIMILAR]), messages, max(0, len(found) - MOST_HITS)
        )
        self._listings[query] = listing
        return listing

    def forget(self, query: str, numbers: Sequence[int], address: Address | None = None) -> Forgotten:
        """Take what the numbers name out of the notes, the conversations and all else that the program keeps.

        Raises WorkspaceError when a file changed since it was listed; then nothing was done. It also says so when there
        is no way back.
        """
        query = " ".join(query.split())
        if self._listings and query not in self._listings:
            listed = ", ".join(map(repr, self._listings))
            raise ToolError(f"the numbers belong to the list for {listed}: give that query, or list this one first.")
        listing = self._listings.get(query) or self.find(query)
        if wrong := [number for number in numbers if not 0 < number <= listing.count] or not numbers:
            raise ToolError(f"{wrong or 'no number'} is not in the list: it has {listing.count} numbers.")
        chosen = [listing.passages[number - 1] for number in numbers if number <= len(listing.passages)]
        lines = self._lines(chosen)
        removed = [line for per_file in lines.values() for line in per_file.values()]
        kept = [text for name in memory_files(self.workspace) if (text := self._kept(name, lines.get(name, {})))]
        all_of_it = any(_has(line, query) for line in removed) and not any(_has(text, query) for text in kept)
        asked = [query] if all_of_it or (listing.messages and listing.count in numbers) else []
        words = words_of(removed, asked, kept)
        cells = self._forget_in_store(words, address)
        changes = self._changes.forget(words.stand_in)
        _forget_typed(self._home / "history", words, cells)
        for path in sorted((self._home / "logs").glob("*")):
            _drop_lines(path, words)
        for name, per_file in lines.items():
            change_lines(self.workspace, name, {number: (line, None) for number, line in per_file.items()})
        self._drop_index()
        self._listings.clear()
        self._keep(lines, cells, changes)
        places = tuple(f"{name}:{number}" for name, per_file in lines.items() for number in per_file)
        held = list(self._holding(words))
        aside = [name for name in held if _is_aside(name)]
        for name in aside:
            (self._home / name).unlink(missing_ok=True)
        has_query = _has_words(query)
        messages = sum(cell.table == "messages" and has_query(cell.before) for cell in cells)
        still_in = tuple(name for name in held if name not in aside)
        return Forgotten(places, messages, len(cells) - messages, still_in, len(aside), self._undo_file.path)

    @property
    def undoable_since(self) -> datetime | None:
        """When the last forgetting was, while it can be undone."""
        return self._undo_file.since()

    def undo(self) -> str:
        """Put back what was forgotten last, and say what. Raises WorkspaceError when it is too late."""
        undo = self._undo_file.newest()
        if not undo:
            raise WorkspaceError("nothing was forgotten within the last ten minutes.")
        for name, lines in undo["lines"].items():
            insert_lines(self.workspace, name, {int(number): line for number, line in lines.items()})
        texts = scrub.restore(self._store, (Cell(*cell) for cell in undo["cells"])) if self._store else 0
        self._changes.bring_back(undo["changes"])
        if self._sessions:
            self._sessions.reload()
        self._undo_file.drop_newest()
        count = sum(map(len, undo["lines"].values()))
        return f"{_counted(count, 'line')} of your notes and {_counted(texts, 'text')} of conversations are back."

    def _keep(self, lines: Mapping[str, Mapping[int, str]], cells: Sequence[Cell], changes: Mapping[str, Any]) -> None:
        try:
            self._undo_file.keep({"lines": lines, "cells": cells, "changes": changes})
        except WorkspaceError as error:
            raise WorkspaceError(f"it is forgotten, and cannot be brought back: {error}") from None
        self._delete_in_time()

    def _delete_in_time(self) -> None:
        self._later(KEEP_FOR.total_seconds() + 1, self._undo_file.newest)

    # -- finding

    def _exact(self, query: str) -> Iterator[Passage]:
        wanted = frozenset(tokens(query))
        for name in memory_files(self.workspace):
            text = self._text(name)
            if not all(word in text.casefold() for word in wanted or query.casefold().split()):
                continue  # most files; their lines need not be looked at
            for number, line in enumerate(lines_of(text), 1):
                if _has(line, query) or (wanted and wanted <= frozenset(tokens(line))):
                    yield Passage(name, number, (line,), True)
        if len(query) > 2:
            for name, text in self._others():
                for number, line in enumerate(lines_of(text), 1):
                    if _has(line, query):
                        yield Passage(name, number, (line,), True)

    def _similar(self, query: str) -> Iterator[Passage]:
        for hit in self._search(query, MOST_SIMILAR):
            lines = self._lines_of(hit.file)[hit.start - 1 : hit.end]
            yield Passage(hit.file, hit.start, tuple(lines), False)

    def _others(self) -> Iterator[tuple[str, str]]:
        """The other text files of the workspace."""
        root = self.workspace.root
        memory = frozenset(memory_files(self.workspace))
        for path in islice(_files_below(root, besides=".git"), MOST_OTHER_FILES):
            name = path.relative_to(root).as_posix()
            with suppress(OSError, ValueError):
                if name not in memory and path.stat().st_size <= LARGEST_OTHER_BYTES:
                    text = path.read_bytes().decode()
                    if "\0" not in text:
                        yield name, text

    def _text(self, name: str) -> str:
        with suppress(WorkspaceError):
            return read_memory_file(self.workspace, name) or ""
        return ""

    def _lines_of(self, name: str) -> list[str]:
        return lines_of(self._text(name))

    def _lines(self, chosen: Sequence[Passage]) -> dict[str, dict[int, str]]:
        """The chosen lines by file and number, with the lines of memory files that say the same word for word."""
        lines: dict[str, dict[int, str]] = {}
        for passage in chosen:
            now = self._lines_of(passage.file)[passage.start - 1 :][: len(passage.lines)]
            if tuple(now) != passage.lines:
                raise WorkspaceError(f"{passage.place} changed since it was listed; nothing was done. List it again.")
            lines.setdefault(passage.file, {}).update(enumerate(passage.lines, passage.start))
        same = {plain_text(line).casefold() for per_file in lines.values() for line in per_file.values()} - {""}
        for name in memory_files(self.workspace):
            text = self._text(name)
            if not any(line in text.casefold() for line in same):
                continue
            for number, line in enumerate(lines_of(text), 1):
                if plain_text(line).casefold() in same:
                    lines.setdefault(name, {})[number] = line
        return lines

    def _kept(self, name: str, removed: Mapping[int, str]) -> str:
        return "\n".join(line for number, line in enumerate(self._lines_of(name), 1) if number not in removed)

    # -- taking out

    def _forget_in_store(self, words: Words, address: Address | None) -> list[Cell]:
        if not self._store:
            return []
        cells = scrub.scrub(self._store, words, TOOL)
        scrub.scrub_copies(self._store.path, words)
        if self._sessions:
            self._sessions.forget(words, address)
        return cells

    def _holding(self, words: Words) -> Iterator[str]:
        """Files of the home that still have one of the phrases."""
        wanted = [phrase.lower().encode() for phrase in words.phrases if len(phrase) > 3]
        root = self.workspace.root
        for top in (self._home,) if root.is_relative_to(self._home) else (self._home, root):
            for path in _files_below(top, besides="models"):
                if path == self._undo_file.path:
                    continue
                with suppress(OSError):
                    content = path.read_bytes() if path.stat().st_size < LARGEST_SEARCHED_BYTES else b""
                    content = content.lower()
                    if any(phrase in content for phrase in wanted):
                        yield path.relative_to(top).as_posix()


def _is_aside(name: str) -> bool:
    """Whether a file of the home is a copy that the program kept aside."""
    return name.startswith("before-restore-") or ".damaged-" in name


def forget_tool(forgetter: Forgetter) -> Tool:
    async def memory_forget(context: ToolContext, query: str, numbers: list[int] | None = None) -> str:
        """Forget for good. First lists what has the words; then call again with the numbers the person confirms."""
        if numbers:
            if context.origin != "person":
                raise Refused("only the person can have something forgotten: tell them, they can ask for it.")
            forgotten = forgetter.forget(query, numbers, context.address)
            return f"{told(forgotten)} Tell the person: {forgotten.way_back('/memory undo')}"
        listing = forgetter.find(query)
        if not listing.count:
            return "[nothing in notes or conversations has these words]"
        return visible(shown(listing)) + "\n[nothing is forgotten yet: which numbers?]"

    examples = [ToolExample("Forget my old address", {"query": "address"})]
    return tool(memory_forget, effect="workspace", examples=examples)


def shown(listing: Listing) -> str:
    """A listing as numbered lines."""
    lines = []
    for number, passage in enumerate(listing.passages, 1):
        text = " / ".join(line.strip() for line in passage.lines)
        similar = "" if passage.exact else " (similar)"
        lines.append(f"{number}. {passage.place}{similar}: {text if len(text) <= 300 else text[:299] + '…'}")
    if listing.messages:
        lines.append(f"{listing.count}. conversations: {_counted(listing.messages, 'message')} with these words")
    if listing.left_out:
        lines.append(f"[{listing.left_out} more: use more exact words]")
    return "\n".join(lines)


def told(forgotten: Forgotten) -> str:
    """What was done, without the words."""
    places = ", ".join(forgotten.places) or "no note"
    others = f" and {_counted(forgotten.texts, 'other text')}" if forgotten.texts else ""
    text = f"Forgotten: {places}; {_counted(forgotten.messages, 'message')} with these words{others} of conversations."
    if forgotten.deleted:
        text += f" Deleted, as they held the words too: {_counted(forgotten.deleted, 'file')} kept aside earlier."
    if forgotten.still_in:
        text += f" Still in {', '.join(forgotten.still_in)}: left as it is, it is not one of the memory's own files."
    return text


def memory_command(changes: Changes, forgetter: Forgetter | None, argument: str) -> str:
    """What `/memory …` answers. Raises WorkspaceError."""
    match argument:
        case "undo":
            since = forgetter.undoable_since if forgetter else None
            last = changes.last(1)
            if forgetter and since and not (last and last[0].at and last[0].at > since):
                return forgetter.undo()
            change = changes.undo()
            return f"{change.target} is as it was before {change.at:%Y-%m-%d %H:%M} ({change.tool})."
        case "log":
            return _log(changes, forgetter) or "No change of a memory file is kept."
        case "allow":
            changes.allow_shrinking()
            return "The next change may take away more than half of a memory file. This holds once, for ten minutes."
    return "/memory undo, /memory log, or /memory allow (let the next change take away more than half of a file)"


def _log(changes: Changes, forgetter: Forgetter | None) -> str:
    lines = []
    since = forgetter.undoable_since if forgetter else None
    for change in changes.last():
        lines.append(f"- {change.at:%Y-%m-%d %H:%M} {change.target}: {change.text} ({change.tool})")
    if since:
        lines.insert(0, f"- {since:%Y-%m-%d %H:%M} something was forgotten (undo until {since + KEEP_FOR:%H:%M})")
    return "\n".join(lines)


def _files_below(top: Path, besides: str) -> Iterator[Path]:
    """Plain files, without those in one folder of the top."""
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if Path(folder) != top or name != besides)
        paths = (Path(folder, name) for name in sorted(files))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _has(text: str, phrase: str) -> bool:
    words = phrase.casefold().split()
    folded = text.casefold()
    return all(word in folded for word in words) and " ".join(words) in " ".join(folded.split())


def _has_words(query: str) -> Callable[[str], bool]:
    asked = words_of((), [query])
    return lambda body: asked.without_any(body) != body


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _forget_typed(path: Path, words: Words, cells: Sequence[Cell]) -> None:
    """Take entries out of the lines typed in the terminal: those with the words, and messages that had them."""
    said = [cell.before for cell in cells]

    def keep(entry: str) -> bool:
        text = "\n".join(line[1:] for line in entry.split("\n") if line.startswith("+"))
        quoted = json.dumps(text)
        return not words.stand_in(text) and not (text.strip() and any(quoted in each for each in said))

    _rewrite(path, "\n# ", keep)


def _drop_lines(path: Path, words: Words) -> None:
    _rewrite(path, "\n", lambda line: not words.stand_in(line))


def _rewrite(path: Path, separator: str, keep: Callable[[str], bool]) -> None:
    """In place: whoever appends to the file has it open."""
    try:
        with path.open("r+b") as file:
            parts = file.read().decode("utf-8", "surrogateescape").split(separator)
            kept = [part for part in parts if keep(part)]
            if len(kept) < len(parts):
                file.seek(0)
                file.write(separator.join(kept).encode("utf-8", "surrogateescape"))
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
    except FileNotFoundError:
        return
    except OSError as error:
        raise WorkspaceError(f"{path} may still have the words: {error.strerror}.") from None
