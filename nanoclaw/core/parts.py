"""The parts that the assistant is built of, each made from the configuration."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nanoclaw.core import bootstrap
from nanoclaw.core.channel import Hints
from nanoclaw.core.clock import Clock, clock
from nanoclaw.core.commands import Answer, Said
from nanoclaw.core.config import ChannelTable, Config
from nanoclaw.core.context import ContextBuilder
from nanoclaw.core.errors import ConfigError, ImageError, WorkspaceError
from nanoclaw.core.messages import Address, Image, Usage
from nanoclaw.core.redact import Redactor, clean_environment
from nanoclaw.core.sections import IDS, Extension
from nanoclaw.core.store.audit import Ledger
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.flags import Flags
from nanoclaw.core.store.inbox import Inbox
from nanoclaw.core.store.sessions import Sessions
from nanoclaw.core.tool import Tool
from nanoclaw.core.workspace import Workspace
from nanoclaw.documents import documents
from nanoclaw.escapes import plain
from nanoclaw.plugins.access.access import creator
from nanoclaw.plugins.budget.budget import Budget, SpendingLimits
from nanoclaw.plugins.files.tools import file_tools
from nanoclaw.plugins.forget.forgetting import Forgetter, forget_tool
from nanoclaw.plugins.heartbeat import hours
from nanoclaw.plugins.media.replies import CAPABILITY as MEDIA
from nanoclaw.plugins.memory.notes import MemoryStore
from nanoclaw.plugins.memory.search import NoteSearch
from nanoclaw.plugins.memory.tools import memory_tools
from nanoclaw.plugins.message.tools import Post, message_tool
from nanoclaw.plugins.rules.pins import Pins
from nanoclaw.plugins.schedule.job_service import Commands as Faces
from nanoclaw.plugins.schedule.job_service import Desk
from nanoclaw.plugins.schedule.jobs import Jobs
from nanoclaw.plugins.schedule.tools import CAPABILITY as SCHEDULE
from nanoclaw.plugins.schedule.tools import schedule_tools
from nanoclaw.plugins.shell.tools import shell_tools
from nanoclaw.plugins.skills.skills import Means
from nanoclaw.plugins.undo.changes import Changes
from nanoclaw.plugins.undo.kept import kept

if TYPE_CHECKING:
    from nanoclaw.plugins.heartbeat.probe import Watched

_SECRET_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


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
    lock = os.open(config.home, os.O_RDONLY)
    try:
        with suppress(OSError):  # a network drive may not know locks
            fcntl.flock(lock, fcntl.LOCK_EX)  # of several first runs one makes it
        return (
            []
            if config.workspace_path.exists()
            else bootstrap.seed(config.workspace_path, shipped("workspace_template"))
        )
    finally:
        os.close(lock)


@contextmanager
def stored(config: Config, how: Literal["read", "beside", "own"] = "read") -> Iterator[Store | None]:
    """The store, None before there is one: only to be read, to be written beside whoever owns it, or as its owner."""
    path = config.home / "state.db"
    if not path.exists():
        yield None
        return
    store = Store(path, read_only=how == "read", beside=how == "beside")
    try:
        yield store
    finally:
        store.close()


def places_of_drafts(config: Config, store: Store) -> Iterator[Path]:
    """Folders where a crash may have left drafts: in the middle of a turn, all of the workspace."""
    yield from (config.home, config.home / "undo")
    if Inbox(store, person_clock(config)).open_turns():
        yield from (Path(folder) for folder, _, _ in os.walk(config.workspace_path))
    else:
        media = Workspace(config.workspace_path).media
        yield from (config.workspace_path, config.workspace_path / "memory", *media.glob("*/"))


def all_tools(
    config: Config,
    workspace: Workspace,
    now: Clock,
    forgetter: Forgetter | None = None,
    notes: NoteSearch | None = None,
    changes: Changes | None = None,
    desk: Desk | None = None,
    post: Post | None = None,
    attached: Callable[[int], Sequence[Path]] = lambda turn: (),
) -> list[Tool]:
    """Without `changes`, a `desk` and a `post` they are only to be looked at: what they did could not be undone."""
    notes = notes or note_search(config, now)
    environment = clean_environment(config.environment, secrets(config))
    tools = [
        *file_tools(workspace, open_image, skill_folders(config)[1:], attached),
        *shell_tools(workspace, environment, granted=granted(config), timeout_seconds=config.limits.exec_seconds),
        *memory_tools(MemoryStore(workspace, now), notes.search),
        *([forget_tool(forgetter)] if forgetter else []),
        *schedule_tools(desk),
        message_tool(post),
    ]
    return kept(tools, changes) if changes else tools


def job_commands(desk: Desk) -> dict[str, Answer]:
    """A guest's are about the guest's own conversation."""

    def face(said: Said) -> Faces:
        return Faces(desk.within(said.place) if said.role == "guest" else desk)

    def maker(said: Said) -> str:
        return creator(said.place, said.sender)

    return {
        "remind": lambda said: face(said).remind(said.argument, said.place, maker(said)),
        "jobs": lambda said: face(said).jobs(said.argument, said.place, maker(said)),
        "cron": lambda said: face(said).cron(said.argument, said.place, maker(said)),
    }


def for_guests(tools: Sequence[Tool]) -> list[Tool]:
    return [tool for tool in tools if tool.for_guests]


def cron_desk(config: Config, store: Store) -> Desk:
    """The jobs of a home that no process runs, or only to look at them."""
    now = person_clock(config)

    def is_known(address: Address) -> bool:
        return address.channel == "terminal" or setting(config, f"channels.{address.channel}") is not None

    return Desk(Jobs(store, Sessions(store, now), now), now, zone_name(now), is_known)


def zone_name(now: Clock) -> str:
    """The person's zone as jobs keep it; a machine's whose zone has no name counts in UTC."""
    return str(now.zone) if now.zone else "UTC"


def note_search(config: Config, now: Clock) -> NoteSearch:
    return NoteSearch(Workspace(config.workspace_path), config.home / "index.db", now)


def file_changes(config: Config, now: Clock, store: Store | None) -> Changes:
    """What was done to files, to be undone."""
    days, megabytes = config.undo.days, config.undo.megabytes
    ledger = Ledger(store, now) if store else None
    workspace = Workspace(config.workspace_path)
    return Changes(config.home / "undo", workspace, now, ledger, days=days, most_bytes=megabytes * 1_000_000)


def make_forgetter(
    config: Config, now: Clock, store: Store | None, sessions: Sessions | None = None, notes: NoteSearch | None = None
) -> Forgetter:
    def drop_index() -> None:
        for path in config.home.glob("index.db*"):
            path.unlink(missing_ok=True)

    return Forgetter(
        config.home,
        file_changes(config, now, store),
        now,
        search=(notes or note_search(config, now)).search,
        drop_index=drop_index,
        store=store,
        sessions=sessions,
    )


def context_builder(
    config: Config,
    tools: list[Tool],
    now: Clock,
    notes: NoteSearch,
    pins: Pins,
    hints: Callable[[str], Hints | None] = lambda channel: None,
) -> ContextBuilder:
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
        pins=pins.all,
        means=skill_means(config, tools),
        guest_tools=frozenset(tool.spec.name for tool in for_guests(tools)),
        guest_capabilities=[SCHEDULE],
        hints=hints,
        capabilities=[SCHEDULE, MEDIA, *hours.capability(config.heartbeat.every, config.heartbeat.active)],
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
    try:
        return [found[name].load() for name in config.context.extensions]
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{config.file}: a package of context.extensions cannot be loaded: {error}.") from None


def watched(config: Config, workspace: Workspace, refusal: Callable[[str], str] = lambda command: "") -> Watched:
    """How the heartbeat looks at things; commands get the environment that those of the model get."""
    from nanoclaw.plugins.heartbeat.probe import Watched  # a chat looks at nothing

    environment = {**clean_environment(config.environment, secrets(config)), **granted(config)}
    return Watched(
        workspace.root, environment, clean=cleaner(config), refusal=refusal, loopback=config.heartbeat.loopback
    )


def heartbeat_settings(config: Config) -> hours.Settings:
    """Raises ConfigError."""
    chosen = config.heartbeat
    return hours.settings(chosen.every, chosen.active, chosen.timezone, chosen.target)


def make_budget(config: Config, store: Store, flags: Flags, now: Clock) -> Budget:
    from nanoclaw.providers.choose import is_local

    def price(model: str, usage: Usage) -> float | None:
        from nanoclaw.providers import prices  # for those who set a limit, or ask

        return prices.cost(model, usage)

    def dollars(amount: float) -> str:
        from nanoclaw.providers import prices

        return prices.dollars(amount)

    limits = config.limits
    most = SpendingLimits(limits.day_usd, limits.month_usd, limits.heartbeat_share, limits.count_local)
    return Budget(store, flags, now, price, dollars, most, partial(is_local, config), config.model.fallback)


def person_clock(config: Config) -> Clock:
    return clock(config.person.timezone, config.environment)


def skill_folders(config: Config) -> list[Path]:
    """In order of precedence; the first is the workspace's."""
    extra = [config.home / Path(folder).expanduser() for folder in config.skills.folders]
    return [config.workspace_path / "skills", config.home / "skills", *extra, shipped("skills")]


