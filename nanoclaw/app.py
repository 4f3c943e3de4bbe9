"""Builds every object from Config and owns their lifetime; the only module that knows all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nanoclaw import __version__
from nanoclaw.agent import xray
from nanoclaw.agent.assistant import Assistant
from nanoclaw.agent.context import ContextBuilder, recent_talk
from nanoclaw.agent.delivery import Delivery
from nanoclaw.agent.manifest import Manifest, manifest
from nanoclaw.agent.sections import IDS, Extension, Mode
from nanoclaw.agent.tokens import Calibration
from nanoclaw.channels.base import Channel
from nanoclaw.config import Config
from nanoclaw.errors import ConfigError, StoreError, WorkspaceError
from nanoclaw.events import Event
from nanoclaw.guard.escapes import plain
from nanoclaw.guard.redact import Redactor, clean_environment
from nanoclaw.messages import Address, Image, Limits, ModelRequest, SystemPrompt, Usage, UserMessage
from nanoclaw.providers.base import Provider, chat_tools
from nanoclaw.schedule.clock import Clock, clock
from nanoclaw.store.db import Store
from nanoclaw.store.inbox import Inbox
from nanoclaw.store.outbox import Outbox
from nanoclaw.store.sessions import Sessions, last_turn, session_of
from nanoclaw.store.usage import lessons
from nanoclaw.tools.base import Tool, Toolbox
from nanoclaw.tools.files import file_tools
from nanoclaw.tools.forgetting import Forgetter, forget_tool, memory_command
from nanoclaw.tools.kept import kept
from nanoclaw.tools.memory import memory_tools
from nanoclaw.tools.shell import shell_tools
from nanoclaw.workspace import bootstrap, documents
from nanoclaw.workspace.changes import Changes
from nanoclaw.workspace.notes import MemoryStore
from nanoclaw.workspace.paths import Workspace
from nanoclaw.workspace.search import NoteSearch
from nanoclaw.workspace.skills import Means, Skill, survey

LOCAL = "local/"
_SECRET_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_KEYS = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-5",
    "OPENAI_API_KEY": "openai/gpt-5",
    "OPENROUTER_API_KEY": "openrouter/anthropic/claude-sonnet-4.5",
}


class App:
    """The running assistant, serving one channel."""

    def __init__(self, config: Config, channel: Channel, address: Address, model: str, *, forced: bool = False) -> None:
        """`model` is used where a conversation has not chosen its own, and everywhere when `forced`.

        Raises NanoclawError for what cannot start.
        """
        make_home(config)
        start_logging(config)
        self.store = Store(config.home / "state.db")
        self._providers = Providers(config, model, forced)
        self._channel, self._address = channel, address
        now = person_clock(config)
        workspace = Workspace(config.workspace_path)
        workspace.check_writable()
        self._sessions = sessions = Sessions(self.store, now)
        changes = memory_changes(config, now)
        self._notes = notes = note_search(config, now)
        forgetter = make_forgetter(config, now, self.store, sessions, notes)
        tools = all_tools(config, workspace, now, forgetter, notes)
        outbox = Outbox(self.store, now, lambda: random.uniform(0.8, 1.2))
        self.delivery = Delivery(outbox, [channel], now, self._is_served)
        self.assistant = Assistant(
            sessions=sessions,
            inbox=Inbox(self.store, now),
            delivery=self.delivery,
            builder=context_builder(config, tools, now, notes),
            toolbox=Toolbox(tools, now, cleaner(config)),
            provider_for=self._providers.of,
            show=self._show,
            status=lambda: f"nanoclaw {__version__}\nHome: {config.home}\nWorkspace: {workspace.root}",
            clock=now,
            rounds=config.limits.rounds,
            limits=Limits(config.model.output_tokens, config.model.timeout_seconds),
            memory_command=partial(memory_command, changes, forgetter),
            search=notes.search,
            cost=_price,
            calibration=Calibration(partial(lessons, self.store)),
            skills=lambda: survey(skill_folders(config), skill_means(config, tools)),
        )

    def check_model(self) -> None:
        """Raises ConfigError when the conversation's model cannot be asked as things are."""
        self._providers.of(self._sessions.of(self._address).model)

    async def run(self) -> None:
        """Serve the channel until it is done; a cancelled run ends what it was doing as the person's own stop."""
        self.assistant.resume(self._is_served)
        delivering = asyncio.create_task(self.delivery.run())
        serving = asyncio.create_task(self._channel.run(self.assistant.deliver))
        try:
            await asyncio.wait([serving, delivering], return_when=asyncio.FIRST_COMPLETED)
            for task in (serving, delivering):
                if task.done():
                    task.result()
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving
            await self.assistant.close()
            delivering.cancel()
            await asyncio.gather(delivering, return_exceptions=True)
            await self.delivery.flush(self._channel.name)

    async def aclose(self) -> None:
        await self._providers.aclose()
        self._notes.close()
        self.store.close()

    def _show(self, address: Address, event: Event) -> None:
        if address.channel == self._channel.name:
            self._channel.show(address, event)

    def _is_served(self, address: Address) -> bool:
        return address == self._address


