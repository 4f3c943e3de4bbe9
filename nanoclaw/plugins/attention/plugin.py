"""The plugin: what nobody waits for is collected, and told in one message at the hours that the person chose."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any, NamedTuple

from nanoclaw.clock import short_time
from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.core.plugin import Command, Ended, Filter, Hears, Host, Later, Plugin, Reply, Said, Turn, Tx
from nanoclaw.plugins.attention.event_reminders import TABLE, EventReminders

MOST, CHARACTERS = 10, 300
"""Messages of a digest, and characters of each: it fits into one message of every channel."""

PAGE = 20
"""Messages that /inbox shows, all of each."""

COLLECTED = "what was collected"
"""The source of a digest: others' text may be in it."""

BY_THEMSELVES = ("delegate", "hook", "process")
"""Origins of turns that a helper's report, a webhook or the end of a process begins."""


class AttentionSettings(NamedTuple):
    """The hours at which new mail and news of the heartbeat, webhooks, helpers and processes come in one message."""

    hours: tuple[str, ...] = ()  # such as "8:00", "18:00"; empty: nothing waits
    remind_minutes: int = 10  # before events of [calendar]; 0: never

    def check(self) -> None:
        self.times()

    def times(self) -> list[time]:
        for hour in self.hours:
            if not re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d", hour):
                raise ConfigError(f'attention.hours are times of day such as "8:00" and "18:00", not {hour!r}.')
        return sorted({time.fromisoformat(hour.zfill(5)) for hour in self.hours})


LOOK_SECONDS, AHEAD, MOST_MAILS = 30.0, timedelta(minutes=2), 30
"""Seconds between looks at the clock; the time before each hour at which new mail is looked for, and its most lines."""


class CollectedMessage(NamedTuple):
    """A message that can wait: its row of the outbox, when it came, its chat (channel:chat), text and files."""

    row: int
    came: datetime
    place: str
    text: str
    files: Sequence[str]


class NothingShown:
    """Shows nothing of an answer while it is made: it may wait."""

    def feed(self, text: str) -> str:
        return ""

    def end(self) -> str:
        return ""


