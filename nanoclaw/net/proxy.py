"""The only way to the net of a browser, or of commands: a proxy on this machine that judges where each connection
leads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from contextlib import suppress

from nanoclaw.net.public import NetError, NotPublic, host_of, is_allowed, public_addresses

HEAD_BYTES = 256_000
HEAD_SECONDS, CONNECT_SECONDS = 60.0, 15.0
AT_ONCE = 128
"""Connections; what is more gets none, as each takes two descriptors of this program."""
TOLD = 100
"""Refusals and failures that are kept at most: a page may try for ever."""

_HOP = (b"connection", b"proxy-connection", b"keep-alive", b"proxy-authorization", b"host")
"""Headers that are the business of two neighbours, and the server's name, which is that of the address."""


class JudgingProxy:
    """Resolves each name itself, judges all its addresses, and connects to the one that was judged: a name that changes
    its mind gains nothing. One request to a connection where it isn't a tunnel, so that each is judged.

    `refusals` are sentences about private places that somebody tried to reach, `failures` about servers, by host.
    """

    def __init__(self, allow: Collection[str] = (), only: Collection[str] | None = None) -> None:
        """`allow` names private places that are open all the same. `only` are those that are open at all, each as
        name or name:port, `*.name` for all below; None: all public ones."""
        self._allow, self._only = allow, only
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.refusals: dict[str, None] = {}
        self.failures: dict[str, str] = {}

    async def start(self) -> str:
        """Its address, for a browser."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=HEAD_BYTES)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start_at(self, path: str) -> None:
        """Serve at a socket of this machine."""
        self._server = await asyncio.start_unix_server(self._accept, path, limit=HEAD_BYTES)

    async def aclose(self) -> None:
        if self._server:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def check(self, host: str, port: int) -> list[str]:
        """The addresses of a host to connect to. Raises NetError, and keeps what it said."""
        if self._only is not None and not _is_among(host, port, self._only):
            raise NotPublic(f"{host}:{port} is not among the hosts that are open: {', '.join(self._only)}")
        try:
            return await public_addresses(host, port, allow=self._allow)
        except NotPublic as error:
            said = f"{error}.{error.opens}"
            if len(self.refusals) < TOLD:
                self.refusals[said] = None
            raise NotPublic(said) from None
        except NetError as error:
            self._failed(host, str(error))
            raise

    def _failed(self, host: str, said: str) -> None:
        if len(self.failures) < TOLD or host in self.failures:
            self.failures[host] = said

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= AT_ONCE:
            return writer.close()
        task = asyncio.current_task()
        assert task
        self._serving.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            pass  # one of the two is gone, or spoke no HTTP
        except asyncio.CancelledError:
            if self._server and self._server.is_serving():
                raise
        finally:
            self._serving.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        is_tunnel = method == "CONNECT"
        try:
            place = host_of(f"https://{target}/" if is_tunnel else target)
            if not is_tunnel and place.scheme != "http":
                raise NotPublic("only http:// comes without a tunnel")
            addresses = await self.check(place.host, place.port)
        except NotPublic as error:
            return await _answer(writer, "403 Forbidden", f"Refused: {error}")
        except NetError as error:
            return await _answer(writer, "502 Bad Gateway", str(error))
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                far_reader, far_writer = await _connection(addresses, place.port)
        except (OSError, TimeoutError) as error:
            why = "no answer" if isinstance(error, TimeoutError) else os.strerror(error.errno or 0).lower()
            self._failed(place.host, f"{place.named} cannot be reached: {why}")
            return await _answer(writer, "502 Bad Gateway", self.failures.get(place.host, why))
        try:
            if is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _both_ways(reader, writer, far_reader, far_writer)
            else:
                await _one_request(head, place.named.encode(), reader, writer, far_reader, far_writer)
        finally:
            far_writer.close()


def _is_among(host: str, port: int, only: Collection[str]) -> bool:
    """A port that isn't named must be one of the web."""
    parents = host.split(".")[1:]
    below = {".".join(parents[place:]) for place in range(len(parents))}
    for one in only:
        of_below, name = one.startswith("*."), one.removeprefix("*.")
        named = below if of_below else {host}
        if any(
            is_allowed(each, port, [name]) and (port in (80, 443) or not is_allowed(each, 1, [name])) for each in named
        ):
            return True
    return False


async def _connection(addresses: list[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Raises OSError of the last address that was tried."""
    for address in addresses[:-1]:
        with suppress(OSError):
            return await asyncio.open_connection(address, port, limit=HEAD_BYTES)
    return await asyncio.open_connection(addresses[-1], port, limit=HEAD_BYTES)


async def _answer(writer: asyncio.StreamWriter, status: str, said: str) -> None:
    body = said.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
    await writer.drain()


async def _one_request(
    head: bytes,
    host: bytes,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Pass one request on and its answer back. What the browser sends after the request's body goes nowhere."""
    first, headers = _parted(head)
    method, target, version = first.split(b" ")
    path = b"/" + target.split(b"://", 1)[1].partition(b"/")[2]
    if _value(headers, b"transfer-encoding"):
        return await _answer(writer, "501 Not Implemented", "Bodies of unknown length are not sent.")
    left = int(_value(headers, b"content-length") or 0)
    far_writer.write(_closing(b" ".join((method, path, version)), headers, b"Host: " + host))

    async def send_body() -> None:
        rest = left
        while rest > 0 and (data := await reader.read(min(rest, 65_536))):
            far_writer.write(data)
            await far_writer.drain()
            rest -= len(data)

    async def take_answer() -> None:
        while True:
            first, headers = _parted(await far_reader.readuntil(b"\r\n\r\n"))
            is_final = first.split(b" ")[1:2][0][:1] != b"1"
            if is_final:
                writer.write(_closing(first, headers))
                return await _pump(far_reader, writer)

    sending = asyncio.ensure_future(send_body())
    try:
        await take_answer()
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError, OSError):
            await sending


async def _both_ways(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    ways = [asyncio.ensure_future(_pump(reader, far_writer)), asyncio.ensure_future(_pump(far_reader, writer))]
    try:
        await asyncio.gather(*ways)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def _parted(head: bytes) -> tuple[bytes, list[bytes]]:
    first, *headers = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    return first, headers


def _value(headers: list[bytes], name: bytes) -> bytes:
    return next((one.partition(b":")[2].strip() for one in headers if one.partition(b":")[0].lower() == name), b"")


def _closing(first: bytes, headers: list[bytes], *own: bytes) -> bytes:
    """A head that ends the connection with this message."""
    kept = [one for one in headers if one.partition(b":")[0].strip().lower() not in _HOP]
    return b"\r\n".join((first, *own, *kept, b"Connection: close", b"", b""))