def skill_means(config: Config, tools: list[Tool]) -> Means:
    """What skills can count on in this run."""
    names = frozenset(tool.spec.name for tool in tools)
    visible = clean_environment(config.environment, secrets(config)).keys() | granted(config).keys()
    return Means(names, lambda name: setting(config, name), config.environment, config.environment.keys() - visible)


def setting(config: Config, name: str) -> object:
    """The value of a dotted key; None for an unknown one and for a table that is as it was shipped."""
    value: object = config
    for part in name.split("."):
        if isinstance(value, ChannelTable):
            value = value.settings
        known = getattr(value, "_fields", getattr(value, "__dataclass_fields__", ()))
        value = value.get(part) if isinstance(value, Mapping) else getattr(value, part) if part in known else None
    if isinstance(value, ChannelTable):
        return value if value.is_configured else None
    is_table = is_dataclass(value) and not isinstance(value, type)
    return None if is_table and value == type(value)() else value


def open_image(source: bytes | Path, name: str) -> Image:
    from nanoclaw.pictures import pictures

    try:
        return Image(*pictures.open_picture(source, name))
    except pictures.PictureError as error:
        raise ImageError(str(error)) from None


def image_type(data: bytes) -> str:
    from nanoclaw.pictures import pictures

    return pictures.picture_type(data)


def shipped(name: str) -> Path:
    """A folder that comes with the program: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "shipped" / name
    return inside if inside.is_dir() else package.parent / name


def secrets(config: Config) -> tuple[str, ...]:
    """Values that must never show: keys in the config and in the environment."""
    named = (value for name, value in config.environment.items() if name.upper().endswith(_SECRET_ENDINGS))
    kept = (value for table in config.channels.values() for value in table.secrets)
    return tuple(value for value in (config.model.api_key, *kept, *named) if len(value) >= 8)


def granted(config: Config) -> dict[str, str]:
    """What commands get of the environment although it looks like a secret, since the person says so."""
    return {name: config.environment[name] for name in config.skills.environment if name in config.environment}


def cleaner(config: Config) -> Callable[[str], str]:
    """What every tool result goes through: no secret, no control character."""
    redact = Redactor(secrets(config))
    return lambda text: redact(plain(text))


def start_logging(config: Config) -> None:
    from nanoclaw.core import log

    log.start(config.home / "logs", Redactor(secrets(config)))
