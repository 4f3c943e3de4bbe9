"""The origins of notes and facts: who said each, in which conversation and when, and the source of others' text; and
MEMORY.md as the prompt shows it, without what comes from others.

The files stay plain: a row is found by the hash of its line's text. A line that another hand changed has none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoclaw import bootstrap_files
from nanoclaw.atomic_write import write_atomically
from nanoclaw.beneath.paths import Reach
from nanoclaw.bootstrap_files import sha256_of
from nanoclaw.core.errors import WorkspaceError
from nanoclaw.core.messages import CheckedCall
from nanoclaw.core.plugin import Host, NamedTuple, Turn, Tx

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.notes import Hit

MIGRATIONS = (
    """
    CREATE TABLE memory_origins (
        id INTEGER PRIMARY KEY,
        line TEXT NOT NULL,      -- SHA-256 of the entry's text
        at TEXT NOT NULL,
        origin TEXT NOT NULL,    -- "person", or what began the turn
        place TEXT NOT NULL,     -- the conversation
        turn INTEGER,            -- NULL: a command
        sources TEXT NOT NULL    -- of others' text that the model had read since the owner's last message
    ) STRICT;
    CREATE INDEX memory_origins_line ON memory_origins (line);
    """,
)
IS_OWNERS = "ALTER TABLE memory_origins ADD COLUMN is_owners INTEGER NOT NULL DEFAULT 0;"
"""1: the line is the owner's own, whatever had been read."""


Whose = tuple[str, object, int | None]
"""The origin of what was said, the conversation and the turn, None for a command."""


class Origin(NamedTuple):
    at: datetime
    origin: str
    place: str
    sources: str = ""
    is_owners: bool = False
    id: int = 0

    def __str__(self) -> str:
        said = "said by you" if self.origin == "person" else f"noted by the assistant for a {self.origin}"
        source = f", after reading {self.sources}" if self.sources else ""
        return f"{said} in {self.place}{source}"


class OthersEntry(NamedTuple):
    """An entry that comes from others' text; `id` is that of its origin."""

    id: int
    file: str
    number: int
    line: str
    sources: str


