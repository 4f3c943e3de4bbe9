"""Servers with many tools, as somebody has them who has connected all that they use."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from nanoclaw.core.messages import ModelRequest, ToolSpec
from nanoclaw.core.plugin import OPEN_TO, Plugin, Tool, Turn
from nanoclaw.core.provider import chat_messages, chat_tools
from nanoclaw.core.tool import ToolContext

SERVERS = ("github", "slack", "jira", "gmail", "stripe", "notion", "spotify", "drive", "maps", "linear")
THINGS = ("issue", "message", "page", "invoice", "playlist", "file", "route", "ticket", "label", "comment")


def spec(name: str, description: str, /, **parameters: str) -> ToolSpec:
    """A tool's description; each parameter is a text with that description, and needed."""
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return ToolSpec(name, description, schema)


def echo(one: ToolSpec, open_to: Iterable[str] = OPEN_TO, **fields: Any) -> Tool:
    """A tool that says what it was called with."""

    async def run(context: ToolContext, **arguments: Any) -> str:
        return f"{one.name} ran with {json.dumps(arguments)}"

    return Tool(one, run, "outside", True, open_to=frozenset(open_to), **fields)


def many(number: int = 300) -> list[Tool]:
    """So many tools of ten servers, 30 each."""
    made = [
        echo(spec(f"{server}__{verb}_{thing}", f"{verb.capitalize()} a {thing} of {server}.", name=f"the {thing}"))
        for server in SERVERS
        for verb in ("create", "list", "delete")
        for thing in THINGS
    ]
    return made[:number]


def server(tools: Sequence[Tool]) -> type[Plugin]:
    """A plugin that brings whatever is in this sequence by now."""

    class Server(Plugin):
        name = "server"

        async def before_context(self, turn: Turn) -> None: ...  # there is one, so tools are asked for again
        def tools(self) -> Iterable[Tool]:
            return tuple(tools)

    return Server


def names(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.tools]


def wire(request: ModelRequest) -> tuple[str, list[dict[str, Any]]]:
    """Tools and messages of a request as they are sent."""
    return json.dumps(chat_tools(request.tools)), chat_messages(request)