class Attention(Plugin):
    name = "attention"
    settings = AttentionSettings
    hears: Mapping[str, Hears] = dict.fromkeys(("stream", "on_end"), Hears(origins=BY_THEMSELVES))
    migrations = (
        """CREATE TABLE attention_told (             -- of digests that are on their way, and of each chat's last one
            outbox INTEGER PRIMARY KEY REFERENCES outbox ON DELETE CASCADE,
            digest INTEGER NOT NULL,               -- the message that tells it: itself, where it was the only one
            came TEXT NOT NULL
        ) STRICT""",
        # the inbox when it was last looked at, and the hour for which that was
        "CREATE TABLE attention_mail (mark TEXT NOT NULL, at TEXT NOT NULL) STRICT",
        TABLE,
    )
    marks = tuple(f"attention_{one}" for one in ("told.came", "mail.mark", "mail.at", "events.id", "events.starts"))

    def __init__(self, host: Host, settings: AttentionSettings) -> None:
        self._host, self._times = host, settings.times()
        self._events = EventReminders(host, settings.remind_minutes) if settings.remind_minutes else None

    # --- collecting --------------------------------------------------------------------------------------------------

    def before_send(self, outbound: Outbound, why: str, tx: Tx) -> Later | None:
        """Hold what can wait until the next of the hours; the first that is due then makes the digest of its chat."""
        row, now = outbound.row, self._host.now()
        sql = "SELECT 1 FROM attention_told WHERE outbox = ?"
        if outbound.came is None or not self._times or tx.execute(sql, row):
            return None
        if (due := self._due(outbound.came)) > now.astimezone(UTC):
            return Later(due)
        items, digest = [one for one in self._waiting() if one.place == str(outbound.address)], row
        if len(items) > 1:
            digest = tx.send(self._digest(outbound.address, items), "What had come by itself, collected.")
            self._host.records.told_together(tx, [one.row for one in items])
        for old in {told for told, _ in self._told()}:
            state, *_, place = self._host.records.sent(old)
            if state in ("", "delivered") and place in ("", str(outbound.address)):
                tx.execute("DELETE FROM attention_told WHERE digest = ?", old)
        sql = "INSERT INTO attention_told VALUES (?, ?, ?) ON CONFLICT (outbox) DO UPDATE SET digest = excluded.digest"
        for one in items:
            tx.execute(sql, one.row, digest, one.came.isoformat())
        return None if digest == row else Later(now)

    def stream(self, turn: Turn) -> Filter | None:
        return NothingShown() if self._times else None

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        """The answer to a helper or a webhook can wait as well, unless the person has spoken meanwhile."""
        began, spoke = turn.session.of_turn(turn.id, 2**63 - 1), self._host.records.last_spoke()
        is_awaited = ended.reason != "answered" or (began and spoke and spoke > began[0].at)
        if not self._times or ended.outbound is None or is_awaited:
            return None
        return ended._replace(outbound=ended.outbound._replace(came=self._host.now()))

    def _due(self, came: datetime) -> datetime:
        """The first of the hours after a time, on the person's clock."""
        here = came.astimezone(self._host.now().tzinfo)
        days = (here.date() + timedelta(days) for days in range(3))
        hours = (datetime.combine(day, hour, here.tzinfo).astimezone(UTC) for day in days for hour in self._times)
        return next(hour for hour in hours if hour > came.astimezone(UTC))

    def _waiting(self) -> list[CollectedMessage]:
        """All that no digest has told, also where one could not be sent and is not tried again."""
        told = {one.row: digest for digest, one in self._told()}
        failed = {digest for digest in told.values() if self._host.records.sent(digest)[0] == "failed"}
        found = [self._item(*one) for one in self._host.records.unhurried().items() if one[0] not in told]
        return sorted([one for digest, one in self._told() if digest in failed] + found)

    def _told(self) -> Iterator[tuple[int, CollectedMessage]]:
        for row, digest, came in self._host.read("SELECT outbox, digest, came FROM attention_told ORDER BY outbox"):
            yield digest, self._item(row, datetime.fromisoformat(came))

    def _item(self, row: int, came: datetime) -> CollectedMessage:
        *_, text, files, place = self._host.records.sent(row)
        return CollectedMessage(row, came, place, text.strip() or ", ".join(files), files)

    # --- new mail and events -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Do what is due by the clock, which goes on while the machine sleeps."""
        mailbox, calendar = self._times and self._host.get("mailbox"), self._events and self._host.get("calendar")
        while mailbox or calendar:
            if mailbox:
                await self._look_for_mail(mailbox)
            if self._events and calendar:
                await self._events.look(calendar)
                await self._events.tell()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look_for_mail(self, mailbox: Any) -> None:
        """Look for new mail a little before each of the hours."""
        now = self._host.now()
        mark, at = next(iter(self._host.read("SELECT mark, at FROM attention_mail")), ("", ""))
        due = self._due(datetime.fromisoformat(at)) if at else now
        if due - AHEAD <= now:
            try:
                mark, lines = await asyncio.to_thread(mailbox.box().newer, mark, MOST_MAILS)
                text = "\n".join([f"New in your mailbox: {len(lines)}", *lines]) if lines else ""
            except NanoclawError as error:
                text = f"New mail could not be looked for: {error}"
            await self._host.write(partial(self._keep_mail, mark, text, due))

    def _keep_mail(self, mark: str, text: str, due: datetime, tx: Tx) -> None:
        now, place = self._host.now(), self._host.owner()
        tx.execute("DELETE FROM attention_mail")
        tx.execute("INSERT INTO attention_mail VALUES (?, ?)", mark, max(now, due).isoformat())
        if text and place:
            came = min(now, due - timedelta(seconds=1))  # before the hour, whose digest tells it
            tx.send(Outbound(place, text, outside="mailbox", came=came), "From the mailbox.")

    # --- telling -----------------------------------------------------------------------------------------------------

    def _digest(self, to: Address, items: Sequence[CollectedMessage]) -> Outbound:
        from nanoclaw.message_split import cut

        lines, is_cut = [f"{len(items)} messages that could wait:"], max(0, len(items) - MOST)
        for number, one in enumerate(items[:MOST], 1):
            piece = next(cut(one.text, CHARACTERS))
            is_shorter = piece.body != one.text
            is_cut += is_shorter
            more = ("\n…" if piece.closing else " …") * is_shorter
            lines.append(self._shown(number, one, piece.text.rstrip() + more, str(to)))
        lines += [f"({is_cut} of them cut or left out: /inbox shows all.)"] * bool(is_cut)
        files = dict.fromkeys(file for one in items for file in one.files)
        return Outbound(to, "\n\n".join(lines), tuple(files), outside=COLLECTED)

    def _shown(self, number: int, one: CollectedMessage, text: str, here: str) -> str:
        to = f" · {one.place}" * (one.place != here)
        return f"**{number} · {short_time(one.came, self._host.now())}{to}**\n{text}"

    def banner(self) -> str:
        waiting = self._waiting() if self._times else ()
        return f"{self._wait(waiting)}: /inbox" if waiting else ""

    def _wait(self, waiting: Sequence[CollectedMessage]) -> str:
        now, first = self._host.now(), self._due(min(one.came for one in waiting))
        wait = ("s wait" if len(waiting) > 1 else " waits") + " until your chat can be reached, or" * (first <= now)
        return f"{len(waiting)} message{wait} for the digest at {short_time(self._due(now), now)}"

    def commands(self) -> Iterable[Command]:
        told = "what waits for the next digest, and all that the last one told: /inbox 21 goes on there"
        return [Command("inbox", told, self._inbox, private=True, cli=True)]

    def _inbox(self, said: Said, tx: Tx) -> Reply:
        waiting = self._waiting() if self._times else []
        known = {one.row for one in waiting}
        told = [one for _, one in self._told() if one.row not in known]
        first = max(1, int(said.argument)) if said.argument.isdecimal() else 1
        lines = [f"{self._wait(waiting)}." if waiting else "Nothing waits for a digest."]
        for number, one in list(enumerate([*waiting, *told], 1))[first - 1 :][:PAGE]:
            lines += ["In the last digest:"] * (number == len(waiting) + 1)
            lines.append(self._shown(number, one, one.text, str(said.address)))
        if (left := len(waiting) + len(told) - first + 1 - PAGE) > 0:
            lines.append(f"({left} more: /inbox {first + PAGE})")
        data = [{"text": one.text, "came": one.came.isoformat(), "to": one.place} for one in waiting]
        return Reply("\n\n".join(lines), {"waiting": data})
