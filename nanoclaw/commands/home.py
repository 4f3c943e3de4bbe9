"""The home as a whole: made, checked, saved and restored, and how it stands."""

from __future__ import annotations

import argparse
import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nanoclaw import __version__, attach
from nanoclaw.atomic_write import NotSaved, write_atomically
from nanoclaw.commands import looking
from nanoclaw.core import bootstrap, parts
from nanoclaw.core import config as configuration
from nanoclaw.core.clock import clock
from nanoclaw.core.config import Config
from nanoclaw.core.errors import ConfigError, NanoclawError, StoreError
from nanoclaw.core.store.db import owner
from nanoclaw.core.store.flags import PANIC, Flags
from nanoclaw.core.store.outbox import counts, failures
from nanoclaw.core.store.sessions import list_sessions
from nanoclaw.core.workspace import Workspace
from nanoclaw.escapes import one_line, printable
from nanoclaw.plugins.media.media import Media


def init(config: Config, options: argparse.Namespace) -> int:
    made = parts.make_home(config)
    Workspace(config.workspace_path).check_writable()
    made += bootstrap.seed(config.workspace_path, parts.shipped("workspace_template"))
    if options.model or options.api_base:
        if config.file.exists():
            raise ConfigError(f"{config.file} exists and is left as it is: change [model] there")
        try:
            write_atomically(config.file, configuration.example(options.model, options.api_base), mode=0o600)
        except NotSaved as error:
            raise ConfigError(str(error)) from None
        made.append(str(config.file))
    print(f"Home: {config.home}\nWorkspace: {config.workspace_path}")
    print(f"New: {', '.join(made)}" if made else "The workspace is there; nothing was changed.")
    return 0


def save(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw.plugins.backup.backup import backup

    made = backup(config.home, config.workspace_path, options.file, with_secrets=options.with_secrets)
    print(f"{made.files:,} files ({made.size / 1e6:,.1f} MB) are in {options.file}, checked by restoring it.")
    for name in made.left_out:
        print(printable(f"Left out: {name}").encode("utf-8", "replace").decode())
    kept = [config.model.api_key, *(one for table in config.channels.values() for one in table.secrets)]
    if options.with_secrets or any(kept):
        attach.say("your keys are in it: keep it where only you can read it")
    return 0


def restore(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw.plugins.backup.backup import restore

    def workspace_of(folder: Path) -> Path:
        restored = configuration.load({**os.environ, "NANOCLAW_HOME": str(folder)})
        return replace(restored, home=config.home).workspace_path

    done = restore(options.file, config.home, workspace_of)
    print(f"{done.files:,} files are restored.\nHome: {config.home}\nWorkspace: {done.workspace}")
    if done.aside:
        print(f"What was there before: {', '.join(map(str, done.aside))}")
    return 0


def status(config: Config, options: argparse.Namespace) -> int:
    now = clock(config.person.timezone, config.environment)
    files, size = Media(Workspace(config.workspace_path)).taken()
    pid = owner(config.home / "state.db")
    live = None
    with suppress(NanoclawError):  # it does not answer
        live = attach.status(str(config.home))
    with parts.stored(config) as store:
        sessions = list_sessions(store) if store else []
        outbox = counts(store) if store else {}
        failed = failures(store) if store else []
        frozen = False
        with suppress(StoreError):  # a store of an older format has no such switch
            frozen = bool(store and Flags(store, now).get(PANIC) is not None)
    facts = {
        "version": __version__,
        "home": str(config.home),
        "workspace": str(config.workspace_path),
        "model": config.model.name,
        "running": pid,
        "process": live,
        "sessions": len(sessions),
        "messages": sum(session.messages for session in sessions),
        "to_deliver": outbox.get("pending", 0),
        "not_delivered": outbox.get("failed", 0),
        "failures": [{"to": to, "text": text, "reason": reason} for to, text, reason in failed],
        "media": {"files": files, "bytes": size},
        "frozen": frozen,
    }
    if options.json:
        print(json.dumps(facts))
        return 0
    shown = {
        **facts,
        "not_delivered": "\n".join([str(facts["not_delivered"]), *map(_failure, failed)]),
        "model": facts["model"] or "chosen at each start",
        "running": _running(pid, live),
        "media": f"{files} files that came with messages, {size / 1e6:,.1f} MB (media/ in the workspace)",
        "frozen": "yes, by /panic: /resume goes on" if frozen else "no",
    }
    del shown["process"], shown["failures"]
    print("\n".join(f"{name.capitalize().replace('_', ' '):<14} {value}" for name, value in shown.items()))
    return 0


def _failure(failed: tuple[str, str, str]) -> str:
    to, text, reason = failed
    return f"  {one_line(to)}: {one_line(text, 40)!r} ({one_line(reason, 100)})"


def _running(pid: int | None, live: dict[str, Any] | None) -> str:
    if pid is None:
        return "no"
    if live is None:
        return f"process {pid}, which tells nothing of itself"
    lines = [f"process {pid}, {live['role']}, for {_span(live['seconds'])}"]
    for channel in live["channels"]:
        seen = "no sign of life yet" if channel["alive"] is None else f"last sign of life {_span(channel['alive'])} ago"
        lines.append(f"  {channel['name']}: {channel['trouble'] or seen}")
    if live["tick"] is not None:
        lines.append(f"  schedule: last tick {_span(live['tick'])} ago")
    return "\n".join(lines)


def _span(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def doctor(config: Config, options: argparse.Namespace) -> int:
    parts.start_logging(config)
    problems: dict[str, str] = {}
    for what, check in looking.checks(config):
        try:
            print(f"ok    {what}: {check()}")
        except NanoclawError as error:
            first = problems.setdefault(str(error), what)
            print(f"wrong {what}: {error}" if first == what else f"?     {what}: not checked, as the {first} is wrong")
    return 1 if problems else 0


COMMANDS = {"init": init, "status": status, "doctor": doctor, "backup": save, "restore": restore}
