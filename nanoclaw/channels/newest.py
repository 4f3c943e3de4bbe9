"""The newest message of each chat of a platform that keeps them and tells nobody twice: what was said after it was not
heard."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TypeVar

from nanoclaw.atomic_write import NotSaved, write_atomically
from nanoclaw.core.messages import Outbound
from nanoclaw.log import logger

KEPT = 1_000
"""Entries of a table that forgets."""

T = TypeVar("T")


class Newest:
    """Kept in a file, also for the next process. An old one does no harm: what was heard before has the same id."""

    def __init__(self, platform: str, file: Path) -> None:
        self._platform, self._file = platform, file
        self._table: dict[str, tuple[str, str]] = {}
        try:
            read = json.loads(file.read_text(encoding="utf-8"))
            self._table = {str(chat): (str(about), str(id)) for chat, (about, id) in read.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            pass  # then what was said while nobody listened is not asked for

    def of(self, chat: str) -> str:
        return self._table.get(chat, ("", ""))[1]

    def last(self, most: int) -> list[tuple[str, tuple[str, str]]]:
        """The chats in which something was said last, each with what was noted about it and the id of its message."""
        return list(self._table.items())[-most:]

    def note(self, chat: str, about: str, id: str) -> None:
        is_new = chat not in self._table
        remember(self._table, chat, (about, id))
        if is_new:
            self.save()

    def drop(self, chat: str) -> None:
        self._table.pop(chat, None)

    def save(self) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._file, json.dumps(self._table), 0o600)
        except (OSError, NotSaved) as error:
            logger.warning("how far {} was read cannot be saved: {}", self._platform, error)


def remember(table: dict[str, T], key: str, value: T, most: int = KEPT) -> None:
    """Put an entry into a table as the newest; the oldest goes."""
    table.pop(key, None)
    table[key] = value
    if len(table) > most:
        del table[next(iter(table))]


def mark_of(outbound: Outbound) -> str:
    """The same for the same message, for platforms that take it once. What it says is part of it, as the numbers of a
    home that was restored from a backup come twice."""
    parts = (outbound.key, str(outbound.address), outbound.text, *outbound.files)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()
