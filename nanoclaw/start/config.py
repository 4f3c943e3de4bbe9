"""config.toml and the environment, parsed into frozen values; an unknown key is an error with a suggestion.

The core owns the tables below; every other key has a plugin or a channel as its owner, which reads it by `settings`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from nanoclaw.beneath.paths import Reach
from nanoclaw.clock import Clock, clock
from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.core.plugin import ABOVE_0
from nanoclaw.named_tuple import NamedTuple
from nanoclaw.start import secrets_file
from nanoclaw.start.secrets_file import KeySources, leaves
from nanoclaw.strict_json import check_levels

T = TypeVar("T")

PURPOSES: Mapping[str, str] = {
    "tasks": "tasks",
    "heartbeat": "the heartbeat",
    "summaries": "summaries",
    "helpers": "helpers",
    "pictures": "pictures",
    "titles": "titles",
    "transcription": "voice notes",
}
"""The purposes that may have their own model, each with its name in sentences. '' is the conversation."""

Effort = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS = tuple(filter(None, get_args(Effort)))
"""Reasoning efforts as providers name them; each model knows some."""


class PurposeModel(NamedTuple):
    """The model of one purpose. Also written as just the model's name."""

    name: str = ""  # the model; empty: the conversation's
    # models to ask, in this order, if it can't answer; the conversation's comes last
    fallback: tuple[str, ...] = ()
    effort: Effort = ""  # empty: the model's own
    api_base: str = ""  # address of its server
    api_key: str = ""  # its key

    def __repr__(self) -> str:
        return f"PurposeModel({self.name!r})"  # without the key


class Purposes(NamedTuple):
    """All of [models]; `effort` is that of the conversation's model."""

    models: Mapping[str, PurposeModel] = MappingProxyType({})
    aliases: Mapping[str, str] = MappingProxyType({})
    effort: str = ""

    def of(self, purpose: str) -> PurposeModel:
        """Raises NanoclawError for a purpose that there is not."""
        if purpose and purpose not in PURPOSES:
            raise NanoclawError(f"models have no purpose {purpose!r}{near(purpose, PURPOSES)}")
        return self.models.get(purpose, PurposeModel())

    def has_own(self, purpose: str) -> bool:
        return self.of(purpose) != PurposeModel()

    def effort_of(self, purpose: str) -> str:
        """The effort of a purpose; the conversation's if it has no model and no effort of its own."""
        own = self.of(purpose)
        return own.effort or ("" if own.name else self.effort)

    def resolve(self, name: str) -> str:
        """The model that an alias stands for, else the name itself."""
        return self.aliases.get(name.strip().casefold(), name)

    def names(self) -> tuple[str, ...]:
        """All purposes, also those without a model of their own."""
        return tuple(PURPOSES)

    def in_words(self, purpose: str) -> str:
        """A purpose as it is called in a sentence, '' for the conversation."""
        return PURPOSES.get(purpose, "")

    def place_of(self, model: str) -> tuple[str, str]:
        """Address and key that a purpose gives its model, '' for each that it does not."""
        placed = (one for one in self.models.values() if one.name == model and (one.api_base or one.api_key))
        return next(((one.api_base, one.api_key) for one in placed), ("", ""))


class Model(NamedTuple):
    """The model that answers conversations."""

    name: str = ""  # the model, such as "openai/gpt-5"; empty: the first one found on this machine
    api_base: str = ""  # address of an OpenAI-style server, if it isn't the provider's own
    api_key: str = ""  # its key
    fallback: tuple[str, ...] = ()  # models to ask, in this order, while the first one can't answer
    tool_mode: Literal["auto", "native", "json"] = "auto"  # "json": for models without tool calls
    timeout_seconds: Annotated[float, ABOVE_0] = 300.0  # seconds without any output after which a request is given up
    output_tokens: Annotated[int, ABOVE_0] = 8192  # most tokens of one answer
    window_tokens: int = 0  # size of the context window in tokens; 0: as known, or as learned from an error
    effort: Effort = ""  # reasoning effort; empty: the model's own

    def __repr__(self) -> str:
        return f"Model({self.name!r})"  # without the key


