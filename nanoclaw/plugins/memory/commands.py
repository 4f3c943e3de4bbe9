"""Commands that need no model: /note, /search, /memory."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import nullcontext

from nanoclaw.core.plugin import Host, Reply, Said, Tx
from nanoclaw.escapes import visible
from nanoclaw.plugins.memory.notes import Hit, MemoryStore
from nanoclaw.plugins.memory.tools import noted

FOUND = 8
SNIPPET_CHARACTERS = 200


def note(host: Host, store: MemoryStore, said: Said, tx: Tx) -> str:
    if not said.argument:
        return "/note TEXT writes a line into today's note."
    undo = host.get("undo")
    effect = noted("/note", store, said.argument)
    with undo.of(effect, said.conversation, tx) if undo else nullcontext():
        added = store.add_note(said.argument)
    text = f"{'Noted' if added.is_new else 'Already noted'} in {added.file}: {visible(added.line)}"
    return f"{text}\n{added.remark}".strip()


async def find(store: MemoryStore, said: Said) -> Reply:
    if not said.argument:
        return Reply("/search TEXT finds notes and facts.")
    hits = await asyncio.to_thread(store.search, said.argument, FOUND)
    text = "\n".join(map(_line, hits)) or "Nothing found: try other words."
    return Reply(text, {"hits": [as_json(hit) for hit in hits]})


def memory(host: Host, store: MemoryStore, said: Said, tx: Tx) -> str:
    """Add to the notes or facts; take back, or list, changes of memory files and what was forgotten."""
    if said.argument.startswith("add "):
        return _add(host, store, said, tx)
    undo, forget = host.get("undo"), host.get("forget")
    since = forget.undoable_since if forget else None
    if said.argument == "undo" and (undo or since):
        last = undo.last(1) if undo else []
        if forget and since and not (last and last[0].at and last[0].at > since):
            return str(forget.undo(tx))
        change = undo.undo(tx)
        return f"{change.target} is as it was before {change.at:%Y-%m-%d %H:%M} ({change.tool})."
    if said.argument == "log":
        last = undo.last() if undo else []
        lines = [f"- {one.at:%Y-%m-%d %H:%M} {one.target}: {one.text} ({one.tool})" for one in last]
        if forget and since:
            until = since + forget.undo_for
            lines.insert(0, f"- {since:%Y-%m-%d %H:%M} something was forgotten (undo until {until:%H:%M})")
        return "\n".join(lines) or "No change of a memory file is kept."
    if said.argument == "allow" and undo:
        undo.allow_shrinking()
        return "The next change may take away more than half of a memory file. This holds once, for ten minutes."
    return (
        "/memory add [--fact] TEXT, /memory undo, /memory log, or /memory allow (let the next change take away more "
        "than half of a file)"
    )


_ADD = re.compile(r'add(?P<fact> --fact)?(?: --replaces (?P<replaces>"(?:[^"\\]|\\.)*"))? (?P<text>.*)', re.DOTALL)


def _add(host: Host, store: MemoryStore, said: Said, tx: Tx) -> str:
    match = _ADD.fullmatch(said.argument)
    if match is None:
        return '/memory add [--fact] [--replaces "WORDS OF THE OLD FACT"] TEXT'
    text, replaces = match["text"], str(json.loads(match["replaces"] or '""'))
    is_fact = bool(match["fact"] or replaces)
    undo, effect = host.get("undo"), noted("/memory add", store, text, is_fact=is_fact)
    with undo.of(effect, said.conversation, tx) if undo else nullcontext():
        added = store.add_fact(text, replaces) if is_fact else store.add_note(text)
    where = f"{'Added to' if added.is_new else 'Already in'} {added.file}: {visible(added.line)}"
    return "\n".join(filter(None, (where, added.struck and f"Corrected: {visible(added.struck)}", added.remark)))


def as_json(hit: Hit) -> dict[str, object]:
    return {
        "file": hit.file,
        "start": hit.start,
        "end": hit.end,
        "date": hit.date.isoformat() if hit.date else None,
        "score": round(hit.score, 3),
        "text": hit.text,
    }


def _line(hit: Hit) -> str:
    day = f" ({hit.date})" if hit.date and str(hit.date) not in hit.file + hit.text else ""
    line = visible(" ".join(hit.text.split()))
    text = line if len(line) <= SNIPPET_CHARACTERS else line[: SNIPPET_CHARACTERS - 1] + "…"
    return f"- {hit.file}:{hit.start}{day}: {text}"
