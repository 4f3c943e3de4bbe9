"""MCP: tools, resources and prompts of servers of the Model Context Protocol. Light: what needs the SDK is imported
when the first server is to be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from nanoclaw.core.errors import ToolError
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import Ask, CheckedCall, Scope, Section, UserMessage, Verdict
from nanoclaw.core.plugin import (
    ABOVE_0,
    Command,
    Draft,
    Finding,
    Hears,
    Host,
    Plugin,
    Profile,
    Reply,
    Said,
    Tool,
    ToolOutput,
    Turn,
)
from nanoclaw.core.tool import ToolContext, tool

if TYPE_CHECKING:
    from nanoclaw.plugins.mcp.connection import Connection
    from nanoclaw.plugins.mcp.listing import KeptListings

CONTEXT_SECONDS, AGAIN_SECONDS = 8.0, 2.0
"""That the beginning of a context waits for servers; and for those that failed before."""
REASON = 160
_SILENT = "it has not answered yet"


class ServerSettings(NamedTuple):
    """One MCP server, started by `command` or reached at `url`."""

    command: str = ""  # program that starts the server
    args: tuple[str, ...] = ()  # its arguments
    env: Mapping[str, str] = MappingProxyType({})  # environment; `$NAME` comes from secrets.env
    cwd: str = ""  # folder to start it in; empty: the workspace
    url: str = ""  # address of a remote server, in place of `command`
    headers: Mapping[str, str] = MappingProxyType({})  # HTTP headers for it: { Authorization = "Bearer $TOKEN" }
    roots: tuple[str, ...] = (".",)  # folders that the server is told about; ".": the workspace
    allow: tuple[str, ...] = ()  # the only tools to offer, as names or patterns; empty: all
    deny: tuple[str, ...] = ()  # tools not to offer, as names or patterns
    reads: tuple[str, ...] = ()  # tools that you declare read-only, so that they don't ask
    seconds: Annotated[float, ABOVE_0] = 60.0  # seconds for one call, and for connecting
    off: bool = False  # ignore this server


class McpSettings(NamedTuple):
    """MCP servers; nothing is imported where there are none."""

    servers: Mapping[str, ServerSettings] = MappingProxyType({})  # by name

    def check(self) -> None:
        if self.servers:
            from nanoclaw.plugins.mcp.settings import check

            check(self.servers)

    def secrets(self, environment: Mapping[str, str]) -> Iterable[str]:
        """Values that must never show."""
        if not self.servers:
            return ()
        from nanoclaw.plugins.mcp.settings import secrets

        return secrets(self.servers, environment)


class Servers:
    """The servers that are set and not off, with a connection to each: what the plugin makes public."""

    def __init__(self, host: Host, settings: McpSettings) -> None:
        self._host = host
        self._on = {name: one for name, one in settings.servers.items() if not one.off}
        self._made: dict[str, Connection] = {}
        self._kept: KeptListings | None = None

    @property
    def names(self) -> list[str]:
        return list(self._on)

    def connections(self) -> Mapping[str, Connection]:
        """The connection of each server, made at the first look."""
        if self._on and not self._made:
            from nanoclaw.plugins.mcp.connection import Connection
            from nanoclaw.plugins.mcp.listing import KeptListings

            self._kept = KeptListings(self._host.home / "servers.json")
            self._made = {name: Connection(name, one, self._host, self._kept) for name, one in self._on.items()}
        return self._made

    def important(self) -> list[str]:
        """Lines for the owner at a start: the servers that could not be reached when they were last tried."""
        return [
            f"MCP server {name} was not available when it was last tried: {one.last_error}"
            for name, one in self.connections().items()
            if one.last_error
        ]

    def named(self, server: str) -> Connection:
        found = next((one for name, one in self.connections().items() if name.casefold() == server.casefold()), None)
        if found is None:
            raise ToolError(f"there is no MCP server {server!r}; there are {', '.join(self._on)}.")
        return found

    async def started(self, named: Collection[str] = ()) -> None:
        """Wait until each server that is being started, or only those `named`, is connected or has failed."""
        starting = (one for one in self._made.values() if one.state == "connecting")
        await asyncio.gather(*(one.ready() for one in starting if not named or one.name.casefold() in named))

    def reload(self) -> None:
        if self._kept:
            self._kept.read()

    async def aclose(self) -> None:
        await asyncio.gather(*(one.aclose() for one in self._made.values()))


class Mcp(Plugin):
    name = "mcp"
    settings = McpSettings
    keys: ClassVar[Mapping[str, str]] = {"servers": "mcp.*"}
    stamp = "the state at the context's beginning"
    seconds = 600.0  # a server may take long to start

    def __init__(self, host: Host, settings: McpSettings) -> None:
        self._host = host
        self.public = self._servers = Servers(host, settings)
        self.hears = {} if self._servers.names else dict.fromkeys(("before_context", "before_turn"), Hears())

    async def before_context(self, turn: Turn) -> None:
        """Connect to all, side by side, and wait for a moment; for one whose tool is called until it has started."""
        if turn.profile.name not in _OPEN_TO or turn.profile.only == frozenset():
            return
        connections = self._servers.connections()
        if turn.calls:
            await self._servers.started({call.name.strip().casefold().partition("__")[0] for call in turn.calls})
            return
        before = {name: _trouble(one) for name, one in connections.items()}
        waits = [
            asyncio.wait_for(one.ready(), AGAIN_SECONDS if one.state == "failed" else CONTEXT_SECONDS)
            for one in connections.values()
            if one.state != "connected"
        ]
        await asyncio.gather(*waits, return_exceptions=True)
        for name, one in connections.items():
            if _trouble(one) not in ("", before[name]):
                self._host.show(turn.address, Notice(_absent(one)))

    async def before_turn(self, draft: Draft, turn: Turn) -> Draft | None:
        """A prompt of a server's stands in a block, and yet the person asked for it."""
        if draft.message.origin != "person" or not draft.message.outside.startswith("mcp:"):
            return None
        return draft._replace(remarks=(*draft.remarks, _CHOSEN))

    def reload(self) -> None:
        self._servers.reload()

    async def aclose(self) -> None:
        await self._servers.aclose()

    async def check(self, deep: bool) -> Iterable[Finding]:
        if deep:
            await asyncio.gather(*(one.ready() for one in self._servers.connections().values()))
        return [_finding(one) for one in self._servers.connections().values()]

    async def audit(self) -> Iterable[Finding]:
        if not self._servers.names:
            return []
        from nanoclaw.plugins.mcp.settings import opened

        return [line for name, one in self._servers.connections().items() for line in opened(name, one.settings)]

    # --- what the model sees -----------------------------------------------------------------------------------------

    def tools(self) -> Iterable[Tool]:
        found: list[Tool] = []
        for one in self._servers.connections().values():
            for listed in one.listing.tools:
                run, reads = partial(_run, one, listed.name), one.only_reads(listed.name)
                check = None if reads else partial(_to_ask, one.name, listed.name)
                made = Tool(listed.spec, run, "none" if reads else "outside", True, check=check, is_foreign=True)
                found.append(made._replace(is_there=one.state != "failed"))
        having = [one.state != "failed" for one in self._servers.connections().values() if one.listing.has_resources]
        if having:
            found.append(tool(self._mcp_resources, reach="none")._replace(is_there=any(having)))
        return found

    def sections(self, query: str, profile: Profile) -> Iterable[Section]:
        if not self._servers.names or profile.name not in _OPEN_TO or profile.only == frozenset():
            return
        there = self._servers.connections().values()
        absent = "".join(f"\n- {_absent(one)}" for one in there if one.state in ("failed", "connecting"))
        if there:  # the state at the context's beginning: a server that comes or goes later does not change the prompt
            text = f"Not available, so you have none of their tools:{absent}" if absent else ""
            yield Section("mcp", "MCP servers", text, version="begun")

    async def _mcp_resources(self, context: ToolContext, server: str, uri: str | None = None) -> ToolOutput:
        """List the resources of an MCP server, or read one by its URI."""
        from nanoclaw.plugins.mcp.calls import resource, resources, source_of

        one = self._servers.named(server)
        if not uri:
            listed = await one.request(lambda session, _: resources(session), context)
            return ToolOutput(listed, outside=source_of(one.name))
        images: list[Any] = []
        found = await one.request(lambda session, _: session.read_resource(str(uri)), context)
        text = await resource(found.contents, images)
        return ToolOutput(text or "(it is empty)", tuple(images), source_of(one.name))

    # --- commands ----------------------------------------------------------------------------------------------------

    def commands(self) -> Iterable[Command]:
        for name in self._servers.names:
            help = f"prompts of the MCP server {name}; /{name}:? lists them"
            yield Command(f"{name.casefold()}:", help, partial(self._prompt, name), waits=True)

    async def _prompt(self, server: str, said: Said) -> Reply | UserMessage:
        """Ask the model with a prompt of a server's: /NAME:prompt arguments."""
        from nanoclaw.plugins.mcp import calls

        return await calls.asked(self._servers.connections()[server], said.argument, self._host.now())


