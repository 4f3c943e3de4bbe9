"""Findings about what is open: by settings and tools, and at which sockets the process that runs is reached (Linux)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nanoclaw.core.plugin import Finding
from nanoclaw.core.profiles import PROFILES
from nanoclaw.escapes import one_line
from nanoclaw.start.config import Config

if TYPE_CHECKING:
    from nanoclaw.core.app import App
from nanoclaw.start.store_lock import owner

_PROTOCOLS = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
"""By kernel table, the state of a socket that accepts connections."""
_LOOPBACK = ("0100007F", "00000000000000000000000001000000")
_ACCEPTS = 0x10000
_SEARCHED = 5_000
"""Most files of an opened folder that are checked."""


def opened(config: Config) -> Iterator[Finding]:
    """A line for each thing that the settings open, each port and each socket."""
    yield from _of_configuration(config)
    yield from listening(config)
    for folder in (*config.reach.read, *config.reach.write):
        yield from _in_folder(folder)


async def opened_by(app: App) -> list[Finding]:
    """Findings about what plugins and tools open."""
    told = [one._replace(name=one.name or plugin) for plugin, one in await app.audit()]
    return [*_of_others(app), *_of_tools(app), *told]


def listening(config: Config) -> Iterator[Finding]:
    """A line for each port and each Unix socket."""
    pid = owner(config.home / "state.db")
    if pid is None:
        yield Finding(True, "nothing runs, so nothing listens", "ports")
        return
    if not list(_rows(pid, "unix")):
        text = f"process {pid} runs; its ports can be listed only on Linux, and by its own user or root"
        yield Finding(True, text, "ports", risk="note")
        return
    inodes = set(_sockets(pid))
    for table, state in _PROTOCOLS.items():
        for fields in _rows(pid, table):
            if fields[3] == state and fields[9] in inodes and fields[2].endswith(":0000"):
                yield _port(table, fields[1])
    for fields in _rows(pid, "unix"):
        if len(fields) > 7 and int(fields[3], 16) & _ACCEPTS and fields[6] in inodes:
            yield _unix(config.home / fields[7], fields[7])


def _in_folder(folder: Path) -> Iterator[Finding]:
    """A line for a folder that tools may open and that contains sockets of other programs."""
    found, looked_at = list[str](), 0
    for here, _, names in os.walk(folder):
        looked_at += len(names)
        found += [str(path) for path in map(Path(here).joinpath, names) if path.is_socket()]
        if looked_at > _SEARCHED:
            break
    if found:
        some = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
        text = f"commands may reach the program that listens at {some}, as {folder} is open to them"
        yield Finding(False, one_line(text, 1000), "folders", risk="warning")


def _port(table: str, place: str) -> Finding:
    address, _, port = place.partition(":")
    kind = "UDP port" if table.startswith("udp") else "port"
    if address in _LOOPBACK:
        return Finding(True, f"{kind} {int(port, 16)} listens to programs of this machine", "ports", risk="note")
    return Finding(False, f"{kind} {int(port, 16)} listens to other machines", "ports", risk="warning")


def _unix(path: Path, name: str) -> Finding:
    if name.startswith("@"):
        text = f"the socket {name} listens to all programs of this machine"
        return Finding(True, one_line(text, 1000), "sockets", risk="warning")
    try:
        mode = path.stat().st_mode
        is_open = mode & stat.S_IWOTH and all(one.stat().st_mode & stat.S_IXOTH for one in path.parents)
    except OSError:
        return Finding(True, one_line(f"the socket {path} listens, and has no file any more", 1000), "sockets")
    if is_open:
        text = f"{path} ({stat.S_IMODE(mode):o}) lets other users of this machine in: run chmod 600 {path}"
        return Finding(False, one_line(text, 1000), "sockets", risk="bad")
    text = f"{path} ({stat.S_IMODE(mode):o}) listens to your own programs"
    return Finding(True, one_line(text, 1000), "sockets", risk="note")


def _rows(pid: int, table: str) -> Iterator[list[str]]:
    with suppress(OSError):  # there is no such table, or the process has ended
        for line in Path(f"/proc/{pid}/net/{table}").read_text("utf-8", "replace").splitlines()[1:]:
            yield line.split(maxsplit=7 if table == "unix" else -1)


def _sockets(pid: int) -> Iterator[str]:
    with suppress(OSError):  # the process is another user's, or has ended
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield str(path.readlink()).removeprefix("socket:[").removesuffix("]")


# --- settings and tools -----------------------------------------------------------------------------------------------


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
    if config.plugins.unpinned == "load":
        text = '[plugins] unpinned = "load": plugins of the home are loaded even if they were changed'
        yield Finding(False, text, "plugins", risk="warning")
    if config.plugins.off:
        text = f"switched off, and with them what they protect: {', '.join(config.plugins.off)}"
        yield Finding(True, text, "plugins", risk="warning")


_REACH: tuple[tuple[str, str, Literal["note", "warning"]], ...] = (
    ("read", "read", "note"),
    ("change", "write", "warning"),
)


def _of_others(app: App) -> Iterator[Finding]:
    """Plugins that somebody else wrote, except those that are left out."""
    from nanoclaw.start.build import BUILT_IN

    if names := ", ".join(one.name for one in app.plugins if one.name not in BUILT_IN):
        yield Finding(True, f"third-party plugins run with your rights: {names}", "plugins", risk="warning")


def _of_tools(app: App) -> Iterator[Finding]:
    """The tools that are open to each kind of turn."""
    for name in ("person", "guest", "job", "heartbeat", "helper"):
        tools = sorted(tool.name for tool in app.chain.tools(PROFILES[name]))
        shown = ", ".join(tools) if name == "guest" else f"{len(tools)} of {len(app.chain.tools())}"
        yield Finding(True, one_line(f"open to {name}: {shown or 'none'}", 1000), "tools", risk="note")
