"""Beats: the loop, one beat after the other, and telling what they come to."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from nanoclaw.core.errors import NanoclawError, ScheduleError
from nanoclaw.core.messages import Address, Inbound, Outbound, UserMessage
from nanoclaw.core.plugin import Ended, Host, Turn, Tx
from nanoclaw.plugins.heartbeat.plugin import HeartbeatTimes
from nanoclaw.plugins.heartbeat.triage import ItemState, Triaged, prompt, sources, table, triage
from nanoclaw.silence_token import spoken

CHANNEL = "heartbeat"
"""The channel of the conversation in which heartbeats run."""

CONVERSATION = Address(CHANNEL, "main")

HOME = Address("terminal", "main")
"""The place to tell things when nobody has spoken anywhere."""

LONGEST_SLEEP = 300.0
"""Seconds between two looks at the clock, which somebody may set."""

SAME_FOR = timedelta(hours=24)
"""So long the same words are not told again."""

FROZEN = "Everything is frozen by /panic: no heartbeat until /resume."
RUNNING, IDLE = "A heartbeat is under way already.", "Nothing is due: no model was asked."


class Beat(NamedTuple):
    """The items that a beat looked at, and a sentence on why it asked no model, '' when it did."""

    found: Sequence[Triaged]
    silent: str


class Beats:
    """One beat at a time. What it has to tell goes out with the end of its turn."""

    sleep = staticmethod(asyncio.sleep)

    def __init__(self, host: Host, times: HeartbeatTimes) -> None:
        self._host, self._times = host, times
        self._asked: dict[str, Sequence[Triaged]] = {}  # by the message's external id
        self.reports: dict[int, str] = {}
        """Words of the model at the end of a beat, by the turn."""
        self._told = list[str]()
        self._by_hand = ""  # the last that was asked for, by the message's external id
        self.trouble = ""
        """Why the last beat that asked a model came to nothing."""
        self.is_awaited = False
        """True while somebody waits for the end of a beat, and gets its errors."""

    # --- when --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled. A beat that fails is logged, and the next one comes."""
        while due := self._times.following(self._host.now()):
            while (left := (due.astimezone(UTC) - self._host.now().astimezone(UTC)).total_seconds()) > 0:
                await self.sleep(min(left, LONGEST_SLEEP))
                due = min(due, self._times.following(self._host.now()) or due)  # the clock may be set back
            try:
                target, access = self.target(), self._host.get("access")
                await self._host.conversations.free((access.conversation_of(target) if access else None) or target)
                if self._times.is_active(self._host.now()):
                    await self.beat()
            except NanoclawError as error:
                self._host.log.error("a heartbeat failed and the next one tries again: {}", error)

    # --- a beat ------------------------------------------------------------------------------------------------------

    async def beat(self) -> Beat:
        """One now, whatever the hour. If nothing is due, it makes no model call and only saves first states."""
        if self._host.is_frozen():
            return Beat((), FROZEN)
        if self._host.records.is_waiting(CONVERSATION):
            return Beat((), RUNNING)
        found = await triage(self._host)
        keys = {one.item.key for one in found}
        looked = {one.item.key: one.state for one in found if one.state and not one.is_due}
        if looked:
            await self._host.write(lambda tx: _keep_states(tx, looked, keys))
        if not any(one.is_due for one in found):
            return Beat(found, IDLE)
        now = self._host.now()
        name = f"{_stamp(now)} {os.urandom(4).hex()}"
        message = UserMessage(prompt(found), now, "heartbeat", outside=sources(found))
        inbound = Inbound(CONVERSATION, CHANNEL, name, message, role="owner")
        self._asked = {name: found}
        await self._host.write(lambda tx: tx.deliver(inbound, self._host.profile("heartbeat")))
        return Beat(found, "")

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended:
        """Tell what a beat came to, and keep what it has seen. After a failure its items are due again."""
        found, now = self._asked.pop(turn.external_id, ()), self._host.now()
        text = news(self.reports.pop(turn.id, ended.text if ended.reason == "answered" else ""))
        if text and _is_news(tx, text, now):
            came = None if self.is_awaited or turn.external_id == self._by_hand else now
            tx.send(Outbound(self.target(), text, outside=", ".join(turn.outside), came=came), "From a heartbeat.")
            self._told.append(text)
        worked = ended.reason not in ("failed", "cancelled")
        self.trouble = "" if worked else ended.text or "It was stopped."
        if worked and found:
            states = {one.item.key: one.state for one in found if one.is_due and one.state}
            _keep_states(tx, states, {one.item.key for one in found})
        if not worked:
            is_known = ended.reason == "cancelled" or self.is_awaited
            log = self._host.log.info if is_known else self._host.log.warning
            log("a heartbeat had no result ({}): {}", ended.reason, ended.text)
        return ended._replace(outbound=None)

    # --- telling -----------------------------------------------------------------------------------------------------

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
            return _outcome(beat, ())
        self._by_hand = next(iter(self._asked), "")
        return f"{table(beat.found)}\n\nThe model has been asked; its report will follow."

    async def to_the_end(self, resume: Callable[[Callable[[Address], bool]], object]) -> str:
        """One beat to its end, in a process that serves nothing else; its result. `resume` goes on with what an earlier
        process left. Raises ScheduleError if its model gave no answer."""
        self.is_awaited = True
        resume(lambda address: address.channel == CHANNEL)
        await self._host.conversations.free(CONVERSATION)
        beat = await self.beat()
        await self._host.conversations.free(CONVERSATION)
        if not beat.silent and self.trouble:
            raise ScheduleError(f"the heartbeat had no result, and its lines stay due. {self.trouble}")
        return _outcome(beat, self._told)

    async def dry_run(self) -> str:
        """The outcome that a beat now would have. Looks at what is watched; changes nothing and asks no model."""
        found = await triage(self._host)
        if not any(one.is_due for one in found):
            return f"{table(found)}\n\nNothing is due: no model is asked."
        return f"{table(found)}\n\nThe model would be asked:\n\n{prompt(found)}"


