"""Secret settings: which there are, the values that must never show, and the places of keys: secrets.env, which nobody
but the owner of the home should read, and the keyring of the system, where "keyring:NAME" in config.toml or secrets.env
stands for an entry."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import NamedTuple, Plugin

if TYPE_CHECKING:
    from nanoclaw.core.channel import ChannelTable
    from nanoclaw.start.config import Config

NAME = "secrets.env"
REFERENCE = "keyring:"
_MOST_BYTES = 10_000_000

ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_PASSWD", "_PASS", "_PWD", "_PAT", "_PASSPHRASE", "_CREDENTIALS")
"""Ends of the names of variables that hold a secret."""

_PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_PARAMETER = re.compile(r"(?<=[?&;#])([\w.-]+)=([^&;#\s]+)")

SHORTEST, SHORTEST_GUESSED = 6, 8
"""Shortest value that is hidden; longer for a variable that is only named like a key."""


def read_whole(path: Path) -> bytes | None:
    """All of the file, None if there is none. Raises ConfigError: for a link to nothing too, since settings were meant
    to be there."""
    try:
        with open(path, "rb", opener=_opened) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ConfigError(f"{path} cannot be read: it is not a plain file.")
            if found.st_size > _MOST_BYTES:
                raise ConfigError(f"{path} cannot be read: it has {found.st_size / 1e6:.0f} MB, of at most 10.")
            return file.read()
    except FileNotFoundError:
        if path.is_symlink():
            raise ConfigError(f"{path} is a link to {path.readlink()}, and nothing is there.") from None
        return None
    except NotADirectoryError:
        raise ConfigError(
            f"{path.parent} is not a folder, so it cannot be the home: set NANOCLAW_HOME to another path."
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # the reader of a pipe waits for nobody


def read(path: Path) -> dict[str, str]:
    """NAME=value lines of a file that nobody but its owner should read."""
    return _parsed(path, _lines(path))


def _lines(path: Path) -> list[str]:
    try:
        return (read_whole(path) or b"").decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text. Save it as UTF-8.") from None


def _parsed(path: Path, lines: Iterable[str]) -> dict[str, str]:
    secrets = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.removeprefix("export ").partition("=")
        if not equals or not name.strip().isidentifier() or "\0" in value:  # which no environment takes
            raise ConfigError(f"{path}, line {number}: write it as NAME=value.")
        secrets[name.strip()] = value.strip().strip("\"'")
    return secrets


def write(path: Path, name: str, value: str) -> None:
    """Put a line into the file in place of one with that name, '' takes it out; others stay as they are. Raises
    ConfigError."""
    from nanoclaw.atomic_write import NotSaved, write_atomically

    before = _lines(path)
    _parsed(path, before)  # one that can't be read is not written either
    lines = [line for line in before if line.strip().removeprefix("export ").partition("=")[0].strip() != name]
    try:
        write_atomically(path, "\n".join([*lines, *([f"{name}={value}"] if value else ()), ""]), 0o600)
    except NotSaved as error:
        raise ConfigError(str(error)) from None


def readable_by_others(home: Path, settings: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each file with keys that others can read."""
    for path in (home / NAME, home / "config.toml"):
        with suppress(OSError):  # there is none
            is_open = path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
            if is_open and (path.name == NAME or _has_secret(settings)):
                yield f"{path} holds keys and can be read by others: run chmod 600 {path}"


def _has_secret(settings: Mapping[str, Any]) -> bool:
    """Tell by the names of the keys whether some settings hold a secret; the name of a keyring's entry is none."""
    from nanoclaw.redaction import smells_of_secret

    given = ((key, value) for key, value in settings.items() if isinstance(value, str) and value)
    return any(smells_of_secret(key) and not name_in(value) for key, value in given)


# --- the keyring of the system ----------------------------------------------------------------------------------------


class KeySources(NamedTuple):
    """The places of keys. `written` is the file as it is there, `in_file` the lines of the secrets file that hold
    (those that the environment does not replace); `found` and `lacks` are entries of the keyring by name, and why there
    is none."""

    table: Mapping[str, Any] = MappingProxyType({})
    in_file: Mapping[str, str] = MappingProxyType({})
    found: Mapping[str, str] = MappingProxyType({})
    lacks: Mapping[str, str] = MappingProxyType({})

    @property
    def written(self) -> Mapping[str, Any]:
        """The dotted keys of config.toml with what is there, references as such."""
        return dict(leaves(self.table))

    def of_setting(self, key: str) -> str:
        """The place of a dotted key's value, '' if it has none."""
        return self._of(self.written.get(key))

    def of_variable(self, name: str, environment: Mapping[str, str]) -> str:
        """The place of a variable's value, '' if it has none."""
        if name in self.in_file:
            return self._of(self.in_file[name])
        return "environment" if environment.get(name) else ""

    def _of(self, value: Any) -> str:
        if name := name_in(value):
            return "keyring" if name in self.found else ""
        return "file" if value else ""

    def lacking(self) -> Iterator[str]:
        """A sentence for each entry of the keyring that could not be read."""
        if not self.lacks:
            return
        from nanoclaw.installation import install_command, start_command

        for name, why in self.lacks.items():
            told = f"{start_command()} keys set {name} puts it there."
            if "not installed" in why:
                told = f"{install_command('keyring')} adds it."
            yield f"the key {name} could not be read from the keyring, so it counts as not set: {why}. {told}"


def name_in(value: Any) -> str:
    """The name of the keyring's entry that a value stands for, '' for a plain one."""
    return value.removeprefix(REFERENCE).strip() if isinstance(value, str) and value.startswith(REFERENCE) else ""


def resolve(
    table: Mapping[str, Any], in_file: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[Mapping[str, Any], Mapping[str, str], KeySources]:
    """The table and the environment with keyring references replaced by the keys; unreadable ones are left out."""
    lines = {name: value for name, value in in_file.items() if name not in environ}
    names = dict.fromkeys([*_names(table), *filter(None, map(name_in, lines.values()))])
    if not names:
        return table, {**lines, **environ}, KeySources(table, lines)
    from nanoclaw import system_keyring

    entries = system_keyring.read(names)
    keys = KeySources(table, lines, entries.values, entries.lacks)
    known = {name: entries.values.get(name_in(value), value) for name, value in lines.items()}
    given = {name: value for name, value in known.items() if not name_in(value)}
    return _with(table, entries.values), {**given, **environ}, keys


def leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted keys of a table with their values; one of an empty table, too."""
    for name, value in table.items():
        if value and isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _names(value: Any) -> Iterator[str]:
    """Names of the entries that are referred to."""
    if isinstance(value, Mapping | list):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _names(one)
    elif name := name_in(value):
        yield name


def _with(value: Any, found: Mapping[str, str]) -> Any:
    """The same with the entries in place of their names."""
    if isinstance(value, Mapping):
        return {key: _with(one, found) for key, one in value.items() if name_in(one) in ("", *found)}
    if isinstance(value, list):
        return [_with(one, found) for one in value if name_in(one) in ("", *found)]
    return found.get(name_in(value), value)


# --- which there are --------------------------------------------------------------------------------------------------


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
    from nanoclaw.core.channel import secret_variable

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
    from nanoclaw.redaction import smells_of_secret

    for name, value in _PARAMETER.findall(address):
        if smells_of_secret(name):
            yield value


def _is_secret(config: Config, name: str, value: str) -> bool:
    """True for all that the secrets file has, and for what is named like a key; the path of a file is none."""
    if name in config.keys.in_file:
        return True
    return name.upper().endswith(ENDINGS) and not value.startswith(("/", "~"))
