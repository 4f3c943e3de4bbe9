"""Requests to a server: calls of its tools, with what it tells of their progress, its resources and prompts; and what
they give, as text, pictures, and a word about everything that is neither."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from nanoclaw.core.messages import Image, UserMessage
from nanoclaw.core.plugin import Reply, ToolOutput
from nanoclaw.core.tool import ToolContext
from nanoclaw.escapes import one_line, plain
from nanoclaw.pictures.pictures import PictureError, open_picture
from nanoclaw.plugins.mcp import sdk, wire

if TYPE_CHECKING:
    from nanoclaw.plugins.mcp.connection import Connection, RunningCall

MOST = 200
"""Resources, and prompts, that are listed."""


async def call(connection: Connection, name: str, context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
    """The result of a call, sent as it was given. Raises ToolError."""

    async def work(session: Any, running: RunningCall) -> Any:
        async def progress(done: float, total: float | None, message: str | None) -> None:
            running.reset_timeout()
            known = f"{done:g} of {total:g}" if total else f"{done:g}"
            context.show(plain(message or known), done / total if total else None)

        def send(responses: Any, state: Any) -> Any:
            more = {"input_responses": responses, "request_state": state, "allow_input_required": True}
            return session.call_tool(name, arguments, progress_callback=progress, **more)

        async def answer(key: str, request: Any) -> Any:
            return await session.dispatch_input_request(
                sdk.ClientRequestContext(session=session, request_id=key, meta=None), request
            )

        first = await send(None, None)
        if not isinstance(first, sdk.types.InputRequiredResult):
            return first
        return await sdk.run_input_required_driver(first, dispatch=answer, retry=send)

    return await output_of(connection.name, await connection.request(work, context))


async def resources(session: Any) -> str:
    """The resources of a server and the patterns of others, a line each."""
    found = (await session.list_resources()).resources
    lines = [f"{one.uri} ({one.name}){_about(one)}" for one in found[:MOST]]
    if len(found) > MOST:
        lines.append(f"[and {len(found) - MOST} more]")
    try:
        templates = (await session.list_resource_templates()).resource_templates
    except sdk.MCPError:  # few servers have any
        templates = []
    lines += [f"{one.uri_template} ({one.name}; fill in what is in braces){_about(one)}" for one in templates[:MOST]]
    return "\n".join(lines) or "It has none."


def _about(one: Any) -> str:
    kind = f", {one.mime_type}" if one.mime_type else ""
    return f"{kind}: {one_line(plain(one.description), 200)}" if one.description else kind


MOST_PICTURES = 8


def source_of(server: str) -> str:
    return f"mcp:{server}"


async def output_of(server: str, result: Any) -> ToolOutput:
    """A call's result. Structured content is for programs: it is shown where there is no text, which says the same."""
    text, images = await contents(server, result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if not text:
        text = "(a picture)" if images else "(it gave no text)"
    return ToolOutput(text, tuple(images), source_of(server), bool(result.is_error))


async def contents(server: str, blocks: Iterable[Any]) -> tuple[str, list[Image]]:
    """The text of content blocks, and their pictures."""
    texts: list[str] = []
    images: list[Image] = []
    for block in blocks:
        match block.type:
            case "text":
                texts.append(block.text)
            case "image":
                texts.append(await _picture(block.data, block.mime_type, images))
            case "audio":
                texts.append(f"[a sound, {block.mime_type}, {_size(block.data)}: it cannot be heard here]")
            case "resource_link":
                told = f" — {block.description}" if block.description else ""
                texts.append(
                    f"[resource {block.uri} ({block.name}){told}: mcp_resources(server={server!r}, uri=…) reads it]"
                )
            case "resource":
                texts.append(await resource([block.resource], images))
            case other:
                texts.append(f"[{other}: cannot be shown here]")
    return "\n".join(text for text in texts if text), images


async def resource(parts: Sequence[Any], images: list[Image]) -> str:
    """The text of a resource; its pictures are added."""
    texts = []
    for part in parts:
        text, blob = getattr(part, "text", None), getattr(part, "blob", None)
        if text is not None:
            texts.append(f"[{part.uri}]\n{text}")
        elif blob is not None and (part.mime_type or "").startswith("image/"):
            texts.append(f"[{part.uri}]" + await _picture(blob, part.mime_type, images))
        else:
            texts.append(f"[{part.uri}: {part.mime_type or 'data'}, {_size(blob or '')}, which is no text]")
    return "\n".join(texts)


async def _picture(data: str, mime: str, images: list[Image]) -> str:
    """Add a picture; what is to be said where that cannot be done."""
    if len(images) >= MOST_PICTURES:
        return f"[one more picture, {mime}: left out]"
    try:
        opened = await asyncio.to_thread(open_picture, base64.b64decode(data, validate=True), "picture")
    except (PictureError, binascii.Error) as error:
        return f"[a picture, {mime}, that cannot be shown: {error}]"
    images.append(Image(opened.mime, opened.data, ""))
    return ""


def _size(data: str) -> str:
    return f"{len(data) * 3 // 4 / 1000:,.0f} kB"


async def asked(connection: Connection, said: str, now: datetime) -> Reply | UserMessage:
    """The question to the model that a prompt makes, or what is wrong with the words. Raises ToolError."""
    name, _, words = said.strip().partition(" ")
    prompts = await connection.request(lambda session, _: _prompts(session))
    prompt = next((one for one in prompts if one.name.casefold() == name.casefold()), None)
    if prompt is None:
        listed = "\n".join(
            f"- `{_usage(connection.name, one)}`: {one_line(plain(one.description or one.title or ''), 300)}"
            for one in prompts
        )
        unknown = "" if name in ("?", "") else f"{connection.name} has no prompt {name!r}. "
        return Reply(f"{unknown}Its prompts:\n{listed}" if listed else f"{connection.name} has no prompts.")
    # in their order, quoted where one has spaces; the last takes the rest
    names = [one.name for one in prompt.arguments or ()]
    parts, last = ["".join(one) for one in re.findall(r'"([^"]*)"|(\S+)', words)], max(0, len(names) - 1)
    arguments = dict(zip(names, [*parts[:last], *filter(None, [" ".join(parts[last:])])], strict=False))
    lacking = [one.name for one in prompt.arguments or () if one.required and not arguments.get(one.name)]
    if lacking:
        return Reply(f"It needs {' and '.join(lacking)}: {_usage(connection.name, prompt)}")
    known = prompt.name
    found = await connection.request(lambda session, _: session.get_prompt(known, arguments))
    texts, images = [], []
    for message in found.messages:
        text, pictures = await contents(connection.name, [message.content])
        texts.append(f"(You have answered:)\n{text}" if message.role == "assistant" else text)
        images += pictures
    return UserMessage("\n\n".join(texts), now, images=tuple(images), outside=source_of(connection.name))


async def _prompts(session: Any) -> list[Any]:
    if not session.server_capabilities.prompts:
        return []
    return (await wire.pages(session.list_prompts, lambda page: list(page.prompts), MOST))[0]


def _usage(server: str, prompt: Any) -> str:
    names = (one.name if one.required else f"[{one.name}]" for one in prompt.arguments or ())
    return " ".join((f"/{server}:{prompt.name}", *names))