class Person(NamedTuple):
    """The person that the assistant works for."""

    timezone: str = ""  # your time zone, such as "Europe/Berlin"; empty: the machine's


class WorkspaceFolder(NamedTuple):
    """The folder that the assistant works in."""

    path: str = ""  # the folder; empty: `workspace` in nanoclaw's home


class ExtraFolders(NamedTuple):
    """Folders besides the workspace that file tools and commands may open."""

    read: tuple[str, ...] = ()  # folders that may be read: ["~/Documents"]
    write: tuple[str, ...] = ()  # folders that may be read and written

    def paths(self) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
        return _paths(self.read), _paths(self.write)

    def missing(self) -> Iterator[str]:
        for key, given in self._asdict().items():
            for one, path in zip(given, _paths(given), strict=True):
                if not path.exists():
                    yield f"files.{key}: there is no folder {one!r}, so it has no effect."


class Context(NamedTuple):
    """Contents of the prompt."""

    sections: Mapping[str, bool] = MappingProxyType({})  # sections of the system message: `skills = false`


class TurnLimits(NamedTuple):
    """Limits of turns, commands and money."""

    rounds: Annotated[int, ABOVE_0] = 32  # most requests to the model in one turn
    turn_seconds: Annotated[float, ABOVE_0] = 1800.0  # most seconds that a turn may take


class SessionSettings(NamedTuple):
    """Conversations."""

    # a message sent while a turn runs: "steer" passes it to the running turn, "followup" keeps it for the next
    queue: Literal["steer", "followup"] = "steer"


class Net(NamedTuple):
    """Network access."""

    allow: tuple[str, ...] = ()  # private addresses that may be reached: ["intranet.lan", "127.0.0.1:8080"]


class Plugins(NamedTuple):
    """Plugins that run."""

    # "health", and third-party plugins to load: files in `plugins/` of the home, or installed packages
    enabled: tuple[str, ...] = ()
    off: tuple[str, ...] = ()  # built-in plugins to leave out, such as "heartbeat"
    unpinned: Literal["skip", "stop", "load"] = "skip"  # a changed plugin: leave out, stop the start, load


class Config(NamedTuple):
    """Everything that can be set. `table` is the whole file; `environment` is the process's, completed by the secrets
    file. Both have the keys themselves in place of references to the keyring."""

    home: Path
    model: Model = Model()
    purposes: Purposes = Purposes()
    person: Person = Person()
    workspace: WorkspaceFolder = WorkspaceFolder()
    files: ExtraFolders = ExtraFolders()
    context: Context = Context()
    limits: TurnLimits = TurnLimits()
    session: SessionSettings = SessionSettings()
    net: Net = Net()
    plugins: Plugins = Plugins()
    table: Mapping[str, Any] = MappingProxyType({})
    environment: Mapping[str, str] = MappingProxyType({})
    keys: KeySources = KeySources()
    warnings: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Plugins that the command line leaves out, which are `off` as well."""
    problem: str = ""
    """In safe mode: what is wrong with the file."""

    def __repr__(self) -> str:
        return f"Config({str(self.home)!r})"  # without what is secret

    @property
    def file(self) -> Path:
        return self.home / "config.toml"

    @property
    def idle_plugins(self) -> list[str]:
        """Names that have a table [plugins.NAME] and are not enabled."""
        given = self.table.get("plugins", {})
        return [name for name, value in given.items() if isinstance(value, dict) and name not in self.plugins.enabled]

    @property
    def workspace_path(self) -> Path:
        chosen = self.workspace.path
        return self.home / Path(chosen).expanduser() if chosen else self.home / "workspace"

    def clock(self) -> Clock:
        """The person's clock. Raises ConfigError for a time zone that there is not."""
        try:
            return clock(self.person.timezone, self.environment)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    @property
    def reach(self) -> Reach:
        """The folders that tools may open: never the home, except the workspace in it."""
        return Reach(self.workspace_path, *self.files.paths(), (self.home,))

    def settings(self, kind: type[T], prefix: str, keys: Mapping[str, str] | None = None) -> T:
        """The settings of a plugin or channel: a NamedTuple whose fields stand in the table `prefix`, or where `keys`
        says. Raises ConfigError for values that do not fit."""
        hints, places = _hints(kind), _keys_of(kind, prefix, keys or {})
        given = {name: value for name, place in places.items() if (value := self.get(place, MISSING)) is not MISSING}
        keys = {name: places[name].removesuffix(".*") for name in given}
        return kind(**{name: _value(hints[name], value, str(self.file), keys[name]) for name, value in given.items()})

    def get(self, key: str, default: Any = None) -> Any:
        """The value that the file has for a dotted key; one that ends with ".*" is a whole table."""
        value: Any = self.table
        for part in key.removesuffix(".*").split("."):
            if not isinstance(value, Mapping) or part not in value:
                return default
            value = value[part]
        return value

    def check(self, owned: Collection[str]) -> None:
        """Raises ConfigError for keys that nobody owns. A key that ends with ".*" owns a whole table."""
        known, unknown = {*owned, *_own_keys()}, dict[str, list[str]]()  # by what is to be said of them
        whole = tuple(key[:-1] for key in known if key.endswith(".*"))
        for key, value in leaves(self.table):
            is_table = any(one.startswith(f"{key}.") for one in known)
            if {key, f"{key}.*"} & known or key in _gone() or key.startswith(whole) or (is_table and value == {}):
                continue
            if is_table:
                raise ConfigError(f"{self.file}: {key!r} is a table: write [{key}] and its keys below.")
            unknown.setdefault(near(key, known, _beside(key, known)), []).append(repr(key))
        if unknown:
            said = " Also ".join(f"{', '.join(keys)}{told}" for told, keys in unknown.items())
            raise ConfigError(f"{self.file}: unknown key {said}")


