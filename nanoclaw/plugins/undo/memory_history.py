"""The history of memory files: those changes of the audit log that are theirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw.beneath.paths import name_beneath
from nanoclaw.core.messages import Effect

if TYPE_CHECKING:
    from nanoclaw.core.records import Records
    from nanoclaw.plugins.undo.file_versions import FileVersions

BESIDES = "besides"  # kind of what a change of a memory file changed in another one, under the same words


def when(effect: Effect) -> str:
    """The time of an effect, in words."""
    return f"{effect.at:%Y-%m-%d %H:%M}" if effect.at else "an unknown time"


def outcome(effect: Effect) -> str:
    """Text of an effect with what became of it."""
    marks = {"begun": " (unknown outcome)", "failed": " (failed)", "undone": " (undone)", "done": ""}
    is_back = effect.kind == "command" and effect.state == "undone"
    return f"{effect.text}{' (what it deleted was put back)' if is_back else marks[effect.state]}"


class MemoryHistory:
    def __init__(self, versions: FileVersions, records: Records) -> None:
        self._versions, self._records = versions, records

    def all(self) -> list[Effect]:
        """The changes, the newest first, with those that were undone."""
        return [effect for effect in self._logged() if effect.kind != BESIDES]

    def besides(self, effect: Effect) -> list[Effect]:
        """The part of a change that is in another file."""
        wanted = BESIDES, effect.text, effect.state
        return [each for each in self._logged() if (each.kind, each.text, each.state) == wanted][:1]

    def diff(self, effect: Effect) -> list[str]:
        return [line for each in (effect, *self.besides(effect)) for line in self._diff(each)]

    def _diff(self, effect: Effect) -> list[str]:
        contents = [self._versions.version(effect.target, each) for each in (effect.before, effect.after)]
        if contents[0] is None or contents[1] is None:
            return ["(no copy of it is kept any more)"]
        import difflib

        before, after = (content.decode("utf-8", "replace").splitlines() for content in contents if content is not None)
        compared = difflib.unified_diff(before, after, n=0, lineterm="")
        return [f"{line[0]} {line[1:]}" for line in compared if line[:3] not in ("---", "+++") and line[0] in "+-"]

    def _logged(self) -> list[Effect]:
        effects = self._records.of_files("done", "failed", "undone")
        return [effect for effect in effects if is_memory(self._versions.root, effect.target)]


def is_memory(root: Path, path: str) -> bool:
    """True for a path to MEMORY.md or to a daily note."""
    name = name_beneath(root, path)
    folder, _, file = name.rpartition("/")
    return name.casefold() == "memory.md" or (folder == "memory" and file.endswith(".md"))
