"""Frames to and from one client: one JSON object a line, and nothing is believed of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import Any

from nanoclaw.core.messages import Attachment
from nanoclaw.home_socket import LONGEST

_MOST_UNREAD = 8_000_000  # bytes kept for a client that does not read, beside one frame that is longer by itself
_MOST_FILES = 100
_REFUSING_SECONDS = 1.0
_SHOWN_SECONDS = 10.0  # until which a client has shown what it was sent

Frame = dict[str, Any]


class ClientRefused(Exception):
    """A client sent something invalid, and is disconnected."""


class ClientLine:
    """Frames to and from one client. One that does not read is disconnected, and nobody waits for it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._asked: dict[int, asyncio.Future[bool]] = {}
        self._count = 0
        self._most = _MOST_UNREAD

    def send(self, frame: Frame) -> None:
        if self.writer.is_closing():
            return
        data, unread = json.dumps(frame).encode() + b"\n", self.writer.transport.get_write_buffer_size()
        if not unread:
            self._most = _MOST_UNREAD + len(data)
        elif unread > self._most:
            self.writer.transport.abort()
            return
        self.writer.write(data)

    async def refuse(self, sentence: str) -> None:
        """Take what still comes, or closing would take the sentence away."""
        self.send({"refused": sentence})
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_REFUSING_SECONDS):
                self.writer.write_eof()
                while await self.reader.read(65536):
                    pass

    async def receive(self) -> Frame:
        """The next frame that is not a confirmation. Raises ConnectionError at the end of the line."""
        while True:
            try:
                line = await self.reader.readline()
            except ValueError:
                raise ClientRefused(f"a line may have {LONGEST // 1_000_000} MB at most") from None
            if not line.endswith(b"\n"):
                self._settle(False)
                raise ConnectionError("the terminal is gone")
            try:
                frame = json.loads(line)
            except (ValueError, RecursionError):
                frame = None
            if not isinstance(frame, dict):
                raise ClientRefused("a line must be one JSON object")
            if "shown" not in frame:
                return frame
            if waiting := self._asked.pop(frame["shown"] if isinstance(frame["shown"], int) else 0, None):
                waiting.set_result(True)

    async def shown(self) -> None:
        """Wait until all that was sent has been shown. Raises ConnectionError."""
        self._count += 1
        asked = self._asked[self._count] = asyncio.get_running_loop().create_future()
        self.send({"confirm": self._count})
        try:
            async with asyncio.timeout(_SHOWN_SECONDS):
                told = await asked
        except TimeoutError:
            self.writer.transport.abort()
            told = False
        if not told:
            raise ConnectionError("the terminal does not show it")

    def close(self) -> None:
        self._settle(False)
        self.writer.close()

    def _settle(self, told: bool) -> None:
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(told)
        self._asked.clear()


def text_of(frame: Frame, name: str) -> str:
    value = frame.get(name, "")
    if not isinstance(value, str):
        raise ClientRefused(f"{name!r} must be a text")
    return value


def files_of(frame: Frame) -> tuple[Attachment, ...]:
    files = frame.get("files", [])
    if not isinstance(files, list) or len(files) > _MOST_FILES or not all(map(_is_file, files)):
        raise ClientRefused(f"'files' must be a list of at most {_MOST_FILES}, each with path, name and type")
    return tuple(Attachment(path and os.path.realpath(path), name, mime) for path, name, mime in files)


def _is_file(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(isinstance(part, str) for part in value)
