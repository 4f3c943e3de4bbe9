"""The plugin: what the schedule brings, and what it does with messages and turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from nanoclaw.core.errors import Refused, ToolError
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    CheckedCall,
    Effect,
    Inbound,
    ModelRequest,
    Outbound,
    ToolExample,
    ToolResult,
    UserMessage,
)
from nanoclaw.core.plugin import (
    EVERYBODY,
    Command,
    Ended,
    Finding,
    Hears,
    Host,
    Plugin,
    Profile,
    Reply,
    Said,
    Section,
    Tool,
    Turn,
    Tx,
    Verdict,
)
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.plugins.schedule import requests, tables
from nanoclaw.plugins.schedule.tables import BY_CODE, CHANNEL, MARKS, MIGRATIONS, REHEARSAL, REMOVED
from nanoclaw.silence_token import spoken

if TYPE_CHECKING:
    from nanoclaw.plugins.schedule.commands import JobCommands
    from nanoclaw.plugins.schedule.job_service import JobService
    from nanoclaw.plugins.schedule.jobs import Kind
    from nanoclaw.plugins.schedule.rehearsal import Rehearsals


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
        """List, set or cancel reminders and tasks. Tell the person the date and time from the answer."""
        from nanoclaw.plugins.schedule import asking
        from nanoclaw.plugins.schedule.job_service import JobRequest, creator

        whole: JobService = host.get("schedule")
        job = whole.job(int(context.address.chat)) if context.address.channel == CHANNEL else None  # the one that runs
        target = job.target if job else context.address
        service = whole if context.profile in tables.EVERYWHERE else whole.within(target)
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
        if turn.origin != "person" or given["action"] not in ("add", "remove"):
            return None
        from nanoclaw.plugins.schedule import asking

        if given["action"] == "remove":
            job = host.get("schedule").jobs.get(given.get("id"))
            return asking.judge_removal(job, turn) if host.model_of(turn).cuts_history else None
        if not given.get("text"):
            return None
        language, is_task = call.id.partition(BY_CODE)[2][:2], given.get("kind", "reminder") != "reminder"
        when, zone = str(given.get("when") or ""), host.get("schedule").zone
        return asking.judge(when, turn, zone, language=language, is_task=is_task)

    made = tool(cron, reach="workspace", examples=_EXAMPLES, open_to=("person", "job", "heartbeat", "guest"))
    return made._replace(audit=_effect, atomic=True, check=check)


# plain reminders are set by code: a small model that could add one did so for each "remember that …"
_EXAMPLES = (
    ToolExample("Which alarms are set?", {"action": "list"}),
    ToolExample("Cancel alarm 3", {"action": "remove", "id": 3}),
    ToolExample("Wake me on 4 May at 6", {"action": "add", "when": "4 May at 6:00", "text": "Wake up"}),
)
_NOT_ALLOWED = "a task may not make or change jobs unless the person allowed it for that task. Nothing was done."


def _effect(named: dict[str, Any]) -> Effect | None:
    if named["action"] == "list":
        return None
    if named["action"] == "add":
        return Effect("cron", "job", "", f"set a {named.get('kind', 'reminder')}")
    return Effect("cron", _kind(named["action"]), "", f"{named['action']} a job")


def _kind(action: str) -> str:
    return REMOVED if action == "remove" else tables.CHANGED


CAPABILITY = "Later: set reminders and tasks with cron, never by a file or a promise."


class Schedule(Plugin):
    """Reminders and tasks. Imports are inside methods: they are slow, and most answers need none of them."""

    name = "schedule"
    needs = ("access",)
    migrations = MIGRATIONS
    profiles = (Profile("job", "minimal", purpose="tasks", can_allow=False, words="task {}"),)
    marks = MARKS
    hears: Mapping[str, Hears] = {
        "on_end": Hears(channels=(CHANNEL, REHEARSAL)),
        "before_model": Hears(origins=("person",)),
    }
    stamp = "the profile alone"

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        self._tool = cron_tool(host)
        self._open = set[str]()  # messages that leave the time of a reminder open

    @cached_property
    def public(self) -> JobService:
        from nanoclaw.plugins.schedule.job_service import JobService

        return JobService(self._host)

    @cached_property
    def _said(self) -> JobCommands:
        from nanoclaw.plugins.schedule.commands import JobCommands

        return JobCommands(self._host, self.public)

    @cached_property
    def _rehearsals(self) -> Rehearsals:
        from nanoclaw.plugins.schedule.rehearsal import Rehearsals

        return Rehearsals(self._host, self.public)

    def tools(self) -> Iterable[Tool]:
        return [self._tool]

    def commands(self) -> Iterable[Command]:
        remind = "set a reminder: /remind tomorrow at 9: call Anna; nag 10m x6 at its end repeats it until done"
        jobs = "reminders and tasks; /jobs add [task] WHEN: TEXT; next, remove, pause, resume, run, runs, rehearse ID"
        rehearse = "what a job would send: /rehearse 3, or /rehearse 3 tomorrow at 9"
        return [
            Command("remind", remind, lambda said, tx: self._said.remind(said, tx), "time", EVERYBODY, cli=True),
            Command(
                "jobs", jobs, lambda said, tx: self._said.jobs(said, tx), "time", EVERYBODY, cli=True, also=("cron",)
            ),
            Command("rehearse", rehearse, self._rehearse, waits=True, private=True, cli=True, part_of="jobs"),
        ]

    async def _rehearse(self, said: Said) -> str:
        return await self._rehearsals.rehearse(said)

    def sections(self, query: str, profile: Profile) -> Iterable[Section]:
        is_open = profile.name in self._tool.open_to and (profile.only is None or self._tool.name in profile.only)
        return [Section("capabilities", "Capabilities", CAPABILITY if is_open else "")]

    async def check(self, deep: bool) -> Iterable[Finding]:
        from nanoclaw.plugins.schedule.loop import STALE

        if (silent_for := self.public.loop.silent_for) is None:
            return []
        stale = f"the schedule has not checked its jobs for {silent_for:.0f} s: end nanoclaw and start it again"
        is_well = silent_for <= STALE
        return [Finding(is_well, f"the schedule ticked {silent_for:.0f} s ago" if is_well else stale, self.name)]

    async def audit(self) -> Iterable[Finding]:
        rows = self._host.read("SELECT id FROM jobs WHERE kind = 'task' AND state = 'active' ORDER BY id")
        if not rows:
            return []
        text = f"tasks begin by themselves, and nobody is asked in them: {', '.join(str(row[0]) for row in rows)}"
        return [Finding(True, f"{text} (/jobs)", "tasks", risk="note")]

    async def run(self) -> None:
        await self.public.loop.run()

    def reload(self) -> None:
        self.public.loop.changed()

    def on_message(self, inbound: Inbound, tx: Tx) -> Inbound | Reply | Literal["ignore"] | None:
        if inbound.message.origin != "person" or not inbound.role or inbound.profile:  # a talk that keeps nothing
            return None
        begins = inbound.message.text.strip()[:6].lower()
        if begins.startswith(("done", "snooze", "stop")) and not inbound.message.outside:
            return self._answered(inbound, tx)
        if not requests.may_ask(inbound):
            return None
        asked = requests.read(inbound.message.text, self._host.now(), self.public.zone)
        if asked and asked.is_open:
            self._open.add(inbound.external_id)
        return Reply(self._said.asked(inbound, asked, tx)) if asked and not asked.is_open else None

    def _answered(self, inbound: Inbound, tx: Tx) -> Reply | None:
        from nanoclaw.plugins.schedule.reminders import answer

        if (said := answer(inbound, tx, self.public.jobs, self._host)) is None:
            return None
        for job in said.stopped:
            effect = Effect("stop", REMOVED, f"job {job.id}", f"Stopped: {job.name} “{job.short}”")
            self._said.record(tx, effect, inbound.conversation or inbound.address)
        tx.after(self.public.loop.changed)
        return Reply(said.text)

    async def before_model(self, request: ModelRequest, turn: Turn | None) -> AssistantMessage | None:
        """Ask about a plain request that leaves its time open, and report the result, in the model's place."""
        if turn is None or request.history != turn.history:
            return None
        told, by_code = "", False
        for one in reversed(request.history):
            if not isinstance(one, ToolResult):
                break
            if one.name == "cron":
                by_code = by_code or one.call_id.startswith(BY_CODE)
                told = one.text if one.text.startswith(requests.NOT_A_TIME) else told
        if told:
            turn.later(lambda tx: self._close(turn, told, tx, by_code=by_code))
            return AssistantMessage(requests.CLOSED, turn.now())
        if not by_code and turn.external_id not in self._open:
            return None
        self._open.discard(turn.external_id)
        return requests.instead(turn.history, turn.now(), self.public.zone)

    def _close(self, turn: Turn, told: str, tx: Tx, *, by_code: bool) -> None:
        """End a question with words that name no time: they are a message like any other. What code asked about the
        model is sent no more: a small one asks for it again."""
        id_, words = f"{turn.external_id}-instead", told.removeprefix(requests.NOT_A_TIME).rpartition("”. Nothing")[0]
        if requests.read(words, turn.now(), self.public.zone):
            self._open.add(id_)
        if by_code:
            self._host.conversations.take_back(turn.conversation, turn.id, tx)
        said = UserMessage(words, turn.now())
        tx.deliver(Inbound(turn.address, turn.sender, id_, said, role=turn.role, conversation=turn.conversation))

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        from nanoclaw.plugins.schedule import tasks

        if turn.address.channel == REHEARSAL:
            self._rehearsals.end(ended, turn, tx)
        elif found := self.public.jobs.task(turn.external_id):
            tools = self._host.tools(turn.profile)
            touched = any(call.name in tools and tools[call.name].reach == "outside" for call in turn.calls)
            tasks.end(tx, *found, self._unsent(tx, found[0].target, ended, turn), turn, self._host, touched=touched)
            tx.after(self.public.loop.changed)
        return ended._replace(outbound=None)

    def _unsent(self, tx: Tx, target: Address, ended: Ended, turn: Turn) -> Ended:
        """Leave out of an answer what a call of its task has sent to the same chat already."""
        message = self._host.get("message")
        if message is None or ended.reason != "answered":
            return ended
        files = ended.outbound.files if ended.outbound else ()
        rest = message.unsent(tx, turn, Outbound(target, spoken(ended.text), files))
        return ended._replace(text=rest.text if rest else "", outbound=rest)
