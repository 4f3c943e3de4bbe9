"""Talking: one answer, the terminal, the gateway; in this process, or by way of the one that runs already."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoclaw.channels import attach
from nanoclaw.channels.text import WAIT
from nanoclaw.clock import paced, pause, pause_thread
from nanoclaw.core.errors import ChannelError, ConfigError, NanoclawError, StoreBusy
from nanoclaw.core.events import Notice, StatusLines
from nanoclaw.core.messages import Attachment, Outbound
from nanoclaw.start.config import Config

if TYPE_CHECKING:
    from nanoclaw.channels.plain import Plain
    from nanoclaw.channels.socket.terminals import Terminals
    from nanoclaw.channels.terminal.completions import Words
    from nanoclaw.channels.terminal.relay import Relay
    from nanoclaw.commands.arguments import Options
    from nanoclaw.core.app import App
    from nanoclaw.core.channel import Channel

_END_SECONDS = 4.0  # in which a gateway ends by itself
_ENDING = "nanoclaw gateway: stopping; what is not finished goes on at the next start. Ctrl-C again ends it at once."
_ENDED = "nanoclaw gateway: ended."
_DRAWN_SECONDS = 0.2  # until the prompt is drawn
_BUSY_SECONDS = 2.0  # in which one that starts listens
_TRY_SECONDS, _TRY_AGAIN_SECONDS = 0.1, 2.0  # between two looks for a process that answers
_PATIENCE_SECONDS = 120.0  # in which one that answers once ends
_MMAP_THRESHOLD = -3  # of mallopt


# --- one answer ------------------------------------------------------------------------------------------------------


def chat(config: Config, options: Options) -> int:
    if options.version:
        from nanoclaw import __version__

        print(f"nanoclaw {__version__}")
        return 0
    if options.goes_on or options.picked is not None:
        from nanoclaw.commands.resuming import choose

        if not choose(config, options):
            return 0
    piped = attach.piped()
    if options.message is not None or piped.strip() or options.files:
        return _answer_once(config, options, attach.question(options.message, piped))
    if options.json:
        raise ConfigError("--json goes with -m TEXT (or text on stdin)")
    return run(TerminalChat(config, options).talk())


def _answer_once(config: Config, options: Options, text: str) -> int:
    files = tuple(_attachment(Path(name)) for name in options.files)
    if not text.strip() and not files:
        raise ConfigError("there is nothing to answer: give a text after -m, or pipe one in")

    from nanoclaw.channels.plain import OneQuestion, Plain

    if config.problem:
        attach.say(config.problem)

    async def answer() -> int:
        model, lack = await model_or_lack(config, options.model)
        asked = OneQuestion(text, options.session, files, options.json, options.timeout)
        channel = Plain(asked, config.clock(), model=model)
        async with program(config, model, channels=[channel], forced=bool(options.model)) as app:
            print_left_out(app)
            _keep(config)
            given = app.commands.given(channel.question)
            if given and (given.command is None or given.command.name != "stop"):
                channel.accepts_any = given.waits
            elif not given and (lack or options.message is not None):
                _check(app, channel, lack)
            try:
                await app.run()
            except asyncio.CancelledError:
                await app.router.deliver(channel.withdrawal)
                raise
            print_unfired(app)
        if channel.write_error:
            attach.say(f"the answer could not be written: {channel.write_error}")
        return 0 if channel.is_answered and not channel.write_error else 1

    return said(
        config, text, answer, files, options.session, options.model, as_json=options.json, timeout=options.timeout
    )


def print_unfired(app: App, *, left: bool = False) -> None:
    """Say on stderr that jobs need a process that stays, if some were changed in another, or it is `left`."""
    schedule = app.used("schedule")
    jobs = schedule.jobs.all() if schedule else ()
    due = next((one for one in jobs if one.next_due and one.state == "active"), None)
    if due and (left or schedule.needs_another_process()):
        from nanoclaw.installation import start_command

        said = f"Reminders and tasks come while `{start_command()} gateway`, or a chat, runs."
        print(f"({said}{f' Next: {schedule.in_short(due)}.' if left else ''})", file=sys.stderr)


def print_left_out(app: App) -> None:
    """Say on stderr which plugins were not loaded."""
    for why in app.left_out.values():
        attach.say(why)


def _check(app: App, channel: Plain, lack: str) -> None:
    """Raises ConfigError if no model can be asked, `lack` says why, and the question needs one."""
    try:
        if lack:
            raise ConfigError(lack)
        app.models.of(app.sessions.of(channel.question.address).model)
    except ConfigError:
        if not app.router.is_for_code(channel.question):
            raise
        channel.accepts_any = False


async def model_or_lack(config: Config, wanted: str = "") -> tuple[str, str]:
    """The model that answers, or '' and why there is none."""
    from nanoclaw.providers.choose import choose_model

    try:
        return await choose_model(config, wanted), ""
    except ConfigError as error:
        return "", str(error)


def _check_settings(config: Config, model: str = "") -> None:
    """Raises ConfigError for settings that are wrong, before a model is looked for: a misspelt model.name is why none
    is found. Where one is named, the program checks them as it is built."""
    if not (model or config.model.name):
        from nanoclaw.start.build import checked

        checked(config)


def _attachment(path: Path) -> Attachment:
    import mimetypes

    from nanoclaw.documents.documents import TYPES

    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise ConfigError(f"there is no file {str(path)!r}") from None
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be attached: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFIFO: "a pipe"}
        kind = kinds.get(stat.S_IFMT(mode), "a socket")
        raise ConfigError(f"{str(path)!r} is {kind}, not a file that can be attached")
    mime = TYPES.get(path.suffix.lower()) or mimetypes.guess_type(path.name)[0] or ""
    return Attachment(str(path.resolve()), path.name, mime)  # what is put in its place later is not followed


# --- the terminal ----------------------------------------------------------------------------------------------------


class TerminalChat:
    """A chat in a terminal, with whichever process owns the home: another one, this one, and another again."""

    _next = "nobody answers: this terminal takes over"

    def __init__(self, config: Config, options: Options) -> None:
        self._config, self._options = config, options
        self._last = getattr(options, "last", ())  # lines about the conversation that goes on
        self._relay: Relay | None = None
        self._gone, self._pid = "", 0  # what became of the process that answered, and its number
        self._waits_until = 0.0  # for one that is about to take its place
        self._told = ""

    async def talk(self) -> int:
        """Until the person leaves. Errors end it at the start only: later it waits until somebody can answer."""
        from nanoclaw.start.opening import owner

        began = time.monotonic()
        try:
            while True:
                _end_at_signals()
                seconds = _TRY_SECONDS
                try:
                    await self._once()
                except attach.LineEnded as ended:
                    began, self._told = time.monotonic(), ""
                    self._gone, self._waits_until = str(ended), began + ended.seconds
                    self._tell("", "a gateway takes over: waiting for it" if ended.seconds else self._next)
                except NanoclawError as error:
                    if not isinstance(error, StoreBusy) or time.monotonic() - began > _BUSY_SECONDS:
                        if self._relay is None:
                            raise
                        told = f"{self._gone}, and nobody can answer yet: {error}"
                        if self._pid and owner(self._config.home / "state.db") == self._pid:
                            told = f"process {self._pid}, which was answering, is still ending"
                        self._tell(told, "nobody answers: trying again")
                        seconds = _TRY_AGAIN_SECONDS
                if self._relay is None:
                    await pause(seconds)
                elif await self._relay.left(seconds):
                    return 0
        finally:
            if self._relay:
                await self._relay.aclose()

    async def _once(self) -> None:
        """Talk until the person leaves, or whoever answers is gone."""
        if self._relay is None:
            link = _attached(self._config, "chat", self._options.session, self._options.model)
        else:  # the person may be typing
            link = await asyncio.to_thread(attach.connect, str(self._config.home), "chat", *self._relay.place)
        if link:
            await self._attached(link)
        elif time.monotonic() >= self._waits_until:
            await self._alone()

    async def _attached(self, link: attach.Link) -> None:
        from nanoclaw.channels.socket.client import talk as talk_over

        pid = self._pid = link.hello["pid"]
        if self._relay is None:
            words = dict(link.hello.get("words", {}))
            self._relay = self._sit_down(link.hello, lambda: words, where=f" · attached to process {pid}")
        elif self._gone:
            self._tell(f"{self._gone}; attached to process {pid}")
            self._gone = ""
        if self._relay.seen == attach.LAST:
            self._relay.seen = link.hello.get("last", attach.LAST)
        await talk_over(link, self._relay)
        self._relay.seen = attach.LAST  # it goes elsewhere

    async def _alone(self) -> None:
        from nanoclaw.channels.socket.terminals import GATEWAY_SECONDS
        from nanoclaw.commands.greeting import Attachable

        config, options = self._config, self._options
        is_first = not (config.home / "state.db").exists()
        _check_settings(config, options.model)
        model, lack = await model_or_lack(config, options.model)
        async with program(config, model, forced=bool(options.model)) as app:
            _keep(config)
            if self._relay is None:
                host = Attachable(app)
                facts = host.facts(*filter(None, [lack]))
                self._relay = self._sit_down(facts, host.words, workspace=config.workspace_path if is_first else None)
                self._relay.seen = facts["last"]
            else:
                app.inherits = True
                self._tell(f"{self._gone}; this terminal continues on its own. {lack}".rstrip())
                for missed in app.outbox.shown_since(self._relay.address, self._relay.seen):
                    await self._relay.send(missed)
            terminals = listen(app, self._relay)
            app.spawn(_load_ahead(config, model), "core")
            await app.run(wakes=True, after=_DRAWN_SECONDS)
            if not terminals.is_given_up:
                print_unfired(app, left=True)
        if terminals.is_given_up:
            raise attach.LineEnded("a gateway takes over", GATEWAY_SECONDS)

    def _sit_down(
        self, facts: Mapping[str, Any], words: Words, where: str = "", workspace: Path | None = None
    ) -> Relay:
        """The terminal, with what the process that answers first says of itself."""
        from nanoclaw.channels.terminal.chat import Terminal
        from nanoclaw.channels.terminal.relay import Relay
        from nanoclaw.commands.greeting import greeting

        hello = greeting(facts["model"] or "no model", facts.get("urgent", []), workspace, where)
        terminal = Terminal(
            self._options.session,
            history_file=self._config.home / "history",
            clock=self._config.clock(),
            greeting="\n".join([hello, *self._last]),
            commands=facts.get("commands"),
            words=words,
            workspace=self._config.workspace_path,
        )
        return Relay(terminal)

    def _tell(self, text: str, waits: str = "") -> None:
        """A line about the process that answers, once, and what is waited for until it does."""
        if self._relay and text not in ("", self._told):
            self._told = text
            self._relay.show(self._relay.address, Notice(text))
        if self._relay:
            told = f"{waits} …\nwhat you type is kept" if waits else ""
            self._relay.show(self._relay.address, StatusLines(WAIT, told))


async def _load_ahead(config: Config, model: str) -> None:
    """While the person types, in a thread, which leaves the keys their turn."""
    from nanoclaw.providers.choose import load_ahead

    await pause(_DRAWN_SECONDS)
    await asyncio.to_thread(load_ahead, config, model)


# --- the gateway -----------------------------------------------------------------------------------------------------


def gateway(config: Config, options: Options) -> int:
    from nanoclaw.channels import table as channels

    _check_settings(config)
    _give_memory_back()
    was_free, failed = _take_home(config), list[str]()

    async def serve() -> None:
        model, lack = await model_or_lack(config)  # reminders, notes and commands work without
        for one in filter(None, (config.problem, lack, *channels.incomplete(config))):
            attach.say(one)
        me = _end_at_signals()
        async with program(config, model, channels=None) as app:
            _keep(config)
            print_left_out(app)
            await _tell_of_problem(app)
            _when_ended(lambda: _end_gateway(app, me))
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, _end_gateway, app, me)
            listening = listen(app).listening

            async def announce() -> None:
                await listening.wait()
                page = app.public("page")
                while page and not page.listening.is_set():
                    if why := app.channels.trouble(page.name):
                        if options.command != "web":
                            break
                        failed.append(why)
                        app.terminate(me)
                        return
                    await pause(_TRY_SECONDS)
                print(f"nanoclaw gateway: {app.in_words()}. Ctrl-C ends it.", flush=True)
                if page and options.command == "web":
                    qr = f"\n{page.drawn(page.links()[-1])}" if options.qr else ""
                    print(f"Open this link in your browser: {page.links()[0]}{qr}", flush=True)

            app.spawn(announce(), "core")
            await app.run(wakes=True)

    try:
        with suppress(asyncio.CancelledError):
            asyncio.run(serve())
    except StoreBusy:
        if was_free:  # the terminal that had given it up took it back, as this start took so long
            return gateway(config, options)
        raise
    if failed:
        raise ChannelError(failed[0])
    print(_ENDED)
    return 0


def web(config: Config, options: Options) -> int:
    """Print a link to the page of the gateway that runs, or run one with the page."""
    running = attach.status(str(config.home))
    if running is None or running["role"] != "gateway":
        return gateway(config._replace(table={**config.table, "page": config.get("page", {})}), options)
    from nanoclaw.commands.plugins import carry_out

    return carry_out(config, "web", "--qr" * options.qr, as_json=False)


def _keep(config: Config) -> None:
    """Keep the settings of a start that went well."""
    from nanoclaw.cli import keep_good

    try:
        keep_good(config)
    except (OSError, ConfigError) as error:
        attach.say(f"no copy of the settings was kept: {error}")


async def _tell_of_problem(app: App) -> None:
    """Tell the owner once, in a chat that is served, why the settings do not hold, or a plugin is left out."""
    problem, told = " ".join(filter(None, (app.config.problem, *app.left_out.values()))), app.flags.get("config")
    if told and not problem:
        app.flags.clear("config")
    served = (one for one in app.owners_chats() if app.channels.reaches(Outbound(one, "")))
    if problem and problem != told and (chat := next(served, None)):
        await app.transactions.write(lambda tx: tx.send(Outbound(chat, problem)))
        app.flags.set("config", problem)


def _take_home(config: Config) -> bool:
    """Wait until the home is free: a terminal that owns it gives it up and attaches, one answer comes to its end. False
    where that takes too long. Raises StoreBusy for another gateway."""
    from nanoclaw.start.opening import owner

    for took_too_long in _tries(config):
        if took_too_long or owner(config.home / "state.db") is None:
            return not took_too_long
        if link := attach.connect(str(config.home), "home"):
            link.socket.close()
    raise AssertionError


def _give_memory_back() -> None:
    """Large blocks go back to the system when they are free: glibc would keep 130 MB after a few mails with files."""
    import ctypes

    with suppress(AttributeError):  # other systems have no such option
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1_000_000)


def _end_gateway(app: App, serving: asyncio.Task[Any]) -> None:
    """End, within seconds or at once if asked again: all that must not be lost is on disk."""

    def leave() -> None:
        print(_ENDED, flush=True)
        os._exit(0)

    if app.is_terminated:
        leave()
    app.terminate(serving)
    asyncio.get_running_loop().call_later(_END_SECONDS, leave)
    print(_ENDING, flush=True)


# --- in this process, or by way of another ---------------------------------------------------------------------------


def said(
    config: Config,
    text: str,
    here: Callable[[], Coroutine[Any, Any, int]],
    files: Iterable[Attachment] = (),
    session: str = "main",
    model: str = "",
    *,
    want: str = "answer",
    as_json: bool = False,
    timeout: float = attach.TIMEOUT_SECONDS,
) -> int:
    """Say a text to the process that runs, or work `here`. A process that is just starting, about to end, or that does
    not listen is waited for."""
    for took_too_long in _tries(config):
        if link := _attached(config, want, session, model):
            sent = [(file.path, file.name, file.mime) for file in files]
            return attach.ask(link, text, sent, as_json=as_json, timeout=timeout)
        _check_settings(config, model)
        try:
            return run(here())
        except StoreBusy:
            if took_too_long:
                raise
    raise AssertionError


def _tries(config: Config) -> Iterator[bool]:
    """Again and again, while another process may own the home: who is waited for is said once. True where that has
    taken too long."""
    began, is_told = time.monotonic(), False
    while True:
        waited = time.monotonic() - began
        yield waited > _PATIENCE_SECONDS
        if waited > paced(_BUSY_SECONDS) and not is_told:
            is_told = True
            attach.say(f"waiting for another nanoclaw (process {attach.holder(str(config.home))})")
        pause_thread(0.5 if is_told else _TRY_SECONDS)


def _attached(config: Config, want: str, session: str, model: str) -> attach.Link | None:
    """A line to the process that runs already, if one does."""
    link = attach.connect(str(config.home), want, session)
    if link and model:
        raise ConfigError(
            f"process {link.hello['pid']} already runs, with its own model: say /model {model} there, or end it first"
        )
    if link and (names := config.without):
        attach.say(
            f"process {link.hello['pid']} already runs with its own plugins: --without {', '.join(names)} has no effect"
        )
    return link


@asynccontextmanager
async def program(
    config: Config, model: str = "", *, channels: Iterable[Channel] | None = (), forced: bool = False
) -> AsyncIterator[App]:
    """The program with these channels, None for the chat apps of the configuration; a signal ends it."""
    from nanoclaw.start.build import build

    me = _end_at_signals()
    app = build(config, channels=channels, model=model, forced=forced)
    try:
        _when_ended(lambda: app.terminate(me))
        yield app
    finally:
        await app.aclose()


def listen(app: App, own: Channel | None = None) -> Terminals:
    """Let terminals attach to a program, which may have one of its `own`."""
    from nanoclaw.channels.socket.terminals import Terminals
    from nanoclaw.commands.greeting import Attachable

    terminals = Terminals(app.home, Attachable(app), app.clock, own)
    app.channels.add(terminals)
    return terminals


def _end_at_signals() -> asyncio.Task[Any]:
    me = asyncio.current_task()
    assert me is not None
    _when_ended(me.cancel)
    return me


def _when_ended(end: Callable[[], object]) -> None:
    """Call `end` when somebody ends this process, or closes its window unless `nohup` started it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end)


def run(work: Coroutine[Any, Any, int]) -> int:
    try:
        return int(asyncio.run(work))
    except asyncio.CancelledError:  # by a signal
        return 143
