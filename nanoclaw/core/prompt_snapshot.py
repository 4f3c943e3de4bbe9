"""What a context began with: kept with the session, so that the system message stays the same until the next one.

The assistant's own changes (a fact, a file of character, a skill) are in the conversation already and change nothing
here; a change by another hand is taken up at the next message, and a few facts that were added to MEMORY.md are told
with it as notes are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from nanoclaw.core.bootstrap import BootstrapFile

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.recall import Hit


@dataclass(frozen=True, slots=True)
class Opening:
    """`files` are shown as here; `seen` are the states (SHA-256) of what is on disk that count as known."""

    files: dict[str, BootstrapFile] = field(default_factory=dict)
    active_skills: str = ""
    active: tuple[str, ...] = ()
    """Names of the skills in `active_skills`."""
    skills: str = ""
    shortened: tuple[str, ...] = ()
    """Ids of sections that had more to say than they may."""
    notes: tuple[Hit, ...] = ()
    seen: dict[str, str] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    """Keys of all notes shown in this context, also those in metadata messages."""
    channels: tuple[str, ...] = ()
    """Those that the model was told of in this context: of the first by the system message, of others by metadata."""

    def dump(self) -> str:
        return json.dumps(asdict(self), default=date.isoformat)

    def with_shown(self, notes: Sequence[Hit]) -> Opening:
        return replace(self, shown=(*self.shown, *map(key, notes)))

    @property
    def cut_files(self) -> tuple[str, ...]:
        return tuple(name for name, file in self.files.items() if "truncated" in file.problem)


def key(note: Hit) -> str:
    """The same for a note however its lines have moved."""
    return f"{note.file} {note.text}"


def changed(before: Opening, after: Opening) -> set[str]:
    """The names of what is on disk in another state."""
    return {name for name in before.seen.keys() | after.seen.keys() if before.seen.get(name) != after.seen.get(name)}


def added_facts(before: Opening, after: Opening) -> list[str] | None:
    """The lines of MEMORY.md below those that `before` shows; None when any other line of it changed."""
    old, new = before.files["MEMORY.md"], after.files["MEMORY.md"]
    if old.problem or new.problem or not f"{new.text}\n".startswith(f"{old.text}\n" if old.text else ""):
        return None
    lines = [line for line in new.text[len(old.text) :].split("\n") if line.strip()]
    if not old.text and lines and lines[0].startswith("# "):
        del lines[0]
    return lines if all(line.startswith(("- ", "* ")) for line in lines) else None


def load(text: str) -> Opening | None:
    """None for a text that `dump` did not write: the context then begins anew."""
    try:
        body: dict[str, Any] = json.loads(text)
        return Opening(
            {name: BootstrapFile(**file) for name, file in body["files"].items()},
            body["active_skills"],
            tuple(body.get("active", ())),
            body["skills"],
            tuple(body.get("shortened", ())),
            tuple(_hit(note) for note in body["notes"]),
            body["seen"],
            tuple(body["shown"]),
            tuple(body.get("channels", ())),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _hit(note: dict[str, Any]) -> Hit:
    from nanoclaw.plugins.memory.recall import Hit

    return Hit(**{**note, "date": date.fromisoformat(note["date"]) if note["date"] else None})
