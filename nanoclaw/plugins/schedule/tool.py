"""The `cron` tool: reminders and tasks for later. What the words for a time mean is worked out by code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from nanoclaw.core.errors import Refused, ToolError
from nanoclaw.core.messages import CheckedCall, Effect, ToolExample
from nanoclaw.core.plugin import Host, Tool, Turn, Tx, Verdict
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.plugins.schedule.tables import BY_CODE, CHANGED, CHANNEL, EVERYWHERE, REMOVED

if TYPE_CHECKING:
    from nanoclaw.plugins.schedule.job_service import JobService
    from nanoclaw.plugins.schedule.jobs import Kind


def cron_tool(host: Host) -> Tool:
    """The tool of the plugin's own service, which is made when a call needs it."""

    async def cron(
        context: ToolContext,
        action: Literal["add", "list", "remove", "pause", "resume", "run"],
        when: Annotated[str | None, "the person's own words: 'tomorrow at 9', 'every weekday at 7:30'"] = None,
        text: Annotated[str | None, "what a reminder says, or a task's instruction"] = None,
        kind: Annotated[
            Literal["reminder", "task", "task_with_plan"], "a reminder's text is sent as it is; a task wakes you"
        ] = "reminder",
        on_miss: Annotated[Literal["once", "skip"], "a repeat missed while off"] = "once",
        nag: Annotated[str | None, "repeat until done: '10m x6'"] = None,
        id: Annotated[int | None, "of the job; all but add and list need it"] = None,
    ) -> str:
        """Reminders and tasks for later. Tell the person the date and time from the answer."""
        from nanoclaw.plugins.schedule import asking
        from nanoclaw.plugins.schedule.job_service import JobRequest, creator

        whole: JobService = host.get("schedule")
        job = whole.job(int(context.address.chat)) if context.address.channel == CHANNEL else None  # the one that runs
        target = job.target if job else context.address
        service = whole if context.profile in EVERYWHERE else whole.within(target)
        if action == "list":
            return service.table()
        if context.origin != "person" and not (job and job.may_schedule):
            raise Refused(_NOT_ALLOWED)
        if action == "add":
            if not text or not (when or context.answer):
                raise ToolError("add needs when and text. Nothing was set.")
            sort: Kind = "reminder" if kind == "reminder" else "task"
            now, given = host.now(), context.answer
            language, plans = context.call.partition(BY_CODE)[2][:2], kind == "task_with_plan"
            meant = asking.chosen(when or "", given, now, whole.zone, language) if given else ""
            asked = JobRequest(when or "", text, sort, meant, on_miss, nag or "", language=language, plans=plans)
            maker = job.creator if job else creator(host, context.address, context.sender)
            made, said = await context.write(lambda tx: service.add(tx, asked, target, maker))
            context.report(Effect("cron", "job", f"job {made.id}", f"set {service.in_short(made)}"))
            return said
        if id is None:
            raise ToolError(f"{action} needs the job's id; list shows it. Nothing was done.")
        act: Callable[[Tx, int], str] = getattr(service, action)
        said = await context.write(lambda tx: act(tx, id))
        context.report(Effect("cron", _kind(action), f"job {id}", said))
        return said

    async def check(call: CheckedCall, turn: Turn) -> Verdict:
        given = call.arguments
        if given["action"] != "add" or turn.origin != "person" or not given.get("text"):
            return None
        from nanoclaw.plugins.schedule import asking

        language, is_task = call.id.partition(BY_CODE)[2][:2], given.get("kind", "reminder") != "reminder"
        when, zone = str(given.get("when") or ""), host.get("schedule").zone
        return asking.judge(when, turn, zone, language=language, is_task=is_task)

    example = ToolExample(
        "remind me tomorrow at 9 to call Anna", {"action": "add", "when": "tomorrow at 9", "text": "Call Anna"}
    )
    made = tool(cron, reach="workspace", examples=[example], open_to=("person", "job", "heartbeat", "guest"))
    return made._replace(audit=_effect, atomic=True, check=check)


_NOT_ALLOWED = "a task may not make or change jobs unless the person allowed it for that task. Nothing was done."


def _effect(named: dict[str, Any]) -> Effect | None:
    if named["action"] == "list":
        return None
    if named["action"] == "add":
        return Effect("cron", "job", "", f"set a {named.get('kind', 'reminder')}")
    return Effect("cron", _kind(named["action"]), "", f"{named['action']} a job")


def _kind(action: str) -> str:
    return REMOVED if action == "remove" else CHANGED
