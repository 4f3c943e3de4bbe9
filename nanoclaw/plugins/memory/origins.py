"""The origins of notes and facts: who said each, in which conversation and when, and the source of others' text.

The files stay plain: a row is found by the hash of its line's text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any, NamedTuple

from nanoclaw.core.plugin import Host, Tx
from nanoclaw.plugins.memory.notes import plain_entry

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


class Origin(NamedTuple):
    at: datetime
    origin: str
    place: str
    sources: str = ""

    def __str__(self) -> str:
        said = "said by you" if self.origin == "person" else f"noted by the assistant for a {self.origin}"
        source = f", after reading {self.sources}" if self.sources else ""
        return f"{said} in {self.place}{source}"


class Origins:
    def __init__(self, host: Host) -> None:
        self._host = host

    def add(
        self, tx: Tx, text: str, origin: str, place: object, turn: int | None = None, sources: Sequence[str] = ()
    ) -> None:
        values = (_key(text), self._host.now().isoformat(), origin, str(place), turn, ", ".join(sources))
        tx.execute(
            "INSERT INTO memory_origins (line, at, origin, place, turn, sources) VALUES (?, ?, ?, ?, ?, ?)", *values
        )

    def of_line(self, file: str, line: str) -> Origin | None:
        """That of an entry of a memory file: the first since the day that it bears."""
        since = _dated(file, line)
        sql = "SELECT at, origin, place, sources FROM memory_origins WHERE line = ? AND at >= ? ORDER BY id LIMIT 1"
        return self._first(sql, _key(line), since.isoformat() if since else "")

    def in_words(self, file: str, line: str) -> str:
        """The change that brought an entry, when and by whom; '' where nobody knows."""
        if origin := self.of_line(file, line):
            return f"{origin.at:%Y-%m-%d %H:%M}, {origin}"
        undo = self._host.get("undo")
        return str(undo.blame(file, line)) if undo else ""

    def of_turn(self, turn: int) -> Origin | None:
        return self._first("SELECT at, origin, place, sources FROM memory_origins WHERE turn = ? LIMIT 1", turn)

    def _first(self, sql: str, *values: object) -> Origin | None:
        rows: list[Any] = self._host.read(sql, *values)
        return Origin(datetime.fromisoformat(rows[0][0]), *rows[0][1:]) if rows else None


def _dated(file: str, line: str) -> date | None:
    """The day that an entry bears, or its note's."""
    match = re.match(r"\s*[-*+]\s+(\d{4}-\d\d-\d\d):", line) or re.match(r"memory/(\d{4}-\d\d-\d\d)\.md$", file)
    with suppress(ValueError):
        return date.fromisoformat(match[1]) if match else None
    return None


def _key(text: str) -> str:
    return hashlib.sha256(re.sub(r"\s+", " ", plain_entry(text)).encode("utf-8", "replace")).hexdigest()
