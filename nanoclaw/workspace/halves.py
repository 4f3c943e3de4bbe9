"""A text kept for some minutes in two files: one of random bytes, one of their difference from the text.

So no file of the home holds its words, yet whoever has both can put it together: until then it is not gone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from nanoclaw.drafts import reason
from nanoclaw.errors import WorkspaceError


class Halves:
    """One text at a time. Whatever is asked of it after its time first deletes it."""

    def __init__(self, folder: Path, clock: Callable[[], datetime], keep_for: timedelta) -> None:
        self._folder, self._clock, self._keep_for = folder, clock, keep_for
        self._paths = folder / "forgotten.1", folder / "forgotten.2"

    def keep(self, text: str) -> None:
        """In place of an earlier one. Raises WorkspaceError, and keeps nothing, when it cannot be written."""
        self.drop()
        content = json.dumps({"at": self._clock().isoformat(), "text": text}).encode()
        pad = os.urandom(len(content))
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for path, half in zip(self._paths, (pad, _difference(content, pad)), strict=True):
                with open(path, "xb", opener=_private) as file:
                    file.write(half)
        except OSError as error:
            self.drop()
            raise WorkspaceError(f"no copy could be kept in {self._folder}: {reason(error)}.") from None

    def read(self) -> tuple[datetime, str] | None:
        """When it was kept, and the text; None when there is none, or none that is whole and not too old."""
        try:
            one, other = (path.read_bytes() for path in self._paths)
            body = json.loads(_difference(one, other))
            at, text = datetime.fromisoformat(body["at"]), str(body["text"])
            if abs(self._clock() - at) <= self._keep_for:  # of a clock that was set back nobody knows how far
                return at, text
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self.drop()
        return None

    def drop(self) -> None:
        for path in self._paths:
            with suppress(OSError):
                path.unlink()


def _difference(one: bytes, other: bytes) -> bytes:
    number = int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
    return number.to_bytes(max(len(one), len(other)), "big")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
