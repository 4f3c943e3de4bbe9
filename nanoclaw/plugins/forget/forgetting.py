"""Forgetting: finds text, and deletes it from every file of the home, for good."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from nanoclaw.beneath.paths import open_again
from nanoclaw.core.errors import ScheduleError, ToolError, WorkspaceError
from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Host
from nanoclaw.plugins.forget import home_files, scrub
from nanoclaw.plugins.forget.words import plain_text, tokens, words_of

TOOL = "memory_forget"
MOST_HITS = 20
MOST_SIMILAR = 5
LARGEST_OTHER_BYTES = 1_000_000
MOST_OTHER_FILES = 5_000


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
    """Places that have the words, numbered from 1: passages, then the conversations if any message has them."""

    query: str
    passages: tuple[Passage, ...]
    messages: int
    left_out: int = 0
    where: tuple[str, str] = ("conversations", "message")

    @property
    def count(self) -> int:
        return len(self.passages) + bool(self.messages)

    @property
    def exact(self) -> list[int]:
        """The numbers of places with exactly these words."""
        numbers = [number for number, passage in enumerate(self.passages, 1) if passage.exact]
        return [*numbers, self.count] if self.messages else numbers

    def shown(self) -> str:
        """As numbered lines."""
        lines = []
        for number, passage in enumerate(self.passages, 1):
            text = " / ".join(line.strip() for line in passage.lines)
            similar = "" if passage.exact else " (similar)"
            lines.append(f"{number}. {passage.place}{similar}: {text if len(text) <= 300 else text[:299] + '…'}")
        if self.messages:
            lines.append(f"{self.count}. {self.where[0]}: {_counted(self.messages, self.where[1])} with these words")
        if self.left_out:
            lines.append(f"[{self.left_out} more: use more exact words]")
        return "\n".join(lines)


class Forgotten(NamedTuple):
    """A forgetting: `messages` had the words that were asked for; `texts` are copies of them, and others with other
    words of what was forgotten; `still_in` are files that have the words all the same, `deleted` counts copies that
    were kept aside earlier and had them. `jobs` were about it, and are removed."""

    places: tuple[str, ...]
    messages: int
    texts: int
    still_in: tuple[str, ...]
    deleted: int
    jobs: Sequence[int] = ()

    def summary(self) -> str:
        """Sentence about it, without the words."""
        places = ", ".join(self.places) or "no note"
        others = f" and {_counted(self.texts, 'other text')}" if self.texts else ""
        text = f"Forgotten: {places}; {_counted(self.messages, 'message')} with these words{others} of conversations."
        if self.jobs:
            text += f" Removed, as {'it was' if len(self.jobs) == 1 else 'they were'} about it: job"
            text += f"{'' if len(self.jobs) == 1 else 's'} {', '.join(map(str, self.jobs))}."
        if self.deleted:
            text += f" Deleted, as they contained the words too: {_counted(self.deleted, 'file')} kept aside earlier."
        if self.still_in:
            text += f" Still in {', '.join(self.still_in)}: left unchanged, as it is not a memory file."
        return text


class Forgetter:
    """Finds and forgets: what the plugin makes public."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._home = host.program_home
        self._root = host.workspace
        self._listings: dict[str, Listing] = {}

    @property
    def _memory(self) -> Any:
        """The memory's store of notes; None if that plugin isn't there."""
        return self._host.get("memory")

    def find(self, query: str) -> Listing:
        """List what could be forgotten. Its numbers hold until it is listed again."""
        if not (query := " ".join(query.split())):
            raise ToolError("say which words: the query is empty.")
        found = [*self._exact(query)]
        known = {(passage.file, passage.start) for passage in found}
        similar = [each for each in self._similar(query) if not any(line in known for line in each.numbers)]
        has_words = _has_words(query)
        messages = scrub.mentions(self._host.records, has_words)
        messages += sum(home_files.stands_in(path, has_words) for path in home_files.outputs(self._root))
        passages, where = (*found[:MOST_HITS], *similar[:MOST_SIMILAR]), ("conversations", "message")
        if not (found or messages) and (undo := self._host.get("undo")):
            messages, where = undo.mentions(has_words), ("changes", "text")
        listing = Listing(query, passages, messages, max(0, len(found) - MOST_HITS), where)
        self._listings[query] = listing
        return listing

    def chosen(self, query: str, numbers: Sequence[int]) -> str:
        """The places that numbers name in the list that was made last, '' if there is none."""
        listing = self._listings.get(" ".join(query.split()))
        lines = listing.shown().splitlines() if listing else []
        return "\n".join(line for line in lines if line.partition(".")[0] in set(map(str, numbers)))

    def forget(self, query: str, numbers: Sequence[int], conversation: Address | None = None) -> Forgotten:
        """Take what the numbers name out of the notes, the conversations and all else that the program keeps.

        Raises WorkspaceError if a file changed since it was listed; then nothing was done.
        """
        listing = self._chosen_listing(" ".join(query.split()), numbers)
        query = listing.query
        chosen = [listing.passages[number - 1] for number in numbers if number <= len(listing.passages)]
        lines = self._lines(chosen)
        removed = [line for per_file in lines.values() for line in per_file.values()]
        kept = [text for name in self._memory_files() if (text := self._kept(name, lines.get(name, {})))]
        all_of_it = any(_has(line, query) for line in removed) and not any(_has(text, query) for text in kept)
        asked = [query] if all_of_it or (listing.messages and listing.count in numbers) else []
        words = words_of(removed, asked, kept)

        cells = scrub.scrub(self._host, words, TOOL)
        scrub.scrub_copies(self._host, words)
        self._host.conversations.forget(lambda text, is_here: words.without_any(text, closely=is_here), conversation)
        if undo := self._host.get("undo"):
            undo.forget(words.stand_in)
        home_files.forget_typed(self._home / "history", words, [cell.before for cell in cells])
        for path in sorted((self._home / "logs").glob("*")):
            home_files.rewrite(path, "\n", lambda line: not words.stand_in(line))
        for name, per_file in lines.items():
            self._memory.change_lines(name, {number: (line, None) for number, line in per_file.items()})
        files = home_files.scrub_kept(self._host, words)
        jobs = self._remove_jobs([cell.row for cell in cells if (cell.table, cell.column) == ("jobs", "text")])
        self._listings.clear()
        for plugin in self._host.plugins():
            plugin.reload()

        held = list(home_files.holding(self._home, self._root, words))
        aside = [name for name in held if home_files.is_aside(name)]
        for name in aside:
            (self._home / name).unlink(missing_ok=True)
        has_query = _has_words(query)
        messages = sum(cell.table == "messages" and has_query(cell.before) for cell in cells)
        places = tuple(f"{name}:{number}" for name, per_file in lines.items() for number in per_file)
        still_in = tuple(name for name in held if name not in aside)
        others = len(cells) + files - messages
        return Forgotten(places, messages, others, still_in, len(aside), jobs)

    def _remove_jobs(self, rows: Sequence[int]) -> list[int]:
        """End jobs whose words are gone; those that were not over already."""
        removed: list[int] = []
        schedule = self._host.get("schedule")
        for row in rows if schedule else ():
            with suppress(ScheduleError):
                self._host.write_now(partial(schedule.remove, id_=row))
                removed.append(row)
        return removed

    def _chosen_listing(self, query: str, numbers: Sequence[int]) -> Listing:
        """The list that the numbers belong to. Raises ToolError for numbers of another one."""
        if self._listings and query not in self._listings:
            listed = ", ".join(map(repr, self._listings))
            raise ToolError(f"the numbers belong to the list for {listed}: give that query, or list this one first.")
        listing = self._listings.get(query) or self.find(query)
        if wrong := [number for number in numbers if not 0 < number <= listing.count] or not numbers:
            raise ToolError(f"{wrong or 'no number'} is not in the list: it has {listing.count} numbers.")
        return listing

    # --- finding -----------------------------------------------------------------------------------------------------

    def _exact(self, query: str) -> Iterator[Passage]:
        """Without the plugin `memory` nothing of the workspace is looked at."""
        wanted = frozenset(tokens(query))
        for name in self._memory_files():
            for number, line in enumerate(self._lines_of(name), 1):
                if _has(line, query) or (wanted and wanted <= frozenset(tokens(line))):
                    yield Passage(name, number, (line,), True)
        if self._memory and len(query) > 2:
            for name in self._others():
                for number, line in enumerate(self._lines_of(name), 1):
                    if _has(line, query):
                        yield Passage(name, number, (line,), True)

    def _similar(self, query: str) -> Iterator[Passage]:
        for hit in self._memory.search(query, MOST_SIMILAR) if self._memory else ():
            lines = self._lines_of(hit.file)[hit.start - 1 : hit.end]
            yield Passage(hit.file, hit.start, tuple(lines), False)

    def _others(self) -> Iterator[str]:
        """The other text files of the workspace; outputs of tools go with the conversations."""
        root = Path(os.path.realpath(self._root))
        known = {*self._memory_files(), *(path.relative_to(root).as_posix() for path in home_files.outputs(root))}
        for path in islice(home_files.below(root, besides=".git"), MOST_OTHER_FILES):
            name = path.relative_to(root).as_posix()
            with suppress(OSError, ValueError):
                if name not in known and path.stat().st_size <= LARGEST_OTHER_BYTES:
                    with open_again(path) as file:
                        is_text = "\0" not in file.read(LARGEST_OTHER_BYTES + 1).decode()
                    if is_text:
                        yield name

    # --- lines of notes and other files ------------------------------------------------------------------------------

    def _memory_files(self) -> list[str]:
        return self._memory.files() if self._memory else []

    def _lines_of(self, name: str) -> list[str]:
        with suppress(WorkspaceError):
            return list(self._memory.lines(name))
        return []

    def _lines(self, chosen: Sequence[Passage]) -> dict[str, dict[int, str]]:
        """The chosen lines by file and number, with the lines of memory files that say the same word for word."""
        lines: dict[str, dict[int, str]] = {}
        for passage in chosen:
            now = self._lines_of(passage.file)[passage.start - 1 :][: len(passage.lines)]
            if tuple(now) != passage.lines:
                raise WorkspaceError(f"{passage.place} changed since it was listed; nothing was done. List it again.")
            lines.setdefault(passage.file, {}).update(enumerate(passage.lines, passage.start))
        same = {plain_text(line).casefold() for per_file in lines.values() for line in per_file.values()} - {""}
        for name in self._memory_files() if same else ():
            for number, line in enumerate(self._lines_of(name), 1):
                if plain_text(line).casefold() in same:
                    lines.setdefault(name, {})[number] = line
        return lines

    def _kept(self, name: str, removed: Mapping[int, str]) -> str:
        every = enumerate(self._lines_of(name), 1)
        return "\n".join(line for number, line in every if number not in removed)


def _has(text: str, phrase: str) -> bool:
    words = phrase.casefold().split()
    folded = text.casefold()
    return all(word in folded for word in words) and " ".join(words) in " ".join(folded.split())


def _has_words(query: str) -> Callable[[str], bool]:
    asked = words_of((), [query])
    return lambda body: asked.without_any(body) != body


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
