"""The person's folder: the paths of its parts."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import NamedTuple

from nanoclaw.atomic_write import reason, try_writing
from nanoclaw.core.errors import WorkspaceError


class Workspace(NamedTuple):
    """The folder that the assistant remembers in and works on. All of it is the person's and may change at any time."""

    root: Path

    @property
    def memory_file(self) -> Path:
        return self.root / "MEMORY.md"

    @property
    def notes(self) -> Path:
        return self.root / "memory"

    @property
    def skills(self) -> Path:
        return self.root / "skills"

    @property
    def media(self) -> Path:
        return self.root / "media"

    def note_path(self, day: date) -> Path:
        return self.notes / f"{day.isoformat()}.md"

    def check_writable(self) -> None:
        """Raises WorkspaceError unless files can be made here; makes the folder when it is missing."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            try_writing(self.root)
        except OSError as error:
            advice = "Give another folder, or make this one writable."
            raise WorkspaceError(
                f"the workspace {str(self.root)!r} cannot be used: {reason(error)}. {advice}"
            ) from None
