"""The history of memory files: the changes of the audit log, and between them what another hand changed.

An edit by hand has no line in the log: it shows where a file is not what the change before made of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw.beneath.paths import name_beneath
from nanoclaw.core.messages import Effect

if TYPE_CHECKING:
    from nanoclaw.core.records import Records
    from nanoclaw.plugins.undo.file_versions import FileVersions

BY_HAND = "by hand"
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

    def standing(self) -> list[Effect]:
        """Changes that make memory files what they are: each begins where the one before ended."""
        found, begins = list[Effect](), dict[str, str | None]()
        for effect in self._logged():
            name = effect.target
            if effect.state == "undone":
                continue
            is_newest = name not in begins
            became = self._versions.state(name) if is_newest else begins[name]
            if became is not None and became != effect.after:
                at = self._changed_at(name, effect) if is_newest else effect.at
                text = f"{name} was changed by another hand"
                found.append(Effect(BY_HAND, "file", name, text, "done", effect.after, became, at=at))
            found.append(effect)
            begins[name] = effect.before
        return _newest_first(found)

    def all(self, count: int = 10) -> list[Effect]:
        """The same with those that were undone."""
        undone = (effect for effect in self._logged() if effect.state == "undone")
        return _newest_first([each for each in [*self.standing(), *undone] if each.kind != BESIDES])[:count]

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

    def blame(self, name: str, line: str) -> str:
        wanted = _bare(line)
        for effect in self.standing():
            if effect.target != name:
                continue
            before, after = (
                [_bare(each) for each in _lines(self._versions.version(name, sha256)) or ()]
                for sha256 in (effect.before, effect.after)
            )
            if wanted in after and wanted not in before:
                return f"{when(effect)}, {'another hand' if effect.tool == BY_HAND else effect.tool}"
        return ""

    def _logged(self) -> list[Effect]:
        effects = self._records.of_files("done", "failed", "undone")
        return [effect for effect in effects if is_memory(self._versions.root, effect.target)]

    def _changed_at(self, name: str, after: Effect) -> datetime:
        now, path = self._versions.clock(), self._versions.root / name
        changed = os.lstat(path).st_mtime if os.path.lexists(path) else now.timestamp()
        return max(min(datetime.fromtimestamp(changed, now.tzinfo), now), after.at or now)


def is_memory(root: Path, path: str) -> bool:
    """True for a path to MEMORY.md or to a daily note."""
    name = name_beneath(root, path)
    folder, _, file = name.rpartition("/")
    return name.casefold() == "memory.md" or (folder == "memory" and file.endswith(".md"))


def _newest_first(effects: list[Effect]) -> list[Effect]:
    return sorted(effects, key=lambda effect: effect.at.timestamp() if effect.at else 0.0, reverse=True)


def _lines(content: bytes | None) -> list[str] | None:
    return None if content is None else content.decode("utf-8", "replace").splitlines()


def _bare(line: str) -> str:
    return line.strip().lstrip("-*+ ")
