"""Looking inside: what a request is made of, and why the last answer is as it is. No model is asked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nanoclaw.core.manifest import Manifest, NoteRef
from nanoclaw.core.manifest import load as manifest_of
from nanoclaw.core.messages import AssistantMessage, Message, ToolCall, ToolResult, Usage, UserMessage
from nanoclaw.core.store.sessions import TurnRecord
from nanoclaw.core.token_estimate import estimate_message
from nanoclaw.plugins.memory.words import tokens as words
from nanoclaw.plugins.skills.skills import started_by

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.recall import Hit


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: a section, the tools, the history or the new messages."""

    name: str
    characters: int
    tokens: int
    kept: str
    source: str


@dataclass(frozen=True, slots=True)
class PastTurn:
    """An answered turn as the store has it."""

    manifest: Manifest | None
    messages: tuple[Message, ...]
    model: str
    reason: str
    usage: Usage
    is_reported: bool = True


def past(record: TurnRecord | None) -> PastTurn | None:
    """A turn of the store with its manifest read."""
    if record is None:
        return None
    made_of = manifest_of(record.manifest)
    return PastTurn(made_of, record.messages, record.model, record.reason, record.usage, record.is_reported)


def rows(
    manifest: Manifest, history: Sequence[Message], new: Sequence[Message], model: str = "", factor: float = 1.0
) -> list[Row]:
    """The whole request, part by part, in the order in which it is sent (tools first, as providers cache them).

    `factor` is how much more the model counts than the estimate; its name says how it counts pictures.
    """
    parts = sorted(manifest.parts, key=lambda part: part.id != "tools")
    table = [
        Row(part.title, part.characters, round(part.tokens * factor), _kept(part.stable), part.source) for part in parts
    ]
    for name, messages, kept in (("History", history, "grows"), ("This message", new, "new")):
        if messages:
            tokens = sum(estimate_message(message, model) for message in messages)
            table.append(Row(name, sum(map(_length, messages)), round(tokens * factor), kept, _counted(messages)))
    return table


def table(shown: Sequence[Row]) -> str:
    """The rows as Markdown, with shares and sums."""
    tokens = sum(row.tokens for row in shown) or 1
    lines = ["| part | characters | ≈ tokens | share | kept | from |", "|---|--:|--:|--:|---|---|"]
    lines += [
        f"| {row.name} | {row.characters:,} | {row.tokens:,} | {row.tokens / tokens:.0%} | {row.kept} | {row.source} |"
        for row in shown
    ]
    lines.append(f"| **sum** | {sum(row.characters for row in shown):,} | {tokens:,} | | | |")
    return "\n".join(lines)


BAR = 16
"""Cells of the longest bar."""


def plain_table(shown: Sequence[Row], width: int = 100) -> str:
    """The same for a screen, with bars; a narrow one gets fewer columns."""
    tokens = sum(row.tokens for row in shown) or 1
    most = max((row.tokens for row in shown), default=1) or 1
    name = max((len(row.name) for row in shown), default=4)
    kept, source = (max((len(getattr(row, of)) for row in shown), default=4) for of in ("kept", "source"))
    room = width - name - len("  ≈tokens  share")
    has_kept, has_characters = room >= 2 + kept, room >= 2 + kept + len("    chars")
    room -= (2 + kept) * has_kept + len("    chars") * has_characters
    has_source = room >= 2 + source
    room -= (2 + source) * has_source
    bar = min(BAR, room - 2) if room >= 2 + 4 else 0

    def line(label: str, characters: str, count: str, share: str, drawn: str, row: tuple[str, str]) -> str:
        cells = [f"{label:<{name}}", f"{characters:>7}" if has_characters else "", f"{count:>7}", f"{share:>5}"]
        cells += [f"{drawn:<{bar}}" if bar else "", f"{row[0]:<{kept}}" if has_kept else "", row[1] * has_source]
        return "  ".join(filter(None, cells)).rstrip()

    lines = [line("part", "chars", "≈tokens", "share", " ", ("kept", "from"))]
    lines += [
        line(
            row.name,
            f"{row.characters:,}",
            f"{row.tokens:,}",
            f"{row.tokens / tokens:.0%}",
            "█" * max(1, round(bar * row.tokens / most)) if row.tokens else " ",
            (row.kept, row.source),
        )
        for row in shown
    ]
    characters = sum(row.characters for row in shown)
    return "\n".join([*lines, line("sum", f"{characters:,}", f"{tokens:,}", "", " ", ("", ""))])


