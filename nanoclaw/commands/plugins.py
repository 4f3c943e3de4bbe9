"""Plugins on the command line: the list of them, and the commands that they bring."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import TYPE_CHECKING, Any

from nanoclaw.channels import attach
from nanoclaw.core.config import Config
from nanoclaw.core.errors import ConfigError
from nanoclaw.installation import start_command

if TYPE_CHECKING:
    from nanoclaw.core.app import App
    from nanoclaw.core.plugin import Command


def show(config: Config, options: argparse.Namespace) -> int:
    """Print what is on, from where, with which hooks; then what could be enabled."""
    from nanoclaw.commands.keys import settings
    from nanoclaw.core import build
    from nanoclaw.core.third_party import available

    running = [_described(config, one) for one in build.classes(config)]
    there = {one["name"] for one in running}
    off = [{"name": name, "from": "built in", "on": False, "hooks": []} for name in build.BUILT_IN if name not in there]
    off += [{"name": n, "from": where, "on": False, "hooks": []} for n, where in available(config) if n not in there]
    keys = settings(config)
    for one in running:
        one["secrets"] = {key.name: key.state for key in keys if key.plugin == one["name"]}
    if options.json:
        print(json.dumps({"plugins": [*running, *off]}))
        return 0
    width = max((len(one["name"]) for one in (*running, *off)), default=0)
    for one in running:
        told = "".join(f"; {name} {state}" for name, state in one["secrets"].items())
        print(f"{one['name']:{width}}  on   {one['from']}: {', '.join(one['hooks']) or 'no hooks'}{told}")
    for one in off:
        print(f"{one['name']:{width}}  off  {one['from']}")
    return 0


def _described(config: Config, one: Any) -> dict[str, Any]:
    from nanoclaw.core import build
    from nanoclaw.core.chain import HOOKS
    from nanoclaw.core.plugin import Plugin
    from nanoclaw.core.third_party import available

    named = (*HOOKS, "tools", "commands", "sections", "channels", "providers", "check", "run")
    hooks = [hook for hook in named if getattr(one, hook) is not getattr(Plugin, hook)]
    where = "built in" if one.name in build.BUILT_IN else dict(available(config)).get(one.name, "?")
    return {"name": one.name, "from": where, "on": True, "hooks": hooks}


def carry_out(
    config: Config,
    name: str,
    argument: str,
    *,
    as_json: bool,
    asks_model: bool = False,
    only_reads: bool = False,
) -> int:
    """Carry out a plugin's command: by way of the process that runs already, or in this one, which looks for
    a model where it `asks_model`. One that `only_reads` needs no room on the disk."""
    from nanoclaw.commands.greeting import tell_unfired
    from nanoclaw.commands.looking import looked_at
    from nanoclaw.commands.talking import program, there_or_here

    async def here() -> int:
        model = ""
        if asks_model:
            from nanoclaw.providers.choose import choose_model

            model = await choose_model(config)
        async with looked_at(config) if only_reads else program(config, model) as app:
            print(await reply(app, name, argument, as_json=as_json))
            tell_unfired(app)
        return 0

    def there(link: attach.Link) -> int:
        return attach.ask(link, f"/{name} {argument}".strip(), [], as_json=as_json)

    return there_or_here(config, "command", there, here)


def explain(config: Config, name: str) -> int:
    """Print the help of a plugin's command, which is not carried out."""
    from nanoclaw.commands.looking import looked_at

    async def help_text() -> str:
        async with looked_at(config) as app:
            return _of_the_shell(app, name).help

    print(f"nanoclaw {name}: {asyncio.run(help_text())}")
    return 0


async def reply(app: App, name: str, argument: str, *, as_json: bool) -> str:
    """Reply of the program to a command of the owner's that belongs to no conversation. Raises NanoclawError."""
    from nanoclaw.core.channel_registry import MAIN
    from nanoclaw.core.plugin import Said

    _of_the_shell(app, name)
    said = await app.carry_out(name, Said(argument, MAIN, MAIN, "owner", "owner", shell=start_command()))
    return json.dumps(dict(said.data or {"text": said.text})) if as_json else said.text


def _of_the_shell(app: App, name: str) -> Command:
    """A plugin's command that can be said in a shell. Raises ConfigError."""
    from nanoclaw.core.profiles import PROFILES

    found = app.commands.of(PROFILES["person"]).get(name)
    if found is None or not found.cli:
        known = ", ".join(one.name for one in app.commands if one.cli) or "none"
        raise ConfigError(f"there is no command {name!r}; commands of plugins: {known}. nanoclaw --help has all.")
    return found


COMMANDS = {"plugins": show}
