"""What a request was made of, without its text: stored with each turn, so that an answer can be explained later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from nanoclaw.core.bootstrap import NAMES, BootstrapFile
from nanoclaw.core.context import joined
from nanoclaw.core.messages import ToolSpec
from nanoclaw.core.prompt_snapshot import Opening, key
from nanoclaw.core.provider import chat_tools
from nanoclaw.core.sections import FILES, IDS_OF, Mode, Section
from nanoclaw.core.token_estimate import estimate

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.recall import Hit

_STATUS = {"missing_file": "missing", "file_read_error": "unreadable"}


@dataclass(frozen=True, slots=True)
class Part:
    """A section, or the tools: how large it is. `tokens` are estimated."""

    id: str
    title: str
    characters: int
    tokens: int
    stable: bool
    source: str


@dataclass(frozen=True, slots=True)
class NoteRef:
    """A recalled note without its text; lines count from 1. `is_new`: this message brought it up, no earlier one."""

    file: str
    start: int
    end: int
    score: float
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class Manifest:
    """`sha256` has the hashes of the stable, the dynamic and the whole system text, and of the tools;
    `files` says of each bootstrap file whether it was loaded, empty, missing, unreadable or truncated; `struck` is how
    many lines of MEMORY.md were left out because others correct them."""

    mode: Mode
    parts: tuple[Part, ...]
    sha256: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)
    diagnostics: tuple[str, ...] = ()
    notes: tuple[NoteRef, ...] = ()
    struck: int = 0

    def dump(self) -> str:
        return json.dumps(asdict(self))


def manifest(
    mode: Mode,
    built: Sequence[Section],
    opening: Opening,
    notes: Sequence[Hit],
    tools: tuple[ToolSpec, ...],
    known: Collection[str] = (),
) -> Manifest:
    """Of a request about to be sent; `notes` are those that only its metadata message shows, `known` the keys of what
    was shown before."""
    system, schemas = joined(built), json.dumps(chat_tools(tools), ensure_ascii=False) if tools else ""
    parts = [_part(section.id, section.title, section.text, section.stable, section.source) for section in built]
    if tools:
        parts.append(_part("tools", f"{len(tools)} tools", schemas, True, "code"))
    return Manifest(
        mode,
        tuple(parts),
        {name: _sha256(text) for name, text in _hashed(system.stable, system.dynamic, system.text, schemas)},
        {name: _status(file) for name, file in opening.files.items()},
        tuple(_diagnostics(mode, built, opening)),
        tuple(
            NoteRef(note.file, note.start, note.end, round(note.score, 2), key(note) not in known)
            for note in (*opening.notes, *notes)
        ),
        sum(file.struck for file in opening.files.values()),
    )


def load(text: str) -> Manifest | None:
    """None for a turn that has none."""
    try:
        body: dict[str, Any] = json.loads(text)
        return Manifest(
            body["mode"],
            tuple(Part(**part) for part in body["parts"]),
            body["sha256"],
            body["files"],
            tuple(body["diagnostics"]),
            tuple(NoteRef(**note) for note in body["notes"]),
            body.get("struck", 0),
        )
    except (ValueError, TypeError, KeyError):
        return None


def _part(id_: str, title: str, text: str, stable: bool, source: str) -> Part:
    return Part(id_, title, len(text), estimate(text), stable, source)


def _hashed(stable: str, dynamic: str, full: str, tools: str) -> Iterable[tuple[str, str]]:
    return (("stable", stable), ("dynamic", dynamic), ("full", full), ("tools", tools))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _status(file: BootstrapFile) -> str:
    if "truncated" in file.problem:
        return "truncated"
    return _STATUS.get(file.problem) or ("loaded" if file.text else "empty")


def _diagnostics(mode: Mode, built: Sequence[Section], opening: Opening) -> Iterable[str]:
    for file in opening.files.values():  # also of a section that is not there because none of its files can be read
        if file.problem:
            yield f"{file.problem} {file.name}"
    for section in built:
        yield from (f"{code} {section.id}" for code in section.diagnostics)
    there = {section.id for section in built}
    for id_ in IDS_OF[mode]:
        if id_ not in there:
            yield f"section_omitted {id_}"
    for name in NAMES:
        if name not in FILES[mode]:
            yield f"file_filtered_by_mode {name}"