def remarks(manifest: Manifest, last: PastTurn | None) -> list[str]:
    """What else there is to say: files, diagnostics, recalled notes, and what the provider can take from its cache."""
    lines = []
    for status in ("truncated", "unreadable"):
        names = [name for name, found in manifest.files.items() if found == status]
        if names:
            lines.append(f"{status.capitalize()}: {', '.join(names)}.")
    if manifest.struck:
        lines.append(f"Struck in MEMORY.md and left out: {manifest.struck} line{'s' * (manifest.struck > 1)}.")
    empty = [name for name, found in manifest.files.items() if found == "empty"]
    if empty:
        lines.append(f"Cost nothing, since nothing is in them yet: {', '.join(empty)}.")
    for told, code in (("Not there", "missing_file"), ("Shortened", "section_truncated")):
        if names := [name for name in _named(manifest, code) if name != "BOOTSTRAP.md"]:  # gone once it is done
            lines.append(f"{told}: {', '.join(names)}.")
    if manifest.notes:
        lines.append(f"Recalled: {_notes(manifest.notes)}.")
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
        return "The tools are others than in the last request: it shares no prefix." + reported
    if now["full"] == then["full"]:
        return "The request begins with the whole of the last one." + reported
    if now["stable"] == then["stable"]:
        return "Tools and the stable part are those of the last request; memory is newer." + reported
    return "The stable part is another than in the last request: only the tools are shared." + reported


def why(last: PastTurn | None, cost: Callable[[str, Usage], str], facts: str = "") -> str:
    """Where the last answer came from. `cost(model, usage)` puts a price in words; `facts` is what the model was shown
    of MEMORY.md."""
    if last is None:
        return "There is no answer in this conversation yet."
    lines = []
    notes = last.manifest.notes if last.manifest else ()
    new, known = [note for note in notes if note.is_new], [note for note in notes if not note.is_new]
    lines.append(f"Notes recalled for it: {_notes(new)}" if new else "No notes were recalled for it.")
    if known:
        lines.append(f"Notes shown since an earlier message of this conversation: {_notes(known)}")
    if stated := _stated(facts.splitlines(), last.messages):
        lines.append(f"Facts of MEMORY.md with words of it: {'; '.join(f'“{fact[:80]}”' for fact in stated)}")
    calls = [call for message in last.messages if isinstance(message, AssistantMessage) for call in message.tool_calls]
    failed = {message.call_id for message in last.messages if isinstance(message, ToolResult) and message.is_error}
    paths = [_read(call) for call in calls if call.id not in failed]
    files = [path for path in paths if path and not path.lower().endswith("/skill.md")]
    skills = [path.split("/")[-2] for path in paths if path.lower().endswith("/skill.md")]
    if files:
        lines.append(f"Files it read: {', '.join(dict.fromkeys(files))}")
    if skills:
        lines.append(f"Skills it read: {', '.join(dict.fromkeys(skills))}")
    if by_hand := list(filter(None, (started_by(m.text) for m in last.messages if isinstance(m, UserMessage)))):
        lines.append(f"Skills started by hand: {', '.join(by_hand)}")
    for part in last.manifest.parts if last.manifest else ():
        if part.id == "active_skills":
            lines.append(f"Skills that are always on: {part.source}")
    if calls:
        ran = Counter(f"{call.name}{' (failed)' if call.id in failed else ''}" for call in calls)
        lines.append(f"Tools it ran: {', '.join(f'{name} × {n}' if n > 1 else name for name, n in ran.items())}")
    if last.manifest:
        cut = [name for name, status in last.manifest.files.items() if status == "truncated"]
        if cut:
            lines.append(f"Files it saw only in part: {', '.join(cut)}")
        if shortened := _named(last.manifest, "section_truncated"):
            lines.append(f"Shortened: {', '.join(shortened)}")
    usage, about = last.usage, "" if last.is_reported else "≈ "
    lines.append(
        f"Model: {last.model or 'none'}; {about}{usage.input_tokens:,} tokens in ({usage.cached_tokens:,} cached), "
        f"{usage.output_tokens:,} out; {cost(last.model, usage)}"
        + ("" if last.is_reported else " (counted here: the provider told no figures)")
    )
    if last.reason != "answered":
        lines.append(f"It ended as: {last.reason}")
    return "\n".join(f"- {line}" for line in lines)


