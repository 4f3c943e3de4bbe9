"""Builds the program: the one wiring, used by the commands and by the tests; has the table of the built-in plugins."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from nanoclaw import log
from nanoclaw.atomic_write import remove_drafts
from nanoclaw.channels import table as chat_apps
from nanoclaw.core.app import App, AppSettings
from nanoclaw.core.channel import Channel, ChannelTable
from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.core.messages import Limits
from nanoclaw.core.model_call import Models
from nanoclaw.core.plugin import PERSON, Plugin
from nanoclaw.core.prompt_snapshot import IDS
from nanoclaw.core.provider import Abilities, Ability, Provider
from nanoclaw.core.store.db import Store
from nanoclaw.start import home as homes
from nanoclaw.start.config import Config, near, owned_keys
from nanoclaw.start.host import PluginHost
from nanoclaw.start.opening import note_version, open_store, version_of
from nanoclaw.start.secrets_file import SecretSetting, SettingsOfPlugin, all_secrets, hidden_values

BUILT_IN: dict[str, str] = {
    "basics": "nanoclaw.plugins.basics.plugin:Basics",
    "compaction": "nanoclaw.plugins.compaction.plugin:Compaction",
    "page": "nanoclaw.plugins.page.plugin:Page",
    "chat_apps": "nanoclaw.plugins.chat_apps.plugin:ChatApps",
    "services": "nanoclaw.plugins.services.plugin:Services",
    "access": "nanoclaw.plugins.access.plugin:Access",
    "incognito": "nanoclaw.plugins.incognito.plugin:Incognito",
    "plan": "nanoclaw.plugins.plan.plugin:Plan",
    "card": "nanoclaw.plugins.card.plugin:PlanCard",
    "schedule": "nanoclaw.plugins.schedule.plugin:Schedule",
    "heartbeat": "nanoclaw.plugins.heartbeat.plugin:Heartbeat",
    "projects": "nanoclaw.plugins.projects.plugin:Projects",
    "memory": "nanoclaw.plugins.memory.plugin:Memory",
    "review": "nanoclaw.plugins.review.plugin:Review",
    "approvals": "nanoclaw.plugins.approvals.plugin:Approvals",
    "skills": "nanoclaw.plugins.skills.plugin:Skills",
    "media": "nanoclaw.plugins.media.plugin:Media",
    "files": "nanoclaw.plugins.files.plugin:Files",
    "sandbox": "nanoclaw.plugins.sandbox.plugin:Sandbox",
    "shell": "nanoclaw.plugins.shell.plugin:Shell",
    "taint": "nanoclaw.plugins.taint.plugin:Taint",
    "web": "nanoclaw.plugins.web.plugin:Web",
    "mcp": "nanoclaw.plugins.mcp.plugin:Mcp",
    "browse": "nanoclaw.plugins.browse.plugin:Browse",
    "knowledge": "nanoclaw.plugins.knowledge.plugin:Knowledge",
    "question": "nanoclaw.plugins.question.plugin:Choices",
    "todo": "nanoclaw.plugins.todo.plugin:Todo",
    "message": "nanoclaw.plugins.message.plugin:Messages",
    "calendar": "nanoclaw.plugins.calendar.plugin:Calendar",
    "mailbox": "nanoclaw.plugins.mailbox.plugin:OwnersMailbox",
    "send": "nanoclaw.plugins.send.plugin:Send",
    "health": "nanoclaw.plugins.health.plugin:Health",
    "delegate": "nanoclaw.plugins.delegate.plugin:Delegate",
    "tool_search": "nanoclaw.plugins.tool_search.plugin:ToolSearch",
    "rules": "nanoclaw.plugins.rules.plugin:Rules",
    "undo": "nanoclaw.plugins.undo.plugin:Undo",
    "forget": "nanoclaw.plugins.forget.plugin:Forget",
    "budget": "nanoclaw.plugins.budget.plugin:Budget",
    "inspect": "nanoclaw.plugins.inspect.plugin:Inspect",
    "backup": "nanoclaw.plugins.backup.plugin:Backup",
    "importer": "nanoclaw.plugins.importer.plugin:Importer",
    "claims": "nanoclaw.plugins.claims.plugin:Claims",
    "service": "nanoclaw.plugins.service.plugin:GatewayService",
    "attention": "nanoclaw.plugins.attention.plugin:Attention",
    "conversations": "nanoclaw.plugins.conversations.plugin:ListOfConversations",
    "silence": "nanoclaw.plugins.silence.plugin:Silence",
    "voice": "nanoclaw.plugins.voice.plugin:Voice",
    "redact": "nanoclaw.plugins.redact.plugin:Redact",
}
"""The built-in plugins, in the order of every chain. Removing a line and its folder removes the capability."""

_ALIKE = {one: one for one in ("mailbox", "knowledge", "health", "voice")}
FOR_SETTINGS = {"calendar": "agenda", "attention": "inbox", **_ALIKE}  # with a command; where config.toml names them

NARROWED = (
    *("on_message", "before_turn", "make_room", "before_model", "after_model", "stream", "before_tool"),
    *("after_tool", "before_answer", "on_end"),
)
"""Hooks that a plugin may limit in its `hears`."""

_KNOWN = {name for name in dir(Plugin) if not name.startswith("_")} | {"name", "seconds"}

LAST = "redact"  # third-party plugins stand before it


def build(
    config: Config,
    *,
    provider: Provider | Sequence[Provider] | Models | None = None,
    channels: Iterable[Channel] | None = (),
    clock: Callable[[], datetime] | None = None,
    plugins: Iterable[str | type[Plugin]] | None = None,
    without: Collection[str] = (),
    model: str = "",
    forced: bool = False,
    state: Path | None = None,
) -> App:
    """The program, ready to run; it owns the home until `aclose`.

    `provider` answers in place of the configured models (the first of several is the usual one, /model finds the others
    by name). `channels` are those of this process; None: the chat apps of the configuration, as a gateway has them.
    `plugins` are names of built-in ones and classes of others; None: all that the configuration says. `without` names
    some that are left out. `model` is used where a conversation has not chosen its own, and everywhere when `forced`.
    `state` is a copy of the store to work on, so that nothing is changed and a running process is not disturbed. Raises
    NanoclawError if it cannot start.
    """
    left_out = dict[str, str]()
    kinds = checked(config, plugins, without, left_out.__setitem__)
    homes.make_home(config)
    store = open_store(state or config.home / "state.db", plugins=kinds)
    try:
        app = App(_settings_of_core(config), config, store, clock or config.clock())
        app.left_out = left_out
        app.chat_apps = chat_apps.tables(config)
        app.redact.add(*hidden_values(secret_settings(config, kinds)))
        start_logging(config, app.redact)
        if state is None:
            homes.check_writable(config.workspace_path)
            remove_drafts(homes.places_of_drafts(config, store))
            for one in FOR_SETTINGS.keys() - _names(config):  # derived by a plugin whose table was taken out
                (config.home / "plugins" / one / "index.db").unlink(missing_ok=True)
        app.is_gateway = channels is None
        app.plug(_made(app, kinds))
        app.assemble(_models(app, provider, model, forced), channels or ())
        _check_sections(app)
    except BaseException:
        store.close()
        raise
    return app


def _settings_of_core(config: Config) -> AppSettings:
    model, limits = config.model, config.limits
    off = [name for name, wanted in config.context.sections.items() if not wanted]
    lacks = FOR_SETTINGS.keys() - {*_names(config)}
    return AppSettings(
        config.home,
        config.workspace_path,
        homes.shipped("workspace_template"),
        config.reach,
        off,
        Limits(model.output_tokens, model.timeout_seconds, limits.rounds, seconds=limits.turn_seconds),
        config.session.queue,
        config.problem,
        partial(change_settings, config),
        {FOR_SETTINGS[one]: f"; a table [{one}] in config.toml brings it." for one in lacks},
    )


# --- plugins ---------------------------------------------------------------------------------------------------------


def classes(
    config: Config,
    plugins: Iterable[str | type[Plugin]] | None = None,
    without: frozenset[str] = frozenset(),
    tell: Callable[[str, str], object] = lambda name, why: None,
) -> list[type[Plugin]]:
    """The classes of the plugins that run, in the order of their chain. `tell` is told which enabled ones are left out,
    and why."""
    off = without | set(config.plugins.off)
    for name in off - BUILT_IN.keys() - set(config.plugins.enabled):
        from nanoclaw.start.third_party import available

        if name not in (known := [*BUILT_IN, *(one for one, _ in available(config))]):
            raise ConfigError(f"there is no plugin {name!r} to leave out{near(name, known)}")
    wanted = None if plugins is None else list(plugins)
    names = _names(config) if wanted is None else [name for name in BUILT_IN if name in wanted]
    found = [_built_in(name) for name in names if name not in off]
    third_party = [one for one in wanted or () if not isinstance(one, str)]
    if unknown := [one for one in wanted or () if isinstance(one, str) and one not in BUILT_IN]:
        raise ConfigError(f"there is no built-in plugin {unknown[0]!r}; there are {', '.join(BUILT_IN)}.")
    if wanted is None and config.plugins.enabled:
        from nanoclaw.start.third_party import NotPinned, load

        for name in (one for one in config.plugins.enabled if one not in BUILT_IN):
            try:
                third_party += [] if name in off else [load(config, name)]
            except NotPinned as error:
                if config.plugins.unpinned == "stop":
                    raise ConfigError(f"{error} nanoclaw --without {name} starts without it.") from error
                tell(name, str(error))
    for one in (*found, *third_party):
        for name in _unknown_hooks(one):
            raise ConfigError(
                f"the plugin {one.name} has {name!r}, which Plugin does not have: a misspelt hook would never be "
                f"called. Its own names begin with “_”. nanoclaw --without {one.name} starts without it."
            )
        for name in _hooks_of_another_kind(one):
            raise ConfigError(
                f"{name!r} of the plugin {one.name} is `def` where Plugin has `async def`, or the other way round, so "
                f"it would never be called. nanoclaw --without {one.name} starts without it."
            )
    return [*(one for one in found if one.name != LAST), *third_party, *(one for one in found if one.name == LAST)]


def _names(config: Config) -> list[str]:
    return [name for name in BUILT_IN if name not in FOR_SETTINGS or name in (*config.table, *config.plugins.enabled)]


def _built_in(name: str) -> type[Plugin]:
    module, _, kind = BUILT_IN[name].partition(":")
    return getattr(import_module(module), kind)  # type: ignore[no-any-return]


def prefix_of(one: type[Plugin]) -> str:
    """The table of config.toml that has a plugin's settings."""
    return one.name if one.name in BUILT_IN else f"plugins.{one.name}"


