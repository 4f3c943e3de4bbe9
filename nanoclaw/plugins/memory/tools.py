"""Notes things down for the tools and commands, and puts into words what is noted and found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from nanoclaw.core.messages import Effect
from nanoclaw.core.plugin import ToolOutput
from nanoclaw.escapes import one_line, visible
from nanoclaw.plugins.memory.notes import Added, Hit, MemoryStore
from nanoclaw.plugins.memory.plugin import KNOWN

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.talk import Quote

SNIPPET_CHARACTERS = 700
UNTRUE = "If this makes one of these untrue, call memory_add again with the same text and replaces=…:"
MOST_HITS = 20


class Found(NamedTuple):
    """Entries of notes, and what was said in earlier conversations, that fit a query; `remark` tells what was not
    looked at."""

    hits: list[Hit]
    quotes: list[Quote]
    remark: str = ""


Find = Callable[[str, int], Awaitable[Found]]
"""Finds so many of each that fit a query."""


def as_output(store: MemoryStore, found: Found) -> ToolOutput:
    """A line for each, and the sources of others' text that any comes from."""
    lines = [*map(_hit_line, found.hits), *(visible(str(quote)) for quote in found.quotes)]
    text = "\n".join(lines) or "[nothing in memory matches: try other words]"
    sources = [source for hit in found.hits for source in store.others(hit.file, hit.start, hit.end)]
    sources += ["an answer in an earlier conversation"] if any(quote.outside for quote in found.quotes) else []
    outside = ", ".join(dict.fromkeys(sources))
    return ToolOutput(f"{text}\n[{found.remark}]" if found.remark else text, outside=outside)


Watch = Callable[[Effect, str], AbstractContextManager[None]]
"""Keeps what the change that it surrounds, which may be of another file besides, can be undone with."""


def unwatched(effect: Effect, besides: str) -> AbstractContextManager[None]:
    return nullcontext()


def remember(
    store: MemoryStore,
    watch: Watch,
    by: str,
    text: str,
    replaces: str = "",
    also: str = "",
    *,
    is_fact: bool = False,
    keep_both: bool = False,
) -> Added:
    """Add a note or fact, and end the one that has the words of `replaces`; what ends a fact is one, also where it is
    in today's note. Raises WorkspaceError."""
    old = store.outdated(replaces, " ".join(text.split())) if replaces.strip() else None
    effect, besides = noted(by, store, text, is_fact=is_fact), ""
    moved = store.said_today(text) if old and old.file == "MEMORY.md" else {}
    if old and old.file == "MEMORY.md":
        is_fact, besides, effect = True, store.today() if moved else "", effect._replace(target=old.file)
    elif old and old.file != effect.target:
        besides, effect = old.file, effect._replace(text=f"{effect.text}, which ends a line of {old.file}")
    with watch(effect, besides):
        added = store.add_fact(text, old, keep_both=keep_both, also=also) if is_fact else store.add_note(text, also)
        if moved:
            store.change_lines(besides, moved)
        return added._replace(struck=store.end(old)) if old else added


def in_words(added: Added, before_remark: str = "") -> str:
    """The entry with its place, the one that it ends, and a remark."""
    remark = f"{before_remark}{added.remark}" if added.remark else ""
    where = f"{'Noted' if added.is_new else KNOWN} in {added.file}: {visible(added.line)}"
    return "\n".join(filter(None, (where, added.struck and f"Corrected: {visible(added.struck)}", remark)))


def noted(by: str, store: MemoryStore, text: str, *, is_fact: bool = False) -> Effect:
    """The line of the audit log for something noted by a tool or command."""
    line = visible(" ".join(text.split()))
    shown = line if len(line) <= 60 else line[:59] + "…"
    return Effect(by, "fact" if is_fact else "note", "MEMORY.md" if is_fact else store.today(), f"noted “{shown}”")


def listed(hit: Hit, most: int = SNIPPET_CHARACTERS) -> str:
    """An entry as a line of a list, with its place."""
    day = f" ({hit.date})" if hit.date and str(hit.date) not in hit.file + hit.text else ""
    return f"- {hit.file}:{hit.start}{day}: {one_line(visible(hit.text), most)}"


def _hit_line(hit: Hit) -> str:
    lines = f"{hit.start}" if hit.start == hit.end else f"{hit.start}-{hit.end}"
    day = f" {hit.date}" if hit.date else ""
    text = hit.text if len(hit.text) <= SNIPPET_CHARACTERS else hit.text[: SNIPPET_CHARACTERS - 1] + "…"
    return f"{hit.file}:{lines}{day} (score {hit.score:.2f}): {visible(text)}"