def why_not(text: str, question: str, last: PastTurn | None, search: Callable[[str, int], list[Hit]]) -> str:
    """Why the note that `text` describes was not recalled for `question`."""
    wanted = next(iter(search(text, 1)), None)
    if wanted is None:
        return f"No note speaks of “{text}”."
    shown = last.manifest.notes if last and last.manifest else ()
    where = f"{wanted.file}:{wanted.start} “{wanted.text[:80]}”"
    if wanted.file == "MEMORY.md":
        return f"{where} is in MEMORY.md, which the model sees as a whole."
    if any((note.file, note.start) == (wanted.file, wanted.start) for note in shown):
        return f"{where} was recalled."
    ranked = search(question, 100)
    place = next((n for n, hit in enumerate(ranked, 1) if (hit.file, hit.start) == (wanted.file, wanted.start)), None)
    if place is None and set(words(question)).isdisjoint(words(wanted.text)):
        return f"{where} shares no word with the question “{question[:80]}”."
    if place is None:
        return f"{where} is not among what a search for the question “{question[:80]}” finds first."
    score = ranked[place - 1].score
    best = f"; the best had {ranked[0].score:.2f}" if place > 1 else ""
    return (
        f"{where} came in place {place} with a score of {score:.2f}{best}. "
        f"Only the first few above a threshold are shown{'' if shown else ', and here none was'}; "
        "one that was shown earlier in the conversation is not shown again."
    )


def question_of(messages: Sequence[Message]) -> str:
    return next((m.text for m in messages if isinstance(m, UserMessage) and m.origin != "runtime"), "")


def _stated(lines: Sequence[str], messages: Sequence[Message]) -> list[str]:
    """The lines, at most three, that have words of the answer which the question did not have, and others of both."""
    asked = set(words(question_of(messages)))
    answer = set(words(next((m.text for m in reversed(messages) if isinstance(m, AssistantMessage)), "")))
    shared = [
        (len((asked | answer).intersection(own)), line) for line in lines if (own := set(words(line))) & answer - asked
    ]
    return [line.strip("-* ") for count, line in sorted(shared, key=lambda one: -one[0])[:3] if count > 1]


def _notes(notes: Sequence[NoteRef]) -> str:
    return "; ".join(map(_note, notes))


def _note(note: NoteRef) -> str:
    lines = str(note.start) if note.start == note.end else f"{note.start}-{note.end}"
    return f"{note.file}:{lines} ({f'score {note.score:g}' if note.score else 'new'})"


def _named(manifest: Manifest, code: str) -> list[str]:
    """What a diagnostic code is said of."""
    return [item.partition(" ")[2] for item in manifest.diagnostics if item.startswith(f"{code} ")]


def _kept(stable: bool) -> str:
    return "stable" if stable else "this context"


def _length(message: Message) -> int:
    calls = getattr(message, "tool_calls", ())
    return len(message.text) + sum(len(call.name) + len(call.arguments) for call in calls)


def _counted(messages: Sequence[Message]) -> str:
    pictures = sum(len(getattr(message, "images", ())) for message in messages)
    texts = f"{len(messages)} message{'s' * (len(messages) > 1)}"
    return f"{texts}, {pictures} image{'s' * (pictures > 1)}" if pictures else texts


def _read(call: ToolCall) -> str:
    """The file that a call reads, or ''."""
    name = {"read_file": "path", "memory_get": "file"}.get(call.name)
    try:
        value = json.loads(call.arguments).get(name, "")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return value if isinstance(value, str) else ""
