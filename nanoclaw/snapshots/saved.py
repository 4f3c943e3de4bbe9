"""A listing on disk that can leave out other changes, so that changes since then are known after a crash."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from nanoclaw.snapshots.copies import name_of, status_of
from nanoclaw.snapshots.listing import FileListing, identity, is_same

_Part = dict[str, os.stat_result]


class SavedListing:
    """`note` is anything that is kept with it."""

    def __init__(self, path: Path, listing: FileListing, note: Mapping[str, Any]) -> None:
        self._path, self.note, self._tops = path, note, listing.tops
        self._parts: tuple[_Part, _Part, _Part] = (dict(listing.files), dict(listing.folders), dict(listing.marks))

    @classmethod
    def keep(cls, path: Path, listing: FileListing, note: Mapping[str, Any]) -> Self:
        """Write it. Raises OSError."""
        saved = cls(path, listing, note)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        saved._write()
        return saved

    @classmethod
    def load(cls, path: Path) -> Self:
        """Raises OSError and ValueError."""
        said = json.loads(path.read_text(encoding="utf-8"))
        files, folders, marks = ({name: status_of(at) for name, at in part.items()} for part in said["parts"])
        return cls(path, FileListing(files, folders, marks, tuple(said["tops"])), said["note"])

    def _write(self) -> None:
        parts = [{name: name_of(found) for name, found in part.items()} for part in self._parts]
        draft = self._path.with_name(f"{self._path.name}.draft")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            json.dump({"tops": self._tops, "parts": parts, "note": self.note}, file)
        draft.replace(self._path)

    @property
    def listing(self) -> FileListing:
        return FileListing(*self._parts, self._tops)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the copies of its files."""
        return frozenset(map(name_of, self._parts[0].values()))

    def pass_over(self, before: FileListing, after: FileListing) -> None:
        """Leave out what happened between two other listings. Raises OSError."""
        pairs = ((before.files, after.files), (before.folders, after.folders), (before.marks, after.marks))
        changes = [_changed(part, *pair) for part, pair in zip(self._parts, pairs, strict=True)]
        if not any(changes):
            return
        vars(self).pop("names", None)
        for part, found in zip(self._parts, changes, strict=True):
            part |= {path: new for path, new in found.items() if new}
            for path in [one for one, new in found.items() if new is None]:
                part.pop(path, None)
        if self._path.exists():  # else it was dropped
            self._write()

    def drop(self) -> None:
        self._path.unlink(missing_ok=True)


def _changed(
    part: _Part, was: Mapping[str, os.stat_result], now: Mapping[str, os.stat_result]
) -> dict[str, os.stat_result | None]:
    """Find what of a part is another by now, None for what is gone; what was moved, too."""
    found, moved = dict[str, os.stat_result | None](), set[tuple[int, int, int]]()
    for path, old in was.items():
        new = now.get(path)
        if new is not old and path in part and (new is None or not is_same(old, new)):
            found[path] = new
            if new is None:
                moved.add(identity(old))
    if moved:
        found |= {path: new for path, new in now.items() if path not in was and identity(new) in moved}
    return found
