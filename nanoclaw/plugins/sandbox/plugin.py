"""Sandbox of commands: what they see and reach, at which level, and what becomes of them where there is none."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nanoclaw.core.errors import ConfigError, ToolError
from nanoclaw.core.messages import CheckedCall
from nanoclaw.core.plugin import Ask, Finding, Hears, Host, NamedTuple, Plugin, Refuse, Turn, Verdict
from nanoclaw.escapes import one_line

if TYPE_CHECKING:
    from nanoclaw.net.proxy import JudgingProxy
    from nanoclaw.plugins.sandbox.wording import Opening
    from nanoclaw.sandbox.sandbox import Encloser, Strength
    from nanoclaw.sandbox.view import Grants
    from nanoclaw.spawn import Bounds, Keeper

Level = Literal["none", "files", "files+net", "full"]
_ORDER: tuple[Level, ...] = ("none", "files", "files+net", "full")

_OF: dict[Level, str] = {
    "full": "commands see the workspace and the system's programs, change only the workspace, and have no network",
    "files+net": "commands read and change only what they may, and have no network; they see other programs' names",
    "files": "commands read and change only what they may, but have the network",
    "none": "commands can do whatever you may",
}
_NOT_BEYOND = (
    "not run: a command can leave the sandbox only in a conversation with the person, who is asked. Do without, or "
    "say what they would have to do."
)
_SAID: dict[Level, str] = {
    "full": "the workspace, no network",
    "files+net": "the workspace, no network; hooks that they change are put back",
    "files": "the workspace, but the network is open",
    "none": "",
}
_FAILED: dict[Level, str] = {
    "full": "writes only to the workspace; /tmp is emptied after each command; {net}",
    "files+net": "writes only to the workspace and $TMPDIR; no network",
    "files": "writes only to the workspace and $TMPDIR",
    "none": "",
}


class SandboxSettings(NamedTuple):
    """The sandbox of commands."""

    level: Level = "files"  # weakest sandbox in which commands run without asking; "none": even without any
    # servers that commands may reach over http and https: ["pypi.org", "*.pythonhosted.org"]
    hosts: tuple[str, ...] = ()

    def check(self) -> None:
        if self.hosts:
            from nanoclaw.net.public import check_allowed

            for one in self.hosts:
                try:
                    check_allowed(one.removeprefix("*."))
                except ValueError:
                    how = 'write it as "pypi.org", "*.pythonhosted.org" or "example.org:8443".'
                    raise ConfigError(f"sandbox.hosts: {one!r} is not a host; {how}") from None


class Sandbox(Plugin):
    name = "sandbox"
    settings = SandboxSettings
    hears: Mapping[str, Hears] = {"before_tool": Hears(tools=("exec", "process"))}

    def __init__(self, host: Host, settings: SandboxSettings) -> None:
        self._host, self._settings = host, settings
        self.public = self._commands = SandboxedCommands(host, settings)

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        typed = str(call.arguments.get("command" if call.name == "exec" else "text") or "")
        if call.name != "exec" and not (call.arguments.get("action") == "input" and typed):
            return None
        if call.arguments.get("beyond"):
            return await self._ask_beyond(call, turn)
        if not (why := await self._commands.refusal()):
            return None
        if turn.profile.name != "person":
            return Refuse(why)
        from nanoclaw.plugins.sandbox import wording

        if call.name == "process":  # a line for a shell is a command
            asked = f"Give this to process {call.arguments.get('id')}, which runs without a sandbox? {wording.FREE}"
        else:
            asked = f"Run this without a sandbox? {wording.FREE}"
        return Ask(asked, exact=typed)

    async def _ask_beyond(self, call: CheckedCall, turn: Turn) -> Verdict:
        """Have the owner decide on a command that is to run outside of the sandbox, whatever else is allowed."""
        if turn.profile.name != "person":
            return Refuse(_NOT_BEYOND)
        from nanoclaw.plugins.sandbox import wording

        given, home = call.arguments, self._commands.home
        command, is_background = str(given["command"]), bool(given.get("background"))
        if opened := await self._commands.opening(command):
            return opened.ask(command, str(given["beyond"]))
        asked = wording.question(command, str(given["beyond"]), self._host.workspace, home, is_background=is_background)
        return Ask(asked, exact=command, scope=None if is_background else wording.scope(command))

    async def check(self, deep: bool) -> Iterable[Finding]:
        strength = await self._commands.detect(anew=deep)
        lacks = f" ({'; '.join(strength.lacks)})" if strength.lacks else ""
        text = f"{strength.level}{lacks}: {_OF[strength.level]}"
        if strength.bwrap.endswith("sandbox-exec"):
            text += ". On this Mac reading, writing and connecting outside were tried, and failed"
        if _is_less(strength.level, self._settings.level):
            text += f". Each asks you first; tasks and guests run none ([sandbox] level, now {self._settings.level!r})"
        elif self._settings.hosts and strength.level == "full":
            text = text.replace("have no network", f"reach {', '.join(self._settings.hosts)}")
        elif self._settings.hosts:
            text += ". [sandbox] hosts are reached only at level full"
        return [Finding(strength.level != "none" or self._settings.level == "none", text, "sandbox")]

    async def audit(self) -> Iterable[Finding]:
        settings, level = self._settings, (await self._commands.detect()).level
        found = [Finding(True, f"{level}: {_OF[level]}", "sandbox", risk="" if level != "none" else "warning")]
        if settings.level == "none":
            risk: Literal["note", "bad"] = "bad" if level == "none" else "note"
            text = '[sandbox] level = "none": where there is no sandbox commands run with your rights, unasked'
            found.append(Finding(risk == "note", text, "sandbox", risk=risk))
        if settings.hosts:
            text = f"commands reach {', '.join(settings.hosts)}: what the workspace has can be sent there"
            found.append(Finding(True, text, "sandbox", risk="note"))
        return found

    def banner(self) -> str:
        return self._commands.banner()

    async def run(self) -> None:
        from nanoclaw.scratch_folders import remove_left_over

        await asyncio.to_thread(remove_left_over)

    async def aclose(self) -> None:
        await self._commands.aclose()


class SandboxedCommands:
    """Puts commands into the sandbox: what the plugin makes public."""

    def __init__(self, host: Host, settings: SandboxSettings) -> None:
        self._host, self._settings = host, settings
        self._found: tuple[str, Strength] | None = None  # facts, and the level that was said when they held
        self._encloser: Encloser | None = None
        self._looking, self._enclosing = asyncio.Lock(), asyncio.Lock()
        self._proxies: dict[tuple[str, ...], tuple[str, JudgingProxy]] = {}
        self._opened: dict[str, Opening | None] = {}  # by command; None where it wasn't enough
        self._folder = ""

    # --- the level ---------------------------------------------------------------------------------------------------

    def banner(self) -> str:
        """A line for the beginning of a talk. The first one of all looks what there is, which takes a moment."""
        try:
            strength = self._settle()
        except ToolError as error:
            return f"Commands don't run: {error}. `nanoclaw doctor` looks at it, and that level holds then."
        level = strength.level
        asks = ", so each asks you first" if _is_less(level, self._settings.level) else ""
        how = f"in a sandbox ({level}): {self._said(level)}" if level != "none" else "without a sandbox"
        return f"Commands run {how}{asks}.{_more(strength)}"

    def _said(self, level: Level) -> str:
        hosts = f"of the network {', '.join(self._settings.hosts)}"
        return _SAID[level].replace("no network", hosts) if level == "full" and self._settings.hosts else _SAID[level]

    async def detect(self, *, anew: bool = False) -> Strength:
        """Find out what there is, and say so from now on."""
        async with self._looking:
            said = None if anew else _still(self._found)
            return await asyncio.to_thread(self._find, anew=anew) if said is None else said

    async def refusal(self) -> str:
        """Why a command doesn't run unasked; '' if it does."""
        strength = await self._current()
        if not _is_less(strength.level, self._settings.level):
            return ""
        return (
            f"not run: the sandbox of commands is {strength.level!r} on this machine, so only the person can allow "
            "each (or all, by [sandbox] level in config.toml). Tell them; don't look for a way around it."
        )

    def only_looks(self, command: str) -> bool:
        """True for a command that is kept from writing, as it is for looking: nothing in the workspace changes."""
        from nanoclaw.command_needs import writes_nothing

        return self._level == "full" and writes_nothing(command)

    async def confines(self) -> bool:
        """True if a command reaches neither the network nor folders besides the workspace."""
        level = (await self._current()).level
        is_closed = level == "files+net" or (level == "full" and not self._settings.hosts)
        return is_closed and not self._host.reach.write

    async def _current(self) -> Strength:
        """The level that was said, as long as it holds. Raises ToolError if there is less now than was said."""
        async with self._looking:
            try:
                return await asyncio.to_thread(self._settle) if (said := _still(self._found)) is None else said
            except ToolError as error:
                raise ToolError(f"not run: {error}. The person must look at it first: `nanoclaw doctor`.") from None

    def _settle(self) -> Strength:
        """Settle on the level that was said, or on what there is now. Raises ToolError if that is less."""
        if (said := _still(self._found)) is None:
            saved = self._saved()  # the person may have looked by another program, such as doctor
            if (said := _still(saved)) or self._found is None:
                self._found = saved
        return self._find(least=self._level) if said is None else said

    @property
    def _level(self) -> Level:
        return self._found[1].level if self._found else "none"

    def _find(self, *, anew: bool = False, least: Level = "none") -> Strength:
        """Find out what there is, which is said from now on. Raises ToolError for less than the `least` level."""
        from nanoclaw.sandbox.sandbox import facts, find_strength

        found = find_strength(self._grants(), anew=anew)
        if _is_less(found.level, least):
            lacks = "; ".join(found.lacks)
            raise ToolError(f"the sandbox of commands was {least!r} and would now be {found.level!r} ({lacks})")
        self._found = facts(), found
        self._write("level.json", {"facts": self._found[0], "strength": found})
        return found

    def _saved(self) -> tuple[str, Strength] | None:
        from nanoclaw.sandbox.sandbox import Strength

        try:
            saved: Any = self._read("level.json")
            level, bwrap, lacks = saved["strength"]
            return (saved["facts"], Strength(level, bwrap, tuple(lacks))) if level in _ORDER else None
        except (KeyError, TypeError, ValueError):
            return None

    # --- a command ---------------------------------------------------------------------------------------------------

    async def enclose(
        self, command: Sequence[str], environment: Mapping[str, str], bounds: Bounds, seconds: int = 0, beyond: str = ""
    ) -> tuple[Sequence[str], Mapping[str, str], Keeper | None]:
        """A command in the sandbox; as it was where there is none, or where all of it, which is then `beyond`, must
        leave it: for these the person has been asked. Raises ToolError."""
        from nanoclaw.plugins.sandbox.wording import Opening
        from nanoclaw.sandbox.protect import SandboxError
        from nanoclaw.sandbox.sandbox import Encloser
        from nanoclaw.scratch_folders import remove_left_over

        opened = await self.opening(beyond) if beyond else Opening()
        if opened is None or (strength := await self._current()).level == "none":
            return command, environment, None
        if beyond:
            self._opened[beyond] = opened
        relay = await self._relay(opened) if strength.level == "full" else ""
        cpu = seconds * (os.cpu_count() or 1)
        if self._encloser is None:
            await asyncio.to_thread(remove_left_over)
        try:
            async with self._enclosing:
                encloser = self._usual(strength)
                if opened.places:
                    grants = self._grants()
                    grants = grants._replace(read=(*grants.read, *(one.resolve() for one in opened.places)))
                    encloser = Encloser(grants, strength, encloser.known, self._host.home / "put-back")
                given = command, environment, bounds, relay, not self.only_looks(command[-1]), cpu
                making = asyncio.create_task(asyncio.to_thread(encloser.enclose, *given))
                try:
                    made = await asyncio.shield(making)
                except asyncio.CancelledError:
                    with suppress(OSError):
                        (await making).close()  # nobody else would
                    raise
                if encloser.known != self._places:
                    self._places = encloser.known
                    self._write("places.json", self._places)
        except SandboxError as error:
            raise ToolError(f"not run: {error}.") from None
        except OSError as error:
            raise ToolError(f"not run: the sandbox could not be set up: {error.strerror}.") from None
        return made.arguments, made.environment, made.keeper

    def _usual(self, strength: Strength) -> Encloser:
        """The one of commands for which nothing is opened."""
        from nanoclaw.sandbox.sandbox import Encloser

        if self._encloser is None or self._encloser.strength != strength:
            self._encloser = Encloser(self._grants(), strength, self._places, self._host.home / "put-back")
        return self._encloser

    @cached_property
    def _places(self) -> list[str]:
        """Places with something to protect that were found before, the first ones first."""
        read = self._read("places.json")
        return [one for one in read if isinstance(one, str)] if isinstance(read, list) else []

    def _read(self, name: str) -> object:
        try:
            return json.loads((self._host.home / name).read_bytes())
        except (OSError, ValueError):
            return None

    def _write(self, name: str, value: object) -> None:
        from nanoclaw.atomic_write import write_atomically

        try:
            write_atomically(self._host.home / name, json.dumps(value).encode())
        except OSError as error:  # it is found out anew then
            self._host.log.warning("{} cannot be saved: {}", name, error)

    @property
    def home(self) -> Path:
        """The person's."""
        return Path(self._host.environment.get("HOME") or Path.home())

    async def opening(self, command: str) -> Opening | None:
        """Find what can be opened for a command that needs more; None if it must leave the sandbox."""
        from nanoclaw.plugins.sandbox.wording import opening

        with suppress(ToolError, OSError):
            if (strength := await self._current()).level != "none" and self._opened.get(command, True):
                self._usual(strength)
                hidden, found = self._grants().hidden, opening(command, self._outside(command))
                if found and not any(one.resolve().is_relative_to(other) for one in found.places for other in hidden):
                    return found if strength.level == "full" or not found.hosts else None
        return None

    def note(
        self, failure: bytes | None = None, command: str = "", *, may_ask: bool = False, is_beyond: bool = False
    ) -> str:
        """About the sandbox, for the result of a `command`: more where it failed, with this output; and how to ask for
        more where the sandbox kept it from something."""
        level, opened = self._level, self._opened.get(command)
        if is_beyond and not opened:
            return "outside of the sandbox"
        if level == "none":
            return "no sandbox"
        from nanoclaw.kept_files import OWN

        hosts = ", ".join((*self._settings.hosts, *(opened.hosts if is_beyond and opened else ())))
        net = f"of the network only {hosts}" if hosts else "no network"
        is_partly = self._encloser and not self._encloser.has_searched_all
        level_said = f"in the sandbox{f' ({level})' * (level != 'full')}" + _TOO_MANY_FOLDERS * bool(is_partly)
        if failure is None:
            return level_said
        missed = "" if is_beyond else self.missed(command, failure)
        sounds = bool(missed or is_beyond or re.search(_KEPT, failure) or re.search(_NET, command))
        beyond = "; `beyond` asks the person for more" if may_ask and sounds else ""
        if is_beyond:
            self._opened[command] = None  # it wasn't enough
        if missed:
            return f"{level_said}: {missed} is outside of it, so it was neither read nor changed{beyond}"
        kept = "; .git/config and hooks change only outside of it" if level == "full" and b".git/" in failure else ""
        kept += _OWN_FILES if sounds and any(one in command or one.encode() in failure for one in OWN) else ""
        return f"{level_said}: {_FAILED[level].format(net=net)}{kept}{beyond}"

    def missed(self, command: str, output: bytes) -> str:
        """A place outside of the sandbox that a command names, and an error in its output too, if it doesn't hide
        these; '' for none."""
        errors = [line for line in output.decode("utf-8", "replace").splitlines() if re.search(_CLOSED, line)]
        for name, path in self._outside(command).items():
            if re.search(_HIDES, command) or any(name in line or str(path) in line for line in errors):
                return one_line(name, 100)
        return ""

    def _outside(self, command: str) -> dict[str, Path]:
        """Places that a command names and that are there outside of the sandbox only; of a pattern its folder."""
        found = dict[str, Path]()
        for name in re.findall(_NAMED, command)[:20]:
            name = name.partition("*")[0].rpartition("/")[0] if "*" in name else name
            path = Path(re.sub(r"^(~|\$HOME|\$\{HOME\})(?=/|$)", lambda _: str(self.home), name))
            is_own = path.is_relative_to(self._host.program_home)
            if self._encloser and path.is_absolute() and not is_own and self._encloser.lacks(path):
                found[name] = path
        return found

    def _grants(self) -> Grants:
        from nanoclaw.sandbox.view import Grants

        environment, home, reach = self._host.environment, self.home, self._host.reach
        read, write = (tuple(one.resolve() for one in many) for many in (reach.read, reach.write))
        skills = self._host.get("skills")
        read += tuple(Path(one).resolve() for one in skills.folders) if skills else ()
        hidden = tuple(one.resolve() for one in reach.closed)
        workspace, path = self._host.workspace, environment.get("PATH", "")
        spelled = (workspace, home, *reach.read, *reach.write)
        return Grants(workspace.resolve(), hidden, home.resolve(), path, read, write, spelled)

    async def _relay(self, opened: Opening) -> str:
        """The socket of a proxy to the hosts that are open, '' if none are."""
        if not (hosts := (*self._settings.hosts, *opened.hosts)):
            return ""
        if hosts not in self._proxies:
            from nanoclaw import scratch_folders
            from nanoclaw.net.proxy import JudgingProxy

            self._folder = self._folder or scratch_folders.make("relay")  # the path of a socket must be short
            allow = (*self._host.setting("net.allow"), *(one for one in opened.hosts if re.match(_LOCAL, one)))
            path, proxy = f"{self._folder}/{len(self._proxies)}", JudgingProxy(allow, hosts)
            self._proxies[hosts] = path, proxy
            await proxy.start_at(path)
        return self._proxies[hosts][0]

    async def aclose(self) -> None:
        for _, proxy in self._proxies.values():
            await proxy.aclose()
        if self._folder:
            import shutil

            shutil.rmtree(self._folder, ignore_errors=True)


