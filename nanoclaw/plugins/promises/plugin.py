"""The plugin: an answer that promises something for later has a job for it, or is taken back."""

from __future__ import annotations

from datetime import datetime

from nanoclaw.core.messages import UserMessage
from nanoclaw.core.plugin import Answer, Host, Plugin, TryAgain, Turn
from nanoclaw.plugins.promises.sentences import days, promised

REMARK = (
    "Your answer promises “{}”, but nothing wakes you then: no job was made. Set one with cron now (a reminder, or a "
    "task that does the work), or answer without that promise. If it promises nothing, give the same answer again."
)
NOTE = "(nanoclaw: nothing was set for “{}”.)"


class Promises(Plugin):
    name = "promises"
    needs = ("schedule",)
    migrations = ("CREATE TABLE promises_made (id INTEGER PRIMARY KEY) STRICT", "DROP TABLE promises_made")

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host

    async def before_answer(self, answer: Answer, turn: Turn) -> TryAgain | None:
        found = self._promised(answer.text, turn)
        if not found or self._has_job(turn) or self._is_set(found):
            return None
        return TryAgain(REMARK.format(found), NOTE.format(found))

    def _promised(self, answer: str, turn: Turn) -> str:
        if turn.origin != "person" or turn.role != "owner" or not turn.profile.acts or not answer.strip():
            return ""
        said = (one for one in reversed(turn.history) if isinstance(one, UserMessage) and one.origin == "person")
        found = promised(next((one.text for one in said), ""), answer, self._host.now())
        return found if found and "cron" in self._host.tools(turn.profile) else ""

    def _is_set(self, sentence: str) -> bool:
        """True if a job is due on a day of the sentence: it may tell of that."""
        schedule = self._host.get("schedule")
        now = self._host.now()
        dues = [job["due"] for job in schedule.data()["jobs"] if job["due"] and job["state"] == "active"]
        set_for = {datetime.fromisoformat(due).astimezone(now.tzinfo).date() for due in dues}
        return bool(set_for) and not set_for.isdisjoint(days(sentence, now, schedule.zone))

    def _has_job(self, turn: Turn) -> bool:
        """Tell whether a job was made or changed in a turn, or a line of the heartbeat's checklist."""
        targets = (one.target for one in turn.effects if one.state in ("begun", "done"))
        return any(target.startswith("job ") or target == "HEARTBEAT.md" for target in targets)
