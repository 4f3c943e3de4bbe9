"""The command line: what can be said there, and who carries it out. Exit status: 0 done, 1 failed, 2 usage or
configuration, 130 interrupted."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from nanoclaw.channels import attach
from nanoclaw.commands import ACTIONS, FAMILIES
from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.escapes import guard_streams
from nanoclaw.start import config as configuration
from nanoclaw.start.config import Config

if TYPE_CHECKING:
    import argparse


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit status; nothing but a sentence reaches the person."""
    guard_streams()
    argv = ["jobs" if at == 0 and word == "cron" else word for at, word in enumerate(argv)]
    if argv and not argv[0].startswith("-") and not is_built_in(*argv[:2]):
        return _guarded(lambda: _said_in_chats(argv), argv)
    options = _options(argv)
    return _guarded(lambda: _run(options), argv)


CHAT = {"command": "chat", "without_config": False, "version": False, "model": "", "files": [], "without": []}
"""Things that a common line does not say."""


def _options(argv: Sequence[str]) -> Any:
    """The options of a line. The common ones are read without argparse, which takes 30 M instructions."""
    common = attach.common_options(argv)
    if common is not None:
        return SimpleNamespace(**CHAT, **common)
    from nanoclaw.commands.arguments import chat_parser, parser

    words, program = list(argv), list[str]()
    if "mcp" in words and "--" in words:  # behind it stands a whole command line of another program
        words, program = words[: words.index("--")], words[words.index("--") + 1 :]
    chosen = parser(words) if not FAMILIES.keys().isdisjoint(words) or _asks_for_help(words) else chat_parser()
    return chosen.parse_args(words, SimpleNamespace(program=program))


def _run(options: argparse.Namespace) -> int:
    home = configuration.home_of(os.environ)
    _finish_restore(home)
    config = Config(home) if options.without_config else _configured(options)
    try:
        return _carry_out(config, options)
    except ConfigError as error:  # some is known only when all plugins are there: a name in [tools] that no tool has
        if config.problem or not _goes_on(options):
            raise
        from nanoclaw.commands import last_good

        return _carry_out(last_good.instead(os.environ, error, tuple(options.without)), options)


def _carry_out(config: Config, options: argparse.Namespace) -> int:
    without = tuple(options.without)
    config = config._replace(plugins=config.plugins._replace(off=(*config.plugins.off, *without)), without=without)
    if options.command != "doctor":  # which has lines for them
        for warning in config.warnings:
            attach.say(warning)
    status = _done(options.command, config, options)
    if sys.stdout:  # what finds no room is told, not left to the end of the interpreter
        sys.stdout.flush()
    return status


def _configured(options: argparse.Namespace) -> Config:
    """The doctor says what is wrong with a broken file, and looks at the rest."""
    if options.command == "doctor":
        from nanoclaw.commands.health import settings

        return settings.load(os.environ)
    if not _goes_on(options):
        return configuration.load(os.environ)
    from nanoclaw.commands import last_good

    return last_good.load(os.environ, tuple(options.without))


def _goes_on(options: argparse.Namespace) -> bool:
    """True for talking, and the gateway: they go on with the last good settings where the file is broken."""
    return options.command in ("chat", "gateway")


def _guarded(work: Callable[[], int], argv: Sequence[str]) -> int:
    try:
        return work()
    except NanoclawError as error:
        return attach.failed(error, as_json="--json" in argv)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left of the output
        if error.errno != errno.EPIPE:  # else whoever read it has left
            attach.say(f"not everything could be written: {error.strerror}")
        return 1


def _said_in_chats(argv: Sequence[str]) -> int:
    """A command of the chat: `nanoclaw frost Berlin` is `/frost Berlin`."""
    from nanoclaw.commands.plugins import OF_TALK, carry_out

    as_json = "--json" in argv
    name, *words = [word for word in argv if word != "--json"]
    if _asks_for_help(words):
        name, words = "help", [name]
    # the shell has taken away the quotes of /memory add --replaces "old words"
    quoted = (f'"{one}"' if before in ("--replaces", "--also") else one for before, one in pairwise(["", *words]))
    piped = attach.piped() if name == "send" and "-" in words else ""
    argument = json.dumps([os.getcwd(), piped, *words]) if name == "send" else " ".join(quoted)  # noqa: PTH109
    only_reads = name == "help" or (name in ONLY_SHOW and words[:1] in ([], ["list"], ["show"], ["next"]))
    status = carry_out(configuration.load(os.environ), name, argument, as_json=as_json, only_reads=only_reads)
    said = ["-m", f"/{name} {argument}".strip(), *["--json"] * as_json]
    return _run(_options(said)) if status == OF_TALK else status


ONLY_SHOW = ("jobs", "skills")
"""Commands that only show something, with nothing more said or `list`, `show` or `next`: also on a full disk."""


def _asks_for_help(argv: Sequence[str]) -> bool:
    return any(word in ("-h", "--help") for word in argv)


def is_built_in(word: str, action: str = "") -> bool:
    """True for what the command line alone carries out, or in a way of its own."""
    return word in FAMILIES and (word not in ACTIONS or action in ("-h", "--help", *ACTIONS[word]))


def _done(command: str, config: Config, options: argparse.Namespace) -> int:
    """The exit status of a command, whose module is imported only now."""
    try:
        module = import_module(f"nanoclaw.commands.{FAMILIES.get(command.split()[0], 'talking')}")
        return int(module.COMMANDS[command](config, options))
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("nanoclaw.plugins."):
            raise
        raise ConfigError(f"nanoclaw {command} needs {error.name}, which is missing from this program.") from None


def _finish_restore(home: Path) -> None:
    """One that was cut short, before anything else is read."""
    if os.path.exists(home / "restoring.json"):  # noqa: PTH110  # False for a home that is closed to oneself
        from nanoclaw.plugins.backup.backup import finish_restore

        finish_restore(home)