def news(answer: str) -> str:
    """The part of an answer that is for the person; '' if each clause says that there is nothing (quiet.txt)."""
    said = spoken(answer).strip()
    quiet = "|".join(Path(__file__).with_name("quiet.txt").read_text("utf-8").splitlines())
    clauses = re.split(r"[.!;:,。！，；：、—–]\s*|\b(?:and|und|et|y|e|и)\b", said.lower().replace("’", "'"))
    return "" if all(re.fullmatch(quiet, one.strip()) for one in clauses if one.strip()) else said


def _outcome(beat: Beat, told: Sequence[str]) -> str:
    """The outcome of a beat, in words."""
    if beat.silent and not told:
        return f"{table(beat.found)}\n{beat.silent}" if beat.silent == IDLE else beat.silent
    said = [f"Told: {text}" for text in told] or ["The model was asked and has nothing to tell."]
    return "\n".join([table(beat.found), "", *said])


def _keep_states(tx: Tx, changed: Mapping[str, ItemState], keys: Collection[str]) -> None:
    """Write new states; items that are not among the `keys` are gone."""
    tx.execute("DELETE FROM checklist WHERE key NOT IN (SELECT value FROM json_each(?))", json.dumps([*keys]))
    sql = "INSERT OR REPLACE INTO checklist (key, at, sha256, seen) VALUES (?, ?, ?, ?)"
    for key, state in changed.items():
        tx.execute(sql, key, _stamp(state.at), state.sha256, state.seen)


def _is_news(tx: Tx, text: str, now: datetime) -> bool:
    """Tell whether words were not told within a day, and keep that they are told now."""
    tx.execute("DELETE FROM heartbeat_told WHERE at <= ?", _stamp(now - SAME_FOR))
    words = re.findall(r"\w+", text.casefold())  # case, spaces and punctuation make no difference
    sha256 = hashlib.sha256(" ".join(words).encode("utf-8", "replace")).hexdigest()
    sql = "INSERT OR IGNORE INTO heartbeat_told (sha256, at) VALUES (?, ?) RETURNING at"
    return bool(list(tx.execute(sql, sha256, _stamp(now))))


def _stamp(when: datetime) -> str:
    """In UTC and to the second, so that its text sorts as it does."""
    return when.astimezone(UTC).isoformat(timespec="seconds")