MISSING = object()

_gone = cache(lambda: frozenset(Path(__file__).with_name("gone_keys.txt").read_text().split()))
"""Keys of earlier versions. A file that has them is read all the same."""

LAST_GOOD = "config.last-good.toml"
"""The copy of config.toml that a successful start keeps."""


def load(environ: Mapping[str, str], name: str = "config.toml") -> Config:
    """Read NANOCLAW_HOME (default ~/.nanoclaw). Raises ConfigError naming the file, the key and what to do."""
    home = home_of(environ)
    secrets = secrets_file.read(home / secrets_file.NAME)
    path = home / name
    table, environment, keys = secrets_file.resolve(_read(path), secrets, environ)
    made = {name: _fill(kind, table.get(name, {}), str(path), f"{name}.") for name, kind in _TYPES.items()}
    model: Model = made["model"]
    by_purpose = _purposes(table, model, str(path))
    named = [by_purpose.resolve(one) for one in (model.name, *model.fallback)]
    made["model"] = model._replace(name=named[0], fallback=tuple(named[1:]))
    config = Config(home, **made, purposes=by_purpose, table=table, environment=environment, keys=keys)
    _check_net(path, config.net)
    return config._replace(warnings=tuple(_warnings(config)))


def _purposes(table: Mapping[str, Any], main: Model, where: str) -> Purposes:
    """[models] of the whole file `where`, beside the `main` model. Raises ConfigError."""
    given = dict(_value(Mapping[str, Any], table.get("models", {}), where, "models"))
    aliases: dict[str, str] = _value(Mapping[str, str], given.pop("aliases", {}), where, "models.aliases")
    for alias, model in aliases.items():
        if "/" in alias or not alias.strip() or alias != "".join(alias.split()):
            raise ConfigError(f"{where}: the alias {alias!r} must be one word without “/”, such as fast.")
        if not model.strip() or model in aliases:
            raise ConfigError(f"{where}: 'models.aliases.{alias}' must be a model, such as \"openai/MODEL\".")
    found = Purposes({}, {alias.casefold(): model.strip() for alias, model in aliases.items()}, main.effort)
    places, models = {found.resolve(main.name): (main.api_base, "model")}, dict[str, PurposeModel]()
    for purpose, one in given.items():
        key = f"models.{purpose}"
        if purpose not in PURPOSES:
            raise ConfigError(f"{where}: unknown key {key!r}{near(purpose, [*PURPOSES, 'aliases'])}")
        own: PurposeModel = _value(PurposeModel, {"name": one} if isinstance(one, str) else one, where, key)
        if not own.name and (own.fallback or own.api_base or own.api_key):
            raise ConfigError(
                f"{where}: {key!r} needs a name: its fallback and its address belong to a model of its own."
            )
        if own.effort and purpose == "transcription":
            raise ConfigError(
                f"{where}: '{key}.effort' has no meaning, as voice notes are only transcribed: remove it."
            )
        fallback = dict.fromkeys(found.resolve(name).strip() for name in own.fallback)
        own = models[purpose] = own._replace(name=found.resolve(own.name).strip(), fallback=tuple(fallback))
        base, first = places.setdefault(own.name, (own.api_base, key)) if own.api_base else ("", "")
        if base != own.api_base:  # by its name nobody could tell which is meant
            raise ConfigError(f"{where}: {own.name} has one address in [{first}], another in [{key}].")
    return found._replace(models=models)


