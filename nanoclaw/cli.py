"""The commands: parse, call, print. Exit status: 0 done, 1 failed, 2 usage or configuration, 130 interrupted."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from nanoclaw import attach
from nanoclaw import config as configuration
from nanoclaw.config import Config
from nanoclaw.errors import ConfigError, NanoclawError, StoreBusy, StoreError
from nanoclaw.messages import Address, AssistantMessage, Attachment, Message, ToolResult, UserMessage
from nanoclaw.schedule.command import add_arguments as add_cron_arguments

if TYPE_CHECKING:
    from nanoclaw.app import App
    from nanoclaw.channels.base import Channel
    from nanoclaw.store.db import Store
    from nanoclaw.workspace.recall import Hit
    from nanoclaw.workspace.skills import Skill

_END_SECONDS = 4.0  # in which a gateway ends by itself
_BUSY_SECONDS = 2.0  # in which one that starts listens
_PATIENCE_SECONDS = 120.0  # in which one that answers once ends


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit status; nothing but a sentence reaches the person."""
    options = parser().parse_args(argv)
    try:
        home = configuration.home_of(os.environ)
        _finish_restore(home)
        config = Config(home) if options.without_config else configuration.load(os.environ)
        for warning in config.warnings:
            _say(warning)
        return int(options.command(config, options))
    except ConfigError as error:
        return _failed(options, error, 2)
    except NanoclawError as error:
        return _failed(options, error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def parser() -> argparse.ArgumentParser:
    top = _Parser(prog="nanoclaw", description="A personal assistant. Without a command: talk to it.")
    top.set_defaults(command=_chat, without_config=False)
    top.add_argument("-V", "--version", action="store_true", help="print the version")
    top.add_argument("-m", "--message", metavar="TEXT", help="answer once and end; '-' or a pipe reads stdin too")
    top.add_argument(
        *("--file", "--image"),
        dest="files",
        action="append",
        default=[],
        metavar="FILE",
        help="attach a picture, a PDF, a document (repeatable)",
    )
    top.add_argument("--session", type=_name, default="main", metavar="NAME", help="which conversation (default: main)")
    top.add_argument("--model", default="", metavar="PROVIDER/NAME", help="another model than the configured one")
    top.add_argument("--json", action="store_true", help="with -m: print one JSON object")
    commands = top.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, run: Callable[[Config, argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
        added.set_defaults(command=run)
        return added

    init = command("init", _init, "make the home and the workspace; nothing is ever overwritten")
    init.add_argument("--model", default="", metavar="PROVIDER/NAME", help="write it into a new config.toml")
    init.add_argument("--api-base", default="", metavar="URL", help="where an OpenAI-style server listens")
    status = command("status", _status, "what is configured, what runs, how much is stored")
    status.add_argument("--json", action="store_true")
    command("gateway", _gateway, "run channels and reminders until it is stopped; nanoclaw attaches to it")
    command("doctor", _doctor, "check the configuration, the workspace, the store and the model")

    saving = command("backup", _backup, "one archive of the home and the workspace, checked by restoring it")
    saving.add_argument("file", type=Path, metavar="FILE", help="a new file, such as nanoclaw.tar.gz")
    saving.add_argument("--with-secrets", action="store_true", help="secrets.env too")
    restoring = command("restore", _restore, "put a backup in place of what is there, which is kept aside")
    restoring.add_argument("file", type=Path, metavar="FILE")
    restoring.set_defaults(without_config=True)  # it may be what is damaged

    beat = command("heartbeat", _heartbeat, "look at HEARTBEAT.md now, and ask the model about what is due")
    beat.add_argument("--dry-run", action="store_true", help="only show what is due and why; no model is asked")

    jobs = command("cron", _cron, "reminders and tasks: when they are due, and all that can be done about them")
    add_cron_arguments(jobs)

    context = command("context", _context, "what the model would see, part by part and word by word")
    context.add_argument("--message", default="", metavar="TEXT", help="as if this were said next")
    context.add_argument("--mode", choices=("full", "minimal", "guest", "none"), default="full")
    context.add_argument("--session", type=_name, default="main", metavar="NAME")
    context.add_argument("--json", action="store_true")

    tokens = command("usage", _tokens, "how many tokens the models took, and what that costs")
    tokens.add_argument("--by", choices=("day", "model", "session", "origin"), default="day")
    tokens.add_argument("--days", type=_days, default=30, metavar="N", help="the last N days, today included")
    tokens.add_argument("--json", action="store_true")

    local = command("local", _local_list, "models that run on this machine, without a key")
    actions = local.add_subparsers(metavar="ACTION")
    actions.add_parser("list", help="the catalogue").set_defaults(command=_local_list)
    pull = actions.add_parser("pull", help="fetch a model; goes on where it was stopped")
    pull.add_argument("name", nargs="?", default="", help="default: the best one for this machine's memory")
    pull.add_argument("--if-needed", action="store_true", help="only when there is no model to talk to yet")
    pull.set_defaults(command=_local_pull)
    remove = actions.add_parser("remove", help="delete a model's file")
    remove.add_argument("name")
    remove.set_defaults(command=_local_remove)

    memory = command("memory", _memory_usage, "search the notes, or add to them")
    actions = memory.add_subparsers(metavar="ACTION")
    search = actions.add_parser("search", help="find notes and facts")
    search.add_argument("query", nargs="+")
    search.add_argument("--limit", type=int, default=5)
    search.add_argument("--json", action="store_true")
    search.set_defaults(command=_memory_search)
    add = actions.add_parser("add", help="add a note for today, or a lasting fact")
    add.add_argument("text", nargs="+")
    add.add_argument("--fact", action="store_true")
    add.add_argument("--replaces", default="", metavar="WORDS", help="words of the fact that this one corrects")
    add.set_defaults(command=_memory_add)
    forget = actions.add_parser("forget", help="take words out of the notes and conversations, for good")
    forget.add_argument("query", nargs="+")
    forget.add_argument("--yes", action="store_true", help="all that has the very words, without asking")
    forget.add_argument("--number", default="", metavar="1,3", help="these of the list, without asking")
    forget.set_defaults(command=_memory_forget)
    for name, text in (("undo", "take back the last change of a memory file"), ("log", "the last changes")):
        actions.add_parser(name, help=text).set_defaults(command=_memory_command, action=name)
    memory.set_defaults(actions=", ".join(actions.choices or ()))

    sessions = command("sessions", _sessions_list, "the conversations that are stored")
    sessions.set_defaults(json=False)
    actions = sessions.add_subparsers(metavar="ACTION")
    listing = actions.add_parser("list", help="all of them, the newest first")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(command=_sessions_list)
    for name, text in (("show", "all that was said in one, as text"), ("export", "the same as JSON")):
        action = actions.add_parser(name, help=text)
        action.add_argument("name", nargs="?", type=_name, default="main")
        action.set_defaults(command=_sessions_show, json=name == "export")

    linking = command("link", _link, "make a chat account yours by a code, or let somebody in")
    linking.add_argument("channel", nargs="?", default="", metavar="CHANNEL", help="telegram, matrix, email …")
    acts = linking.add_mutually_exclusive_group()
    acts.add_argument("--approve", default="", metavar="CODE", help="let in who was told this code, as a guest")
    acts.add_argument("--list", action="store_true", dest="listed", help="who may talk to the assistant, and who asks")
    acts.add_argument("--remove", default="", metavar="ID", help="such as telegram:555, or 555 after CHANNEL")

    skills = command("skills", _skills_list, "the skills that were found")
    skills.set_defaults(json=False)
    listing = skills.add_subparsers(metavar="ACTION").add_parser("list", help="name, source and state of each")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(command=_skills_list)
    return top


def _days(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text[:7]) <= 36500:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of days")


def _name(text: str) -> str:
    if text.isprintable():
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is no name: it has signs that cannot be shown")


class _Parser(argparse.ArgumentParser):
    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """An unknown command is answered with a near one; the list of all is in --help."""
        if action.choices is None or value in action.choices or not isinstance(action, argparse._SubParsersAction):
            super()._check_value(action, value)
            return
        import difflib

        near = difflib.get_close_matches(value, action.choices, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(action.choices)}"
        self.error(f"there is no {str(action.metavar).lower()} {value!r}; {hint}")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}{'' if message.endswith('?') else '.'} Try {self.prog} --help.\n")


# --- talking ---------------------------------------------------------------------------------------------------------


def _chat(config: Config, options: argparse.Namespace) -> int:
    if options.version:
        from nanoclaw import __version__

        print(f"nanoclaw {__version__}")
        return 0
    piped = attach.piped()
    if options.message is not None or piped.strip() or options.files:
        return _answer_once(config, options, attach.question(options.message, piped))
    if options.json:
        raise ConfigError("--json goes with -m TEXT (or text on stdin)")
    return _talk(config, options)


def _answer_once(config: Config, options: argparse.Namespace, text: str) -> int:
    files = tuple(_attachment(Path(name)) for name in options.files)
    if not text.strip() and not files:
        raise ConfigError("there is nothing to answer: give a text after -m, or pipe one in")

    from nanoclaw import parts
    from nanoclaw.channels.plain import Plain

    async def answer() -> int:
        model = await _model_for(text, config, options)
        channel = Plain(
            options.session,
            text,
            clock=parts.person_clock(config),
            attachments=files,
            as_json=options.json,
            session=options.session,
            model=model,
        )
        async with _serving(config, channel, options, model) as running:
            if options.message is not None and not _is_command(text):
                running.check_model(Address("terminal", options.session))
            await running.run()
        if channel.write_error:
            _say(f"the answer could not be written: {channel.write_error}")
        return 0 if channel.reason == "answered" and not channel.write_error else 1

    def ask(link: attach.Link) -> int:
        return attach.ask(link, text, [(file.path, file.name, file.mime) for file in files], as_json=options.json)

    return _there_or_here(config, options, "answer", ask, answer)


async def _model_for(text: str, config: Config, options: argparse.Namespace) -> str:
    """'' where there is none and a command is to be carried out, as most of them need none."""
    from nanoclaw import models

    try:
        return await models.choose_model(config, options.model)
    except ConfigError:
        if _is_command(text):
            return ""
        raise


def _is_command(text: str) -> bool:
    from nanoclaw.agent import commands

    return commands.parse(text) is not None


def _talk(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import app, models, parts
    from nanoclaw.agent.commands import COMMANDS
    from nanoclaw.channels.terminal import Terminal

    def terminal(greeting: str) -> Terminal:
        return Terminal(
            options.session,
            history_file=config.home / "history",
            clock=parts.person_clock(config),
            greeting=greeting,
            commands={f"/{name}": command.help for name, command in COMMANDS.items()},
            waiting=frozenset(f"/{name}" for name, command in COMMANDS.items() if command.waits),
        )

    async def talk() -> int:
        first = bool(parts.make_home(config)) or not (config.home / "history").exists()
        model = await models.choose_model(config, options.model)
        own = terminal(app.greeting(config, model, first))
        async with _serving(config, own, options, model, listens=True) as running:
            await running.run()
        return 0

    async def talk_to(link: attach.Link) -> int:
        from nanoclaw.channels import socket

        _end_at_sigterm()
        greeting = app.greeting(config, link.hello["model"] or "no model", False)
        first, *rest = greeting.split("\n")
        shown = terminal("\n".join([f"{first} · attached to process {link.hello['pid']}", *rest]))
        await socket.talk(link, shown, Address("terminal", options.session))
        return 0

    return _there_or_here(config, options, "chat", lambda link: _run(talk_to(link)), talk)


def _there_or_here(
    config: Config,
    options: argparse.Namespace,
    want: str,
    there: Callable[[attach.Link], int],
    here: Callable[[], Coroutine[Any, Any, int]],
) -> int:
    """By way of the process that runs, or in this one. One that is just starting, or about to end, is waited for; one
    question also waits until another that does not listen is answered."""
    began, noted = time.monotonic(), False
    while True:
        if link := _attached(config, options, want):
            return there(link)
        try:
            return _run(here())
        except StoreBusy:
            waited = time.monotonic() - began
            if waited > (_PATIENCE_SECONDS if want == "answer" else _BUSY_SECONDS):
                raise
            if waited > _BUSY_SECONDS and not noted:
                noted = True
                _say(f"waiting for another nanoclaw (process {attach.holder(str(config.home))})")
            time.sleep(0.5 if noted else 0.1)


def _attached(config: Config, options: argparse.Namespace, want: str) -> attach.Link | None:
    """A line to the process that runs already, if one does."""
    link = attach.connect(str(config.home), want, options.session)
    if link and options.model:
        raise ConfigError(
            f"process {link.hello['pid']} runs already and chooses its model itself: say /model {options.model} "
            "there, or end it first"
        )
    return link


@asynccontextmanager
async def _serving(
    config: Config, own: Channel | None, options: argparse.Namespace, model: str, *, listens: bool = False
) -> AsyncIterator[App]:
    from nanoclaw import app

    me = _end_at_sigterm()
    async with app.open_app(config, own, model, forced=bool(options.model), listens=listens) as running:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.terminate, me)
        yield running


def _end_at_sigterm() -> asyncio.Task[Any]:
    me = asyncio.current_task()
    assert me is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    return me


def _run(work: Any) -> int:
    try:
        return int(asyncio.run(work))
    except asyncio.CancelledError:  # SIGTERM
        return 143


def _gateway(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import models, parts

    options.model = ""

    async def serve() -> None:
        parts.make_home(config)
        try:
            model = await models.choose_model(config)
        except ConfigError as error:  # what needs none works: reminders, notes, commands
            model = ""
            _say(str(error))
        loop, me = asyncio.get_running_loop(), _end_at_sigterm()
        async with _serving(config, None, options, model, listens=True) as running:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, _end_gateway, running, me)
            said = f"nanoclaw gateway: {running.in_words()}. Ctrl-C ends it."
            await running.run(lambda: print(said, flush=True))

    with suppress(asyncio.CancelledError):
        asyncio.run(serve())
    print("nanoclaw gateway: ended.")
    return 0


def _end_gateway(running: App, serving: asyncio.Task[Any]) -> None:
    """What hangs is not waited for: all that must not be lost is on disk."""
    running.terminate(serving)
    asyncio.get_running_loop().call_later(_END_SECONDS, os._exit, 0)


def _attachment(path: Path) -> Attachment:
    from nanoclaw.agent.context import attachment

    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise ConfigError(f"there is no file {str(path)!r}") from None
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be attached: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{str(path)!r} is {_kind(mode)}, not a file that can be attached")
    return attachment(path.absolute())


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "a device"
    return "a pipe" if stat.S_ISFIFO(mode) else "a socket"


# --- the rest --------------------------------------------------------------------------------------------------------


def _init(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import parts
    from nanoclaw.drafts import write_atomically
    from nanoclaw.workspace import bootstrap
    from nanoclaw.workspace.paths import Workspace

    made = parts.make_home(config)
    Workspace(config.workspace_path).check_writable()
    made += bootstrap.seed(config.workspace_path, parts.shipped("workspace_template"))
    if options.model or options.api_base:
        if config.file.exists():
            raise ConfigError(f"{config.file} exists and is left as it is: change [model] there")
        write_atomically(config.file, configuration.example(options.model, options.api_base), mode=0o600)
        made.append(str(config.file))
    print(f"Home: {config.home}\nWorkspace: {config.workspace_path}")
    print(f"New: {', '.join(made)}" if made else "Everything was there; nothing was changed.")
    return 0


def _backup(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw.channels.text import printable
    from nanoclaw.store.backup import backup

    made = backup(config.home, config.workspace_path, options.file, with_secrets=options.with_secrets)
    print(f"{made.files:,} files ({made.size / 1e6:,.1f} MB) are in {options.file}, checked by restoring it.")
    for name in made.left_out:
        print(printable(f"Left out: {name}").encode("utf-8", "replace").decode())
    if options.with_secrets or config.model.api_key or config.channels.telegram.token:
        _say("your keys are in it: keep it where only you can read it")
    return 0


def _restore(config: Config, options: argparse.Namespace) -> int:
    from dataclasses import replace

    from nanoclaw.store.backup import restore

    def workspace_of(folder: Path) -> Path:
        restored = configuration.load({**os.environ, "NANOCLAW_HOME": str(folder)})
        return replace(restored, home=config.home).workspace_path

    done = restore(options.file, config.home, workspace_of)
    print(f"{done.files:,} files are restored.\nHome: {config.home}\nWorkspace: {done.workspace}")
    if done.aside:
        print(f"What was there before: {', '.join(map(str, done.aside))}")
    return 0


def _finish_restore(home: Path) -> None:
    """One that was cut short, before anything else is read."""
    if (home / "restoring.json").exists():
        from nanoclaw.store.backup import finish_restore

        finish_restore(home)


def _status(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import __version__
    from nanoclaw.schedule.clock import clock
    from nanoclaw.store.db import owner
    from nanoclaw.store.flags import PANIC, Flags
    from nanoclaw.store.outbox import counts, failures
    from nanoclaw.store.sessions import list_sessions
    from nanoclaw.workspace.media import Media
    from nanoclaw.workspace.paths import Workspace

    now = clock(config.person.timezone, config.environment)
    files, size = Media(Workspace(config.workspace_path)).taken()
    pid = owner(config.home / "state.db")
    live = None
    with suppress(NanoclawError):  # it does not answer
        live = attach.status(str(config.home))
    with _read_store(config) as store:
        sessions = list_sessions(store) if store else []
        outbox = counts(store) if store else {}
        failed = failures(store) if store else []
        frozen = False
        with suppress(StoreError):  # a store of an older format has no such switch
            frozen = bool(store and Flags(store, now).get(PANIC) is not None)
    facts = {
        "version": __version__,
        "home": str(config.home),
        "workspace": str(config.workspace_path),
        "model": config.model.name,
        "running": pid,
        "process": live,
        "sessions": len(sessions),
        "messages": sum(session.messages for session in sessions),
        "to_deliver": outbox.get("pending", 0),
        "not_delivered": outbox.get("failed", 0),
        "failures": [{"to": to, "text": text, "reason": reason} for to, text, reason in failed],
        "media": {"files": files, "bytes": size},
        "frozen": frozen,
    }
    if options.json:
        print(json.dumps(facts))
        return 0
    shown = {
        **facts,
        "not_delivered": "\n".join([str(facts["not_delivered"]), *map(_failure, failed)]),
        "model": facts["model"] or "chosen at each start",
        "running": _running(pid, live),
        "media": f"{files} files that came with messages, {size / 1e6:,.1f} MB (media/ in the workspace)",
        "frozen": "yes, by /panic: /resume goes on" if frozen else "no",
    }
    del shown["process"], shown["failures"]
    print("\n".join(f"{name.capitalize().replace('_', ' '):<14} {value}" for name, value in shown.items()))
    return 0


def _failure(failed: tuple[str, str, str]) -> str:
    from nanoclaw.channels.text import one_line

    to, text, reason = failed
    return f"  {one_line(to)}: {one_line(text, 40)!r} ({one_line(reason, 100)})"


def _running(pid: int | None, live: dict[str, Any] | None) -> str:
    if pid is None:
        return "no"
    if live is None:
        return f"process {pid}, which tells nothing of itself"
    lines = [f"process {pid}, {live['role']}, for {_span(live['seconds'])}"]
    for channel in live["channels"]:
        seen = "no sign of life yet" if channel["alive"] is None else f"last sign of life {_span(channel['alive'])} ago"
        lines.append(f"  {channel['name']}: {channel['trouble'] or seen}")
    if live["tick"] is not None:
        lines.append(f"  schedule: last tick {_span(live['tick'])} ago")
    return "\n".join(lines)


def _span(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def _doctor(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import looking, parts

    parts.start_logging(config)
    problems: dict[str, str] = {}
    for what, check in looking.checks(config):
        try:
            print(f"ok    {what}: {check()}")
        except NanoclawError as error:
            first = problems.setdefault(str(error), what)
            print(f"wrong {what}: {error}" if first == what else f"?     {what}: not checked, as the {first} is wrong")
    return 1 if problems else 0


def _heartbeat(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import looking, models
    from nanoclaw.channels.text import printable

    if options.dry_run:
        with _read_store(config) as store:
            print(printable(looking.rehearse_heartbeat(config, store)))
        return 0
    options.session, options.model = "main", ""
    if link := _attached(config, options, "answer"):
        return attach.ask(link, "/heartbeat", [], as_json=False)

    async def beat() -> int:
        model = await models.choose_model(config)
        async with _serving(config, None, options, model) as running:
            print(printable(await running.beat()))
        return 0

    return _run(beat())


def _cron(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import looking, parts
    from nanoclaw.channels.text import printable
    from nanoclaw.schedule import desk
    from nanoclaw.schedule.command import line
    from nanoclaw.store.db import Store

    if options.action == "next":
        if bool(options.id) == bool(options.cron):
            raise ConfigError("give the number of a job, or --cron EXPR: nanoclaw cron next --cron '0 9 * * 1-5'")
        with _read_store(config) as store:
            if options.id and store is None:
                raise StoreError("There are no jobs yet.")
            times = desk.next_times(
                parts.cron_desk(config, store) if options.id and store else None,
                options.id or options.cron,
                options.tz or parts.zone_name(parts.person_clock(config)) * bool(options.cron),
                options.start,
                parts.person_clock(config)(),
                options.count,
            )
        print("\n".join(times) or "It does not come again.")
        return 0
    if options.action in ("list", "rehearse"):
        with _read_store(config) as store:
            if store is None:
                print("No jobs yet. nanoclaw cron add 'tomorrow at 9' 'call Anna' sets a reminder.")
            elif options.action == "list":
                print(printable(parts.cron_desk(config, store).table()))
            else:
                print(printable(asyncio.run(looking.rehearse_job(config, store, desk.number(options.id), options.at))))
        return 0
    options.session, options.model = "main", ""
    if link := _attached(config, options, "cron"):
        return attach.ask(link, line(options), [], as_json=False)
    parts.make_home(config)
    store = Store(config.home / "state.db")
    try:
        said = desk.Commands(parts.cron_desk(config, store)).cron(line(options), Address("terminal", "main"), "owner")
    finally:
        store.close()
    print(printable(said))
    if options.action in ("add", "resume", "run"):
        print("(Jobs fire while `nanoclaw gateway`, or a chat, runs.)", file=sys.stderr)
    return 0


def _context(config: Config, options: argparse.Namespace) -> int:
    import shutil
    import textwrap
    from dataclasses import asdict

    from nanoclaw import looking, parts
    from nanoclaw.agent.xray import plain_table
    from nanoclaw.channels.text import printable

    parts.start_logging(config)
    parts.make_home(config)
    with _read_store(config) as store:
        view = looking.look_inside(config, store, options.session, options.message, options.mode)
    if options.json:
        rows = [asdict(row) for row in view.rows]
        request = {"messages": view.messages, "tools": view.tools}
        print(json.dumps({**asdict(view.manifest), "rows": rows, "remarks": view.remarks, **request}))
        return 0
    width = min(100, shutil.get_terminal_size((100, 24)).columns)
    lines = [plain_table(view.rows, width), ""]
    lines += [textwrap.fill(remark, width, initial_indent="- ", subsequent_indent="  ") for remark in view.remarks]
    lines += [
        "",
        textwrap.fill("What is sent, word by word (the tools go beside it as JSON: --json shows them):", width),
    ]
    for message in view.messages:
        content = message.get("content") or ""
        shown = content if isinstance(content, str) else json.dumps(content)[:2000]
        calls = "".join(f"\n-> {call['function']}" for call in message.get("tool_calls", ()))
        lines += ["", f"── {message['role']} ".ljust(width, "─"), printable(shown + calls)]
    if not options.message:
        lines[-1] = "(here comes what you say; --message TEXT shows a message with what it brings up)"
    encoding = sys.stdout.encoding or "utf-8"
    print("\n".join(lines).encode(encoding, "replace").decode(encoding))
    return 0


def _local_list(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import models
    from nanoclaw.providers import catalogue

    here = {model.name: model for model in catalogue.installed(models.models_folder(config))}
    for entry in catalogue.ENTRIES:
        state = "on this machine" if here.pop(entry.name, None) else "nanoclaw local pull " + entry.name
        print(f"local/{entry.name:<20} {entry.size / 1e6:>6,.0f} MB  {entry.licence:<11} {state}")
    for model in here.values():
        print(f"local/{model.path}  {model.size / 1e6:,.0f} MB")
    return 0


def _local_pull(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import models
    from nanoclaw.providers import catalogue

    if options.if_needed and asyncio.run(models.has_model(config)):
        return 0
    entry = catalogue.find(options.name) if options.name else catalogue.recommended()
    config.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    _say(f"local/{entry.name}: {entry.size / 1e6:,.0f} MB, {entry.licence}")
    path = asyncio.run(catalogue.pull(entry, models.models_folder(config), _Progress().show))
    print(f"local/{entry.name} is ready: {path}")
    return 0


def _local_remove(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import models
    from nanoclaw.providers import catalogue

    freed = catalogue.remove(options.name, models.models_folder(config))
    print(f"{freed / 1e6:,.0f} MB freed.")
    return 0


class _Progress:
    """A bar on stderr; where that is a file, a line every tenth."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, done: int, total: int, phase: str) -> None:
        percent = 100 * done // max(total, 1)
        if sys.stderr.isatty():
            bar = "█" * (percent // 4)
            line = f"\r{phase[:30]:<30} {bar:<25} {percent:>3} %  {done / 1e6:,.0f} MB"
            end = ""
        else:
            line, end = f"{phase}: {percent // 10 * 10} %", "\n"
        if line != self._last:
            print(line, end="\n" if end or percent >= 100 else "", file=sys.stderr, flush=True)
            self._last = line


def _memory_search(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import parts

    parts.start_logging(config)
    notes = parts.note_search(config, parts.person_clock(config))
    hits = notes.search(" ".join(options.query), options.limit)
    notes.close()
    if options.json:
        print(json.dumps({"hits": [_hit(hit) for hit in hits]}, ensure_ascii=False))
    else:
        print("\n".join(f"{hit.file}:{hit.start}  {hit.text}" for hit in hits) or "Nothing found.")
    return 0


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "file": hit.file,
        "start": hit.start,
        "end": hit.end,
        "date": hit.date.isoformat() if hit.date else None,
        "score": round(hit.score, 3),
        "text": hit.text,
    }


def _memory_add(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import parts
    from nanoclaw.messages import Deed
    from nanoclaw.store.db import Store
    from nanoclaw.workspace.notes import MemoryStore
    from nanoclaw.workspace.paths import Workspace

    parts.start_logging(config)
    parts.make_home(config)
    now = parts.person_clock(config)
    notes = MemoryStore(Workspace(config.workspace_path), now)
    text = " ".join(options.text)
    is_fact = options.fact or options.replaces
    store = Store(config.home / "state.db", beside=True)
    try:
        changes = parts.file_changes(config, now, store)
        kind, file = ("fact", "MEMORY.md") if is_fact else ("note", changes.today())
        with changes.of(Deed("nanoclaw memory add", kind, file, f"noted “{text[:60]}”")):
            added = notes.add_fact(text, options.replaces) if is_fact else notes.add_note(text)
    finally:
        store.close()
    print(f"{'Added to' if added.is_new else 'Already in'} {added.file}: {added.line}")
    if added.struck:
        print(f"Corrected: {added.struck}")
    if added.remark:
        _say(added.remark)
    return 0


def _memory_forget(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import parts
    from nanoclaw.channels.text import printable
    from nanoclaw.store.db import Store
    from nanoclaw.tools.forgetting import shown, told

    if not config.workspace_path.exists():
        print("Nothing found.")
        return 0
    parts.start_logging(config)
    query = " ".join(options.query)
    path = config.home / "state.db"
    store = Store(path) if path.exists() else None
    try:
        forgetter = parts.make_forgetter(config, parts.person_clock(config), store)
        listing = forgetter.find(query)
        if not listing.count:
            print("Nothing found.")
            return 0
        print(printable(shown(listing)), flush=True)
        numbers = _numbers(options, listing.exact)
        if not numbers:
            print("Nothing was forgotten.")
            return 0 if sys.stdin is not None and sys.stdin.isatty() else 1
        print(printable(told(forgetter.forget(query, numbers))))
        print("For 10 minutes `nanoclaw memory undo` brings it back; then it is gone for good.")
        return 0
    finally:
        if store:
            store.close()


def _numbers(options: argparse.Namespace, exact: Sequence[int]) -> list[int]:
    """Which of the list are to be forgotten: as given, or as the person answers now."""
    answer = options.number
    if options.yes and not answer:
        return list(exact)
    if not answer:
        what = f"{len(exact)} with the very words" if exact else "none, only numbers"
        _say(f"forget them? After ten minutes it is for good. y ({what}), numbers such as 1,3, or N:")
        answer = sys.stdin.readline().strip() if sys.stdin is not None else ""
        if answer.lower() in ("y", "yes"):
            return list(exact)
    numbers = [part for part in answer.replace(",", " ").split() if part.isdigit()]
    if options.number and not numbers:
        raise ConfigError(f"--number {options.number!r}: give numbers of the list, such as 1,3")
    return [int(number) for number in numbers]


def _memory_command(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import parts
    from nanoclaw.store.db import Store
    from nanoclaw.tools.forgetting import memory_command

    now, path, store = parts.person_clock(config), config.home / "state.db", None
    forgetter = parts.make_forgetter(config, now, None)
    try:
        if path.exists():
            comes_back = options.action == "undo" and forgetter.undoable_since  # words of conversations, too
            store = Store(path, beside=not comes_back)
            forgetter = parts.make_forgetter(config, now, store)
        print(memory_command(parts.file_changes(config, now, store), forgetter, options.action))
    finally:
        if store:
            store.close()
    return 0


def _sessions_list(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw.store.sessions import list_sessions

    with _read_store(config) as store:
        sessions = list_sessions(store) if store else []
    if options.json:
        rows = [{"name": item.key, "messages": item.messages, "last": item.last} for item in sessions]
        print(json.dumps({"sessions": rows}))
    else:
        print("\n".join(f"{item.key:<30} {item.messages:>6}  {item.last[:16]}" for item in sessions) or "None yet.")
    return 0


def _sessions_show(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import parts
    from nanoclaw.channels.text import printable
    from nanoclaw.store import codec
    from nanoclaw.store.sessions import whole_history

    key = options.name if ":" in options.name else f"terminal:{options.name}"
    with _read_store(config) as store:
        history = whole_history(store, key) if store else None
    if history is None:
        raise ConfigError(f"there is no conversation {options.name!r}: nanoclaw sessions list")
    if options.json:
        print(json.dumps({"session": key, "messages": [json.loads(codec.dump(message)) for message in history]}))
        return 0
    zone = parts.person_clock(config)().tzinfo
    for message in history:
        calls = "".join(f"\n  -> {call.name} {call.arguments}" for call in getattr(message, "tool_calls", ()))
        if getattr(message, "origin", "") != "runtime":
            line = printable(f"{message.at.astimezone(zone):%Y-%m-%d %H:%M} {_who(message)}: {message.text}{calls}")
            print(line.encode("utf-8", "replace").decode())  # names of files may hold halves of characters
    return 0


def _who(message: Message) -> str:
    match message:
        case UserMessage():
            return "you"
        case AssistantMessage():
            return "nanoclaw"
        case ToolResult():
            return message.name


def _skills_list(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import looking, parts
    from nanoclaw.workspace.skills import shown

    parts.start_logging(config)
    found = [
        {
            "name": skill.name,
            "source": source,
            "state": _skill_state(skill),
            "missing": skill.missing,
            "problem": skill.problem,
            "path": shown(skill.path),
            "description": skill.description,
        }
        for skill, source in looking.skills_found(config)
    ]
    if options.json:
        print(json.dumps({"skills": found}, ensure_ascii=False))
        return 0
    width = max((len(str(skill["name"])) for skill in found), default=0)
    for skill in found:
        why = skill["problem"] or ", ".join(skill["missing"])
        state = f"{skill['state']}{': ' if why else ''}{why}"
        print(f"{skill['name']:<{width}}  {skill['source']:<9}  {state}")
    return 0


def _skill_state(skill: Skill) -> str:
    if skill.problem:
        return "off"
    if skill.missing:
        return "lacks"
    return "by hand" if skill.hidden else "always on" if skill.always else "ready"


def _link(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw import linking

    if options.listed:
        print("\n".join(linking.listed(config)))
    elif options.remove:
        print(linking.remove(config, options.remove, options.channel))
    elif options.approve:
        print(linking.approve(config, options.channel, options.approve))
    else:
        return linking.connect(config, os.environ, options.channel)
    return 0


def _tokens(config: Config, options: argparse.Namespace) -> int:
    from datetime import timedelta

    from nanoclaw import parts
    from nanoclaw.agent import spending
    from nanoclaw.providers import prices
    from nanoclaw.store.usage import totals

    today = parts.person_clock(config)().date()
    since = today - timedelta(days=options.days - 1)
    with _read_store(config) as store:
        found = totals(store, options.by, prices.cost, since) if store else []
    if options.json:
        print(json.dumps(spending.as_json(found, options.by, since, today), ensure_ascii=False))
    else:
        import shutil

        width = shutil.get_terminal_size((100, 24)).columns
        encoding = sys.stdout.encoding or "utf-8"
        lines = spending.table(found, options.by, since, today, width, prices.dollars, encoding)
        print("\n".join(lines))
    return 0


def _memory_usage(config: Config, options: argparse.Namespace) -> int:
    raise ConfigError(f"say what to do, one of {options.actions}: nanoclaw memory --help")


@contextmanager
def _read_store(config: Config) -> Iterator[Store | None]:
    """The store beside whoever owns it, or None before there is one."""
    from nanoclaw.store.db import Store

    path = config.home / "state.db"
    if not path.exists():
        yield None
        return
    store = Store(path, read_only=True)
    try:
        yield store
    finally:
        store.close()


def _failed(options: argparse.Namespace, error: NanoclawError, status: int) -> int:
    if getattr(options, "json", False):
        print(json.dumps({"error": str(error)}, ensure_ascii=False))
    else:
        _say(str(error))
    return status


def _say(sentence: str) -> None:
    print(f"nanoclaw: {sentence}", file=sys.stderr)
