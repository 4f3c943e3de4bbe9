"""`nanoclaw audit`: who may talk, what tools may do, what is exposed; each finding with its risk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from nanoclaw.commands.arguments import Options
from nanoclaw.commands.health import files, listening
from nanoclaw.commands.inspecting import app_over_copy
from nanoclaw.core.plugin import Finding
from nanoclaw.core.profiles import PROFILES
from nanoclaw.escapes import one_line
from nanoclaw.start.config import Config

if TYPE_CHECKING:
    from nanoclaw.core.app import App


def audit(config: Config, options: Options) -> int:
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
    """All findings, from a copy of the store: a running process is not disturbed."""
    found = [*files.exposed(config), *files.exposed_workspace(config), *_of_configuration(config)]
    found += [*listening.listening(config), *listening.in_folders((*config.reach.read, *config.reach.write))]
    async with app_over_copy(config) as app:
        found += [*_of_others(app), *_of_tools(app)]
        found += [one._replace(name=one.name or plugin) for plugin, one in await app.audit()]
    return found


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
