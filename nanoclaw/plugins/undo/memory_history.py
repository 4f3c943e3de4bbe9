"""The history of memory files: their changes in the audit log."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
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


def folded(effects: Iterable[Effect]) -> list[Effect]:
    """The effects, where what a command did to several files is one."""
    found = list[Effect]()
    for is_one, group in groupby(effects, lambda e: e.tool == "exec" and e.kind == "file" and (e.state, did(e))):
        each = list(group)
        if is_one and len(each) > 1:
            names, more = sorted(one.target for one in each), f" and {len(each) - 3:,} more" * (len(each) > 3)
            each = [each[0]._replace(text=f"{len(each):,} files ({', '.join(names[:3])}{more}) {did(each[0])}")]
        found += each
    return found


def did(effect: Effect) -> str:
    """Its text without what it was done to."""
    return effect.text.removeprefix(f"{effect.target} ")


class MemoryHistory:
    """Lists are newest first."""

    def __init__(self, versions: FileVersions, records: Records) -> None:
        self._versions, self._records = versions, records

    def all(self, count: int | None = 10) -> list[Effect]:
        return [each for each in self._logged() if each.kind != BESIDES][:count]

    def besides(self, effect: Effect) -> list[Effect]:
        """The part of a change that is in another file."""
        wanted = BESIDES, effect.text, effect.state
        return [each for each in self._logged() if (each.kind, each.text, each.state) == wanted][:1]

    def diff(self, effect: Effect) -> list[str]:
        return [line for each in (effect, *self.besides(effect)) for line in self._diff(each)]

    def _diff(self, effect: Effect) -> list[str]:
        lines = [_lines(self._versions.version(effect.target, each)) for each in (effect.before, effect.after)]
        if lines[0] is None or lines[1] is None:
            return ["(no copy of it is kept any more)"]
        import difflib

        compared = difflib.unified_diff(lines[0], lines[1], n=0, lineterm="")
        return [f"{line[0]} {line[1:]}" for line in compared if line[:3] not in ("---", "+++") and line[0] in "+-"]

    def _logged(self) -> list[Effect]:
        effects = self._records.of_files("done", "failed", "undone")
        return [effect for effect in effects if is_memory(self._versions.root, effect.target)]


def is_memory(root: Path, path: str) -> bool:
    """True for a path to MEMORY.md or to a daily note."""
    name = name_beneath(root, path)
    folder, _, file = name.rpartition("/")
    return name.casefold() == "memory.md" or (folder == "memory" and file.endswith(".md"))


def _lines(content: bytes | None) -> list[str] | None:
    return None if content is None else content.decode("utf-8", "replace").splitlines()
