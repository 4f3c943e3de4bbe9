"""Commands that need no model: /note and /search."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nanoclaw.core.commands import Answer, Said
from nanoclaw.core.messages import Effect
from nanoclaw.escapes import visible
from nanoclaw.plugins.memory.notes import MemoryStore
from nanoclaw.plugins.undo.changes import Changes

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.recall import Hit

FOUND = 8
SNIPPET_CHARACTERS = 200


def note_commands(notes: MemoryStore, changes: Changes, search: Callable[[str, int], list[Hit]]) -> dict[str, Answer]:
    """The commands by name. `search(query, limit)` finds notes; what is written can be undone."""

    def note(said: Said) -> str:
        if not said.argument:
            return "/note TEXT writes a line into today's note."
        with changes.of(
            Effect("/note", "note", changes.today(), f"noted “{_short(said.argument, 60)}”"), str(said.address)
        ):
            added = notes.add_note(said.argument)
        noted = f"{'Noted' if added.is_new else 'Already noted'} in {added.file}: {visible(added.line)}"
        return f"{noted}\n{added.remark}".strip()

    def find(said: Said) -> str:
        if not said.argument:
            return "/search TEXT finds notes and facts."
        return "\n".join(map(_line, search(said.argument, FOUND))) or "Nothing found: try other words."

    return {"note": note, "search": find}


def _line(hit: Hit) -> str:
    day = f" ({hit.date})" if hit.date and str(hit.date) not in hit.file + hit.text else ""
    return f"- {hit.file}:{hit.start}{day}: {_short(hit.text, SNIPPET_CHARACTERS)}"


def _short(text: str, length: int) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= length else line[: length - 1] + "…"
