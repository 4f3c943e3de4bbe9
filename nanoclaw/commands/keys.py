"""`nanoclaw keys`: set, list and delete keys and passwords; none is ever shown."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING

from nanoclaw import system_keyring
from nanoclaw.commands.arguments import Options
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Reply
from nanoclaw.installation import install_command, start_command
from nanoclaw.start import home, secrets_file
from nanoclaw.start.config import Config
from nanoclaw.start.secrets_file import REFERENCE, name_in
from nanoclaw.system_keyring import KeyringFailure

if TYPE_CHECKING:
    from nanoclaw.start.secrets_file import SecretSetting


def settings(config: Config) -> list[SecretSetting]:
    """The secret settings that are shown, set or not."""
    from nanoclaw.start.build import classes, secret_settings

    return [one for one in secret_settings(config, classes(config)) if one.shows]


def show(config: Config, options: Options) -> Reply:
    states = {one.name: one.state for one in settings(config)}
    width = max(map(len, states))
    return Reply("\n".join(f"{name:{width}}  {state}" for name, state in states.items()), {"keys": states})


def put(config: Config, options: Options) -> Reply:
    name = _checked_name(options.name)
    value = _asked(name)
    home.make_home(config)
    place, kept = config.home / secrets_file.NAME, value
    if options.in_file:
        if value != value.strip("\"'") or name_in(value):
            raise ConfigError("a key that begins or ends with a quote can't be in secrets.env. Nothing was saved.")
    else:
        try:
            system_keyring.store(name, value)
        except KeyringFailure as failure:
            raise ConfigError(f"the keyring can't be used: {failure}. {_way_out(name, str(failure))}") from None
        kept = f"{REFERENCE}{name}"
    secrets_file.write(place, name, kept)
    where = f"in {place}, which only you can read" if options.in_file else f"in the keyring; {place} names it"
    hidden = f"\nThe environment has a {name}, too, which takes precedence."
    is_hidden = name in config.environment and name not in config.keys.in_file
    return Reply(f"{name} is kept {where}. A running nanoclaw has it after its next start.{hidden * is_hidden}")


def delete(config: Config, options: Options) -> Reply:
    name, line = _checked_name(options.name), config.keys.in_file.get(options.name, "")
    entry = name_in(line) or ("" if line else name)
    was_there = bool(line)
    if entry:
        try:
            was_there = system_keyring.delete(entry) or was_there
        except KeyringFailure as failure:
            if line or entry in config.keys.lacks or entry in config.keys.found:
                raise ConfigError(f"the keyring can't be used: {failure}. Nothing was deleted.") from None
    if not was_there:
        raise ConfigError(f"there is no key {name} in the keyring or in secrets.env; {start_command()} keys list.")
    if line:
        secrets_file.write(config.home / secrets_file.NAME, name, "")
    naming = [key for key, value in config.keys.written.items() if entry and name_in(value) == entry]
    return Reply("\n".join([f"{name} is deleted.", *(f"{key} in {config.file} still names it." for key in naming)]))


def _checked_name(name: str) -> str:
    if not (name.isascii() and name.isidentifier()):
        raise ConfigError(
            f"{name!r} can't be the name of a key: give the variable that it is read from, such as OPENAI_API_KEY or "
            'NANOCLAW_TELEGRAM_TOKEN. "keyring:NAME" stands for one anywhere in config.toml.'
        )
    return name


def _asked(name: str) -> str:
    """Read the key from the terminal without an echo, or from a pipe. Raises ConfigError."""
    given = getpass.getpass(f"{name} (it is not shown): ") if sys.stdin.isatty() else sys.stdin.read()
    if not (value := given.strip()):
        raise ConfigError("no key was given. Nothing was saved.")
    if not value.isprintable():
        raise ConfigError("a key is one line without control characters. Nothing was saved.")
    return value


def _way_out(name: str, why: str) -> str:
    if "not installed" in why:
        return f"{install_command('keyring')} adds it; {start_command()} keys set {name} --file keeps it in a file."
    return f"{start_command()} keys set {name} --file keeps it in secrets.env, which only you can read."
