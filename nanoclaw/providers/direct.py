"""HTTP/1.1 straight to a server: httpx's transport by asyncio and h11. httpcore and anyio are a fifth of a start."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

import h11

from nanoclaw.net.slim_httpx import httpx

KEPT_SECONDS = 5.0
"""A connection that nobody used for so long is not used again: its server may be about to close it."""

_LONGEST_HEAD = 100 * 1024

Server = tuple[str, str, int]


class Direct(httpx.AsyncBaseTransport):
    """Connections without a proxy between, each kept for the next request to the same server."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._kept: list[_Connection] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url, limits = request.url, request.extensions["timeout"]
        if url.scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol(f"the address has an unsupported protocol {url.scheme!r}")
        server = url.scheme, url.raw_host.decode(), url.port or (443 if url.scheme == "https" else 80)
        if server[2] > 65535:
            raise httpx.ConnectError(f"there is no port {server[2]}")
        for _ in self._kept and range(2):  # what servers did meanwhile is heard first
            await asyncio.sleep(0)
        while self._kept:
            connection = self._kept.pop()
            if connection.is_usable(server):
                break
            connection.close()
        else:
            connection = await self._connect(server, limits["connect"])
        try:
            await connection.send(request, limits["write"])
            head = await connection.head(limits["read"])
        except BaseException:
            connection.close()
            raise
        said = {"http_version": b"HTTP/" + head.http_version, "reason_phrase": head.reason}
        return httpx.Response(head.status_code, headers=head.headers.raw_items(), stream=connection, extensions=said)

    async def _connect(self, server: Server, seconds: float | None) -> _Connection:
        scheme, host, port = server
        loop, reader = asyncio.get_running_loop(), _Reader()
        line = asyncio.StreamReaderProtocol(reader)
        tls = self._tls if scheme == "https" else None
        with _told_by_httpx(httpx.ConnectTimeout, httpx.ConnectError):
            async with asyncio.timeout(seconds):
                transport, _ = await loop.create_connection(
                    lambda: line, host, port, ssl=tls, happy_eyeballs_delay=0.25
                )
        return _Connection(server, reader, asyncio.StreamWriter(transport, line, reader, loop), self._kept)

    async def aclose(self) -> None:
        for connection in self._kept:
            connection.close()
        self._kept.clear()
        await asyncio.sleep(0)  # they are taken down by the loop


class _Reader(asyncio.StreamReader):
    broken: Exception | None = None

    def set_exception(self, exc: Exception) -> None:
        """Let what came before the connection broke be read first."""
        self.broken = exc
        self.feed_eof()

    def is_silent(self) -> bool:
        """True where nothing came that is unread, nor the end."""
        return not self._buffer and not self.at_eof()  # type: ignore[attr-defined]


class _Connection(httpx.AsyncByteStream):
    """One connection, and the body that is read from it; kept once that is read to its end."""

    def __init__(self, server: Server, reader: _Reader, writer: asyncio.StreamWriter, kept: list[_Connection]) -> None:
        self.server, self._reader, self._writer, self._kept = server, reader, writer, kept
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD)
        self._seconds: float | None = None
        self._until = 0.0

    def is_usable(self, server: Server) -> bool:
        is_silent = self._reader.is_silent() and not self._http.trailing_data[0]  # else nobody asked for what came
        return server == self.server and time.monotonic() < self._until and is_silent

    async def send(self, request: httpx.Request, seconds: float | None) -> None:
        try:
            asked = h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
            events = asked, h11.Data(data=await request.aread()), h11.EndOfMessage()
            self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error)) from error
        heard_enough = suppress(httpx.WriteError)  # whoever has may have answered before
        with heard_enough, _told_by_httpx(httpx.WriteTimeout, httpx.WriteError):
            async with asyncio.timeout(seconds):
                await self._writer.drain()

    async def head(self, seconds: float | None) -> h11.Response:
        self._seconds = seconds
        while not isinstance(event := await self._event(), h11.Response):
            pass
        return event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while isinstance(event := await self._event(), h11.Data):
            yield bytes(event.data)

    async def _event(self) -> object:
        with _told_by_httpx(httpx.ReadTimeout, httpx.ReadError):
            while (event := self._http.next_event()) is h11.NEED_DATA:
                async with asyncio.timeout(self._seconds):
                    data = await self._reader.read(65536)
                if not data and self._http.their_state is h11.SEND_RESPONSE:
                    raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
                if not data and self._reader.broken:  # an end that nothing announces would look whole
                    raise OSError(str(self._reader.broken))
                self._http.receive_data(data)
        return event

    async def aclose(self) -> None:
        if self._http.our_state is self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._until = time.monotonic() + KEPT_SECONDS
            self._kept.append(self)
        else:
            self.close()

    def close(self) -> None:
        self._writer.transport.abort()


@contextmanager
def _told_by_httpx(late: type[httpx.TransportError], failed: type[httpx.TransportError]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        is_late = isinstance(error, TimeoutError) and not error.errno
        raise (late if is_late else failed)(str(error)) from error
    except h11.RemoteProtocolError as error:
        raise httpx.RemoteProtocolError(str(error)) from error
