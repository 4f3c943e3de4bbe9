"""Texts kept for some minutes in two files each: one of random bytes, one of their difference from the text.

So no file of the home holds its words, yet whoever has both can put it together: until then it is not gone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from nanoclaw.atomic_write import reason
from nanoclaw.core.errors import WorkspaceError


class Halves:
    """Texts, the newest on top. Whatever is asked of them first deletes those whose time is over."""

    def __init__(self, folder: Path, clock: Callable[[], datetime], keep_for: timedelta) -> None:
        self._folder, self._clock, self._keep_for = folder, clock, keep_for

    def keep(self, text: str) -> None:
        """Raises WorkspaceError, and keeps nothing of it, when it cannot be written."""
        self.read()
        number = max(self._numbers(), default=0) + 1
        content = json.dumps({"at": self._clock().isoformat(), "text": text}).encode()
        pad = os.urandom(len(content))
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for path, half in zip(self._paths(number), (pad, _difference(content, pad)), strict=True):
                with open(path, "xb", opener=_private) as file:
                    file.write(half)
        except OSError as error:
            self._delete(number)
            raise WorkspaceError(f"no copy could be kept in {self._folder}: {reason(error)}.") from None

    def read(self) -> tuple[datetime, str] | None:
        """When the newest was kept, and the text; None when there is none that is whole and not too old."""
        found = None
        for number in self._numbers():
            if kept := self._read(number):
                found = kept
            else:
                self._delete(number)
        return found

    def drop(self) -> None:
        """Delete the newest."""
        self._delete(max(self._numbers(), default=0))

    def _numbers(self) -> list[int]:
        """Of the oldest first."""
        names = [path.name.split(".") for path in self._folder.glob("forgotten.*.?")]
        return sorted({int(name[1]) for name in names if name[1].isdecimal()})

    def _paths(self, number: int) -> tuple[Path, Path]:
        return self._folder / f"forgotten.{number}.1", self._folder / f"forgotten.{number}.2"

    def _read(self, number: int) -> tuple[datetime, str] | None:
        try:
            one, other = (path.read_bytes() for path in self._paths(number))
            body = json.loads(_difference(one, other))
            at, text = datetime.fromisoformat(body["at"]), str(body["text"])
            # of a clock that was set back nobody knows how far
            return (at, text) if abs(self._clock() - at) <= self._keep_for else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _delete(self, number: int) -> None:
        for path in self._paths(number):
            with suppress(OSError):
                path.unlink()


def _difference(one: bytes, other: bytes) -> bytes:
    number = int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
    return number.to_bytes(max(len(one), len(other)), "big")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
