"""config.toml and the environment, parsed into frozen values; an unknown key is an error with a suggestion.

Only what builds the assistant (app, parts, models) and the commands read this module; all others receive plain
arguments.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from nanoclaw.core.channel import ChannelSpec
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.redact import smells_of_secret


@dataclass(frozen=True, slots=True)
class Model:
    name: str = ""
    api_base: str = ""
    api_key: str = field(default="", repr=False)
    fallback: tuple[str, ...] = ()
    tool_mode: Literal["auto", "native", "json"] = "auto"
    timeout_seconds: float = 300.0
    output_tokens: int = 8192
    window_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Person:
    timezone: str = ""


@dataclass(frozen=True, slots=True)
class WorkspaceFolder:
    path: str = ""


@dataclass(frozen=True, slots=True)
class Skills:
    """`environment` names variables that commands get although they look like secrets, for skills that need a key."""

    folders: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """`sections` switches sections of the system message on or off by id."""

    sections: dict[str, bool] = field(default_factory=dict)
    extensions: tuple[str, ...] = ()
    file_characters: int = 20_000
    total_characters: int = 60_000
    document_characters: int = 12_000


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """`target` is a conversation such as "terminal:main", '' the one that was used last; `loopback` lets the checklist
    watch pages on this machine."""

    every: str = "30m"
    active: str = "08:00-22:00"
    timezone: str = ""
    model: str = ""
    target: str = ""
    loopback: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    rounds: int = 32
    calls: int = 128
    turn_seconds: float = 1800.0
    day_usd: float = 0.0
    month_usd: float = 0.0
    heartbeat_share: float = 0.2
    count_local: bool = False
    exec_seconds: int = 60


@dataclass(frozen=True, slots=True)
class Session:
    """`queue`: a message that comes while a turn runs joins it ("steer") or waits ("followup"). `receipts`: a line
    after each turn that changed something, in terminals; `chat_receipts`: in chat apps too, below the answer. `owner`
    "shared" makes one conversation of the terminal's main one and those that the owner has alone with the assistant
    in chats."""

    queue: Literal["steer", "followup"] = "steer"
    receipts: bool = True
    chat_receipts: bool = False
    owner: Literal["separate", "shared"] = "separate"


@dataclass(frozen=True, slots=True)
class Undo:
    """So long and so much is kept of what files were before."""

    days: int = 30
    megabytes: int = 200


@dataclass(frozen=True, slots=True)
class Media:
    """`transcription` is the model that writes down voice notes, '' for none; `megabytes` the most of a file that comes
    with a message, and of one that is sent."""

    transcription: str = ""
    megabytes: int = 20

    @property
    def most_bytes(self) -> int:
        return self.megabytes * 1_000_000


@dataclass(frozen=True, slots=True)
class ChannelAccess:
    """Who is let in by a channel, besides the owner: `allow_from` are stable ids of people, `allow_groups` of groups.
    `policy` is what happens to strangers who write to the assistant alone; of what each guest writes so many messages
    `per_hour` are answered, with 0 all."""

    allow_from: tuple[str, ...] = ()
    policy: Literal["silent", "pairing", "open"] = "silent"
    groups: Literal["off", "mention", "all"] = "mention"
    allow_groups: tuple[str, ...] = ()
    send_to: tuple[str, ...] = ()
    per_hour: int = 60


@dataclass(frozen=True, slots=True)
class ChannelTable:
    """[channels.NAME]: who is let in, and the channel's own `settings`, or its table where it declares none."""

    spec: ChannelSpec
    settings: Any = field(repr=False)
    access: ChannelAccess = field(default_factory=ChannelAccess)

    @property
    def lacks(self) -> str:
        """The first setting without which it is not served, '' for none."""
        return next((key for key in self.spec.needed if not getattr(self.settings, key)), "")

    @property
    def is_configured(self) -> bool:
        return not self.lacks or self.lacks != self.spec.needed[0]

    @property
    def secrets(self) -> list[str]:
        """Values that must never show."""
        if self.spec.settings:
            return [getattr(self.settings, key) for key in self.spec.secrets]
        return [text for key, text in self.settings.items() if isinstance(text, str) and smells_of_secret(key)]


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that can be set. `environment` is the process's, completed by the secrets file."""

    home: Path
    model: Model = field(default_factory=Model)
    person: Person = field(default_factory=Person)
    workspace: WorkspaceFolder = field(default_factory=WorkspaceFolder)
    skills: Skills = field(default_factory=Skills)
    context: Context = field(default_factory=Context)
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    limits: Limits = field(default_factory=Limits)
    session: Session = field(default_factory=Session)
    undo: Undo = field(default_factory=Undo)
    media: Media = field(default_factory=Media)
    channels: Mapping[str, ChannelTable] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        return self.home / "config.toml"

    @property
    def workspace_path(self) -> Path:
        chosen = self.workspace.path
        return self.home / Path(chosen).expanduser() if chosen else self.home / "workspace"