@asynccontextmanager
async def open_app(
    config: Config, channel: Channel, address: Address, model: str, *, forced: bool = False
) -> AsyncIterator[App]:
    app = App(config, channel, address, model, forced=forced)
    try:
        yield app
    finally:
        await app.aclose()


class Providers:
    """One provider per model, made when first asked for."""

    def __init__(self, config: Config, model: str, forced: bool) -> None:
        self._config, self._model, self._forced = config, model, forced
        self._made: dict[str, Provider] = {}

    def of(self, model: str) -> Provider:
        """Raises ConfigError for a model that cannot be used as things are. '' is the configured one."""
        name = self._model if self._forced else model or self._model
        if name not in self._made:
            self._made[name] = make_provider(self._config, name)
        return self._made[name]

    async def aclose(self) -> None:
        await asyncio.gather(*(provider.aclose() for provider in self._made.values()))


def make_provider(config: Config, name: str) -> Provider:
    """The provider of a model; raises ConfigError when the name, the key or the file is missing."""
    if name.startswith(LOCAL):
        from nanoclaw.providers import catalogue
        from nanoclaw.providers.local import LocalProvider

        return LocalProvider(name, catalogue.locate(name, models_folder(config)), config.home / "models" / "state")
    from nanoclaw.providers.names import provider_for

    model = config.model
    # the address and the key in the config belong to the model beside them, not to another one chosen later
    same_service = name.partition("/")[0] == model.name.partition("/")[0]
    return provider_for(
        name,
        model.api_base if same_service else "",
        model.api_key if same_service else "",
        config.environment,
        tool_mode="json" if model.tool_mode == "json" else "native",
    )


def _price(model: str, usage: Usage) -> str:
    from nanoclaw.providers import prices

    return prices.in_words(model, usage)


async def choose_model(config: Config, wanted: str = "") -> str:
    """The wanted model, else the configured one, else what already runs or lies on this machine.

    Raises ConfigError, saying how to get one, when there is none.
    """
    if wanted or config.model.name:
        return wanted or config.model.name
    if config.model.api_base:
        raise ConfigError(f'{config.file} has model.api_base but no model.name: add name = "openai/MODEL"')
    from nanoclaw.providers import catalogue
    from nanoclaw.providers.names import detect_local_server

    if found := await detect_local_server():
        return found.model
    if here := catalogue.installed(models_folder(config)):
        best = catalogue.recommended().name
        return LOCAL + next((model.name for model in here if model.name == best), here[0].name)
    key = next((name for name in _KEYS if config.environment.get(name)), "")
    raise ConfigError(
        "no model is configured, and none runs on this machine.\n"
        + (f"  {key} is set, so: nanoclaw init --model {_KEYS[key]}\n" if key else "")
        + "  With a provider's key: nanoclaw init --model openai/gpt-5 (and set OPENAI_API_KEY)\n"
        "  Without any key, on this machine: nanoclaw local pull"
    )


async def has_model(config: Config) -> bool:
    try:
        return bool(await choose_model(config))
    except ConfigError:
        return False


def greeting(config: Config, model: str, first: bool) -> str:
    """What the terminal says at its start."""
    lines = [f"nanoclaw {__version__} · {model} · /help"]
    if first:
        lines.append(f"New here: your workspace is {config.workspace_path}.")
    if model.startswith(LOCAL) and first:
        lines.append(
            "This is a small offline model: good for notes, files and short commands, slow on long ones, and often "
            "wrong about the world.\nFor a better one: nanoclaw init --model openai/gpt-5 (or anthropic/…, ollama/…; "
            "see the README)."
        )
    return "\n".join(lines)


