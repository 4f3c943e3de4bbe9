"""Search of what was said in earlier conversations: an index like that of the notes, derived from the store.

The owner's own words and the answers to them are found, but no results of tools, no text that others wrote, nothing of
guests and groups, and no turn with a profile of its own (incognito, a rehearsal).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nanoclaw.core.records import Records
from nanoclaw.outside_text import own_words, without_documents
from nanoclaw.plugins.memory.index import Index, Stamp
from nanoclaw.plugins.memory.packing import window
from nanoclaw.plugins.memory.plugin import TALK_FILE
from nanoclaw.plugins.memory.search import NoteSearch
from nanoclaw.tokenizer import tokens

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

SHOWN = 280  # characters of one that are shown
LONGEST_SAID = 16_000  # characters of a message that are searched: more was pasted
_BLOCK_BITS, _SESSION_BITS = 8, 20
"""A “file” of the index is what one conversation has among so many messages of the store; its id is that of the block,
then that of the session."""

_PERSON, _ASSISTANT, _OF_OTHERS = "user", "assistant", "assistant, quoting"


class Quote(NamedTuple):
    """Something that was said. `outside`: an answer in a turn that had read others' text."""

    conversation: str
    date: date | None
    is_persons: bool
    text: str
    score: float
    outside: bool = False

    def __str__(self) -> str:
        channel = self.conversation.partition(":")[0]
        day = f"{self.date.day} {self.date:%b %Y}" if self.date else "an earlier day"
        where = "in the terminal" if channel == "terminal" else f"on {channel} ({self.conversation})"
        return f"said on {day} {where} by the {'person' if self.is_persons else 'assistant'}: {self.text}"


class TalkSearch(NoteSearch):
    """Raises nothing; what cannot be read is not found."""

    def __init__(self, workspace: Path, home: Path, clock: Callable[[], datetime]) -> None:
        super().__init__(workspace, home / TALK_FILE, clock)
        self._store = home / "state.db"

    def _new_index(self) -> Index:
        return TalkIndex(self._workspace, self._file, self._store, self._clock().tzinfo)

    def quotes(self, query: str, limit: int) -> list[Quote]:
        """The passages that match best."""
        if not self._store.exists():
            return []
        hits = self.search(query, limit)
        keys = _records(self._store).conversations()
        wanted = dict.fromkeys(tokens(query))
        quotes = list[Quote]()
        for hit in hits:
            speaker, _, said = hit.text.partition(": ")
            text = " ".join(said.split())
            shown = window(text, wanted, SHOWN) if len(text) > SHOWN else text
            session = int(hit.file.partition("/")[2])
            key, _ = keys.get(session, ("", ""))
            quotes.append(Quote(key, hit.date, speaker == _PERSON, shown, hit.score, speaker == _OF_OTHERS))
        return quotes

    def catch_up(self) -> None:
        """Index what was said while nobody asked."""
        if self._store.exists():
            self.search("", 1)  # nothing to find, but it begins the reader


class TalkIndex(Index):
    """Follows the store by the ids of its messages: what has ended is indexed, and never changes except by forgetting,
    which deletes the index."""

    def __init__(self, workspace: Path, path: Path, store: Path, zone: tzinfo | None) -> None:
        super().__init__(workspace, path)
        self._records, self._zone = _records(store), zone
        self.about = "earlier conversations"
        self._seen = 0  # the last message that was looked at

    def text(self, name: str) -> str:
        """One line for each paragraph, under a heading for each day."""
        block, _, session = name.partition("/")
        first, settled = int(block) << _BLOCK_BITS, self._records.settled()
        rows = self._records.said(int(session), first - (1 << _BLOCK_BITS), first + (1 << _BLOCK_BITS) - 1)
        lines, day, outside = list[str](), "", set[int]()
        for id, turn, is_said, kind, at, text, source, _ in rows:
            if source:
                outside.add(turn)
            if not is_said or not first <= id < settled:
                continue
            if (on := self._day(at)) != day:
                day = on
                lines += [f"# {day}", ""]
            speaker = _PERSON if kind == "user" else _OF_OTHERS if turn in outside else _ASSISTANT
            said = without_documents(own_words(text))[:LONGEST_SAID]
            for paragraph in said.split("\n\n"):
                if one := " ".join(paragraph.split()):
                    lines.append(f"- {speaker}: {one}")
        return "\n".join(lines)

    def _day(self, at: str) -> str:
        try:
            return datetime.fromisoformat(at).astimezone(self._zone).date().isoformat()
        except ValueError:
            return "0001-01-01"

    def _look(self) -> None:
        """Find what was said since the last look; from the beginning when the index was opened."""
        is_all, settled = not self._seen, self._records.settled()
        found = dict[str, Stamp]()
        for row, session, size, *_ in self._records.talk(self._seen):
            if row < settled:
                name = f"{row >> _BLOCK_BITS}/{session}"
                known = None if is_all else self.unread.get(name) or self._stamps.get(name)
                last, length = found.get(name) or known or (0, 0)
                found[name] = (max(last, row), length + size)
        self._seen = max((self._seen, *(last for last, _ in found.values())))
        gone = [name for name in self._stamps if name not in found] if is_all else []
        stale = {
            name: found[name] for name in sorted(found, key=found.__getitem__) if self._stamps.get(name) != found[name]
        }
        changed: dict[str, Stamp | None] = {**dict.fromkeys(gone), **stale}
        self.unread = changed if is_all else {**self.unread, **changed}

    def _load(self, db: sqlite3.Connection) -> None:
        super()._load(db)
        self._seen = 0

    def _id(self, db: sqlite3.Connection, name: str) -> int:
        block, _, session = name.partition("/")
        return int(block) << _SESSION_BITS | int(session)


def _records(store: Path) -> Records:
    """Those of the store, read beside its owner; none where it cannot be read just now."""

    def read(sql: str, *values: object) -> list[Any]:
        try:
            with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", timeout=1, uri=True)) as db:
                return db.execute(sql, values).fetchall()
        except sqlite3.Error:
            return []

    return Records(read)
