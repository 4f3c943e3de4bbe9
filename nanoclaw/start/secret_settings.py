"""Secret settings: which there are, where each stands, and the values that must never show."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from nanoclaw.core.channel import ChannelTable, secret_variable
from nanoclaw.core.plugin import NamedTuple, Plugin
from nanoclaw.redaction import smells_of_secret
from nanoclaw.start.config import Config
from nanoclaw.start.secrets_file import leaves

ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_PASSWD", "_PASS", "_PWD", "_PAT", "_PASSPHRASE", "_CREDENTIALS")
"""Ends of the names of variables that hold a secret."""

_PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_PARAMETER = re.compile(r"(?<=[?&;#])([\w.-]+)=([^&;#\s]+)")

SHORTEST, SHORTEST_GUESSED = 6, 8
"""Shortest value that is hidden; longer for a variable that is only named like a key."""


class SecretSetting(NamedTuple):
    """`name` is a dotted key of config.toml, or a variable; `source` is "environment", "keyring", "file", or '' if it
    is not set. One with `shows` False is only hidden, as it is a part of another."""

    name: str
    source: str
    value: str
    plugin: str = ""
    shows: bool = True

    def __repr__(self) -> str:
        return f"{self.name}: {self.state}"  # without the value

    @property
    def state(self) -> str:
        return f"set ({self.source})" if self.source else "not set"

    @property
    def is_guessed(self) -> bool:
        """True for a variable that nobody named in settings: its name alone says that it may be a key."""
        return self.source == "environment" and "." not in self.name


class SettingsOfPlugin(NamedTuple):
    """A plugin, the table of config.toml that has its settings, and these."""

    plugin: type[Plugin]
    prefix: str
    settings: Any


def all_secrets(
    config: Config, plugins: Sequence[SettingsOfPlugin], channels: Iterable[ChannelTable]
) -> list[SecretSetting]:
    """All of them, each with its place. Of a channel's key the variable counts before config.toml."""
    found = [*_of_models(config), *_of_channels(config, channels)]
    for one in plugins:
        found += _of_plugin(config, one)
    found += _of_nobody(config, {one.plugin.name for one in plugins})
    found += _of_addresses(config)
    variables = {name: value for name, value in config.environment.items() if _is_secret(config, name, value)}
    for name in dict.fromkeys([*variables, *config.keys.in_file]):
        found.append(SecretSetting(name, config.keys.of_variable(name, config.environment), variables.get(name, "")))
    found += [SecretSetting(name, "keyring", value, shows=False) for name, value in config.keys.found.items()]
    return found


def hidden_values(settings: Iterable[SecretSetting]) -> Iterator[str]:
    """Values that must never show."""
    return (one.value for one in settings if len(one.value) >= (SHORTEST_GUESSED if one.is_guessed else SHORTEST))


def _of_models(config: Config) -> Iterator[SecretSetting]:
    yield SecretSetting("model.api_key", config.keys.of_setting("model.api_key"), config.model.api_key)
    for purpose, own in config.purposes.models.items():
        if own.api_key:
            key = f"models.{purpose}.api_key"
            yield SecretSetting(key, config.keys.of_setting(key), own.api_key)


def _of_channels(config: Config, channels: Iterable[ChannelTable]) -> Iterator[SecretSetting]:
    for table in channels:
        for key, value in table.secrets.items():
            name, variable = f"channels.{table.name}.{key}", secret_variable(table.name, key)
            given = config.keys.of_variable(variable, config.environment)
            yield SecretSetting(name, given or config.keys.of_setting(name), value)


def _of_plugin(config: Config, one: SettingsOfPlugin) -> Iterator[SecretSetting]:
    name = one.plugin.name
    for field in one.plugin.secrets:
        key = one.plugin.keys.get(field, f"{one.prefix}.{field}")
        value = str(config.get(key, ""))
        yield SecretSetting(key, config.keys.of_setting(key), value, name)
    if hidden := getattr(one.plugin.settings, "secrets", None):
        for number, value in enumerate(hidden(one.settings, config.environment)):
            yield SecretSetting(f"{one.prefix}.{number}", "file", value, name, shows=False)


def _of_nobody(config: Config, running: Collection[str]) -> Iterator[SecretSetting]:
    """Texts in the tables of others' plugins that don't run: nobody says which of them are secret."""
    for key, value in leaves(config.get("plugins", {})):
        name, _, field = key.partition(".")
        if field and name not in running and isinstance(value, str):
            yield SecretSetting(f"plugins.{key}", "file", value, name, shows=False)


def _of_addresses(config: Config) -> Iterator[SecretSetting]:
    """Passwords and keys in addresses, as in https://name:password@host/?key=…, wherever they stand in config.toml."""
    for key, value in leaves(config.keys.table):
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and "://" in text:
                found = [*_PASSWORD.findall(text), *_keys_in_query(text)]
                for secret in dict.fromkeys([*found, *map(unquote, found)]):
                    yield SecretSetting(key, "file", secret, shows=False)


def _keys_in_query(address: str) -> Iterator[str]:
    for name, value in _PARAMETER.findall(address):
        if smells_of_secret(name):
            yield value


def _is_secret(config: Config, name: str, value: str) -> bool:
    """True for all that the secrets file has, and for what is named like a key; the path of a file is none."""
    if name in config.keys.in_file:
        return True
    return name.upper().endswith(ENDINGS) and not value.startswith(("/", "~"))
