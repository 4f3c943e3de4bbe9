"""Beats: the loop, one beat after the other, and reporting their results."""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from nanoclaw.core.errors import NanoclawError, ScheduleError
from nanoclaw.core.messages import Address, Inbound, Outbound, UserMessage
from nanoclaw.core.plugin import Ended, Host, Turn, Tx
from nanoclaw.first_of import first_of
from nanoclaw.plugins.heartbeat import tables
from nanoclaw.plugins.heartbeat.hours import HeartbeatTimes
from nanoclaw.plugins.heartbeat.probe import Probe
from nanoclaw.plugins.heartbeat.tables import Alert, Urgency
from nanoclaw.plugins.heartbeat.triage import Triaged, prompt, sources, table, time_of, triage
from nanoclaw.silence_token import spoken

CHANNEL = "heartbeat"
"""The channel of the conversation in which heartbeats run."""

CONVERSATION = Address(CHANNEL, "main")

HOME = Address("terminal", "main")
"""The place to tell things when nobody has spoken anywhere."""

LONGEST_SLEEP = 300.0
"""Seconds between two looks at the clock, which somebody may set."""
OLD = timedelta(hours=1)
"""An alert that waited longer says when it was noticed."""

UNWATCHED = (
    "I cannot watch what this line of HEARTBEAT.md names, so the model looks at it now and then: “{}”. To be woken by "
    "a change alone, let it name a file, a page or a command: watch notes/inbox.md, watch https://…, watch $ COMMAND."
)
"""Told once of each such line."""

Silent = Literal["frozen", "running", "idle"]
"""Why a beat does not ask a model: everything is frozen, the last beat still runs, or there is nothing to ask."""

_SILENT: dict[Silent, str] = {
    "frozen": "Everything is frozen by /panic: no heartbeat until /resume.",
    "running": "A heartbeat is under way already.",
    "idle": "Nothing is due: no model was asked.",
}


@dataclass(frozen=True, slots=True)
class Beat:
    """The items that a beat looked at, and why it asked no model, '' when it did."""

    found: tuple[Triaged, ...]
    silent: Silent | Literal[""]


