"""Attachments of a message, resolved before the model reads it: fetched and kept, voice notes written down."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from nanoclaw.core.channel import Channel, Holds
from nanoclaw.core.errors import ChannelError, NanoclawError, Undeliverable, WorkspaceError
from nanoclaw.core.messages import Attachment, Inbound
from nanoclaw.log import logger
from nanoclaw.plugins.media.folder import MediaFolder

FETCH_SECONDS = 120.0
"""For one file, with all tries."""
PAUSES = (1.0, 3.0, 10.0, 30.0)
"""In seconds, before each further try to fetch a file; the platform may ask for longer ones."""
TRANSCRIPTION_SECONDS = 300.0
AT_ONCE = 4
"""Files of one message that are fetched side by side."""
MOST_FILES = 20
"""Of one message; the others are left with the platform."""

sleep = asyncio.sleep


class Resolved(NamedTuple):
    """One file: None when there is nothing to show of it. `remark` is for the model, `words` are what somebody says in
    it, and `problem` is a sentence for the person."""

    file: Attachment | None
    remark: str = ""
    words: str = ""
    problem: str = ""


class Attachments:
    """Resolves the attachments of messages."""

    def __init__(
        self,
        folder: MediaFolder,
        most_bytes: int,
        channel: Callable[[str], Channel | None],
        transcribe: Callable[[str, bytes], Awaitable[str]] | None = None,
        guests_bytes: int = sys.maxsize,
    ) -> None:
        """`channel(name)` holds the files that are not here yet; `transcribe` raises NanoclawError. Of guests about
        `guests_bytes` are kept."""
        self._folder, self._most, self._channel, self._transcribe = folder, most_bytes, channel, transcribe
        self._guests_bytes = guests_bytes

    async def resolve(self, inbound: Inbound, files: Sequence[Attachment], *, is_guests: bool) -> list[Resolved]:
        """The files of a message, in its order. Never fails: of one that cannot be had there is a remark."""
        gate = asyncio.Semaphore(AT_ONCE)
        looked_at = enumerate(files[:MOST_FILES])
        resolved = await asyncio.gather(*(self._one(inbound, *one, gate, is_guests) for one in looked_at))
        if left := files[MOST_FILES:]:
            remark = f"{len(left)} more files came with it and were not downloaded."
            problem = f"only the first {MOST_FILES} files of a message are looked at"
            resolved.append(Resolved(None, remark, problem=problem))
        return resolved

    async def _one(
        self, inbound: Inbound, number: int, file: Attachment, gate: asyncio.Semaphore, is_guests: bool
    ) -> Resolved:
        shown = file.name or file.mime or "a file"
        try:
            async with gate:
                kept = file if file.path else await self._fetched(inbound, number, file, is_guests)
        except NanoclawError as error:
            remark = f"{shown} came with the message but is not here: {error}"
            return Resolved(None, remark, problem=f"{shown} was not accepted: {error}")
        if file.path and kept.mime.startswith("audio/") and inbound.message.text.strip() in ("", f"[{file.name}]"):
            kept = kept._replace(is_voice=True)  # a recording that is handed over alone is what they say
        if kept.is_voice:
            return await self._heard(kept)
        where = "" if file.path or is_guests else f"{kept.name} is kept as {self._folder.relative(Path(kept.path))}"
        return Resolved(kept, where if kept.mime.startswith("image/") else "")

    async def _fetched(self, inbound: Inbound, number: int, file: Attachment, is_guests: bool) -> Attachment:
        """The file in the workspace, which may lie there since an earlier try. Raises ChannelError and
        WorkspaceError."""
        channel = inbound.address.channel
        identity = f"{channel} {inbound.external_id}/{number}"
        path = self._folder.place(inbound.message.at, file.name, file.mime, identity, is_guests=is_guests)
        if not self._folder.has(path):
            if is_guests and self._folder.used(by_guests=True)[1] >= self._guests_bytes:
                raise ChannelError("I keep no more files of guests")
            data = await self._bytes(channel, file)
            await asyncio.to_thread(self._folder.save, path, data)
        mime = await asyncio.to_thread(_type_of, self._folder, str(path), file.mime)
        return file._replace(path=str(path), name=file.name or path.name, mime=mime)

    async def _bytes(self, name: str, file: Attachment) -> bytes:
        most = f"more than the {self._most / 1e6:,.0f} MB that are accepted"
        if file.size is not None and file.size > self._most:
            raise ChannelError(f"it has {file.size / 1e6:,.0f} MB, {most}")
        channel = self._channel(name)
        if not isinstance(channel, Holds):
            raise ChannelError("the channel that has it is not running")
        try:
            async with asyncio.timeout(FETCH_SECONDS) as limit:
                data = await self._tried(channel, file, limit.when() or 0)
        except TimeoutError:
            raise ChannelError(f"it did not come within {FETCH_SECONDS:.0f} s") from None
        except NanoclawError:
            raise
        except Exception as error:  # a defect in a channel costs a file, never the answer
            logger.exception("fetching a file from {} failed", name)
            raise ChannelError(f"fetching it failed ({type(error).__name__})") from None
        if len(data) > self._most:
            raise ChannelError(f"it has {most}")
        if not data:
            raise ChannelError("it is empty (0 bytes)")
        return data

    async def _tried(self, channel: Holds, file: Attachment, until: float) -> bytes:
        """Fetch a file, again after a trouble that may pass, as far as there is time `until` then."""
        for pause in PAUSES:
            try:
                return await channel.fetch(file, self._most)
            except Undeliverable:
                raise
            except ChannelError as error:
                wait = max(pause, error.retry_after or 0)
                if asyncio.get_running_loop().time() + wait >= until:
                    raise
            await sleep(wait)
        return await channel.fetch(file, self._most)

    async def _heard(self, file: Attachment) -> Resolved:
        if self._transcribe is None:
            told = f"{file.name} is a voice note; no model for transcription is configured ([models] transcription)"
            return Resolved(file, f"{told}.", problem=told)
        try:
            async with asyncio.timeout(TRANSCRIPTION_SECONDS):
                sound = await asyncio.to_thread(_read, self._folder, file.path)
                words = (await self._transcribe(Path(file.path).name, sound)).strip()
            if words:
                return Resolved(file, words=f"[voice note] {words}")
            why = "no speech was heard in it"
        except TimeoutError:
            why = f"its model took more than {TRANSCRIPTION_SECONDS:.0f} s"
        except NanoclawError as error:
            why = str(error)
        remark = f"{file.name} is a voice note that could not be transcribed: {why}"
        return Resolved(file, remark, problem=f"{file.name} could not be transcribed: {why}")


def _type_of(folder: MediaFolder, path: str, declared: str) -> str:
    """The type by the content for pictures. One that only calls itself a picture keeps its word: opening it tells what
    is wrong."""
    from nanoclaw.pictures.pictures import picture_type

    return picture_type(_read(folder, path)) or declared


def _read(folder: MediaFolder, path: str) -> bytes:
    try:
        with folder.opened(path) as file:
            return file.read()
    except OSError as error:
        raise WorkspaceError(f"it cannot be read again: {error}") from None
