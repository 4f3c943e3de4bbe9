"""The one way out: outbox rows, delivered to their channels in parts that fit, until each has the platform's ids."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nanoclaw.beneath.paths import PathError, PathRefused, Reach, resolve
from nanoclaw.core.channel import MAIN, Channel, Hints, Place
from nanoclaw.core.channel_registry import OFFLINE_SECONDS, Channels
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, StoreError, Undeliverable, Unreachable
from nanoclaw.core.messages import Address, Button, Outbound
from nanoclaw.core.plugin import Later, NamedTuple
from nanoclaw.core.store.db import PANIC, Flags, Store, Transaction, Transactions
from nanoclaw.escapes import BLANKS, one_line
from nanoclaw.log import logger

RETRY_SECONDS = (5, 25, 120, 600)
"""Pauses after the first, second … failed attempt; after the last one the row has failed for good."""

QUOTABLE = 20_000
"""Number of newest rows among which a message is searched by the platform's id."""


class Row(NamedTuple):
    """`sent` are the platform's ids of the parts that were sent."""

    id: int
    outbound: Outbound
    attempts: int
    due: datetime
    is_reply: bool
    sent: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """The reason by which plugins judge it."""
        found = {"answer": self.is_reply, "reminder": self.outbound.at, "question": self.outbound.buttons}
        return next((why for why, is_so in found.items() if is_so), "notice")


_READ = """SELECT DISTINCT messages.body ->> 'outside' FROM turns JOIN sessions ON sessions.id = turns.session
    JOIN messages ON messages.session = sessions.id AND messages.turn = turns.id
    WHERE (turns.inbox = ?1 OR turns.inbox = (SELECT id FROM inbox WHERE channel = 'program' AND external_id = ?2))
    AND NOT (sessions.key = ?3 AND messages.context = sessions.context)
    AND json_valid(messages.body) AND messages.body ->> 'outside' <> ''"""


def _around_one() -> float:
    from random import uniform

    return uniform(0.8, 1.2)


