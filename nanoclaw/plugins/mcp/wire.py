"""Under a connection: programs started and addresses reached by the SDK's transports, and lists read page by page."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoclaw.core.errors import ConfigError
from nanoclaw.plugins.mcp import sdk
from nanoclaw.plugins.mcp.listing import schema_of
from nanoclaw.plugins.mcp.settings import resolved

if TYPE_CHECKING:
    from nanoclaw.plugins.mcp.connection import Connection

READ_SECONDS = 3_600.0
"""An answer that streams may be silent for so long; a call has a clock of its own."""

MOST_PAGES = 50
MOST_MESSAGE_BYTES = 32_000_000
"""Of one message, such as a picture."""

INHERITED = frozenset(
    {*("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"), *("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")}
)
"""Variables that a program gets without being named: the SDK's, and those of language, time and temporary files."""

_TOO_LONG = '"jsonrpc": a line of more bytes than a message may have\n'


@asynccontextmanager
async def transport(connection: Connection) -> AsyncIterator[tuple[Any, Any]]:
    """The two streams of a connection."""
    if not connection.settings.url:
        async with (
            _logged(connection.log_line) as errors,
            sdk.stdio.stdio_client(_program(connection), errors) as streams,
        ):
            yield streams
        return
    from httpx2 import AsyncClient

    from nanoclaw.plugins.mcp.judged import JudgedTransport

    settings, host = connection.settings, connection.host
    headers = {name: resolved(value, host.environment) for name, value in settings.headers.items()}
    auth = None
    if not any(name.casefold() == "authorization" for name in headers):
        from nanoclaw.plugins.mcp.oauth import provider

        auth = provider(connection)

    async def note_status(response: Any) -> None:
        if response.status_code >= 400:
            connection.refused = response.status_code

    url = resolved(settings.url, host.environment)
    client = AsyncClient(
        headers={"accept-encoding": "identity", **headers},
        auth=auth,
        timeout=READ_SECONDS,
        event_hooks={"response": [note_status]},
        transport=JudgedTransport(url, host.setting("net.allow"), connection.end),
    )
    async with (
        client,
        sdk.streamable_http_client(url, http_client=client, max_sse_event_size=MOST_MESSAGE_BYTES) as streams,
    ):
        yield streams


# --- a program -------------------------------------------------------------------------------------------------------


def _program(connection: Connection) -> sdk.stdio.StdioServerParameters:
    """The program to start, with a clean environment and what is granted. Raises ConfigError."""
    settings, host = connection.settings, connection.host
    granted = {name: resolved(value, host.environment) for name, value in settings.env.items()}
    folder = host.workspace / Path(settings.cwd).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"mcp.{connection.name}.cwd: there is no folder {folder}")
    environment = {**{name: value for name, value in host.environment.items() if name in INHERITED}, **granted}
    command = shutil.which(settings.command, path=environment.get("PATH"))
    if command is None and (folder / settings.command).is_file():
        command = str(folder / settings.command)
    if command is None:
        raise ConfigError(f"there is no program {settings.command!r} on the PATH")
    line = [command, *(resolved(one, host.environment) for one in settings.args)]
    if setpriv := shutil.which("setpriv"):  # the kernel ends it when this process is killed
        line = [setpriv, "--pdeathsig", "TERM", "--", *line]
    return sdk.stdio.StdioServerParameters(
        command=line[0], args=line[1:], env=environment, cwd=folder, encoding_error_handler="replace"
    )


class BoundedLines:
    """Lines of a program, whole and of a bounded length, in place of the SDK's reader of text, which keeps a line
    until it ends, however long it is. Half characters, left by servers that cut texts, are replaced."""

    def __init__(self, stream: Any, **_: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[str]:
        begun, size = list[bytes](), 0
        async for chunk in self._stream:
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield _mended(b"".join((*begun, line)).decode("utf-8", "replace")) + "\n"
                begun, size = [], 0
            begun.append(rest)
            size += len(rest)
            if size > MOST_MESSAGE_BYTES:
                yield _TOO_LONG
                return


vars(sdk.stdio)["TextReceiveStream"] = BoundedLines


def _mended(line: str) -> str:
    if "\\ud" not in line.lower():
        return line
    try:
        return json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace").decode()
    except (ValueError, RecursionError):
        return line


def is_broken_message(error: Exception) -> bool:
    """True for what could not be read, and is no line that a program wrote by mistake."""
    told: Any = getattr(error, "errors", list)()
    text = str(told[0].get("input", "")) if told else ""
    return "jsonrpc" in text[:200] + text[-200:]


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


# --- what is offered -------------------------------------------------------------------------------------------------


def dispatcher(reading: Any, writing: Any) -> Any:
    """A dispatcher that keeps the tools of a page as they came, in `tools`, and hands on those that fit the protocol:
    one that is wrong must not cost the others. Schemas of results are left out, which nothing here needs. `ended` is
    set when the server says no more."""

    class Lenient(sdk.JSONRPCDispatcher):
        tools: Sequence[Any] = ()
        ended = asyncio.Event()

        async def run(self, *arguments: Any, **more: Any) -> None:
            try:
                await super().run(*arguments, **more)
            finally:
                self.ended.set()

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


async def pages(
    ask: Callable[..., Awaitable[Any]], items_of: Callable[[Any], list[Any]], most: int
) -> tuple[list[Any], list[str]]:
    """All that is listed, and a remark where there are more pages than are read."""
    found: list[Any] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MOST_PAGES):
        page = await ask(params=sdk.types.PaginatedRequestParams(cursor=cursor) if cursor else None)
        found += items_of(page)
        cursor = page.next_cursor
        if not cursor or len(found) >= most:
            return found, []
        if cursor in seen:
            return found, ["its list repeats without end"]
        seen.add(cursor)
    return found, [f"only the first {MOST_PAGES} pages of its list are read"]