def near(name: str, known: Any, shown: Any = ()) -> str:
    """The end of a sentence about an unknown name: a similar one, or those to be `shown`, else all known ones."""
    import difflib

    found = difflib.get_close_matches(name, list(known), 1, 0.82 if "." in name else 0.7)
    return f"; did you mean {found[0]!r}?" if found else f"; known: {', '.join(shown or known)}."


def _keys_of(kind: Any, prefix: str, keys: Mapping[str, str]) -> dict[str, str]:
    """By field the dotted key where it stands."""
    return {name: keys.get(name, f"{prefix}.{name}") for name in kind._fields}


def owned_keys(kind: Any, prefix: str, keys: Mapping[str, str] | None = None) -> list[str]:
    """The dotted keys that settings are read from."""
    return list(_keys_of(kind, prefix, keys or {}).values()) if kind else []


def _own_keys() -> Iterator[str]:
    yield "models.*"
    for name, kind in _TYPES.items():
        for field in kind._fields:
            yield f"{name}.{field}" + (".*" if field == "sections" else "")


def _beside(key: str, known: Collection[str]) -> list[str]:
    """The keys of the table that should have one; the tables, where nobody has such a table."""
    above, _, _ = key.rpartition(".")
    if not above:
        return sorted({one.partition(".")[0] for one in known})
    return sorted(one for one in known if one.rpartition(".")[0] == above) or _beside(above, known)