def checked(
    config: Config,
    plugins: Iterable[str | type[Plugin]] | None = None,
    without: Collection[str] = (),
    tell: Callable[[str, str], object] = lambda name, why: None,
) -> list[type[Plugin]]:
    """The classes of the plugins that run, after a check that every setting is known and valid. Raises ConfigError."""
    kinds = classes(config, plugins, frozenset(without), tell)
    try:
        homes.check_folders(config)
    except ConfigError as error:
        raise ConfigError(f"{config.file}: {error}") from error
    config.clock()
    if config.table:
        _check_keys(config, kinds)
    for one in kinds:
        if one.settings:
            _check(config, _settings(config, one))
    for table in chat_apps.tables(config).values():
        for one in kinds:
            if one.channel_settings:
                _check(config, config.settings(one.channel_settings, f"channels.{table.name}"), table)
    return kinds


def change_settings(config: Config, changes: Mapping[str, Any]) -> Path | None:
    """Write settings that are valid; see `change`."""
    from nanoclaw.start.change_settings import change

    return change(checked, config, changes)


def _unknown_hooks(kind: type[Plugin]) -> Iterator[str]:
    """Public names of a class that Plugin doesn't have: a misspelt hook would never be called. Those of `hears` too."""
    for part in kind.__mro__:
        if part not in (Plugin, object):
            yield from (name for name in vars(part) if name not in _KNOWN and not name.startswith("_"))
    yield from (name for name in kind.hears if name not in NARROWED)


