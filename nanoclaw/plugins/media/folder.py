"""The folder media/ of the workspace: files that came with messages, by month, with safe names that never collide.

Nothing is removed by itself: they are the person's.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import unicodedata
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from nanoclaw.atomic_write import NotSaved, is_draft, reason, replace_in
from nanoclaw.beneath.paths import open_again, open_named, open_parent_named
from nanoclaw.core.errors import WorkspaceError

STEM_BYTES = 80
"""Of a name, without its ending and our mark."""

_GUESTS = "guests-"
_KINDS = {"image": "photo", "audio": "audio", "video": "video"}
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,10}$")


class MediaFolder:
    def __init__(self, workspace: Path) -> None:
        self._root, self._folder = workspace, workspace / "media"

    def place(self, at: datetime, name: str, mime: str, identity: str, *, is_guests: bool = False) -> Path:
        """The path for a file that came at that time: always the same for the same `identity`; files of guests are
        kept apart."""
        stem, ending = _safe(name, mime)
        mark = hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:8]
        return self._folder / f"{_GUESTS if is_guests else ''}{at:%Y-%m}" / f"{stem}-{mark}{ending}"

    def has(self, path: Path) -> bool:
        """True for a file that was saved before, which is whole then."""
        try:
            found = path.lstat()
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size > 0

    def save(self, path: Path, data: bytes) -> None:
        """Keep a file at its place; no link is followed on the way. Raises WorkspaceError."""
        try:
            with open_parent_named(self._root, self.relative(path)) as (folder, name):
                replace_in(folder, name, data)
        except NotSaved as error:
            raise WorkspaceError(str(error)) from None
        except OSError as error:
            raise WorkspaceError(f"nothing can be saved in {str(self._folder)!r}: {reason(error)}.") from None

    def opened(self, path: str) -> BinaryIO:
        """An attachment to be read: one that is kept here, or a file that the person named. No link is followed, so a
        file that something else was put in the place of is refused. Raises OSError."""
        kept = Path(path)
        return open_named(self._root, self.relative(kept)) if kept.is_relative_to(self._folder) else open_again(path)

    def relative(self, path: Path) -> str:
        """Its path as it is written in the workspace."""
        return path.relative_to(self._root).as_posix()

    def used(self, *, by_guests: bool = False) -> tuple[int, int]:
        """The number of files that are kept, and their bytes; of all, or those of guests."""
        months = [one for one in _entries(self._folder) if one.is_dir(follow_symlinks=False)]
        counted = [one for one in months if not by_guests or one.name.startswith(_GUESTS)]
        found = [entry for month in counted for entry in _entries(Path(month.path))]
        sizes = [
            entry.stat(follow_symlinks=False).st_size
            for entry in found
            if entry.is_file(follow_symlinks=False) and not is_draft(entry.name)
        ]
        return len(sizes), sum(sizes)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _safe(name: str, mime: str) -> tuple[str, str]:
    """Stem and ending of a name that any file system takes, that hides nothing and leads nowhere."""
    base = unicodedata.normalize("NFC", name.replace("\\", "/")).rpartition("/")[2]
    found = _ENDING.search(base)
    ending = found[0].lower() if found and found.start() else _ending_of(mime)
    stem = base[: found.start()] if found and found.start() else base
    stem = re.sub(r"_{2,}", "_", "".join(sign if sign.isalnum() or sign in "-+()." else "_" for sign in stem))
    stem = stem.encode("utf-8", "ignore")[:STEM_BYTES].decode("utf-8", "ignore").strip("._-")
    return stem or _KINDS.get(mime.partition("/")[0], "file"), ending


def _ending_of(mime: str) -> str:
    if not mime:
        return ""
    import mimetypes

    return {"audio/ogg": ".ogg", "image/jpeg": ".jpg"}.get(mime) or mimetypes.guess_extension(mime) or ""
