"""Findings about what is open: by settings, folders and tools."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nanoclaw.core.plugin import Finding
from nanoclaw.escapes import one_line
from nanoclaw.start.config import Config

if TYPE_CHECKING:
    from nanoclaw.core.app import App

_SEARCHED = 5_000
"""Most files of an opened folder that are checked."""


def opened(config: Config) -> Iterator[Finding]:
    """A line for each thing that the settings open, and each folder with sockets of other programs."""
    yield from _of_configuration(config)
    for folder in (*config.reach.read, *config.reach.write):
        yield from _in_folder(folder)


async def opened_by(app: App) -> list[Finding]:
    """Findings about what plugins and tools open."""
    told = [one._replace(name=one.name or plugin) for plugin, one in await app.audit()]
    return [*_of_others(app), *_of_tools(app), *told]


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


def _of_configuration(config: Config) -> Iterator[Finding]:
    if config.net.allow:
        text = f"[net] allow: pages of {', '.join(config.net.allow)} are read, though they are private"
        yield Finding(True, text, "net", risk="note")
    for verb, folders, risk in _REACH:
        if names := ", ".join(map(str, getattr(config.reach, folders))):
            yield Finding(True, f"tools and commands {verb} {names}, besides the workspace", "folders", risk=risk)
    if (page := config.get("page", {})) and (address := str(page.get("address", "127.0.0.1"))) != "127.0.0.1":
        text = f"[page] address: the page listens at {address}, to other machines if that is not this one's own"
        yield Finding(True, text, "page", risk="warning")
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
    for name, profile in app.chain.profiles.items():
        tools = sorted(tool.name for tool in app.chain.tools(profile))
        shown = ", ".join(tools) if name == "guest" else f"{len(tools)} of {len(app.chain.tools())}"
        yield Finding(True, one_line(f"open to {name}: {shown or 'none'}", 1000), "tools", risk="note")
