"""Notes and facts from the command line: searched, added, forgotten, taken back."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from nanoclaw.channels import attach
from nanoclaw.commands.plugins import carry_out
from nanoclaw.core.config import Config
from nanoclaw.core.errors import ConfigError
from nanoclaw.escapes import json_line
from nanoclaw.installation import start_command


def without_action(config: Config, options: argparse.Namespace) -> int:
    raise ConfigError(f"say what to do, one of {options.actions}: {start_command()} memory --help")


def search(config: Config, options: argparse.Namespace) -> int:
    """Beside any process that runs: nothing is written but the index. With a model for embeddings the program itself
    looks, which accounts for what the question costs."""
    query = " ".join(options.query)
    if config.get("memory.embeddings", ""):
        return carry_out(config, "search", f"--limit {options.limit} {query}", as_json=options.json)
    from nanoclaw.core.clock import clock
    from nanoclaw.core.workspace import Workspace
    from nanoclaw.plugins.memory.commands import as_json, quote_as_json
    from nanoclaw.plugins.memory.search import NoteSearch
    from nanoclaw.plugins.memory.talk import TalkSearch

    now = clock(config.person.timezone, config.environment)
    notes = NoteSearch(Workspace(config.workspace_path), config.home / "index.db", now)
    talk = TalkSearch(Workspace(config.workspace_path), config.home, now)
    hits, quotes = notes.search(query, options.limit), talk.quotes(query, options.limit)
    for remark in filter(None, (notes.remark, talk.remark)):
        attach.say(remark)
    if options.json:
        said = {"hits": list(map(as_json, hits)), "said": list(map(quote_as_json, quotes))}
        print(json_line(json.dumps(said, ensure_ascii=False)))
    else:
        lines = [*(f"{hit.file}:{hit.start}  {hit.text}" for hit in hits), *(str(one) for one in quotes)]
        print("\n".join(lines) or "Nothing found.", flush=True)
    for search in (notes, talk):
        search.finish()
        search.close()
    return 0


def add(config: Config, options: argparse.Namespace) -> int:
    fact = (" --fact" if options.fact else "") + (" --keep-both" if options.keep_both else "")
    replaces = f" --replaces {json.dumps(options.replaces)}" if options.replaces else ""
    return carry_out(config, "memory", f"add{fact}{replaces} {' '.join(options.text)}", as_json=False)


def change(config: Config, options: argparse.Namespace) -> int:
    return carry_out(config, "memory", options.action, as_json=False)


def restore(config: Config, options: argparse.Namespace) -> int:
    return carry_out(config, "memory", f"restore {options.version}", as_json=False)


def clean(config: Config, options: argparse.Namespace) -> int:
    return carry_out(config, "memory", f"clean {options.number}", as_json=False)


def forget(config: Config, options: argparse.Namespace) -> int:
    if not config.workspace_path.exists():
        print("Nothing found.")
        return 0
    from nanoclaw.commands.talking import run

    return run(_forget(config, options))


async def _forget(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw.commands.talking import program

    query = " ".join(options.query)
    async with program(config) as app:
        if (forgetter := app.public("forget")) is None:
            raise ConfigError("the plugin forget is off: take it out of [plugins] off in config.toml")
        listing = forgetter.find(query)
        if not listing.count:
            print("Nothing found.")
            return 0
        print(listing.shown(), flush=True)
        numbers = _numbers(options, listing.exact)
        if not numbers:
            print("Nothing was forgotten.")
            return 0 if sys.stdin is not None and sys.stdin.isatty() else 1
        forgotten = forgetter.forget(query, numbers)
        print(forgotten.told())
        print(forgotten.way_back(f"{start_command()} memory undo"))
        return 0


def _numbers(options: argparse.Namespace, exact: Sequence[int]) -> list[int]:
    """The numbers of the list to be forgotten: as given, or as the person answers."""
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


COMMANDS = {
    "memory": without_action,
    "memory search": search,
    "memory add": add,
    "memory forget": forget,
    "memory undo": change,
    "memory log": change,
    "memory restore": restore,
    "memory others": change,
    "memory clean": clean,
}
