"""Commands that need no model: /note, /search, /memory."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Host, Reply, Said, Tx
from nanoclaw.escapes import one_line, visible
from nanoclaw.plugins.memory.contradictions import Contradiction
from nanoclaw.plugins.memory.notes import Added, Hit, MemoryStore, plain_entry
from nanoclaw.plugins.memory.origins import Origins
from nanoclaw.plugins.memory.tools import MOST_HITS, Find, Found, Watch, in_words, listed, remember, unwatched

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.talk import Quote

FOUND = 8
SNIPPET_CHARACTERS = 200
_MORE = "More: `/search TEXT`, `/note TEXT`, `/memory add --fact TEXT`, `/memory log`, `/help memory`."
LOGGED, DIFF_LINES = 20, 8  # changes that are listed, and lines of one that are shown


def note(host: Host, store: MemoryStore, origins: Origins, said: Said, tx: Tx) -> str:
    if not said.argument:
        return "/note TEXT writes a line into today's note."
    added = remember(store, watch(host, said.conversation, tx), "/note", said.argument)
    return _written(origins, said, tx, said.argument, added)


def _written(origins: Origins, said: Said, tx: Tx, text: str, added: Added) -> str:
    if added.is_new:
        origins.add(tx, text, ("person", said.conversation, None))
    return in_words(added)


def watch(host: Host, conversation: Address, tx: Tx) -> Watch:
    """Keep what a change that no turn makes can be undone with."""
    undo = host.get("undo")
    return partial(undo.of, conversation=conversation, tx=tx) if undo else unwatched


async def find(search: Find, said: Said) -> Reply:
    if not said.argument:
        return Reply("/search TEXT finds notes, facts and what was said in earlier conversations.")
    limit, query = FOUND, said.argument
    if match := re.match(r"--limit (\d{1,3}) ", query):
        limit, query = min(int(match[1]), MOST_HITS), query[match.end() :]
    return told(await search(query, limit))


def told(found: Found) -> Reply:
    lines = [listed(hit, SNIPPET_CHARACTERS) for hit in found.hits]
    lines += [f"- {visible(str(quote))}" for quote in found.quotes]
    lines = [*(lines or ["Nothing found: try other words."]), *([f"({found.remark})"] if found.remark else [])]
    data = {"hits": [*map(as_json, found.hits)], "said": [*map(quote_as_json, found.quotes)]}
    return Reply("\n".join(lines), data)


def memory(host: Host, store: MemoryStore, origins: Origins, said: Said, tx: Tx) -> str:
    """Show what is remembered, add to it, take back, or list, changes of memory files; '' for words to search for."""
    if not said.argument:
        return _remembered(store)
    if said.argument.split()[:1] == ["add"]:
        return _add(host, store, origins, said, tx)
    undo = host.get("undo")
    action, _, rest = said.argument.partition(" ")
    if said.argument == "undo" and undo:
        change = undo.undo(tx)
        before = f"{change.at:%Y-%m-%d %H:%M}" if change.at else "that change"
        return f"{change.target} is as it was before {before} ({change.tool})."
    if action == "log" and rest in ("", "--diff"):
        lines = _log(undo, origins, with_diff=rest == "--diff") if undo else []
        return "\n".join(lines) or "No change of a memory file is kept."
    if action in ("others", "clean"):
        return _others(origins, action, rest.strip(), tx)
    if action == "restore" and undo and rest:
        return _restore(undo, rest.strip(), tx)
    return ""


def _remembered(store: MemoryStore) -> str:
    """The newest facts, each on one line, and how many daily notes there are."""
    facts = [one_line(plain_entry(line), SNIPPET_CHARACTERS) for _, line in store.facts()]
    lines = [f"({len(facts) - LOGGED} older ones are in MEMORY.md)"] if len(facts) > LOGGED else []
    lines += [f"- {fact}" for fact in facts[-LOGGED:]] or ["MEMORY.md has no facts."]
    count = len(set(store.files()) - {"MEMORY.md"})
    return "\n".join([*lines, "", f"There {'is 1 daily note' if count == 1 else f'are {count} daily notes'}. {_MORE}"])


def _log(undo: Any, origins: Origins, *, with_diff: bool) -> list[str]:
    """Changes of memory files, numbered for /memory restore, the newest first."""
    lines = list[str]()
    for number, change in enumerate(undo.memory.all(LOGGED), 1):
        origin = origins.of_turn(change.turn) if change.turn and change.kind in ("note", "fact") else None
        state = ", undone" if change.state == "undone" else ""
        whose = f", {origin}" if origin else ""
        what = change.text if change.text.startswith(change.target) else f"{change.target}: {change.text}"
        lines.append(f"{number}. {change.at:%Y-%m-%d %H:%M} {what} ({change.tool}{whose}{state})")
        if with_diff:
            changed = [visible(line) for line in undo.memory.diff(change)]
            more = [f"({len(changed) - DIFF_LINES} more lines)"] if len(changed) > DIFF_LINES else []
            within = " " * len(f"{number}. ")  # and as code, or its signs would be those of lists
            lines += [f"{within}{line}" for line in ("```diff", *changed[:DIFF_LINES], *more, "```")]
    return lines


def _others(origins: Origins, action: str, rest: str, tx: Tx) -> str:
    """List the entries that come from others' text, or take one of them for the owner's own."""
    if action == "clean" and rest.isascii() and rest.isdigit() and len(rest) < 10:
        is_known = origins.clean(tx, int(rest))
        return f"Entry {rest} counts as yours." if is_known else f"There is no entry {rest}: /memory others lists them."
    lines = [f"- {e.id}: {e.file}:{e.number}: {visible(e.line)} (from {e.sources[:200]})" for e in origins.entries()]
    return "\n".join([*lines, _RECALLED]) if lines else "Nothing in the memory comes from others' text."


_RECALLED = "These are recalled as others' text, and are not in the prompt. /memory clean 7 says that entry 7 is yours."


def _restore(undo: Any, which: str, tx: Tx) -> str:
    """Put a memory file back as a change left it."""
    if not (which.isascii() and which.isdigit() and len(which) < 5):
        return f"/memory restore takes a number of /memory log, not {which!r}."
    history = undo.memory.all(1_000)
    if not 1 <= int(which) <= len(history):
        return f"/memory log has {len(history)} changes, and no {which}."
    change = history[int(which) - 1]
    undo.restore(change, tx=tx)
    return f"{change.target} is again as it was at {change.at:%Y-%m-%d %H:%M}. /memory undo takes that back."


_FLAG = re.compile(r'(?:(?<=\s)|^)--(?:(fact|keep-both)|(replaces|also) ("(?:[^"\\]|\\.)*"|[^"\s]\S*))(?:\s+|$)')
_ADD = '/memory add [--fact] [--keep-both] [--replaces "WORDS OF THE OLD LINE"] [--also "OTHER WORDS"] TEXT'


def _add(host: Host, store: MemoryStore, origins: Origins, said: Said, tx: Tx) -> str:
    flags = dict[str, str]()
    for flag, name, value in _FLAG.findall(said.argument):
        flags[flag or name] = str(json.loads(value)) if value.startswith('"') else value
    text = _FLAG.sub("", said.argument.removeprefix("add")).strip()
    if not text:
        raise ConfigError(_ADD)
    also, replaces = flags.get("also", ""), flags.get("replaces", "")
    is_fact, keep_both = "fact" in flags or "keep-both" in flags, "keep-both" in flags
    kept = watch(host, said.conversation, tx)
    try:
        added = remember(store, kept, "/memory add", text, replaces, also, is_fact=is_fact, keep_both=keep_both)
    except Contradiction as found:
        return (
            f"Not added yet, it contradicts what is there.\n{visible(found.listed)}\n"
            'Say which holds: --replaces "WORDS OF THE OLD FACT" or --keep-both.'
        )
    return _written(origins, said, tx, text, added)


def as_json(hit: Hit) -> dict[str, object]:
    return {**hit._asdict(), "date": hit.date and hit.date.isoformat(), "score": round(hit.score, 3)}


def quote_as_json(quote: Quote) -> dict[str, object]:
    by, said = "person" if quote.is_persons else "assistant", quote.date and quote.date.isoformat()
    score = round(quote.score, 3)
    return {"conversation": quote.conversation, "date": said, "by": by, "score": score, "text": quote.text}