class Outbox:
    def __init__(self, transactions: Transactions, jitter: Callable[[], float] = _around_one) -> None:
        """`jitter` returns a factor around 1 for each pause, so that many rows don't come due together."""
        self._transactions, self._store, self._jitter = transactions, transactions.store, jitter
        self._clock = transactions.clock

    def chats(self, channel: str) -> list[Address]:
        """Chats with waiting messages, ordered by the oldest message."""
        sql = "SELECT chat FROM outbox WHERE channel = ? AND state = 'pending' GROUP BY chat ORDER BY min(id)"
        return [Address(channel, chat) for (chat,) in self._store.rows(sql, channel)]

    def waiting(self, channel: str) -> int:
        """Number of rows that a channel still has to deliver."""
        sql = "SELECT count(*) FROM outbox WHERE channel = ? AND state = 'pending'"
        return int(self._store.rows(sql, channel)[0][0])

    def pending(self, channel: str) -> list[Row]:
        """Rows that a channel still has to deliver, in order."""
        sql = f"SELECT {_COLUMNS} FROM outbox WHERE channel = ? AND state = 'pending' ORDER BY id"
        return [_row(*columns) for columns in self._store.rows(sql, channel)]

    def pending_for(self, address: Address) -> Iterator[Row]:
        """Rows that one chat still has to get. Most readers take only the first, so the others are read later."""
        sql = f"SELECT {_COLUMNS} FROM outbox WHERE channel = ? AND chat = ? AND state = 'pending' AND id > ?"
        last, most = 0, 1
        while found := self._store.rows(f"{sql} ORDER BY id LIMIT ?", *address, last, most):
            for columns in found:
                yield _row(*columns)
            last, most = found[-1][0], 100

    def shown_since(self, address: Address, row: int) -> list[Outbound]:
        """Messages that a chat got after a row, in order; of many the newest."""
        sql = f"SELECT {_COLUMNS} FROM outbox WHERE channel = ? AND chat = ? AND state = 'delivered' AND id > ?"
        found = self._store.rows(f"{sql} ORDER BY id DESC LIMIT 200", *address, row)
        return [_row(*columns).outbound._replace(key=f"{columns[0]}.1") for columns in reversed(found)]

    def last(self) -> int:
        """The number of the newest row, 0 when there is none."""
        return int(self._store.rows("SELECT coalesce(max(id), 0) FROM outbox")[0][0])

    def sent(self, address: Address, platform_id: str, conversation: Address) -> tuple[str, str]:
        """The text of a message sent to a chat, by the platform's id of it or of a part; '' if unknown. Then the
        sources of others' text that had been read for it, where they differ from those of the conversation now."""
        place = address.chat.partition("/")[0]  # whichever thread or person of the chat it was for
        sql = (
            "SELECT id, inbox, text FROM outbox WHERE id > (SELECT max(id) FROM outbox) - ?1 AND channel = ?2"
            " AND (chat = ?3 OR substr(chat, 1, ?4) = ?3 || '/')"
            " AND (instr(' ' || platform_id || ' ', ' ' || ?5 || ' ') OR instr(parts, ?6)) ORDER BY id DESC LIMIT 1"
        )
        values = (QUOTABLE, address.channel, place, len(place) + 1, platform_id, json.dumps(platform_id))
        found = self._store.rows(sql, *values) if platform_id else []
        if not found:
            return "", ""
        row, inbox, text = found[0]
        sources = self._store.rows(_READ, inbox, f"sent/{row}", str(conversation))
        return str(text), ", ".join(source for (source,) in sources)

    async def partly(self, row: Row, sent: Sequence[str]) -> Row:
        """Record which parts of a row were sent; its attempts start over."""
        await self._note("UPDATE outbox SET parts = ?, attempts = 0 WHERE id = ?", json.dumps(list(sent)), row.id)
        return row._replace(sent=tuple(sent), attempts=0)

    async def delivered(self, row: Row, platform_id: str) -> None:
        """Record that all was sent; `platform_id` has the id of each part, separated by spaces."""
        await self._note("UPDATE outbox SET state = 'delivered', platform_id = ? WHERE id = ?", platform_id, row.id)

    async def try_again(self, row: Row, error: str) -> bool:
        """Record a failed attempt and when the next one is due; False if it was the last."""
        last = row.attempts >= len(RETRY_SECONDS)
        pause = 0 if last else RETRY_SECONDS[row.attempts] * self._jitter()
        await self._failed(row, error, self._clock() + timedelta(seconds=pause), is_last=last)
        return not last

    async def postpone(self, row: Row, error: str, until: datetime) -> None:
        """Record why a row waits. It was not an attempt: the platform has not judged it."""
        await self._note("UPDATE outbox SET due = ?, error = ? WHERE id = ?", until.isoformat(), _whole(error), row.id)

    async def hasten(self, channel: str) -> None:
        """Make all waiting rows due now, as the channel is back."""
        sql = "UPDATE outbox SET due = ? WHERE channel = ? AND state = 'pending'"
        await self._note(sql, self._clock().isoformat(), channel)

    async def give_up(self, row: Row, error: str) -> None:
        """Mark a row as failed for good: trying again cannot help."""
        await self._failed(row, error, self._clock(), is_last=True)

    async def _failed(self, row: Row, error: str, due: datetime, *, is_last: bool) -> None:
        sql = "UPDATE outbox SET attempts = attempts + 1, due = ?, error = ?, state = ? WHERE id = ?"
        await self._note(sql, due.isoformat(), _whole(error), "failed" if is_last else "pending", row.id)

    async def _note(self, sql: str, *values: object) -> None:
        await self._transactions.write(lambda tx: tx.execute(sql, *values))


_COLUMNS = "id, channel, chat, text, files, reply_to, attempts, due, inbox IS NOT NULL, buttons, parts, at, came"


