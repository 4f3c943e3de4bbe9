"""Prompts of a server: /NAME:prompt and its arguments, in order or as name=value, become a message to the model."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import TYPE_CHECKING, Any

from nanoclaw.core.errors import ToolError
from nanoclaw.core.messages import UserMessage
from nanoclaw.core.plugin import Reply
from nanoclaw.plugins.mcp.calls import with_inputs
from nanoclaw.plugins.mcp.results import contents, source_of

if TYPE_CHECKING:
    from nanoclaw.plugins.mcp.connection import Connection
    from nanoclaw.plugins.mcp.listing import ListedPrompt


async def asked(connection: Connection, said: str, now: datetime) -> Reply | UserMessage:
    """The question to the model that a prompt makes, or what is wrong with the words. Raises ToolError."""
    name, _, words = said.strip().partition(" ")
    if not connection.listing.prompts:
        await connection.ready()
    prompts = connection.listing.prompts
    prompt = next((one for one in prompts if one.name.casefold() == name.casefold()), None)
    if prompt is None:
        if not prompts and connection.state != "connected":
            raise ToolError(f"the MCP server {connection.name} is not available: {connection.error}.")
        listed = "\n".join(f"- `{_usage(connection.name, one)}`: {one.description}" for one in prompts)
        unknown = "" if name in ("?", "") else f"{connection.name} has no prompt {name!r}. "
        return Reply(f"{unknown}Its prompts:\n{listed}" if listed else f"{connection.name} has no prompts.")
    arguments = _arguments(words, prompt)
    lacking = [one for one in prompt.required if not arguments.get(one)]
    if lacking:
        return Reply(f"It needs {' and '.join(lacking)}: {_usage(connection.name, prompt)}")
    known = prompt.name

    async def work(session: Any, _: Any) -> Any:
        return await with_inputs(
            session,
            lambda responses, state: session.get_prompt(
                known, arguments, input_responses=responses, request_state=state, allow_input_required=True
            ),
        )

    found = await connection.request(work)
    texts, images = [], []
    for message in found.messages:
        text, pictures = await contents(connection.name, [message.content])
        texts.append(f"(You have answered:)\n{text}" if message.role == "assistant" else text)
        images += pictures
    return UserMessage("\n\n".join(texts), now, images=tuple(images), outside=source_of(connection.name))


def _usage(server: str, prompt: ListedPrompt) -> str:
    names = (one if one in prompt.required else f"[{one}]" for one in prompt.arguments)
    return " ".join((f"/{server}:{prompt.name}", *names))


def _arguments(words: str, prompt: ListedPrompt) -> dict[str, str]:
    """Words in the order of the arguments, the last of which takes the rest; or name=value, quoted where it has
    spaces."""
    names = prompt.arguments
    if not names:
        return {}
    try:
        parts = shlex.split(words)
    except ValueError:
        parts = words.split()
    if parts and all(part.partition("=")[0] in names and "=" in part for part in parts):
        return {name: value for name, _, value in (part.partition("=") for part in parts)}
    first, rest = parts[: len(names) - 1], parts[len(names) - 1 :]
    given = [*first, *([" ".join(rest)] if rest else [])]
    return dict(zip(names, given, strict=False))
