"""The prompt snapshot: what a context began with, kept with its session so that every request begins alike.

And the manifest of a request: its parts without their text, stored with each turn, so that an answer can be explained
later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from nanoclaw.core.messages import Message, Mode, NoteRef, Section, SystemPrompt, ToolExample, ToolSpec
from nanoclaw.core.provider import tools_text
from nanoclaw.core.sections import FILES, IDS_OF, joined
from nanoclaw.tokens.tokens import estimate

_STATUS = {"missing_file": "missing", "file_read_error": "unreadable"}


class _Stored(NamedTuple):
    profile: str
    sections: tuple[Section, ...]
    tools: tuple[ToolSpec, ...]
    versions: dict[str, str]
    channels: tuple[str, ...] = ()


class PromptSnapshot(_Stored):
    """`sections` as they are sent, in order, and `tools` byte for byte. `versions` tell by section which state of the
    world is known; `channels` are those that the model was told of. `profile` is the name of the one it is for."""

    @cached_property
    def system(self) -> SystemPrompt:
        return joined(self.sections)

    @cached_property
    def diagnostics(self) -> tuple[str, ...]:
        return tuple(code for section in self.sections for code in section.diagnostics)

    @cached_property
    def manifests(self) -> dict[Mode, Manifest]:
        """Those that were made of it, without recalled notes."""
        return {}

    @cached_property
    def cut_files(self) -> tuple[str, ...]:
        """Names of files that are shown only in part."""
        codes = (code.partition(" ") for code in self.diagnostics)
        return tuple(name for code, _, name in codes if code in ("file_truncated", "total_budget_truncated"))

    def dump(self) -> str:
        sections = [section._asdict() for section in self.sections]
        tools = [{**spec._asdict(), "examples": [one._asdict() for one in spec.examples]} for spec in self.tools]
        text = json.dumps({**self._asdict(), "sections": sections, "tools": tools})
        _keep(text, self)
        return text


EMPTY = PromptSnapshot("", (), (), {})
"""That of a context which has not begun."""


_kept: dict[str, PromptSnapshot] = {}


def _keep(text: str, snapshot: PromptSnapshot) -> PromptSnapshot:
    """Keep one by what is stored of it: each message of a conversation looks at the same one."""
    if len(_kept) >= 64:
        _kept.clear()
    return _kept.setdefault(text, snapshot)


def load(text: str | None) -> PromptSnapshot | None:
    """None for a text that `dump` did not write: the context then starts over."""
    if found := _kept.get(text or ""):
        return found
    try:
        body: dict[str, Any] = json.loads(text or "")
        parts, tools = tuple(map(_section, body["sections"])), tuple(map(_spec, body["tools"]))
        found = PromptSnapshot(body["profile"], parts, tools, body["versions"], tuple(body["channels"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return _keep(text or "", found)


def _section(body: dict[str, Any]) -> Section:
    notes = tuple(NoteRef(*note) for note in body.pop("notes"))
    return Section(**{**body, "diagnostics": tuple(body["diagnostics"])}, notes=notes)


def _spec(body: dict[str, Any]) -> ToolSpec:
    examples = tuple(ToolExample(**example) for example in body["examples"])
    return ToolSpec(body["name"], body["description"], body["parameters"], examples)


class PromptPart(NamedTuple):
    """The size of a section, or of the tools. `tokens` are estimated."""

    id: str
    title: str
    characters: int
    tokens: int
    stable: bool
    source: str


class Manifest(NamedTuple):
    """`sha256` has the hashes of the stable, the dynamic and the whole system text, and of the tools;
    `files` says of each bootstrap file whether it was loaded, empty, missing, unreadable or truncated."""

    mode: Mode
    parts: tuple[PromptPart, ...]
    sha256: dict[str, str]
    files: dict[str, str]
    diagnostics: tuple[str, ...] = ()
    notes: tuple[NoteRef, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "parts": [part._asdict() for part in self.parts]}

    def dump(self) -> str:
        return json.dumps(self.as_dict())


class Preview(NamedTuple):
    """A request as it would be sent: the system message and tools of `snapshot`, `history`, then the `new` messages.
    `model` is whom it goes to, `factor` that between its own count of tokens and our estimate."""

    manifest: Manifest
    snapshot: PromptSnapshot
    history: tuple[Message, ...]
    new: tuple[Message, ...]
    model: str
    factor: float


def manifest(mode: Mode, snapshot: PromptSnapshot, notes: Sequence[NoteRef] = (), is_new: bool = True) -> Manifest:
    """The manifest of a request that is about to be sent; `notes` are in its metadata message. `is_new`: it begins a
    context."""
    made = snapshot.manifests[mode] = snapshot.manifests.get(mode) or _manifest(mode, snapshot)
    recalled = [note._replace(is_new=is_new) for part in snapshot.sections if part.text for note in part.notes]
    return made._replace(notes=tuple(note._replace(score=round(note.score, 2)) for note in (*recalled, *notes)))


def _manifest(mode: Mode, snapshot: PromptSnapshot) -> Manifest:
    system, tools, shown = snapshot.system, snapshot.tools, [part for part in snapshot.sections if part.text]
    schemas = tools_text(tools)
    parts = [PromptPart(one.id, one.title, len(one.text), estimate(one.text), one.stable, one.source) for one in shown]
    if tools:
        parts.append(PromptPart("tools", f"{len(tools)} tools", len(schemas), estimate(schemas), True, "code"))
    texts = {"stable": system.stable, "dynamic": system.dynamic, "full": system.text, "tools": schemas}
    hashes = {name: hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() for name, text in texts.items()}
    return Manifest(mode, tuple(parts), hashes, _statuses(snapshot), tuple(_diagnostics(mode, snapshot)))


def load_manifest(text: str) -> Manifest | None:
    """The manifest that `dump` wrote; None for a turn that has none."""
    try:
        body: dict[str, Any] = json.loads(text)
        return Manifest(
            body["mode"],
            tuple(PromptPart(**part) for part in body["parts"]),
            body["sha256"],
            body["files"],
            tuple(body["diagnostics"]),
            tuple(NoteRef(*note) if isinstance(note, list) else NoteRef(**note) for note in body["notes"]),
        )
    except (ValueError, TypeError, KeyError):
        return None


def _statuses(snapshot: PromptSnapshot) -> dict[str, str]:
    """The state of each file that a section is made of."""
    found: dict[str, str] = {}
    for section in snapshot.sections:
        names = [name for name in section.source.split(", ") if name.endswith(".md")]
        found |= dict.fromkeys(names, "loaded" if section.text else "empty")
    for code in snapshot.diagnostics:
        problem, _, name = code.partition(" ")
        if name.endswith(".md"):
            found[name] = _STATUS.get(problem, "truncated")
    return found


def _diagnostics(mode: Mode, snapshot: PromptSnapshot) -> Iterable[str]:
    yield from snapshot.diagnostics
    there = {section.id for section in snapshot.sections if section.text}
    yield from (f"section_omitted {id_}" for id_ in IDS_OF[mode] if id_ not in there)
    read = " ".join(section.source for section in snapshot.sections)
    out = (name for name in FILES["full"] if name not in FILES[mode] and name not in read)
    yield from (f"file_filtered_by_mode {name}" for name in out)