class Origins:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._learned: dict[str, list[str]] | None = None
        self.version = 0

    def add(self, tx: Tx, text: str, whose: Whose, sources: Sequence[str] = (), *, is_owners: bool = False) -> None:
        origin, place, turn = whose
        values = (_key(text), self._host.now().isoformat(), origin, str(place), turn, ", ".join(sources), is_owners)
        names = "line, at, origin, place, turn, sources, is_owners"
        tx.execute(f"INSERT INTO memory_origins ({names}) VALUES (?, ?, ?, ?, ?, ?, ?)", *values)
        tx.after(self.reload)

    def note(self, call: CheckedCall, turn: Turn) -> None:
        """Keep who said what a call wrote, and what it was learned from. A fact that the owner saw whole, and said yes
        to, is theirs; a note that they had written down stays others' text."""
        taint = self._host.get("taint")
        learned = taint.learned(call, turn) if taint else None
        sources = turn.outside if learned is None else learned.sources
        if call.name == "memory_add":
            texts = [str(call.arguments["text"])]
            is_fact = call.arguments.get("kind") == "fact" or bool(call.arguments.get("replaces"))
        elif call.name in _WRITES and sources:
            texts, file = str(call.arguments[_WRITES[call.name]]).splitlines(), self._memory_file(call)
            is_fact = file == "memory.md"
            if not is_fact and not file.startswith("memory/"):
                return
        else:
            return
        is_owners = learned is not None and (not learned.sources or (is_fact and learned.was_seen))
        whose, read = (turn.origin, turn.conversation, turn.id), tuple(sources) or turn.outside
        for text in filter(str.strip, texts):
            turn.later(partial(self.add, text=text, whose=whose, sources=read, is_owners=is_owners))

    def _memory_file(self, call: CheckedCall) -> str:
        from nanoclaw.beneath.paths import name_beneath

        return str(name_beneath(self._host.workspace, str(call.arguments["path"])) or "").casefold()

    # --- entries from others' text -----------------------------------------------------------------------------------

    @property
    def has_others(self) -> bool:
        return bool(self._from_others())

    def others(self, file: str, lines: Iterable[str]) -> list[str]:
        """Sources of others' text that entries come from, without those that the owner trusts; none for what is the
        owner's own. `file` is '' for lines of any."""
        found = dict[str, None]()
        if learned := self._from_others():
            for line in lines:
                if _key(line) in learned and (origin := self._of(file, line)):
                    found.update(dict.fromkeys(self._of_others(origin)))
        return list(found)

    def shown_in(self, text: str) -> list[str]:
        """Sources of the entries that a text contains, at least their beginnings."""
        from nanoclaw.plugins.memory.notes import plain_entry, without_strike

        found = (one for one in self.entries() if plain_entry(without_strike(one.line))[:_BEGINNING] in text)
        return list(dict.fromkeys(one.sources for one in found))

    def entries(self) -> Iterator[OthersEntry]:
        """All entries of the memory files that come from others' text."""
        from nanoclaw.plugins.memory.notes import lines_of, read_memory_file

        days = {day for days in self._from_others().values() for day in days}
        workspace = self._host.workspace
        for file in ("MEMORY.md", *(f"memory/{day}.md" for day in sorted(days))) if days else ():
            with suppress(WorkspaceError):
                for number, line in enumerate(lines_of(read_memory_file(workspace, file) or ""), 1):
                    if self.others(file, [line]) and (origin := self._of(file, line)):
                        yield OthersEntry(origin.id, file, number, line, origin.sources)

    def clean(self, tx: Tx, id_: int) -> bool:
        """Take an entry for the owner's own."""
        sql = "UPDATE memory_origins SET is_owners = 1 WHERE line = (SELECT line FROM memory_origins WHERE id = ?)"
        tx.after(self.reload)
        return bool(tx.execute(f"{sql} RETURNING id", id_))

    def reload(self) -> None:
        self._learned, self.version = None, self.version + 1

    def _from_others(self) -> Mapping[str, Sequence[str]]:
        """By the hash of an entry that was learned from others' text, on which days: as a rule there is none."""
        if self._learned is None:
            self._learned = {}
            sql = "SELECT line, at FROM memory_origins WHERE sources <> '' AND NOT is_owners"
            for line, at in self._host.read(sql):
                self._learned.setdefault(line, []).append(at[:10])
        return self._learned

    def _of(self, file: str, line: str) -> Origin | None:
        """The origin of an entry, also where it bears a day on which nobody wrote it."""
        sql = f"SELECT {_COLUMNS} FROM memory_origins WHERE line = ? ORDER BY id DESC LIMIT 1"
        return self.of_line(file, line) or self._first(sql, _key(line))

    def _of_others(self, origin: Origin) -> list[str]:
        taint, sources = self._host.get("taint"), [] if origin.is_owners else [origin.sources]
        return list(taint.untrusted(sources)) if taint else list(filter(None, sources))

    # --- who said it -------------------------------------------------------------------------------------------------

    def of_line(self, file: str, line: str) -> Origin | None:
        """That of an entry of a memory file: the first since the day that it bears."""
        from nanoclaw.plugins.memory.notes import without_strike

        since = _dated(file, without_strike(line))
        sql = f"SELECT {_COLUMNS} FROM memory_origins WHERE line = ? AND at >= ? ORDER BY id LIMIT 1"
        return self._first(sql, _key(line), since.isoformat() if since else "")

    def in_words(self, file: str, line: str) -> str:
        """The change that brought an entry, when and by whom; '' if unknown."""
        if origin := self.of_line(file, line):
            return f"{origin.at:%Y-%m-%d %H:%M}, {origin}"
        undo = self._host.get("undo")
        return str(undo.memory.blame(file, line)) if undo else ""

    def of_turn(self, turn: int) -> Origin | None:
        return self._first(f"SELECT {_COLUMNS} FROM memory_origins WHERE turn = ? LIMIT 1", turn)

    def _first(self, sql: str, *values: object) -> Origin | None:
        rows: list[Any] = self._host.read(sql, *values)
        return Origin(datetime.fromisoformat(rows[0][0]), *rows[0][1:]) if rows else None


def _dated(file: str, line: str) -> date | None:
    """The date of an entry, or of its note."""
    match = re.match(r"\s*[-*+]\s+(\d{4}-\d\d-\d\d):", line) or re.match(r"memory/(\d{4}-\d\d-\d\d)\.md$", file)
    with suppress(ValueError):
        return date.fromisoformat(match[1]) if match else None
    return None


def _key(text: str) -> str:
    from nanoclaw.plugins.memory.notes import plain_entry, without_strike

    entry = plain_entry(without_strike(text))
    return hashlib.sha256(re.sub(r"\s+", " ", entry).encode("utf-8", "replace")).hexdigest()


_WRITES = {"write_file": "content", "append_file": "content", "edit_file": "new"}
"""Tools that may write into the memory by hand, with the argument that says what."""

_BEGINNING = 60  # characters of an entry by which it is known where a line is cut
_COLUMNS = "at, origin, place, sources, is_owners, id"


# --- MEMORY.md as the prompt shows it, and the few facts that were added since its version ---------------------------

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