def load(environ: Mapping[str, str]) -> Config:
    """Read NANOCLAW_HOME (default ~/.nanoclaw). Raises ConfigError naming the file, the key and what to do."""
    home = home_of(environ)
    environment = {**_secrets(home / "secrets.env"), **environ}
    path = home / "config.toml"
    table = _read(path)
    channels = _channels(table.pop("channels", {}), environment, str(path))
    values = {"home": home, "environment": environment, "warnings": tuple(_warnings(path, table)), "channels": channels}
    given = {name: value for name, value in table.items() if name not in values}
    if len(given) < len(table):
        raise ConfigError(f"{path}: unknown key {next(name for name in table if name in values)!r}.")
    config: Config = _fill(Config, given, str(path), "", values)
    _check_positive(path, config)
    _check_money(path, config.limits)
    return config


def _channels(tables: Any, environment: Mapping[str, str], where: str) -> dict[str, ChannelTable]:
    """The channels that have a table, or a variable in the environment."""
    from nanoclaw.core import channels

    if not isinstance(tables, dict):
        raise ConfigError(f"{where}: 'channels' is a table: write [channels.NAME] and its keys below.")
    found = {}
    for name in dict.fromkeys([*channels.BUILT_IN, *tables]):
        if name in tables or any(variable.startswith(f"NANOCLAW_{name.upper()}_") for variable in environment):
            spec, table = channels.find(name), tables.get(name, {})
            if spec is None:
                raise _unknown(where, "channels.", name, channels.names())
            if not isinstance(table, dict):
                raise ConfigError(f"{where}: 'channels.{name}' is a table: write [channels.{name}] and its keys below.")
            found[name] = _channel(spec, name, table, environment, where)
    return found


def _channel(
    spec: ChannelSpec, name: str, table: dict[str, Any], environment: Mapping[str, str], where: str
) -> ChannelTable:
    keys, prefix = [item.name for item in fields(ChannelAccess)], f"channels.{name}."
    access = _fill(ChannelAccess, {key: table[key] for key in keys if key in table}, where, prefix, {})
    if spec.settings is None:
        return ChannelTable(spec, table, access)
    own = {key: value for key, value in table.items() if key not in keys}
    settings = _fill(spec.settings, own, where, prefix, {}, keys)
    given = {key: environment.get(secret_variable(name, key)) for key in spec.secrets}
    return ChannelTable(spec, settings._replace(**{key: text for key, text in given.items() if text}), access)


def secret_variable(channel: str, key: str) -> str:
    """The environment variable, or line of secrets.env, with a secret of a channel."""
    return f"NANOCLAW_{channel.upper()}_{key.upper()}"


def channel_access(config: Config, channel: str) -> ChannelAccess:
    """How a channel lets people in. Raises ConfigError for a list of names in place of stable ids, or other values that
    cannot be meant."""
    if channel not in config.channels:
        return ChannelAccess()
    where, prefix = str(config.file), f"channels.{channel}."
    found, ids = config.channels[channel].access, config.channels[channel].spec.ids
    if found.per_hour < 0:
        raise ConfigError(f"{where}: {prefix}per_hour must be a number of messages, 0 for no limit.")
    if ids == "numbers":
        for one in (*found.allow_from, *found.allow_groups):
            if not one.removeprefix("-").isdecimal():
                raise ConfigError(
                    f"{where}: {prefix}allow_from and allow_groups take numbers such as 555, not {one!r}: a name can "
                    "be taken over by somebody else. nanoclaw's log shows the id of who writes."
                )
        for one in found.send_to:
            if not one.partition("/")[0].removeprefix("-").isdecimal():
                raise ConfigError(f"{where}: {prefix}send_to takes chats such as 555 or -100200, not {one!r}.")
    return replace(found, allow_from=tuple(map(str.lower, found.allow_from))) if ids == "addresses" else found


def home_of(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("NANOCLAW_HOME") or "~/.nanoclaw").expanduser().absolute()


def example(model: str, api_base: str) -> str:
    """A new config.toml with these values."""
    quoted = [f"{key} = {_quoted(value)}\n" for key, value in (("name", model), ("api_base", api_base)) if value]
    return "[model]\n" + "".join(quoted)


