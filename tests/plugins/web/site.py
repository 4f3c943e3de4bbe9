"""A site on loopback for tests: what each of its paths answers, and what it was asked."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nanoclaw.core.messages import ToolResult
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.net.web_server import reply
from tests.program import Program, results, running

Answer = bytes | Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Site:
    """Pages by path; a path that is not there answers 404. `asked` are the heads of its requests, `sent` the bytes that
    it wrote."""

    pages: Mapping[str, Answer]
    asked: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    url: str = ""
    sent: int = 0

    @property
    def host(self) -> str:
        return self.url.partition("//")[2]

    @property
    def paths(self) -> list[str]:
        return [head.split()[1] for head in self.asked]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.asked.append(head)
            length = next((int(one[15:]) for one in head.lower().split("\r\n") if one.startswith("content-length:")), 0)
            self.bodies.append(await reader.readexactly(length))
            found = self.pages.get(head.split()[1].partition("?")[0], reply(b"nothing here", status="404 Not Found"))
            if isinstance(found, bytes):
                writer.write(found)
                await writer.drain()
            else:
                await found(head, writer)
        with suppress(OSError):
            writer.close()


@asynccontextmanager
async def site(pages: Mapping[str, Answer], tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    served = Site(pages)
    server = await asyncio.start_server(served.answer, "127.0.0.1", 0, ssl=tls)
    served.url = f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        server.close()


def html(body: str, head: str = "", more: str = "") -> bytes:
    page = f"<!doctype html><html><head>{head}</head><body>{body}</body></html>".encode()
    return reply(page, "text/html; charset=utf-8", more=more)


def to(where: str, status: str = "302 Found", more: str = "") -> bytes:
    return reply(b"", status=status, more=f"Location: {where}\r\nContent-Length: 0\r\n{more}")


def opened(*sites: Site) -> str:
    """The configuration that lets these be read."""
    return f"[net]\nallow = {json.dumps([one.host for one in sites])}\n"


async def fetched(root: Path, settings: str, url: str, question: str = "", **options: Any) -> ToolResult:
    """The result of one web_fetch that a model asks for."""
    arguments = {"url": url, "question": question} if question else {"url": url}
    model = ScriptedProvider(call("web_fetch", arguments), "Done.")
    async with running(root, model, settings=settings, **options) as program:
        return await asked(program)


async def all_fetched(root: Path, settings: str, *urls: str, base: str = "") -> list[ToolResult]:
    """The results of one answer that asks for them all."""
    model = ScriptedProvider(Say("", tuple(("web_fetch", {"url": base + url}) for url in urls)), "Done.")
    async with running(root, model, settings=settings) as program:
        await program.ask("Please read them")
        return results(program.history)


async def asked(program: Program, said: str = "Please read it") -> ToolResult:
    await program.ask(said)
    return results(program.history)[-1]
