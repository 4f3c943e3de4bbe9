"""The home as a whole: creation, backup, restore and status."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from nanoclaw import __version__
from nanoclaw.channels import attach
from nanoclaw.commands.arguments import Options
from nanoclaw.core.delivery import counts, failures
from nanoclaw.core.errors import NanoclawError, StoreError
from nanoclaw.core.plugin import Reply
from nanoclaw.core.store.db import PANIC, Flags
from nanoclaw.core.store.history import list_sessions
from nanoclaw.escapes import one_line
from nanoclaw.start import config as configuration
from nanoclaw.start import home
from nanoclaw.start.config import Config
from nanoclaw.start.opening import owner


def init(config: Config, options: Options) -> int:
    from nanoclaw.start.build import checked

    checked(config)
    made = home.make_home(config)
    home.check_writable(config.workspace_path)
    made += home.seed(config.workspace_path, home.shipped("workspace_template"))
    lines = list[str]()
    if options.model or options.api_base:
        from nanoclaw.commands.models import choose

        lines = [line for some in choose(config, options.model, options.api_base) for line in some]
    print(f"Home: {config.home}\nWorkspace: {config.workspace_path}")
    print(
        f"New: {', '.join(made)}"
        if made
        else f"The workspace is there; nothing {'in it ' if lines else ''}was changed."
    )
    print(*lines, sep="\n", end="\n" if lines else "")
    if not lines:
        from nanoclaw.commands.questions import ask, needed

        if sys.stdin.isatty() and sys.stdout.isatty():
            ask(config)
        else:
            print(needed(config), end="")
    return 0


def save(config: Config, options: Options) -> Reply:
    from nanoclaw.plugins.backup.backup import backup
    from nanoclaw.plugins.backup.plugin import summary

    made = backup(config.home, config.workspace_path, options.file, with_secrets=options.with_secrets)
    within, without = _keys(config, with_secrets=options.with_secrets)
    if within:
        attach.say(f"your keys are in {options.file} ({', '.join(within)}): keep it where only you can read it")
    if without:
        attach.say(f"not in {options.file} are {', '.join(without)}: set them again where it is restored")
    return Reply("\n".join(summary(made, options.file)))


def _keys(config: Config, *, with_secrets: bool) -> tuple[list[str], list[str]]:
    """The names of the keys in a backup, and of those that are in the keyring or the environment."""
    from nanoclaw.commands.keys import settings

    found = [one for one in settings(config) if one.source]
    of_files = [
        one.name for one in found if one.source == "file" and (with_secrets or one.name not in config.keys.in_file)
    ]
    signed_in = sorted(path.stem.removeprefix("oauth-") for path in config.home.glob("plugins/*/oauth-*.json"))
    elsewhere = [f"{one.name} ({one.source})" for one in found if one.source != "file"]
    return [*of_files, *(f"the sign-in of {name}" for name in signed_in)], elsewhere


def restore(config: Config, options: Options) -> Reply:
    from nanoclaw.plugins.backup.backup import restore

    def workspace_of(folder: Path) -> Path:
        restored = configuration.load({**os.environ, "NANOCLAW_HOME": str(folder)})
        return restored._replace(home=config.home).workspace_path

    done = restore(options.file, config.home, workspace_of)
    aside = f"\nWhat was there before: {', '.join(map(str, done.aside))}" if done.aside else ""
    return Reply(f"{done.files:,} files are restored.\nHome: {config.home}\nWorkspace: {done.workspace}{aside}")


def status(config: Config, options: Options) -> Reply:
    from nanoclaw.commands.keys import settings
    from nanoclaw.start.build import checked

    checked(config)
    now = config.clock()
    pid, live = running(config)
    with home.stored(config) as store:
        sessions = list_sessions(store) if store else []
        outbox = counts(store) if store else {}
        failed = failures(store) if store else []
        frozen = False
        with suppress(StoreError):  # a store of an older format has no such switch
            frozen = bool(store and Flags(store, now).get(PANIC) is not None)
    keys = {one.name: one.state for one in settings(config)}
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
        "frozen": frozen,
        "keys": keys,
    }
    shown = {
        **facts,
        "not_delivered": "\n".join([str(facts["not_delivered"]), *map(_failure, failed)]),
        "model": facts["model"] or "chosen at each start",
        "running": _running(pid, live),
        "frozen": "yes, by /panic: /resume ends that" if frozen else "no",
        "keys": f"\n{'':<15}".join(f"{name}: {state}" for name, state in keys.items()),
    }
    del shown["process"], shown["failures"]
    lines = (f"{name.capitalize().replace('_', ' '):<14} {value}" for name, value in shown.items())
    return Reply("\n".join(lines), facts)


def running(config: Config) -> tuple[int | None, dict[str, Any] | None]:
    """The process that owns the home, and what it says about itself."""
    pid = owner(config.home / "state.db")
    with suppress(NanoclawError):  # it does not answer
        return pid, attach.status(str(config.home)) if pid else None
    return pid, None


def _failure(failed: tuple[str, str, str]) -> str:
    to, text, reason = failed
    return f"  {one_line(to)}: {one_line(text, 40)!r} ({one_line(reason, 100)})"


def _running(pid: int | None, live: dict[str, Any] | None) -> str:
    if pid is None:
        return "no"
    if live is None:
        return f"process {pid}, which gives no information about itself"
    lines = [f"process {pid}, {live['role']}, for {_span(live['seconds'])}"]
    for channel in live["channels"]:
        seen = "no sign of life yet" if channel["alive"] is None else f"last sign of life {_span(channel['alive'])} ago"
        lines.append(f"  {channel['name']}: {channel['trouble'] or seen}")
    lines += [f"  {name}: {text}" for name, _, text in live["findings"]]
    return "\n".join(lines)


def _span(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"
