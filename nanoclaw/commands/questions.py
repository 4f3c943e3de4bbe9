"""`nanoclaw init` in a terminal: asks for the model, its key and the time zone; Enter keeps what is there."""

from __future__ import annotations

import asyncio
import getpass
import os

from nanoclaw.commands.models import choose
from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.installation import start_command
from nanoclaw.start import secrets_file
from nanoclaw.start.build import change_settings
from nanoclaw.start.config import Config, load

EXAMPLES = "such as openai/gpt-5,\n   anthropic/claude-sonnet-4-5,\n   ollama/NAME or, without a key,\n   "
EXAMPLES += "local/qwen2.5-coder-1.5b"


def needed(config: Config) -> str:
    """Lines about what is still to be said, for those who can't be asked; '' for nothing."""
    if config.model.name:
        return ""
    start = start_command()
    choose, keep = f"{start} init --model PROVIDER/NAME", f"{start} keys set NAME --file"
    zone = f"timezone in [person] of config.toml is the time zone (now {_zone_of(config)})"
    return f"Nobody is here to be asked: {choose} chooses a model,\n{keep} reads its key from a pipe, and {zone}.\n"


def ask(config: Config) -> None:
    """Ask all three, and keep each answer at once. Raises ConfigError if the input ends before."""
    model = _ask_model(config)
    if model:
        _ask_key(load(os.environ), model)
    _ask_zone(load(os.environ))
    print(f"Done. {start_command()} talks, {start_command()} doctor checks everything, init asks again.")


def _ask_model(config: Config) -> str:
    """The model, '' for none."""
    found = config.model.name or _found(config)
    while True:
        said = _line(f"1. Model, {EXAMPLES}", found)
        if said in ("", config.model.name):
            return said
        try:
            done, lacking = choose(config, config.purposes.resolve(said), "")
        except ConfigError as error:
            print(error)
            continue
        print(*done, *(line for line in lacking if "did you mean" in line), sep="\n")
        return said


def _found(config: Config) -> str:
    from nanoclaw.providers.choose import DEFAULTS, choose_model

    try:
        return asyncio.run(choose_model(config))
    except ConfigError:
        return next((model for key, model in DEFAULTS.items() if config.environment.get(key)), "")


def _ask_key(config: Config, model: str) -> None:
    """Ask for the key, where the model needs one and none is there, and the model for one word."""
    from nanoclaw.commands.health.model import asked
    from nanoclaw.providers import names
    from nanoclaw.providers.choose import LOCAL

    name = "" if model.startswith(LOCAL) or config.model.api_key else names.check(model, config.model.api_base)[0]
    is_there = not name or bool(config.environment.get(name, "").strip())
    print(f"2. Key: {name or 'none'} is {'set' if name else 'needed'}." if is_there else f"2. Key, for {model}.")
    while True:
        if not is_there:
            value = getpass.getpass(f"{name} (it is not shown; Enter: later): ").strip()
            if not value:
                print(f"Later: {start_command()} keys set {name} --file")
                return
            config = config._replace(environment={**config.environment, name: value})
        print(f"Asking {model} for one word …", flush=True)
        try:
            print(asyncio.run(asked(config, model)))
        except KeyboardInterrupt:
            if not is_there:
                _keep(config, name, value)
            raise
        except NanoclawError as error:
            print(error)
            if is_there or not _says_yes(f"Keep this {name} all the same?"):
                if is_there:
                    return
                continue
        if not is_there:
            _keep(config, name, value)
        return


def _keep(config: Config, name: str, value: str) -> None:
    secrets_file.write(config.home / secrets_file.NAME, name, value)
    print(f"{name} is kept in {config.home / secrets_file.NAME}, which only you can read.", flush=True)


def _ask_zone(config: Config) -> None:
    while True:
        said = _line("3. Time zone", _zone_of(config))
        if said in ("", _zone_of(config)):
            return
        try:
            change_settings(config, {"person.timezone": said})
            return
        except ConfigError as error:
            print(error)


def _zone_of(config: Config) -> str:
    return str(config.clock()().tzinfo)


def _says_yes(question: str) -> bool:
    from nanoclaw.yes_no import yes_or_no

    return yes_or_no(_line(question, "no")) is True


def _line(question: str, otherwise: str) -> str:
    try:
        return input(f"{question} [{otherwise or 'later'}]: ").strip() or otherwise
    except EOFError:
        raise ConfigError("the input has ended; what was answered is kept.") from None
