"""The plugin: an answer that promises something for later has a job for it, or is taken back; /promises lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import UserMessage
from nanoclaw.core.plugin import Answer, Command, Ended, Hears, Host, Plugin, Said, TryAgain, Turn, Tx

REMARK = (
    "Your answer promises “{}”, but nothing wakes you then: no job was made. Set one with cron now (a reminder, or a "
    "task that does the work), or answer without that promise. If it promises nothing, give the same answer again."
)
NOTE = "(nanoclaw: nothing was set for “{}”.)"
LISTED = 20


class Promises(Plugin):
    name = "promises"
    hears: Mapping[str, Hears] = {"on_end": Hears(changes=True)}
    needs = ("schedule",)
    migrations = (
        """
        CREATE TABLE promises_made (
            id INTEGER PRIMARY KEY,
            at TEXT NOT NULL,
            conversation TEXT NOT NULL,
            text TEXT NOT NULL,
            job INTEGER NOT NULL
        ) STRICT;
        """,
    )
    marks = ("promises_made.at", "promises_made.conversation")

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host

    async def before_answer(self, answer: Answer, turn: Turn) -> TryAgain | None:
        found = self._promised(answer.text, turn)
        if not found or self._jobs(turn) or self._is_set(found):
            return None
        return TryAgain(REMARK.format(found), NOTE.format(found))

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        """Keep a promise with the job that was made for it."""
        jobs = self._jobs(turn)
        if jobs and ended.reason == "answered" and (found := self._promised(ended.text, turn)):
            sql = "INSERT INTO promises_made (at, conversation, text, job) VALUES (?, ?, ?, ?)"
            tx.execute(sql, turn.now().isoformat(), str(turn.conversation), found, jobs[-1])
        return None

    def _promised(self, answer: str, turn: Turn) -> str:
        if turn.origin != "person" or turn.role != "owner" or not turn.profile.acts or not answer.strip():
            return ""
        from nanoclaw.plugins.promises.sentences import promised

        said = (one for one in reversed(turn.history) if isinstance(one, UserMessage) and one.origin == "person")
        found = promised(next((one.text for one in said), ""), answer, self._host.now())
        return found if found and "cron" in self._host.tools(turn.profile) else ""

    def _is_set(self, sentence: str) -> bool:
        """True if a job is due on a day of the sentence: it may tell of that."""
        from nanoclaw.plugins.promises.sentences import days

        schedule = self._host.get("schedule")
        now = self._host.now()
        dues = [job["due"] for job in schedule.data()["jobs"] if job["due"] and job["state"] == "active"]
        set_for = {datetime.fromisoformat(due).astimezone(now.tzinfo).date() for due in dues}
        return bool(set_for) and not set_for.isdisjoint(days(sentence, now, schedule.zone))

    def _jobs(self, turn: Turn) -> list[int]:
        """Numbers of the jobs that were made in a turn, or changed in it; 0 for a line of the heartbeat's checklist."""
        done = [one for one in turn.effects if one.state in ("begun", "done")]
        jobs = [one.target.removeprefix("job ") for one in done if one.target.startswith("job ")]
        looks = [0 for one in done if one.target == "HEARTBEAT.md"]
        return [*looks, *(int(number) for number in jobs if number.isdecimal())]

    def commands(self) -> Iterable[Command]:
        return [Command("promises", "what I promised for later, and its job", self._list, part_of="jobs")]

    def _list(self, said: Said, tx: Tx) -> str:
        sql = "SELECT at, text, job FROM promises_made WHERE conversation = ? ORDER BY id DESC LIMIT ?"
        rows = self._host.read(sql, str(said.conversation), LISTED)
        lines = [f"- {at[:16].replace('T', ' ')} “{text}” ({self._state(job)})" for at, text, job in rows]
        return "\n".join(lines) or "Nothing was promised here."

    def _state(self, number: int) -> str:
        if not number:
            return "a line of HEARTBEAT.md"
        schedule = self._host.get("schedule")
        try:
            job = schedule.job(number) if schedule else None
        except NanoclawError:
            job = None
        return schedule.in_short(job) if job and job.next_due else f"job {number} is over"
