"""`nanoclaw mcp`: servers of the Model Context Protocol: list, test and change them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nanoclaw.commands.arguments import Options
from nanoclaw.commands.plugins import public
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Reply
from nanoclaw.escapes import one_line
from nanoclaw.installation import start_command
from nanoclaw.plugins.mcp.plugin import Mcp, McpSettings, ServerSettings
from nanoclaw.plugins.mcp.settings import check_name, place
from nanoclaw.start.config import Config, near

if TYPE_CHECKING:
    from nanoclaw.plugins.mcp.connection import Connection


def _servers(config: Config) -> Mapping[str, ServerSettings]:
    return config.settings(McpSettings, "mcp", Mcp.keys).servers


def _named(config: Config, name: str) -> str:
    if name not in (servers := _servers(config)):
        raise ConfigError(f"there is no MCP server {name!r}{near(name, servers or ['none'])}")
    return name


# --- what is set -----------------------------------------------------------------------------------------------------


def listed(config: Config, options: Options) -> Reply:
    from nanoclaw.plugins.mcp.listing import KeptListings

    kept = KeptListings(config.home / "plugins" / "mcp" / "servers.json")
    found = [
        {
            "name": name,
            "place": place(one),
            "on": not one.off,
            "tools": len(kept.of(name).tools),
            "error": kept.error(name),
        }
        for name, one in _servers(config).items()
    ]
    how = f"none yet: {start_command()} mcp add NAME -- COMMAND ARGUMENT…, or mcp add NAME --url URL"
    return Reply("\n".join(map(_line, found)) or how, {"servers": found})


def _line(one: dict[str, Any]) -> str:
    seen = f"{one['tools']} tools when last seen" if one["tools"] else "none of its tools seen yet"
    known = f"not available when last tried: {one['error']}" if one["error"] else seen
    return f"{one['name']}  {one['place']}  ({known if one['on'] else 'off'})"


def add(config: Config, options: Options) -> Reply:
    from nanoclaw.start.build import change_settings

    name = options.name
    check_name(name)
    if name in _servers(config):
        raise ConfigError(f"there is an MCP server {name!r} already: {start_command()} mcp remove {name} removes it.")
    table: dict[str, Any] = {}
    if options.url:
        table["url"] = options.url
    if options.program:
        table["command"] = options.program[0]
        if options.program[1:]:
            table["args"] = options.program[1:]
    for key, given, sign in (("headers", options.header, ":"), ("env", options.env, "=")):
        if given:
            table[key] = dict(_pair(one, sign, key) for one in given)
    for key in ("cwd", "roots", "allow", "deny", "reads"):
        if value := getattr(options, key):
            table[key] = value
    change_settings(config, {f"mcp.{name}": table})
    test = f"{start_command()} mcp test {name}"
    return Reply(f"{name} is set. {test} tries it; a running nanoclaw has it after its next start.", {"added": name})


def _pair(text: str, sign: str, key: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        example = "'Authorization: Bearer $TOKEN'" if key == "headers" else "NAME=VALUE"
        raise ConfigError(f"--{'header' if key == 'headers' else 'env'} is written as {example}.")
    return name.strip(), value.strip()


def remove(config: Config, options: Options) -> Reply:
    from nanoclaw.start.build import change_settings

    name = _named(config, options.name)
    change_settings(config, {f"mcp.{name}": None})
    for kept in (config.home / "plugins" / "mcp").glob(f"oauth-{name}.json"):
        kept.unlink()
    return Reply(f"{name} is removed. A running nanoclaw keeps it until its next start.", {"removed": name})


# --- what is there ---------------------------------------------------------------------------------------------------


def test(config: Config, options: Options) -> Reply:
    name = _named(config, options.name)

    def show(address: str) -> None:
        import sys

        print(f"Open this address in a browser of this machine, and sign in:\n{address}", file=sys.stderr, flush=True)

    one = asyncio.run(_looked_at(config, name, show))
    if one.error:
        raise ConfigError(f"{name} is not available: {one.error}")
    tools: list[dict[str, Any]] = [
        {"name": tool.spec.name, "description": tool.spec.description, "reads": one.only_reads(tool.name)}
        for tool in one.listing.tools
    ]
    more = ", prompts" * one.listing.has_prompts + ", resources" * one.listing.has_resources
    lines = [f"{name} is there: {one.about}, {len(tools)} tools{more}."]
    lines += [f"- {remark}" for remark in one.listing.remarks]
    lines += [f"{tool['name']}{' (reads)' * tool['reads']}: {one_line(tool['description'], 100)}" for tool in tools]
    data = {"name": name, "about": one.about, "tools": tools, "remarks": list(one.listing.remarks)}
    return Reply("\n".join(lines), data)


async def _looked_at(config: Config, name: str, show: Callable[[str], None]) -> Connection:
    """The connection to a server, after it was tried and closed."""
    from nanoclaw.commands.inspecting import app_over_copy

    async with app_over_copy(config) as app:
        servers = public(app, "mcp")
        if name not in servers.names:
            raise ConfigError(f"the MCP server {name} is off: take off = true out of [mcp.{name}].")
        one: Connection = servers.connections()[name]
        one.open_login = show
        await one.ready()
        if one.state == "connected":
            one.error = ""
        return one