def _row(*columns: Any) -> Row:
    id_, channel, chat, text, files, reply_to, attempts, due, is_reply, buttons, parts, at, came = columns
    # each was [label, text] once: of a list like that the last is the only one with words, for who forgets some
    shown = tuple(Button(**one) if isinstance(one, dict) else Button(*one) for one in json.loads(buttons))
    time, since = datetime.fromisoformat(at) if at else None, datetime.fromisoformat(came) if came else None
    address, paths = Address(channel, chat), tuple(json.loads(files))
    outbound = Outbound(address, text, paths, reply_to, str(id_), shown, time, came=since)
    return Row(id_, outbound, attempts, datetime.fromisoformat(due), bool(is_reply), tuple(json.loads(parts)))


def counts(store: Store) -> dict[str, int]:
    """Number of rows in each state."""
    return dict(store.rows("SELECT state, count(*) FROM outbox GROUP BY state"))


def failures(store: Store, most: int = 5) -> list[tuple[str, str, str]]:
    """Rows that failed for good, the newest first: address, text and reason."""
    sql = "SELECT channel || ':' || chat, text, error FROM outbox WHERE state = 'failed' ORDER BY id DESC LIMIT ?"
    return store.rows(sql, most)


def _whole(text: str) -> str:
    """Replaces lone surrogates, which SQLite refuses; file names and models' answers may have them."""
    return text.encode("utf-8", "replace").decode()


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
        self.fresh: dict[Address, Row] | None = None  # all that waits, as it was written; None: the store has it
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
        self._lines = defaultdict[str, _Line](_Line)
        self._held: dict[int, datetime] = {}  # by row: until when a plugin holds it, in this process
        self._refused: dict[Address, datetime] = {}  # chats that take nothing, and when the owner was told
        self._unnoted: dict[int, list[str]] = {}  # by row: ids of what is out, which the store could not take

    def committed(self, tx: Transaction) -> None:
        """Start sending what a transaction has written."""
        for outbound, is_reply in tx.sent:
            chat = outbound.address
            if line := self._lines.get(chat.channel):
                if line.fresh is None or chat in line.busy or chat in line.fresh:
                    line.fresh = None
                else:
                    line.fresh[chat] = Row(int(outbound.key), outbound, 0, tx.now, is_reply)
                line.news.set()

    def wake(self) -> None:
        """Look in the store for what can be sent."""
        for line in self._lines.values():
            line.fresh = None
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
            self._lines[channel].fresh = None
            await self._serve(found, stays=False)

    async def catch_up(self, channel: str) -> None:
        """Wait while much is being sent on a channel, as incoming messages make more of it. After a while without
        progress it goes on, so that a stop is read."""
        line = self._lines[channel]
        while line.busy and not self._pause(line) and self._outbox.waiting(channel) > BEHIND:
            line.caught_up.clear()
            await line.caught_up.wait()

    async def _serve(self, channel: Channel, *, stays: bool) -> None:
        """Send what is due, each chat's one after the other; then wait for more, or end. It looks each minute, as the
        clock of a wait stands still while the machine sleeps."""
        line = self._lines[channel.name]
        async with asyncio.TaskGroup() as group:
            while True:
                line.news.clear()
                due = self._start(channel, line, group)
                line.caught_up.set()
                if not stays and not line.busy:
                    return
                pause = None if due is None else min(60.0, max(0.0, (due - self._clock()).total_seconds()))
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await line.news.wait()

    def _start(self, channel: Channel, line: _Line, group: asyncio.TaskGroup) -> datetime | None:
        """Start sending what is due, the oldest first. Returns when to check again."""
        fresh, line.fresh = line.fresh, None
        if pause := self._pause(line):
            return pause
        now, due, begun, most = self._clock(), None, 0, (1 if line.is_down else SENDERS) - len(line.busy)
        known = fresh if fresh is not None and len(fresh) <= most else None
        rows: Iterable[Row] = self._waiting(channel.name, line) if known is None else known.values()
        if line.tried:  # one that gets no answer must not keep the others from being tried
            rows = sorted(rows, key=lambda row: (line.tried.get(row.id, NEVER), row.id))
        for row in rows:
            if begun >= most:
                break  # whoever is done looks again
            if row.due > now:
                due = min(due or row.due, row.due)
                continue
            if known and not self._may_go(row, self._frozen_at):
                continue
            begun += 1
            line.busy.add(row.outbound.address)
            group.create_task(self._deliver(channel, line, row))
        else:
            if begun == (self._outbox.waiting(channel.name) if known is None else len(known)):
                line.fresh = {}  # no other row waits
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

    @property
    def _frozen_at(self) -> int | None:
        """The last row before /panic; None while nothing is frozen."""
        value = self._flags.get(PANIC)
        return None if value is None else int(value)

    def _may_go(self, row: Row, frozen: int | None) -> bool:
        return self._channels.reaches(row.outbound) and (frozen is None or (row.is_reply and row.id > frozen))

    async def _deliver(self, channel: Channel, line: _Line, row: Row) -> None:
        is_known, sent, is_gone = row.id in self._unnoted, self._unnoted.get(row.id, list(row.sent)), False
        try:
            if going := await self._judged(row, self._judge) if self._judge else row:
                self._unnoted.pop(row.id, None)
                is_gone = await self._send(channel, line, going, sent)
        except StoreError as error:  # what is out must not go out again, whenever this can be noted
            if not is_known:
                logger.error("the outcome of a message to {} could not be saved: {}", row.outbound.address, error)
            self._unnoted[row.id] = sent
            line.paused = self._clock() + timedelta(seconds=FULL_SECONDS)
        finally:
            line.busy.discard(row.outbound.address)
            if not is_gone:
                line.fresh = None
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

    async def _send(self, channel: Channel, line: _Line, row: Row, sent: list[str]) -> bool:
        """Send the parts that were not sent yet, and add their ids to `sent`; whether all are out."""
        whole = row if sent or row.outbound.at is None else self._with_lateness(row, row.outbound.at)
        outgoing = parts(whole, channel.hints, self._reach)
        if len(sent) > len(row.sent):
            row = await self._outbox.partly(row, sent)
        while len(sent) < len(outgoing):
            part, began = outgoing[len(sent)], self._clock()
            if sent and not self._may_go(row, self._frozen_at):
                return False
            try:
                if not (identity := await channel.send(part)):  # without one nobody knows that it was sent
                    raise ChannelError(f"{channel.name} gave no id for the message")
                sent.append(identity)
            except Exception as error:  # whatever a platform does, its message is kept
                if isinstance(error, Undeliverable) and part.files:  # the chat may well take the words
                    outgoing[len(sent)] = _instead(part, part.files, str(error))
                    continue
                await self._failed(channel, line, row, error, began)
                return False
            await self._is_back(channel, line)
            line.limited.clear()
            if len(sent) < len(outgoing):
                row = await self._outbox.partly(row, sent)
        line.tried.pop(row.id, None)
        await self._outbox.delivered(row, " ".join(sent))
        return True

    def _with_lateness(self, row: Row, at: datetime) -> Row:
        """The text with a note how late a message for a certain time is."""
        from nanoclaw import time_words

        said = time_words.was_due(at, self._clock() - at, at.tzinfo or UTC)
        return row._replace(outbound=row.outbound._replace(text=f"{row.outbound.text}\n({said})")) if said else row

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
        there = (one for one in served if not (self._channels.trouble(one.channel) or self._lines[one.channel].is_down))
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
    if not files and not hints.length:
        return [whole._replace(text=text, files=(), key=f"{row.id}.1")]
    from nanoclaw.message_split import pieces, size

    if not files and size(text, hints.units) <= hints.length:
        texts = [text] if text.strip(BLANKS) else []
    elif 0 < len(files) <= hints.files and size(text, hints.units) <= hints.caption:
        return [_with_files(whole, files, hints, reach)._replace(key=f"{row.id}.1")]
    else:
        texts = [cut.strip("\n") for cut in pieces(text, hints.length, hints.units) if cut.strip(BLANKS)]
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
