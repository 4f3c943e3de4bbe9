"""`nanoclaw doctor`: looks at everything that a start needs, says what is wrong and what to do, and mends what can be
mended without losing anything. `nanoclaw audit` is what it says of what is open. Exit status: 0 all is well, 1
something is to be done, 2 the line was not understood."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from nanoclaw.channels import table as channels
from nanoclaw.commands.arguments import Options
from nanoclaw.commands.health import files, model, opened, settings, store
from nanoclaw.commands.home import running
from nanoclaw.commands.inspecting import app_over_copy
from nanoclaw.core.channel import ChannelTable
from nanoclaw.core.errors import ChannelError, ConfigError, NanoclawError, StoreError
from nanoclaw.core.plugin import Finding
from nanoclaw.installation import start_command
from nanoclaw.start.config import Config

if TYPE_CHECKING:
    from nanoclaw.core.app import App

State = Literal["ok", "note", "wrong", "fixed", "unchecked"]
Look = Callable[[], Iterable[Finding] | Awaitable[Iterable[Finding]]]

OPEN = "open"
"""The check whose lines are notes for the doctor, with a risk for the audit."""
CHANNEL_SECONDS, PLUGIN_SECONDS = 60.0, 90.0
"""Seconds within which a channel, and all plugins, must have answered."""


def doctor(config: Config, options: Options) -> int:
    from nanoclaw.commands.showing import redactor
    from nanoclaw.start.build import start_logging

    hide = redactor(config)
    start_logging(config, hide)
    return asyncio.run(_doctor(config, options, Report(as_json=options.json, hide=hide)))


async def _doctor(config: Config, options: Options, report: Report) -> int:
    if options.fix:
        await mend(config, report)
        config = settings.again(config)
    await examine(config, report)
    return report.end()


def audit(config: Config, options: Options) -> int:
    """Print the lines of the same list that say what is open, each with its risk; no model, channel or process is
    asked. Exit status: 1 if something is bad."""
    found = asyncio.run(_audited(config))
    is_bad = any(one.risk == "bad" for one in found)
    lines = [{"level": one.risk or "ok", "name": one.name, "text": one.text} for one in found]
    if options.json:
        print(json.dumps({"is_bad": is_bad, "findings": lines}))
    else:
        print("\n".join(f"{line['level']:8}{line['name']}: {line['text']}" for line in lines))
    return int(is_bad)


async def _audited(config: Config) -> list[Finding]:
    found = [*files.exposed(config), *files.exposed_workspace(config), *opened.opened(config)]
    async with app_over_copy(config) as app:
        return [*found, *await opened.opened_by(app)]


class ReportLine(NamedTuple):
    """A finding for the report. `check` is the kind of check, `name` the thing that was checked."""

    check: str
    name: str
    state: State
    text: str
    can_fix: bool = False


class Report:
    """Prints lines at once, or one object at the end, without known keys: servers quote what they were sent."""

    def __init__(self, *, as_json: bool, hide: Callable[[str], str] = str) -> None:
        self.as_json, self._hide, self._wrong = as_json, hide, dict[str, str]()
        self.lines = list[ReportLine]()

    def tell(self, check: str, found: Iterable[Finding]) -> None:
        for one in found:
            name = one.name or check
            state: State = "wrong" if not one.is_well else "note" if one.fix or one.risk else "ok"
            if state == "wrong" and (first := self._wrong.setdefault(one.text, name)) != name:
                self.unchecked(check, name, first)
            else:
                self.add(check, name, state, one.text, can_fix=one.fix is not None)

    def unchecked(self, check: str, name: str, why: str) -> None:
        """Report a check that cannot be made as long as something else is wrong."""
        verb = "are" if why in ("keys", "permissions") else "is"
        self.add(check, name, "unchecked", f"not checked, as the {why} {verb} wrong")

    def add(self, check: str, name: str, state: State, text: str, *, can_fix: bool = False) -> None:
        self.lines.append(line := ReportLine(check, name, state, self._hide(text), can_fix))
        if not self.as_json:
            print(f"{'?' if state == 'unchecked' else state:6}{name}: {line.text}", flush=True)

    def end(self) -> int:
        """Print what to do next. Returns the exit status."""
        wrong = sum(line.state == "wrong" for line in self.lines)
        status = int(wrong > 0)
        if self.as_json:
            findings = [line._asdict() for line in self.lines]
            print(json.dumps({"is_well": not wrong, "status": status, "findings": findings}))
            return status
        said = f"{wrong} thing{'s' * (wrong != 1)} to do." if wrong else "All is well."
        fixes = list(dict.fromkeys(line.name for line in self.lines if line.can_fix))
        print(f"{said} `{start_command()} doctor --fix` repairs: {', '.join(fixes)}." if fixes else said)
        return status


# --- what is looked at -----------------------------------------------------------------------------------------------


async def examine(config: Config, report: Report) -> None:
    """The home and the machine first, then all that answers from elsewhere, side by side."""
    pid, live = running(config)
    app: App | NanoclawError | None = None  # over a copy of the store, or why it cannot start
    async with AsyncExitStack() as stack:
        try:
            if not live and config.problem and not config.table:
                raise ConfigError(config.problem)
            app = None if live else await stack.enter_async_context(app_over_copy(config))
        except NanoclawError as error:
            app = error
        problem = str(app) if isinstance(app, ConfigError) else ""
        for check, look in _local(config, pid, live, problem):
            if why := _hidden(config, check):
                report.unchecked(check, check, why)
            else:
                found = await _found(check, look)
                report.tell(check, [one for one in found if check != OPEN or one.risk in ("warning", "bad")])
        if files.is_closed(config):
            return
        served = _configured(config)
        asked = ", ".join(["the plugins", *served, *(model.named(config) or ["a model"])])
        if not report.as_json:
            print(f"asking {asked}, each for up to {model.SECONDS:.0f} s …", flush=True)
        looks: list[tuple[str, str, Look, float | None]] = [
            ("plugin", "plugin", lambda: _plugins(app, live), PLUGIN_SECONDS),
            *(("channel", one, partial(_login, config, served[one], pid, live), CHANNEL_SECONDS) for one in served),
            ("model", "model", lambda: model.models(config), None),
        ]
        tasks = [(one[0], asyncio.create_task(_found(*one[1:]))) for one in looks]
        try:
            if isinstance(app, StoreError):
                report.unchecked("plugin", "plugins", "store")
            for check, task in tasks:
                report.tell(check, await task)
        finally:
            for _, task in tasks:
                task.cancel()


def _hidden(config: Config, check: str) -> str:
    """The check that must succeed before this one can be made; '' for none."""
    if files.is_closed(config) and check not in ("permissions", "time zone"):
        return "permissions"
    is_unknown = bool(config.problem and not config.table)
    return "configuration" if is_unknown and check in ("workspace", "keys") else ""


def _local(
    config: Config, pid: int | None, live: dict[str, Any] | None, problem: str = ""
) -> Iterator[tuple[str, Look]]:
    """All checks that need no network, by kind. `problem` is what a start said about the configuration."""
    yield "time zone", lambda: settings.zone(config)
    yield "configuration", lambda: settings.settings(config, live, problem)
    yield "permissions", lambda: (*files.exposed(config), *files.exposed_workspace(config), *files.locked(config))
    yield "workspace", lambda: files.folders(config)
    yield "disk", lambda: files.room(config)
    yield "keys", lambda: settings.keys(config, model.named(config))
    yield "store", lambda: store.store(config, pid)
    yield "running", lambda: _running(pid, live)
    yield OPEN, lambda: opened.opened(config)


async def _found(name: str, look: Look, seconds: float | None = None) -> list[Finding]:
    """The findings of a check; an error becomes one, too, and so does no answer in time."""
    try:
        async with asyncio.timeout(seconds):
            found = look()
            return list(await found if isinstance(found, Awaitable) else found)
    except NanoclawError as error:
        text = str(error)
    except OSError as error:
        text = f"{error.filename or name}: {error.strerror or error}"
        if seconds and isinstance(error, TimeoutError):
            who, how = ("the plugins", "see the log") if name == "plugin" else (name, "check the network")
            text = f"{who} did not answer within {seconds:.0f} s: {how}."
    return [Finding(False, text, name)]


def _running(pid: int | None, live: dict[str, Any] | None) -> Iterator[Finding]:
    if pid is None:
        yield Finding(True, f"no: reminders come while {start_command()} gateway, or a chat, runs")
    elif live is None:
        yield Finding(False, f"process {pid} is using the home and does not answer: wait for it, or end it")
    elif troubles := [f"{one['name']}: {one['trouble']}" for one in live["channels"] if one["trouble"]]:
        text = f"process {pid} has a channel that failed and is being restarted: {'; '.join(troubles)}"
        yield Finding(False, text)
    else:
        yield Finding(True, f"process {pid}, {live['role']}")


async def _plugins(app: App | NanoclawError | None, live: dict[str, Any] | None) -> list[Finding]:
    """Ask the plugins of the running process, or of this one. Raises NanoclawError if it cannot start."""
    if live:
        return [Finding(is_well, text, name) for name, is_well, text in live["findings"]]
    if app is None or isinstance(app, StoreError):  # which has a line of its own
        return []
    if isinstance(app, NanoclawError):
        raise app
    return [one._replace(name=one.name or plugin, fix=None) for plugin, one in await app.findings(deep=True)]


def _configured(config: Config) -> dict[str, ChannelTable]:
    with suppress(ConfigError):
        return {name: table for name, table in channels.tables(config).items() if table.is_configured}
    return {}


async def _login(config: Config, table: ChannelTable, pid: int | None, live: dict[str, Any] | None) -> list[Finding]:
    """Ask the process that runs a channel, else log in."""
    served = next((one for one in live["channels"] if one["name"] == table.name), None) if live else None
    if served and served["trouble"]:
        raise ChannelError(served["trouble"])
    if served:
        seen = "" if served["alive"] is None else f"; last sign of life {served['alive']:.0f} s ago"
        return [Finding(True, f"served by process {pid}{seen}", table.name)]
    now = config.clock()
    who = await channels.login(config, table, now)
    is_good, text = await channels.proof(config, table, now)
    if not is_good:
        raise ChannelError(text)
    said = "configured; it has no way to check its login" if who is None else f"logged in as {who}"
    return [Finding(True, f"{said}; {text}" if text else said, table.name)]


# --- --fix -----------------------------------------------------------------------------------------------------------


async def mend(config: Config, report: Report) -> None:
    """Repair findings on this machine. The check that follows says what is still wrong."""
    pid, live = running(config)
    for check in ("permissions", ""):  # the first may open what the others stand on
        config = settings.again(config)
        for name, look in _local(config, pid, live):
            for one in await _found(name, look) if check in (name, "") and not _hidden(config, name) else ():
                if one.fix:
                    with suppress(NanoclawError, OSError):
                        report.add(name, one.name or name, "fixed", await one.fix())
