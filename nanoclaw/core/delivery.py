"""The one way out: delivers outbox rows to their channels, in parts that fit, until each has the platform's ids."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nanoclaw.beneath.paths import PathError, PathRefused, resolve
from nanoclaw.beneath.reach import Reach
from nanoclaw.core.channel import Channel, Hints, Place
from nanoclaw.core.channel_registry import MAIN, OFFLINE_SECONDS, Channels
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, StoreError, Undeliverable, Unreachable
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.core.plugin import Later
from nanoclaw.core.store.db import PANIC, Flags
from nanoclaw.core.store.outbox import Outbox, Row
from nanoclaw.core.store.tx import Transaction, Transactions
from nanoclaw.escapes import one_line
from nanoclaw.message_split import pieces, size

SENDERS = 8
"""Most chats of one channel that are served at the same time; the oldest message goes first."""

BEHIND = 50
"""Most messages that may wait for a channel before it accepts no more."""

MOST_PAUSE_SECONDS = 3600.0
"""The longest wait in seconds, even if a platform asks for more."""

FULL_SECONDS = 5.0
"""Pause of a channel after a delivery that could not be recorded, for example because the disk is full."""

TROUBLE_SECONDS = 3.0
"""Pause before a message is tried again if the platform gave no answer, and the least that a plugin can hold one."""

IN_A_ROW = 3
"""After so many messages in a row without an answer a platform counts as unreachable; after so many chats in a row for
which it asked to wait, the wait is for all."""

NEVER = datetime.min.replace(tzinfo=UTC)

TOLD_SECONDS = 3600.0
"""Seconds before the owner is told again that a chat takes no messages, or told of other such chats."""

NOT_DELIVERED = "Could not be delivered to "


Judge = Callable[[Outbound, str, Transaction], Outbound | Later | str]
"""Says whether a message goes out, or who drops it."""


class _Line:
    """The state of one platform: the chats that are being served, and whether it answers."""

    def __init__(self) -> None:
        self.news, self.caught_up = asyncio.Event(), asyncio.Event()
        self.busy: set[Address] = set()
        self.paused: datetime | None = None  # until when it is left alone
        self.limited: set[str] = set()  # chats for which it asked to wait since it took a message
        self.silent = 0  # messages in a row to which it gave no answer
        self.is_down = False  # it cannot be reached: one message at a time is tried
        self.answered: datetime | None = None  # when it last said anything to what was sent
        self.tried: dict[int, datetime] = {}  # by row: the last try to which it said nothing


class Delivery:
    """A few senders for each channel, one for each chat, so that a slow or failing chat or channel delays no other."""

    def __init__(
        self,
        outbox: Outbox,
        channels: Channels,
        flags: Flags,
        transactions: Transactions,
        reach: Reach,
        owners_chats: Callable[[], Sequence[Address]],
        judge: Judge | None = None,
    ) -> None:
        """While everything is frozen, only replies to later messages go out. Only files in `reach` can be sent."""
        self._outbox, self._channels, self._flags, self._reach = outbox, channels, flags, reach
        self._transactions, self._clock, self._judge = transactions, transactions.clock, judge
        self._owners_chats = owners_chats
        self._lines: dict[str, _Line] = {}
        self._held: dict[int, datetime] = {}  # by row: until when a plugin holds it, in this process
        self._refused: dict[Address, datetime] = {}  # chats that take nothing, and when the owner was told
        self._unnoted: dict[int, list[str]] = {}  # by row: ids of what is out, which the store could not take

    def wake(self, channel: str) -> None:
        """Start sending: there is a new row for the channel."""
        if channel in self._lines:
            self._lines[channel].news.set()

    def wake_all(self) -> None:
        """Start sending what was frozen."""
        for line in self._lines.values():
            line.news.set()

    async def run(self) -> None:
        """Deliver until cancelled. Raises StoreError if the store cannot be read."""
        try:
            async with asyncio.TaskGroup() as group:
                for channel in self._channels.all():
                    group.create_task(self._serve(channel, stays=True))
        except ExceptionGroup as several:
            error: Exception = several
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            raise error from several

    async def flush(self, channel: str) -> None:
        """Try once to deliver everything that is due on a channel. Within a chat the order is kept."""
        if found := self._channels.get(channel):
            await self._serve(found, stays=False)

    async def catch_up(self, channel: str) -> None:
        """Wait while much is being sent on a channel, as incoming messages make more of it. After a while without
        progress it goes on, so that a stop is read."""
        line = self._line(channel)
        while line.busy and not self._pause(line) and self._outbox.waiting(channel) > BEHIND:
            line.caught_up.clear()
            await line.caught_up.wait()

    async def _serve(self, channel: Channel, *, stays: bool) -> None:
        """Send what is due, each chat's one after the other; then wait for more, or end."""
        line = self._line(channel.name)
        async with asyncio.TaskGroup() as group:
            while True:
                line.news.clear()
                due = self._start(channel, line, group)
                line.caught_up.set()
                if not stays and not line.busy:
                    return
                pause = None if due is None else max(0.0, (due - self._clock()).total_seconds())
                try:
                    async with asyncio.timeout(pause):
                        await line.news.wait()
                except TimeoutError:
                    pass

    def _start(self, channel: Channel, line: _Line, group: asyncio.TaskGroup) -> datetime | None:
        """Start sending what is due, the oldest first. Returns when to check again."""
        if pause := self._pause(line):
            return pause
        now, free, due = self._clock(), (1 if line.is_down else SENDERS) - len(line.busy), None
        rows: Iterable[Row] = self._waiting(channel.name, line)
        if line.tried:  # one that gets no answer must not keep the others from being tried
            rows = sorted(rows, key=lambda row: (line.tried.get(row.id, NEVER), row.id))
        for row in rows:
            if not free:
                break  # whoever is done looks again
            if row.due > now:
                due = min(due or row.due, row.due)
                continue
            free -= 1
            line.busy.add(row.outbound.address)
            group.create_task(self._deliver(channel, line, row))
        return due

    def _waiting(self, channel: str, line: _Line) -> Iterator[Row]:
        """The rows of each chat that is not being served, up to the first that may be sent; oldest chats first."""
        frozen, now = self._frozen_at, self._clock()
        for chat in self._outbox.chats(channel):
            for row in self._outbox.pending_for(chat) if chat not in line.busy else ():
                if self._may_go(row, frozen):
                    held = self._held.get(row.id, now)
                    yield row if held <= now else row._replace(due=held)
                    if held <= now:
                        break

    def _pause(self, line: _Line) -> datetime | None:
        """Until when nothing is sent to a platform; None if it can be used now."""
        if line.paused and line.paused <= self._clock():
            line.paused = None
        return line.paused

    def _line(self, channel: str) -> _Line:
        return self._lines.setdefault(channel, _Line())

    @property
    def _frozen_at(self) -> int | None:
        """The last row before /panic; None while nothing is frozen."""
        value = self._flags.get(PANIC)
        return None if value is None else int(value)

    def _may_go(self, row: Row, frozen: int | None) -> bool:
        return self._channels.reaches(row.outbound) and (frozen is None or (row.is_reply and row.id > frozen))

    async def _deliver(self, channel: Channel, line: _Line, row: Row) -> None:
        is_known, sent = row.id in self._unnoted, self._unnoted.get(row.id, list(row.sent))
        try:
            if going := await self._judged(row, self._judge) if self._judge else row:
                self._unnoted.pop(row.id, None)
                await self._send(channel, line, going, sent)
        except StoreError as error:  # what is out must not go out again, whenever this can be noted
            if not is_known:
                from nanoclaw.log import logger

                logger.error("the outcome of a message to {} could not be saved: {}", row.outbound.address, error)
            self._unnoted[row.id] = sent
            line.paused = self._clock() + timedelta(seconds=FULL_SECONDS)
        finally:
            line.busy.discard(row.outbound.address)
            line.news.set()

    async def _judged(self, row: Row, judge: Judge) -> Row | None:
        """A row as it goes out; None where a plugin holds or drops it."""
        said = await self._transactions.write(lambda tx: judge(row.outbound, row.why, tx))
        if isinstance(said, Outbound):
            self._held.pop(row.id, None)
            return row._replace(outbound=said)
        if isinstance(said, str):
            await self._outbox.give_up(row, f"the plugin {said} held it back")
        else:
            self._held[row.id] = max(said.at, self._clock() + timedelta(seconds=TROUBLE_SECONDS))
        return None

    async def _send(self, channel: Channel, line: _Line, row: Row, sent: list[str]) -> None:
        """Send the parts that were not sent yet, and add their ids to `sent`."""
        outgoing = parts(row if sent else self._with_lateness(row), channel.hints, self._reach)
        if len(sent) > len(row.sent):
            row = await self._outbox.partly(row, sent)
        while len(sent) < len(outgoing):
            part, began = outgoing[len(sent)], self._clock()
            if sent and not self._may_go(row, self._frozen_at):
                return
            try:
                sent.append(await self._identity(channel, part))
            except Exception as error:  # whatever a platform does, its message is kept
                if isinstance(error, Undeliverable) and part.files:  # the chat may well take the words
                    outgoing[len(sent)] = _instead(part, part.files, str(error))
                    continue
                await self._failed(channel, line, row, error, began)
                return
            await self._is_back(channel, line)
            line.limited.clear()
            if len(sent) < len(outgoing):
                row = await self._outbox.partly(row, sent)
        line.tried.pop(row.id, None)
        await self._outbox.delivered(row, " ".join(sent))

    def _with_lateness(self, row: Row) -> Row:
        """The text with a note how late a message for a certain time is."""
        if (at := row.outbound.at) is None:
            return row
        from nanoclaw import time_words

        said = time_words.was_due(at, self._clock() - at, at.tzinfo or UTC)
        return row._replace(outbound=row.outbound._replace(text=f"{row.outbound.text}\n({said})")) if said else row

    async def _identity(self, channel: Channel, part: Outbound) -> str:
        """The platform's id of a sent part. Without an id nobody knows that it was sent."""
        identity = await channel.send(part)
        if not identity:
            raise ChannelError(f"{channel.name} gave no id for the message")
        return identity

    async def _is_back(self, channel: Channel, line: _Line) -> None:
        """Record that a platform answers."""
        line.answered, line.silent = self._clock(), 0
        if line.is_down:
            line.is_down = False
            await self._outbox.hasten(channel.name)

    def _is_away(self, line: _Line, is_certain: bool) -> None:
        """Record that a platform gives no answer; after a few such messages one at a time is tried."""
        line.silent += 1
        if is_certain or line.is_down or line.silent >= IN_A_ROW:
            line.is_down, line.paused = True, self._clock() + timedelta(seconds=OFFLINE_SECONDS)

    async def _failed(self, channel: Channel, line: _Line, row: Row, error: Exception, began: datetime) -> None:
        if not self._channels.reaches(row.outbound):  # who was there has left: it waits for them
            return
        from nanoclaw.log import logger

        said, now = str(error) or type(error).__name__, self._clock()
        if not line.is_down:
            logger.warning("could not deliver a message to {}: {}", row.outbound.address, said)
        if isinstance(error, ChannelUnavailable):
            since, is_certain = line.tried.get(row.id, began), isinstance(error, Unreachable)
            if not is_certain:
                line.tried[row.id] = now
            if not self._lives(channel, line, since):  # then so it would be with any message
                self._is_away(line, is_certain)
                if not line.is_down:
                    await self._outbox.postpone(row, said, now + timedelta(seconds=TROUBLE_SECONDS))
                return
        else:
            await self._is_back(channel, line)
        if isinstance(error, Undeliverable):
            line.tried.pop(row.id, None)
            await self._outbox.give_up(row, said)
            await self._tell_owner(row.outbound, said)
        elif isinstance(error, ChannelError) and error.retry_after:
            until = now + timedelta(seconds=min(error.retry_after, MOST_PAUSE_SECONDS))
            await self._outbox.postpone(row, said, until)
            line.limited.add(Place.of(row.outbound.address.chat).chat)
            if len(line.limited) >= IN_A_ROW:
                line.paused = until
        elif not await self._outbox.try_again(row, said):
            await self._tell_owner(row.outbound, said)

    def _lives(self, channel: Channel, line: _Line, since: datetime) -> bool:
        """True if a platform has worked since then, for other outgoing or for incoming messages."""
        return any(at and at > since for at in (channel.alive, line.answered))

    async def _tell_owner(self, outbound: Outbound, reason: str) -> None:
        """Tell the owner in another place that a message could not be delivered, for each chat once in a while."""
        address, now, is_told = outbound.address, self._clock(), outbound.text.startswith(NOT_DELIVERED)
        has_refused = self._has_refused(address)
        if has_refused and not is_told:
            return
        self._refused[address] = now
        text = f"{NOT_DELIVERED}{address}: “{one_line(outbound.text)}” ({reason.rstrip('.')})."
        elsewhere = Outbound(self._elsewhere(address), outbound.text if is_told else text)
        if elsewhere.address != address:
            await self._transactions.write(lambda tx: tx.send(elsewhere, "A message could not be delivered."))

    def _elsewhere(self, address: Address) -> Address:
        """Another place to reach the owner: one that works now, else one whose channel may come back."""
        chats = [*self._owners_chats(), MAIN]
        chats = [one for one in chats if one != address and not self._has_refused(one)]
        served = [one for one in chats if self._channels.reaches(Outbound(one, ""))]
        there = (one for one in served if not (self._channels.trouble(one.channel) or self._line(one.channel).is_down))
        return next(there, next(iter(served), MAIN))

    def _has_refused(self, address: Address) -> bool:
        when = self._refused.get(address, NEVER)
        return (self._clock() - when).total_seconds() < TOLD_SECONDS


