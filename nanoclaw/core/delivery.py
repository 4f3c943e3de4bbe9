"""The one way out: takes outbox rows to their channels, in parts that fit, until each has the platform's ids."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from nanoclaw.core.channel import Channel, Hints
from nanoclaw.core.channel_registry import Channels
from nanoclaw.core.errors import ChannelError, StoreError, Undeliverable
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.core.store.flags import PANIC, Flags
from nanoclaw.core.store.outbox import Outbox, Row
from nanoclaw.message_split import pieces, size

MOST_PAUSE_SECONDS = 3600.0
"""However long a platform asks to wait."""

FULL_SECONDS = 5.0
"""Pause of a channel when a delivery could not be noted, for example because the disk is full."""


class Delivery:
    """One task per channel, so that a slow or failing channel delays no other."""

    def __init__(
        self, outbox: Outbox, channels: Channels, flags: Flags, clock: Callable[[], datetime], root: Path
    ) -> None:
        """While everything is frozen only replies to what was said since then go out. Files of `root` can be sent,
        others not."""
        self._outbox, self._channels, self._flags, self._clock, self._root = outbox, channels, flags, clock, root
        self._news: dict[str, asyncio.Event] = {}
        self._paused: dict[str, datetime] = {}  # until when a platform asked to be left alone
        self._unnoted: dict[int, list[str]] = {}  # by row: ids of what is out, which the store could not take

    def wake(self, channel: str) -> None:
        """There is a new row for the channel."""
        if channel in self._news:
            self._news[channel].set()

    def wake_all(self) -> None:
        """Let out what was frozen."""
        for news in self._news.values():
            news.set()

    async def run(self) -> None:
        """Until cancelled. Raises StoreError when the store cannot be read."""
        try:
            async with asyncio.TaskGroup() as group:
                for channel in self._channels.all():
                    group.create_task(self._serve(channel))
        except ExceptionGroup as several:
            raise several.exceptions[0] from several

    async def flush(self, channel: str) -> None:
        """Try once to deliver all that is due on a channel now. Within a chat nothing overtakes what waits."""
        waiting: set[Address] = set()
        for row in self._pending(channel):
            if self._is_paused(channel):
                return
            address = row.outbound.address
            if address in waiting or row.due > self._clock() or not await self._send(self._channel(channel), row):
                waiting.add(address)

    async def _serve(self, channel: Channel) -> None:
        news = self._news.setdefault(channel.name, asyncio.Event())
        while True:
            news.clear()
            await self.flush(channel.name)
            due = self._next_due(channel.name)
            pause = None if due is None else max(0.0, (due - self._clock()).total_seconds())
            try:
                async with asyncio.timeout(pause):
                    await news.wait()
            except TimeoutError:
                pass

    def _next_due(self, channel: str) -> datetime | None:
        """When the first row of some chat is due; the others of that chat wait for it."""
        first: dict[Address, datetime] = {}
        for row in self._pending(channel):
            first.setdefault(row.outbound.address, row.due)
        due = min(first.values(), default=None)
        return max(due, self._paused[channel]) if due and channel in self._paused else due

    def _is_paused(self, channel: str) -> bool:
        if channel in self._paused and self._paused[channel] <= self._clock():
            del self._paused[channel]
        return channel in self._paused

    def _channel(self, name: str) -> Channel:
        found = self._channels.get(name)
        assert found
        return found

    @property
    def _frozen_at(self) -> int | None:
        """The last row before /panic; None while nothing is frozen."""
        value = self._flags.get(PANIC)
        return None if value is None else int(value)

    def _pending(self, channel: str) -> list[Row]:
        frozen = self._frozen_at
        return [row for row in self._outbox.pending(channel) if self._may_go(row, frozen)]

    def _may_go(self, row: Row, frozen: int | None) -> bool:
        return self._channels.reaches(row.outbound) and (frozen is None or (row.is_reply and row.id > frozen))

    async def _send(self, channel: Channel, row: Row) -> bool:
        """True where the row is done with: it is out as a whole, or never will be."""
        is_known, sent = row.id in self._unnoted, self._unnoted.pop(row.id, list(row.sent))
        try:
            return await self._send_rest(channel, row, sent)
        except StoreError as error:  # what is out must not go out again, whenever this can be noted
            if not is_known:
                from nanoclaw.core.log import logger

                logger.error("what became of a message to {} could not be noted: {}", row.outbound.address, error)
            self._unnoted[row.id] = sent
            self._paused[channel.name] = self._clock() + timedelta(seconds=FULL_SECONDS)
            return False

    async def _send_rest(self, channel: Channel, row: Row, sent: list[str]) -> bool:
        """Send what is not out yet, and add its ids to `sent`."""
        outgoing = parts(row, channel.hints, self._root)
        if len(sent) > len(row.sent):
            row = self._outbox.partly(row, sent)
        while len(sent) < len(outgoing):
            part = outgoing[len(sent)]
            if sent and not self._may_go(row, self._frozen_at):
                return False
            try:
                sent.append(await self._identity(channel, part))
            except Exception as error:  # whatever a platform does, its message is kept
                if isinstance(error, Undeliverable) and part.files:  # the chat may well take the words
                    outgoing[len(sent)] = _instead(part, part.files, str(error))
                    continue
                return self._failed(channel, row, error)
            if len(sent) < len(outgoing):
                row = self._outbox.partly(row, sent)
        self._outbox.delivered(row, " ".join(sent))
        return True

    async def _identity(self, channel: Channel, part: Outbound) -> str:
        """The platform's id of a part that went out. Without one nobody knows that it did."""
        identity = await channel.send(part)
        if not identity:
            raise ChannelError(f"{channel.name} gave no id of the message")
        return identity

    def _failed(self, channel: Channel, row: Row, error: Exception) -> bool:
        if not self._channels.reaches(row.outbound):  # who was there has left: it waits for them
            return False
        from nanoclaw.core.log import logger

        said = str(error) or type(error).__name__
        logger.warning("could not deliver a message to {}: {}", row.outbound.address, said)
        if isinstance(error, Undeliverable):
            self._outbox.give_up(row, said)
            return True
        until = None
        if isinstance(error, ChannelError) and error.retry_after:
            until = self._clock() + timedelta(seconds=min(error.retry_after, MOST_PAUSE_SECONDS))
            self._paused[channel.name] = until
        self._outbox.try_again(row, said, until)
        return False