def _paths(given: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(Path(one).expanduser() for one in given)


def home_of(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("NANOCLAW_HOME") or "~/.nanoclaw").expanduser().absolute()


def _check_net(path: Path, net: Net) -> None:
    for one in net.allow:
        from nanoclaw.net.public import check_allowed

        try:
            check_allowed(one)
        except ValueError:
            how = 'write it as "intranet.lan" or "127.0.0.1:8080".'
            said = f"net.allow: {one!r} is not a name (patterns and ranges open nothing); {how}"
            raise ConfigError(f"{path}: {said}") from None


def _read(path: Path) -> dict[str, Any]:
    data = secrets_file.read_whole(path)
    if data is not None and not data.strip() and path.name != LAST_GOOD:
        _check_meant_empty(path)
    return table_of(path, data or b"")


def _check_meant_empty(path: Path) -> None:
    """Raises ConfigError for a file without a word beside a last good one with settings: a full disk, or a program that
    was cut off as it wrote, leaves that, and rules that stood there would be gone unseen."""
    copy = path.with_name(LAST_GOOD)
    if (secrets_file.read_whole(copy) or b"").strip():
        raise ConfigError(f"{path} is empty, and {copy.name} is not. Delete {path.name} if it is to have no settings.")


def table_of(path: Path, data: bytes) -> dict[str, Any]:
    """The whole file, under the names that its keys have now. Raises ConfigError."""
    import tomllib

    try:
        table = tomllib.loads(data.decode("utf-8-sig"))
        check_levels(table)
        return table
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text. Save it as UTF-8; nothing was changed.") from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a plain one
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ConfigError(f"{path} is not valid TOML: {why}. Correct that; nothing was changed.") from None


def _warnings(config: Config) -> Iterator[str]:
    for name in config.idle_plugins:
        yield (
            f"{config.file}: [plugins.{name}] has no effect, as {name} is not enabled: add it to enabled in [plugins], "
            "or take the table out."
        )
    for name in _gone().intersection(dict(leaves(config.table))):
        hint = "[models] names models, [tools] what asks, secrets.env keys; a port stands behind its host."
        yield f"{config.file}: {name} has no effect any more: take it out. {hint}"
    yield from (f"{config.file}: {said}" for said in config.files.missing())
    yield from secrets_file.readable_by_others(config.home, config.keys.written)
    yield from config.keys.lacking()


def _fill(kind: type[T], table: Any, where: str, prefix: str) -> T:
    """One of the core's tables; keys of others are left to them."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: {prefix[:-1]!r} is a table: write [{prefix[:-1]}] and its keys below.")
    hints = _hints(kind)
    return kind(**{name: _value(hints[name], table[name], where, prefix + name) for name in table if name in hints})


_hints: Callable[[Any], dict[str, Any]] = cache(partial(get_type_hints, include_extras=True))
"""The types of settings, evaluated once: a start reads some three times."""


def _value(hint: Any, value: Any, where: str, key: str, *, is_inner: bool = False) -> Any:
    """A value as its setting has it. Raises ConfigError for one of another type, which has no text of a table in
    another table: it may be secret."""
    kind, also = type(value), getattr(hint, "__metadata__", ())  # `also` are further types of items, or ABOVE_0
    hint = hint.__origin__ if also else hint
    if get_origin(hint) is Literal:
        if value in get_args(hint):
            return value
        wanted = f"one of {', '.join(filter(None, get_args(hint)))}"
    elif get_origin(hint) is tuple:
        if kind is list and all(type(item) in (str, *also) for item in value):
            return tuple(map(str, value))
        wanted = 'a list of texts in quotes, such as ["a", "b"]'
    elif get_origin(hint) is Mapping:
        if kind is dict:
            item = get_args(hint)[1]
            return {one: _value(item, value[one], where, f"{key}.{one}", is_inner=True) for one in value}
        is_deep = hasattr(get_args(hint)[1], "_fields")
        wanted = f"a table: write [{key}.NAME] and its keys below" if is_deep else "a table, such as { NAME = … }"
    elif hasattr(hint, "_fields"):
        if kind is dict:
            if unknown := next((name for name in value if name not in hint._fields), ""):
                raise ConfigError(f"{where}: unknown key '{key}.{unknown}'{near(unknown, hint._fields)}")
            hints = _hints(hint)
            return hint(**{one: _value(hints[one], value[one], where, f"{key}.{one}", is_inner=True) for one in value})
        wanted = f"a table: write [{key}] and its keys below"
    else:
        if hint not in _WANTED:  # a plugin's own, which it checks itself
            return value
        wanted = _WANTED[hint]
        if kind is hint or (hint is float and kind is int):
            if hint not in (int, float) or ((value > 0 if ABOVE_0 in also else value >= 0) and value < float("inf")):
                return hint(value)
            wanted = ABOVE_0 if ABOVE_0 in also else "0 or more"
    from nanoclaw.escapes import one_line
    from nanoclaw.redaction import smells_of_secret

    is_shown = isinstance(value, int | float) or not (is_inner or (hint is str and smells_of_secret(key)))
    given = f", not {one_line(repr(value), 100)}" if is_shown else ""
    raise ConfigError(f"{where}: {key!r} must be {wanted}{given}.")


_WANTED = {str: "text in quotes", int: "a whole number", float: "a number", bool: "true or false"}
"""Types that a single value may have, in words."""


_TYPES: dict[str, Any] = {
    name: type(value)
    for name, value in Config._field_defaults.items()
    if hasattr(value, "_fields") and name not in ("purposes", "keys")  # which are read from elsewhere
}
