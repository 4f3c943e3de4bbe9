"""The HTTP of the Telegram test server: requests with JSON, forms and files in, replies and broken connections out."""

import asyncio
import json
import re
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

MOST_BYTES = 50 * 2**20
"""What a bot may send at once."""


@dataclass(frozen=True)
class Upload:
    """A file of a multipart request."""

    name: str
    mime: str
    content: bytes


@dataclass(frozen=True)
class Request:
    """`fields` are text, as in a form, or `typed`, as in JSON."""

    path: str
    fields: dict[str, Any] = field(default_factory=dict)
    typed: bool = False
    uploads: dict[str, Upload] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """What goes back."""

    status: int
    body: bytes
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Unreadable(Exception):
    """The body is not what its header says."""


class Broken(Exception):
    """The connection is to be reset instead of a reply."""


Answer = Callable[[Request], Awaitable[Reply]]


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
    """One connection, kept for many requests, until one of the two sides leaves or breaks it."""
    connection = h11.Connection(h11.SERVER)
    try:
        while head := await _head(connection, reader):
            body = await _body(connection, reader)
            writer.write(_written(connection, await _answered(head, body, answer)))
            await writer.drain()
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()
    except Broken:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    except (ConnectionError, h11.RemoteProtocolError):
        pass  # the client left, in the middle of a request or of a reply
    finally:
        writer.close()


async def _answered(head: h11.Request, body: bytes | None, answer: Answer) -> Reply:
    if body is None:
        return refusal(413, "Request Entity Too Large")
    try:
        request = _request(head, body)
    except Unreadable as error:
        return refusal(400, f"Bad Request: {error}")
    return await answer(request)


def refusal(code: int, description: str, parameters: dict[str, int] | None = None) -> Reply:
    """An answer that says no, as Telegram writes it."""
    said: dict[str, Any] = {"ok": False, "error_code": code, "description": description}
    if parameters:
        said["parameters"] = parameters
    wait = (("Retry-After", str(parameters["retry_after"])),) if parameters and "retry_after" in parameters else ()
    return Reply(code, json.dumps(said).encode(), headers=wait)


async def _event(connection: h11.Connection, reader: asyncio.StreamReader) -> Any:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(65536))
    return event


async def _head(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    event = await _event(connection, reader)
    return event if isinstance(event, h11.Request) else None


async def _body(connection: h11.Connection, reader: asyncio.StreamReader) -> bytes | None:
    """None if it is too large; it is read all the same, so that the client can hear of it."""
    parts, size = [], 0
    while isinstance(event := await _event(connection, reader), h11.Data):
        size += len(event.data)
        if size <= MOST_BYTES:
            parts.append(bytes(event.data))
    if isinstance(event, h11.ConnectionClosed):
        raise ConnectionError("the client left in the middle of a request")
    return b"".join(parts) if size <= MOST_BYTES else None


def _written(connection: h11.Connection, reply: Reply) -> bytes:
    headers = [("Content-Type", reply.kind), ("Content-Length", str(len(reply.body))), *reply.headers]
    parts = (
        connection.send(h11.Response(status_code=reply.status, headers=headers)),
        connection.send(h11.Data(data=reply.body)),
        connection.send(h11.EndOfMessage()),
    )
    return b"".join(filter(None, parts))


def _request(head: h11.Request, body: bytes) -> Request:
    target = urlsplit(head.target.decode())
    path, asked = unquote(target.path), dict(parse_qsl(target.query, keep_blank_values=True))
    kind = next((value.decode() for name, value in head.headers if name == b"content-type"), "")
    if kind.startswith("application/json"):
        return Request(path, _json(body), typed=True)
    if kind.startswith("multipart/form-data"):
        fields, uploads = _multipart(body, kind)
        return Request(path, asked | fields, uploads=uploads)
    return Request(path, asked | dict(parse_qsl(_text(body), keep_blank_values=True)))


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except ValueError:
        raise Unreadable("can't parse the body as JSON") from None
    if not isinstance(value, dict):
        raise Unreadable("the body must be a JSON object")
    return value


def _multipart(body: bytes, kind: str) -> tuple[dict[str, str], dict[str, Upload]]:
    boundary = re.search(r'boundary="?([^";]+)', kind)
    if not boundary or f"--{boundary[1]}--".encode() not in body:
        raise Unreadable("the multipart body has no end")
    fields, uploads = {}, {}
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode())[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        said = _text(head)
        name = re.search(r'\bname="([^"]*)"', said)
        if not name:
            raise Unreadable("a part of the multipart body has no name")
        if file := re.search(r'\bfilename="([^"]*)"', said):
            mime = re.search(r"(?i)^content-type:\s*(\S+)", said, re.MULTILINE)
            uploads[name[1]] = Upload(unquote(file[1]), mime[1] if mime else "application/octet-stream", content)
        else:
            fields[name[1]] = _text(content)
    return fields, uploads


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Unreadable("strings must be encoded in UTF-8") from None