def parts(row: Row, hints: Hints, root: Path | None = None) -> list[Outbound]:
    """Parts in which a row is sent, one after the other: the text in pieces, then the files. How many they are
    and what each is does not depend on what has become of the files, so that a retry goes on where it broke off."""
    whole = row.outbound
    text, files = whole.text, whole.files
    if files and 0 in (hints.files, hints.file_bytes):
        text, files = "\n".join([text, *files] if text else files), ()
    if not files and (not hints.length or size(text, hints.units) <= hints.length):
        texts = [text] if text.strip() or not hints.length else []
    elif 0 < len(files) <= hints.files and size(text, hints.units) <= hints.caption:
        return [_with_files(whole, files, hints, root)._replace(key=f"{row.id}.1")]
    else:
        cuts = pieces(text, hints.length, hints.units)
        texts = [cut.strip("\n") for cut in cuts if cut.strip()]
    bare = whole._replace(text="", files=(), reply_to="", buttons=())
    outgoing = [bare._replace(text=one) for one in texts]
    while files:
        outgoing.append(_with_files(bare, files[: hints.files], hints, root))
        files = files[hints.files :]
    if outgoing:
        outgoing[0] = outgoing[0]._replace(reply_to=whole.reply_to)
        last = len(texts or outgoing) - 1
        outgoing[last] = outgoing[last]._replace(buttons=whole.buttons)
    return [one._replace(key=f"{row.id}.{number}") for number, one in enumerate(outgoing, 1)]


def _with_files(outbound: Outbound, paths: Sequence[str], hints: Hints, root: Path | None) -> Outbound:
    """The text as it is and the files, with a line for each that cannot be sent."""
    good = list[str]()
    for path in paths:
        real = Path(os.path.realpath(root / path if root else path))
        if problem := _problem(real, hints, root):
            outbound = _instead(outbound, (path,), problem)
        else:
            good.append(str(real))
    return outbound._replace(files=tuple(good))


def _problem(real: Path, hints: Hints, root: Path | None) -> str:
    if root and not real.is_relative_to(os.path.realpath(root)):
        return "it is not in the workspace"
    try:
        found = real.stat()
    except OSError as error:
        return "it is no longer there" if isinstance(error, FileNotFoundError) else (error.strerror or "").lower()
    if not stat.S_ISREG(found.st_mode):
        return "it is not a plain file"
    if not found.st_size:
        return "it is empty"
    if found.st_size > hints.file_bytes:
        return f"it has {found.st_size / 1e6:,.1f} MB, and {hints.file_bytes / 1e6:,.1f} MB can be sent here"
    return ""


def _instead(outbound: Outbound, paths: Sequence[str], reason: str) -> Outbound:
    """The text, and which files are not with it for what reason."""
    names = ("".join(sign if sign.isprintable() else " " for sign in Path(path).name)[:100] for path in paths)
    line = f"(could not send {', '.join(names)}: {reason.rstrip('.')})"
    return outbound._replace(text=f"{outbound.text}\n\n{line}".strip(), files=())
