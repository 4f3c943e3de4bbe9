"""A listing on disk, so that changes since then are known after a crash."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nanoclaw.snapshots.copies import name_of, status_of
from nanoclaw.snapshots.listing import FileListing


def save(path: Path, listing: FileListing, note: Mapping[str, Any]) -> None:
    """`note` is anything that is kept with it. Raises OSError."""
    parts = [{name: name_of(found) for name, found in part.items()} for part in listing[:3]]
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.draft")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        json.dump({"tops": listing.tops, "parts": parts, "note": note}, file)
    draft.replace(path)


def load(path: Path) -> tuple[FileListing, Mapping[str, Any]]:
    """Raises OSError and ValueError."""
    said = json.loads(path.read_text(encoding="utf-8"))
    files, folders, marks = ({name: status_of(at) for name, at in part.items()} for part in said["parts"])
    return FileListing(files, folders, marks, tuple(said["tops"])), said["note"]