def _hooks_of_another_kind(kind: type[Plugin]) -> Iterator[str]:
    """Methods that are `async def` where Plugin has `def`, or the other way round: they would never be called."""
    for name, own in vars(kind).items():
        expected = vars(Plugin).get(name)
        if hasattr(expected, "__code__") and hasattr(own, "__code__") and _is_async(own) != _is_async(expected):
            yield name


def _is_async(function: Any) -> bool:
    return bool(function.__code__.co_flags & 0x80)  # CO_COROUTINE of the module inspect, which is dear to import


def _settings(config: Config, one: type[Plugin]) -> Any:
    return config.settings(one.settings, prefix_of(one), one.keys) if one.settings else None


def _check(config: Config, settings: Any, *about: ChannelTable) -> None:
    """Let settings that have a `check` say what is wrong with them."""
    try:
        if check := getattr(settings, "check", None):
            check(*about)
    except ConfigError as error:
        raise ConfigError(f"{config.file}: {error}") from error


def _check_keys(config: Config, kinds: Sequence[type[Plugin]]) -> None:
    """Raises ConfigError for a key that nobody owns."""
    for name in config.idle_plugins:
        import difflib

        if name in BUILT_IN:
            raise ConfigError(f"{config.file}: {name} is a built-in plugin: its settings are in [{name}].")
        if like := difflib.get_close_matches(name, config.plugins.enabled, 1, 0.7):
            raise ConfigError(f"{config.file}: unknown key 'plugins.{name}'; did you mean 'plugins.{like[0]}'?")
    off = [_built_in(name) for name in _names(config) if name not in {one.name for one in kinds}]
    owned = [key for one in (*kinds, *off) for key in owned_keys(one.settings, prefix_of(one), one.keys)]
    for prefix, table in ((f"channels.{name}", one) for name, one in chat_apps.tables(config).items()):
        owned += owned_keys(table.spec.settings, prefix) or [f"{prefix}.*"]
        owned += [key for one in (*kinds, *off) for key in owned_keys(one.channel_settings, prefix)]
    idle = [*config.idle_plugins, *(name for name in config.plugins.enabled if name not in {one.name for one in kinds})]
    absent = [*(f"channels.{name}" for name in chat_apps.BUILT_IN), *(f"{name}.*" for name in FOR_SETTINGS)]
    config.check([*owned, *absent, *(f"plugins.{name}.*" for name in idle)])


