"""Commands on the command line: those of it alone, and those of the chat."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from nanoclaw.commands.arguments import COMMANDS, Options
from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.installation import start_command
from nanoclaw.start.config import Config

if TYPE_CHECKING:
    from nanoclaw.core.app import App
    from nanoclaw.core.plugin import Reply


OF_TALK = -1
"""Instead of an exit status: the command is a message of the conversation, and nothing was done."""


def carry_out(
    config: Config, name: str, argument: str, *, as_json: bool, asks_model: bool = False, only_reads: bool = False
) -> int:
    """Carry out a command: through the running process, or in this one, which looks for a model if it `asks_model`. One
    that `only_reads` needs no free disk space."""
    from nanoclaw.commands.inspecting import app_over_copy
    from nanoclaw.commands.talking import model_or_lack, print_left_out, print_unfired, program, said

    async def here() -> int:
        model = (await model_or_lack(config))[0] if asks_model else ""  # a reminder is rehearsed without one
        async with app_over_copy(config) if only_reads else program(config, model) as app:
            print_left_out(app)
            if (told := await reply(app, command, as_json=as_json)) is None:
                return OF_TALK
            print(told)
            print_unfired(app)
        return 0

    command = f"/{name} {argument}".strip()
    return said(config, command, here, want="command", as_json=as_json)


def heartbeat(config: Config, options: Options) -> int:
    """One beat now, or only what it would find."""
    from nanoclaw.commands.inspecting import app_over_copy
    from nanoclaw.commands.talking import program, run, said
    from nanoclaw.providers.choose import choose_model

    async def beat() -> int:
        if options.dry_run:
            async with app_over_copy(config) as app:
                print(await public(app, "heartbeat").dry_run())
            return 0
        async with program(config, await choose_model(config), channels=None) as app:
            print(await public(app, "heartbeat").to_the_end(app.router.resume))
        return 0

    return run(beat()) if options.dry_run else said(config, "/heartbeat", beat)


def as_said(name: str, words: Sequence[str]) -> str:
    """Words as a chat takes them: the shell has taken away the quotes of /memory add --replaces "old words", and has a
    time as one word where a chat has a colon behind it."""
    said = [f'"{one}"' if before in ("--replaces", "--also") else one for before, one in pairwise(["", *words])]
    if [name, *words[:1]] == ["jobs", "add"]:
        for at, (flag, when, text) in enumerate(zip(words, words[1:], words[2:], strict=False), 1):
            if " " in when and ": " not in when and "--" not in (flag[:2], text[:2]):
                said[at] = f"{when.removesuffix(':')}:"
                break
    return " ".join(said)


async def reply(app: App, command: str, *, as_json: bool) -> str | None:
    """Reply of the program to a command of the owner's; None for one that is a message of a conversation. Raises
    NanoclawError."""
    from nanoclaw.core.channel import MAIN
    from nanoclaw.core.commands import parse
    from nanoclaw.core.plugin import Said
    from nanoclaw.plugins.basics.plugin import GROUPS

    name, argument = app.commands.named(*(parse(command) or (command.removeprefix("/"), "")))
    wanted, found = argument.removeprefix("/") if name == "help" else name, app.commands.find(name)
    if not found or not (app.commands.find(wanted) or wanted in ("", *GROUPS)):
        import difflib

        near = difflib.get_close_matches(
            wanted, [*(one.split()[0] for one in COMMANDS), *app.commands.open_to("person")], 1
        )
        hint = f"; did you mean {near[0]!r}?" if near else "; nanoclaw --help and nanoclaw help list them."
        raise ConfigError(f"there is no command {wanted!r}{app.commands.brings.get(wanted, hint)}")
    if not found.cli:
        return None
    said = await app.commands.for_said(name, Said(argument, MAIN, MAIN, "owner", "owner", shell=start_command()))
    return printed(said, as_json=as_json)


def printed(reply: Reply, *, as_json: bool) -> str:
    """Text that a command prints, of the chat or of the command line alone."""
    return json.dumps(dict(reply.data or {"text": reply.text})) if as_json else reply.text


def of_command_line(name: str, config: Config, options: Options) -> int:
    """Carry out a command of the command line alone, and print what it says. Returns the exit status."""
    module, _, function = COMMANDS[name][0].partition(".")
    done: Reply | int = getattr(import_module(f"nanoclaw.commands.{module}"), function)(config, options)
    if isinstance(done, int):
        return done
    print(printed(done, as_json=options.json))
    return 0


def public(app: App, name: str) -> Any:
    """Public object of a plugin. Raises ConfigError where the plugin is off."""
    if (found := app.public(name)) is None:
        raise ConfigError(f"the plugin {name} is off: take it out of [plugins] off in config.toml")
    return found


def says_yes(question: str, otherwise: str = "Nothing was added.") -> bool:
    """Raises NanoclawError if nobody is there."""
    from nanoclaw.yes_no import yes_or_no

    if not sys.stdin.isatty():
        raise NanoclawError(f"{question} Nobody is here to answer: use --yes")
    print(f"{question} yes or no: ", end="", flush=True)
    is_yes = yes_or_no(sys.stdin.readline()) is True
    if not is_yes:
        print(otherwise)
    return is_yes
