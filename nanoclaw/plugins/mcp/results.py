"""Results of a server in the form of a tool's: text, pictures, and a word about everything that is neither."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from typing import Any

from nanoclaw.core.messages import Image
from nanoclaw.core.plugin import ToolOutput
from nanoclaw.pictures.pictures import PictureError, open_picture

MOST_PICTURES = 8


def source_of(server: str) -> str:
    return f"mcp:{server}"


async def output_of(server: str, result: Any) -> ToolOutput:
    """A call's result. Structured content is added where the text doesn't have it."""
    text, images = await contents(server, result.content)
    structured = result.structured_content
    if structured is not None and not _says(text, structured):
        text = "\n".join(filter(None, (text, json.dumps(structured, ensure_ascii=False))))
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


def _says(text: str, structured: Any) -> bool:
    """True where a text is the same as what is structured, or as its only value."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = text
    only = next(iter(structured.values())) if isinstance(structured, dict) and len(structured) == 1 else structured
    return bool(said in (structured, only) or (isinstance(only, str | int | float) and str(only) == text))
