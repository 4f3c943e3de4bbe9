"""The `cron` tool: reminders and tasks for later. What the words for a time mean is worked out by code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, Protocol

from nanoclaw.core.errors import Refused, ScheduleError, ToolError
from nanoclaw.core.messages import Address, Effect, ToolExample
from nanoclaw.core.tool import Tool, ToolContext, tool
from nanoclaw.plugins.access.access import creator
from nanoclaw.plugins.schedule.jobs import CHANNEL, Job, Kind, OnMiss

CAPABILITY = "Later: set reminders and tasks with cron, never by a file or a promise."
"""What the prompt says of the schedule where it runs."""


CHANGED = "job change"
"""The kind of a effect that made no job; one that did is a "job", and can be undone."""


class Desk(Protocol):
    """Where jobs are made and changed; every method raises ScheduleError with a sentence for the person."""

    def within(self, address: Address) -> Desk: ...
    def wish(
        self, when: str, text: str, kind: Kind, at: str, on_miss: OnMiss, nag: str, target: Address, creator: str
    ) -> tuple[Job, str]: ...
    def in_short(self, job: Job) -> str: ...
    def table(self) -> str: ...
    def job(self, id_: int) -> Job: ...
    def remove(self, id_: int) -> str: ...
    def pause(self, id_: int) -> str: ...
    def resume(self, id_: int) -> str: ...
    def run(self, id_: int) -> str: ...


def schedule_tools(whole: Desk | None) -> list[Tool]:
    """Without a desk they are only to be looked at. A guest's are for the guest's own conversation."""

    async def cron(
        context: ToolContext,
        action: Literal["add", "list", "remove", "pause", "resume", "run"],
        when: Annotated[str | None, "the person's own words: 'tomorrow at 9', 'every weekday at 7:30'"] = None,
        text: Annotated[str | None, "what a reminder says, or a task's instruction"] = None,
        kind: Annotated[
            Literal["reminder", "task"], "a reminder's text is sent as it is; a task wakes you"
        ] = "reminder",
        at: Annotated[str | None, "your own reading of `when`, as ISO time, to check it"] = None,
        on_miss: Annotated[Literal["once", "skip"], "a repeat missed while off"] = "once",
        nag: Annotated[str | None, "repeat until done: '10m x6'"] = None,
        id: Annotated[int | None, "of the job; all but add and list need it"] = None,
    ) -> str:
        """Reminders and tasks for later. Tell the person the date and time from the answer."""
        assert whole
        job = _job_of(whole, context)
        target = job.target if job else context.address
        desk = whole.within(target) if context.role == "guest" else whole
        if action == "list":
            return desk.table()
        if context.origin != "person" and not (job and job.may_schedule):
            raise Refused(_NOT_ALLOWED)
        maker = job.creator if job else creator(context.address, context.sender)
        try:
            if action != "add":
                if id is None:
                    raise ToolError(f"{action} needs the job's id; list shows it. Nothing was done.")
                acts: dict[str, Callable[[int], str]] = {
                    "remove": desk.remove,
                    "pause": desk.pause,
                    "resume": desk.resume,
                    "run": desk.run,
                }
                said = acts[action](id)
                context.report(Effect("cron", CHANGED, f"job {id}", said))
                return said
            if not (when and text):
                raise ToolError("add needs when and text. Nothing was set.")
            made, said = desk.wish(when, text, kind, at or "", on_miss, nag or "", target, maker)
        except ScheduleError as error:
            raise ToolError(str(error)) from None
        context.report(Effect("cron", "job", f"job {made.id}", f"set {desk.in_short(made)}"))
        return said

    example = ToolExample(
        "remind me tomorrow at 9 to call Anna", {"action": "add", "when": "tomorrow at 9", "text": "Call Anna"}
    )
    return [replace(tool(cron, effect="workspace", examples=[example]), audit=_effect, for_guests=True)]


_NOT_ALLOWED = "a task may not make or change jobs unless the person allowed it for that task. Nothing was done."


def _job_of(desk: Desk, context: ToolContext) -> Job | None:
    """The job that runs, None where a person is answered, or where no job does."""
    return desk.job(int(context.address.chat)) if context.address.channel == CHANNEL else None


def _effect(named: dict[str, Any]) -> Effect | None:
    if named["action"] == "list":
        return None
    if named["action"] == "add":
        return Effect("cron", "job", "", f"set a {named.get('kind', 'reminder')}")
    return Effect("cron", CHANGED, "", f"{named['action']} a job")
