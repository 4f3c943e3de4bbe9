"""`nanoclaw audit`: who may talk, what tools may do, what is exposed; each finding with its risk."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nanoclaw.commands.looking import looked_at
from nanoclaw.core import secrets_file
from nanoclaw.core.config import Config
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.plugin import Finding
from nanoclaw.core.profiles import PROFILES
from nanoclaw.core.store.lock import owner
from nanoclaw.escapes import one_line

if TYPE_CHECKING:
    from nanoclaw.core.app import App

SHOWN = 5
"""Files that a line names."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def audit(config: Config, options: argparse.Namespace) -> int:
    found = asyncio.run(_findings(config))
    lines = [{"level": one.risk or "ok", "name": one.name, "text": one.text} for one in found]
    is_bad = any(one.risk == "bad" for one in found)
    if options.json:
        print(json.dumps({"is_bad": is_bad, "findings": lines}))
    else:
        for line in lines:
            print(f"{line['level']:8}{line['name']}: {line['text']}")
    return 1 if is_bad else 0


async def _findings(config: Config) -> list[Finding]:
    """All of them, over a copy of the store: a process that runs is not disturbed."""
    found = [*of_files(config), *_of_configuration(config), *_listening(config)]
    async with looked_at(config) as app:
        found += _of_tools(app)
        found += [one._replace(name=one.name or plugin) for plugin, one in await app.audit()]
    return found


# --- files -----------------------------------------------------------------------------------------------------------


def of_files(config: Config) -> Iterator[Finding]:
    """Files of the home that others of this machine can read or change."""

    async def close_home() -> str:
        config.home.chmod(config.home.stat().st_mode & ~_OTHERS)
        return f"{config.home} is closed to others"

    async def close_keys() -> str:
        closed = [path for path in (config.home / "secrets.env", config.file) if _is_open(path)]
        for path in closed:
            path.chmod(path.stat().st_mode & ~_OTHERS)
        return f"closed to others: {', '.join(map(str, closed))}"

    if keys := list(secrets_file.readable_by_others(config.home, config.keys.written)):
        yield Finding(False, " ".join(keys), "keys", close_keys, "bad")
    if not _is_open(config.home):
        yield Finding(True, f"{config.home} is closed to other users of this machine", "files")
        return
    if opened := list(_opened(config)):
        names = ", ".join(opened[:SHOWN]) + (f" and {len(opened) - SHOWN} more" if len(opened) > SHOWN else "")
        text = f"others of this machine can read {names}: run chmod go-rwx {config.home}"
        yield Finding(False, text, "files", close_home, "bad")
    else:
        text = f"others of this machine can look into {config.home}: run chmod go-rwx {config.home}"
        yield Finding(False, text, "files", close_home, "warning")


def _opened(config: Config) -> Iterator[str]:
    """Paths below the home that others can read or change; the workspace, which may be shared, is none of them."""
    for folder, folders, files in os.walk(config.home):
        here = Path(folder)
        folders[:] = [one for one in sorted(folders) if here / one != config.workspace_path and _is_open(here / one)]
        yield from (str((here / one).relative_to(config.home)) for one in sorted(files) if _is_open(here / one))


def _is_open(path: Path) -> bool:
    with suppress(OSError):  # it is gone
        mode = path.lstat().st_mode
        return not stat.S_ISLNK(mode) and bool(mode & _OTHERS)
    return False


# --- configuration ---------------------------------------------------------------------------------------------------


def _of_configuration(config: Config) -> Iterator[Finding]:
    if config.net.allow:
        text = f"[net] allow: pages of {', '.join(config.net.allow)} are read, though they are private"
        yield Finding(True, text, "net", risk="note")
    for verb, folders, risk in _REACH:
        if names := ", ".join(map(str, getattr(config.reach, folders))):
            yield Finding(True, f"tools and commands {verb} {names}, besides the workspace", "folders", risk=risk)
    if config.guests.persona:
        text = "[guests] persona: guests are answered in the character of SOUL.md and IDENTITY.md"
        yield Finding(True, text, "guests", risk="note")
    if config.plugins.enabled:
        text = f"plugins of others run with your rights: {', '.join(config.plugins.enabled)}"
        yield Finding(True, text, "plugins", risk="warning")
    if config.plugins.unpinned == "load":
        text = '[plugins] unpinned = "load": plugins of the home are loaded however they were changed'
        yield Finding(False, text, "plugins", risk="warning")
    if config.plugins.off:
        text = f"switched off, and so is what they guard: {', '.join(config.plugins.off)}"
        yield Finding(True, text, "plugins", risk="warning")


_REACH: tuple[tuple[str, str, Literal["note", "warning"]], ...] = (
    ("read", "read", "note"),
    ("change", "write", "warning"),
)


def _of_tools(app: App) -> Iterator[Finding]:
    """The tools that are open to each kind of turn."""
    for name in ("person", "guest", "job", "heartbeat", "helper"):
        tools = sorted(tool.name for tool in app.chain.tools(PROFILES[name]))
        shown = ", ".join(tools) if name == "guest" else f"{len(tools)} of {len(app.chain.tools())}"
        yield Finding(True, one_line(f"open to {name}: {shown or 'none'}", 1000), "tools", risk="note")


# --- sockets ---------------------------------------------------------------------------------------------------------


def _listening(config: Config) -> Iterator[Finding]:
    """Ports at which the process that runs can be reached (Linux)."""
    try:
        pid = owner(config.home / "state.db")
    except NanoclawError:
        return
    if pid is None:
        yield Finding(True, "nothing runs, so nothing listens", "ports")
        return
    inodes = set(_sockets(pid))
    for table in ("tcp", "tcp6"):
        with suppress(OSError):  # there is no such table
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and fields[9] in inodes:
                    yield _port(fields[1])


_LISTENS = "0A"
_LOOPBACK = ("0100007F", "00000000000000000000000001000000")


def _port(place: str) -> Finding:
    address, _, port = place.partition(":")
    if address in _LOOPBACK:
        return Finding(True, f"port {int(port, 16)} listens to programs of this machine", "ports", risk="note")
    return Finding(False, f"port {int(port, 16)} listens to other machines", "ports", risk="warning")


def _sockets(pid: int) -> Iterator[str]:
    with suppress(OSError):  # the process is another user's, or has ended
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield str(path.readlink()).removeprefix("socket:[").removesuffix("]")


COMMANDS = {"audit": audit}