def parts(row: Row, hints: Hints, reach: Reach | None = None) -> list[Outbound]:
    """The parts of a row, sent one after the other: pieces of the text, then the files. They don't depend on what
    happened to the files meanwhile, so that a retry continues where it was interrupted."""
    whole = row.outbound
    text, files = whole.text, whole.files
    if files and 0 in (hints.files, hints.file_bytes):
        text, files = "\n".join([text, *files] if text else files), ()
    if not files and (not hints.length or size(text, hints.units) <= hints.length):
        texts = [text] if text.strip() or not hints.length else []
    elif 0 < len(files) <= hints.files and size(text, hints.units) <= hints.caption:
        return [_with_files(whole, files, hints, reach)._replace(key=f"{row.id}.1")]
    else:
        cuts = pieces(text, hints.length, hints.units)
        texts = [cut.strip("\n") for cut in cuts if cut.strip()]
    bare = whole._replace(text="", files=(), reply_to="", buttons=())
    outgoing = [bare._replace(text=one) for one in texts]
    while files:
        outgoing.append(_with_files(bare, files[: hints.files], hints, reach))
        files = files[hints.files :]
    if outgoing:
        outgoing[0] = outgoing[0]._replace(reply_to=whole.reply_to)
        last = len(texts or outgoing) - 1
        outgoing[last] = outgoing[last]._replace(buttons=whole.buttons)
    return [one._replace(key=f"{row.id}.{number}") for number, one in enumerate(outgoing, 1)]


def _with_files(outbound: Outbound, paths: Sequence[str], hints: Hints, reach: Reach | None) -> Outbound:
    """The text as it is and the files, with a line for each that cannot be sent."""
    good = list[str]()
    for path in paths:
        try:
            real = resolve(reach, path, for_writing=False) if reach else Path(os.path.realpath(path))
            problem = _problem(real, hints)
        except PathError as error:
            is_out = isinstance(error, PathRefused)
            problem = "it is not in the workspace" if is_out else "it is not a plain file"
        if problem:
            outbound = _instead(outbound, (path,), problem)
        else:
            good.append(str(real))
    return outbound._replace(files=tuple(good))


def _problem(real: Path, hints: Hints) -> str:
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
    """The text with a note which files are missing, and why."""
    names = ("".join(sign if sign.isprintable() else " " for sign in Path(path).name)[:100] for path in paths)
    line = f"(could not send {', '.join(names)}: {reason.rstrip('.')})"
    return outbound._replace(text=f"{outbound.text}\n\n{line}".strip(), files=())
