"""Why the last answer is as it is: notes, files, facts, tools and cost. No model is asked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from nanoclaw.core.messages import AssistantMessage, Message, ToolCall, ToolResult, Usage, UserMessage
from nanoclaw.core.plugin import TurnRecord
from nanoclaw.core.prompt_snapshot import Manifest
from nanoclaw.core.prompt_snapshot import load_manifest as manifest_of
from nanoclaw.plugins.inspect.request import named, notes_in_words
from nanoclaw.tokenizer import tokens as words

MOST_ORIGINS = 5
"""Most notes that are shown with their origin."""

Origins = Callable[[str, int | str], str]
"""Who brought a line of a memory file, given its number or its text; '' if unknown."""


def _unknown(file: str, line: int | str) -> str:
    return ""


class PastTurn(NamedTuple):
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
    return PastTurn(manifest_of(record.manifest), *record[1:])


def why(last: PastTurn | None, cost: Callable[[str, Usage], str], facts: str = "", origins: Origins = _unknown) -> str:
    """The origins of the last answer. `cost(model, usage)` puts a price in words; `facts` are the lines of MEMORY.md
    that the model was shown; `origins(file, lines)` says of each who brought it, and when."""
    if last is None:
        return "There is no answer in this conversation yet."
    lines = []
    notes = last.manifest.notes if last.manifest else ()
    new, known = [note for note in notes if note.is_new], [note for note in notes if not note.is_new]
    lines.append(f"Notes recalled for it: {notes_in_words(new)}" if new else "No notes were recalled for it.")
    if known:
        lines.append(f"Notes shown since an earlier message of this conversation: {notes_in_words(known)}")
    for note in notes[:MOST_ORIGINS]:
        if brought := origins(note.file, note.start):
            lines.append(f"{note.file}:{note.start} is from {brought}")
    if stated := _stated(facts.splitlines(), last.messages):
        told = ((fact.strip("-* "), origins("MEMORY.md", fact)) for fact in stated)
        shown = (f"“{fact[:80]}”{f' ({brought})' if brought else ''}" for fact, brought in told)
        lines.append(f"Facts of MEMORY.md with words of it: {'; '.join(shown)}")
    calls = [call for message in last.messages if isinstance(message, AssistantMessage) for call in message.tool_calls]
    failed = {message.call_id for message in last.messages if isinstance(message, ToolResult) and message.is_error}
    paths = [_read(call) for call in calls if call.id not in failed]
    files = [path for path in paths if path and not path.lower().endswith("/skill.md")]
    skills = [path.split("/")[-2] for path in paths if path.lower().endswith("/skill.md")]
    if files:
        lines.append(f"Files it read: {', '.join(dict.fromkeys(files))}")
    if skills:
        lines.append(f"Skills it read: {', '.join(dict.fromkeys(skills))}")
    if by_hand := list(filter(None, (_skill_started(m.text) for m in last.messages if isinstance(m, UserMessage)))):
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
        if shortened := named(last.manifest, "section_truncated"):
            lines.append(f"Shortened: {', '.join(shortened)}")
    usage, about = last.usage, "" if last.is_reported else "≈ "
    lines.append(
        f"Model: {last.model or 'none'}; {about}{usage.input_tokens:,} tokens in ({usage.cached_tokens:,} cached), "
        f"{usage.output_tokens:,} out; {cost(last.model, usage)}"
        + ("" if last.is_reported else " (counted here: the provider gave no figures)")
    )
    if last.reason != "answered":
        lines.append(f"It ended as: {last.reason}")
    return "\n".join(f"- {line}" for line in lines)


def question_of(messages: Sequence[Message]) -> str:
    return next((m.text for m in messages if isinstance(m, UserMessage) and m.origin != "runtime"), "")


def _stated(lines: Sequence[str], messages: Sequence[Message]) -> list[str]:
    """The lines, at most three, that have words of the answer which the question did not have, and others of both."""
    asked = set(words(question_of(messages)))
    answer = set(words(next((m.text for m in reversed(messages) if isinstance(m, AssistantMessage)), "")))
    shared = [
        (len((asked | answer).intersection(own)), line) for line in lines if (own := set(words(line))) & answer - asked
    ]
    return [line for count, line in sorted(shared, key=lambda one: -one[0])[:3] if count > 1]


def _read(call: ToolCall) -> str:
    """The file that a call reads, or ''."""
    try:
        value = json.loads(call.arguments).get("path", "") if call.name == "read_file" else ""
    except (ValueError, AttributeError, RecursionError):
        return ""
    return value if isinstance(value, str) else ""


def _skill_started(message: str) -> str:
    """The name of the skill that a message starts by hand, or ''."""
    start = re.match(r"Use the skill (\S+) for this\. Its folder is /", message)
    return start[1] if start else ""
