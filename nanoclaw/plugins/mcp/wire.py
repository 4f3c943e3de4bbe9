"""Under a connection: programs started and addresses reached by the SDK's transports, and lists read page by page."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from nanoclaw import __version__
from nanoclaw.core.errors import ConfigError
from nanoclaw.plugins.mcp import program, sdk
from nanoclaw.plugins.mcp.listing import schema_of
from nanoclaw.plugins.mcp.settings import ServerSettings, resolved

if TYPE_CHECKING:
    from nanoclaw.plugins.mcp.connection import Connection, Surroundings

READ_SECONDS = 3_600.0
"""An answer that streams may be silent for so long; a call has a clock of its own."""


INHERITED = frozenset(
    {*("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"), *("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")}
)
"""Variables that a program gets without being named: the SDK's, and those of language, time and temporary files."""


def client_info() -> sdk.types.Implementation:
    return sdk.types.Implementation(name="nanoclaw", version=__version__)


@asynccontextmanager
async def transport(connection: Connection, around: Surroundings) -> AsyncIterator[tuple[Any, Any]]:
    """The two streams of a connection."""
    settings, variables = connection.settings, around.environment
    if settings.url:
        headers = {name: resolved(value, variables) for name, value in settings.headers.items()}
        auth = None
        if not any(name.casefold() == "authorization" for name in headers):
            from nanoclaw.plugins.mcp.oauth import provider

            auth = provider(connection, around)
        from httpx2 import AsyncClient

        from nanoclaw.plugins.mcp.judged import JudgedTransport

        url = resolved(settings.url, variables)
        client = AsyncClient(
            headers={"accept-encoding": "identity", **headers},
            auth=auth,
            timeout=READ_SECONDS,
            event_hooks={"response": [partial(_note_status, connection)]},
            transport=JudgedTransport(url, around.allow, partial(setattr, connection, "misled")),
        )
        async with (
            client,
            sdk.streamable_http_client(
                url, http_client=client, max_sse_event_size=program.MOST_MESSAGE_BYTES
            ) as streams,
        ):
            yield streams
        return
    parameters = _program(settings, around)
    async with (
        _logged(connection.log_line) as errors,
        program.streams(parameters, errors, partial(setattr, connection, "broken")) as streams,
    ):
        yield streams


async def _note_status(connection: Connection, response: Any) -> None:
    if response.status_code >= 400:
        connection.refused = response.status_code


def _program(settings: ServerSettings, around: Surroundings) -> sdk.StdioServerParameters:
    """The program to start, with a clean environment and what is granted. Raises ConfigError."""
    variables = around.environment
    granted = {name: resolved(value, variables) for name, value in settings.env.items()}
    folder = around.workspace / Path(settings.cwd).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"mcp.{settings.name}.cwd: there is no folder {folder}")
    inherited = {name: value for name, value in variables.items() if name in INHERITED}
    environment = {**inherited, **granted}
    command = shutil.which(settings.command, path=environment.get("PATH"))
    if command is None and (folder / settings.command).is_file():
        command = str(folder / settings.command)
    if command is None:
        raise ConfigError(f"there is no program {settings.command!r} on the PATH")
    arguments = [resolved(one, variables) for one in settings.args]
    command, arguments = _that_ends_with_us(command, arguments)
    return sdk.StdioServerParameters(command=command, args=arguments, env=environment, cwd=folder)


def _that_ends_with_us(command: str, arguments: list[str]) -> tuple[str, list[str]]:
    """The same program, which the kernel ends when this process is killed: where util-linux has that."""
    setpriv = shutil.which("setpriv")
    return (setpriv, ["--pdeathsig", "TERM", "--", command, *arguments]) if setpriv else (command, arguments)


@asynccontextmanager
async def _logged(take: Callable[[str], None]) -> AsyncIterator[Any]:
    """A file to write to, of which `take` gets each line."""
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    rest = b""

    def read() -> None:
        nonlocal rest
        try:
            data = os.read(reading, 65_536)
        except BlockingIOError:
            return
        if not data:
            loop.remove_reader(reading)
        *lines, rest = (rest + data).split(b"\n")
        rest = rest[-65_536:]
        for line in lines:
            take(line.decode("utf-8", "replace"))

    loop.add_reader(reading, read)
    try:
        with os.fdopen(writing, "w") as file:
            yield file
    finally:
        read()
        if rest:
            take(rest.decode("utf-8", "replace"))
        loop.remove_reader(reading)
        os.close(reading)


class Watched:
    """A stream that tells when it has ended."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.ended = anyio.Event()

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> Watched:
        return self

    async def __anext__(self) -> Any:
        return await self._noting(self._inner.__anext__())

    async def receive(self) -> Any:
        return await self._noting(self._inner.receive())

    async def _noting(self, item: Awaitable[Any]) -> Any:
        try:
            return await item
        except Exception:
            self.ended.set()
            raise

    async def aclose(self) -> None:
        self.ended.set()
        await self._inner.aclose()

    async def __aenter__(self) -> Watched:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.ended.set()
        await self._inner.__aexit__(*error)


def lenient_dispatcher(reading: Any, writing: Any) -> Any:
    """A dispatcher that keeps the tools of a page as they came, in `tools`, and hands on those that fit the protocol:
    one that is wrong must not cost the others. Schemas of results are left out, which nothing here needs."""

    class Lenient(sdk.JSONRPCDispatcher):
        tools: Sequence[Any] = ()

        async def send_raw_request(self, method: str, params: Any, opts: Any = None, **more: Any) -> dict[str, Any]:
            raw = await super().send_raw_request(method, params, opts, **more)
            if method == "tools/list" and isinstance(raw, dict):
                given = raw.get("tools")
                self.tools = given if isinstance(given, list) else []
                proper = (one for one in self.tools if isinstance(one, Mapping) and isinstance(one.get("name"), str))
                raw["tools"] = [
                    {"name": one["name"], "inputSchema": schema_of(one.get("inputSchema"))[0]} for one in proper
                ]
            return raw

    return Lenient(reading, writing)


async def tools_page(session: sdk.ClientSession, dispatcher: Any, cursor: str | None) -> tuple[list[Any], str | None]:
    params = sdk.types.PaginatedRequestParams(cursor=cursor) if cursor else None
    found = await session.list_tools(params=params)
    return list(dispatcher.tools), found.next_cursor


async def prompts_page(session: sdk.ClientSession, cursor: str | None) -> tuple[list[Any], str | None]:
    params = sdk.types.PaginatedRequestParams(cursor=cursor) if cursor else None
    found = await session.list_prompts(params=params)
    return [one.model_dump() for one in found.prompts], found.next_cursor


async def pages(
    page: Callable[[str | None], Awaitable[tuple[list[Any], str | None]]], most_pages: int, most: int
) -> tuple[list[Any], list[str]]:
    """All that is listed on so many pages, and a remark where there is more."""
    found: list[Any] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(most_pages):
        items, cursor = await page(cursor)
        found += items
        if not cursor or len(found) >= most:
            return found, []
        if cursor in seen:
            return found, ["its list repeats without end"]
        seen.add(cursor)
    return found, [f"only the first {most_pages} pages of its list are read"]
