"""Plugins on the command line: the list of them, and the commands that they bring."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from nanoclaw import attach
from nanoclaw.core.config import Config
from nanoclaw.core.errors import ConfigError

USAGE = 2


def show(config: Config, options: argparse.Namespace) -> int:
    """Print what is on, from where, with which hooks; then what could be enabled."""
    from nanoclaw.core import build
    from nanoclaw.core.strangers import available

    running = [_described(config, one) for one in build.classes(config)]
    there = {one["name"] for one in running}
    off = [{"name": name, "from": "built in", "on": False, "hooks": []} for name in build.BUILT_IN if name not in there]
    off += [{"name": n, "from": where, "on": False, "hooks": []} for n, where in available(config) if n not in there]
    if options.json:
        print(json.dumps({"plugins": [*running, *off]}))
        return 0
    width = max((len(one["name"]) for one in (*running, *off)), default=0)
    for one in running:
        print(f"{one['name']:{width}}  on   {one['from']}: {', '.join(one['hooks']) or 'no hooks'}")
    for one in off:
        print(f"{one['name']:{width}}  off  {one['from']}")
    return 0


def _described(config: Config, one: Any) -> dict[str, Any]:
    from nanoclaw.core import build
    from nanoclaw.core.chain import HOOKS
    from nanoclaw.core.plugin import Plugin
    from nanoclaw.core.strangers import available

    named = (*HOOKS, "tools", "commands", "sections", "channels", "providers", "check", "run")
    hooks = [hook for hook in named if getattr(one, hook) is not getattr(Plugin, hook)]
    where = "built in" if one.name in build.BUILT_IN else dict(available(config)).get(one.name, "?")
    return {"name": one.name, "from": where, "on": True, "hooks": hooks}


def carry_out(config: Config, name: str, argument: str, *, as_json: bool) -> int:
    """Carry out a plugin's command: by way of the process that runs already, or in this one."""
    from nanoclaw.core.build import build
    from nanoclaw.core.messages import Address
    from nanoclaw.core.plugin import Said
    from nanoclaw.core.profiles import PROFILES

    line = f"/{name} {argument}".strip()
    if link := attach.connect(str(config.home), "answer", "main"):
        return attach.ask(link, line, [], as_json=as_json)

    async def work() -> int:
        app = build(config)
        try:
            found = app.commands.of(PROFILES["person"]).get(name)
            if found is None or not found.cli:
                known = ", ".join(one.name for one in app.commands if one.cli) or "none"
                raise ConfigError(
                    f"there is no command {name!r}; commands of plugins: {known}. nanoclaw --help has all."
                )
            main = Address("terminal", "main")
            reply = await app.carry_out(name, Said(argument, main, main, "me", "owner"))
            print(json.dumps(dict(reply.data or {"text": reply.text})) if as_json else reply.text)
            return 0
        finally:
            await app.aclose()

    return asyncio.run(work())


COMMANDS = {"plugins": show}