def checks(config: Config) -> Iterator[tuple[str, Callable[[], str]]]:
    """What `nanoclaw doctor` looks at: a name, and a check that returns what it found or raises NanoclawError."""

    def workspace() -> str:
        make_home(config)
        Workspace(config.workspace_path).check_writable()
        return str(config.workspace_path)

    def store() -> str:
        path = config.home / "state.db"
        if not path.exists():
            return "none yet"
        opened = Store(path, read_only=True)
        try:
            verdict = opened.rows("PRAGMA quick_check")[0][0]
        finally:
            opened.close()
        if verdict != "ok":
            raise StoreError(f"{path} is damaged: {verdict}")
        return str(path)

    def model() -> str:
        async def ask() -> str:
            name = await choose_model(config)
            provider = make_provider(config, name)
            try:
                hello = UserMessage("Answer with one word: hello", person_clock(config)())
                answer = await provider.complete(ModelRequest(SystemPrompt(""), (hello,)), lambda event: None)
                return f"{name} answers: {' '.join(answer.text.split())[:60]!r}"
            finally:
                await provider.aclose()

        return asyncio.run(ask())

    yield "configuration", lambda: str(config.file) if config.file.exists() else "none, defaults"
    yield "time zone", lambda: f"{person_clock(config).name}, now {person_clock(config)():%Y-%m-%d %H:%M}"
    yield "workspace", workspace
    yield "store", store
    yield "model", model


def make_home(config: Config) -> list[str]:
    """The home folder, and at the very first run the workspace from its template. Returns the names of new files."""
    try:
        config.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise WorkspaceError(
            f"cannot make {config.home}: {error.strerror}. Check its permissions, or set NANOCLAW_HOME."
        ) from error
    if config.workspace_path.exists():
        return []
    return bootstrap.seed(config.workspace_path, shipped("workspace_template"))


def all_tools(
    config: Config,
    workspace: Workspace,
    now: Clock,
    forgetter: Forgetter | None = None,
    notes: NoteSearch | None = None,
) -> list[Tool]:
    notes = notes or note_search(config, now)
    environment = clean_environment(config.environment, secrets(config))
    tools = [
        *file_tools(workspace, read_roots=skill_folders(config)[1:], open_image=open_image),
        *shell_tools(workspace, environment, timeout_seconds=config.limits.exec_seconds),
        *memory_tools(MemoryStore(workspace, now), notes.search),
        *([forget_tool(forgetter)] if forgetter else []),
    ]
    return kept(tools, memory_changes(config, now))


def note_search(config: Config, now: Clock) -> NoteSearch:
    return NoteSearch(Workspace(config.workspace_path), config.home / "index.db", now)


def memory_changes(config: Config, now: Clock) -> Changes:
    """What was done to the memory files, to be undone."""
    return Changes(config.home / "undo", Workspace(config.workspace_path), now)


def make_forgetter(
    config: Config, now: Clock, store: Store | None, sessions: Sessions | None = None, notes: NoteSearch | None = None
) -> Forgetter:
    def drop_index() -> None:
        for path in config.home.glob("index.db*"):
            path.unlink(missing_ok=True)

    return Forgetter(
        config.home,
        memory_changes(config, now),
        now,
        search=(notes or note_search(config, now)).search,
        drop_index=drop_index,
        store=store,
        sessions=sessions,
    )


def context_builder(config: Config, tools: list[Tool], now: Clock, notes: NoteSearch) -> ContextBuilder:
    return ContextBuilder(
        config.workspace_path,
        template=shipped("workspace_template"),
        skill_folders=skill_folders(config),
        tools=frozenset(tool.spec.name for tool in tools),
        clock=now,
        zone=now.name,
        open_image=open_image,
        read_document=documents.read_document,
        recall=notes.recall,
        means=skill_means(config, tools),
        off=sections_off(config),
        extensions=section_extensions(config),
        file_limit=config.context.file_characters,
        total_limit=config.context.total_characters,
        document_limit=config.context.document_characters,
    )


def sections_off(config: Config) -> list[str]:
    """Ids of the sections that the config switches off. Raises ConfigError for an unknown one."""
    for name in config.context.sections:
        if name not in IDS:
            raise ConfigError(f"{config.file}: context.sections has no section {name!r}; known: {', '.join(IDS)}.")
    return [name for name, wanted in config.context.sections.items() if not wanted]