def _check_sections(app: App) -> None:
    """Raises ConfigError for a section that is switched off or on, and is nobody's."""
    unknown = [name for name in app.config.context.sections if name not in (*IDS, *BUILT_IN)]
    known = [*IDS, *(section.id for _, section in app.chain.sections("", PERSON))] if unknown else []
    for name in unknown:
        if name not in known:
            ids = ", ".join(dict.fromkeys(known))
            raise ConfigError(f"{app.config.file}: context.sections has no section {name!r}; known: {ids}.")


def _made(app: App, kinds: Sequence[type[Plugin]]) -> list[Plugin]:
    """The plugins, in the order of `kinds`; those that others need are made first."""
    made: dict[str, Plugin] = {}
    in_turn = _by_need(kinds)
    bring_up(app.store, in_turn)
    for one in in_turn:
        try:
            made[one.name] = one(PluginHost(app, one.name), _settings(app.config, one))
        except NanoclawError:
            raise
        except Exception as error:
            if one.name in BUILT_IN:
                raise
            raise ConfigError(
                f"the plugin {one.name} cannot be made: {type(error).__name__}: {error}. "
                f"nanoclaw --without {one.name} starts without it."
            ) from error
        app.by_name[one.name] = made[one.name]
    return [made[one.name] for one in kinds]


def _by_need(kinds: Sequence[type[Plugin]]) -> list[type[Plugin]]:
    """The same, each after those that it needs."""
    left, done = list(kinds), list[type[Plugin]]()
    there = {one.name for one in kinds}
    while left:
        known = {one.name for one in done}
        ready = [one for one in left if all(name in known or name not in there for name in one.needs)]
        if not ready:
            names = [one.name for one in left]
            raise ConfigError(f"the plugins {', '.join(names)} need each other; nanoclaw --without {names[0]} starts.")
        done.append(ready[0])
        left.remove(ready[0])
    return done


def bring_up(store: Store, plugins: Iterable[type[Plugin]]) -> None:
    """Bring the own tables of plugins to their newest versions in one transaction, so that a first start waits for the
    disk once. Raises ConfigError, with all steps before the one that cannot be made done, and StoreError."""
    behind = [(one, version) for one in plugins if (version := version_of(store.db, one.name)) != len(one.migrations)]
    failed: ConfigError | None = None
    if behind:
        with store.transaction() as db:
            try:
                for one, version in behind:
                    _bring_up(db, one, version)
            except ConfigError as error:
                failed = error
    if failed:
        raise failed


