"""The tools that note things down and find them again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from nanoclaw.core.messages import Effect, ToolExample
from nanoclaw.core.plugin import Host, NamedTuple, Tool, ToolOutput
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import one_line, visible
from nanoclaw.plugins.memory.notes import Added, Hit, MemoryStore

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.talk import Quote

SNIPPET_CHARACTERS = 700
KNOWN = "Already noted"  # begins the result for words that were there, whose origin stays
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
Near = Callable[[str, ToolContext], Awaitable[list[Hit]]]
"""Finds the few entries that a new one may make untrue."""


def memory_tools(store: MemoryStore, host: Host, find: Find, near: Near) -> list[Tool]:

    async def memory_search(query: str, limit: int = 5) -> ToolOutput:
        """Search notes, facts and earlier conversations."""
        found = await find(query, min(max(1, limit), MOST_HITS))
        lines = [*map(_hit_line, found.hits), *(visible(str(quote)) for quote in found.quotes)]
        text = "\n".join(lines) or "[nothing in memory matches: try other words]"
        sources = [source for hit in found.hits for source in store.others(hit.file, hit.start, hit.end)]
        sources += ["an answer in an earlier conversation"] if any(quote.outside for quote in found.quotes) else []
        outside = ", ".join(dict.fromkeys(sources))
        return ToolOutput(f"{text}\n[{found.remark}]" if found.remark else text, outside=outside)

    async def memory_add(
        context: ToolContext,
        text: str,
        also: Annotated[str, "2-6 other words to find it by"] = "",
        kind: Literal["note", "fact"] = "note",
        replaces: Annotated[str, "words of the fact or note that this ends"] = "",
        keep_both: bool = False,
    ) -> str:
        """Remember what the person says of their life: a note for today, or a fact that stays true."""
        undo, is_fact = host.get("undo"), kind == "fact"
        older = [] if replaces.strip() else await near(text, context)
        watch: Watch = partial(undo.watch, report=context.report) if undo else unwatched
        added = remember(store, watch, "memory_add", text, replaces, also, is_fact=is_fact, keep_both=keep_both)
        asked = [UNTRUE, *map(listed, older)] if older and added.is_new else []
        return "\n".join([in_words(added, "Tell the person: "), *asked])

    def planned(arguments: dict[str, Any]) -> Effect:
        return noted("memory_add", store, str(arguments["text"]), is_fact=arguments.get("kind") == "fact")

    add = tool(memory_add, reach="workspace", examples=_ADD, open_to=("person", "job", "heartbeat"))
    return [tool(memory_search, reach="none", examples=_SEARCH), add._replace(audit=planned)]


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


_SEARCH = (
    ToolExample("What do you know about my friend Bob?", {"query": "friend Bob"}),
    ToolExample("When did I last see the dentist?", {"query": "dentist"}),
)
_ADD = (
    ToolExample("We have a new cat, she is called Mia", {"text": "Has a cat called Mia", "kind": "fact"}),
    ToolExample("Note that the plumber came today", {"text": "The plumber came", "also": "sink tap leak repair"}),
    ToolExample(
        "No, Anna's birthday is 5 May",
        {"text": "Anna's birthday: 5 May", "kind": "fact", "replaces": "birthday: 4 May"},
    ),
)


def listed(hit: Hit, most: int = SNIPPET_CHARACTERS) -> str:
    """An entry as a line of a list, with its place."""
    day = f" ({hit.date})" if hit.date and str(hit.date) not in hit.file + hit.text else ""
    return f"- {hit.file}:{hit.start}{day}: {one_line(visible(hit.text), most)}"


def _hit_line(hit: Hit) -> str:
    lines = f"{hit.start}" if hit.start == hit.end else f"{hit.start}-{hit.end}"
    day = f" {hit.date}" if hit.date else ""
    text = hit.text if len(hit.text) <= SNIPPET_CHARACTERS else hit.text[: SNIPPET_CHARACTERS - 1] + "…"
    return f"{hit.file}:{lines}{day} (score {hit.score:.2f}): {visible(text)}"