def section_extensions(config: Config) -> list[Extension]:
    """The functions that the config names, from installed packages' entry points "nanoclaw.sections"."""
    if not config.context.extensions:
        return []
    from importlib.metadata import entry_points

    found = {point.name: point for point in entry_points(group="nanoclaw.sections")}
    for name in config.context.extensions:
        if name not in found:
            known = f"installed: {', '.join(found)}" if found else "no package that is installed offers one"
            raise ConfigError(f"{config.file}: context.extensions names {name!r}; {known}.")
    return [found[name].load() for name in config.context.extensions]


@dataclass(frozen=True, slots=True)
class View:
    """A request as it would be sent, from the inside."""

    manifest: Manifest
    rows: list[xray.Row]
    remarks: list[str]
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]


def look_inside(config: Config, store: Store | None, session: str, message: str, mode: Mode) -> View:
    """What the model would see if `message` came into a conversation of the terminal now. Changes nothing."""
    now = person_clock(config)
    notes = note_search(config, now)
    workspace = Workspace(config.workspace_path)
    tools = all_tools(config, workspace, now, make_forgetter(config, now, store, notes=notes), notes)
    builder = context_builder(config, tools, now, notes)
    specs = tuple(tool.spec for tool in tools)
    address = Address("terminal", session)
    stored, history = session_of(store, str(address)) if store and mode == "full" else (None, [])
    if mode == "full":
        opening, late = builder.reopen(stored, message, recent_talk(history))
    else:
        opening, late = builder.open(message, mode), ()
    made_of = manifest(mode, builder.sections(mode, opening), opening, late, specs)
    new = builder.user_messages(message, channel=address.channel, chat_id=session, sender="owner", notes=late)
    messages = builder.build_messages(
        history, message, (), address.channel, session, sender="owner", mode=mode, opening=opening, notes=late
    )
    last = xray.past(last_turn(store, str(address))) if store else None
    shown = xray.rows(made_of, history, new)
    return View(made_of, shown, xray.remarks(made_of, last), messages, chat_tools(specs))


def person_clock(config: Config) -> Clock:
    return clock(config.person.timezone, config.environment)


def skill_folders(config: Config) -> list[Path]:
    """In order of precedence; the first is the workspace's."""
    extra = [config.home / Path(folder).expanduser() for folder in config.skills.folders]
    return [config.workspace_path / "skills", config.home / "skills", *extra, shipped("skills")]


def skill_means(config: Config, tools: list[Tool]) -> Means:
    """What skills can count on in this run."""
    names = frozenset(tool.spec.name for tool in tools)
    return Means(names, lambda name: setting(config, name), config.environment)


def skills_found(config: Config) -> list[tuple[Skill, str]]:
    """All skills, each with its source: workspace, home, shipped, or a folder of the config."""
    folders = skill_folders(config)
    names = ["workspace", "home", *map(str, folders[2:-1]), "shipped"]
    sources = dict(zip(reversed(folders), reversed(names), strict=True))
    tools = all_tools(config, Workspace(config.workspace_path), person_clock(config))
    return [(skill, sources[skill.folder.parent]) for skill in survey(folders, skill_means(config, tools))]


def setting(config: Config, name: str) -> object:
    """The value of a dotted key; None for an unknown one and for a table that is as it was shipped."""
    value: object = config
    for part in name.split("."):
        value = getattr(value, part) if part in getattr(value, "__dataclass_fields__", ()) else None
    is_table = is_dataclass(value) and not isinstance(value, type)
    return None if is_table and value == type(value)() else value


def open_image(source: bytes | Path, name: str) -> Image:
    from nanoclaw.providers import images

    return images.open_image(source, name)


def shipped(name: str) -> Path:
    """A folder that comes with the program: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).parent
    inside = package / "shipped" / name
    return inside if inside.is_dir() else package.parent / name


def models_folder(config: Config) -> Path:
    return config.home / "models"


def secrets(config: Config) -> tuple[str, ...]:
    """Values that must never show: keys in the config and in the environment."""
    named = (value for name, value in config.environment.items() if name.upper().endswith(_SECRET_ENDINGS))
    return tuple(value for value in (config.model.api_key, config.channels.telegram.token, *named) if len(value) >= 8)


def cleaner(config: Config) -> Callable[[str], str]:
    """What every tool result goes through: no secret, no control character."""
    redact = Redactor(secrets(config))
    return lambda text: redact(plain(text))


def start_logging(config: Config) -> None:
    from nanoclaw import log

    log.start(config.home / "logs", Redactor(secrets(config)))