class Beats:
    """One beat at a time. What it has to tell is on disk before anybody hears of it."""

    sleep = staticmethod(asyncio.sleep)

    def __init__(self, host: Host, times: HeartbeatTimes, probe: Probe) -> None:
        self._host, self._times, self._probe = host, times, probe
        self._asked: dict[str, Sequence[Triaged]] = {}  # by the message's external id
        self._reports: dict[int, list[tuple[str, Urgency]]] = {}  # by the turn
        self._news = asyncio.Event()
        self.trouble = ""
        """Why the last beat that asked a model came to nothing."""
        self.is_awaited = False
        """True while somebody waits for the end of a beat, and gets its errors."""

    # --- when --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled. A beat that fails is logged, and the next one comes."""
        while True:
            await self._wait()
            await self._safely(self.beat())

    async def _wait(self) -> None:
        """Until the next beat, telling meanwhile what is to be told."""
        due: datetime | None = None
        while True:
            await self._safely(self.announce())
            now = self._local()
            following = self.following(now)
            due = following if due is None or (following and following < due) else due
            left = (due.astimezone(UTC) - now.astimezone(UTC)).total_seconds() if due else LONGEST_SLEEP
            if left <= 0:
                return
            await first_of(self.sleep(min(left, LONGEST_SLEEP)), self._news.wait())
            self._news.clear()

    def following(self, now: datetime) -> datetime | None:
        """The next beat: counted from the beginning of the active hours, so that a restart changes nothing."""
        every, hours = self._times.every, self._times.hours
        if every is None:
            return None
        local = self._local(now)
        if hours.has(local):
            began = hours.began(local).astimezone(UTC)
            count = math.floor((local.astimezone(UTC) - began) / every) + 1
            following = (began + count * every).astimezone(local.tzinfo)
            if following < hours.begins(local) and hours.has(following):
                return following
        return hours.begins(local)

    def _local(self, now: datetime | None = None) -> datetime:
        now = now or self._host.now()
        return now.astimezone(self._times.zone) if self._times.zone else now

    async def _safely(self, work: Awaitable[object]) -> None:
        try:
            await work
        except NanoclawError as error:
            self._host.log.error("a heartbeat failed and the next one tries again: {}", error)

    # --- a beat ------------------------------------------------------------------------------------------------------

    async def beat(self) -> Beat:
        """One now, whatever the hour. If nothing is due, it makes no model call and only saves first states."""
        if self._host.is_frozen():
            return Beat((), "frozen")
        if self._host.records.is_waiting(CONVERSATION):
            return Beat((), "running")
        found = await self._look()
        keys = {one.item.key for one in found}
        looked = {one.item.key: one.state for one in found if one.state and not one.is_due}
        if looked:
            await self._host.write(lambda tx: tables.keep_states(tx, looked, keys))
        if not any(one.is_due for one in found):
            return Beat(tuple(found), "idle")
        now = self._host.now()
        name = f"{tables.stamp(now)} {os.urandom(4).hex()}"
        message = UserMessage(prompt(found), now, "heartbeat", outside=sources(found))
        inbound = Inbound(CONVERSATION, CHANNEL, name, message, role="owner")
        self._asked = {name: found}
        profile = self._host.profile("heartbeat")
        await self._host.write(lambda tx: tx.deliver(inbound, profile))
        return Beat(tuple(found), "")

    async def _look(self) -> list[Triaged]:
        return await triage(self._probe, tables.states(self._host), self._local())

    def report(self, turn: int, notify: bool, text: str, urgency: Urgency) -> None:
        """Take what the model has to say at the end of a beat."""
        reports = self._reports.setdefault(turn, [])
        if notify and (said := news(text)):
            reports.append((said, urgency))

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended:
        """Keep what a beat came to; none of it goes out now. After a failure its items are due again."""
        found, now = self._asked.pop(turn.external_id, ()), self._host.now()
        reports = self._reports.pop(turn.id, None)
        if reports is None and ended.reason == "answered" and (said := news(ended.text)):
            reports = [(said, "normal")]
        for text, urgency in reports or ():
            tables.add_alert(tx, text, urgency, now, ", ".join(turn.outside))
        worked = ended.reason not in ("failed", "cancelled")
        self.trouble = "" if worked else ended.text or "It was stopped."
        if worked and found:
            for one in found:
                if one.is_new and one.item.is_unwatched:
                    tables.add_alert(tx, UNWATCHED.format(one.item.text), "low", now)
            states = {one.item.key: one.state for one in found if one.is_due and one.state}
            tables.keep_states(tx, states, {one.item.key for one in found})
        if not worked:
            is_known = ended.reason == "cancelled" or self.is_awaited
            log = self._host.log.info if is_known else self._host.log.warning
            log("a heartbeat had no result ({}): {}", ended.reason, ended.text)
        tx.after(self._news.set)
        return ended._replace(outbound=None)

    # --- telling -----------------------------------------------------------------------------------------------------

    def waiting(self) -> list[Alert]:
        """Alerts that are kept for later."""
        return tables.waiting(self._host)

    def ripe(self, now: datetime) -> list[Alert]:
        """Alerts that may be told: none outside the active hours. One of low urgency waits for other news, or for the
        next beginning of these hours."""
        local, waiting = self._local(now), self.waiting()
        if not self._times.hours.has(local) or self._host.is_frozen():
            return []
        began = self._times.hours.began(local)
        is_time = any(alert.urgency != "low" or alert.at < began for alert in waiting)
        return sorted(waiting, key=lambda alert: alert.urgency != "high") if is_time else []

    async def announce(self) -> str:
        """Send what is ripe as one message, once no turn runs in the conversation; the text, '' for nothing."""
        if not self.ripe(self._host.now()):
            return ""
        target = self.target()
        access = self._host.get("access")
        await self._host.conversations.free((access.conversation_of(target) if access else None) or target)
        alerts = self.ripe(self._host.now())
        if not alerts:
            return ""
        text = _composed(alerts, self._local())
        sources = ", ".join(dict.fromkeys(alert.outside for alert in alerts if alert.outside))

        def change(tx: Tx) -> None:
            tx.send(Outbound(target, text, outside=sources), "From a heartbeat.")
            tables.mark_told(tx, alerts, self._host.now())

        await self._host.write(change)
        return text

    def target(self) -> Address:
        """The configured place, else the conversation that is served and in which the owner spoke last."""
        return self._times.target or next(filter(self._is_place, self._host.records.owners_chats(50)), HOME)

    def _is_place(self, address: Address) -> bool:
        """True if the owner, alone with the assistant, can be told something by this process."""
        access, channel = self._host.get("access"), self._host.channel(address.channel)
        if channel is None or not (address.channel == HOME.channel or (access and access.is_owners(address))):
            return False
        return self._host.serves(address)

    # --- by hand -----------------------------------------------------------------------------------------------------

    async def command(self) -> str:
        """/heartbeat: what is due; what the model has to tell comes by itself."""
        beat = await self.beat()
        if beat.silent:
            return _outcome(beat, "", ())
        return f"{table(beat.found)}\n\nThe model has been asked; its report will follow."

    async def to_the_end(self, resume: Callable[[Callable[[Address], bool]], object]) -> str:
        """One beat to its end, in a process that serves nothing else; its result. `resume` goes on with what an earlier
        process left. Raises ScheduleError if its model gave no answer."""
        self.is_awaited = True
        resume(_is_beats)
        await self._host.conversations.free(CONVERSATION)
        beat = await self.beat()
        await self._host.conversations.free(CONVERSATION)
        if not beat.silent and self.trouble:
            raise ScheduleError(f"the heartbeat had no result, and its lines stay due. {self.trouble}")
        return _outcome(beat, await self.announce(), self.waiting())

    async def dry_run(self) -> str:
        """The outcome that a beat now would have. Looks at what is watched; changes nothing and asks no model."""
        found = await self._look()
        if not any(one.is_due for one in found):
            return f"{table(found)}\n\nNothing is due: no model is asked."
        text, inspect = prompt(found), self._host.get("inspect")
        size = ""
        if inspect:
            tokens = await inspect.tokens(CONVERSATION, text, self._host.profile("heartbeat"))
            size = f" (about {tokens:,} tokens, tools included)"
        return f"{table(found)}\n\nThe model would be asked{size}:\n\n{text}"