def _check_positive(path: Path, config: Config) -> None:
    model, limits = config.model, config.limits
    numbers: dict[str, float] = {
        "model.timeout_seconds": model.timeout_seconds,
        "model.output_tokens": model.output_tokens,
        "context.file_characters": config.context.file_characters,
        "context.total_characters": config.context.total_characters,
        "context.document_characters": config.context.document_characters,
        "limits.rounds": limits.rounds,
        "limits.calls": limits.calls,
        "limits.turn_seconds": limits.turn_seconds,
        "limits.exec_seconds": limits.exec_seconds,
        "undo.days": config.undo.days,
        "undo.megabytes": config.undo.megabytes,
        "media.megabytes": config.media.megabytes,
    }
    for key, value in numbers.items():
        if not 0 < value < float("inf"):
            raise ConfigError(f"{path}: {key} must be more than 0, not {value}.")
    if model.window_tokens < 0:
        raise ConfigError(f"{path}: model.window_tokens must be a number of tokens, 0 for what is known of the model.")


def _check_money(path: Path, limits: Limits) -> None:
    for key, value in (("limits.day_usd", limits.day_usd), ("limits.month_usd", limits.month_usd)):
        if not 0 <= value < float("inf"):
            raise ConfigError(f"{path}: {key} must be an amount of US dollars, 0 for no limit, not {value}.")
    if not 0 <= limits.heartbeat_share <= 1:
        share = limits.heartbeat_share
        raise ConfigError(f"{path}: limits.heartbeat_share must be a share from 0 to 1, such as 0.2, not {share}.")


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _read(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    import tomllib

    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text. Save it as UTF-8; nothing was changed.") from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a plain ValueError
        raise ConfigError(f"{path} is not valid TOML: {error}. Mend that line; nothing was changed.") from None


def _secrets(path: Path) -> dict[str, str]:
    """NAME=value lines of a file that only its owner can read."""
    try:
        with path.open(encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ConfigError(f"{path} can be read by others: run chmod 600 {path}")
            lines = file.read().splitlines()
    except FileNotFoundError:
        return {}
    except NotADirectoryError:
        raise ConfigError(f"{path.parent} is no folder and cannot be the home: NANOCLAW_HOME names another.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text. Save it as UTF-8.") from None
    secrets = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.removeprefix("export ").partition("=")
        if not equals or not name.strip().isidentifier():
            raise ConfigError(f"{path}, line {number}: write it as NAME=value.")
        secrets[name.strip()] = value.strip().strip("\"'")
    return secrets


def _warnings(path: Path, table: Mapping[str, Any]) -> list[str]:
    model = table.get("model")
    if isinstance(model, dict) and model.get("api_key") and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return [f"{path} holds a key and can be read by others: run chmod 600 {path}"]
    return []


def _fill(
    kind: Any, table: Mapping[str, Any], where: str, prefix: str, values: Mapping[str, Any], others: Iterable[str] = ()
) -> Any:
    """One table as one dataclass or NamedTuple with defaults; `values` are given by the caller, not by the file, and
    `others` are keys that are read elsewhere."""
    hints = get_type_hints(kind)
    known = [name for name in (kind._fields if hasattr(kind, "_fields") else hints) if name not in values]
    filled = dict(values)
    for name, value in table.items():
        if name not in known:
            raise _unknown(where, prefix, name, [*known, *others])
        filled[name] = _value(hints[name], value, where, prefix + name)
    return kind(**filled)


def _unknown(where: str, prefix: str, name: str, known: Sequence[str]) -> ConfigError:
    import difflib

    near = difflib.get_close_matches(name, known, 1, 0.4)
    hint = f"did you mean {prefix + near[0]!r}?" if near else f"known: {', '.join(prefix + key for key in known)}."
    return ConfigError(f"{where}: unknown key {prefix + name!r}; {hint}")


def _value(hint: Any, value: Any, where: str, key: str) -> Any:
    if is_dataclass(hint):
        if not isinstance(value, dict):
            raise ConfigError(f"{where}: {key!r} is a table: write [{key}] and its keys below.")
        return _fill(hint, value, where, key + ".", {})
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ConfigError(f"{where}: {key!r} must be one of {', '.join(get_args(hint))}, not {value!r}.")
        return value
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise ConfigError(f'{where}: {key!r} must be a list such as ["a", "b"], not {value!r}.')
        return tuple(str(item) for item in value)
    if get_origin(hint) is dict:
        if not isinstance(value, dict) or not all(isinstance(item, bool) for item in value.values()):
            raise ConfigError(f"{where}: {key!r} must be a table of names with true or false, not {value!r}.")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        names = {str: "text in quotes", int: "a whole number", float: "a number"}
        raise ConfigError(f"{where}: {key!r} must be {names[hint]}, not {value!r}.")
    return value
