"""`nanoclaw doctor`: looks at everything that a start needs, and says what is wrong with it."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from nanoclaw.channels import attach
from nanoclaw.channels import table as channels
from nanoclaw.core import home, secrets_file
from nanoclaw.core.channel import ChannelTable
from nanoclaw.core.clock import clock
from nanoclaw.core.config import Config
from nanoclaw.core.errors import ChannelError, ConfigError, NanoclawError, StoreError, WorkspaceError
from nanoclaw.core.messages import ModelRequest, SystemPrompt, UserMessage
from nanoclaw.core.plugin import Finding
from nanoclaw.core.store.copies import daily_copies, is_whole
from nanoclaw.core.store.db import FULL_BYTES, is_undamaged
from nanoclaw.core.store.lock import owner
from nanoclaw.core.workspace import Workspace
from nanoclaw.installation import start_command
from nanoclaw.redaction import Redactor

Check = Callable[[], str]
"""Says what it found, or raises NanoclawError."""


def doctor(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw.core.build import start_logging

    start_logging(config, Redactor([config.model.api_key]))
    lines: list[dict[str, str]] = []
    problems: dict[str, str] = {}

    def tell(state: str, what: str, text: str) -> None:
        lines.append({"state": state, "name": what, "text": text})
        if not options.json:
            print(f"{'?' if state == 'unchecked' else state:6}{what}: {text}")

    for finding, done in asyncio.run(_mended(config)) if options.fix else ():
        tell("fixed", finding.name, done)
    for what, check in checks(config):
        try:
            tell("ok", what, check())
        except NanoclawError as error:
            first = problems.setdefault(str(error), what)
            if first == what:
                tell("wrong", what, str(error))
            else:
                tell("unchecked", what, f"not checked, as the {first} is wrong")
    if options.json:
        print(json.dumps({"is_well": not problems, "findings": lines}))
    return 1 if problems else 0


async def _mended(config: Config) -> list[tuple[Finding, str]]:
    """Mend the modes of files; each finding with what was done."""
    from nanoclaw.commands.audit import of_files

    found = []
    for finding in of_files(config):
        if finding.fix:
            with suppress(OSError):  # the check says what is wrong
                found.append((finding, await finding.fix()))
    return found


def checks(config: Config) -> Iterator[tuple[str, Check]]:
    """Everything that is looked at, by name; later checks are made from what earlier ones found."""
    pid = owner(config.home / "state.db")
    live = attach.status(str(config.home)) if pid else None
    findings: list[list[Any]] = live.get("findings", []) if live else []

    def configuration() -> str:
        for lack in channels.incomplete(config):
            raise ConfigError(lack)
        if not pid:
            with suppress(StoreError):  # which has a line of its own
                findings.extend(asyncio.run(_findings(config)))
        return str(config.file) if config.file.exists() else "none, defaults"

    yield "time zone", partial(_time_zone, config)
    yield "configuration", configuration
    yield "secrets", partial(_secrets, config)
    yield "workspace", partial(_workspace, config)
    yield "store", partial(_store, config, pid)
    yield "running", partial(_running, pid, live)
    for name, table in _configured(config).items():
        yield name, partial(_login, config, table, pid, live)
    for plugin, is_well, text in findings:
        yield plugin, partial(_found, is_well, text)
    yield "model", lambda: asyncio.run(_model(config))
    for name, purposes in _of_purposes(config).items():
        yield f"model for {', '.join(purposes)}", partial(_model_of_purpose, config, name, purposes)


async def _findings(config: Config) -> list[list[Any]]:
    """Ask the plugins, in this process. Raises NanoclawError for what cannot start."""
    from nanoclaw.commands.looking import looked_at

    async with looked_at(config) as app:
        return found(await app.findings(deep=True))


def found(findings: Iterable[tuple[str, Finding]]) -> list[list[Any]]:
    """Findings of plugins as they are sent to another process: whose, whether it is well, and what."""
    return [[one.name or plugin, one.is_well, one.text] for plugin, one in findings]


def _found(is_well: bool, text: str) -> str:
    if not is_well:
        raise NanoclawError(text)
    return text


def _time_zone(config: Config) -> str:
    now = clock(config.person.timezone, config.environment)
    return f"{now.name}, now {now():%Y-%m-%d %H:%M}"


def _secrets(config: Config) -> str:
    from nanoclaw.commands.keys import settings

    for told in (*secrets_file.readable_by_others(config.home, config.keys.written), *config.keys.lacking()):
        raise ConfigError(told)
    told = ", ".join(map(str, settings(config)))
    return f"nobody else can read them; {told}"


def _workspace(config: Config) -> str:
    home.make_home(config)
    Workspace(config.workspace_path).check_writable()
    if shutil.disk_usage(config.workspace_path).free < FULL_BYTES:
        raise WorkspaceError(f"the disk of {config.workspace_path} is full: nothing more can be kept.")
    return str(config.workspace_path)


def _store(config: Config, pid: int | None) -> str:
    with home.stored(config) as opened:
        if opened is None:
            return "none yet"
        if not (is_whole(opened.db) if pid else is_undamaged(opened.path)):  # whoever runs writes the journal
            raise StoreError(
                f"{opened.path} is damaged. The next chat keeps it aside and goes on with what can be read."
            )
        copies = daily_copies(opened.path)
        kept = f"{len(copies)} daily copies, the newest {copies[0].name}" if copies else "no daily copy yet"
        return f"{opened.path}; {kept}"


def _running(pid: int | None, live: dict[str, Any] | None) -> str:
    if pid is None:
        return f"no: reminders come while {start_command()} gateway, or a chat, runs"
    if live is None:
        return f"process {pid}, which does not answer: wait for it, or end it"
    troubles = [f"{one['name']}: {one['trouble']}" for one in live["channels"] if one["trouble"]]
    if troubles:
        raise StoreError(f"process {pid} has a channel that broke off and is started again: {'; '.join(troubles)}")
    return f"process {pid}, {live['role']}"


def _configured(config: Config) -> dict[str, ChannelTable]:
    try:
        return {name: table for name, table in channels.tables(config).items() if table.is_configured}
    except ConfigError:  # the configuration is wrong
        return {}


def _login(config: Config, table: ChannelTable, pid: int | None, live: dict[str, Any] | None) -> str:
    """Ask the process that serves a channel, else log in."""
    served = next((one for one in live["channels"] if one["name"] == table.name), None) if live else None
    if served and served["trouble"]:
        raise ChannelError(served["trouble"])
    if served:
        return f"served by process {pid}"
    now = clock(config.person.timezone, config.environment)
    who = asyncio.run(channels.login(config, table, now))
    is_good, text = asyncio.run(channels.proof(config, table, now))
    if not is_good:
        raise ChannelError(text)
    said = "configured; it has no way to check its login" if who is None else f"logged in as {who}"
    return f"{said}; {text}" if text else said


async def _model(config: Config) -> str:
    from nanoclaw.providers.choose import choose_model

    return await _asked(config, await choose_model(config))


def _of_purposes(config: Config) -> dict[str, list[str]]:
    """The models that [models] names, each with its purposes."""
    found: dict[str, list[str]] = {}
    for purpose, own in config.purposes.models.items():
        for name in filter(None, (own.name, *own.fallback)):
            found.setdefault(name, []).append(purpose)
    return found


def _model_of_purpose(config: Config, name: str, purposes: list[str]) -> str:
    from nanoclaw.providers.choose import check_transcription

    if "transcription" in purposes:
        check_transcription(config, name)
        if len(purposes) == 1:
            return f"{name} is set up; it is not asked, as there is no sound to try it with"
    return asyncio.run(_asked(config, name))


async def _asked(config: Config, name: str) -> str:
    from nanoclaw.providers.choose import make_provider

    provider = make_provider(config, name)
    try:
        hello = UserMessage("Answer with one word: hello", clock(config.person.timezone, config.environment)())
        answer = await provider.complete(ModelRequest(SystemPrompt(""), (hello,)), lambda event: None)
        return f"{name} answers: {' '.join(answer.text.split())[:60]!r}"
    finally:
        await provider.aclose()
