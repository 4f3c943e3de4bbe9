"""Commands that plugins bring, on the command line."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from nanoclaw.channels import attach
from nanoclaw.core.config import Config
from nanoclaw.core.errors import ConfigError
from nanoclaw.installation import start_command

if TYPE_CHECKING:
    from nanoclaw.core.app import App
    from nanoclaw.core.plugin import Command


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
    from nanoclaw.commands.greeting import tell_left_out, tell_unfired
    from nanoclaw.commands.looking import looked_at
    from nanoclaw.commands.talking import program, there_or_here

    async def here() -> int:
        model = ""
        if asks_model:
            from nanoclaw.providers.choose import choose_model

            model = await choose_model(config)
        async with looked_at(config) if only_reads else program(config, model) as app:
            tell_left_out(app)
            print(await reply(app, name, argument, as_json=as_json))
            tell_unfired(app)
        return 0

    def there(link: attach.Link) -> int:
        return attach.ask(link, f"/{name} {argument}".strip(), [], as_json=as_json)

    return there_or_here(config, "command", there, here)


def explain(config: Config, name: str) -> int:
    """Print the help of a plugin's command, which is not carried out."""
    from nanoclaw.commands.greeting import tell_left_out
    from nanoclaw.commands.looking import looked_at

    async def help_text() -> str:
        async with looked_at(config) as app:
            tell_left_out(app)
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