def _bring_up(db: sqlite3.Connection, one: type[Plugin], version: int) -> None:
    if version > len(one.migrations):
        raise ConfigError(f"the tables of the plugin {one.name} come from a newer version of it: install that again.")
    for number, sql in enumerate(one.migrations[version:], version + 1):
        db.execute("SAVEPOINT step")
        try:
            for statement in _statements(sql):
                db.execute(statement)
            note_version(db, one.name, number)
        except sqlite3.Error as error:
            if not db.in_transaction:  # a full disk has rolled all of it back
                raise
            db.execute("ROLLBACK TO step")
            raise ConfigError(
                f"step {number} of the tables of the plugin {one.name} cannot be made: {error}. "
                f"nanoclaw --without {one.name} starts without it."
            ) from error
        db.execute("RELEASE step")


def _statements(sql: str) -> list[str]:
    """The statements of a migration: `executescript` would end the transaction."""
    found, begun = list[str](), ""
    for part in sql.split(";"):
        begun += f"{part};"
        if sqlite3.complete_statement(begun):
            if begun.strip(" \n;"):
                found.append(begun)
            begun = ""
    return found


# --- models, secrets -------------------------------------------------------------------------------------------------


def _models(app: App, provider: Provider | Sequence[Provider] | Models | None, model: str, forced: bool) -> Models:
    if isinstance(provider, Models):
        return provider
    from nanoclaw.providers.choose import ConfiguredModels, GivenModels

    if provider is None:
        brought = {name: make for one in app.chain.plugins for name, make in one.providers().items()}
        return ConfiguredModels(app.config, model, forced, ModelFacts(app.store), brought)
    given = list(provider) if isinstance(provider, Sequence) else [provider]
    return GivenModels(given, ModelFacts(app.store), app.config)


class ModelFacts:
    """Facts learned while talking to a model, so that a refusal is met once and not at each start. Names are those that
    people use."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def abilities(self, name: str) -> Abilities:
        found = self._store.rows("SELECT sees_images, calls_tools, takes_schema FROM models WHERE name = ?", name)
        sees, calls, takes = (can != 0 for can in (found[0] if found else (None, None, None)))
        return Abilities(sees, calls, takes, partial(self.lacks, name))

    def lacks(self, name: str, ability: Ability) -> None:
        self._learn(ability, name, 0)

    def window(self, name: str) -> int | None:
        """Tokens that a request and its answer may have together; None if unknown."""
        found = self._store.rows("SELECT window_tokens FROM models WHERE name = ?", name)
        return found[0][0] if found else None

    def learned_window(self, name: str, tokens: int) -> None:
        """Store a window; the newest counts, as a server may be restarted with another one."""
        if tokens > 0:
            self._learn("window_tokens", name, tokens)

    def forget_window(self, name: str) -> bool:
        """Forget a window. True if one was known. Abilities that were refused are tried again after the next start."""
        known = self.window(name) is not None
        sql = "UPDATE models SET window_tokens = NULL, calls_tools = NULL, takes_schema = NULL WHERE name = ?"
        if known or not all(self.abilities(name)[1:3]):
            with self._store.transaction() as db:
                db.execute(sql, (name,))
        return known

    def _learn(self, column: str, name: str, value: int) -> None:
        with self._store.transaction() as db:
            sql = (
                f"INSERT INTO models (name, {column}) VALUES (?, ?)"
                f" ON CONFLICT (name) DO UPDATE SET {column} = excluded.{column}"
            )
            db.execute(sql, (name, value))


def secret_settings(config: Config, kinds: Sequence[type[Plugin]]) -> list[SecretSetting]:
    """All secret settings: of the models, of these plugins, of the channels, and the variables with keys."""
    settings = [SettingsOfPlugin(one, prefix_of(one), _settings(config, one)) for one in kinds]
    return all_secrets(config, settings, chat_apps.tables(config).values())


def start_logging(config: Config, redact: Callable[[str], str]) -> None:
    log.start(config.home / "logs", redact)