_OPEN_TO = frozenset(("person", "job", "heartbeat", "helper"))
"""Names of the profiles that have tools of servers."""

_CHOSEN = "The person chose this prompt of an MCP server: do what it asks for, as far as it is what they may want."


async def _run(connection: Connection, name: str, context: ToolContext, /, **arguments: Any) -> ToolOutput:
    """Call a tool of a server."""
    from nanoclaw.plugins.mcp import calls

    return await calls.call(connection, name, context, arguments)


async def _to_ask(server: str, name: str, call: CheckedCall, turn: Turn) -> Verdict:
    """Ask before a call that may change something."""
    from nanoclaw.exact_text import as_code

    named = f"{as_code(name)} of the MCP server {server}"
    return Ask(f"Run {named}?", scope=Scope(f"mcp:{server}:{name}", named))


def _trouble(one: Connection) -> str:
    """Reason why a server that was tried is not there, '' for none."""
    return "" if one.state == "connected" else one.error or ("" if one.state == "not started" else _SILENT)


def _absent(one: Connection) -> str:
    return f"MCP server {one.name} is not available: {(one.error or _SILENT)[:REASON]}"


def _finding(one: Connection) -> Finding:
    if one.state == "connected":
        count = len(one.listing.tools)
        remarks = "".join(f"; {remark}" for remark in one.listing.remarks[:3])
        return Finding(True, f"{one.about}: {count} tools{remarks}", f"mcp {one.name}")
    if one.state == "failed":
        return Finding(False, f"not available: {one.error or _SILENT}", f"mcp {one.name}")
    if one.state == "not started" and one.last_error:
        return Finding(False, f"was not available when it was last tried: {one.last_error}", f"mcp {one.name}")
    said = "is being connected" if one.state == "connecting" else "is connected when a conversation begins"
    return Finding(True, said, f"mcp {one.name}")