def news(answer: str) -> str:
    """The part of an answer that is for the person; '' if each clause says that there is nothing (quiet.txt)."""
    said = spoken(answer).strip()
    quiet = "|".join(Path(__file__).with_name("quiet.txt").read_text("utf-8").splitlines())
    clauses = re.split(r"[.!;:,。！，；：、—–]\s*|\b(?:and|und|et|y|e|и)\b", said.lower().replace("’", "'"))
    return "" if all(re.fullmatch(quiet, one.strip()) for one in clauses if one.strip()) else said


def _is_beats(address: Address) -> bool:
    return address.channel == CHANNEL


def _outcome(beat: Beat, told: str, waiting: Sequence[Alert]) -> str:
    """The outcome of a beat, in words."""
    if beat.silent:
        return "\n".join(filter(None, (table(beat.found) if beat.silent == "idle" else "", _SILENT[beat.silent])))
    kept = [f"Kept for later: {alert.text}" for alert in waiting]
    said = [f"Told: {told}"] if told else [] if kept else ["The model was asked and has nothing to tell."]
    return "\n".join([table(beat.found), "", *said, *kept])


def _composed(alerts: Sequence[Alert], now: datetime) -> str:
    """One message for what is to be told; of what waited it says since when."""
    texts = []
    for alert in alerts:
        is_old = now.astimezone(UTC) - alert.at.astimezone(UTC) > OLD
        texts.append(alert.text + (f"\n(noticed {time_of(alert.at, now)})" if is_old else ""))
    return "\n\n".join(texts)
