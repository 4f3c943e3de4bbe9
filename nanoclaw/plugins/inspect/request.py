"""A request, part by part: what it is made of, and how it differs from the last one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from nanoclaw.core.messages import Message, NoteRef
from nanoclaw.core.prompt_snapshot import Manifest, Preview
from nanoclaw.core.provider import estimate_message

if TYPE_CHECKING:
    from nanoclaw.plugins.inspect.why import PastTurn


class PromptRow(NamedTuple):
    """A line of the table: a section, the tools, the history or the new messages."""

    name: str
    characters: int
    tokens: int
    kept: str
    source: str


def rows(preview: Preview, wishes: Sequence[Message]) -> list[PromptRow]:
    """The whole request, part by part, in the order in which it is sent (tools first, as providers cache them). Of its
    history `wishes` are those of a project."""
    model, factor = preview.model, preview.factor
    parts = sorted(preview.manifest.parts, key=lambda part: part.id != "tools")
    table = [
        PromptRow(part.title, part.characters, round(part.tokens * factor), kept, part.source)
        for part in parts
        for kept in ["stable" if part.stable else "this context"]
    ]
    history = "History", [one for one in preview.history if one not in wishes], "grows"
    said = ("The project's wishes", wishes, "this context"), history, ("This message", preview.new, "new")
    for name, messages, kept in said:
        if messages:
            tokens = sum(estimate_message(message, model) for message in messages)
            table.append(PromptRow(name, sum(map(_length, messages)), round(tokens * factor), kept, _counted(messages)))
    return table


def table(shown: Sequence[PromptRow]) -> str:
    """The rows as Markdown, with shares and sums."""
    tokens = sum(row.tokens for row in shown) or 1
    lines = ["| part | characters | ≈ tokens | share | kept | from |", "|---|--:|--:|--:|---|---|"]
    lines += [
        f"| {row.name} | {row.characters:,} | {row.tokens:,} | {row.tokens / tokens:.0%} | {row.kept} | {row.source} |"
        for row in shown
    ]
    lines.append(f"| **sum** | {sum(row.characters for row in shown):,} | {tokens:,} | | | |")
    return "\n".join(lines)


def remarks(manifest: Manifest, last: PastTurn | None, struck: int = 0) -> list[str]:
    """Sentences about files, diagnostics, recalled notes, and what the provider can take from its cache. `struck` lines
    of MEMORY.md are left out."""
    lines = []
    for status in ("truncated", "unreadable"):
        names = [name for name, found in manifest.files.items() if found == status]
        if names:
            lines.append(f"{status.capitalize()}: {', '.join(names)}.")
    if struck:
        lines.append(f"Struck in MEMORY.md and left out: {struck} line{'s' * (struck > 1)}.")
    empty = [name for name, found in manifest.files.items() if found == "empty"]
    if empty:
        lines.append(f"Empty, so they cost nothing: {', '.join(empty)}.")
    for told, code in (("Not there", "missing_file"), ("Shortened", "section_truncated")):
        if names := [name for name in named(manifest, code) if name != "BOOTSTRAP.md"]:  # gone once it is done
            lines.append(f"{told}: {', '.join(names)}.")
    if manifest.notes:
        lines.append(f"Recalled: {notes_in_words(manifest.notes)}.")
    if manifest.mode in ("minimal", "none"):
        lines.append("A request of this kind begins afresh: nothing that was said in this conversation is part of it.")
    else:
        lines.append(_prefix(manifest, last))
    return lines


def _prefix(manifest: Manifest, last: PastTurn | None) -> str:
    if last is None or last.manifest is None:
        return "Nothing was sent in this conversation yet."
    usage = last.usage
    reported = f" The provider reported {usage.cached_tokens:,} of {usage.input_tokens:,} input tokens as cached."
    if not usage.input_tokens or not last.is_reported:  # stopped, failed, or by a provider that tells no figures
        reported = ""
    now, then = manifest.sha256, last.manifest.sha256
    if now["tools"] != then["tools"]:
        return (
            "The tools differ from those of the last request: its provider has nothing of this one in its cache."
            + reported
        )
    if now["full"] == then["full"]:
        return "The request begins with the whole of the last one." + reported
    if now["stable"] == then["stable"]:
        return "Tools and the stable part are those of the last request; memory is newer." + reported
    return (
        "The stable part differs from that of the last request: only the tools can come from the provider's cache."
        + reported
    )


def notes_in_words(notes: Sequence[NoteRef]) -> str:
    return "; ".join(map(_note, notes))


def _note(note: NoteRef) -> str:
    lines = str(note.start) if note.start == note.end else f"{note.start}-{note.end}"
    return f"{note.file}:{lines} ({f'score {note.score:g}' if note.score else 'new'})"


def named(manifest: Manifest, code: str) -> list[str]:
    """The files or sections of which a diagnostic code is said."""
    return [item.partition(" ")[2] for item in manifest.diagnostics if item.startswith(f"{code} ")]


def _length(message: Message) -> int:
    calls = getattr(message, "tool_calls", ())
    return len(message.text) + sum(len(call.name) + len(call.arguments) for call in calls)


def _counted(messages: Sequence[Message]) -> str:
    pictures = sum(len(getattr(message, "images", ())) for message in messages)
    texts = f"{len(messages)} message{'s' * (len(messages) > 1)}"
    return f"{texts}, {pictures} image{'s' * (pictures > 1)}" if pictures else texts
