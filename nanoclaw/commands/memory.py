"""Notes and facts from the command line: searched, added, forgotten, taken back."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from nanoclaw import attach
from nanoclaw.core import parts
from nanoclaw.core.config import Config
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Effect
from nanoclaw.core.store.db import Store
from nanoclaw.core.workspace import Workspace
from nanoclaw.escapes import printable
from nanoclaw.plugins.forget.forgetting import memory_command, shown, told
from nanoclaw.plugins.memory.notes import MemoryStore
from nanoclaw.plugins.memory.recall import Hit


def without_action(config: Config, options: argparse.Namespace) -> int:
    raise ConfigError(f"say what to do, one of {options.actions}: nanoclaw memory --help")


def search(config: Config, options: argparse.Namespace) -> int:
    parts.start_logging(config)
    notes = parts.note_search(config, parts.person_clock(config))
    hits = notes.search(" ".join(options.query), options.limit)
    notes.close()
    if options.json:
        print(json.dumps({"hits": [_hit(hit) for hit in hits]}, ensure_ascii=False))
    else:
        print("\n".join(f"{hit.file}:{hit.start}  {hit.text}" for hit in hits) or "Nothing found.")
    return 0


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "file": hit.file,
        "start": hit.start,
        "end": hit.end,
        "date": hit.date.isoformat() if hit.date else None,
        "score": round(hit.score, 3),
        "text": hit.text,
    }


def add(config: Config, options: argparse.Namespace) -> int:
    parts.start_logging(config)
    parts.make_home(config)
    now = parts.person_clock(config)
    notes = MemoryStore(Workspace(config.workspace_path), now)
    text = " ".join(options.text)
    is_fact = options.fact or options.replaces
    store = Store(config.home / "state.db", beside=True)
    try:
        changes = parts.file_changes(config, now, store)
        kind, file = ("fact", "MEMORY.md") if is_fact else ("note", changes.today())
        with changes.of(Effect("nanoclaw memory add", kind, file, f"noted “{text[:60]}”")):
            added = notes.add_fact(text, options.replaces) if is_fact else notes.add_note(text)
    finally:
        store.close()
    print(f"{'Added to' if added.is_new else 'Already in'} {added.file}: {added.line}")
    if added.struck:
        print(f"Corrected: {added.struck}")
    if added.remark:
        attach.say(added.remark)
    return 0


def forget(config: Config, options: argparse.Namespace) -> int:
    if not config.workspace_path.exists():
        print("Nothing found.")
        return 0
    parts.start_logging(config)
    query = " ".join(options.query)
    with parts.stored(config, "own") as store:
        forgetter = parts.make_forgetter(config, parts.person_clock(config), store)
        listing = forgetter.find(query)
        if not listing.count:
            print("Nothing found.")
            return 0
        print(printable(shown(listing)), flush=True)
        numbers = _numbers(options, listing.exact)
        if not numbers:
            print("Nothing was forgotten.")
            return 0 if sys.stdin is not None and sys.stdin.isatty() else 1
        forgotten = forgetter.forget(query, numbers)
        print(printable(told(forgotten)))
        print(printable(forgotten.way_back("nanoclaw memory undo")))
        return 0


def _numbers(options: argparse.Namespace, exact: Sequence[int]) -> list[int]:
    """Which of the list are to be forgotten: as given, or as the person answers now."""
    answer = options.number
    if options.yes and not answer:
        return list(exact)
    if not answer:
        what = f"{len(exact)} with the very words" if exact else "none, only numbers"
        attach.say(f"forget them? After ten minutes it is for good. y ({what}), numbers such as 1,3, or N:")
        answer = sys.stdin.readline().strip() if sys.stdin is not None else ""
        if answer.lower() in ("y", "yes"):
            return list(exact)
    numbers = [part for part in answer.replace(",", " ").split() if part.isdigit()]
    if options.number and not numbers:
        raise ConfigError(f"--number {options.number!r}: give numbers of the list, such as 1,3")
    return [int(number) for number in numbers]


def command(config: Config, options: argparse.Namespace) -> int:
    now = parts.person_clock(config)
    comes_back = options.action == "undo" and parts.make_forgetter(config, now, None).undoable_since
    with parts.stored(config, "own" if comes_back else "beside") as store:  # words of conversations come back, too
        forgetter = parts.make_forgetter(config, now, store)
        print(memory_command(parts.file_changes(config, now, store), forgetter, options.action))
    return 0


COMMANDS = {
    "memory": without_action,
    "memory search": search,
    "memory add": add,
    "memory forget": forget,
    "memory undo": command,
    "memory log": command,
}