_TOO_MANY_FOLDERS = "; too many folders: a repository that no command saw yet may be unprotected"
_OWN_FILES = "; no command changes memory, skills and AGENTS.md: write_file and the memory's tools do"

_NAMED = r"(?:^|[\s=:'\"(>])((?:~|\$HOME|\$\{HOME\}|/)[^\s'\"|;&<>()]*)"
_NET = r"\b(?:pip3?|npm|npx|yarn|pnpm|uv|curl|wget|ssh|scp|sftp|rsync|cargo|go|gem|apt(?:-get)?|ping|nc) "
_LOCAL = r"([\d.]+|\[.*\]|[^.:]+|.*\.(local|lan|home|internal))(:\d+)?$"  # may lie in the owner's network
_CLOSED = r"(?i)permission denied|read-only file|no such file|not permitted|cannot|unable"
_HIDES = r"[2&]>+ *(?:/dev/null|&-)"
_KEPT = (
    rb"(?i)read-only file|not permitted|permission denied|unreachable|resol[uv]|not known|no new privileges|\bbusy\b"
    rb"|(?:to|could not|cannot|can't) (?:connect|establish|fetch|find a version)|network|no matching distribution"
    rb"|EAI_AGAIN|ENOTFOUND|ECONN|ENETUNREACH|ETIMEDOUT|could not lock config"
)


def _still(found: tuple[str, Strength] | None) -> Strength | None:
    """The level that was found, if all that it depends on is the same."""
    from nanoclaw.sandbox.sandbox import facts

    return found[1] if found and found[0] == facts() else None


def _more(strength: Strength) -> str:
    """Say in a sentence why the level is no better, and what makes it so."""
    if strength.level == "full" or not strength.lacks:
        return ""
    why = strength.lacks[0]
    if "not installed" in why:
        from nanoclaw.installation import install_command

        return f" `apt install bubblewrap` or `{install_command('sandbox')}` makes it full."
    return f" Not full, as {why}." if strength.level != "none" else f" The reason: {why}."


def _is_less(level: Level, than: Level) -> bool:
    return _ORDER.index(level) < _ORDER.index(than)
