"""Talking: one answer, the terminal, the gateway; in this process, or by way of the one that runs already."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import stat
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoclaw import attach
from nanoclaw.core.config import Config
from nanoclaw.core.errors import ConfigError, StoreBusy
from nanoclaw.core.messages import Address, Attachment

if TYPE_CHECKING:
    from nanoclaw.core.app import App
    from nanoclaw.core.channel import Channel

_END_SECONDS = 4.0  # in which a gateway ends by itself
_BUSY_SECONDS = 2.0  # in which one that starts listens
_PATIENCE_SECONDS = 120.0  # in which one that answers once ends
_MMAP_THRESHOLD = -3  # of mallopt


def chat(config: Config, options: argparse.Namespace) -> int:
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

    from nanoclaw.channels.plain import Plain
    from nanoclaw.core import parts

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
            takes_up=not _only_looks(text),
        )
        async with serving(config, channel, options, model) as running:
            if options.message is not None and not _is_command(text):
                running.check_model(Address("terminal", options.session))
            await running.run()
        if channel.write_error:
            attach.say(f"the answer could not be written: {channel.write_error}")
        return 0 if channel.reason == "answered" and not channel.write_error else 1

    def ask(link: attach.Link) -> int:
        return attach.ask(link, text, [(file.path, file.name, file.mime) for file in files], as_json=options.json)

    return there_or_here(config, options, "answer", ask, answer)


async def _model_for(text: str, config: Config, options: argparse.Namespace) -> str:
    """'' where there is none and a command is to be carried out, as most of them need none."""
    from nanoclaw.providers import choose

    try:
        return await choose.choose_model(config, options.model)
    except ConfigError:
        if _is_command(text):
            return ""
        raise


def _is_command(text: str) -> bool:
    from nanoclaw.core import commands

    return commands.parse(text) is not None


def _only_looks(text: str) -> bool:
    """A command beside the queue leaves what was cut off to the next start; a stop ends that."""
    from nanoclaw.core import commands

    command = commands.parse(text)
    return command is not None and not commands.waits(command[0]) and command[0] != "stop"


def _talk(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw.channels.terminal import Terminal
    from nanoclaw.commands.greeting import greeting
    from nanoclaw.core import parts
    from nanoclaw.core.commands import COMMANDS
    from nanoclaw.providers import choose

    def terminal(hello: str) -> Terminal:
        return Terminal(
            options.session,
            history_file=config.home / "history",
            clock=parts.person_clock(config),
            greeting=hello,
            commands={f"/{name}": command.help for name, command in COMMANDS.items()},
            waiting=frozenset(f"/{name}" for name, command in COMMANDS.items() if command.waits),
        )

    async def talk() -> int:
        first = bool(parts.make_home(config)) or not (config.home / "history").exists()
        model = await choose.choose_model(config, options.model)
        own = terminal(greeting(config, model, first))
        async with serving(config, own, options, model, listens=True) as running:
            await running.run()
        return 0

    async def talk_to(link: attach.Link) -> int:
        from nanoclaw.channels import socket

        _end_at_signals()
        first, *rest = greeting(config, link.hello["model"] or "no model", False).split("\n")
        shown = terminal("\n".join([f"{first} · attached to process {link.hello['pid']}", *rest]))
        await socket.talk(link, shown, Address("terminal", options.session))
        return 0

    return there_or_here(config, options, "chat", lambda link: run(talk_to(link)), talk)


def there_or_here(
    config: Config,
    options: argparse.Namespace,
    want: str,
    there: Callable[[attach.Link], int],
    here: Callable[[], Coroutine[Any, Any, int]],
) -> int:
    """By way of the process that runs, or in this one. One that is just starting, or about to end, is waited for; a
    question or a command also waits until a process that does not listen has ended."""
    began, noted = time.monotonic(), False
    while True:
        if link := attached(config, options, want):
            return there(link)
        try:
            return run(here())
        except StoreBusy:
            waited = time.monotonic() - began
            if waited > (_BUSY_SECONDS if want == "chat" else _PATIENCE_SECONDS):
                raise
            if waited > _BUSY_SECONDS and not noted:
                noted = True
                attach.say(f"waiting for another nanoclaw (process {attach.holder(str(config.home))})")
            time.sleep(0.5 if noted else 0.1)


def attached(config: Config, options: argparse.Namespace, want: str) -> attach.Link | None:
    """A line to the process that runs already, if one does."""
    link = attach.connect(str(config.home), want, options.session)
    if link and options.model:
        raise ConfigError(
            f"process {link.hello['pid']} runs already and chooses its model itself: say /model {options.model} "
            "there, or end it first"
        )
    return link


@asynccontextmanager
async def serving(
    config: Config, own: Channel | None, options: argparse.Namespace, model: str, *, listens: bool = False
) -> AsyncIterator[App]:
    from nanoclaw.core import app

    me = _end_at_signals()
    async with app.open_app(config, own, model, forced=bool(options.model), listens=listens) as running:
        _when_ended(lambda: running.terminate(me))
        yield running


def _end_at_signals() -> asyncio.Task[Any]:
    me = asyncio.current_task()
    assert me is not None
    _when_ended(me.cancel)
    return me


def _when_ended(end: Callable[[], object]) -> None:
    """What to do when somebody ends this process, or closes its window: that counts unless `nohup` started it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end)


def run(work: Any) -> int:
    try:
        return int(asyncio.run(work))
    except asyncio.CancelledError:  # by a signal
        return 143


def gateway(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw.core import chats, parts
    from nanoclaw.providers import choose

    options.model = ""
    _give_memory_back()

    async def serve() -> None:
        parts.make_home(config)
        try:
            model = await choose.choose_model(config)
        except ConfigError as error:  # what needs none works: reminders, notes, commands
            model = ""
            attach.say(str(error))
        for lack in chats.incomplete(config).values():
            attach.say(lack)
        me = _end_at_signals()
        async with serving(config, None, options, model, listens=True) as running:
            _when_ended(lambda: _end_gateway(running, me))
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, _end_gateway, running, me)
            said = f"nanoclaw gateway: {running.in_words()}. Ctrl-C ends it."
            await running.run(lambda: print(said, flush=True))

    with suppress(asyncio.CancelledError):
        asyncio.run(serve())
    print("nanoclaw gateway: ended.")
    return 0


def _give_memory_back() -> None:
    """From now on large blocks go back to the system as soon as they are free. By itself glibc keeps blocks of a size
    that was freed once: a few mails with files of 18 MB then cost 130 MB for good."""
    import ctypes

    with suppress(AttributeError):  # other systems have no such option
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1_000_000)


def _end_gateway(running: App, serving: asyncio.Task[Any]) -> None:
    """What hangs is not waited for: all that must not be lost is on disk."""
    running.terminate(serving)
    asyncio.get_running_loop().call_later(_END_SECONDS, os._exit, 0)


def _attachment(path: Path) -> Attachment:
    from nanoclaw.core.context import attachment

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


COMMANDS = {"chat": chat, "gateway": gateway}
