"""MEMORY.md as the prompt shows it, and the few facts that were added since its version."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw import bootstrap_files
from nanoclaw.atomic_write import write_atomically
from nanoclaw.beneath.paths import Reach
from nanoclaw.bootstrap_files import sha256_of
from nanoclaw.core.errors import WorkspaceError
from nanoclaw.named_tuple import NamedTuple
from nanoclaw.plugins.memory.origins import Origins

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.notes import Hit

NAME = "MEMORY.md"
MOST_ADDED, LONGEST_ADDED = 5, 280  # more facts, or longer ones, are a new version


class Facts(NamedTuple):
    """A context that began with this version shows all facts but some of those `added`."""

    text: str
    version: str
    problem: str = ""
    added: tuple[Hit, ...] = ()


class _State(NamedTuple):
    """SHA-256 and characters of the text read last, and of the part that the version stands for: no words."""

    version: str
    version_characters: int
    last: str
    last_characters: int


class FactsFile:
    """Reads MEMORY.md. A few facts below the others don't change its version, so that what a context began with holds:
    they are told with the next message. Lines of others are recalled, as notes are, and not shown here."""

    def __init__(self, reach: Reach, template: Path, state_file: Path, origins: Origins) -> None:
        self._reach, self._template, self._limit = reach, template, bootstrap_files.FILE_LIMIT
        self._state_file, self._origins = state_file, origins
        self._state: _State | None = None
        self._facts: tuple[object, Facts] = None, Facts("", "")

    @property
    def stamp(self) -> tuple[object, ...]:
        """Changes with the file, and with whose its lines are."""
        return self._origins.version, bootstrap_files.stamp(self._reach.root, (NAME,))

    def read(self) -> Facts:
        """The facts as they are now, read again if something has changed."""
        if (stamp := self.stamp) != self._facts[0]:
            self._facts = stamp, self._read()
        return self._facts[1]

    def _read(self) -> Facts:
        whole = bootstrap_files.read(self._reach, self._template, (NAME,), file_limit=bootstrap_files.READ_LIMIT)[NAME]
        every = (line for line in whole.text.split("\n") if not is_struck(line))
        lines = (line for line in every if not self._origins.others(NAME, [line]))
        current = "\n".join(map(str.rstrip, lines))
        text = current if bootstrap_files.says_something(current) else ""
        shown = bootstrap_files.fit({NAME: whole._replace(text=text)}, self._limit, self._limit)[NAME]
        if shown.problem:
            return Facts(shown.text, f"{shown.problem} {whole.sha256} {len(shown.text)}", shown.problem)
        if self._state is None:
            with suppress(OSError, ValueError, TypeError, RecursionError):
                self._state = _State(**json.loads(self._state_file.read_text()))
        state = self._state
        added = self._added(text, state) if state else None
        if state is None or added is None:
            now = _State(sha256_of(text), len(text), sha256_of(text), len(text))
        else:
            now = state._replace(last=sha256_of(text), last_characters=len(text))
        if now != state:
            self._state = now
            if state or now.last_characters:  # there is something that a line could be added to
                with suppress(OSError):  # the next start may then begin another version: a miss of the provider's cache
                    write_atomically(self._state_file, json.dumps(now._asdict()), 0o600)
        return Facts(text, now.version, "", self._found(added) if added else ())

    def _added(self, text: str, state: _State) -> list[str] | None:
        """The lines below those of the version; None when any other line changed, or they are not few."""
        rest = text[state.version_characters :]
        is_same = sha256_of(text[: state.last_characters]) == state.last
        if not is_same or (state.last_characters and text[state.last_characters :][:1] not in ("", "\n")):
            return None
        lines = [line for line in rest.split("\n") if line.strip()]
        if not state.version_characters and lines and lines[0].startswith("# "):
            del lines[0]
        is_few = len(lines) <= MOST_ADDED and all(len(line) <= LONGEST_ADDED for line in lines)
        return lines if is_few and all(line.startswith(("- ", "* ")) for line in lines) else None

    def _found(self, lines: list[str]) -> tuple[Hit, ...]:
        """The lines as a search would find them."""
        from nanoclaw.plugins.memory.notes import Hit, lines_of, read_memory_file, without_also

        every: list[str] = []
        with suppress(WorkspaceError):  # a link within the workspace is shown, and no search looks at it
            every = lines_of(read_memory_file(self._reach.root, NAME) or "")
        numbers = {without_also(line).rstrip(): number for number, line in enumerate(every, 1)}
        places = [(numbers.get(line.rstrip(), 1), line[2:].strip()) for line in lines]
        return tuple(Hit(NAME, at, at, None, 0.0, text) for at, text in places)


def is_struck(line: str) -> bool:
    """Tell an entry that a later one corrects."""
    return re.match(r"\s*[-*+]\s+~~.*~~[^\w~]*(?:\d{4}-\d\d-\d\d)?\W*$", line) is not None
